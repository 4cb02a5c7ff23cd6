//! Isolation: subagents, background agents and teammates in git worktrees of their own.

use crate::support::git::git;
use crate::support::model_server::{ModelServer, Part, call_as, gate, prompt, say};
use crate::support::wait::until;
use crate::support::world::World;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// A world whose project is a repository with one commit.
pub fn repository(server: &ModelServer) -> World {
    let world = server.world();
    world.file("a.txt", "one\n");
    git(&world.project, &["init", "-q", "-b", "main"]);
    git(&world.project, &["add", "a.txt"]);
    git(&world.project, &["commit", "-q", "-m", "first"]);
    world
}

pub fn isolated(id: &str, prompt: &str, more: Value) -> Part {
    let mut input = json!({ "description": "a job", "prompt": prompt, "isolation": "worktree" });
    for (key, value) in more.as_object().expect("an object") {
        input[key] = value.clone();
    }
    call_as(id, "Agent", input)
}

fn bash(id: &str, command: &str) -> Part {
    call_as(id, "Bash", json!({ "command": command, "description": "look" }))
}

/// What a command printed first; git may leave its housekeeping running, which is told in a line behind.
fn first_line(said: (String, bool)) -> String {
    said.0.lines().next().expect("a line").to_owned()
}

const COMMIT: &str = "pwd; echo two > a.txt; git -c user.name=t -c user.email=t@example.org commit -qam work";
const RUN: [&str; 4] = ["-p", "ID:lead", "--permission-mode", "bypassPermissions"];

pub fn trees(world: &World) -> usize {
    git(&world.project, &["worktree", "list", "--porcelain"]).matches("worktree ").count() - 1
}

#[test]
fn a_subagent_stands_in_its_worktree_which_goes_or_stays() {
    let server = ModelServer::start();
    let world = repository(&server);
    server.on(
        prompt("ID:lead"),
        [
            isolated("a", "ID:clean", json!({})).into(),
            isolated("b", "ID:busy", json!({})).into(),
            say("Done.").into(),
        ],
    );
    server.on(
        prompt("ID:clean"),
        [bash("p", "pwd; git rev-parse --abbrev-ref HEAD").into(), say("Looked.").into()],
    );
    server.on(prompt("ID:busy"), [bash("p", COMMIT).into(), say("Committed.").into()]);
    let done = world.festoon(RUN).run();
    done.code(0);

    let clean = server.last_of("ID:clean");
    let (said, _) = clean.result("p");
    let (place, branch) = said.trim().split_once('\n').expect("two lines");
    assert!(place.starts_with(world.home.join("worktrees").to_str().expect("UTF-8")), "{place}");
    assert!(branch.starts_with("festoon/a") && place.ends_with(&branch["festoon/".len()..]), "{said}");
    let told = clean.messages()[0].to_string();
    assert!(told.contains(&format!("worktree of your own: {place}, on the branch {branch}")), "{told}");
    assert!(!Path::new(place).exists());

    let last = server.last_of("ID:lead");
    assert!(!last.result("a").0.contains("worktree:"), "{}", last.result("a").0);
    let (result, failed) = last.result("b");
    let place = first_line(server.last_of("ID:busy").result("p"));
    let branch = format!("festoon/{}", Path::new(&place).file_name().expect("a name").to_string_lossy());
    assert!(
        !failed && result.contains(&format!("\n\nworktree: {place} (branch {branch}): 1 commit\n")),
        "{result}"
    );
    assert_eq!(trees(&world), 1);
    assert_eq!(
        (world.read("a.txt").as_str(), git(&world.project, &["status", "--porcelain"])),
        ("one\n", String::new())
    );
    assert_eq!(git(&world.project, &["show", &format!("{branch}:a.txt")]), "two");

    // The person is told at the end, and later by the doctor, with a command that loses nothing.
    let (agent, here) = (branch.trim_start_matches("festoon/"), world.project.display());
    let removal = format!("git -C {here} worktree remove {place} && git -C {here} branch -d {branch}");
    let said = format!(
        "warning: the worktree {place} (branch {branch}, agent {agent}) is kept: 1 commit; once that is merged or not \
         wanted: {removal}\n"
    );
    assert_eq!(done.stderr, said);
    let listed = || {
        let doctor = world.festoon(["doctor", "--offline", "--json"]).run().json();
        let checks = doctor.as_array().expect("checks").clone();
        checks.into_iter().filter(|check| check["check"] == "worktree").collect::<Vec<Value>>()
    };
    let message = format!("{place} (branch {branch}, agent {agent}): 1 commit");
    let hint = format!("merge or drop what it holds, then: {removal}");
    let expected = json!([{ "check": "worktree", "status": "note", "message": message, "hint": hint }]);
    assert_eq!(json!(listed()), expected);
    let remove =
        || Command::new("sh").args(["-c", &removal]).current_dir("/").output().expect("sh runs").status;
    std::fs::write(Path::new(&place).join("more.txt"), "x").expect("file");
    assert!(!remove().success(), "what is not committed is not lost");
    assert_eq!(listed()[0]["message"], format!("{message} and 1 uncommitted change"));
    std::fs::remove_file(Path::new(&place).join("more.txt")).expect("removes");
    git(&world.project, &["merge", "-q", &branch]);
    assert!(remove().success());
    assert_eq!((trees(&world), listed()), (0, Vec::new()));
}

#[test]
fn an_isolation_that_cannot_be_had_is_an_error_and_nothing_is_left() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            isolated("a", "ID:never", json!({})).into(),
            isolated("b", "ID:never", json!({ "name": "anna" })).into(),
            isolated("c", "ID:never", json!({ "run_in_background": true })).into(),
            say("Done.").into(),
        ],
    );
    world.festoon(RUN).run().code(0);
    let last = server.last_of("ID:lead");
    for id in ["a", "b", "c"] {
        let (text, failed) = last.result(id);
        assert!(failed && text.contains("needs a git repository"), "{id}: {text}");
    }
    assert!(world.teams().is_empty(), "no member, no inbox, no key");
}

#[test]
fn a_background_agent_tells_of_the_worktree_that_stays_and_goes_on_in_it() {
    let server = ModelServer::start();
    let world = repository(&server);
    server.on(
        prompt("ID:lead"),
        [
            isolated("a", "ID:busy", json!({ "run_in_background": true, "name": "bea" })).into(),
            say("Waiting.").into(),
            call_as("m", "SendMessage", json!({ "to": "bea", "message": "And now?", "summary": "more" }))
                .into(),
        ],
    );
    server.always(prompt("ID:lead"), say("Ok."));
    server.on(
        prompt("ID:busy"),
        [
            bash("p", COMMIT).into(),
            say("Committed.").into(),
            bash("q", "pwd; cat a.txt").into(),
            say("Still there.").into(),
        ],
    );
    world.festoon([&RUN[..], &["--settings", r#"{"teams": false}"#]].concat()).run().code(0);
    let heard = server.last_of("ID:lead").mail().concat().join("\n");
    let busy = server.last_of("ID:busy");
    let place = first_line(busy.result("p"));
    let branch = format!("festoon/{}", Path::new(&place).file_name().expect("a name").to_string_lossy());
    assert_eq!(
        heard.matches(&format!("<worktree>{place} (branch {branch})</worktree>")).count(),
        2,
        "{heard}"
    );
    assert_eq!(busy.result("q").0, format!("{place}\ntwo\n"));
    assert_eq!(trees(&world), 1);
}

#[test]
fn a_teammate_works_in_its_worktree_whatever_its_backend() {
    for mode in ["in-process", "process"] {
        let server = ModelServer::start();
        let world = repository(&server);
        server.on(
            prompt("ID:lead"),
            [
                [
                    isolated("a", "ID:anna", json!({ "name": "anna" })),
                    isolated("b", "ID:bo", json!({ "name": "bo" })),
                ]
                .into(),
                [gate("lead"), say("Waiting.")].into(),
            ],
        );
        server.always(prompt("ID:lead"), say("Ok."));
        server.on(prompt("ID:anna"), [bash("p", COMMIT).into(), [gate("anna"), say("Committed.")].into()]);
        server.on(prompt("ID:bo"), [bash("q", "pwd").into(), say("Looked.").into()]);
        let running = world.festoon([&RUN[..], &["--teammate-mode", mode]].concat()).start();
        server.reached("anna");
        server.reached("lead");
        let members = world.members();
        let place = members[0]["worktreePath"].as_str().expect("a path").to_owned();
        assert_eq!(json!([members[0]["cwd"], members[0]["agentName"]]), json!([place, "anna"]));
        server.open("lead");
        server.open("anna");
        running.wait().code(0);
        assert_eq!(first_line(server.last_of("ID:anna").result("p")), place);
        let members = world.members();
        let reason = |at: usize| members[at]["ended"]["reason"].as_str().expect("a reason").to_owned();
        let team = world.team().file_name().expect("a name").to_string_lossy().into_owned();
        assert!(
            reason(0)
                .ends_with(&format!("; its worktree {place} (branch festoon/anna-{team}) is kept: 1 commit")),
            "{mode}: {}",
            reason(0)
        );
        assert!(!reason(1).contains("worktree"), "{mode}: {}", reason(1));
        assert_eq!(trees(&world), 1, "{mode}");
    }
}

/// A `git` first in PATH that stands still at this subcommand as long as the file `hold` is there.
fn slow_git(world: &mut World, at: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let dir = world.outside().join("bin");
    std::fs::create_dir_all(&dir).expect("dir");
    let hold = dir.join("hold");
    std::fs::write(&hold, "").expect("hold");
    let real = Command::new("sh").args(["-c", "command -v git"]).output().expect("a shell");
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *' {at} '*) : > {dir}/reached; while [ -e {hold} ]; do sleep 0.02; done;; esac\n\
         exec {real} \"$@\"\n",
        dir = dir.display(),
        hold = hold.display(),
        real = String::from_utf8_lossy(&real.stdout).trim(),
    );
    std::fs::write(dir.join("git"), script).expect("git");
    std::fs::set_permissions(dir.join("git"), std::fs::Permissions::from_mode(0o755)).expect("mode");
    let path = format!("{}:{}", dir.display(), world.env["PATH"]);
    world.env.insert("PATH".to_owned(), path);
    hold
}

#[test]
fn a_git_that_hangs_delays_nobody_but_the_member_it_works_for() {
    // Where it hangs: while the worktree of `bo` is made, and while it is looked at after its end.
    for at in ["worktree add", "status --porcelain"] {
        let server = ModelServer::start();
        let mut world = repository(&server);
        let hold = slow_git(&mut world, at);
        server.on(
            prompt("ID:lead"),
            [
                [
                    call_as("a", "Agent", json!({ "description": "a", "prompt": "ID:anna", "name": "anna" })),
                    isolated("b", "ID:bo", json!({ "name": "bo" })),
                ]
                .into(),
                [gate("lead"), say("Both are there.")].into(),
            ],
        );
        server.always(prompt("ID:lead"), say("Ok."));
        server.on(prompt("ID:anna"), [say("Ready.").into()]);
        server.on(prompt("ID:bo"), [say("Ready.").into()]);
        let running = world.festoon(RUN).start();
        server.wait_for("ID:anna", 1);
        let reached = hold.with_file_name("reached");
        let team = || world.team().file_name().expect("a name").to_string_lossy().into_owned();
        let stop = |name: &str| world.festoon(["team", "stop", &team(), name]);
        let bo = if at == "worktree add" {
            None
        } else {
            server.reached("lead");
            Some(stop("bo").start())
        };
        until("git stands still", || reached.exists());
        // In the order of the calls, and with the name taken, before the worktree is there.
        let names: Vec<Value> = world.members().iter().map(|m| m["agentName"].clone()).collect();
        assert_eq!(json!(names), json!(["anna", "bo"]), "{at}");
        stop("anna").run().code(0);
        assert_eq!(world.members()[0]["ended"]["state"], "stopped", "{at}");
        assert!(world.members()[1]["ended"].is_null(), "{at}: bo waits for git");
        std::fs::remove_file(&hold).expect("goes on");
        if let Some(bo) = bo {
            bo.wait().code(0);
        }
        server.open("lead");
        running.wait().code(0);
        assert_eq!(server.of("ID:bo").len(), 1, "{at}");
        assert_eq!(world.members()[1]["ended"]["state"], "stopped", "{at}");
        assert_eq!(trees(&world), 0, "{at}");
    }
}

#[test]
fn the_worktrees_of_agents_that_a_kill_interrupted_are_kept_and_named() {
    let server = ModelServer::start();
    let world = repository(&server);
    server.on(
        prompt("ID:lead"),
        [
            isolated("b", "ID:beside", json!({ "run_in_background": true })).into(),
            isolated("a", "ID:waited-for", json!({})).into(),
        ],
    );
    for id in ["ID:beside", "ID:waited-for"] {
        server.on(prompt(id), [bash(&id[3..], "pwd; echo two > a.txt").into(), [gate(id), say("x")].into()]);
    }
    let running = world.festoon(RUN).start();
    let places = ["ID:beside", "ID:waited-for"].map(|id| {
        server.reached(id);
        first_line(server.last_of(id).result(&id[3..]))
    });
    running.signal(Signal::SIGKILL);
    running.wait();
    world.all_gone();

    server.always(prompt("ID:lead"), say("Ok."));
    let again = ["-p", "Go on.", "--continue", "--permission-mode", "bypassPermissions"];
    let done = world.festoon(again).run();
    done.code(0);
    let said = &done.stderr;
    for place in &places {
        let name = Path::new(place).file_name().expect("a name").to_string_lossy();
        let kept = format!("was interrupted; its worktree {place} (branch festoon/{name}) is kept");
        assert_eq!(said.matches(&kept).count(), 1, "{said}");
        assert_eq!(std::fs::read_to_string(Path::new(place).join("a.txt")).expect("kept"), "two\n");
    }
    let heard = server.last_of("ID:lead").mail().concat().join("\n");
    assert_eq!(heard.matches(&format!("<worktree>{} (branch", places[0])).count(), 1, "{heard}");
    // Told once: another start has nothing to say of them.
    let done = world.festoon(again).run();
    done.code(0);
    assert!(!done.stderr.contains("worktree"), "{}", done.stderr);
    assert_eq!(trees(&world), 2);
}

#[test]
fn a_session_has_a_worktree_of_its_own_when_it_is_asked_for() {
    let server = ModelServer::start();
    let world = repository(&server);
    let run = |prompt: &str, more: &[&str]| {
        let args = ["-p", prompt, "--worktree", "--permission-mode", "bypassPermissions"];
        world.festoon(args.iter().chain(more)).run()
    };
    world.file("own.json", r#"{"env":{"FROM":"there"}}"#);
    server.on(prompt("ID:clean"), [bash("p", "pwd; echo $FROM").into(), say("Looked.").into()]);
    let clean = run("ID:clean", &["--settings", "own.json"]);
    clean.code(0);
    let (said, _) = server.last_of("ID:clean").result("p");
    let (place, from) = said.trim().split_once('\n').expect("two lines");
    assert!(place.starts_with(world.home.join("worktrees").to_str().expect("UTF-8")), "{place}");
    assert_eq!((from, Path::new(place).exists(), trees(&world)), ("there", false, 0));
    assert!(clean.stderr.contains(&format!("the session works in {place} (branch festoon/session-")));

    server.on(prompt("ID:busy"), [bash("p", COMMIT).into(), say("Committed.").into()]);
    let busy = run("ID:busy", &[]);
    busy.code(0);
    assert!(busy.stderr.contains("is kept: 1 commit; once that is merged"), "{}", busy.stderr);
    assert_eq!((trees(&world), world.read("a.txt")), (1, "one\n".to_owned()));

    for (more, code, why) in [
        (["--continue"].as_slice(), 2, "--worktree begins a new session"),
        (&["--resume", "x"], 2, "--worktree begins a new session"),
    ] {
        let done = run("ID:none", more);
        done.code(code);
        assert!(done.stderr.contains(why), "{}", done.stderr);
    }
    world.file("a.txt", "changed\n");
    let dirty = run("ID:none", &[]);
    dirty.code(1);
    assert!(dirty.stderr.contains("a.txt") && dirty.stderr.contains("worktree.carry"), "{}", dirty.stderr);
    assert_eq!(trees(&world), 1);
}
