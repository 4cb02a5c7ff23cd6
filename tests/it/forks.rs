//! Forks: the bytes of their requests, what they cost, what they may not do, and how they are found again.

use crate::support::model_server::{
    ModelServer, Part, Reply, Request, call, call_as, fork, gate, prompt, say, think,
};
use crate::support::state::{json_file, jsonl};
use crate::support::world::World;
use serde_json::{Value, json};
use std::sync::Arc;

/// A call that forks.
fn fork_call(id: &str, directive: &str, more: Value) -> Part {
    let mut input = json!({ "description": "a part", "prompt": directive, "subagent_type": "fork" });
    for (key, value) in more.as_object().into_iter().flatten() {
        input[key] = value.clone();
    }
    call_as(id, "Agent", input)
}

fn forks(ids: &[&str]) -> Vec<Part> {
    ids.iter().map(|id| fork_call(id, &format!("ID:{id}."), json!({}))).collect()
}

/// The parent's request that asked for the forks, and their first ones.
fn asked(server: &ModelServer, parent: &str, ids: &[&str]) -> (Arc<Request>, Vec<Arc<Request>>) {
    let forks: Vec<Arc<Request>> = ids
        .iter()
        .map(|id| server.of_fork(&format!("ID:{id}.")).into_iter().next().expect("the fork asked"))
        .collect();
    let last = forks[0].messages().len() - 2;
    let own = |r: &Arc<Request>| r.directive().is_none() && r.messages().len() == last;
    let parents = server.of(parent).into_iter().rfind(own).expect("the parent asked");
    (parents, forks)
}

/// The four guarantees, on the bytes of the requests.
#[track_caller]
fn check_bytes(parent: &Request, forks: &[Arc<Request>], calls: usize) {
    let shared = forks[0].shared();
    let own = parent.unmarked();
    let own = own.strip_suffix("]}]}").expect("ends with a message");
    assert!(shared.starts_with(own), "the parent's request is not the beginning of its forks'");
    for fork in forks {
        assert!(fork.shared() == shared, "a fork differs from its siblings before the directive");
        assert!(fork.markers() <= 4);
        let messages = fork.messages();
        let [.., answer, first] = messages else { panic!("too short") };
        assert_eq!(answer["role"], "assistant");
        let content = first["content"].as_array().expect("blocks");
        assert_eq!(content.len(), calls + 1);
        let uses: Vec<&Value> = answer["content"]
            .as_array()
            .expect("blocks")
            .iter()
            .filter(|b| b["type"] == "tool_use")
            .collect();
        for (used, result) in uses.iter().zip(content) {
            assert_eq!(result["tool_use_id"], used["id"]);
            assert_eq!(result["content"], "Fork started — processing in background");
        }
        let text = content[calls]["text"].as_str().expect("the directive");
        assert!(text.starts_with("<fork-boilerplate>"), "{text}");
    }
}

/// Of what forks share with their parent, at least so many thousandths came from the cache.
#[track_caller]
fn check_cache(server: &ModelServer, parent: &Request, forks: &[Arc<Request>]) {
    let shared = server.cached_for(parent).total();
    for fork in forks {
        let found = server.cached_for(fork);
        assert!(found.read * 1000 >= shared * 999, "{found:?} of {shared}");
    }
}

/// A conversation of about so many tokens.
fn long(id: &str, tokens: usize) -> String {
    let line = "All that was said before stands here, line for line, and is not said again.\n";
    format!("{id}\n{}", line.repeat(tokens * 4 / line.len()))
}

#[test]
fn five_forks_of_a_hundred_thousand_tokens_cost_little_more_than_one() {
    let server = ModelServer::start();
    let world = server.world();
    world.file("a.txt", "one\n");
    let ids = ["f1", "f2", "f3", "f4", "f5"];
    for id in ids {
        let directive = format!("ID:{id}.");
        server.on(
            fork(&directive),
            [
                [think("hm"), call("Read", json!({ "file_path": "a.txt" }))].into(),
                say(&format!("Scope: {id}")).into(),
            ],
        );
    }
    let mut parts = vec![think("Split it."), say("Five at once.")];
    parts.extend(forks(&ids));
    server.on(prompt("ID:lead"), [parts.into()]);
    server.always(prompt("ID:lead"), say("Fine."));
    let done = world
        .festoon(["-p", "Do it.", "--output-format", "stream-json"])
        .stdin(long("ID:lead", 100_000))
        .run();
    done.code(0);

    let (parent, first) = asked(&server, "ID:lead", &ids);
    check_bytes(&parent, &first, 5);
    check_cache(&server, &parent, &first);
    let one = server.cached_for(&parent).total();
    assert!(one > 100_000, "{one}");
    let new = |r: &Request| server.cached_for(r).input + server.cached_for(r).creation;
    let all: usize = new(&parent) + first.iter().map(|r| new(r)).sum::<usize>();
    assert!(all * 100 <= one * 106, "{all} new tokens for five forks of {one}");

    // Each fork goes on from its own bytes, and reads them from the cache.
    for id in ids {
        let requests = server.of_fork(&format!("ID:{id}."));
        assert_eq!(requests.len(), 2);
        let (one, two) = (requests[0].unmarked(), requests[1].unmarked());
        assert!(two.starts_with(one.strip_suffix("]}]}").expect("a message")), "{id}");
        let (before, now) = (server.cached_for(&requests[0]), server.cached_for(&requests[1]));
        assert_eq!(now.read, before.total());
    }

    // The receipt: on the stream, in the notification, in the transcript, in the log.
    let lines = done.lines();
    let shown = |subtype: &str| -> Vec<&Value> { lines.iter().filter(|l| l["subtype"] == subtype).collect() };
    assert_eq!(shown("fork_receipt").len(), 5);
    let told = shown("task_notification");
    assert_eq!(told.len(), 5);
    for line in told {
        let receipt = &line["fork_receipt"];
        let id = line["task_id"].as_str().expect("an id");
        let early =
            shown("fork_receipt").into_iter().find(|l| l["agentId"] == id).expect("a line of its own");
        assert_eq!(&early["receipt"], receipt);
        let sidechain = sidechain(&world, id);
        let of = |subtype: &str| {
            let found = jsonl(&sidechain).into_iter().find(|l| l["subtype"] == subtype);
            found.unwrap_or_else(|| panic!("no {subtype} in {}", sidechain.display()))["data"].clone()
        };
        assert_eq!(&of("fork_receipt"), receipt);
        assert_eq!(of("fork_origin")["prefixSha256"], receipt["prefixSha256"]);
        let request = first
            .iter()
            .find(|r| {
                let found = server.cached_for(r);
                receipt["cacheReadTokens"] == found.read
                    && receipt["cacheCreationTokens"] == found.creation
                    && receipt["inputTokens"] == found.input
            })
            .unwrap_or_else(|| panic!("no request fits {receipt}"));
        let shared = receipt["sharedBytes"].as_u64().expect("a number");
        let whole = request.shared().len() as u64;
        assert!(shared <= whole && shared * 100 > whole * 99, "{shared} of {whole}");
        let event = world.events_of("fork").into_iter().find(|e| e["agentId"] == id).expect("an event");
        assert_eq!(&event["receipt"], receipt);
        let mail = world.mail("team-lead").into_iter().find(|m| m["payload"]["taskId"] == id).expect("mail");
        assert_eq!(&mail["payload"]["receipt"], receipt);
        let meta = json_file(&sidechain.with_extension("meta.json"));
        assert_eq!(meta["prefixSha256"], receipt["prefixSha256"]);
        assert_eq!((&meta["isFork"], &meta["agentType"]), (&json!(true), &json!("fork")));
    }
    let hashes: std::collections::BTreeSet<String> =
        world.events_of("fork").iter().map(|e| e["receipt"]["prefixSha256"].to_string()).collect();
    assert_eq!(hashes.len(), 1, "one shared prefix");
    world.check_transcripts();
}

fn sidechain(world: &World, id: &str) -> std::path::PathBuf {
    let found = world.sidechains().into_iter().find(|p| p.to_str().is_some_and(|p| p.contains(id)));
    found.unwrap_or_else(|| panic!("no sidechain of {id}"))
}

/// Parent woken by a notification, parent resumed in a new process, and many calls since the last marker.
#[test]
fn the_bytes_are_the_same_after_wake_up_after_resume_and_after_many_calls() {
    let server = ModelServer::start();
    let world = server.world();
    world.file("a.txt", &"some line of text\n".repeat(50));
    let ids = ["w1", "w2", "w3", "w4", "w5", "x1", "x2", "x3", "y1", "y2", "z1", "z2"];
    for id in ids {
        server.on(fork(&format!("ID:{id}.")), [say(&format!("Scope: {id}")).into()]);
    }
    let many = |new: &[&str]| -> Reply {
        let mut parts = vec![think("many"), say("On.")];
        parts.extend((0..25).map(|_| call("Read", json!({ "file_path": "a.txt", "limit": 2 }))));
        parts.extend(forks(new));
        parts.into()
    };
    server.on(prompt("ID:lead").input("ID:lead"), [forks(&ids[..5]).into()]);
    // Woken up: by the first report it forks again, with many calls in the same message.
    server.on(prompt("ID:lead").input("Scope: w"), [many(&ids[5..8])]);
    server.on(prompt("ID:lead").input("Now again."), [forks(&ids[8..10]).into()]);
    server.on(prompt("ID:lead").input("Scope: y"), [many(&ids[10..])]);
    server.always(prompt("ID:lead"), say("Fine."));
    let done = world.festoon(["-p", "--output-format", "json"]).stdin(long("ID:lead", 20_000)).run();
    done.code(0);
    let session = done.result()["session_id"].as_str().expect("an id").to_owned();
    world.festoon(["--resume", &session, "-p", "Now again."]).run().code(0);

    for (new, calls) in [(&ids[..5], 5), (&ids[5..8], 28), (&ids[8..10], 2), (&ids[10..], 27)] {
        let (parent, first) = asked(&server, "ID:lead", new);
        check_bytes(&parent, &first, calls);
        check_cache(&server, &parent, &first);
    }
    world.check_transcripts();
}

#[test]
fn a_fork_goes_on_with_its_own_bytes_in_the_same_process_and_in_a_new_one() {
    let server = ModelServer::start();
    let world = server.world();
    world.file("a.txt", "one\n");
    let read = || call("Read", json!({ "file_path": "a.txt" }));
    server.on(
        fork("ID:f."),
        [
            [read()].into(),
            say("Scope: first").into(),
            [read()].into(),
            say("Scope: second").into(),
            say("Scope: third").into(),
        ],
    );
    let go_on = |message: &'static str| {
        Reply::with(move |request| {
            let id = request.result("f").0;
            let id: Value = serde_json::from_str(&id).expect("JSON");
            [call("SendMessage", json!({ "to": id["agentId"], "message": message }))].into()
        })
    };
    server.on(prompt("ID:lead").input("Scope: first"), [go_on("Once more.")]);
    server.on(prompt("ID:lead").input("Later."), [go_on("And again.")]);
    server.on(prompt("ID:lead"), [forks(&["f"]).into()]);
    server.always(prompt("ID:lead"), say("Fine."));
    let done = world.festoon(["-p", "--output-format", "json"]).stdin(long("ID:lead", 5_000)).run();
    done.code(0);
    let session = done.result()["session_id"].as_str().expect("an id").to_owned();
    // Its parent compacts nothing and its tools change: the fork goes on with what it was given.
    world.festoon(["--resume", &session, "-p", "Later.", "--disallowed-tools", "Edit"]).run().code(0);
    server.all_played();

    let requests = server.of_fork("ID:f.");
    assert_eq!(requests.len(), 5);
    for pair in requests.windows(2) {
        let (before, after) = (pair[0].unmarked(), pair[1].unmarked());
        assert!(
            after.starts_with(before.strip_suffix("]}]}").expect("a message")),
            "request {} does not begin as {}",
            pair[1].number,
            pair[0].number
        );
        let (sent, found) = (server.cached_for(&pair[0]).total(), server.cached_for(&pair[1]));
        assert!(found.read * 1000 >= sent * 999, "{found:?} of {sent}");
    }
    assert!(requests[4].input().contains("And again."));
    // Nothing of the parent is copied, and one prefix file serves it.
    let chain = jsonl(&world.sidechains()[0]);
    assert!(!chain.iter().any(|l| l.to_string().contains("line for line")), "the history was copied");
    assert_eq!(chain.iter().filter(|l| l["subtype"] == "fork_origin").count(), 1);
    assert_eq!(chain.iter().filter(|l| l["subtype"] == "fork_receipt").count(), 1);
    world.check_transcripts();
}

#[test]
fn a_fork_starts_no_agents_and_its_tools_stay_declared() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        fork("ID:f."),
        [
            [
                fork_call("inner", "ID:inner.", json!({})),
                call_as("plain", "Agent", json!({ "description": "x", "prompt": "ID:plain" })),
            ]
            .into(),
            say("Scope: none").into(),
        ],
    );
    server.on(prompt("ID:lead"), [forks(&["f"]).into()]);
    server.always(prompt("ID:lead"), say("Fine."));
    world.festoon(["-p", "ID:lead"]).run().code(0);
    let requests = server.of_fork("ID:f.");
    assert_eq!(requests[0].tools(), server.of("ID:lead")[0].tools());
    for id in ["inner", "plain"] {
        let (text, failed) = requests[1].result(id);
        assert!(failed && text.contains("A fork starts no agents"), "{text}");
    }
    assert_eq!(world.sidechains().len(), 1);
    assert_eq!(requests[1].tools(), requests[0].tools());
}

#[test]
fn what_a_call_may_say_beside_the_directive() {
    let server = ModelServer::start();
    let world = server.world();
    std::fs::create_dir(world.project.join("sub")).expect("a directory");
    server.on(fork("ID:m."), [say("Scope: m").into()]);
    server.on(
        prompt("ID:lead"),
        [[fork_call("m", "ID:m.", json!({ "model": "anthropic:another", "cwd": "sub" }))].into()],
    );
    server.always(prompt("ID:lead"), say("Fine."));
    world.festoon(["-p", "ID:lead"]).run().code(0);
    let first = &server.of_fork("ID:m.")[0];
    assert_eq!(first.body["model"], "test-model");
    let directive = first.directive().expect("one");
    let sub = world.project.join("sub").display().to_string();
    assert!(directive.contains(&format!("You work in {sub}, ")), "{directive}");
    let launched = server.last_of("ID:lead").result("m");
    let launched: Value = serde_json::from_str(&launched.0).expect("one JSON text");
    assert_eq!((&launched["status"], &launched["prompt"]), (&json!("async_launched"), &json!("ID:m.")));
    assert!(launched["note"].as_str().is_some_and(|n| n.contains("anthropic:another")), "{launched}");
}

#[test]
fn forks_are_refused_where_they_are_turned_off() {
    for (args, word) in [
        (["--fork", "off"], "`fork`"),
        (["--settings", r#"{"fork":"off"}"#], "`fork`"),
        (["--settings", r#"{"background":false}"#], "`background`"),
    ] {
        let server = ModelServer::start();
        let world = server.world();
        server.on(prompt("ID:lead"), [forks(&["f"]).into(), say("done").into()]);
        world.festoon(["-p", "ID:lead"]).args(args).run().code(0);
        let (text, failed) = server.last_of("ID:lead").result("f");
        assert!(failed && text.contains(word), "{text}");
        assert_eq!(world.sidechains().len(), 0);
    }
}

/// Headless, a missing type is no fork, whatever the setting says.
#[test]
fn without_a_terminal_nothing_forks_by_itself() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            [call_as("a", "Agent", json!({ "description": "x", "prompt": "ID:child" }))].into(),
            say("done").into(),
        ],
    );
    server.on(prompt("ID:child"), [say("Here.").into()]);
    world.festoon(["-p", "ID:lead", "--fork", "implicit"]).run().code(0);
    assert!(server.last_of("ID:lead").result("a").0.starts_with("Here."));
}

/// Asks of a fork stand in the one queue, with its id, and its work goes on when one is answered.
#[test]
fn what_a_fork_asks_is_asked_where_its_parents_questions_are() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        fork("ID:f."),
        [
            [call_as("w", "Write", json!({ "file_path": "new.txt", "content": "x" }))].into(),
            say("Scope: written").into(),
        ],
    );
    server.on(prompt("ID:lead"), [forks(&["f"]).into(), [say("Waiting."), gate("lead")].into()]);
    server.always(prompt("ID:lead"), say("Fine."));
    let running = world.festoon(["-p", "ID:lead", "--ask-timeout", "60"]).start();
    server.reached("lead");
    let asks = crate::support::wait::find("an ask", crate::support::wait::PATIENCE, || {
        let listed = world.festoon(["ask", "list", "--json"]).run();
        let asks: Value = serde_json::from_str(&listed.stdout).ok()?;
        asks.as_array().filter(|a| !a.is_empty()).map(|a| a[0].clone())
    });
    assert_eq!((&asks["tool"], &asks["status"]), (&json!("Write"), &json!("open")));
    assert!(asks["agentId"].as_str().is_some_and(|id| id.starts_with('a')), "{asks}");
    world.festoon(["ask", "approve", asks["id"].as_str().expect("an id")]).run().code(0);
    crate::support::wait::until("the fork goes on", || server.of_fork("ID:f.").len() == 2);
    server.open("lead");
    running.wait().code(0);
    assert_eq!(world.read("new.txt"), "x");
}
