//! Background agents: launched and not waited for, told of once, seen and stopped at the root.

use crate::support::model_server::{ModelServer, Part, Reply, Request, call_as, gate, prompt, say};
use crate::support::state::{history, json_file, jsonl};
use crate::support::wait::until;
use crate::support::world::World;
use crate::teammates::{send, start};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::path::PathBuf;

/// A call that launches an agent in the background.
pub fn beside(id: &str, prompt: &str, more: Value) -> Part {
    let mut input = json!({ "description": "a job", "prompt": prompt, "run_in_background": true });
    for (key, value) in more.as_object().into_iter().flatten() {
        input[key] = value.clone();
    }
    call_as(id, "Agent", input)
}

#[test]
fn a_background_agent_is_launched_at_once_and_told_of_once() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [[beside("b", "ID:child <&>", json!({}))].into(), say("I go on.").into(), say("Heard it.").into()],
    );
    server.on(prompt("ID:child"), [[gate("child"), say("It is <done> & dusted.")].into()]);
    let running = world.festoon(["-p", "ID:lead", "--output-format", "stream-json"]).start();
    server.reached("child");
    server.wait_for("ID:lead", 2);
    let launched: Value = serde_json::from_str(&server.last_of("ID:lead").result("b").0).expect("JSON");
    let id = launched["agentId"].as_str().expect("an id").to_owned();
    let output = launched["outputFile"].as_str().expect("a file").to_owned();
    assert_eq!(
        launched,
        json!({ "status": "async_launched", "agentId": id, "description": "a job", "prompt": "ID:child <&>",
                "outputFile": output, "canReadOutputFile": true, "queued": false })
    );
    let meta = world.sidechains()[0].with_extension("meta.json");
    assert_eq!(json_file(&meta)["status"], "running");
    server.open("child");
    let done = running.wait();
    done.code(0);
    assert_eq!(done.result()["result"], "Heard it.");
    server.all_played();

    let heard = server.last_of("ID:lead").mail().concat();
    let duration = regex::Regex::new(r"duration_ms: \d+").expect("a pattern");
    let heard: Vec<_> =
        heard.iter().map(|text| duration.replace(text, "duration_ms: N").into_owned()).collect();
    let total = regex::Regex::new(r"total_tokens: [1-9]\d*").expect("a pattern");
    assert!(total.is_match(&heard[0]), "{heard:?}");
    assert_eq!(
        total.replace(&heard[0], "total_tokens: N"),
        format!(
            "<task-notification>\n<task-id>{id}</task-id>\n<status>completed</status>\n<summary>Agent \"a job\" \
             completed</summary>\n<result>It is &lt;done&gt; &amp; dusted.</result>\n<output-file>{output}</output-file>\n\
             <usage>total_tokens: N\ntool_uses: 0\nduration_ms: N</usage>\n</task-notification>"
        )
    );
    assert_eq!(heard.len(), 1);
    assert_eq!(std::fs::read_to_string(PathBuf::from(output)).expect("output"), "It is <done> & dusted.\n");
    assert_eq!(json_file(&meta)["status"], "completed");
    assert_eq!(world.check_transcripts(), 2);
}

/// The id of the only agent a request has launched.
fn launched(request: &Request) -> String {
    let results = request.results();
    let found = results.iter().rev().find_map(|(_, text, _)| {
        let value: Value = serde_json::from_str(text).ok()?;
        Some(value["agentId"].as_str()?.to_owned())
    });
    found.unwrap_or_else(|| panic!("nothing was launched: {results:#?}"))
}

/// A reply that needs the id of the agent that was launched.
fn with_id(parts: impl Fn(&str) -> Vec<Part> + Send + Sync + 'static) -> Reply {
    Reply::With(Box::new(move |request| parts(&launched(request)).into()))
}

fn task(id: &str, tool: &str, task: &str, more: Value) -> Part {
    let mut input = json!({ "task_id": task });
    for (key, value) in more.as_object().into_iter().flatten() {
        input[key] = value.clone();
    }
    call_as(id, tool, input)
}

/// The record of the only background task.
fn record(world: &World) -> Value {
    let all = records(world);
    assert_eq!(all.len(), 1, "{all:#?}");
    all[0].clone()
}

pub fn records(world: &World) -> Vec<Value> {
    let session = world.sessions()[0].with_extension("");
    let entries = std::fs::read_dir(session.join("background")).expect("records");
    let mut all: Vec<Value> = entries.map(|e| json_file(&e.expect("entry").path())).collect();
    all.sort_by_key(|r| r["createdAt"].as_str().map(str::to_owned));
    all
}

/// The notifications in a conversation.
fn notifications(request: &Request) -> Vec<String> {
    request.mail().concat().into_iter().filter(|t| t.starts_with("<task-notification>")).collect()
}

#[test]
fn a_message_to_one_that_works_comes_before_its_next_round() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            [beside("b", "ID:child", json!({}))].into(),
            with_id(|id| vec![send("m", id, "Look at b too.")]),
            [gate("lead"), say("Sent.")].into(),
            say("Heard.").into(),
        ],
    );
    server.on(
        prompt("ID:child"),
        [[gate("child"), call_as("g", "Glob", json!({ "pattern": "*" }))].into(), say("Both.").into()],
    );
    let running = world.festoon(["-p", "ID:lead", "--output-format", "json"]).start();
    server.reached("child");
    server.reached("lead");
    let (sent, failed) = server.last_of("ID:lead").result("m");
    assert!(!failed && sent.contains("before its next round"), "{sent}");
    server.open("child");
    server.wait_for("ID:child", 2);
    server.open("lead");
    let done = running.wait();
    done.code(0);
    server.all_played();
    let child = server.last_of("ID:child");
    let letters = child.mail().concat();
    assert_eq!(
        letters,
        [
            "<teammate-message teammate_id=\"team-lead\" summary=\"a word\">\nLook at b too.\n</teammate-message>"
        ]
    );
    assert_eq!(notifications(&server.last_of("ID:lead")).len(), 1);
    assert_eq!(world.check_transcripts(), 2);
}

#[test]
fn a_message_that_comes_with_its_last_answer_starts_one_turn_more() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            [beside("b", "ID:child", json!({}))].into(),
            with_id(|id| vec![send("m", id, "One more thing.")]),
            [gate("lead"), say("Sent.")].into(),
            say("Heard.").into(),
        ],
    );
    server.on(
        prompt("ID:child"),
        [[say("Nearly"), gate("child"), say(" done.")].into(), say("That too.").into()],
    );
    let running = world.festoon(["-p", "ID:lead"]).start();
    server.reached("child");
    server.reached("lead");
    server.open("child");
    server.wait_for("ID:child", 2);
    server.open("lead");
    running.wait().code(0);
    server.all_played();
    let told = notifications(&server.last_of("ID:lead"));
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].contains("<result>That too.</result>"), "{}", told[0]);
    assert_eq!(world.check_transcripts(), 2);
}

#[test]
fn one_that_completed_failed_or_was_stopped_goes_on_with_a_message() {
    for how in ["completed", "failed", "cancelled"] {
        let server = ModelServer::start();
        let world = server.world();
        let end: Reply = match how {
            "completed" => say("First part.").into(),
            "failed" => Reply::status(400, "invalid_request_error", "it is too long"),
            _ => [gate("never"), say("x")].into(),
        };
        let wait = with_id(move |id| match how {
            "cancelled" => vec![gate("stop"), task("w", "TaskStop", id, json!({}))],
            _ => vec![task("w", "TaskOutput", id, json!({}))],
        });
        server.on(
            prompt("ID:lead"),
            [
                [beside("b", "ID:child", json!({}))].into(),
                wait,
                with_id(|id| vec![send("m", id, "Go on with the second.")]),
                say("It goes on.").into(),
            ],
        );
        server.always(prompt("ID:lead"), say("Heard."));
        server.on(
            prompt("ID:child"),
            [[call_as("g", "Glob", json!({ "pattern": "*" }))].into(), end, say("Second part.").into()],
        );
        let running = world.festoon(["-p", "ID:lead", "--output-format", "stream-json"]).start();
        if how == "cancelled" {
            server.reached("never");
            server.open("stop");
        }
        let done = running.wait();
        done.code(0);
        server.all_played();
        let lead = server.last_of("ID:lead");
        let id = launched(&lead);
        let (state, _) = lead.result("w");
        assert!(how == "cancelled" || state.contains(&format!("status: {how}")), "{state}");
        let (sent, failed) = lead.result("m");
        assert!(!failed && sent.starts_with(&format!("{id} was {how} and goes on")), "{how}: {sent}");
        let told = notifications(&lead);
        assert_eq!(told.len(), 2, "{how}: {told:#?}");
        assert!(told[0].contains(&format!("<status>{how}</status>")), "{how}: {}", told[0]);
        assert!(told[1].contains("<result>Second part.</result>"), "{how}: {}", told[1]);
        assert!(told.iter().all(|t| t.contains(&format!("<task-id>{id}</task-id>"))), "{how}: {told:#?}");

        // The same agent, another run; one transcript, whose history is whole.
        let child = server.last_of("ID:child");
        assert!(!child.result("g").1);
        assert_eq!(child.mail().concat().len(), 1, "{how}");
        let sidechain = world.sidechains();
        assert_eq!(sidechain.len(), 1);
        let runs: Vec<Value> = jsonl(&sidechain[0])
            .iter()
            .filter(|l| l["subtype"] == "run_started")
            .map(|l| l["data"]["runId"].clone())
            .collect();
        assert!(runs.len() == 2 && runs[0] != runs[1], "{how}: {runs:?}");
        assert_eq!(record(&world)["runId"], runs[1]);
        assert_eq!(world.check_transcripts(), 2);
        let lines = done.lines();
        let ends: Vec<&Value> = lines.iter().filter(|l| l["subtype"] == "task_notification").collect();
        let said: Vec<&Value> = ends.iter().map(|l| &l["status"]).collect();
        assert_eq!(json!(said), json!([how, "completed"]));
    }
}

#[test]
fn one_that_is_known_by_its_transcript_alone_goes_on_too() {
    let server = ModelServer::start();
    let world = server.world();
    world.file(".festoon/agents/digger.md", "---\nname: digger\ndescription: digs\n---\nYou dig.\n");
    let dig = json!({ "description": "dig", "prompt": "ID:child", "subagent_type": "digger" });
    server.on(prompt("ID:lead"), [[call_as("a", "Agent", dig)].into(), say("It found one.").into()]);
    server.on(prompt("ID:child"), [say("One.").into()]);
    world.festoon(["-p", "ID:lead"]).run().code(0);
    let text = server.last_of("ID:lead").result("a").0;
    let id =
        regex::Regex::new("agentId: (a[0-9a-f]{16})").expect("a pattern").captures(&text).expect("an id")[1]
            .to_owned();

    // Another process, and its kind is gone.
    std::fs::remove_file(world.project.join(".festoon/agents/digger.md")).expect("removes");
    server.on(
        prompt("ID:lead"),
        [[send("m", &id, "And the second?")].into(), say("Asked.").into(), say("It found two.").into()],
    );
    server.on(prompt("ID:child"), [say("Two.").into()]);
    let done = world.festoon(["-p", "Go on.", "--continue", "--output-format", "json"]).run();
    done.code(0);
    assert_eq!(done.result()["result"], "It found two.");
    server.all_played();
    let (sent, failed) = server.last_of("ID:lead").result("m");
    assert!(!failed && sent.contains("\"digger\" is gone, so it goes on as general-purpose"), "{sent}");
    let told = notifications(&server.last_of("ID:lead"));
    assert!(told.len() == 1 && told[0].contains("<result>Two.</result>"), "{told:#?}");
    assert_eq!(world.sidechains().len(), 1);
    assert_eq!(world.check_transcripts(), 2);
}

#[test]
fn agents_below_write_to_the_main_agent_and_nobody_writes_into_nothing() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            [
                start("t", "anna", "ID:anna"),
                beside("b", "ID:child", json!({})),
                send("x", "a0123456789abcdef", "Anybody?"),
                send("y", "nobody", "Anybody?"),
            ]
            .into(),
            [gate("lead"), say("Ok.")].into(),
        ],
    );
    server.always(prompt("ID:lead"), say("Heard."));
    server.on(prompt("ID:anna"), [[gate("anna"), say("Ready.")].into()]);
    server.always(prompt("ID:anna"), say("Read."));
    server.on(
        prompt("ID:child"),
        [
            [
                gate("child"),
                send("main", "main", "Half of it is done."),
                send("anna", "anna", "Anna, look."),
                send("all", "*", "Everybody, look."),
                send("none", "ben", "Ben?"),
            ]
            .into(),
            say("All of it.").into(),
        ],
    );
    let running = world.festoon(["-p", "ID:lead"]).start();
    server.reached("anna");
    server.reached("child");
    server.reached("lead");
    let lead = server.last_of("ID:lead");
    let id = launched(&lead);
    for call in ["x", "y"] {
        let (text, failed) = lead.result(call);
        let all = failed && text.contains("anna") && text.contains(&format!("{id} (a job, running)"));
        assert!(all && text.starts_with("Not sent"), "{text}");
    }
    server.open("child");
    server.wait_for("ID:child", 2);
    server.open("anna");
    server.open("lead");
    running.wait().code(0);
    let child = server.last_of("ID:child");
    assert!(!child.result("main").1 && !child.result("anna").1, "{:#?}", child.results());
    let (all, failed) = child.result("all");
    let mut lines: Vec<&str> = all.lines().filter_map(|l| l.split(':').next()).collect();
    lines.sort_unstable();
    assert!(!failed && lines == ["anna", "team-lead"], "{all}");
    let (none, failed) = child.result("none");
    assert!(failed && none.contains("These can be reached: anna, team-lead"), "{none}");
    let heard = server.last_of("ID:lead").mail().concat().join("\n");
    assert!(
        heard.contains(&format!("teammate_id=\"{id}\"")) && heard.contains("Half of it is done."),
        "{heard}"
    );
    let anna = server.last_of("ID:anna").mail().concat().join("\n");
    assert!(anna.contains("Anna, look.") && anna.contains("Everybody, look."), "{anna}");
    // Nothing was made for those who are not there.
    let inboxes = world.team().join("inboxes");
    assert!(!inboxes.join("a0123456789abcdef.json").exists() && !inboxes.join("nobody.json").exists());
}

#[test]
fn a_launch_never_waits_for_a_place_and_says_that_it_is_queued() {
    let server = ModelServer::start();
    let world = server.world();
    let ids: Vec<String> = (0..10).map(|n| format!("q{n}")).collect();
    let calls: Vec<Part> = ids.iter().map(|id| beside(id, &format!("ID:queued-{id}"), json!({}))).collect();
    server.on(prompt("ID:lead"), [calls.into(), say("All launched.").into()]);
    server.always(prompt("ID:lead"), say("Heard."));
    for id in &ids {
        let id = format!("ID:queued-{id}");
        server.on(prompt(&id), [[gate("children"), say(&id)].into()]);
    }
    let running = world.festoon(["-p", "ID:lead", "--max-agents", "2"]).start();
    // The next request is sent while nobody has ended.
    server.wait_for("ID:lead", 2);
    let results = server.last_of("ID:lead").results();
    let queued: Vec<Value> = results
        .iter()
        .map(|(_, text, _)| serde_json::from_str::<Value>(text).expect("JSON")["queued"].clone())
        .collect();
    assert_eq!(queued.iter().filter(|q| **q == json!(true)).count(), 8, "{queued:?}");
    until("two begin", || server.of("ID:queued").len() == 2);
    let states = |state: &str| records(&world).iter().filter(|r| r["state"] == state).count();
    assert_eq!((states("queued"), states("running")), (8, 2));
    server.open("children");
    running.wait().code(0);
    assert_eq!(notifications(&server.last_of("ID:lead")).len(), 10);
    assert_eq!(world.check_transcripts(), 11);
}

#[test]
fn a_nested_launch_is_told_to_its_launcher_which_waits_for_it_in_one_place() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            [call_as("a", "Agent", json!({ "description": "m", "prompt": "ID:middle" }))].into(),
            say("done").into(),
        ],
    );
    server.on(
        prompt("ID:middle"),
        [
            [beside("b", "ID:leaf", json!({}))].into(),
            say("I wait.").into(),
            say("Middle has heard leaf.").into(),
        ],
    );
    server.on(prompt("ID:leaf"), [say("Leaf.").into()]);
    // One place for all: the middle lends the leaf its own.
    world.festoon(["-p", "ID:lead", "--max-agents", "1"]).run().code(0);
    server.all_played();
    let (text, failed) = server.last_of("ID:lead").result("a");
    assert!(!failed && text.starts_with("Middle has heard leaf.\n"), "{text}");
    let told = notifications(&server.last_of("ID:middle"));
    assert!(told.len() == 1 && told[0].contains("<result>Leaf.</result>"), "{told:#?}");
    assert_eq!(notifications(&server.last_of("ID:lead")), Vec::<String>::new());
    assert_eq!(record(&world)["root"], "team-lead");
    assert_eq!(world.check_transcripts(), 3);
}

#[test]
fn what_a_task_brings_is_shown_to_its_launcher_alone() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            [start("t", "anna", "ID:anna"), beside("b", "ID:child", json!({}))].into(),
            with_id(|id| {
                vec![
                    task("now", "TaskOutput", id, json!({ "block": false })),
                    send("m", "anna", &format!("Look at {id}.")),
                    task("later", "TaskOutput", id, json!({ "timeout": 60_000 })),
                    task("none", "TaskOutput", "b0", json!({})),
                    task("mate", "TaskOutput", "anna", json!({})),
                ]
            }),
        ],
    );
    server.always(prompt("ID:lead"), say("Heard."));
    server.on(
        prompt("ID:anna"),
        [
            say("Ready.").into(),
            Reply::With(Box::new(|request| {
                let id = request.find("Look at (a[0-9a-f]{16})");
                vec![
                    task("out", "TaskOutput", &id, json!({})),
                    task("stop", "TaskStop", &id, json!({})),
                    call_as("g", "Glob", json!({ "pattern": "*" })),
                ]
                .into()
            })),
            [gate("anna"), say("Refused.")].into(),
        ],
    );
    server.on(prompt("ID:child"), [[gate("child"), say("The result.")].into()]);
    let running = world.festoon(["-p", "ID:lead"]).start();
    server.reached("anna");
    let anna = server.last_of("ID:anna");
    for call in ["out", "stop"] {
        let (text, failed) = anna.result(call);
        assert!(failed && text.contains("another agent"), "{text}");
    }
    server.open("child");
    server.open("anna");
    running.wait().code(0);
    let lead = server.last_of("ID:lead");
    let id = launched(&lead);
    assert!(lead.result("now").0.contains("status: running"), "{}", lead.result("now").0);
    let (later, failed) = lead.result("later");
    assert!(
        !failed && later.starts_with(&format!("task_id: {id}\nkind: subagent\nstatus: completed\n")),
        "{later}"
    );
    assert!(later.ends_with("\n\nThe result."), "{later}");
    let (none, failed) = lead.result("none");
    assert!(failed && none.contains("\"b0\"") && none.contains(&id), "{none}");
    assert!(lead.result("mate").0.contains("kind: in_process_teammate"), "{}", lead.result("mate").0);
    assert_eq!(notifications(&lead).len(), 1);
}

#[test]
fn a_stopped_task_ends_once_and_is_stopped_no_second_time() {
    let server = ModelServer::start();
    let world = server.world();
    let sleep = json!({ "command": "echo > up; while :; do sleep 100; done", "timeout": 600_000 });
    server.on(
        prompt("ID:lead"),
        [
            [beside("b", "ID:child", json!({}))].into(),
            Reply::With(Box::new(|request| {
                let id = launched(request);
                let stop = |call: &str| task(call, "TaskStop", &id, json!({}));
                vec![gate("lead"), stop("s1"), stop("s2"), task("o", "TaskOutput", &id, json!({}))].into()
            })),
            say("Stopped.").into(),
        ],
    );
    server.on(prompt("ID:child"), [[say("I begin."), call_as("c", "Bash", sleep)].into()]);
    let args = ["-p", "ID:lead", "--permission-mode", "bypassPermissions", "--output-format", "stream-json"];
    let running = world.festoon(args).start();
    until("the command runs", || world.project.join("up").exists());
    server.open("lead");
    let done = running.wait();
    done.code(0);
    world.all_gone();
    // Who stops a task knows of its end: it starts no turn.
    server.all_played();
    let lead = server.last_of("ID:lead");
    let id = launched(&lead);
    assert_eq!(
        lead.result("s1"),
        (
            format!("{id} is stopped. It keeps what it knows: SendMessage with to: '{id}' goes on with it."),
            false
        )
    );
    assert_eq!(lead.result("s2"), (format!("{id} has ended before: it is cancelled."), true));
    assert!(lead.result("o").0.contains("status: cancelled"), "{}", lead.result("o").0);
    let told = notifications(&lead);
    assert!(told.len() == 1 && told[0].contains("<status>cancelled</status>"), "{told:#?}");
    let record = record(&world);
    assert_eq!((&record["state"], &record["stoppedBy"]), (&json!("cancelled"), &json!("parent")));
    let lines = done.lines();
    assert_eq!(lines.iter().filter(|l| l["subtype"] == "task_notification").count(), 1);
    let started = lines.iter().filter(|l| l["subtype"] == "task_started" && l["task_id"] == id.as_str());
    assert_eq!(started.count(), 1);
    let progress = lines.iter().filter(|l| l["subtype"] == "task_progress" && l["task_id"] == id.as_str());
    assert!(progress.count() > 0);
    assert_eq!(world.check_transcripts(), 2);
}

#[test]
fn a_command_goes_on_beside_its_agent_and_is_told_of() {
    let server = ModelServer::start();
    let world = server.world();
    let build = json!({ "command": "echo one; until [ -e go ]; do sleep 0.01; done; echo two; exit 3",
                        "description": "builds", "run_in_background": true });
    let shell = |request: &Request| request.find(r"task_id: (b[0-9a-f]{16})");
    server.on(
        prompt("ID:lead"),
        [
            [call_as("b", "Bash", build)].into(),
            Reply::With(Box::new(move |request| {
                let id = shell(request);
                let look = |call: &str, block: bool| task(call, "TaskOutput", &id, json!({ "block": block }));
                vec![
                    gate("one"),
                    look("first", false),
                    look("again", false),
                    call_as("go", "Bash", json!({ "command": "touch go" })),
                    look("end", true),
                ]
                .into()
            })),
            say("Built.").into(),
        ],
    );
    server.always(prompt("ID:lead"), say("Heard."));
    let args = ["-p", "ID:lead", "--permission-mode", "bypassPermissions", "--output-format", "stream-json"];
    let running = world.festoon(args).start();
    let output = || records(&world).first().map(|r| r["outputFile"].as_str().expect("a file").to_owned());
    until("it writes", || {
        world.sessions().first().is_some_and(|s| s.with_extension("").join("background").exists())
            && output().is_some_and(|file| std::fs::read_to_string(file).is_ok_and(|t| t == "one\n"))
    });
    server.open("one");
    let done = running.wait();
    done.code(0);
    let lead = server.last_of("ID:lead");
    let (first, _) = lead.result("first");
    assert!(first.contains("kind: shell\nstatus: running") && first.ends_with("\n\none\n"), "{first}");
    assert!(lead.result("again").0.ends_with("(no new output)"), "{}", lead.result("again").0);
    let (end, _) = lead.result("end");
    assert!(end.contains("status: failed") && end.contains("\ntwo\n") && !end.contains("one"), "{end}");
    let told = notifications(&lead);
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(told[0].contains("<summary>Background command \"builds\" failed</summary>"), "{}", told[0]);
    assert!(told[0].contains("exit status 3") && told[0].contains("one\ntwo"), "{}", told[0]);
    let started = done.lines().into_iter().filter(|l| l["subtype"] == "task_started").count();
    assert_eq!(started, 1);
    world.all_gone();
}

#[test]
fn commands_end_when_they_are_stopped_and_with_their_agent() {
    let server = ModelServer::start();
    let world = server.world();
    let forever = |file: &str| {
        let command = format!(
            "(setsid sh -c 'echo > {file}; while :; do sleep 100; done' &); while :; do sleep 100; done"
        );
        json!({ "command": command, "description": file, "run_in_background": true })
    };
    let args = ["-p", "ID:lead", "--permission-mode", "bypassPermissions", "--output-format", "stream-json"];
    server.on(
        prompt("ID:lead"),
        [
            [call_as("b", "Bash", forever("lead"))].into(),
            Reply::With(Box::new(|request| {
                let id = request.find(r"task_id: (b[0-9a-f]{16})");
                vec![gate("lead"), task("s", "TaskStop", &id, json!({}))].into()
            })),
            [call_as("a", "Agent", json!({ "description": "d", "prompt": "ID:child" }))].into(),
            [gate("end"), call_as("last", "Bash", forever("last"))].into(),
            [gate("bye"), say("Done.")].into(),
        ],
    );
    server.on(
        prompt("ID:child"),
        [[call_as("c", "Bash", forever("child"))].into(), [gate("child"), say("Up.")].into()],
    );
    let up = |file: &str| until(&format!("{file} is up"), || world.project.join(file).exists());
    let running = world.festoon(args).start();
    up("lead");
    server.open("lead");
    up("child");
    server.open("child");
    server.reached("end");
    // The one was stopped, the other ended with its agent.
    until("both are gone", || world.living().len() == 1);
    server.open("end");
    up("last");
    server.open("bye");
    // A command keeps no run alive, and ends with it, which is said.
    let done = running.wait();
    done.code(0);
    world.all_gone();
    server.all_played();
    let lead = server.last_of("ID:lead");
    let told = notifications(&lead);
    assert!(told.len() == 1 && told[0].contains("<status>cancelled</status>"), "{told:#?}");
    let all = records(&world);
    let ends: Vec<(&Value, &Value)> = all.iter().map(|r| (&r["state"], &r["stoppedBy"])).collect();
    let expected = ["parent", "agent_end", "session_end"].map(|by| (json!("cancelled"), json!(by)));
    assert_eq!(json!(ends), json!(expected));
    let (id, file) =
        (all[2]["taskId"].as_str().expect("an id"), all[2]["outputFile"].as_str().expect("a file"));
    let said =
        format!("the background command \"last\" ({id}) was ended with the session; its output: {file}");
    assert_eq!(done.stderr, format!("warning: {said}\n"));
    let lines = done.lines();
    let told = lines.iter().filter(|l| l["subtype"] == "task_notification" && l["task_id"] == id);
    assert_eq!(told.map(|line| line["status"].clone()).collect::<Vec<_>>(), ["cancelled"]);
    let transcript = world.transcript();
    let noted: Vec<&Value> = transcript.iter().filter(|line| line["text"] == said).collect();
    assert_eq!(noted.len(), 1, "{transcript:#?}");
    assert_eq!(noted[0]["data"]["status"], "cancelled");
}

#[test]
fn a_setting_turns_background_work_off_and_says_so() {
    let server = ModelServer::start();
    let world = server.world();
    world.file(".festoon/agents/bg.md", "---\nname: bg\ndescription: d\nbackground: true\n---\nYou work.\n");
    let kind = json!({ "description": "d", "prompt": "ID:child", "subagent_type": "bg" });
    server.on(
        prompt("ID:lead"),
        [
            [
                beside("b", "ID:never", json!({})),
                call_as("s", "Bash", json!({ "command": "echo never > never", "run_in_background": true })),
                call_as("d", "Agent", kind.clone()),
            ]
            .into(),
            say("ok").into(),
        ],
    );
    server.on(prompt("ID:child"), [say("Done now.").into()]);
    let args =
        ["-p", "ID:lead", "--permission-mode", "bypassPermissions", "--settings", "{\"background\":false}"];
    world.festoon(args).run().code(0);
    let lead = server.last_of("ID:lead");
    for call in ["b", "s"] {
        let (text, failed) = lead.result(call);
        assert!(failed && text.contains("the setting `background`"), "{text}");
    }
    assert!(lead.result("d").0.starts_with("Done now.\n"), "{}", lead.result("d").0);
    assert!(!lead.tools().contains(&"TaskOutput") && !lead.tools().contains(&"TaskStop"));
    let tools = lead.body["tools"].as_array().expect("tools");
    let agent = tools.iter().find(|t| t["name"] == "Agent").expect("the tool");
    assert!(agent["input_schema"]["properties"]["run_in_background"].is_null());
    assert!(!world.project.join("never").exists());

    // Where it is not turned off, the kind decides unless the call does.
    server.on(
        prompt("ID:again"),
        [[
            call_as("d", "Agent", kind.clone()),
            call_as("n", "Agent", {
                let mut input = kind.clone();
                input["run_in_background"] = json!(false);
                input
            }),
        ]
        .into()],
    );
    server.always(prompt("ID:again"), say("ok"));
    server.always(prompt("ID:child"), say("Done."));
    world.festoon(["-p", "ID:again"]).run().code(0);
    let lead = server.last_of("ID:again");
    assert!(lead.result("d").0.contains("async_launched"), "{}", lead.result("d").0);
    assert!(lead.result("n").0.starts_with("Done.\n"), "{}", lead.result("n").0);
}

#[test]
fn a_name_reaches_a_background_agent_where_no_teammate_can_have_it() {
    let server = ModelServer::start();
    let world = server.world();
    let named = |id: &str, name: &str| beside(id, "ID:child", json!({ "name": name }));
    server.on(
        prompt("ID:lead"),
        [
            [named("b", "digger"), named("twice", "digger"), named("bad", "team-lead")].into(),
            [gate("lead"), send("m", "digger", "Deeper.")].into(),
            say("Sent.").into(),
        ],
    );
    server.always(prompt("ID:lead"), say("Heard."));
    server.on(prompt("ID:child"), [[gate("child"), call_as("g", "Glob", json!({ "pattern": "*" }))].into()]);
    server.always(prompt("ID:child"), say("Deep."));
    let running = world.festoon(["-p", "ID:lead", "--settings", "{\"teams\":false}"]).start();
    server.reached("child");
    server.reached("lead");
    server.open("lead");
    server.wait_for("ID:lead", 3);
    server.open("child");
    running.wait().code(0);
    let lead = server.last_of("ID:lead");
    // The two run side by side: one of them was first.
    let both = ["b", "twice"].map(|call| lead.result(call));
    let refused: Vec<&String> = both.iter().filter(|(_, failed)| *failed).map(|(text, _)| text).collect();
    assert!(refused.len() == 1 && refused[0].contains("named digger"), "{both:?}");
    assert!(lead.result("bad").1, "{:?}", lead.result("bad"));
    assert!(!lead.result("m").1, "{:?}", lead.result("m"));
    assert!(server.last_of("ID:child").mail().concat().join("\n").contains("Deeper."));
    assert_eq!(world.sidechains().len(), 1);
    let meta = json_file(&world.sidechains()[0].with_extension("meta.json"));
    assert_eq!(meta["name"], "digger");
}

#[test]
fn background_agents_have_their_list_of_tools_and_nobody_to_ask_means_no() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [[beside("b", "ID:child", json!({}))].into(), say("On.").into(), say("Heard.").into()],
    );
    server.on(
        prompt("ID:child"),
        [[call_as("c", "Bash", json!({ "command": "touch it" }))].into(), say("It was not allowed.").into()],
    );
    let done = world.festoon(["-p", "ID:lead", "--output-format", "json"]).run();
    done.code(5);
    assert_eq!(done.result()["permission_denials"].as_array().map(Vec::len), Some(1));
    let child = server.last_of("ID:child");
    let (text, failed) = child.result("c");
    assert!(failed && text.contains("nobody is there to answer"), "{text}");
    for tool in ["Read", "Bash", "Agent", "SendMessage", "TaskStop"] {
        assert!(child.tools().contains(&tool), "{:?}", child.tools());
    }
    for tool in ["TaskOutput", "TaskCreate", "AskUserQuestion", "EnterPlanMode"] {
        assert!(!child.tools().contains(&tool), "{:?}", child.tools());
    }
}

#[test]
fn a_run_that_waits_no_longer_leaves_them_to_be_gone_on_with() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [[beside("b", "ID:child", json!({}))].into(), say("On.").into()]);
    server.on(prompt("ID:child"), [[gate("never"), say("x")].into()]);
    world.festoon(["-p", "ID:lead", "--wait", "0"]).run().code(0);
    let ended = record(&world);
    assert_eq!((&ended["state"], &ended["stoppedBy"]), (&json!("cancelled"), &json!("session_end")));
    let id = launched(&server.last_of("ID:lead"));
    server.on(
        prompt("ID:lead"),
        [[send("m", &id, "Go on.")].into(), say("Asked.").into(), say("Heard.").into()],
    );
    server.on(prompt("ID:child"), [say("I did.").into()]);
    world.festoon(["-p", "Go on.", "--continue"]).run().code(0);
    let told = notifications(&server.last_of("ID:lead"));
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(told[0].contains("was stopped: its session ended"), "{}", told[0]);
    assert!(told[1].contains("<result>I did.</result>"), "{}", told[1]);
    assert_eq!(world.check_transcripts(), 2);
}

#[test]
fn an_interrupted_turn_leaves_background_agents_alone_and_no_run_ends_over_them() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [[start("t", "anna", "ID:anna")].into(), say("On.").into()]);
    server.always(prompt("ID:lead"), say("Heard."));
    server.on(
        prompt("ID:anna"),
        [
            [beside("b", "ID:child", json!({}))].into(),
            [gate("anna"), say("never heard")].into(),
            say("The child has ended.").into(),
        ],
    );
    server.on(prompt("ID:child"), [[gate("child"), say("I lived.")].into()]);
    let args = ["-p", "ID:lead", "--teammate-mode", "process", "--output-format", "json"];
    let running = world.festoon(args).start();
    server.reached("child");
    server.reached("anna");
    let anna = || json_file(&world.team().join("run/anna.json"));
    let pid = i32::try_from(anna()["pid"].as_u64().expect("a pid")).expect("a pid");
    kill(Pid::from_raw(pid), Signal::SIGINT).expect("it runs");
    until("she is idle", || anna()["state"] == "idle");
    assert_eq!(anna()["background"], 1);
    // The leader has nothing to do, and waits for what works below her.
    server.wait_for("ID:lead", 2);
    server.open("child");
    let done = running.wait();
    done.code(0);
    let told = notifications(&server.last_of("ID:anna"));
    assert!(told.len() == 1 && told[0].contains("I lived."), "{told:#?}");
    let heard = server.last_of("ID:lead").mail().concat().join("\n");
    assert!(heard.contains("The child has ended."), "{heard}");
    assert_eq!(record(&world)["root"], "anna");
    assert_eq!(world.check_cut_transcripts(), 3);
}

#[test]
fn after_a_kill_what_was_at_work_is_told_once_and_goes_on_and_what_had_ended_is_told_once() {
    let server = ModelServer::start();
    let world = server.world();
    let ids = ["one", "two", "three"];
    let calls: Vec<Part> = ids.iter().map(|id| beside(id, &format!("ID:{id}"), json!({}))).collect();
    server.on(
        prompt("ID:lead"),
        [
            calls.into(),
            [beside("quick", "ID:quick", json!({}))].into(),
            [gate("lead"), say("never heard")].into(),
        ],
    );
    for id in ids {
        server.on(
            prompt(&format!("ID:{id}")),
            [
                [say("I begin."), call_as("g", "Glob", json!({ "pattern": "*" }))].into(),
                [gate("never"), say("x")].into(),
            ],
        );
    }
    server.on(prompt("ID:quick"), [say("Quick.").into()]);
    let running = world.festoon(["-p", "ID:lead"]).start();
    for id in ids {
        server.wait_for(&format!("ID:{id}"), 2);
    }
    server.reached("lead");
    let over = || records(&world).iter().filter(|r| r["state"] == "completed").count();
    until("the quick one has ended", || over() == 1);
    until("its notification is stored", || {
        records(&world).iter().any(|r| r["notification"]["announced"] == true)
    });
    running.signal(Signal::SIGKILL);
    running.wait();
    world.all_gone();

    let launched: Vec<String> = records(&world)
        .iter()
        .filter(|r| r["state"] == "running")
        .map(|r| r["taskId"].as_str().expect("an id").to_owned())
        .collect();
    assert_eq!(launched.len(), 3);
    let messages: Vec<Part> = launched.iter().map(|id| send(&format!("m{id}"), id, "Go on.")).collect();
    server.on(prompt("ID:lead"), [messages.into()]);
    server.always(prompt("ID:lead"), say("Heard."));
    for id in ids {
        server.on(prompt(&format!("ID:{id}")), [[say("Went on: "), say(id)].into()]);
    }
    let done = world.festoon(["-p", "Go on.", "--continue", "--output-format", "json"]).run();
    done.code(0);
    // What the person is told.
    assert_eq!(done.stderr.matches("was interrupted").count(), 3, "{}", done.stderr);
    let told = notifications(&server.last_of("ID:lead"));
    let count = |text: &str| told.iter().filter(|t| t.contains(text)).count();
    assert_eq!(
        (told.len(), count("interrupted: the process"), count("Quick."), count("Went on:")),
        (7, 3, 1, 3),
        "{told:#?}"
    );
    for id in ids {
        let child = server.last_of(&format!("ID:{id}"));
        assert!(!child.result("g").1);
        assert_eq!(child.mail().concat().len(), 1);
    }
    assert_eq!(world.check_transcripts(), 5);

    // Nothing of it comes again.
    let before = server.last_of("ID:lead").messages().len();
    let done = world.festoon(["-p", "Once more.", "--continue"]).run();
    done.code(0);
    assert_eq!(done.stderr, "");
    assert_eq!(server.last_of("ID:lead").messages().len(), before + 2);
    assert_eq!(world.check_transcripts(), 5);
}

#[test]
fn a_child_that_ends_with_its_parents_last_answer_is_told_of_every_time() {
    // Two hundred turns of one session, each with a child that ends a little before or after its parent's
    // answer: no turn is waited for by anything but the end of the child.
    const TURNS: u32 = 200;
    let world = World::new();
    let mut rules = String::new();
    for turn in 0..TURNS {
        let (parent, child) = (turn % 7, turn * 3 % 8);
        rules += &format!(
            "[[rule]]\nagent = \"team-lead\"\ncontains = \"turn {turn}.\"\nreply = [{{ tool = \"Agent\", input = {{ description = \
             \"c\", prompt = \"child {turn}.\", run_in_background = true }} }}]\n\n\
             [[rule]]\nagent = \"team-lead\"\ncontains = \"child {turn}.\\\",\"\nreply = [{{ delay-ms = {parent} }}, {{ text = \"waiting\" }}]\n\n\
             [[rule]]\nagent = \"general-purpose\"\nprompt = \"child {turn}.\"\nreply = [{{ delay-ms = {child} }}, {{ text = \"end {turn}.\" }}]\n\n"
        );
    }
    rules += "[[rule]]\nagent = \"team-lead\"\ncontains = \"task-notification\"\ntimes = \"always\"\nreply = [{ text = \"heard\" }]\n\n\
              [[rule]]\nagent = \"team-lead\"\ntimes = \"always\"\nreply = [{ text = \"waiting\" }]\n";
    let model = world.script(&rules);
    let input: String = (0..TURNS).map(|turn| format!("turn {turn}.\n")).collect();
    let total = (TURNS + 1).to_string();
    let args = ["--model", &model, "--max-agents-total", &total];
    world.festoon(args).stdin(input).run().code(0);
    let lines = world.transcript();
    let told: Vec<String> = history(&lines)
        .iter()
        .flat_map(|m| m["content"].as_array().cloned().unwrap_or_default())
        .filter_map(|b| b["text"].as_str().map(str::to_owned))
        .filter(|t| t.starts_with("<task-notification>"))
        .collect();
    let once =
        |turn: u32| told.iter().filter(|t| t.contains(&format!("<result>end {turn}.</result>"))).count();
    let missing: Vec<u32> = (0..TURNS).filter(|turn| once(*turn) != 1).collect();
    assert_eq!((told.len(), missing), (TURNS as usize, Vec::new()));
    world.check_transcripts();
}

/// The rows of `ps`, once `ready` holds.
fn rows(world: &World, ready: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let mut rows = Vec::new();
    until("ps shows it", || {
        let done = world.festoon(["ps", "--json"]).run();
        rows = done.code(0).json().as_array().expect("rows").clone();
        ready(&rows)
    });
    rows
}

#[test]
fn whoever_looks_sees_background_agents_and_what_their_state_rests_on() {
    let server = ModelServer::start();
    let world = server.world();
    let anna =
        || call_as("anna", "Agent", json!({ "name": "anna", "description": "m", "prompt": "ID:anna" }));
    server.on(
        prompt("ID:lead"),
        [
            [beside("b", "ID:child", json!({})), anna()].into(),
            say("I go on.").into(),
            say("Heard.").into(),
            say("Too.").into(),
        ],
    );
    server.on(
        prompt("ID:anna"),
        [[beside("c", "ID:low", json!({}))].into(), say("So do I.").into(), say("Ah.").into()],
    );
    server.on(prompt("ID:child"), [[gate("child"), say("Done.")].into()]);
    server.on(prompt("ID:low"), [[gate("low"), say("Low.")].into()]);
    let mut running = world.festoon(["-p", "ID:lead", "--output-format", "stream-json"]).start();
    server.reached("child");
    server.reached("low");
    let found = rows(&world, |rows| rows.len() == 4 && rows[1]["state"] == "idle");
    let team = found[0]["team"].clone();
    let model = found[0]["model"].clone();
    let child = |row: &Value, parent: &str, root: &str| {
        let mut row = row.clone();
        assert!(row["since"].as_str().is_some_and(|at| at.ends_with('Z')), "{row}");
        let id = row["agentId"].clone();
        assert!(id.as_str().is_some_and(|id| id.starts_with('a') && id.len() == 17), "{row}");
        row["since"] = Value::Null;
        let evidence = format!("pid {} of {root} running", running.pid());
        let expected = json!({ "agentId": id, "name": id, "team": team, "type": "general-purpose", "backend": "in-process",
                               "state": "working", "evidence": evidence, "model": model, "task": "a job", "tokens": 0,
                               "cost": 0.0, "since": null, "pid": running.pid(), "paneId": null,
                               "parentAgentId": format!("{parent}@{}", team.as_str().expect("a team")) });
        assert_eq!(row, expected);
        id.as_str().expect("an id").to_owned()
    };
    let id = child(&found[2], "team-lead", "team-lead");
    let low = child(&found[3], "anna", "anna");
    let shown = world.festoon(["ps"]).run();
    let lines: Vec<&str> = shown.code(0).stdout.lines().collect();
    let at = |what: &str| lines.iter().position(|line| line.trim_start().starts_with(what)).expect("a line");
    assert_eq!(at(&format!("└ {id}")), at("team-lead") + 1, "{lines:#?}");
    assert_eq!(at(&format!("└ {low}")), at("anna") + 1, "{lines:#?}");

    kill(Pid::from_raw(i32::try_from(running.pid()).expect("pid")), Signal::SIGKILL).expect("it runs");
    drop(running.stdin.take());
    let pid = running.pid();
    drop(running);
    let gone = rows(&world, |rows| rows.iter().all(|row| row["state"] == "lost"));
    let evidence: Vec<&str> = gone[2..].iter().filter_map(|row| row["evidence"].as_str()).collect();
    assert_eq!(evidence, [format!("pid {pid} of team-lead gone"), format!("pid {pid} of anna gone")]);
}

#[test]
fn a_look_at_a_task_ends_in_time_also_when_the_task_has_the_place_of_who_looks() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [[start("t", "anna", "ID:anna")].into()]);
    server.always(prompt("ID:lead"), say("Ok."));
    server.on(
        prompt("ID:anna"),
        [
            [beside("b", "ID:child", json!({}))].into(),
            with_id(|id| vec![task("w", "TaskOutput", id, json!({ "timeout": 200 }))]),
            say("It is at work.").into(),
        ],
    );
    server.always(prompt("ID:anna"), say("Heard."));
    server.on(prompt("ID:child"), [[gate("child"), say("Done.")].into()]);
    // One place: it is anna's, and she lends it to the child while she looks.
    let running = world.festoon(["-p", "ID:lead", "--max-agents", "1"]).start();
    server.reached("child");
    server.wait_for("ID:anna", 3);
    let (text, failed) = server.last_of("ID:anna").result("w");
    assert!(!failed && text.contains("status: running"), "{text}");
    server.open("child");
    running.wait().code(0);
    assert_eq!(notifications(&server.last_of("ID:anna")).len(), 1);
}
