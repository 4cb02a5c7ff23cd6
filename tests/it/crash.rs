//! `kill -9` of the leader, and the run that goes on after it.

use crate::support::model_server::{ModelServer, Reply, call, call_as, gate, prompt, say, think};
use crate::support::panes::{Tmux, worker};
use crate::support::state::json_file;
use crate::support::wait;
use crate::support::world::World;
use crate::teammates::{send, start};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

const FREE: [&str; 2] = ["--permission-mode", "bypassPermissions"];

/// Goes on with the session that was killed.
fn go_on(world: &World) -> crate::support::run::Done {
    world.festoon(["-p", "Go on.", "--continue", "--output-format", "json"]).args(FREE).run()
}

#[test]
fn a_run_killed_anywhere_goes_on_with_all_that_was_said() {
    let busy = || {
        call_as(
            "busy",
            "Bash",
            json!({ "command": "echo > up; while :; do sleep 100; done", "timeout": 600_000 }),
        )
    };
    // What the model was doing, and what the history holds of it afterwards.
    let stages: [(&str, Reply); 4] = [
        ("before the answer", [gate("stop"), say("x")].into()),
        ("in the answer", [think("I think."), say("I begin"), gate("stop")].into()),
        ("in a call", [say("I work."), busy()].into()),
        (
            "in one of several calls",
            [
                call_as("first", "Glob", json!({ "pattern": "*" })),
                busy(),
                call_as("last", "Glob", json!({ "pattern": "*" })),
            ]
            .into(),
        ),
    ];
    for (stage, reply) in stages {
        let server = ModelServer::start();
        let world = server.world();
        let in_call = stage.ends_with("call") || stage.ends_with("calls");
        server
            .on(prompt("ID:lead"), [[say("First."), call("Glob", json!({ "pattern": "*" }))].into(), reply]);
        server.on(prompt("ID:lead").input("Go on."), [say("On it went.").into()]);
        let running = world.festoon(["-p", "ID:lead"]).args(FREE).start();
        if in_call {
            wait::until("the command runs", || world.project.join("up").exists());
        } else {
            server.reached("stop");
        }
        running.signal(Signal::SIGKILL);
        running.wait();
        world.all_gone();
        let done = go_on(&world);
        done.code(0);
        assert_eq!(done.result()["result"], "On it went.", "{stage}");
        server.all_played();
        let last = server.last_of("ID:lead");
        assert!(String::from_utf8_lossy(&last.raw).contains("First."), "{stage}");
        if in_call {
            let (text, failed) = last.result("busy");
            assert!(failed && text.contains("interrupted"), "{stage}: {text}");
        }
        assert_eq!(world.check_transcripts(), 1, "{stage}");
    }
}

#[test]
fn a_teammate_of_the_dead_process_is_started_again_and_gets_its_mail_once() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            [start("a", "anna", "ID:anna")].into(),
            [gate("sent"), send("m1", "anna", "First letter."), send("m2", "anna", "Second letter.")].into(),
            [gate("never"), say("x")].into(),
        ],
    );
    server.on(prompt("ID:anna"), [[gate("anna"), say("never heard")].into()]);
    let running = world.festoon(["-p", "ID:lead"]).args(FREE).start();
    server.reached("anna");
    server.open("sent");
    server.reached("never");
    running.signal(Signal::SIGKILL);
    running.wait();
    world.all_gone();

    server.on(prompt("ID:anna").input("letter"), [say("Both letters are here.").into()]);
    server.always(prompt("ID:anna"), say("I start again."));
    server.always(prompt("ID:lead"), say("Ok."));
    let done = go_on(&world);
    done.code(0);
    let letters: Vec<String> = server.last_of("ID:anna").mail().concat();
    let count = |text: &str| letters.iter().filter(|l| l.contains(text)).count();
    assert_eq!((count("First letter."), count("Second letter.")), (1, 1), "{letters:#?}");
    let heard = server.last_of("ID:lead").mail().concat();
    assert_eq!(heard.iter().filter(|t| t.contains("Both letters are here.")).count(), 1, "{heard:#?}");
    assert_eq!(world.members().len(), 1);
    assert_eq!(world.members()[0]["incarnation"], 1);
    assert_eq!(world.check_transcripts(), 2);
}

#[test]
fn a_pane_worker_outlives_its_leader_and_reports_to_the_next_one() {
    let server = ModelServer::start();
    let world = server.world();
    let tmux = Tmux::start(&world);
    let before = tmux.panes("#{pane_id}");
    server.on(prompt("ID:lead"), [[start("a", "anna", "ID:anna")].into(), [gate("lead"), say("x")].into()]);
    server.on(prompt("ID:anna"), [[gate("anna"), say("I went on without you.")].into()]);
    let args = ["-p", "ID:lead", "--teammate-mode", "tmux"];
    let leader = tmux.leader(&world.env, &args);
    server.reached("anna");
    server.reached("lead");
    let anna = worker(&world, "anna");
    let run = json_file(&world.team().join("run/team-lead.json"));
    kill(Pid::from_raw(i32::try_from(run["pid"].as_i64().expect("a pid")).expect("a pid")), Signal::SIGKILL)
        .expect("it runs");
    leader.wait();
    // She notices, ends her turn and leaves her report.
    wait::until("she notices", || {
        world.events_of("notice").iter().any(|e| e["reason"].as_str().is_some_and(|r| r.contains("is gone")))
    });
    server.open("anna");
    wait::until("she is idle", || !world.events_of("idle").is_empty());
    assert!(world.living().contains(&anna));

    server.on(prompt("ID:lead").input("Go on."), [[gate("second"), say("I wait.")].into()]);
    server.always(prompt("ID:lead"), say("I heard."));
    let second = tmux.leader(&world.env, &["-p", "Go on.", "--continue", "--teammate-mode", "tmux"]);
    server.reached("second");
    assert!(world.living().contains(&anna), "she is still the same process");
    server.open("second");
    assert_eq!(second.wait(), 0, "{}", second.stderr());
    let heard = server.last_of("ID:lead").mail().concat();
    assert_eq!(heard.iter().filter(|t| t.contains("I went on without you.")).count(), 1, "{heard:#?}");
    wait::until("the panes are gone", || tmux.panes("#{pane_id}") == before);
    let states: Vec<Value> = world.members().iter().map(|m| m["ended"]["state"].clone()).collect();
    assert_eq!(states, ["stopped"]);
    assert_eq!(world.check_transcripts(), 2);
}
