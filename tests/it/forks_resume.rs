//! Forks that are found again: after compactions of either side, below other agents, and not at all when
//! their parent's conversation is not what it was.

use crate::support::model_server::{ModelServer, Part, Reply, Request, call, call_as, fork, prompt, say};
use crate::support::state::jsonl;
use crate::support::world::World;
use crate::teammates::start;
use serde_json::{Value, json};
use std::sync::Arc;

/// How the request for a summary is known.
const ASK: &str = "Write the summary that takes its place";

fn fork_call(id: &str, directive: &str) -> Part {
    call_as(id, "Agent", json!({ "description": "a part", "prompt": directive, "subagent_type": "fork" }))
}

fn files(world: &World) {
    for n in 0..3 {
        world
            .file(&format!("f{n}.txt"), &format!("file {n}: a line of text as there are many\n").repeat(180));
    }
}

/// A round that reads about 2,000 tokens of a file.
fn reading(n: usize) -> Reply {
    [say("On."), call("Read", json!({ "file_path": format!("f{}.txt", n % 3) }))].into()
}

/// Writes to the only fork of the session, whatever the writer knows of it.
fn write_to_fork(world: &World, message: &'static str) -> Reply {
    let dir = world.home.clone();
    Reply::with(move |_| {
        let id = fork_id(&dir);
        [call_as("w", "SendMessage", json!({ "to": id, "message": message }))].into()
    })
}

fn fork_id(home: &std::path::Path) -> String {
    let mut dirs = vec![home.join("projects")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).expect("lists").flatten() {
            let path = entry.path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.to_str().is_some_and(|p| p.ends_with(".meta.json")) {
                let meta = crate::support::state::json_file(&path);
                if meta["isFork"] == true {
                    return meta["agentId"].as_str().expect("an id").to_owned();
                }
            }
        }
    }
    panic!("no fork below {}", home.display())
}

#[track_caller]
fn goes_on(requests: &[Arc<Request>]) {
    for pair in requests.windows(2) {
        let (before, after) = (pair[0].unmarked(), pair[1].unmarked());
        let begin = before.strip_suffix("]}]}").expect("a message");
        assert!(after.starts_with(begin), "request {} does not begin as {}", pair[1].number, pair[0].number);
    }
}

fn session(done: &crate::support::run::Done) -> String {
    done.result()["session_id"].as_str().expect("an id").to_owned()
}

#[test]
fn a_compaction_of_the_parent_takes_nothing_from_its_forks() {
    let server = ModelServer::start();
    let world = server.world();
    files(&world);
    server.on(fork("ID:f."), [say("Scope: one").into(), say("Scope: two").into()]);
    server.on(prompt("ID:lead").input(ASK), [say("SUMMARY ID:lead").into()]);
    server.on(prompt("ID:lead").input("Later."), [write_to_fork(&world, "Once more.")]);
    let mut replies: Vec<Reply> = (0..6).map(reading).collect();
    replies.push(fork_call("f", "ID:f.").into());
    server.on(prompt("ID:lead").input("ID:lead"), [replies.remove(0)]);
    server.on(prompt("ID:lead").input("file "), replies);
    server.always(prompt("ID:lead"), say("Fine."));
    let done = world.festoon(["-p", "ID:lead", "--output-format", "json"]).run();
    done.code(0);
    let id = session(&done);
    let lines = "/compact\nLater.\n";
    let later = world.festoon(["--resume", &id]).stdin(lines).run();
    later.code(0);
    let compacted = world.transcript().iter().filter(|l| l["subtype"] == "compact_boundary").count();
    assert_eq!(compacted, 1, "{}{}", later.stdout, later.stderr);
    // The leader waits for nothing here; the fork is written to and works all the same.
    world.festoon(["--resume", &id, "-p", "Anything new?"]).run().code(0);
    let requests = server.of_fork("ID:f.");
    assert_eq!(requests.len(), 2, "{}{}", later.stdout, later.stderr);
    goes_on(&requests);
    assert!(requests[1].input().contains("Once more."));
    world.check_transcripts();
}

#[test]
fn a_fork_that_compacts_itself_ends_its_receipt_and_goes_on() {
    let server = ModelServer::start();
    let world = server.world();
    files(&world);
    let path = world.home.join("settings.json");
    let mut settings = crate::support::state::json_file(&path);
    settings["providers"] =
        json!({ "anthropic": { "models": { "test-model": { "contextWindow": 40_000 } } } });
    std::fs::write(&path, settings.to_string()).expect("settings");
    server.on(fork("ID:f.").input(ASK), [say("SUMMARY of the fork, ID:lead").into()]);
    let mut replies: Vec<Reply> = (0..15).map(reading).collect();
    server.on(fork("ID:f."), replies.drain(..));
    // What it says when its directive is in the summary alone.
    server.on(prompt("SUMMARY of the fork"), [reading(1), reading(2), say("Scope: all").into()]);
    server.on(prompt("SUMMARY of the fork").input("Once more."), [say("Scope: more").into()]);
    server.on(prompt("ID:lead").input("Later."), [write_to_fork(&world, "Once more.")]);
    server.on(prompt("ID:lead").input("ID:lead"), [fork_call("f", "ID:f.").into()]);
    server.always(prompt("ID:lead"), say("Fine."));
    let done = world.festoon(["-p", "ID:lead", "--output-format", "stream-json"]).run();
    done.code(0);
    let told = done.lines().into_iter().find(|l| l["subtype"] == "task_notification").expect("told");
    assert_eq!((&told["status"], &told["fork_receipt"]["ended"]), (&json!("completed"), &json!("compacted")));
    let chain = jsonl(&world.sidechains()[0]);
    let receipts: Vec<&Value> =
        chain.iter().filter(|l| l["subtype"] == "fork_receipt").map(|l| &l["data"]["ended"]).collect();
    assert_eq!(receipts, [&Value::Null, &json!("compacted")]);
    assert!(chain.iter().any(|l| l["subtype"] == "compact_boundary"));
    // It still starts no agents, and its parent's words do not come back with a new run.
    let id = session(&done);
    world.festoon(["--resume", &id, "-p", "Later."]).run().code(0);
    let last = server.of("SUMMARY of the fork").pop().expect("the new run");
    assert!(last.input().contains("Once more.") && last.directive().is_none(), "{}", last.input());
    world.check_transcripts();
}

#[test]
fn forks_of_a_subagent_and_of_a_teammate_begin_as_theirs_and_are_found_again() {
    for below in ["subagent", "teammate"] {
        let server = ModelServer::start();
        let world = server.world();
        files(&world);
        server.on(fork("ID:f."), [say("Scope: one").into(), say("Scope: two").into()]);
        let begin: Part = match below {
            "subagent" => call_as("a", "Agent", json!({ "description": "a job", "prompt": "ID:below" })),
            _ => start("a", "anna", "ID:below"),
        };
        server.on(prompt("ID:below"), [reading(0), fork_call("f", "ID:f.").into()]);
        server.always(prompt("ID:below"), say("Done below."));
        server.on(prompt("ID:lead").input("Later."), [write_to_fork(&world, "Once more.")]);
        server.on(prompt("ID:lead").input("ID:lead"), [begin.into()]);
        server.always(prompt("ID:lead"), say("Fine."));
        let done = world.festoon(["-p", "ID:lead", "--output-format", "json"]).run();
        done.code(0);
        let first = server.of_fork("ID:f.").remove(0);
        let parent = server.of("ID:below").into_iter().rfind(|r| r.round() == 2).expect("its parent asked");
        let own = parent.unmarked();
        assert!(first.shared().starts_with(own.strip_suffix("]}]}").expect("a message")), "{below}");
        let found = server.cached_for(&first);
        assert!(found.read * 1000 >= server.cached_for(&parent).total() * 999, "{below}: {found:?}");
        if below == "subagent" {
            let id = session(&done);
            world.festoon(["--resume", &id, "-p", "Later."]).run().code(0);
            let requests = server.of_fork("ID:f.");
            assert_eq!(requests.len(), 2);
            goes_on(&requests);
        }
        world.check_transcripts();
    }
}

/// A changed parent is found out, and nothing is sent in its name.
#[test]
fn a_parent_that_is_not_what_it_was_is_an_error() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(fork("ID:f."), [say("Scope: one").into()]);
    server.on(prompt("ID:lead").input("Later."), [write_to_fork(&world, "Once more.")]);
    server.on(prompt("ID:lead").input("ID:lead"), [fork_call("f", "ID:f.").into()]);
    server.always(prompt("ID:lead"), say("Fine."));
    let done = world.festoon(["-p", "ID:lead and a secret", "--output-format", "json"]).run();
    done.code(0);
    let id = session(&done);
    let path = world.sessions().remove(0);
    let text = std::fs::read_to_string(&path).expect("reads");
    std::fs::write(&path, text.replace("and a secret", "and a changed")).expect("writes");
    world.festoon(["--resume", &id, "-p", "Later."]).run().code(0);
    let (text, failed) = server.last_of("ID:lead").result("w");
    assert!(
        failed && text.contains("the fork cannot go on") && text.contains("is not what it was"),
        "{text}"
    );
    assert_eq!(server.of_fork("ID:f.").len(), 1);
}
