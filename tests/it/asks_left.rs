//! What waited for a person when its process was killed: asked again under its id, or answered meanwhile.

use crate::asks::{OPEN, id, open_asks};
use crate::background::{beside, records};
use crate::support::model_server::{ModelServer, Part, call_as, gate, prompt, say};
use crate::support::run::{Done, Running};
use crate::support::state::json_file;
use crate::support::wait::until;
use crate::support::world::World;
use crate::teammates::{send, start};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const AGAIN: [&str; 5] = ["-p", "Go on.", "--continue", "--ask-timeout", "600"];

fn touch(name: &str) -> Part {
    call_as(name, "Bash", json!({ "command": format!("touch {name}") }))
}

fn killed(world: &World, running: Running) {
    running.signal(Signal::SIGKILL);
    running.wait();
    world.all_gone();
}

/// Answers, while nobody runs or somebody does.
fn answer(world: &World, ask: &str, word: &str, note: &str) -> Done {
    let done = world.festoon(["ask", word, ask, "--note", note]).run();
    done.code(0);
    done
}

/// All asks with where they stand, oldest first.
fn asks(world: &World) -> Vec<(String, String)> {
    let done = world.festoon(["ask", "list", "--all", "--json"]).run();
    let listed: Vec<Value> = serde_json::from_str(&done.code(0).stdout).expect("JSON");
    listed.iter().map(|a| (id(a), a["status"].as_str().expect("a status").to_owned())).collect()
}

/// The messages of the last request of an agent, byte for byte.
fn sent(server: &ModelServer, who: &str) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Body {
        messages: Vec<Box<serde_json::value::RawValue>>,
    }
    let body: Body = serde_json::from_str(&server.last_of(who).unmarked()).expect("JSON");
    body.messages.iter().map(ToString::to_string).collect()
}

/// Results of the last request of an agent that are in the same message, in order.
fn results(server: &ModelServer, who: &str) -> Vec<(String, bool)> {
    let request = server.last_of(who);
    let messages: Vec<_> = request.messages().iter().filter(|m| m["role"] == "user").collect();
    let results = |m: &Value| {
        let blocks = m["content"].as_array().cloned().unwrap_or_default();
        let blocks = blocks.into_iter().filter(|b| b["type"] == "tool_result");
        blocks
            .map(|b| (b["tool_use_id"].as_str().expect("an id").to_owned(), b["is_error"] == true))
            .collect::<Vec<_>>()
    };
    messages.iter().rev().map(|m| results(m)).find(|r| !r.is_empty()).unwrap_or_default()
}

#[test]
fn a_yes_that_came_while_nobody_ran_counts_and_what_stands_behind_it_runs() {
    let server = ModelServer::start();
    let world = server.world();
    let calls = [call_as("g", "Glob", json!({ "pattern": "*" })), touch("one"), touch("two")];
    server.on(
        prompt("ID:lead"),
        [[say("I work."), call_as("g0", "Glob", json!({ "pattern": "*" }))].into(), calls.into()],
    );
    server.always(prompt("ID:lead"), say("done"));
    let running = world.festoon(OPEN).start();
    let one = id(&open_asks(&world, 1)[0]);
    killed(&world, running);
    let before = sent(&server, "ID:lead");
    answer(&world, &one, "approve", "while <dead>");

    let running = world.festoon(AGAIN).start();
    // The call behind it asks for itself.
    let two = id(&open_asks(&world, 1)[0]);
    assert!(world.project.join("one").exists());
    answer(&world, &two, "deny", "Not that one.");
    running.wait().code(0);
    let (first, failed) = server.last_of("ID:lead").result("one");
    assert!(!failed && first.contains("while <dead>"), "{first}");
    assert!(server.last_of("ID:lead").result("g").0.contains("interrupted"));
    assert!(server.last_of("ID:lead").result("two").0.contains("Not that one."));
    let pair = |id: &str, failed: bool| (id.to_owned(), failed);
    assert_eq!(results(&server, "ID:lead"), [pair("g", true), pair("one", false), pair("two", true)]);
    assert!(!world.project.join("two").exists());
    assert_eq!(asks(&world), [one, two].map(|id| (id, "decided".to_owned())));
    // What was sent is sent again as it was.
    assert_eq!(sent(&server, "ID:lead")[..before.len()], before);
    assert_eq!(world.check_transcripts(), 1);
}

#[test]
fn a_no_that_came_while_nobody_ran_stands_whatever_the_next_run_may_do() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [[touch("one"), touch("two")].into()]);
    server.always(prompt("ID:lead"), say("done"));
    let running = world.festoon(OPEN).start();
    let one = id(&open_asks(&world, 1)[0]);
    killed(&world, running);
    answer(&world, &one, "deny", "Never.");
    let free = ["-p", "Go on.", "--continue", "--permission-mode", "bypassPermissions"];
    world.festoon(free).run().code(0);
    let (text, failed) = server.last_of("ID:lead").result("one");
    assert!(failed && text.contains("denied by user") && text.contains("Never."), "{text}");
    assert!(!world.project.join("one").exists() && world.project.join("two").exists());
    assert_eq!(asks(&world), [(one, "decided".to_owned())]);
}

#[test]
fn an_ask_that_nobody_answered_is_open_again_under_its_id_as_often_as_it_takes() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [[touch("one")].into()]);
    server.always(prompt("ID:lead"), say("done"));
    let mut running = world.festoon(OPEN).start();
    let one = id(&open_asks(&world, 1)[0]);
    let waits = || json_file(&world.team().join("run/team-lead.json"))["state"] == "waiting";
    for _ in 0..2 {
        killed(&world, running);
        assert_eq!(id(&open_asks(&world, 1)[0]), one, "also while nobody runs");
        running = world.festoon(AGAIN).start();
        until("the new leader waits", waits);
        assert_eq!(id(&open_asks(&world, 1)[0]), one);
    }
    answer(&world, &one, "approve", "at last");
    running.wait().code(0);
    let (text, failed) = server.last_of("ID:lead").result("one");
    assert!(!failed && text.contains("at last"), "{text}");
    assert!(world.project.join("one").exists());
    assert_eq!(asks(&world), [(one, "decided".to_owned())]);
    assert_eq!(server.of("ID:lead").len(), 2, "the model did not ask anew");
    assert_eq!(world.check_transcripts(), 1);
}

#[test]
fn where_nobody_has_to_be_asked_any_more_or_nobody_is_there_the_ask_is_closed() {
    for (mode, made) in [("bypassPermissions", true), ("default", false)] {
        let server = ModelServer::start();
        let world = server.world();
        server.on(prompt("ID:lead"), [[touch("one")].into()]);
        server.always(prompt("ID:lead"), say("done"));
        let running = world.festoon(OPEN).start();
        let one = id(&open_asks(&world, 1)[0]);
        killed(&world, running);
        world.festoon(["-p", "Go on.", "--continue", "--permission-mode", mode]).run();
        assert_eq!(server.last_of("ID:lead").result("one").1, !made, "{mode}");
        assert_eq!(world.project.join("one").exists(), made, "{mode}");
        assert_eq!(asks(&world), [(one, "closed".to_owned())], "{mode}");
    }
}

#[test]
fn a_call_that_had_its_yes_and_began_is_not_begun_again() {
    let server = ModelServer::start();
    let world = server.world();
    let command = "echo x >> log; while :; do sleep 100; done";
    server
        .on(prompt("ID:lead"), [[call_as("b", "Bash", json!({ "command": command })), touch("one")].into()]);
    server.always(prompt("ID:lead"), say("done"));
    let running = world.festoon(OPEN).start();
    answer(&world, &id(&open_asks(&world, 1)[0]), "approve", "yes");
    until("it runs", || world.project.join("log").exists());
    killed(&world, running);
    world.festoon(AGAIN).run().code(0);
    for call in ["b", "one"] {
        let (text, failed) = server.last_of("ID:lead").result(call);
        assert!(failed && text.contains("was interrupted") && text.contains("is unknown"), "{text}");
    }
    assert_eq!(world.read("log"), "x\n");
}

#[test]
fn a_teammate_of_the_dead_process_goes_on_with_its_ask() {
    for dead in [true, false] {
        let server = ModelServer::start();
        let world = server.world();
        server
            .on(prompt("ID:lead"), [[start("a", "anna", "ID:anna")].into(), [gate("lead"), say("x")].into()]);
        server.on(prompt("ID:anna"), [[touch("one")].into(), say("It is made.").into()]);
        let running = world.festoon(OPEN).start();
        let one = id(&open_asks(&world, 1)[0]);
        server.reached("lead");
        killed(&world, running);
        server.always(prompt("ID:lead"), say("Heard."));
        if dead {
            answer(&world, &one, "approve", "a note");
        }
        let running = world.festoon(AGAIN).start();
        if !dead {
            until("she waits again", || {
                let run = json_file(&world.team().join("run/anna.json"));
                run["state"] == "waiting" && run["pid"] == running.pid()
            });
            assert_eq!(id(&open_asks(&world, 1)[0]), one);
            answer(&world, &one, "approve", "a note");
        }
        running.wait().code(0);
        let (text, failed) = server.last_of("ID:anna").result("one");
        assert!(!failed && text.contains("a note"), "{text}");
        assert!(world.project.join("one").exists());
        assert_eq!(asks(&world), [(one, "decided".to_owned())]);
        assert_eq!(world.check_transcripts(), 2);
    }
}

#[test]
fn an_agent_without_a_name_goes_on_with_its_ask_when_it_is_gone_on_with() {
    for dead in [true, false] {
        let server = ModelServer::start();
        let world = server.world();
        server.on(
            prompt("ID:lead"),
            [[beside("b", "ID:child", json!({}))].into(), [gate("lead"), say("x")].into()],
        );
        server.on(prompt("ID:child"), [[touch("one")].into(), say("It is made.").into()]);
        let running = world.festoon(OPEN).start();
        let one = id(&open_asks(&world, 1)[0]);
        server.reached("lead");
        killed(&world, running);
        if dead {
            answer(&world, &one, "approve", "a note");
        }
        let child = records(&world)[0]["taskId"].as_str().expect("an id").to_owned();
        server.on(prompt("ID:lead"), [[gate("send"), send("m", &child, "Go on.")].into()]);
        server.always(prompt("ID:lead"), say("Heard."));
        let running = world.festoon(AGAIN).start();
        server.reached("send");
        let stands = if dead { "decided" } else { "closed" };
        assert_eq!(asks(&world), [(one.clone(), stands.to_owned())], "nobody waits");
        server.open("send");
        if !dead {
            assert_eq!(id(&open_asks(&world, 1)[0]), one);
            answer(&world, &one, "approve", "a note");
        }
        running.wait().code(0);
        let (text, failed) = server.last_of("ID:child").result("one");
        assert!(!failed && text.contains("a note"), "{text}");
        assert!(world.project.join("one").exists());
        assert_eq!(asks(&world), [(one, "decided".to_owned())]);
        assert_eq!(world.check_transcripts(), 2);
    }
}

#[test]
fn a_team_whose_leader_died_is_offered_to_go_on_and_not_removed_with_what_waits_in_it() {
    let server = ModelServer::start();
    let world = server.world();
    let task = call_as("c", "TaskCreate", json!({ "subject": "build", "description": "all of it" }));
    server.on(prompt("ID:lead"), [[task, touch("one")].into()]);
    let running = world.festoon(OPEN).start();
    let one = id(&open_asks(&world, 1)[0]);
    killed(&world, running);
    let team = world.team().file_name().expect("a name").to_str().expect("UTF-8").to_owned();
    world.festoon(["send", "--team", &team, "team-lead", "Are you there?"]).run().code(0);
    for look in [&["ps"][..], &["team", "show", &team]] {
        let said = world.festoon(look).run().stdout;
        let (resume, delete) = (format!("festoon team resume {team}"), format!("festoon team delete {team}"));
        let at = |what: &str| said.find(what).unwrap_or_else(|| panic!("{look:?}: no {what} in {said}"));
        assert!(at(&resume) < at(&delete), "{look:?}: {said}");
    }
    let refused = world.festoon(["team", "delete", &team, "--json"]).run();
    refused.code(1);
    let error = refused.error();
    assert_eq!(
        json!([error["kind"], error["message"]]),
        json!([
            "team_holds_work",
            format!(
                "team {team} holds open asks: {one}; unread mail: team-lead 1; tasks that are not done: 1; nothing was removed"
            )
        ])
    );
    assert!(world.team().exists());
    world.festoon(["team", "delete", &team, "--force"]).run().code(0);
    assert!(world.teams().is_empty());
}
