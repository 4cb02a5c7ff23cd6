//! The prompt cache: a request begins with the bytes of the one before.

use crate::support::model_server::cache::Found;
use crate::support::model_server::{ModelServer, Part, Reply, call, prompt, say, think};
use crate::teammates::{send, start};
use serde_json::json;

/// Of all that was sent a second time, how much came from the cache, in thousandths.
fn share(requests: &[Found]) -> usize {
    let again: usize = requests.windows(2).map(|w| w[0].total()).sum();
    let read: usize = requests.iter().skip(1).map(|f| f.read).sum();
    read * 1000 / again
}

#[test]
fn thirty_rounds_read_what_they_repeat_from_the_cache() {
    let server = ModelServer::start();
    let world = server.world();
    world.file("a.txt", &"some line of text\n".repeat(50));
    let mut replies: Vec<Reply> = (0..29)
        .map(|n| {
            let calls =
                |count: usize| (0..count).map(|_| call("Read", json!({ "file_path": "a.txt", "limit": 3 })));
            // Now and then many blocks at once, more than are looked back from a marker.
            let count = if n % 10 == 9 { 24 } else { 1 };
            let mut parts: Vec<Part> = vec![think(&format!("round {n}")), say("On.")];
            parts.extend(calls(count));
            parts.into()
        })
        .collect();
    replies.push(say("Done.").into());
    server.on(prompt("ID:lead"), replies);
    world.festoon(["-p", "ID:lead"]).run().code(0);
    server.all_played();
    let found = server.cached();
    assert_eq!(found.len(), 30);
    assert!(share(&found) >= 990, "{} of a thousand: {found:#?}", share(&found));
}

/// Every request reads what the one before it had.
#[track_caller]
fn each_reads_the_one_before(requests: &[Found]) {
    for (i, pair) in requests.windows(2).enumerate() {
        let (before, now) = (pair[0].total(), pair[1].read);
        assert!(now * 100 >= before * 99, "request {}: {now} of {before}: {requests:#?}", i + 2);
    }
}

#[test]
fn fifty_rounds_with_images_over_a_restart_and_a_compaction_read_what_they_repeat() {
    const SESSION: &str = "e0c9f6f0-1111-4222-8333-444455556666";
    let server = ModelServer::start();
    let world = server.world();
    world.file("a.txt", &"some line of text\n".repeat(50));
    // An image that is one: the smallest PNG, and bytes behind it that nobody looks at.
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0".to_vec();
    png.extend(std::iter::repeat_n(7, 30_000));
    std::fs::write(world.project.join("a.png"), png).expect("image");
    let round = |n: usize| -> Reply {
        let name = if n % 5 == 4 { "a.png" } else { "a.txt" };
        [think(&format!("round {n}")), say("On."), call("Read", json!({ "file_path": name }))].into()
    };
    server.on(prompt("ID:lead").input("Write the summary"), [say("ID:lead SUMMARY").into()]);
    server.on(
        prompt("ID:lead"),
        (0..25)
            .map(round)
            .chain([say("Half.").into()])
            .chain((25..50).map(round))
            .chain([say("Done.").into()]),
    );
    world.festoon(["-p", "ID:lead", "--session-id", SESSION]).run().code(0);
    world.festoon(["-p", "go on", "--resume", SESSION]).run().code(0);
    let found = server.cached();
    assert_eq!(found.len(), 52);
    each_reads_the_one_before(&found);
    assert!(share(&found) >= 990, "{} of a thousand", share(&found));

    // After a compaction: its summary reads all there was, and what follows reads what it repeats.
    server.on(prompt("ID:lead"), (0..8).map(round).chain([say("Again.").into()]));
    let lines = "/compact\ngo on\n";
    world.festoon(["--resume", SESSION]).stdin(lines).run().code(0);
    server.all_played();
    let found = server.cached();
    let summary = found[52];
    assert!(summary.read * 100 >= found[51].total() * 99, "{summary:?} after {:?}", found[51]);
    assert!(found[53].total() < summary.total(), "{:?} after {summary:?}", found[53]);
    each_reads_the_one_before(&found[53..]);
}

#[test]
fn mail_in_between_costs_nothing_of_the_cache() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [[start("a", "anna", "ID:anna")].into()]);
    server.always(prompt("ID:lead"), say("Ok."));
    let letters: Vec<Reply> =
        (0..10).map(|n| [send(&format!("m{n}"), "team-lead", &format!("Letter {n}."))].into()).collect();
    server.on(prompt("ID:anna"), letters);
    server.always(prompt("ID:anna"), say("Idle."));
    world.festoon(["-p", "ID:lead"]).run().code(0);
    for id in ["ID:lead", "ID:anna"] {
        let requests = server.of(id);
        for pair in requests.windows(2) {
            let (before, after) = (parts(&pair[0].raw), parts(&pair[1].raw));
            assert!(
                after.starts_with(&before),
                "{id}: request {} does not begin as the one before",
                pair[1].number
            );
        }
    }
    let systems: Vec<String> =
        server.of("ID:anna").iter().map(|r| r.body["system"][0]["text"].to_string()).collect();
    assert!(systems.windows(2).all(|w| w[0] == w[1]));
}

fn parts(raw: &[u8]) -> Vec<Vec<u8>> {
    crate::support::model_server::cache::parts(raw).into_iter().map(|p| p.bytes).collect()
}
