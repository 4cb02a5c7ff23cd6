//! Teammates in tmux panes, end to end, on servers of the tests' own.

use crate::support::model_server::{ModelServer, Part, Reply, call_as, gate, prompt, say};
use crate::support::panes::{Tmux, environment, worker};
use crate::support::wait;
use crate::support::world::{KEY, World};
use crate::teammates::{send, start};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub const STREAM: [&str; 6] = ["-p", "ID:lead", "--teammate-mode", "tmux", "--output-format", "stream-json"];

fn kill_hard(pid: u32) {
    kill(Pid::from_raw(i32::try_from(pid).expect("pid")), Signal::SIGKILL).expect("it runs");
}

fn result(stdout: &str) -> Value {
    let line = stdout.lines().last().unwrap_or_else(|| panic!("nothing was printed"));
    serde_json::from_str(line).expect("JSON")
}

/// A leader that starts these, waits at the gate `lead`, and answers whatever comes.
pub fn team(server: &ModelServer, names: &[&str]) {
    let calls: Vec<Part> = names.iter().map(|n| start(n, n, &format!("ID:{n}"))).collect();
    server.on(prompt("ID:lead"), [calls.into(), [gate("lead"), say("Waiting.")].into()]);
    server.always(prompt("ID:lead"), say("Ok."));
}

/// Variables that a shell between a leader and its worker would change.
pub fn odd() -> Vec<(String, String)> {
    let all = [
        ("ODD_SPACES", "  two  spaces "),
        ("ODD_QUOTES", "it's \"quoted\" `ticks` $HOME ${x} $(id)"),
        ("ODD_LINES", "one\ntwo\n\n"),
        ("ODD_SEMICOLON", "ends in ;"),
        ("ODD_ONE_SEMICOLON", ";"),
        ("ODD_BACKSLASH", "\\; \\n \\"),
        ("ODD_UNICODE", "käse \u{1F41D} \u{202e}x"),
        ("ODD_EMPTY", ""),
        ("ODD_HASH", "#{pane_id} #(id) %1"),
        ("ODD_EQUALS", "a=b=c"),
    ];
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// A worker has the variables of its leader byte for byte, those that say who it is, and tmux's own.
pub fn has_exactly_the_leaders_environment(world: &World, name: &str) {
    let mut seen = environment(worker(world, name));
    let team = world.team().file_name().and_then(|n| n.to_str()).expect("a team").to_owned();
    for (key, value) in [
        ("FESTOON_AGENT_ID", format!("{name}@{team}")),
        ("FESTOON_AGENT_NAME", name.to_owned()),
        ("FESTOON_TEAM_NAME", team.clone()),
        ("FESTOON_LEADER_AGENT_ID", format!("team-lead@{team}")),
    ] {
        assert_eq!(seen.remove(key), Some(value));
    }
    assert!(seen.remove("FESTOON_AGENT_COLOR").is_some() && seen.remove("FESTOON_WORKER_RUN").is_some());
    // tmux's own.
    assert!(seen.remove("TMUX").is_some_and(|v| v.contains("/test,") || v.contains("/festoon-")));
    assert!(seen.remove("TMUX_PANE").is_some_and(|v| v.starts_with('%')));
    assert!(seen.remove("TERM").is_some_and(|v| v != "xterm-256color"));
    seen.remove("PWD");
    let mut wanted = world.env.clone();
    wanted.remove("TERM");
    assert_eq!(seen, wanted);
}

#[test]
fn workers_are_the_panes_own_processes_with_exactly_the_leaders_environment() {
    let server = ModelServer::start();
    let mut world = server.world();
    world.env.extend(odd());
    let tmux = Tmux::start(&world);
    let users = tmux.panes(
        "#{pane_id} #{pane_pid} #{window_id} #{pane_width}x#{pane_height} #{window_index}.#{pane_index}",
    );
    team(&server, &["anna", "ben"]);
    server.on(
        prompt("ID:anna"),
        [[call_as("env", "Bash", json!({ "command": "env -0 | tr '\\n\\0' '\\1\\n'" }))].into()],
    );
    server.on(prompt("ID:anna"), [[gate("anna"), say("Anna is done.")].into()]);
    server.on(prompt("ID:ben"), [[gate("ben"), say("Ben is done.")].into()]);
    let args = [&STREAM[..], &["--permission-mode", "bypassPermissions"]].concat();
    let leader = tmux.leader(&world.env, &args);
    server.reached("anna");
    server.reached("ben");
    server.reached("lead");

    // The workers are what their panes run, and the roster knows which.
    let panes = tmux.panes("#{pane_id} #{pane_pid} #{window_id}");
    let window =
        panes.iter().find(|p| p.starts_with(&format!("{} ", leader.pane))).expect("the leader's pane");
    let window = window.rsplit(' ').next().expect("a window");
    for name in ["anna", "ben"] {
        let members = world.members();
        let member = members.iter().find(|m| m["agentName"] == name).expect("a member");
        let pane = member["paneId"].as_str().expect("a pane");
        assert_eq!(member["backendType"], "tmux");
        let expected = format!("{pane} {} {window}", worker(&world, name));
        assert!(panes.contains(&expected), "{expected}: {panes:#?}");
    }
    assert_eq!(panes.len(), users.len() + 3);

    // The environment.
    for name in ["anna", "ben"] {
        has_exactly_the_leaders_environment(&world, name);
    }
    // And that of a command of a worker's agent: the same, without keys.
    let (text, _) = server.last_of("ID:anna").result("env");
    assert!(text.contains("ODD_QUOTES=it's \"quoted\" `ticks` $HOME ${x} $(id)\n"), "{text}");
    assert!(
        !text.contains(KEY) && !text.contains("of-the-tmux-server") && !text.contains("ONLY_IN_TMUX"),
        "{text}"
    );

    // No key in any file or argument while they run.
    assert_eq!(crate::secrets::files_with(&world, &[KEY]), [leader.dir.join("words")]);
    let processes: Vec<String> =
        world.living().into_iter().map(crate::support::world::command_line).collect();
    assert!(!processes.iter().any(|p| p.contains(KEY) && !p.contains("env -i")), "{processes:#?}");

    for name in ["lead", "anna", "ben"] {
        server.open(name);
    }
    assert_eq!(leader.wait(), 0, "{}", leader.stderr());
    assert_eq!(leader.stderr(), "");
    let heard = server.last_of("ID:lead").mail().concat().join("\n");
    assert!(heard.contains("Anna is done.") && heard.contains("Ben is done."), "{heard}");
    // All panes are gone but the user's, which nobody touched.
    let format =
        "#{pane_id} #{pane_pid} #{window_id} #{pane_width}x#{pane_height} #{window_index}.#{pane_index}";
    wait::until("the panes are gone", || tmux.panes(format) == users);
    let screens: Vec<String> = users
        .iter()
        .map(|p| tmux.ok(&["capture-pane", "-p", "-t", p.split(' ').next().expect("an id")]))
        .collect();
    assert!(screens.iter().all(String::is_empty), "{screens:?}");
    assert_eq!(world.check_transcripts(), 3);
    assert!(world.members().iter().all(|m| m["ended"]["state"] == "stopped"), "{:#?}", world.members());
    // What the workers used is in the leader's sum.
    assert_eq!(result(&leader.stdout())["usage"]["output_tokens"].as_u64().map(|n| n > 20), Some(true));
}

/// The sockets of private servers of this world.
fn private_sockets(world: &World) -> Vec<String> {
    let dir = world.outside().join("tmux").join(format!("tmux-{}", nix::unistd::getuid()));
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.file_name());
    names.filter_map(|n| n.into_string().ok()).filter(|n| n.starts_with("festoon-")).collect()
}

#[test]
fn outside_tmux_a_private_server_is_used_and_gone_afterwards() {
    let server = ModelServer::start();
    let mut world = server.world();
    let sockets = world.outside().join("tmux").to_str().expect("UTF-8").to_owned();
    world.env.insert("TMUX_TMPDIR".into(), sockets);
    let tmux = Tmux::start(&world);
    let before = tmux.panes("#{pane_id}");
    team(&server, &["anna", "ben", "cleo", "dora", "emil"]);
    for name in ["anna", "ben", "cleo", "dora", "emil"] {
        server.on(prompt(&format!("ID:{name}")), [[gate(name), say(&format!("{name} is done."))].into()]);
    }
    let running = world.festoon(STREAM).start();
    for name in ["anna", "ben", "cleo", "dora", "emil", "lead"] {
        server.reached(name);
    }
    let init = running.line("init", |l| l["subtype"] == "init");
    let sockets = private_sockets(&world);
    assert_eq!(sockets.len(), 1);
    assert!(
        init["backend_reason"].as_str().is_some_and(|r| r.contains(&sockets[0]) && r.contains("attach")),
        "{init}"
    );
    let panes = String::from_utf8(
        tmux.run_at(&sockets[0], &["list-panes", "-a", "-F", "#{pane_id} #{pane_pid} #{pane_height}"]).stdout,
    )
    .expect("UTF-8");
    assert_eq!(panes.lines().count(), 5, "{panes}");
    for name in ["anna", "ben", "cleo", "dora", "emil"] {
        assert!(panes.contains(&format!(" {} ", worker(&world, name))), "{panes}");
        server.open(name);
    }
    server.open("lead");
    running.wait().code(0);
    assert_eq!(tmux.panes("#{pane_id}"), before);
    assert_eq!(private_sockets(&world), Vec::<String>::new());
    assert_eq!(world.check_transcripts(), 6);
}

#[test]
fn a_killed_worker_is_noticed_at_once_and_the_rest_goes_on() {
    let server = ModelServer::start();
    let world = server.world();
    let tmux = Tmux::start(&world);
    let before = tmux.panes("#{pane_id}");
    team(&server, &["anna", "ben"]);
    let command = "echo up > up; while :; do sleep 100; done";
    server.on(
        prompt("ID:anna"),
        [[call_as("b", "Bash", json!({ "command": command, "timeout": 600_000 }))].into()],
    );
    server.on(prompt("ID:ben"), [[gate("ben"), say("Ben is done.")].into()]);
    let args = [&STREAM[..], &["--permission-mode", "bypassPermissions"]].concat();
    let leader = tmux.leader(&world.env, &args);
    server.reached("ben");
    wait::until("her command runs", || world.project.join("up").exists());
    server.reached("lead");
    server.open("lead");
    server.wait_for("ID:lead", 2);
    let killed = Instant::now();
    kill_hard(worker(&world, "anna"));
    wait::find("the leader says so", Duration::from_secs(5), || {
        leader.stdout().contains("\"teammate_ended\"").then_some(())
    });
    let noticed = killed.elapsed();
    assert!(noticed < Duration::from_secs(3), "{noticed:?}");
    wait::until("the leader's model is told", || {
        server.last_of("ID:lead").mail().concat().iter().any(|t| t.contains("anna is lost"))
    });
    server.open("ben");
    assert_eq!(leader.wait(), 0, "{}", leader.stderr());
    let heard = server.last_of("ID:lead").mail().concat().join("\n");
    assert!(heard.contains("Ben is done."), "{heard}");
    let members = world.members();
    let states: Vec<&Value> = members.iter().map(|m| &m["ended"]["state"]).collect();
    assert_eq!(states, ["lost", "stopped"]);
    wait::until("the panes are gone", || tmux.panes("#{pane_id}") == before);
    drop(tmux);
    world.all_gone();
    assert_eq!(world.check_cut_transcripts(), 3);
}

#[test]
fn a_pane_that_is_closed_by_hand_can_be_followed_by_a_new_one() {
    let server = ModelServer::start();
    let world = server.world();
    let tmux = Tmux::start(&world);
    let before = tmux.panes("#{pane_id}");
    server.on(prompt("ID:lead"), [[start("a", "anna", "ID:anna-one")].into()]);
    server.on(prompt("ID:lead").input("anna has started"), [say("Waiting.").into()]);
    server.on(
        prompt("ID:lead").input("anna is stopped: it ended by itself"),
        [[start("b", "anna", "ID:anna-two")].into()],
    );
    server.always(prompt("ID:lead"), say("Ok."));
    server.on(prompt("ID:anna-one"), [[gate("one"), say("never")].into()]);
    server.on(prompt("ID:anna-two"), [say("The second Anna.").into()]);
    let leader = tmux.leader(&world.env, &STREAM);
    server.reached("one");
    server.wait_for("ID:lead", 2);
    let pane = world.members()[0]["paneId"].as_str().expect("a pane").to_owned();
    tmux.ok(&["kill-pane", "-t", &pane]);
    assert_eq!(leader.wait(), 0, "{}", leader.stderr());
    assert!(server.last_of("ID:lead").mail().concat().join("\n").contains("The second Anna."));
    let incarnations: Vec<Value> = world.members().iter().map(|m| m["incarnation"].clone()).collect();
    assert_eq!(incarnations, [1, 2]);
    wait::until("the panes are gone", || tmux.panes("#{pane_id}") == before);
}

#[test]
fn workers_and_leader_write_to_each_other_across_processes() {
    let server = ModelServer::start();
    let world = server.world();
    let tmux = Tmux::start(&world);
    team(&server, &["anna", "ben"]);
    server.on(prompt("ID:anna").input("ID:anna"), [[gate("both"), send("q", "ben", "How many?")].into()]);
    // His answer may be there before she has ended her turn.
    server.on(prompt("ID:anna").input("Four."), [say("Ben says four.").into()]);
    server.always(prompt("ID:anna").input("Stored"), Reply::Message(Vec::new()));
    server.on(prompt("ID:ben").input("ID:ben"), [Reply::Message(Vec::new())]);
    server.on(prompt("ID:ben").input("How many?"), [[send("r", "anna", "Four.")].into()]);
    server.on(prompt("ID:ben").input("Stored"), [Reply::Message(Vec::new())]);
    let leader = tmux.leader(&world.env, &STREAM);
    server.reached("both");
    server.wait_for("ID:ben", 1);
    server.open("both");
    server.open("lead");
    assert_eq!(leader.wait(), 0, "{}", leader.stderr());
    assert!(server.last_of("ID:lead").mail().concat().join("\n").contains("Ben says four."));
    assert_eq!(world.check_transcripts(), 3);
}

#[test]
fn a_signal_to_the_leader_takes_its_panes_along() {
    let server = ModelServer::start();
    let world = server.world();
    let tmux = Tmux::start(&world);
    let before = tmux.panes("#{pane_id}");
    team(&server, &["anna", "ben"]);
    let command = "trap '' TERM INT HUP; (setsid sh -c 'trap \"\" TERM INT HUP; echo > up; while :; do sleep 100; done' &); \
                   while :; do sleep 100; done";
    server.on(
        prompt("ID:anna"),
        [[call_as("b", "Bash", json!({ "command": command, "timeout": 600_000 }))].into()],
    );
    server.on(prompt("ID:ben"), [[gate("ben"), say("x")].into()]);
    let args = [&STREAM[..], &["--permission-mode", "bypassPermissions"]].concat();
    let leader = tmux.leader(&world.env, &args);
    server.reached("ben");
    server.reached("lead");
    wait::until("her command runs", || world.project.join("up").exists());
    let run = crate::support::state::json_file(&world.team().join("run/team-lead.json"));
    let pid = i32::try_from(run["pid"].as_i64().expect("a pid")).expect("a pid");
    kill(Pid::from_raw(pid), Signal::SIGTERM).expect("it runs");
    assert_eq!(leader.wait(), 123, "{}", leader.stderr());
    assert_eq!(result(&leader.stdout())["error"]["kind"], "interrupted");
    wait::until("the panes are gone", || tmux.panes("#{pane_id}") == before);
    drop(tmux);
    world.all_gone();
    assert_eq!(world.check_transcripts(), 3);
}

#[test]
fn a_dead_leaders_workers_end_when_the_settings_say_so() {
    let server = ModelServer::start();
    let world = server.world();
    let tmux = Tmux::start(&world);
    let before = tmux.panes("#{pane_id}");
    team(&server, &["anna"]);
    server.on(prompt("ID:anna"), [[gate("anna"), say("x")].into()]);
    let settings = r#"{"orphanedWorkers":"exit"}"#;
    let leader = tmux.leader(&world.env, &[&STREAM[..], &["--settings", settings]].concat());
    server.reached("anna");
    server.reached("lead");
    let run = crate::support::state::json_file(&world.team().join("run/team-lead.json"));
    kill_hard(u32::try_from(run["pid"].as_u64().expect("a pid")).expect("a pid"));
    leader.wait();
    wait::until("the panes are gone", || tmux.panes("#{pane_id}") == before);
    drop(tmux);
    world.all_gone();
    assert_eq!(world.check_cut_transcripts(), 2);
}

#[test]
fn without_tmux_the_wish_for_it_is_an_error_and_auto_is_not() {
    let server = ModelServer::start();
    let mut world = server.world();
    // A path with everything but tmux.
    let bin = world.outside().join("bin");
    std::fs::create_dir(&bin).expect("dir");
    for program in ["sh", "bash", "env", "cat", "git"] {
        let found =
            world.env["PATH"].split(':').map(|d| std::path::Path::new(d).join(program)).find(|p| p.exists());
        if let Some(found) = found {
            std::os::unix::fs::symlink(found, bin.join(program)).expect("link");
        }
    }
    world.env.insert("PATH".into(), bin.to_str().expect("UTF-8").into());
    let done = world.festoon(["-p", "ID:lead", "--teammate-mode", "tmux"]).run();
    done.code(2);
    assert!(done.stderr.contains("tmux") && done.stderr.contains("hint:"), "{}", done.stderr);
    assert_eq!(world.teams().len(), 0);
    server.on(prompt("ID:auto"), [[start("a", "anna", "ID:anna")].into()]);
    server.always(prompt("ID:"), say("Ok."));
    world.festoon(["-p", "ID:auto", "--teammate-mode", "auto"]).run().code(0);
    assert_eq!(world.members()[0]["backendType"], "in-process");
}

#[test]
fn long_prompts_and_odd_names_reach_a_pane_unchanged() {
    let server = ModelServer::start();
    let world = server.world();
    let tmux = Tmux::start(&world);
    let before = tmux.panes("#{pane_id}");
    let long = format!("ID:odd $(id) `x` ; \"q\" #{{pane_id}}\n{}\\;", "käse \u{1F41D} ".repeat(16_000));
    server.on(prompt("ID:lead"), [[start("a", "Änne #{pane_id} ; $x", &long)].into()]);
    server.always(prompt("ID:lead"), say("Ok."));
    server.on(prompt("ID:odd"), [[gate("odd"), say("It came whole.")].into()]);
    let leader = tmux.leader(&world.env, &STREAM);
    server.reached("odd");
    assert_eq!(server.last_of("ID:odd").messages()[0]["content"][1]["text"], long);
    server.open("odd");
    assert_eq!(leader.wait(), 0, "{}", leader.stderr());
    assert!(server.last_of("ID:lead").mail().concat().join("\n").contains("It came whole."));
    assert_eq!(world.members()[0]["displayName"], "Änne #{pane_id} ; $x");
    wait::until("the panes are gone", || tmux.panes("#{pane_id}") == before);
}

#[test]
fn a_script_plays_in_every_pane() {
    let world = World::new();
    let tmux = Tmux::start(&world);
    let model = world.script(
        r#"
[[rule]]
agent = "team-lead"
reply = [
  { tool = "Agent", input = { name = "anna", description = "d", prompt = "count" } },
  { tool = "Agent", input = { name = "ben", description = "d", prompt = "count" } },
]
[[rule]]
agent = "team-lead"
reply = [{ text = "Waiting." }]
[[rule]]
agent = "team-lead"
times = "always"
reply = [{ text = "{{input}}" }]
[[rule]]
agent = "{anna,ben}"
reply = [{ tool = "Glob", input = { pattern = "*.txt" }, id = "files" }]
[[rule]]
agent = "{anna,ben}"
reply = [{ text = "{{agent}} sees {{result:files | lines}} files" }]
"#,
    );
    world.file("a.txt", "");
    world.file("b.txt", "");
    let leader = tmux.leader(&world.env, &["-p", "begin", "--teammate-mode", "tmux", "--model", &model]);
    assert_eq!(leader.wait(), 0, "{}", leader.stderr());
    let lines = world.transcript();
    let all = serde_json::to_string(&lines).expect("text");
    assert!(all.contains("anna sees 2 files") && all.contains("ben sees 2 files"), "{all}");
    assert_eq!(world.check_transcripts(), 3);
}

#[test]
fn a_worker_of_another_version_or_state_root_does_not_start() {
    let world = World::new();
    let spec = world.outside().join("spec.json");
    std::fs::write(&spec, "{}").expect("spec");
    let done = world.festoon(["teammate", "--spec", spec.to_str().expect("UTF-8")]).run();
    assert!(matches!(done.code, Some(1 | 2)), "{done:?}");
    assert!(!done.stderr.contains("panicked"), "{}", done.stderr);
}
