//! Looking at one agent and at all of them, where nothing can be drawn.

use crate::support::model_server::{ModelServer, call, call_as, gate, prompt, say};
use crate::support::wait::until;
use crate::teammates::start;
use serde_json::{Value, json};

#[test]
fn without_a_terminal_the_end_of_a_transcript_and_one_picture_are_printed() {
    let server = ModelServer::start();
    let world = server.world();
    let beside = json!({ "description": "a job", "prompt": "ID:child", "run_in_background": true });
    server.on(
        prompt("ID:lead"),
        [[start("a", "anna", "ID:anna"), call_as("b", "Agent", beside)].into(), say("I go on.").into()],
    );
    server.always(prompt("ID:lead"), say("Heard."));
    server.on(
        prompt("ID:anna"),
        [
            [say("I look <first>."), call("Glob", json!({ "pattern": "*.none" }))].into(),
            [gate("anna"), say("Done.")].into(),
        ],
    );
    server.on(prompt("ID:child"), [[gate("child"), say("Child is done.")].into()]);
    let running = world.festoon(["-p", "ID:lead"]).start();
    server.reached("anna");
    server.reached("child");
    let rows = || world.festoon(["ps", "--json"]).run().json();
    until("the leader rests", || rows()[0]["state"] == "idle" && rows()[1]["state"] == "working");
    let all = rows();
    let team = all[0]["team"].as_str().expect("a team").to_owned();
    let child = all[2]["agentId"].as_str().expect("an id").to_owned();

    let shown = world.festoon(["attach", "anna"]).run();
    let lines: Vec<&str> = shown.code(0).stdout.lines().collect();
    assert_eq!(lines[..3], ["> ID:anna", "I look <first>.", lines[2]], "{lines:#?}");
    assert!(lines[2].starts_with("· ") && lines[2].contains("*.none"), "{lines:#?}");
    assert!(lines[3].starts_with(&format!("anna of {team} · working · ")), "{lines:#?}");
    assert_eq!(lines.len(), 4, "{lines:#?}");

    // By every name it has, and a subagent by the beginning of its id.
    for name in [format!("anna@{team}"), format!("{team}/anna"), child[..8].to_owned(), "main".to_owned()] {
        let found = world.festoon(["attach", &name, "--json"]).run();
        let found = found.code(0).json();
        let agent = if name.contains("anna") {
            &all[1]
        } else if name == "main" {
            &all[0]
        } else {
            &all[2]
        };
        assert_eq!(found["agent"]["agentId"], agent["agentId"], "{name}");
        let lines = found["lines"].as_array().expect("lines");
        assert_eq!(lines[0]["subtype"], "run_started", "{name}: {lines:#?}");
        let file = found["transcript"].as_str().expect("a file");
        assert_eq!(crate::support::state::jsonl(file.as_ref()), *lines, "{name}");
    }
    let nobody = world.festoon(["attach", "bob", "--json"]).run();
    assert_eq!((nobody.code(1).error()["kind"].clone(), nobody.stdout.as_str()), (json!("not_found"), ""));
    let hint = nobody.error()["hint"].as_str().expect("a hint").to_owned();
    assert_eq!(hint, format!("there is: team-lead, anna, {child}"));
    let below = world.festoon(["attach", "anna"]).env("FESTOON_TOOL_OF", "anna").run();
    assert!(below.code(2).stderr.contains("for people"), "{below:?}");

    // One picture of all of them.
    let picture = world.festoon(["top"]).run().code(0).stdout.clone();
    let head = picture.lines().next().expect("a line");
    assert!(head.starts_with("festoon top  1 team · 3 agents, 2 at work · "), "{picture}");
    for agent in ["team-lead", "anna", &format!("└ {child}")] {
        assert!(picture.lines().any(|line| line.trim_start().starts_with(agent)), "{agent}: {picture}");
    }
    assert!(!picture.contains('\u{1b}'), "{picture}");
    let seen = world.festoon(["top", "--json"]).run().json();
    assert_eq!((&seen["teams"][0]["name"], &seen["ended"]), (&json!(team), &json!(0)));
    let ids = |rows: &Value| -> Vec<Value> {
        rows.as_array().expect("rows").iter().map(|row| row["agentId"].clone()).collect()
    };
    let mut agents = ids(&seen["teams"][0]["agents"]);
    agents.sort_by_key(ToString::to_string);
    let mut listed = ids(&all);
    listed.sort_by_key(ToString::to_string);
    assert_eq!(agents, listed);

    server.open("anna");
    server.open("child");
    running.wait().code(0);
    // Whoever has ended can still be looked at.
    let over = world.festoon(["attach", "anna", "--team", &team]).run();
    assert!(over.code(0).stdout.contains("\nDone.\n"), "{}", over.stdout);
    assert!(over.stdout.contains(&format!("anna of {team} · stopped · ")), "{}", over.stdout);
    assert_eq!(world.festoon(["top"]).run().code(0).stdout.lines().count(), 1);
}
