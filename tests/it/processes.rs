//! Teammates as processes without a terminal.

use crate::support::model_server::{ModelServer, call_as, gate, prompt, say};
use crate::support::panes::worker;
use crate::support::wait;
use crate::teammates::{send, start};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getsid};
use serde_json::{Value, json};

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).expect("a pid"))
}

const RUN: [&str; 6] =
    ["-p", "ID:lead", "--teammate-mode", "process", "--permission-mode", "bypassPermissions"];

#[test]
fn a_worker_without_a_terminal_works_writes_and_ends_with_its_leader() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [start("a", "anna", "ID:anna").into(), [gate("lead"), send("m", "anna", "And the tests?")].into()],
    );
    server.always(prompt("ID:lead"), say("Ok."));
    server.on(
        prompt("ID:anna"),
        [
            call_as("env", "Bash", json!({ "command": "echo $FESTOON_AGENT_NAME; tty" })).into(),
            [gate("anna"), say("Ready.")].into(),
            say("They pass.").into(),
        ],
    );
    let running = world.festoon(RUN).start();
    server.reached("anna");
    server.reached("lead");
    let anna = worker(&world, "anna");
    assert_ne!(anna, running.pid());
    assert_eq!(getsid(Some(pid(anna))).expect("it runs"), pid(anna), "a session of its own");
    let rows = world.festoon(["ps", "--json"]).run().json();
    assert_eq!(
        json!([rows[1]["name"], rows[1]["backend"], rows[1]["pid"], rows[1]["paneId"], rows[1]["evidence"]]),
        json!(["anna", "process", anna, null, format!("pid {anna} running")])
    );
    server.open("lead");
    server.open("anna");
    running.wait().code(0);
    let (said, _) = server.last_of("ID:anna").result("env");
    assert!(said.trim_end().ends_with("anna\nnot a tty"), "{said}");
    let heard = server.last_of("ID:lead").mail().concat().join("\n");
    assert!(heard.contains("Ready.") || heard.contains("They pass."), "{heard}");
    assert_eq!(world.members()[0]["ended"]["exit"], "exit 0");
    world.all_gone();
    assert_eq!(world.check_transcripts(), 2);
    let specs = world.files().into_iter().filter(|file| file.to_string_lossy().contains("/specs/"));
    assert_eq!(specs.count(), 0, "neither its spec nor what it printed stays");
}

#[test]
fn a_killed_worker_is_lost_with_its_signal_and_leaves_nothing_running() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [start("a", "anna", "ID:anna").into(), [gate("lead"), say("Waiting.")].into()],
    );
    server.always(prompt("ID:lead"), say("Ok."));
    let command = "echo up > up; setsid sleep 600 & while :; do sleep 100; done";
    server.on(
        prompt("ID:anna"),
        [call_as("b", "Bash", json!({ "command": command, "timeout": 600_000 })).into()],
    );
    let running = world.festoon(RUN).start();
    server.reached("lead");
    wait::until("her command runs", || world.project.join("up").exists());
    kill(pid(worker(&world, "anna")), Signal::SIGKILL).expect("it runs");
    server.open("lead");
    running.wait().code(0);
    let heard = server.last_of("ID:lead").mail().concat().join("\n");
    assert!(heard.contains("anna is lost") && heard.contains("signal 9"), "{heard}");
    let ended = &world.members()[0]["ended"];
    assert_eq!(json!([ended["state"], ended["exit"]]), json!(["lost", "signal 9"]));
    world.all_gone();
}

#[test]
fn a_worker_outlives_its_leader_and_is_adopted_whatever_the_mode() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [start("a", "anna", "ID:anna").into(), [gate("lead"), say("x")].into()]);
    server.on(prompt("ID:anna"), [[gate("anna"), say("I went on without you.")].into()]);
    let leader = world.festoon(RUN).start();
    server.reached("anna");
    server.reached("lead");
    let anna = worker(&world, "anna");
    leader.signal(Signal::SIGKILL);
    leader.wait();
    server.open("anna");
    wait::until("she is idle", || !world.events_of("idle").is_empty());
    assert!(world.living().contains(&anna));
    server.always(prompt("ID:lead"), say("I heard."));
    let second = world.festoon(["-p", "Go on.", "--continue", "--teammate-mode", "in-process"]).run();
    second.code(0);
    let heard = server.last_of("ID:lead").mail().concat();
    assert_eq!(heard.iter().filter(|t| t.contains("I went on without you.")).count(), 1, "{heard:#?}");
    let states: Vec<Value> = world.members().iter().map(|m| m["ended"]["state"].clone()).collect();
    assert_eq!(states, ["stopped"]);
    world.all_gone();
}
