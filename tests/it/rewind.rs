//! `/rewind`: files and conversation as they were before a turn, also in a later run.

use crate::support::model_server::{ModelServer, Request, call, prompt, say};
use crate::support::world::World;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

const SESSION: &str = "d0c9f6f0-1111-4222-8333-444455556666";

/// What was said in a request, without what every conversation begins with.
fn said(request: &Request) -> Vec<String> {
    let texts = request.messages().iter().map(|message| {
        let blocks = message["content"].as_array().expect("blocks");
        blocks.iter().rev().find_map(|b| b["text"].as_str()).unwrap_or("(a call or result)").to_owned()
    });
    texts.filter(|text| text != "(a call or result)").collect()
}

fn exists(world: &World, name: &str) -> bool {
    world.project.join(name).exists()
}

/// A session whose second turn has changed `a.sh`, made `sub/b.txt`, and let a subagent write `c.txt`.
fn two_turns(server: &ModelServer) -> World {
    let world = server.world();
    let path = world.file("a.sh", "one\n");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).expect("mode");
    let read = || call("Read", json!({ "file_path": "a.sh" }));
    let edit = |from: &str, to: &str| {
        call("Edit", json!({ "file_path": "a.sh", "old_string": from, "new_string": to }))
    };
    let write = |path: &str, text: &str| call("Write", json!({ "file_path": path, "content": text }));
    server.on(prompt("ID:sub"), [[write("c.txt", "from below")].into(), say("Written.").into()]);
    let below = json!({ "description": "d", "prompt": "ID:sub" });
    server.on(
        prompt("ID:lead"),
        [
            [say("Looking."), read()].into(),
            say("First.").into(),
            [edit("one", "two"), write("sub/b.txt", "new")].into(),
            [edit("two", "three"), call("Agent", below)].into(),
            say("Second.").into(),
        ],
    );
    world
}

#[test]
fn files_and_conversation_go_back_and_forth() {
    let server = ModelServer::start();
    let world = two_turns(&server);
    let run = ["--session-id", SESSION, "--permission-mode", "acceptEdits"];
    let done = world.festoon(run).stdin("ID:lead\nchange it\n/rewind\n/rewind 2\n").run();
    done.code(0);
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert!(lines.iter().any(|l| l.starts_with("   1  ") && l.ends_with("ID:lead")), "{}", done.stdout);
    assert!(
        lines.iter().any(|l| l.starts_with("   2  ") && l.contains("  3 files  change it")),
        "{}",
        done.stdout
    );
    for line in [
        "a.sh is as it was",
        "sub/b.txt is removed: it was not there",
        "c.txt is removed: it was not there",
        "the conversation goes on from before: change it",
    ] {
        assert!(lines.contains(&line), "{line}: {}", done.stdout);
    }
    assert_eq!(world.read("a.sh"), "one\n");
    let mode = world.project.join("a.sh").metadata().expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    assert!(!exists(&world, "sub/b.txt") && !exists(&world, "c.txt"));

    // Another run goes on from there, and can take the rewind itself back.
    server.on(prompt("ID:lead"), [say("Third.").into(), say("Fourth.").into()]);
    let run = ["--resume", SESSION, "--permission-mode", "acceptEdits"];
    let done = world.festoon(run).stdin("what now\n/rewind\n/rewind 2\nand now\n").run();
    done.code(0);
    assert!(done.stdout.contains("  3 files  (rewound to before: change it)"), "{}", done.stdout);
    let requests = server.of("ID:lead");
    let [.., third, fourth] = &requests[..] else { panic!("requests") };
    assert_eq!(said(third), ["ID:lead", "Looking.", "First.", "what now"]);
    assert_eq!(said(fourth), ["ID:lead", "Looking.", "First.", "change it", "Second.", "and now"]);
    assert_eq!(world.read("a.sh"), "three\n");
    assert_eq!((world.read("sub/b.txt"), world.read("c.txt")), ("new".to_owned(), "from below".to_owned()));
    world.check_transcripts();
}

#[test]
fn only_files_or_only_the_conversation() {
    let server = ModelServer::start();
    let world = two_turns(&server);
    server.on(prompt("ID:lead"), [say("Third.").into(), say("Fourth.").into()]);
    let run = ["--session-id", SESSION, "--permission-mode", "acceptEdits"];
    let lines = "ID:lead\nchange it\n/rewind 2 files\nwhat now\n/rewind 1 conversation\n/rewind 9\n/rewind x\nID:lead again\n";
    let done = world.festoon(run).stdin(lines).run();
    done.code(0);
    assert_eq!(world.read("a.sh"), "one\n");
    let requests = server.of("ID:lead");
    let [.., third, fourth] = &requests[..] else { panic!("requests") };
    assert_eq!(said(third), ["ID:lead", "Looking.", "First.", "change it", "Second.", "what now"]);
    // Nothing was said any more, so the surroundings come again.
    assert_eq!(said(fourth), ["ID:lead again"]);
    assert!(fourth.prompt().starts_with("# Environment"), "{}", fourth.prompt());
    assert!(done.stdout.contains("there is no place 9; /rewind shows them"), "{}", done.stdout);
    assert!(done.stdout.contains("/rewind shows the places; "), "{}", done.stdout);
}

#[test]
fn what_changed_meanwhile_is_kept_and_what_cannot_be_put_back_is_named() {
    let server = ModelServer::start();
    let world = server.world();
    let big = world.file("big.bin", "");
    std::fs::write(&big, vec![b'x'; 17 << 20]).expect("big");
    world.file("a.txt", "one");
    let write = |path: &str, text: &str| call("Write", json!({ "file_path": path, "content": text }));
    let read = |path: &str| call("Read", json!({ "file_path": path, "limit": 1 }));
    let touch = json!({ "command": "printf by-hand > a.txt; printf x > made-by-bash" });
    server.on(
        prompt("ID:lead"),
        [
            [read("a.txt"), read("big.bin")].into(),
            [write("a.txt", "two"), write("big.bin", "small")].into(),
            call("Bash", touch).into(),
            say("Done.").into(),
        ],
    );
    let run = ["--session-id", SESSION, "--permission-mode", "bypassPermissions"];
    let done = world.festoon(run).stdin("ID:lead\n/rewind 1\n").run();
    done.code(0);
    let why = "it has 17825792 bytes";
    assert!(
        done.stdout.contains(&format!("big.bin could not be put back: what it was is not kept: {why}")),
        "{}",
        done.stdout
    );
    assert!(done.stdout.contains("/rewind cannot bring back what "), "{}", done.stdout);
    assert_eq!((world.read("a.txt"), world.read("big.bin")), ("one".to_owned(), "small".to_owned()));
    assert!(exists(&world, "made-by-bash"));
    // What was there by hand is found again.
    let done = world.festoon(["--resume", SESSION]).stdin("/rewind 1\n").run();
    done.code(0);
    assert_eq!(world.read("a.txt"), "by-hand");
    let kept: Vec<Value> = crate::support::state::jsonl(
        &world.files().into_iter().find(|p| p.ends_with("checkpoints/index.jsonl")).expect("an index"),
    );
    assert_eq!(kept.iter().filter(|l| l["before"]["kind"] == "notKept").count(), 1);
}
