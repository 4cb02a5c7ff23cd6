//! Teammates in panes of iTerm2, through a fake `it2`.

use crate::support::iterm::{Iterm, LEADER};
use crate::support::model_server::{ModelServer, gate, prompt, say};
use crate::support::panes::{environment, worker};
use crate::support::run::Festoon;
use crate::support::wait;
use crate::support::world::World;
use crate::teammates::start;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const RUN: [&str; 4] = ["-p", "ID:lead", "--teammate-mode", "iterm2"];

fn leader(world: &World, iterm: &Iterm, args: &[&str]) -> Festoon {
    Festoon::new(&world.project, &iterm.env(world), args)
}

fn team(server: &ModelServer) {
    server.on(
        prompt("ID:lead"),
        [
            [start("a", "anna", "ID:anna"), start("b", "ben", "ID:ben")].into(),
            [gate("lead"), say("Waiting.")].into(),
        ],
    );
    server.always(prompt("ID:lead"), say("Heard."));
    for name in ["anna", "ben"] {
        server.on(prompt(&format!("ID:{name}")), [[gate(name), say(&format!("{name} is done."))].into()]);
    }
}

fn ends(world: &World) -> Vec<Value> {
    world.members().iter().map(|m| m["ended"]["state"].clone()).collect()
}

#[test]
fn workers_are_the_panes_own_processes_and_nothing_is_typed() {
    let server = ModelServer::start();
    let world = server.world();
    let iterm = Iterm::start(&world);
    team(&server);
    let running = leader(&world, &iterm, &RUN).start();
    for name in ["anna", "ben", "lead"] {
        server.reached(name);
    }
    let sessions = iterm.sessions();
    let rows: Vec<Value> = world.members().iter().map(|m| json!([m["backendType"], m["paneId"]])).collect();
    let mut panes: Vec<Value> = sessions.iter().map(|id| json!(["iterm2", id])).collect();
    // Who came first does not matter.
    panes.sort_by_key(|pane| rows.iter().position(|row| row == pane));
    assert_eq!(rows, panes);
    assert_eq!(iterm.splits(), [(LEADER.to_owned(), "-v"), (sessions[0].clone(), "")]);
    assert_eq!(iterm.profiles(), Vec::<std::path::PathBuf>::new());
    let seen = environment(worker(&world, "anna"));
    assert_eq!(seen.get("ONLY_IN_ITERM"), None);
    assert_eq!(seen["FESTOON_AGENT_NAME"], "anna");
    assert_eq!(seen.get("ANTHROPIC_API_KEY"), world.env.get("ANTHROPIC_API_KEY"));
    for name in ["anna", "ben", "lead"] {
        server.open(name);
    }
    running.wait().code(0);
    assert_eq!((ends(&world), iterm.sessions()), (vec![json!("stopped"); 2], Vec::new()));
    assert_eq!(iterm.typed(), Vec::<String>::new());
    world.all_gone();
}

#[test]
fn a_killed_leaders_panes_are_found_again_and_a_closed_one_is_noticed() {
    let server = ModelServer::start();
    let world = server.world();
    let iterm = Iterm::start(&world);
    team(&server);
    let running = leader(&world, &iterm, &RUN).start();
    for name in ["anna", "ben", "lead"] {
        server.reached(name);
    }
    let ben = world.members().iter().find(|m| m["agentName"] == "ben").map(|m| m["paneId"].clone());
    running.signal(Signal::SIGKILL);
    running.wait();
    assert_eq!(iterm.sessions().len(), 2);
    server.open("anna");
    server.open("lead");
    let second = leader(&world, &iterm, &["-p", "Go on.", "--continue"]).start();
    wait::until("a leader is there again", || world.events_of("ready").len() == 4);
    iterm.close(ben.as_ref().and_then(Value::as_str).expect("a pane"));
    second.wait().code(0);
    let mut states = ends(&world);
    states.sort_by_key(ToString::to_string);
    assert_eq!((states, iterm.sessions()), (vec![json!("lost"), json!("stopped")], Vec::new()));
    world.all_gone();
}

#[test]
fn what_cannot_be_is_an_error_that_leaves_nothing() {
    let server = ModelServer::start();
    let world = server.world();
    let iterm = Iterm::start(&world);
    let outside = world.festoon(RUN).run();
    outside.code(2);
    assert!(outside.stderr.contains("no session of iTerm2"), "{}", outside.stderr);
    iterm.refuse();
    server.on(prompt("ID:lead"), [start("a", "anna", "ID:anna").into(), say("Not there.").into()]);
    leader(&world, &iterm, &RUN).run().code(0);
    let (why, failed) = server.last_of("ID:lead").result("a");
    assert!(failed && why.contains("create pane: it2 session split"), "{why}");
    assert_eq!((iterm.sessions(), iterm.profiles()), (Vec::new(), Vec::new()));
    assert_eq!(world.teams(), Vec::<std::path::PathBuf>::new());
    world.all_gone();
}
