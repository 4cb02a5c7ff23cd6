//! What new leaders start again, and what not; what workers do without one, whatever they run in.

use crate::support::iterm::Iterm;
use crate::support::model_server::{ModelServer, call_as, gate, prompt, say};
use crate::support::panes::{Tmux, worker};
use crate::support::run::Festoon;
use crate::support::state::json_file;
use crate::support::wait::until;
use crate::support::world::World;
use crate::teammates::start;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

#[test]
fn a_teammate_that_takes_its_leader_down_is_not_started_for_ever() {
    let server = ModelServer::start();
    let world = server.world();
    let gates: Vec<String> = (0..4).map(|n| format!("work{n}")).collect();
    server.on(prompt("ID:lead"), [start("a", "anna", "ID:anna").into(), [gate("lead"), say("x")].into()]);
    server.on(prompt("ID:anna"), gates.iter().map(|name| [gate(name), say("never")].into()));
    let mut running = world.festoon(["-p", "ID:lead"]).start();
    for name in &gates {
        server.reached(name);
        running.signal(Signal::SIGKILL);
        running.wait();
        server.always(prompt("ID:lead"), say("Heard."));
        running = world.festoon(["-p", "Go on.", "--continue"]).start();
    }
    let done = running.wait();
    done.code(0);
    let said = "anna is failed: it was started again 3 times within 10 minutes";
    assert!(done.stderr.contains(said), "{}", done.stderr);
    let row = world.members().remove(0);
    assert_eq!((&row["ended"]["state"], row["incarnation"].as_u64()), (&json!("failed"), Some(1)));
    // Once.
    let again = world.festoon(["-p", "And now?", "--continue"]).run();
    again.code(0);
    assert!(!again.stderr.contains("anna"), "{}", again.stderr);
}

#[test]
fn one_that_rested_when_its_leader_died_has_not_been_started_again_for_that() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [start("a", "anna", "ID:anna").into(), [gate("lead"), say("x")].into()]);
    server.on(prompt("ID:anna"), [say("I am done.").into()]);
    let running = world.festoon(["-p", "ID:lead"]).start();
    server.reached("lead");
    let record = world.team().join("run/anna.json");
    until("she rests", || json_file(&record)["state"] == "idle");
    running.signal(Signal::SIGKILL);
    running.wait();
    server.always(prompt("ID:lead"), say("Heard."));
    let done = world.festoon(["-p", "Go on.", "--continue"]).run();
    done.code(0);
    assert!(done.stderr.contains("anna is started again"), "{}", done.stderr);
    assert_eq!(world.members()[0].get("restarts").unwrap_or(&json!([])), &json!([]));
}

/// A leader of a worker that works, killed; what is left of the worker is the caller's to look at.
fn bereaved(world: &World, server: &ModelServer, leader: Festoon) -> u32 {
    server.on(prompt("ID:lead"), [start("a", "anna", "ID:anna").into(), [gate("lead"), say("x")].into()]);
    server.on(prompt("ID:anna"), [[gate("anna"), say("I am done.")].into()]);
    let leader = leader.start();
    server.reached("anna");
    server.reached("lead");
    let anna = worker(world, "anna");
    leader.signal(Signal::SIGKILL);
    leader.wait();
    anna
}

#[test]
fn without_a_leader_workers_park_or_exit_whatever_they_run_in() {
    for backend in ["process", "tmux", "iterm2"] {
        for parks in [true, false] {
            let server = ModelServer::start();
            let mut world = server.world();
            let sockets = world.outside().join("tmux").to_str().expect("UTF-8").to_owned();
            world.env.insert("TMUX_TMPDIR".into(), sockets);
            let tmux = Tmux::start(&world);
            let iterm = Iterm::start(&world);
            let settings = format!(r#"{{"orphanedWorkers":"{}"}}"#, if parks { "park" } else { "exit" });
            let args = ["-p", "ID:lead", "--teammate-mode", backend, "--settings", &settings];
            let leader = Festoon::new(&world.project, &iterm.env(&world), args);
            let anna = bereaved(&world, &server, leader);
            if parks {
                server.open("anna");
                until("it is idle", || !world.events_of("idle").is_empty());
                assert!(world.living().contains(&anna), "{backend}");
                assert!(world.members()[0].get("ended").is_none(), "{backend}");
                kill(Pid::from_raw(i32::try_from(anna).expect("a pid")), Signal::SIGTERM).expect("signals");
            }
            until("it is gone", || !world.living().contains(&anna));
            until("its pane is gone", || iterm.sessions().is_empty());
            drop((tmux, iterm));
            world.all_gone();
        }
    }
}

#[test]
fn an_open_ask_of_one_that_is_started_again_is_closed_and_asked_anew() {
    let server = ModelServer::start();
    let world = server.world();
    let touch = |id: &str| call_as(id, "Bash", json!({ "command": "touch made" }));
    server.on(prompt("ID:lead"), [start("a", "anna", "ID:anna").into(), [gate("lead"), say("x")].into()]);
    server.on(prompt("ID:anna"), [touch("first").into(), touch("second").into(), say("It is made.").into()]);
    let wait = ["--ask-timeout", "600"];
    let leader = world.festoon(["-p", "ID:lead"]).args(wait).start();
    server.reached("lead");
    let open = || -> Vec<String> {
        let listed = world.festoon(["ask", "list", "--json"]).run().json();
        let asks = listed.as_array().cloned().unwrap_or_default();
        let open = asks.iter().filter(|ask| ask["status"] == "open");
        open.filter_map(|ask| ask["id"].as_str().map(str::to_owned)).collect()
    };
    until("it asks", || open().len() == 1);
    let first = open().remove(0);
    leader.signal(Signal::SIGKILL);
    leader.wait();
    // It waits for a person, whoever is dead.
    assert_eq!(open(), std::slice::from_ref(&first));
    server.always(prompt("ID:lead"), say("Heard."));
    let second = world.festoon(["-p", "Go on.", "--continue", "--output-format", "json"]).args(wait).start();
    until("it asks anew", || open().iter().any(|id| *id != first));
    let late = world.festoon(["ask", "approve", &first, "--json"]).run();
    late.code(1);
    world.festoon(["ask", "approve", &open()[0]]).run().code(0);
    second.wait().code(0);
    assert!(world.project.join("made").exists());
    let ends: Vec<Value> = world.members().iter().map(|m| m["ended"]["state"].clone()).collect();
    assert_eq!(ends, ["stopped"]);
}
