//! What a headless run counts, how long it waits, and what it leaves behind when something goes wrong.

use crate::support::model_server::{ModelServer, Part, call, call_as, gate, prompt, say};
use crate::support::world::World;
use serde_json::{Value, json};

const SESSION: &str = "0c9f6f0e-1111-4222-8333-444455556666";

fn teammate(name: &str, task: &str) -> Part {
    call("Agent", json!({ "name": name, "description": "d", "prompt": task }))
}

#[test]
fn a_call_that_was_denied_counts_in_its_own_run_only() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [[call_as("b1", "Bash", json!({ "command": "touch made" }))].into(), say("Denied.").into()],
    );
    let first = world.festoon(["-p", "ID:lead", "--session-id", SESSION]).run();
    first.code(5);
    server.on(prompt("ID:lead"), [say("Fine.").into()]);
    let second = world.festoon(["-p", "and now?", "--resume", SESSION]).run();
    second.code(0);
    assert_eq!(second.stdout, "Fine.\n");
}

#[test]
fn a_leader_that_cannot_be_built_leaves_no_team() {
    let world = World::new();
    let model = world.script("[[rule]]\nreply = [{ text = \"never\" }]\n");
    let agents = r#"{"bare": {"description": "d", "prompt": "p", "tools": ["Nothing"]}}"#;
    let done =
        world.festoon(["-p", "x", "--model", model.as_str(), "--agents", agents, "--agent", "bare"]).run();
    done.code(2);
    assert!(done.stderr.contains("resolves to no tool"), "{}", done.stderr);
    assert_eq!(world.teams(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_damaged_record_of_a_teammate_here_is_written_again() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [[teammate("anna", "ID:anna")].into(), [gate("go"), say("All is well.")].into()],
    );
    // Her report may come with the call's result or after the answer.
    server.always(prompt("ID:lead").input("anna is idle"), say("All is well."));
    server.on(prompt("ID:anna"), [say("I am here.").into()]);
    let running = world.festoon(["-p", "ID:lead"]).start();
    server.reached("go");
    let record = world.teams()[0].join("run/anna.json");
    crate::support::wait::until("anna is idle", || {
        std::fs::read_to_string(&record).is_ok_and(|text| text.contains("\"idle\""))
    });
    std::fs::write(&record, "{").expect("damages");
    server.open("go");
    let done = running.wait();
    done.code(0);
    assert_eq!(done.stdout, "All is well.\n");
    world.all_gone();
}

#[test]
fn an_answer_is_printed_when_the_books_cannot_be_read() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [[gate("go"), say("The answer.")].into()]);
    let running = world.festoon(["-p", "ID:lead", "--output-format", "json"]).start();
    server.reached("go");
    std::fs::write(world.teams()[0].join("ledger.json"), "{").expect("damages");
    server.open("go");
    let done = running.wait();
    done.code(1);
    let result = done.result();
    let said = ["subtype", "is_error", "result", "num_turns"].map(|key| result[key].clone());
    assert_eq!(json!(said), json!(["error_during_execution", true, "The answer.", 1]));
    assert_eq!(result["error"]["kind"], "corrupt");
    assert!(result["usage"]["output_tokens"].as_u64() > Some(0), "{result}");
}

#[test]
fn mail_does_not_start_the_wait_anew() {
    let server = ModelServer::start();
    let world = server.world();
    let to = |name: &str| call("SendMessage", json!({ "to": name, "message": "ball", "summary": "ball" }));
    // A match that never ends: whoever has the ball plays it back, and then waits.
    server.on(prompt("ID:lead"), [[teammate("anna", "ID:anna")].into(), say("played").into()]);
    server.always(prompt("ID:lead").input("teammate-message"), [to("anna")]);
    server.always(prompt("ID:lead"), say("played"));
    server.on(prompt("ID:anna"), [[to("team-lead")].into(), say("played").into()]);
    server.always(prompt("ID:anna").input("teammate-message"), [to("team-lead")]);
    server.always(prompt("ID:anna"), say("played"));
    let done = world.festoon(["-p", "ID:lead", "--wait", "2"]).run();
    done.code(0);
    assert_eq!(done.stdout, "played\n");
}

#[test]
fn a_paused_answer_goes_on_from_the_same_history() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [[say("I search."), Part::Stop("pause_turn")].into(), say("Found.").into()]);
    let done = world.festoon(["-p", "ID:lead", "--output-format", "json"]).run();
    done.code(0);
    let result = done.result();
    assert_eq!((&result["result"], &result["num_turns"]), (&json!("Found."), &json!(2)));
    let [first, second] = &server.requests()[..] else { panic!("two requests") };
    let roles = |request: &crate::support::model_server::Request| -> Vec<Value> {
        request.messages().iter().map(|m| m["role"].clone()).collect()
    };
    assert_eq!((json!(roles(first)), json!(roles(second))), (json!(["user"]), json!(["user", "assistant"])));
}

#[test]
fn an_answer_that_breaks_off_says_so() {
    let server = ModelServer::start();
    let world = server.world();
    server.always(prompt("ID:lead"), [say("It goes on and"), Part::Stop("max_tokens")]);
    let json = world.festoon(["-p", "ID:lead", "--output-format", "json"]).run();
    json.code(0);
    assert_eq!(json.result()["stop_reason"], "max_tokens");
    let text = world.festoon(["-p", "ID:lead"]).run();
    text.code(0);
    assert_eq!(text.stdout, "It goes on and\n");
    let last = text.stderr.lines().last().unwrap_or_default();
    assert_eq!(last, "warning: the answer is cut: it reached the model's limit of output tokens");
}

#[test]
fn a_second_leader_is_told_who_leads() {
    let server = ModelServer::start();
    let world = server.world();
    let other = world.outside().join("other");
    std::fs::create_dir(&other).expect("dir");
    let elsewhere = |args: &[&str]| crate::support::run::Festoon::new(&other, &world.env, args);
    server.always(prompt("ID:other"), say("ok"));
    elsewhere(&["-p", "ID:other", "--session-id", SESSION]).run().code(0);
    server.on(prompt("ID:lead"), [[gate("go"), say("done")].into()]);
    let leader = world.festoon(["-p", "ID:lead", "--session-id", SESSION]).start();
    server.reached("go");
    let second = elsewhere(&["-p", "ID:other again", "--resume", SESSION, "--json"]).run();
    second.code(1);
    let error = second.error();
    let team = world.teams()[0].file_name().expect("name").to_str().expect("UTF-8").to_owned();
    let host = festoon::os::process::host();
    assert_eq!(
        error,
        json!({
            "kind": "team_in_use",
            "message": format!("the team {team} is led by process {} on {host}", leader.pid()),
            "hint": format!(
                "`festoon ps` shows it, `festoon team stop {team}` ends its members; end that process first"
            ),
        })
    );
    server.open("go");
    leader.wait().code(0);
}

fn tokens(usage: &Value) -> u64 {
    usage.as_object().expect("usage").values().map(|n| n.as_u64().expect("a number")).sum()
}

/// Tokens of each agent that `ps` shows.
fn ps(world: &World) -> Vec<u64> {
    let done = world.festoon(["ps", "--all", "--json"]).run();
    done.code(0);
    let rows: Value = serde_json::from_str(&done.stdout).expect("JSON");
    let rows = rows.as_array().unwrap_or_else(|| panic!("{rows}"));
    rows.iter().map(|row| row["tokens"].as_u64().expect("a number")).collect()
}

#[test]
fn a_result_counts_its_run_and_the_books_the_whole_life() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [[teammate("anna", "ID:anna")].into()]);
    server.on(prompt("ID:lead").input("a new one"), [[teammate("anna", "ID:anna")].into()]);
    server.always(prompt("ID:lead"), say("Ok."));
    server.always(prompt("ID:anna"), say("I am here."));
    let first = world.festoon(["-p", "ID:lead", "--session-id", SESSION, "--output-format", "json"]).run();
    first.code(0);
    let of_first = tokens(&server.usage(None));
    assert_eq!(tokens(&first.result()["usage"]), of_first);
    let books = ps(&world);
    assert_eq!((books.len(), books.iter().sum::<u64>()), (2, of_first), "{books:?}");
    let anna = books[1];

    let again = ["-p", "a new one", "--resume", SESSION, "--output-format", "json"];
    let second = world.festoon(again).run();
    second.code(0);
    let all = tokens(&server.usage(None));
    assert_eq!(tokens(&second.result()["usage"]), all - of_first);
    let members = world.members();
    let incarnations: Vec<&Value> = members.iter().map(|m| &m["incarnation"]).collect();
    assert_eq!(incarnations, [1, 2]);
    assert_eq!(tokens(&members[0]["ended"]["usage"]), anna);
    assert_eq!(ps(&world).iter().sum::<u64>() + anna, all);
}

#[test]
fn a_resumed_agent_goes_on_from_what_it_has_used() {
    let server = ModelServer::start();
    let world = server.world();
    let prices = r#"{"prices":{"anthropic:test-model":{"input":1.0,"output":4.0,"cacheRead":0.5,"cacheWrite5m":2.0}}}"#;
    server.on(prompt("ID:lead"), [say("One.").into(), [gate("go"), say("Two.")].into()]);
    let first = ["-p", "ID:lead", "--settings", prices, "--session-id", SESSION, "--output-format", "json"];
    let first = world.festoon(first).run();
    first.code(0);
    // Nobody needed the team: the transcript alone knows.
    assert_eq!(world.teams(), Vec::<std::path::PathBuf>::new());
    let second = ["-p", "go on", "--settings", prices, "--resume", SESSION, "--output-format", "json"];
    let second = world.festoon(second).start();
    server.reached("go");
    let record = std::fs::read_to_string(world.teams()[0].join("run/team-lead.json")).expect("a record");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    let before = first.result();
    assert_eq!(record["usage"], before["usage"]);
    let (cost, spent) = (record["cost"].as_f64(), before["total_cost_usd"].as_f64());
    assert_eq!(cost, spent);
    assert!(spent > Some(0.0), "{spent:?}");
    server.open("go");
    let after = second.wait();
    after.code(0);
    assert_eq!(after.result()["usage"]["output_tokens"], before["usage"]["output_tokens"]);
}
