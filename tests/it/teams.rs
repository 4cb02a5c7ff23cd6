//! The team of a session: named while nobody is in it, removed for a fresh one, gone on with.

use crate::shutdown::{answer, ask};
use crate::support::model_server::{ModelServer, Part, call_as, gate, prompt, say};
use crate::support::panes::worker;
use crate::support::run::Festoon;
use crate::support::state::json_file;
use crate::support::wait::until;
use crate::teammates::start;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;

fn create(id: &str, name: &str) -> Part {
    call_as(id, "TeamCreate", json!({ "team_name": name, "description": "looks at changes" }))
}

fn member_in(id: &str, name: &str, team: &str) -> Part {
    call_as(
        id,
        "Agent",
        json!({ "description": "a job", "prompt": format!("ID:{name}"), "name": name, "team_name": team }),
    )
}

#[test]
fn a_team_is_named_with_all_that_belongs_to_the_session() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            create("c", "Réview Team").into(),
            [start("a", "Anna", "ID:anna"), start("b", "Bob", "ID:bob")].into(),
            say("Started.").into(),
        ],
    );
    server.always(prompt("ID:lead"), say("Done."));
    server.on(prompt("ID:anna"), [say("Anna is done.").into()]);
    server.on(prompt("ID:bob"), [say("Bob is done.").into()]);
    let done = world.festoon(["-p", "ID:lead", "--output-format", "json"]).run();
    done.code(0);
    assert_eq!(done.stderr, "");

    let teams = world.teams();
    assert_eq!(teams.len(), 1, "{teams:?}");
    let name = teams[0].file_name().and_then(|n| n.to_str()).expect("a name").to_owned();
    let file = json_file(&teams[0].join("team.json"));
    let session = done.result()["session_id"].clone();
    let seen =
        ["name", "displayName", "description", "leadAgentId", "leadSessionId"].map(|key| file[key].clone());
    let expected = json!([name, "Réview Team", "looks at changes", format!("team-lead@{name}"), session]);
    assert_eq!(json!(seen), expected);
    assert!(!name.starts_with("session-"), "{name}");
    let ids: Vec<Value> = world.members().iter().map(|m| m["agentId"].clone()).collect();
    assert_eq!(json!(ids), json!([format!("anna@{name}"), format!("bob@{name}")]));
    // Books, keys, run record and log came along; mail went through the new place.
    let lead = json_file(&teams[0].join("run/team-lead.json"));
    assert_eq!((&lead["agentId"], &lead["state"]), (&json!(format!("team-lead@{name}")), &json!("stopped")));
    let ledger = json_file(&teams[0].join("ledger.json"));
    assert_eq!(ledger["started"], json!(2), "{ledger}");
    assert!(world.events().iter().all(|e| e["team"] == json!(name)), "{:?}", world.events());
    let lines = world.transcript();
    assert_eq!(lines.last().map(|line| line["teamName"].clone()), Some(json!(name)));
    // A later run of the session finds it under its name.
    server.on(prompt("ID:again"), [say("Here.").into()]);
    let session = session.as_str().expect("an id");
    world.festoon(["-p", "ID:again", "--resume", session]).run().code(0);
    assert_eq!(world.teams(), teams);
}

#[test]
fn a_member_may_name_the_team_and_after_that_nobody() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            [
                member_in("a", "anna", "review"),
                member_in("b", "bob", "build"),
                member_in("c", "carl", "review"),
            ]
            .into(),
            [create("d", "other")].into(),
            say("Started.").into(),
        ],
    );
    server.always(prompt("ID:lead"), say("Done."));
    for name in ["anna", "carl"] {
        server.on(prompt(&format!("ID:{name}")), [say(&format!("{name} is done.")).into()]);
    }
    world.festoon(["-p", "ID:lead"]).run().code(0);
    let last = server.last_of("ID:lead");
    assert!(!last.result("a").1 && !last.result("c").1);
    let (refused, failed) = last.result("b");
    assert!(failed && refused.contains("Your team is review and cannot become build any more"), "{refused}");
    let (refused, failed) = last.result("d");
    assert!(failed && refused.contains("it has members (anna, carl)"), "{refused}");
    let names: Vec<Value> = world.members().iter().map(|m| m["agentId"].clone()).collect();
    assert_eq!(json!(names), json!(["anna@review", "carl@review"]));
}

#[test]
fn names_that_cannot_be_are_refused_and_another_teams_name_is_never_taken() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:first"),
        [
            create("c", "taken").into(),
            start("a", "anna", "ID:anna").into(),
            say("ok").into(),
            say("ok").into(),
        ],
    );
    server.on(prompt("ID:anna"), [say("Done.").into()]);
    world.festoon(["-p", "ID:first"]).run().code(0);
    let before = json_file(&world.team().join("team.json"));
    let names = ["taken", "TAKEN", "../x", "", "a/b", ".hidden", "\u{200b}"];
    let calls: Vec<_> = names.iter().enumerate().map(|(n, name)| create(&format!("c{n}"), name)).collect();
    server.on(prompt("ID:second"), [calls.into(), say("none").into()]);
    world.festoon(["-p", "ID:second"]).run().code(0);
    let last = server.last_of("ID:second");
    for (n, name) in names.iter().enumerate() {
        let (text, failed) = last.result(&format!("c{n}"));
        assert!(failed, "{name:?}: {text}");
    }
    assert!(last.result("c0").0.contains("There is another team called taken"), "{}", last.result("c0").0);
    assert_eq!(json_file(&world.team().join("team.json")), before);
}

#[test]
fn a_team_is_removed_once_nobody_lives_in_it_and_the_session_goes_on_with_a_fresh_one() {
    let server = ModelServer::start();
    let world = server.world();
    let delete = |id: &str| call_as(id, "TeamDelete", json!({}));
    server.on(
        prompt("ID:lead"),
        [
            create("c", "first").into(),
            start("a", "anna", "ID:anna").into(),
            delete("d1").into(),
            say("Waiting.").into(),
            ask("s", "anna").into(),
            [gate("gone"), delete("d2")].into(),
            delete("d3").into(),
            create("n", "second").into(),
            start("b", "anna", "ID:again").into(),
            say("Waiting.").into(),
            say("Done.").into(),
        ],
    );
    server.on(prompt("ID:anna"), [[gate("work"), say("Anna is done.")].into(), answer(true, None)]);
    server.on(prompt("ID:again"), [[gate("more"), say("Anna again.")].into()]);
    let running = world.festoon(["-p", "ID:lead", "--output-format", "json"]).start();
    server.wait_for("ID:lead", 4);
    server.open("work");
    until("anna has ended", || {
        let teams = world.teams();
        teams.len() == 1 && world.members().first().is_some_and(|anna| !anna["ended"].is_null())
    });
    server.open("gone");
    server.wait_for("ID:lead", 10);
    server.open("more");
    let done = running.wait();
    done.code(0);
    assert_eq!((done.stderr.as_str(), &done.plain_result()["result"]), ("", &json!("Done.")));
    server.all_played();

    let last = server.last_of("ID:lead");
    let said: Vec<(String, bool)> = ["d1", "d2", "d3", "n"].map(|id| last.result(id)).into();
    assert!(said[0].1 && said[0].0.contains("anna live in it"), "{said:?}");
    assert!(said[1].1 && said[1].0.contains("mail waits for you"), "{said:?}");
    assert!(!said[2].1 && said[2].0.contains("Your team is session-"), "{said:?}");
    assert!(!said[3].1, "{said:?}");
    // Nothing of the first is left: no directory, no member, no mail, no log; what was used stays counted.
    let teams = world.teams();
    assert_eq!(
        teams.iter().map(|t| t.file_name()).collect::<Vec<_>>(),
        [Some(std::ffi::OsStr::new("second"))]
    );
    let members = world.members();
    assert_eq!(members.len(), 1);
    let seen = ["agentId", "incarnation"].map(|key| members[0][key].clone());
    assert_eq!(json!(seen), json!(["anna@second", 1]));
    let ledger = json_file(&teams[0].join("ledger.json"));
    assert_eq!(ledger["started"], json!(2), "{ledger}");
    assert!(world.events().iter().all(|e| e["team"] != json!("first")), "{:?}", world.events());
    let mut used: Vec<&str> =
        ledger["agents"].as_array().expect("rows").iter().filter_map(|row| row["agentId"].as_str()).collect();
    used.sort_unstable();
    assert_eq!(used, ["anna@first", "anna@second", "team-lead@second"]);
    assert_eq!(ledger["models"]["anthropic:test-model"]["usage"], done.plain_result()["usage"]);
}

#[test]
fn what_happens_after_a_team_was_removed_is_in_the_stream() {
    let server = ModelServer::start();
    let world = server.world();
    let delete = |id: &str| call_as(id, "TeamDelete", json!({}));
    server.on(
        prompt("ID:lead"),
        [
            create("c", "a-team-with-a-log").into(),
            start("a", "anna", "ID:anna").into(),
            say("Waiting.").into(),
            ask("s", "anna").into(),
            [gate("gone"), delete("d1")].into(),
            delete("d2").into(),
            start("b", "ben", "ID:ben").into(),
            say("Waiting.").into(),
            say("Done.").into(),
        ],
    );
    server.on(prompt("ID:anna"), [say("Anna is done.").into(), answer(true, None)]);
    server.on(prompt("ID:ben"), [[gate("ben"), say("Ben is done.")].into()]);
    let running = world.festoon(["-p", "ID:lead", "--output-format", "stream-json"]).start();
    server.reached("gone");
    until("anna has ended", || world.members().first().is_some_and(|anna| !anna["ended"].is_null()));
    // All of the first log is read before it is removed, so that its end is a place in it.
    let of = |who: &str, what: &str, line: &Value| line["agent"] == who && line["subtype"] == what;
    running.line("the end of anna", |line| of("anna", "teammate_ended", line));
    server.open("gone");
    server.wait_for("ID:lead", 8);
    server.open("ben");
    let done = running.wait();
    done.code(0);
    assert_eq!(done.result()["result"], "Done.");
    let lines = done.lines();
    let team = world.team().file_name().and_then(|name| name.to_str()).expect("a team").to_owned();
    let told: Vec<(&str, &str)> = lines
        .iter()
        .filter(|line| {
            line["team"] == team.as_str() && (line["agent"] == "ben" || line["subtype"] == "notice")
        })
        .filter_map(|line| Some((line["agent"].as_str()?, line["subtype"].as_str()?)))
        .filter(|(_, what)| ["notice", "task_started", "idle", "teammate_ended"].contains(what))
        .collect();
    let expected =
        [("team-lead", "notice"), ("ben", "task_started"), ("ben", "idle"), ("ben", "teammate_ended")];
    assert_eq!(told, expected);
}

#[test]
fn teams_false_takes_the_tools_of_teams_away() {
    let server = ModelServer::start();
    let world = server.world();
    server.always(prompt("ID:lead"), say("ok"));
    world.festoon(["-p", "ID:lead"]).run().code(0);
    let with = server.last_of("ID:lead").tools().iter().filter(|t| t.starts_with("Team")).count();
    world.festoon(["-p", "ID:lead", "--settings", r#"{"teams":false}"#]).run().code(0);
    let without = server.last_of("ID:lead").tools().iter().filter(|t| t.starts_with("Team")).count();
    assert_eq!((with, without), (2, 0));
}

#[test]
fn a_team_is_resumed_from_anywhere_with_all_who_were_in_it() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [create("c", "review").into(), start("a", "anna", "ID:anna").into(), [gate("lead"), say("x")].into()],
    );
    server
        .on(prompt("ID:anna"), [[gate("anna"), say("I went on without you.")].into(), say("Twice.").into()]);
    let leader = world.festoon(["-p", "ID:lead", "--teammate-mode", "process"]).start();
    server.reached("anna");
    server.reached("lead");
    let elsewhere = world.outside();
    let resume = || Festoon::new(&elsewhere, &world.env, ["team", "resume", "review", "-p", "Go on."]);
    // There is a leader: no second one.
    let refused = resume().args(["--json"]).run();
    refused.code(1);
    assert_eq!(refused.error()["kind"], "team_in_use", "{}", refused.stderr);
    let anna = worker(&world, "anna");
    leader.signal(Signal::SIGKILL);
    leader.wait();
    server.open("anna");
    until("she is idle", || !world.events_of("idle").is_empty());
    world.festoon(["send", "anna", "How are you?", "--team", "review"]).run().code(0);
    until("she has read it", || server.of("ID:anna").len() == 2);
    assert!(world.living().contains(&anna));

    server.always(prompt("ID:lead"), say("I heard."));
    // Flags are meant from where they are written.
    fs::write(elsewhere.join("mine.json"), "{}").expect("settings");
    let flags = ["--output-format", "json", "--settings", "mine.json", "--add-dir", "."];
    let second = resume().args(flags).run();
    second.code(0);
    assert_eq!(second.result()["result"], "I heard.");
    let heard = server.last_of("ID:lead").mail().concat();
    for text in ["I went on without you.", "Twice."] {
        assert_eq!(heard.iter().filter(|t| t.contains(text)).count(), 1, "{heard:#?}");
    }
    let ended: Vec<Value> = world.members().iter().map(|m| m["ended"]["state"].clone()).collect();
    assert_eq!((ended, world.teams().len()), (vec![json!("stopped")], 1));
    world.all_gone();
    let unknown = Festoon::new(&elsewhere, &world.env, ["team", "resume", "other", "--json"]).run();
    assert_eq!(unknown.error()["kind"], "not_found", "{}", unknown.stderr);
}
