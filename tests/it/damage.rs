//! State that was damaged or planted behind the program's back: said, never taken for nothing, never followed.

use crate::support::model_server::{ModelServer, call_as, gate, prompt, say};
use crate::support::panes::worker;
use crate::support::state::json_file;
use crate::support::wait::until;
use crate::support::world::World;
use crate::teammates::start;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).expect("a pid"))
}

fn pipe(path: &Path) {
    mkfifo(path, Mode::S_IRWXU).expect("a pipe");
}

/// A leader with a worker that is at work in a process of its own; the leader is killed.
fn left_behind(server: &ModelServer, world: &World) -> u32 {
    server.on(prompt("ID:lead"), [start("a", "anna", "ID:anna").into(), [gate("lead"), say("x")].into()]);
    server.on(prompt("ID:anna"), [[gate("anna"), say("I am done.")].into()]);
    let leader = world.festoon(["-p", "ID:lead", "--teammate-mode", "process", "--session-id", "s1"]).start();
    server.reached("anna");
    server.reached("lead");
    let anna = worker(world, "anna");
    leader.signal(Signal::SIGKILL);
    leader.wait();
    anna
}

/// What a team that cannot be read looks like: name, how it is made from the team's directory, the path that is
/// named.
type Damage = (&'static str, fn(&Path), fn(&Path) -> PathBuf);

const DAMAGES: [Damage; 9] = [
    ("empty", |team| fs::write(team.join("team.json"), "").expect("writes"), file),
    ("half", |team| half(&team.join("team.json")), file),
    ("garbage", |team| fs::write(team.join("team.json"), "\0\u{1}no").expect("writes"), file),
    ("another shape", |team| fs::write(team.join("team.json"), "[]").expect("writes"), file),
    ("missing", |team| fs::remove_file(team.join("team.json")).expect("removes"), file),
    (
        "a pipe",
        |team| {
            fs::remove_file(team.join("team.json")).expect("removes");
            pipe(&team.join("team.json"));
        },
        file,
    ),
    (
        "a link",
        |team| {
            fs::rename(team.join("team.json"), team.join("real.json")).expect("moves");
            symlink(team.join("real.json"), team.join("team.json")).expect("links");
        },
        file,
    ),
    ("a link as directory", |team| symlink(moved(team), team).expect("links"), Path::to_path_buf),
    (
        "a link to nowhere",
        |team| {
            moved(team);
            symlink("/no/such/place", team).expect("links");
        },
        Path::to_path_buf,
    ),
];

fn file(team: &Path) -> PathBuf {
    team.join("team.json")
}

fn half(path: &Path) {
    let text = fs::read_to_string(path).expect("reads");
    fs::write(path, &text[..text.len() / 2]).expect("writes");
}

fn moved(team: &Path) -> PathBuf {
    let aside = team.parent().expect("teams").parent().expect("home").join("aside");
    fs::rename(team, &aside).expect("moves");
    aside
}

/// Puts a team back as it was, from a copy of its file.
fn put_back(team: &Path, text: &str) {
    if team.is_symlink() {
        fs::remove_file(team).expect("removes");
        fs::rename(team.parent().expect("teams").parent().expect("home").join("aside"), team).expect("moves");
    }
    let _ = fs::remove_file(team.join("team.json"));
    fs::write(team.join("team.json"), text).expect("writes");
}

#[test]
fn a_session_whose_team_cannot_be_read_does_not_go_on_without_it() {
    let server = ModelServer::start();
    let world = server.world();
    let anna = left_behind(&server, &world);
    let team = world.team();
    let text = fs::read_to_string(team.join("team.json")).expect("reads");
    world.festoon(["send", "team-lead", "It waits."]).run().code(0);
    let asked = server.requests().len();
    for (what, damage, named) in DAMAGES {
        damage(&team);
        for how in [["--resume", "s1"].as_slice(), &["--continue"]] {
            let done = world.festoon(["-p", "more"]).args(how).run();
            done.code(1);
            let path = named(&team).display().to_string();
            assert!(done.stderr.contains(&path), "{what}: {}", done.stderr);
            assert!(done.stderr.contains("belongs to this session"), "{what}: {}", done.stderr);
            assert!(done.stderr.contains(" hint:"), "{what}: {}", done.stderr);
            assert_eq!(fs::read_dir(world.home.join("teams")).expect("lists").count(), 1, "{what}");
        }
        put_back(&team, &text);
    }
    assert_eq!(server.requests().len(), asked);
    // Another session has nothing to do with it, and starts as ever.
    server.always(prompt("ID:other"), say("Hello."));
    half(&team.join("team.json"));
    world.festoon(["-p", "ID:other", "--session-id", "s2"]).run().code(0);
    world.festoon(["-p", "ID:other", "--resume", "s2"]).run().code(0);
    put_back(&team, &text);
    // Mended, it goes on, with what waited and who lives.
    server.always(prompt("ID:lead"), say("Heard."));
    let done = world.festoon(["-p", "more", "--resume", "s1"]).start();
    until("anna is heard of", || server.last_of("ID:lead").mail().concat().join("\n").contains("It waits."));
    assert!(world.living().contains(&anna));
    server.open("anna");
    done.wait().code(0);
}

#[test]
fn a_team_that_cannot_be_read_can_be_ended_and_removed() {
    for (what, damage, named) in
        DAMAGES.iter().filter(|(_, _, named)| named(Path::new("t")) != Path::new("t"))
    {
        let server = ModelServer::start();
        let world = server.world();
        let anna = left_behind(&server, &world);
        let team = world.team();
        damage(&team);
        let name = team.file_name().and_then(|n| n.to_str()).expect("UTF-8");
        let refused = world.festoon(["team", "delete", name]).run();
        refused.code(1);
        assert!(refused.stderr.contains(&format!("festoon team stop {name}")), "{what}: {}", refused.stderr);
        let stopped = world.festoon(["team", "stop", name, "--json"]).run();
        stopped.code(0);
        let said = stopped.json();
        assert_eq!(json!([said[0]["name"], said[0]["stopped"]]), json!(["anna", true]), "{what}: {said}");
        assert!(stopped.stderr.contains(&named(&team).display().to_string()), "{what}: {}", stopped.stderr);
        assert!(!world.living().contains(&anna), "{what}");
        world.festoon(["team", "delete", name]).run().code(0);
        assert!(!team.exists(), "{what}");
        // Given up, the session begins anew.
        server.always(prompt("ID:lead"), say("Heard."));
        world.festoon(["-p", "more", "--resume", "s1"]).run().code(0);
    }
}

#[test]
fn the_leader_is_told_once_of_who_died_while_it_was_down() {
    let server = ModelServer::start();
    let world = server.world();
    let anna = left_behind(&server, &world);
    kill(pid(anna), Signal::SIGKILL).expect("signals");
    until("anna is gone", || !world.living().contains(&anna));
    server.always(prompt("ID:lead"), say("Heard."));
    for _ in 0..3 {
        world.festoon(["-p", "more", "--resume", "s1"]).run().code(0);
    }
    let told: Vec<Value> =
        world.mail("team-lead").into_iter().filter(|mail| mail["type"] == "teammate_terminated").collect();
    assert_eq!(told.len(), 1, "{told:#?}");
    assert_eq!(
        json!([
            told[0]["from"],
            told[0]["wake"],
            told[0]["payload"]["exit"],
            told[0]["payload"]["incarnation"]
        ]),
        json!(["system", "turn", "unknown", 1])
    );
    let heard = server.last_of("ID:lead").mail().concat();
    let of_anna = format!("anna is lost: its process was gone (pid {anna}) (unknown).");
    assert_eq!(heard.iter().filter(|mail| mail.contains(&of_anna)).count(), 1, "{heard:#?}");
}

#[test]
fn a_task_that_is_no_file_hangs_nobody() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [[gate("lead"), start("a", "anna", "ID:anna")].into(), say("Waiting.").into()],
    );
    server.always(prompt("ID:lead"), say("Ok."));
    server.always(prompt("ID:anna"), say("Done."));
    let running = world.festoon(["-p", "ID:lead"]).start();
    server.reached("lead");
    let tasks = world.team().join("tasks");
    pipe(&tasks.join("1.json"));
    fs::create_dir(tasks.join("2.json")).expect("dir");
    symlink("/dev/zero", tasks.join("3.json")).expect("link");
    server.open("lead");
    running.wait().code(0);
    assert_eq!(world.members()[0]["ended"]["state"], "stopped");
}

#[test]
fn a_second_signal_ends_what_does_not_get_there_and_its_children() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let server = ModelServer::start();
        let world = server.world();
        server.on(prompt("ID:lead"), [start("a", "anna", "ID:anna").into(), [gate("lead"), say("x")].into()]);
        server.on(prompt("ID:anna"), [[gate("anna"), say("x")].into()]);
        let patient = r#"{"shutdown":{"politeMs":600000}}"#;
        let args = ["-p", "ID:lead", "--teammate-mode", "process", "--settings", patient];
        let running = world.festoon(args).start();
        server.reached("anna");
        server.reached("lead");
        let anna = worker(&world, "anna");
        kill(pid(anna), Signal::SIGSTOP).expect("signals");
        running.signal(signal);
        until("it is asked to end", || !world.events_of("shutdown").is_empty());
        running.signal(signal);
        let done = running.wait();
        done.code(130);
        assert!(done.stderr.contains("did not end in order"), "{}", done.stderr);
        assert!(!world.living().contains(&anna));
        world.all_gone();
    }
}

#[test]
fn a_link_in_place_of_a_sessions_directory_is_refused() {
    let server = ModelServer::start();
    let world = server.world();
    server.always(prompt("ID:lead"), say("Hello."));
    world.festoon(["-p", "ID:lead", "--session-id", "s1"]).run().code(0);
    let session = world.sessions()[0].with_extension("");
    let asked = server.requests().len();
    for name in ["subagents", "background", "output", "prefixes", "checkpoints"] {
        let (dir, elsewhere) = (session.join(name), world.outside().join("elsewhere"));
        fs::create_dir_all(&dir).expect("dir");
        fs::rename(&dir, &elsewhere).expect("moves");
        symlink(&elsewhere, &dir).expect("links");
        let before = fs::read_dir(&elsewhere).expect("lists").count();
        let done = world.festoon(["-p", "more", "--resume", "s1"]).run();
        done.code(1);
        assert!(done.stderr.contains(&format!("{} is refused", dir.display())), "{name}: {}", done.stderr);
        assert_eq!(fs::read_dir(&elsewhere).expect("lists").count(), before, "{name}");
        fs::remove_file(&dir).expect("removes");
        fs::rename(&elsewhere, &dir).expect("moves");
    }
    assert_eq!(server.requests().len(), asked);
    world.festoon(["-p", "more", "--resume", "s1"]).run().code(0);
}

#[test]
fn a_forged_decision_is_said_once_and_the_true_answer_counts() {
    for backend in ["in-process", "process"] {
        let server = ModelServer::start();
        let world = server.world();
        let touch = |id: &str| call_as(id, "Bash", json!({ "command": format!("touch {id}") }));
        server.on(prompt("ID:lead"), [start("a", "anna", "ID:anna").into(), say("Waiting.").into()]);
        server.always(prompt("ID:lead"), say("Ok."));
        server.on(prompt("ID:anna"), [touch("one").into(), touch("two").into(), say("Done.").into()]);
        let args = ["-p", "ID:lead", "--teammate-mode", backend, "--ask-timeout", "600"];
        let running = world.festoon(args).start();
        let open = || -> Vec<String> {
            let listed = world.festoon(["ask", "list", "--json"]).run().json();
            let open = listed.as_array().cloned().unwrap_or_default().into_iter();
            open.filter(|a| a["status"] == "open")
                .filter_map(|a| a["id"].as_str().map(str::to_owned))
                .collect()
        };
        until("the first is asked", || open().len() == 1);
        let first = open().remove(0);
        world.festoon(["ask", "approve", &first]).run().code(0);
        until("the second is asked", || open().first().is_some_and(|ask| *ask != first));
        let second = open().remove(0);
        let asks = world.team().join("asks");
        let mut forged = json_file(&asks.join(format!("{first}.decision.json")));
        forged["askId"] = json!(second);
        let aside = asks.join(".forged");
        fs::write(&aside, forged.to_string()).expect("writes");
        fs::rename(&aside, asks.join(format!("{second}.decision.json"))).expect("moves");
        let refused = || -> Vec<Value> {
            world.events_of("refused").into_iter().filter(|event| event["askId"] == second.as_str()).collect()
        };
        until("it is refused", || refused().len() == 1);
        assert_eq!(open(), std::slice::from_ref(&second));
        assert!(!world.project.join("two").exists());
        world.festoon(["ask", "approve", &second]).run().code(0);
        let done = running.wait();
        done.code(0);
        assert!(world.project.join("two").exists());
        assert_eq!(refused().len(), 1, "{backend}");
        let said = format!("a decision about {second} is ignored");
        assert_eq!(done.stderr.matches(&said).count(), 1, "{backend}: {}", done.stderr);
    }
}
