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
