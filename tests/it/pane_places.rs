//! Panes that are hidden and shown, and panes in a server that the leader is not in.

use crate::support::model_server::{ModelServer, gate, prompt, say};
use crate::support::panes::{Tmux, worker};
use crate::support::state::json_file;
use crate::support::wait::{self, until};
use crate::teammates::start;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::io::Write;

#[test]
fn a_person_hides_and_shows_a_pane_and_the_roster_remembers() {
    let server = ModelServer::start();
    let mut world = server.world();
    let sockets = world.outside().join("tmux").to_str().expect("UTF-8").to_owned();
    world.env.insert("TMUX_TMPDIR".into(), sockets);
    let tmux = Tmux::start(&world);
    server.on(
        prompt("ID:lead"),
        [[start("a", "anna", "ID:anna"), start("b", "ben", "ID:ben")].into(), say("Started.").into()],
    );
    server.always(prompt("ID:lead"), say("Heard."));
    for name in ["anna", "ben"] {
        server.on(prompt(&format!("ID:{name}")), [say("Done.").into()]);
    }
    let mut running = world.festoon(["--teammate-mode", "tmux"]).silent_stdin().start();
    let mut stdin = running.stdin.take().expect("a pipe");
    let mut line = |text: &str| writeln!(stdin, "{text}").expect("is read");
    line("ID:lead");
    until("both are in the roster", || {
        let made = world.teams().first().is_some_and(|team| team.join("team.json").exists());
        made && world.members().iter().filter(|m| !m["paneId"].is_null()).count() == 2
    });
    let socket = std::path::PathBuf::from(world.members()[0]["paneServer"].as_str().expect("a server"));
    let name = socket.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    let pane = world.members()[0]["paneId"].as_str().expect("a pane").to_owned();
    let windows = || {
        let listed = tmux.run_at(&name, &["list-panes", "-a", "-F", "#{window_id}"]).stdout;
        let mut windows: Vec<String> = String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect();
        windows.sort();
        windows.dedup();
        windows.len()
    };
    let hidden = || json_file(&world.team().join("team.json"))["hiddenPaneIds"].clone();
    assert_eq!((windows(), hidden()), (1, json!([])));
    line("/team hide anna");
    until("it is noted", || hidden() == json!([pane]));
    assert_eq!(windows(), 2);
    line("/team show anna");
    until("that is noted", || hidden() == json!([]));
    assert_eq!(windows(), 1);
    line("/team hide nobody");
    line("/team hide anna");
    until("it is hidden again", || hidden() == json!([pane]));
    drop(stdin);
    let done = running.wait();
    assert!(
        (done.stdout.clone() + &done.stderr).contains("there is no teammate nobody that lives"),
        "{}",
        done.stdout
    );
    // The id may come again in another server.
    assert_eq!(hidden(), json!([]));
    drop(tmux);
    world.all_gone();
}

#[test]
fn a_leader_outside_reaches_the_panes_of_the_server_it_was_in() {
    let server = ModelServer::start();
    let world = server.world();
    let tmux = Tmux::start(&world);
    let before = tmux.panes("#{pane_id}");
    server.on(prompt("ID:lead"), [start("a", "anna", "ID:anna").into(), [gate("lead"), say("x")].into()]);
    server.on(prompt("ID:anna"), [[gate("anna"), say("Done.")].into()]);
    let leader = tmux.leader(&world.env, &["-p", "ID:lead", "--teammate-mode", "tmux"]);
    server.reached("anna");
    server.reached("lead");
    worker(&world, "anna");
    assert_eq!(tmux.panes("#{pane_id}").len(), before.len() + 2);
    let lead = json_file(&world.team().join("run/team-lead.json"))["pid"].as_i64().expect("a pid");
    kill(Pid::from_raw(i32::try_from(lead).expect("a pid")), Signal::SIGKILL).expect("kills");
    leader.wait();
    server.open("anna");
    server.always(prompt("ID:lead"), say("Heard."));
    // Not in this tmux, and with no server of its own: what is recorded leads to the pane.
    let second = world.festoon(["-p", "Go on.", "--continue"]).run();
    second.code(0);
    let ended: Vec<Value> =
        world.members().iter().map(|m| json!([m["ended"]["state"], m["ended"]["exit"]])).collect();
    assert_eq!(ended, [json!(["stopped", "exit 0"])]);
    wait::until("the leader's own pane has closed", || tmux.panes("#{pane_id}") == before);
    drop(tmux);
    world.all_gone();
}
