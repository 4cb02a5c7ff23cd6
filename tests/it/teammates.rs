//! Teammates in the leader's process: started, heard, written to, ended with the run.

use crate::support::model_server::{ModelServer, Part, Reply, call_as, gate, prompt, say};
use crate::support::state::json_file;
use crate::support::wait;
use crate::support::world::World;
use serde_json::{Value, json};

pub fn start(id: &str, name: &str, prompt: &str) -> Part {
    call_as(id, "Agent", json!({ "description": "a job", "prompt": prompt, "name": name }))
}

pub fn send(id: &str, to: &str, message: &str) -> Part {
    call_as(id, "SendMessage", json!({ "to": to, "message": message, "summary": "a word" }))
}

/// The text of an idle notice with a result.
fn report(name: &str, color: &str, text: &str) -> String {
    format!(
        "<teammate-message teammate_id=\"{name}\" color=\"{color}\" summary=\"{text}\">\n{name} is idle.\n{text}\n</teammate-message>"
    )
}

/// A message of [`send`].
fn letter(name: &str, color: &str, text: &str) -> String {
    format!(
        "<teammate-message teammate_id=\"{name}\" color=\"{color}\" summary=\"a word\">\n{text}\n</teammate-message>"
    )
}

fn event_names(world: &World, agent: &str) -> Vec<String> {
    let events = world.events().into_iter().filter(|e| e["agent"] == agent);
    events.map(|e| e["event"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_teammate_reports_and_the_leader_is_woken_once() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            [say("I ask Anna."), start("a", "Anna", "ID:anna")].into(),
            say("Waiting.").into(),
            say("Anna found three.").into(),
        ],
    );
    server.on(prompt("ID:anna"), [[gate("anna"), say("Three of them.")].into()]);
    let running = world.festoon(["-p", "ID:lead", "--output-format", "stream-json"]).start();
    server.wait_for("ID:lead", 2);
    server.open("anna");
    let done = running.wait();
    done.code(0);
    assert_eq!(done.stderr, "");
    server.all_played();

    let result = done.result();
    assert_eq!((&result["result"], &result["num_turns"]), (&json!("Anna found three."), &json!(3)));
    assert_eq!(result["usage"]["output_tokens"].as_u64().map(|n| n > 0), Some(true));
    let last = server.last_of("ID:lead");
    assert_eq!(last.mail(), [[report("anna", "blue", "Three of them.")]]);
    let (spawned, failed) = last.result("a");
    assert!(!failed);
    let team = world.team().file_name().and_then(|n| n.to_str()).expect("a team").to_owned();
    let expected = [
        "Anna has started.",
        &format!("agent_id: anna@{team}"),
        "name: anna",
        &format!("team_name: {team}"),
        "model: anthropic:test-model",
        "permission_mode: default",
        "backend: in-process",
    ];
    assert_eq!(spawned.lines().take(7).collect::<Vec<_>>(), expected);

    let members = world.members();
    assert_eq!(members.len(), 1);
    let seen =
        ["agentId", "agentName", "displayName", "agentType", "color", "backendType", "paneId", "incarnation"]
            .map(|key| members[0][key].clone());
    assert_eq!(
        json!(seen),
        json!([format!("anna@{team}"), "anna", "Anna", "general-purpose", "blue", "in-process", null, 1])
    );
    assert_eq!(members[0]["ended"]["state"], "stopped");
    // When the request to end is marked as read does not matter.
    let mut names = event_names(&world, "anna");
    names.retain(|n| n != "deliver");
    assert_eq!(names, ["spawn", "ready", "send", "idle", "shutdown", "send", "exit"]);
    let run = json_file(&world.team().join("run/anna.json"));
    assert_eq!((&run["state"], &run["incarnation"]), (&json!("stopped"), &json!(1)));
    assert!(run.get("heartbeat").is_none_or(Value::is_null));
    assert_eq!(world.check_transcripts(), 2);

    // The teammate's own request: who it is, what it may use, what it was told.
    let anna = server.last_of("ID:anna");
    assert!(anna.tools().contains(&"SendMessage") && anna.tools().contains(&"Agent"), "{:?}", anna.tools());
    assert!(anna.system().contains(&format!("You are `anna` in the team `{team}`")), "{}", anna.system());

    // The stream tells of it.
    let lines = done.lines();
    let subtypes: Vec<&str> = lines.iter().filter_map(|l| l["subtype"].as_str()).collect();
    for subtype in ["task_started", "idle", "message", "teammate_ended"] {
        assert!(subtypes.contains(&subtype), "{subtypes:?}");
    }
    assert_eq!(lines.last().map(|l| l["type"].clone()), Some(json!("result")));
}

#[test]
fn mail_comes_between_rounds_in_a_message_of_its_own() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            [start("a", "anna", "ID:anna")].into(),
            [gate("lead"), call_as("g", "Glob", json!({ "pattern": "*" }))].into(),
            say("I saw it.").into(),
            say("Done.").into(),
        ],
    );
    server.on(
        prompt("ID:anna"),
        [
            [gate("first"), send("m", "team-lead", "A <b>correction</b> & more")].into(),
            [gate("anna"), say("Idle.")].into(),
        ],
    );
    let running = world.festoon(["-p", "ID:lead"]).start();
    server.reached("lead");
    server.open("first");
    server.reached("anna");
    server.open("lead");
    server.wait_for("ID:lead", 3);
    server.open("anna");
    running.wait().code(0);

    let third = &server.of("ID:lead")[2];
    let messages = third.messages();
    let [.., results, mail] = messages else { panic!("{messages:#?}") };
    let kinds = |m: &Value| -> Vec<String> {
        m["content"].as_array().expect("blocks").iter().map(|b| b["type"].to_string()).collect()
    };
    assert_eq!((kinds(results), kinds(mail)), (vec!["\"tool_result\"".into()], vec!["\"text\"".into()]));
    let text = letter("anna", "blue", "A &lt;b&gt;correction&lt;/b&gt; &amp; more");
    assert_eq!(mail["content"][0]["text"], text);
    let (stored, failed) = server.last_of("ID:anna").result("m");
    assert!(!failed && stored.starts_with("Stored in the inbox of team-lead (message "), "{stored}");

    let mail = world.mail("team-lead");
    let letters: Vec<&Value> = mail.iter().filter(|m| m["type"] == "peer_dm").collect();
    assert_eq!(letters.len(), 1);
    let seen = ["from", "to", "text", "read", "wake", "color", "summary"].map(|k| letters[0][k].clone());
    let expected = json!(["anna", "team-lead", "A <b>correction</b> & more", true, "turn", "blue", "a word"]);
    assert_eq!(json!(seen), expected);
    assert!(letters[0]["sig"].is_string());
    assert_eq!(world.check_transcripts(), 2);
}

#[test]
fn peers_write_to_each_other() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [[start("a", "anna", "ID:anna"), start("b", "ben", "ID:ben")].into(), say("Waiting.").into()],
    );
    server.always(prompt("ID:lead").input("teammate-message"), say("Thanks."));
    // Ben answers what Anna asks, Anna reports what Ben answered.
    server.on(prompt("ID:anna").input("ID:anna"), [[gate("both"), send("q", "ben", "How many?")].into()]);
    // His answer may be there before she has ended her turn.
    server.on(prompt("ID:anna").input("Four."), [say("Ben says four.").into()]);
    server.always(prompt("ID:anna").input("Stored"), Reply::Message(Vec::new()));
    server.on(prompt("ID:ben").input("ID:ben"), [Reply::Message(Vec::new())]);
    server.on(prompt("ID:ben").input("How many?"), [[send("r", "Anna", "Four.")].into()]);
    server.on(prompt("ID:ben").input("Stored"), [Reply::Message(Vec::new())]);
    let running = world.festoon(["-p", "ID:lead"]).start();
    server.reached("both");
    server.wait_for("ID:ben", 1);
    server.open("both");
    running.wait().code(0);
    server.all_played();
    let color = |name: &str| {
        let members = world.members();
        let member = members.iter().find(|m| m["agentName"] == name).expect("a member");
        member["color"].as_str().expect("a colour").to_owned()
    };
    assert_ne!(color("anna"), color("ben"));
    assert_eq!(server.last_of("ID:ben").mail(), [[letter("anna", &color("anna"), "How many?")]]);
    assert_eq!(server.last_of("ID:anna").mail(), [[letter("ben", &color("ben"), "Four.")]]);
    assert_eq!(world.check_transcripts(), 3);
}

#[test]
fn the_leader_writes_to_an_idle_and_to_a_working_teammate() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            [start("a", "anna", "ID:anna")].into(),
            [gate("first"), send("m1", "anna", "While you work.")].into(),
            say("Waiting.").into(),
            [send("m2", "anna", "While you rest.")].into(),
            say("Waiting again.").into(),
            say("All done.").into(),
        ],
    );
    server.on(
        prompt("ID:anna"),
        [
            [gate("busy"), call_as("g", "Glob", json!({ "pattern": "*" }))].into(),
            say("One.").into(),
            [gate("last"), say("Two.")].into(),
        ],
    );
    let running = world.festoon(["-p", "ID:lead"]).start();
    server.reached("busy");
    server.reached("first");
    server.open("first");
    server.wait_for("ID:lead", 3);
    server.open("busy");
    server.wait_for("ID:lead", 5);
    server.open("last");
    let done = running.wait();
    done.code(0);
    assert_eq!(done.stdout, "All done.\n");
    server.all_played();
    let letters = ["While you work.", "While you rest."].map(|text| {
        vec![format!(
            "<teammate-message teammate_id=\"team-lead\" summary=\"a word\">\n{text}\n</teammate-message>"
        )]
    });
    assert_eq!(server.last_of("ID:anna").mail(), letters);
    assert_eq!(world.check_transcripts(), 2);
}

#[test]
fn an_idle_notice_without_a_result_wakes_nobody() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            [start("a", "anna", "ID:anna"), start("b", "ben", "ID:ben")].into(),
            say("Waiting.").into(),
            say("Done.").into(),
        ],
    );
    server.on(prompt("ID:anna"), [[gate("quiet"), Part::Stop("end_turn")].into()]);
    server.on(prompt("ID:ben"), [[gate("loud"), say("Here.")].into()]);
    let running = world.festoon(["-p", "ID:lead", "--output-format", "json"]).start();
    server.wait_for("ID:lead", 2);
    server.open("quiet");
    wait::until("anna is idle", || world.events_of("idle").iter().any(|e| e["agent"] == "anna"));
    server.open("loud");
    let done = running.wait();
    done.code(0);
    assert_eq!(server.of("ID:lead").len(), 3, "the silent notice started no turn");
    let mail = server.last_of("ID:lead").mail();
    assert_eq!(mail.len(), 1);
    assert_eq!(mail[0].len(), 2, "it comes along with the next one: {mail:?}");
    let idle: Vec<Value> = world.events_of("idle").iter().map(|e| e["agent"].clone()).collect();
    assert_eq!(idle, ["anna", "ben"], "once each");
}

#[test]
fn a_failing_teammate_wakes_the_leader_with_the_error_and_the_rest_goes_on() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead").input("ID:lead"),
        [[start("a", "anna", "ID:anna"), start("b", "ben", "ID:ben")].into()],
    );
    server.on(prompt("ID:lead").input("anna failed"), [[send("m", "anna", "Once more.")].into()]);
    server.always(prompt("ID:lead"), say("Ok."));
    server.on(
        prompt("ID:anna"),
        [
            Reply::status(400, "invalid_request_error", "no <such> thing"),
            [gate("again"), say("Now it works.")].into(),
        ],
    );
    server.on(prompt("ID:ben"), [[gate("ben"), say("Fine.")].into()]);
    let running = world.festoon(["-p", "ID:lead", "--output-format", "json"]).start();
    server.reached("ben");
    server.reached("again");
    server.open("again");
    server.open("ben");
    let done = running.wait();
    done.code(0);
    let texts: Vec<String> = server.last_of("ID:lead").mail().concat();
    let failed: Vec<&String> = texts.iter().filter(|t| t.contains("anna failed and is idle.")).collect();
    assert_eq!(failed.len(), 1, "{texts:#?}");
    assert!(failed[0].contains("no &lt;such&gt; thing"), "{}", failed[0]);
    assert!(texts.iter().any(|t| t.contains("Now it works.")), "{texts:#?}");
    assert!(texts.iter().any(|t| t.contains("Fine.")), "{texts:#?}");
    assert_eq!(world.check_transcripts(), 3);
}

#[test]
fn a_misspelt_recipient_is_an_error_that_lists_the_others() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            [start("a", "anna", "ID:anna")].into(),
            ["anne", "", " ", "../anna", "anna/", "team-lead", "user", "nobody@elsewhere", "anna@team"]
                .map(|to| {
                    send(&format!("to-{}", to.replace(|c: char| !c.is_ascii_alphanumeric(), "_")), to, "hi")
                })
                .into(),
            say("Ok.").into(),
        ],
    );
    server.always(prompt("ID:"), say("Ok."));
    world.festoon(["-p", "ID:lead"]).run().code(0);
    let last = &server.of("ID:lead")[2];
    for (id, text, failed) in last.results().into_iter().skip(1) {
        if id == "to-anna_team" {
            continue;
        }
        assert!(failed && text.starts_with("Not sent"), "{id}: {text}");
    }
    let (text, _) = last.result("to-anne");
    assert!(text.contains("These can be reached: anna"), "{text}");
    let mut files: Vec<String> = std::fs::read_dir(world.team().join("inboxes"))
        .expect("inboxes")
        .map(|e| e.expect("entry").file_name().into_string().expect("UTF-8"))
        .filter(|name| !name.ends_with(".archive.jsonl"))
        .collect();
    files.sort();
    assert_eq!(files, ["anna.json", "anna.lock", "team-lead.json", "team-lead.lock"]);
}

#[test]
fn names_are_taken_as_people_write_them_or_refused_with_the_reason() {
    let server = ModelServer::start();
    let world = server.world();
    let long = "n".repeat(300);
    let good = [
        "Änne Müller",
        "日本",
        "b\u{fc}ro-1",
        "UPPER",
        "with space",
        "bee \u{1F41D}",
        "a.b",
        &"x".repeat(64),
    ];
    let bad = [
        "",
        "   ",
        &long,
        "a/b",
        "../up",
        "a\\b",
        "a@b",
        ".hidden",
        "team-lead",
        "Team-Lead",
        "user",
        "system",
        "main",
        "*",
        "...",
        "---",
        "\u{200b}",
        "\u{1F41D}",
        "a\nb",
        "a\u{0}b",
        "\u{202e}",
    ];
    let call = |id: String, name: &str| start(&id, name, "ID:member");
    let first: Vec<Part> = good.iter().enumerate().map(|(n, name)| call(format!("good{n}"), name)).collect();
    let second: Vec<Part> = bad.iter().enumerate().map(|(n, name)| call(format!("bad{n}"), name)).collect();
    let again = ["upper", "WITH SPACE", "\u{ff35}pper", "änne müller", " 日本 "];
    let third: Vec<Part> =
        again.iter().enumerate().map(|(n, name)| call(format!("again{n}"), name)).collect();
    let letters = ["änne müller", "日本", "Upper"]
        .iter()
        .enumerate()
        .map(|(n, to)| send(&format!("to{n}"), to, "hi"))
        .collect::<Vec<_>>();
    server.on(prompt("ID:lead"), [first.into(), second.into(), third.into(), letters.into()]);
    server.always(prompt("ID:"), say("Ok."));
    let done = world.festoon(["-p", "ID:lead", "--max-agents-total", "1000"]).run();
    done.code(0);
    let last = server.last_of("ID:lead");
    for (n, name) in good.iter().enumerate() {
        let (text, failed) = last.result(&format!("good{n}"));
        assert!(!failed, "{name:?}: {text}");
    }
    for (n, name) in bad.iter().enumerate() {
        let (text, failed) = last.result(&format!("bad{n}"));
        assert!(failed && text.starts_with("The teammate was not started."), "{name:?}: {text}");
    }
    for (n, name) in again.iter().enumerate() {
        let (text, failed) = last.result(&format!("again{n}"));
        assert!(failed && text.contains("already a teammate"), "{name:?}: {text}");
    }
    for n in 0..3 {
        let (text, failed) = last.result(&format!("to{n}"));
        assert!(!failed, "{text}");
    }
    let members = world.members();
    assert_eq!(members.len(), good.len());
    let plain = |s: &str| s.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    assert!(members.iter().all(|m| m["agentName"].as_str().is_some_and(plain)), "{members:#?}");
    let mut shown: Vec<&str> = members.iter().filter_map(|m| m["displayName"].as_str()).collect();
    let mut wanted = good.to_vec();
    shown.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(shown, wanted);
    world.check_transcripts();
}

#[test]
fn an_unknown_type_a_bad_directory_and_a_bad_model_leave_nothing_behind() {
    let server = ModelServer::start();
    let world = server.world();
    let with = |id: &str, more: Value| {
        let mut input = json!({ "description": "d", "prompt": "ID:never", "name": id });
        for (key, value) in more.as_object().into_iter().flatten() {
            input[key] = value.clone();
        }
        call_as(id, "Agent", input)
    };
    server.on(
        prompt("ID:lead"),
        [
            [
                with("kind", json!({ "subagent_type": "Wizard" })),
                with("cwd", json!({ "cwd": "/no/such/directory" })),
                with("model", json!({ "model": "a" })),
                with("team", json!({ "team_name": "../another" })),
                with("isolation", json!({ "isolation": "worktree" })),
            ]
            .into(),
            say("Ok.").into(),
        ],
    );
    let aliases = r#"{"aliases":{"a":"b","b":"a"}}"#;
    world.festoon(["-p", "ID:lead", "--settings", aliases]).run().code(0);
    let results = server.last_of("ID:lead").results();
    assert!(results.iter().all(|(_, _, failed)| *failed), "{results:#?}");
    assert_eq!(server.of("ID:never").len(), 0);
    // Not even the team was needed.
    assert_eq!(world.teams(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_teammate_starts_no_teammates_and_reaches_its_leader() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [[start("a", "anna", "ID:anna")].into()]);
    server.always(prompt("ID:lead"), say("Ok."));
    server.on(
        prompt("ID:anna"),
        [
            [start("n", "nested", "ID:never"), send("m", "main", "hello"), send("self", "anna", "me")].into(),
            call_as(
                "s",
                "Agent",
                json!({ "description": "d", "prompt": "ID:sub", "subagent_type": "Explore" }),
            )
            .into(),
            say("Done.").into(),
        ],
    );
    server.on(prompt("ID:sub"), [say("sub result").into()]);
    world.festoon(["-p", "ID:lead"]).run().code(0);
    let anna = server.last_of("ID:anna");
    assert_eq!(["n", "m", "self"].map(|id| anna.result(id).1), [true, false, true]);
    assert_eq!(anna.result("s"), ("sub result".to_owned(), false));
    assert!(server.last_of("ID:lead").mail().concat().iter().any(|t| t.contains("\nhello\n")));
    assert_eq!(world.check_transcripts(), 3);
}

#[test]
fn a_broadcast_reaches_every_other_member() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            [start("a", "anna", "ID:anna"), start("b", "ben", "ID:ben")].into(),
            [send("all", "*", "To everyone.")].into(),
        ],
    );
    server.always(prompt("ID:"), say("Ok."));
    world.festoon(["-p", "ID:lead"]).run().code(0);
    let (text, failed) = server.last_of("ID:lead").result("all");
    assert!(!failed, "{text}");
    let mut names: Vec<&str> =
        text.lines().filter_map(|l| l.split_once(": stored").map(|(n, _)| n)).collect();
    names.sort_unstable();
    assert_eq!(names, ["anna", "ben"]);
    for id in ["ID:anna", "ID:ben"] {
        let got = server.last_of(id).mail().concat();
        assert_eq!(got.iter().filter(|t| t.contains("To everyone.")).count(), 1, "{got:?}");
    }
}

#[test]
fn a_flood_from_a_model_is_stopped_at_the_sender() {
    let server = ModelServer::start();
    let world = server.world();
    let flood: Vec<Part> =
        (0..40).map(|n| send(&format!("f{n:02}"), "anna", &format!("letter {n:02}"))).collect();
    let big = "x".repeat(1_000_001);
    server.on(
        prompt("ID:lead"),
        [
            [start("a", "anna", "ID:anna")].into(),
            flood.into(),
            [send("big", "anna", &big), send("blank", "anna", " \n")].into(),
        ],
    );
    server.always(prompt("ID:"), say("Ok."));
    world.festoon(["-p", "ID:lead"]).run().code(0);
    let last = server.last_of("ID:lead");
    let results: Vec<_> = last.results().into_iter().filter(|(id, _, _)| id.starts_with('f')).collect();
    let stored = results.iter().filter(|(_, _, failed)| !failed).count();
    assert!((30..40).contains(&stored), "{stored}");
    let refused =
        results.iter().find(|(_, _, failed)| *failed).map(|(_, text, _)| text.clone()).expect("one");
    assert!(refused.contains("30 at once, then one a second"), "{refused}");
    assert!(last.result("big").0.contains("1000001 characters"), "{}", last.result("big").0);
    assert!(last.result("blank").1);
    // What was stored arrives, in order, once.
    let got: Vec<String> = server.last_of("ID:anna").mail().concat();
    let letters: Vec<&str> =
        got.iter().filter_map(|t| t.lines().nth(1)).filter(|l| l.starts_with("letter")).collect();
    let sent: Vec<String> = results
        .iter()
        .filter(|(_, _, failed)| !failed)
        .map(|(id, _, _)| format!("letter {}", &id[1..]))
        .collect();
    assert_eq!(letters, sent);
}
