//! Tool calls of a whole session: every tool, several in one message, results in the order of the calls.

use crate::support::model_server::{ModelServer, Part, call_as, gate, prompt, say};
use crate::support::world::World;
use serde_json::{Value, json};

const FREE: [&str; 2] = ["--permission-mode", "bypassPermissions"];

/// One message with these calls; returns what each of them answered.
fn calls(server: &ModelServer, world: &World, calls: &[(&str, &str, Value)]) -> Vec<(String, String, bool)> {
    let parts: Vec<Part> = calls.iter().map(|(id, name, input)| call_as(id, name, input.clone())).collect();
    server.on(prompt("ID:tools"), [parts.into(), say("done").into()]);
    world.festoon(["-p", "ID:tools"]).args(FREE).run().code(0);
    server.all_played();
    world.check_transcripts();
    server.last_of("ID:tools").results()
}

#[test]
fn all_tools_in_one_message_answer_in_the_order_of_the_calls() {
    let server = ModelServer::start();
    let world = server.world();
    world.file("src/a.rs", "fn a() {}\nfn b() {}\n");
    world.file("src/b.rs", "fn c() {}\n");
    let path = |name: &str| world.project.join(name).display().to_string();
    let results = calls(
        &server,
        &world,
        &[
            ("grep", "Grep", json!({ "pattern": "fn [ac]", "output_mode": "content", "-n": true })),
            ("glob", "Glob", json!({ "pattern": "**/*.rs" })),
            ("read", "Read", json!({ "file_path": "src/a.rs", "offset": 2, "limit": 1 })),
            ("write", "Write", json!({ "file_path": path("new/file.txt"), "content": "made\n" })),
            (
                "edit",
                "Edit",
                json!({ "file_path": path("src/a.rs"), "old_string": "fn b", "new_string": "fn z" }),
            ),
            (
                "bash",
                "Bash",
                json!({ "command": "cat new/file.txt; echo err >&2; pwd", "description": "look" }),
            ),
            ("gone", "Read", json!({ "file_path": "no/such" })),
            ("fails", "Bash", json!({ "command": "echo out; exit 7" })),
        ],
    );
    let ids: Vec<&str> = results.iter().map(|(id, _, _)| id.as_str()).collect();
    assert_eq!(ids, ["grep", "glob", "read", "write", "edit", "bash", "gone", "fails"]);
    let failed: Vec<&str> = results.iter().filter(|(_, _, e)| *e).map(|(id, _, _)| id.as_str()).collect();
    assert_eq!(failed, ["gone", "fails"]);
    let text =
        |id: &str| results.iter().find(|(i, _, _)| i == id).map(|(_, t, _)| t.as_str()).expect("there");
    assert_eq!(text("grep"), "src/a.rs:1:fn a() {}\nsrc/b.rs:1:fn c() {}");
    let mut found: Vec<&str> = text("glob").lines().collect();
    found.sort_unstable();
    assert_eq!(found.len(), 2);
    assert!(found[0].ends_with("src/a.rs") && found[1].ends_with("src/b.rs"), "{found:?}");
    assert!(text("read").starts_with("     2\tfn b() {}"), "{}", text("read"));
    assert_eq!(world.read("new/file.txt"), "made\n");
    assert_eq!(world.read("src/a.rs"), "fn a() {}\nfn z() {}\n");
    assert!(text("bash").contains("made\n") && text("bash").contains("err"), "{}", text("bash"));
    assert!(text("bash").contains(&world.project.display().to_string()), "{}", text("bash"));
    assert!(text("gone").contains("no/such"), "{}", text("gone"));
    assert!(text("fails").contains("out") && text("fails").contains('7'), "{}", text("fails"));
}

#[test]
fn calls_that_change_something_run_one_after_the_other() {
    let server = ModelServer::start();
    let world = server.world();
    // Each command would fail, were another one running beside it.
    let command = "mkdir lock && sleep 0.02 && echo $N >> order && rmdir lock";
    let all: Vec<(String, String)> =
        (0..6).map(|n| (format!("c{n}"), command.replace("$N", &n.to_string()))).collect();
    let given: Vec<(&str, &str, Value)> =
        all.iter().map(|(id, command)| (id.as_str(), "Bash", json!({ "command": command }))).collect();
    let results = calls(&server, &world, &given);
    assert!(results.iter().all(|(_, _, failed)| !failed), "{results:#?}");
    assert_eq!(world.read("order"), "0\n1\n2\n3\n4\n5\n");
}

#[test]
fn an_edit_needs_a_look_and_an_unchanged_file() {
    let server = ModelServer::start();
    let world = server.world();
    world.file("a.txt", "one\n");
    let edit = |id: &str| {
        call_as(id, "Edit", json!({ "file_path": "a.txt", "old_string": "one", "new_string": "two" }))
    };
    server.on(
        prompt("ID:edit"),
        [
            edit("blind").into(),
            call_as("look", "Read", json!({ "file_path": "a.txt" })).into(),
            call_as("behind", "Bash", json!({ "command": "printf 'one\\nmore\\n' > a.txt" })).into(),
            edit("stale").into(),
            call_as("again", "Read", json!({ "file_path": "a.txt" })).into(),
            edit("good").into(),
            say("done").into(),
        ],
    );
    world.festoon(["-p", "ID:edit"]).args(FREE).run().code(0);
    let last = server.last_of("ID:edit");
    let failed = |id: &str| last.result(id).1;
    assert_eq!(["blind", "stale", "good"].map(failed), [true, true, false]);
    assert_eq!(world.read("a.txt"), "two\nmore\n");
}

#[test]
fn calls_that_cannot_be_run_are_answered_so_that_a_model_can_act() {
    let server = ModelServer::start();
    let world = server.world();
    let broken =
        |id: &str, input: &str| Part::Call { name: "Read".into(), input: input.into(), id: Some(id.into()) };
    server.on(
        prompt("ID:wrong"),
        [
            [
                call_as("unknown", "Teleport", json!({ "to": "mars" })),
                call_as("missing", "Read", json!({ "path": "a" })),
                call_as("type", "Bash", json!({ "command": 7 })),
                broken("cut", "{\"file_path\": \"a.t"),
                broken("list", "[1]"),
                broken("empty", ""),
            ]
            .into(),
            say("done").into(),
        ],
    );
    world.festoon(["-p", "ID:wrong"]).run().code(0);
    let last = server.last_of("ID:wrong");
    let results = last.results();
    assert_eq!(results.len(), 6);
    assert!(results.iter().all(|(_, _, failed)| *failed), "{results:#?}");
    let says = [
        ("unknown", "Teleport"),
        ("unknown", "Bash"),
        ("missing", "file_path"),
        ("type", "command"),
        ("cut", "not a JSON object"),
        ("list", "not a JSON object"),
        ("empty", "file_path"),
    ];
    for (id, word) in says {
        assert!(last.result(id).0.contains(word), "{id}: {}", last.result(id).0);
    }
    assert_eq!(world.check_transcripts(), 1);
}

#[test]
fn a_long_result_is_cut_and_kept_whole_in_a_file_that_can_be_read() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:long"),
        [
            call_as("long", "Bash", json!({ "command": "for i in $(seq 1 20000); do echo line $i; done" }))
                .into(),
            crate::support::model_server::Reply::with(|request| {
                let file = request.find(r"(/[^\s]+/output/[^\s]+)");
                call_as("rest", "Read", json!({ "file_path": file, "offset": 19_999, "limit": 2 })).into()
            }),
            say("done").into(),
        ],
    );
    world.festoon(["-p", "ID:long"]).args(FREE).run().code(0);
    let last = server.last_of("ID:long");
    let (text, failed) = last.result("long");
    assert!(!failed && text.chars().count() < 31_000, "{}", text.len());
    let (rest, failed) = last.result("rest");
    assert!(!failed && rest.contains("line 19999") && rest.contains("line 20000"), "{rest}");
}

#[test]
fn safe_calls_run_together_but_at_most_ten() {
    let server = ModelServer::start();
    let world = server.world();
    let parts: Vec<Part> = (0..12)
        .map(|n| {
            let input = json!({ "description": "wait", "prompt": format!("ID:child-{n:02}") });
            call_as(&format!("a{n:02}"), "Agent", input)
        })
        .collect();
    server.on(prompt("ID:many"), [parts.into(), say("done").into()]);
    for n in 0..12 {
        let id = format!("ID:child-{n:02}");
        server.on(prompt(&id), [[gate(&id), say(&format!("I am {n}."))].into()]);
    }
    let running = world.festoon(["-p", "ID:many"]).start();
    for n in 0..10 {
        server.reached(&format!("ID:child-{n:02}"));
    }
    assert_eq!(server.of("ID:child").len(), 10);
    // A place that is given back is taken by the next.
    server.open("ID:child-03");
    server.reached("ID:child-10");
    for n in 0..12 {
        server.open(&format!("ID:child-{n:02}"));
    }
    running.wait().code(0);
    let results = server.last_of("ID:many").results();
    let firsts: Vec<String> =
        results.iter().map(|(_, text, _)| text.lines().next().expect("text").to_owned()).collect();
    assert_eq!(firsts, (0..12).map(|n| format!("I am {n}.")).collect::<Vec<_>>());
}

#[test]
fn output_of_any_kind_is_a_result_that_can_be_sent() {
    let server = ModelServer::start();
    let world = server.world();
    std::fs::write(world.project.join("binary"), [0, 159, 146, 150, 255, 10]).expect("file");
    world.file("empty", "");
    let results = calls(
        &server,
        &world,
        &[
            ("nothing", "Bash", json!({ "command": "true" })),
            ("silent", "Bash", json!({ "command": "exit 3" })),
            ("blank", "Bash", json!({ "command": "printf '  \\n'; exit 1" })),
            ("bytes", "Bash", json!({ "command": "printf 'a\\377\\376b\\033[31m\\000c'" })),
            ("binary", "Read", json!({ "file_path": "binary" })),
            ("empty", "Read", json!({ "file_path": "empty" })),
            ("dir", "Read", json!({ "file_path": "." })),
            ("fifo", "Bash", json!({ "command": "mkfifo pipe" })),
            ("pipe", "Read", json!({ "file_path": "pipe" })),
            ("none", "Grep", json!({ "pattern": "no such text" })),
            ("noglob", "Glob", json!({ "pattern": "*.none" })),
            ("bad", "Grep", json!({ "pattern": "(" })),
        ],
    );
    let failed: Vec<&str> = results.iter().filter(|(_, _, e)| *e).map(|(id, _, _)| id.as_str()).collect();
    for id in ["silent", "blank", "dir", "pipe", "bad"] {
        assert!(failed.contains(&id), "{id}: {results:#?}");
    }
    assert!(!failed.contains(&"nothing") && !failed.contains(&"none"), "{failed:?}");
    let bytes = results.iter().find(|(id, _, _)| id == "bytes").map(|(_, t, _)| t.clone()).expect("there");
    assert!(bytes.starts_with('a') && bytes.contains('\u{fffd}') && bytes.contains('b'), "{bytes:?}");
}
