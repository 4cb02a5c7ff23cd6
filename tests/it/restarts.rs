//! What new leaders start again, and what not; what workers do without one, whatever they run in.

use crate::support::iterm::Iterm;
use crate::support::model_server::{ModelServer, gate, prompt, say};
use crate::support::panes::{Tmux, worker};
use crate::support::run::Festoon;
use crate::support::state::json_file;
use crate::support::wait::until;
use crate::support::world::World;
use crate::teammates::start;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

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
