//! Thirty teammates started and ended after one another: nothing of them is left, and nothing flickers.

use crate::shutdown::answer;
use crate::support::model_server::{ModelServer, Reply, call_as, gate, prompt, say};
use crate::support::panes::{Tmux, worker};
use crate::support::wait::until;
use crate::support::world::World;
use crate::teammates::start;
use festoon::os::process;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

const ROUNDS: usize = 30;

/// How one ends: told to by its leader, or killed from outside.
fn is_killed(round: usize) -> bool {
    round % 2 == 1
}

/// Each round starts the same name, which works at a command when it is ended.
fn rounds(server: &ModelServer) {
    for round in 0..ROUNDS {
        let anna = format!("ID:anna{round}.");
        let mut replies: Vec<Reply> =
            vec![[gate(&format!("start{round}")), start(&format!("a{round}"), "anna", &anna)].into()];
        if !is_killed(round) {
            let stop = call_as(&format!("s{round}"), "TaskStop", json!({ "task_id": "anna" }));
            replies.push([gate(&format!("stop{round}")), stop].into());
        }
        server.on(prompt("ID:lead"), replies);
        let command = json!({ "command": format!("touch up{round}; sleep 1000"), "timeout": 600_000 });
        server.on(prompt(&anna), [call_as("b", "Bash", command).into(), answer(true, None)]);
    }
    server.on(prompt("ID:lead"), [[gate("end"), say("All of them.")].into()]);
    server.always(prompt("ID:lead"), say("Ok."));
}

/// Plays them; the processes that were their sessions' first.
fn play(server: &ModelServer, world: &World) -> Vec<u32> {
    let mut sessions = Vec::new();
    for round in 0..ROUNDS {
        server.open(&format!("start{round}"));
        until("she works", || world.project.join(format!("up{round}")).exists());
        let anna = worker(world, "anna");
        sessions.push(anna);
        if is_killed(round) {
            let pid = Pid::from_raw(i32::try_from(anna).expect("a pid"));
            kill(pid, Signal::SIGKILL).expect("it runs");
        } else {
            server.open(&format!("stop{round}"));
        }
        until("her end is noted", || {
            let members = world.members();
            let ended = members.iter().filter(|member| !member["ended"].is_null()).count();
            members.last().is_some_and(|last| last["incarnation"] == json!(round + 1))
                && ended == members.len()
        });
    }
    sessions
}

/// Processes of these sessions.
fn of_sessions(sessions: &[u32]) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("processes").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| process::stat(*pid).is_some_and(|stat| sessions.contains(&stat.session))).collect()
}

/// Sockets in a directory and below it.
fn sockets(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let kind = entry.file_type().expect("a kind");
        if kind.is_dir() {
            found.extend(sockets(&entry.path()));
        } else if kind.is_socket() {
            found.push(entry.path());
        }
    }
    found
}

/// What the rounds leave behind while their leader still runs: nothing.
fn nothing_is_left(world: &World, sessions: &[u32], others: &[PathBuf]) {
    until("their processes are gone", || of_sessions(sessions).is_empty());
    let specs = || world.files().into_iter().filter(|file| file.to_string_lossy().contains("/specs/"));
    until("their specs are gone", || specs().next().is_none());
    assert_eq!(sockets(&world.outside()), others);
    let ends: Vec<Value> = world
        .members()
        .iter()
        .map(|m| json!([m["agentName"], m["incarnation"], m["ended"]["state"]]))
        .collect();
    let state = |round| if is_killed(round) { "lost" } else { "stopped" };
    let wanted: Vec<Value> = (0..ROUNDS).map(|round| json!(["anna", round + 1, state(round)])).collect();
    assert_eq!(ends, wanted);
    // Places in the budget's ledger are the leader's alone again.
    let rows = world.festoon(["ps", "--json"]).run().json();
    let living: Vec<&Value> = rows
        .as_array()
        .expect("rows")
        .iter()
        .filter(|row| !row["pid"].is_null())
        .map(|row| &row["name"])
        .collect();
    assert_eq!(living, ["team-lead"]);
}

/// She is interrupted at once when she is told to end, and then agrees.
const RUN: [&str; 6] = [
    "-p",
    "ID:lead",
    "--permission-mode",
    "bypassPermissions",
    "--settings",
    r#"{"shutdown":{"politeMs":20,"interruptMs":60000,"terminateMs":60000}}"#,
];

#[test]
fn nothing_is_left_of_thirty_processes() {
    let server = ModelServer::start();
    let world = server.world();
    rounds(&server);
    let running = world.festoon(RUN).args(["--teammate-mode", "process"]).start();
    let sessions = play(&server, &world);
    nothing_is_left(&world, &sessions, &[]);
    server.open("end");
    running.wait().code(0);
    world.all_gone();
    assert_eq!(world.check_cut_transcripts(), ROUNDS + 1);
}

#[test]
fn nothing_is_left_of_thirty_panes_and_their_window_is_at_rest_in_between() {
    let server = ModelServer::start();
    let world = server.world();
    let tmux = Tmux::start(&world);
    rounds(&server);
    let before = tmux.panes("#{pane_id} #{pane_pid} #{window_id} #{pane_width}x#{pane_height}");
    let own = sockets(&world.outside());
    let leader = tmux.leader(&world.env, &[&RUN[..], &["--teammate-mode", "tmux"]].concat());
    until("the leader works", || !server.of("ID:lead").is_empty());
    let size = "#{pane_id} #{pane_pid} #{window_id} #{pane_width}x#{pane_height}";
    let with_leader = tmux.panes(size);
    // A letter for each change.
    tmux.ok(&["set-hook", "-g", "window-layout-changed", "set-option -ga @layouts x"]);
    tmux.ok(&["set-option", "-g", "@layouts", ""]);
    let sessions = play(&server, &world);
    until("the panes are gone", || tmux.panes(size) == with_leader);
    let changes = tmux.ok(&["show-options", "-gv", "@layouts"]).len();
    // At most once when a pane comes and once when it goes. One that comes while the last still goes may find no
    // room beside it and gets a window of its own, which changes no layout.
    assert!((1..=2 * ROUNDS).contains(&changes), "the layout changed {changes} times");
    nothing_is_left(&world, &sessions, &own);
    server.open("end");
    assert_eq!(leader.wait(), 0, "{}", leader.stderr());
    until("the leader's pane is gone", || tmux.panes(size) == before);
    drop(tmux);
    world.all_gone();
    assert_eq!(world.check_cut_transcripts(), ROUNDS + 1);
}
