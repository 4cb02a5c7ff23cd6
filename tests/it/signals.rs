//! Ended from outside: by signals, by a reader that goes away, by `kill -9`.

use crate::support::model_server::{ModelServer, Reply, call_as, gate, prompt, say};
use crate::support::run::Running;
use crate::support::wait;
use crate::support::world::World;
use crate::teammates::{send, start};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const FREE: [&str; 2] = ["--permission-mode", "bypassPermissions"];

#[test]
fn a_signal_in_the_middle_of_an_answer_ends_in_order() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let server = ModelServer::start();
        let world = server.world();
        server.on(prompt("ID:lead"), [[say("I begin."), gate("never")].into()]);
        let running = world.festoon(["-p", "ID:lead", "--output-format", "json"]).start();
        server.reached("never");
        running.signal(signal);
        let done = running.wait();
        done.code(130);
        let result = done.result();
        assert_eq!((&result["is_error"], &result["error"]["kind"]), (&json!(true), &json!("interrupted")));
        assert_eq!(world.check_transcripts(), 1);
    }
}

/// Starts a command that shields itself and has children that do; returns once it runs.
fn hanging(world: &World, running: &Running) {
    wait::until("the command runs", || {
        assert!(running.stderr().is_empty(), "{}", running.stderr());
        world.project.join("up").exists()
    });
}

fn hang() -> Reply {
    let command = "trap '' TERM INT HUP; (setsid sh -c 'trap \"\" TERM INT HUP; echo > up; while :; do sleep 100; done' &); \
                   while :; do sleep 100; done";
    [call_as("hang", "Bash", json!({ "command": command, "timeout": 600_000 }))].into()
}

#[test]
fn a_signal_in_the_middle_of_a_tool_takes_everything_along() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let server = ModelServer::start();
        let world = server.world();
        server.on(prompt("ID:lead"), [hang()]);
        let running = world.festoon(["-p", "ID:lead"]).args(FREE).start();
        hanging(&world, &running);
        running.signal(signal);
        running.wait().code(130);
        world.all_gone();
        assert_eq!(world.check_transcripts(), 1);
        let lines = world.transcript();
        let result =
            lines.iter().find(|l| l["message"]["content"][0]["type"] == "tool_result").expect("a result");
        assert_eq!(result["message"]["content"][0]["is_error"], true);
    }
}

#[test]
fn a_signal_ends_the_whole_team() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            [start("a", "anna", "ID:anna"), start("b", "ben", "ID:ben")].into(),
            [gate("lead"), say("x")].into(),
        ],
    );
    server.on(prompt("ID:anna"), [hang()]);
    server.on(prompt("ID:ben"), [[gate("ben"), say("x")].into()]);
    let running = world.festoon(["-p", "ID:lead"]).args(FREE).start();
    hanging(&world, &running);
    server.reached("lead");
    server.reached("ben");
    running.signal(Signal::SIGINT);
    running.wait().code(130);
    world.all_gone();
    assert!(world.members().iter().all(|m| m["ended"]["state"] == "stopped"), "{:#?}", world.members());
    assert_eq!(world.check_transcripts(), 3);
}

#[test]
fn a_signal_while_it_waits_for_a_teammate() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [[start("a", "anna", "ID:anna")].into(), say("Waiting.").into()]);
    server.on(prompt("ID:anna"), [[gate("never"), say("x")].into()]);
    let running = world.festoon(["-p", "ID:lead"]).start();
    server.reached("never");
    wait::until("the leader waits", || {
        let run = world.team().join("run/team-lead.json");
        crate::support::state::json_file(&run)["state"] == "idle" && server.of("ID:lead").len() == 2
    });
    running.signal(Signal::SIGTERM);
    running.wait().code(130);
    assert_eq!(world.check_transcripts(), 2);
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    for format in ["text", "json", "stream-json"] {
        let server = ModelServer::start();
        let world = server.world();
        server.on(prompt("ID:lead"), [[gate("go"), say(&"long ".repeat(50_000))].into()]);
        let binary = env!("CARGO_BIN_EXE_festoon");
        let mut child = std::process::Command::new("sh")
            .args(["-c", "\"$0\" -p ID:lead --output-format \"$1\" 2>errors </dev/null | :", binary, format])
            .current_dir(&world.project)
            .env_clear()
            .envs(&world.env)
            .spawn()
            .expect("starts");
        server.reached("go");
        server.open("go");
        child.wait().expect("ends");
        assert_eq!(world.read("errors"), "", "{format}");
        world.all_gone();
    }
}

#[test]
fn kill_nine_of_the_leader_loses_nothing_that_was_said_or_stored() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            [say("I start."), start("a", "anna", "ID:anna")].into(),
            [send("m1", "anna", "First."), send("m2", "anna", "Second.")].into(),
            hang(),
        ],
    );
    server.on(prompt("ID:anna"), [[gate("never"), say("x")].into()]);
    let running = world.festoon(["-p", "ID:lead"]).args(FREE).start();
    server.reached("never");
    hanging(&world, &running);
    running.signal(Signal::SIGKILL);
    let done = running.wait();
    assert_eq!(done.signal, Some(9));
    world.all_gone();

    assert_eq!(world.check_cut_transcripts(), 2);
    // The transcripts are whole lines, and hold all that was said.
    let lines = world.transcript();
    let kinds: Vec<&str> =
        lines.iter().filter(|l| l["type"] != "system").filter_map(|l| l["type"].as_str()).collect();
    assert_eq!(kinds, ["user", "assistant", "user", "assistant", "user", "assistant"]);
    assert_eq!(world.sidechain_of("anna").iter().filter(|l| l["type"] == "user").count(), 1);
    // The mail waits, unread, in order.
    let waiting: Vec<Value> =
        world.mail("anna").iter().map(|m| json!([m["text"], m["read"], m["seq"]])).collect();
    assert_eq!(waiting, [json!(["First.", false, 1]), json!(["Second.", false, 2])]);
    // The leader's place is free again.
    let lock = world.team().join("leader.lock");
    let file = std::fs::File::open(lock).expect("the lock stays");
    assert!(nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusiveNonblock).is_ok());
}
