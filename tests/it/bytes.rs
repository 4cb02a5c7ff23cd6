//! Bytes survive: odd JSON of a model, large and damaged transcripts, over the restart of the process.

use crate::support::model_server::{ModelServer, Part, prompt, say};
use serde_json::{Value, json};
use std::fmt::Write as _;

const SESSION: &str = "f0c9f6f0-1111-4222-8333-444455556666";

/// Inputs that a parser would change.
const ODD: [&str; 7] = [
    r#"{"file_path":"a.txt","limit":1e2}"#,
    r#"{"file_path":"a.txt","offset":1.0,"limit":123456789012345678901234567890}"#,
    r#"{"file_path":"\u00e9\/\ud83d\ude00.txt"}"#,
    r#"{"file_path":"a.txt","file_path":"b.txt"}"#,
    "{ \"file_path\" :\t\"a.txt\" ,  \"limit\" : 0.10 }",
    "{\n  \"file_path\": \"a.txt\",\r\n  \"limit\": 2\n}",
    r#"{"file_path":"a.txt","x":{"b":1,"a":[-0,1E+2,"\u0041"]}}"#,
];

#[test]
fn what_a_model_wrote_comes_back_to_it_byte_for_byte_also_after_a_restart() {
    let server = ModelServer::start();
    let world = server.world();
    world.file("a.txt", "one\ntwo\n");
    let calls: Vec<Part> = ODD
        .iter()
        .map(|input| Part::Call { name: "Read".to_owned(), input: (*input).to_owned(), id: None })
        .collect();
    server.on(prompt("ID:lead"), [calls.into(), say("Done.").into(), say("Still.").into()]);
    world.festoon(["-p", "ID:lead", "--session-id", SESSION]).run().code(0);
    world.festoon(["-p", "again", "--resume", SESSION]).run().code(0);
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    for request in &requests[1..] {
        let raw = String::from_utf8(request.raw.clone()).expect("text");
        for input in ODD {
            assert!(raw.contains(&format!(r#""input":{input}"#)), "request {}: {input}", request.number);
        }
    }
}

/// Lines as an earlier run would have written them.
struct Lines {
    text: String,
    parent: Value,
    number: usize,
    session: &'static str,
}

impl Lines {
    fn add(&mut self, mut line: Value) {
        self.number += 1;
        let uuid = format!("line-{}", self.number);
        let rest = json!({ "uuid": uuid, "parentUuid": self.parent, "sessionId": self.session, "isSidechain": false,
                           "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/", "gitBranch": "", "version": "0.1.0" });
        let (line, rest) = (line.as_object_mut().expect("object"), rest.as_object().expect("object"));
        line.extend(rest.clone());
        let _ = writeln!(self.text, "{}", Value::Object(line.clone()));
        self.parent = uuid.into();
    }

    fn say(&mut self, role: &str, text: &str) {
        let content = json!([{ "type": "text", "text": text }]);
        self.add(json!({ "type": role, "message": { "role": role, "content": content } }));
    }
}

/// The place of a session's transcript, found by starting one.
fn transcript(world: &crate::support::world::World, server: &ModelServer) -> std::path::PathBuf {
    server.on(prompt("ID:begin"), [say("Begun.").into()]);
    world.festoon(["-p", "ID:begin", "--session-id", SESSION]).run().code(0);
    world.sessions()[0].clone()
}

#[test]
fn a_transcript_of_fifty_megabytes_is_streamed() {
    let server = ModelServer::start();
    let world = server.world();
    let path = transcript(&world, &server);
    let mut lines = Lines { text: String::new(), parent: Value::Null, number: 0, session: SESSION };
    let long = "a line of a long conversation, as there are many; ".repeat(2_000);
    for _ in 0..25 {
        for _ in 0..10 {
            lines.say("user", &long);
            lines.say("assistant", &long);
        }
        let data = json!({ "trigger": "auto", "preTokens": 1, "postTokens": 1, "keptMessages": 0 });
        lines.add(
            json!({ "type": "system", "subtype": "compact_boundary", "text": "compacted", "data": data }),
        );
        lines.say("user", "ID:long, in short");
    }
    lines.say("assistant", "As far as that.");
    assert!(lines.text.len() > 50_000_000);
    std::fs::write(&path, &lines.text).expect("writes");
    server.on(prompt("ID:long"), [[crate::support::model_server::gate("hold"), say("Here.")].into()]);
    let running = world.festoon(["-p", "and?", "--resume", SESSION]).start();
    server.reached("hold");
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.pid())).expect("status");
    let peak: usize = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .and_then(|l| l.split_whitespace().next()?.parse().ok())
        .expect("a number");
    server.open("hold");
    let done = running.wait();
    done.code(0);
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("Here.\n", ""));
    let last = server.last_of("ID:long");
    let roles: Vec<Value> = last.messages().iter().map(|m| m["role"].clone()).collect();
    assert_eq!(Value::from(roles), json!(["user", "assistant", "user"]));
    // Unoptimized, with all its debug information; the file alone would add 50 MB.
    assert!(peak < 90_000, "{peak} KiB");
}

#[test]
fn lines_that_cannot_be_read_and_links_that_lead_nowhere_are_bridged_and_told() {
    let server = ModelServer::start();
    let world = server.world();
    let path = transcript(&world, &server);
    let mut lines = Lines { text: String::new(), parent: Value::Null, number: 0, session: SESSION };
    lines.say("user", "ID:hurt one");
    lines.say("assistant", "two");
    lines.text.push_str("{\"type\":\"user\", broken\n");
    lines.say("user", "three");
    lines.parent = "never-written".into();
    lines.say("assistant", "four");
    lines.text.push_str("{\"type\":\"user\",\"uuid\":\"to");
    std::fs::write(&path, &lines.text).expect("writes");
    server.on(prompt("ID:hurt"), [say("Five.").into(), say("Six.").into()]);
    let done = world.festoon(["-p", "and?", "--resume", SESSION]).run();
    done.code(0);
    assert_eq!(done.stdout, "Five.\n");
    let told: Vec<&str> = done.stderr.lines().filter(|l| l.contains(".jsonl:")).collect();
    let holds = |n: usize, line: &str, words: &str| {
        assert!(told[n].contains(&format!(".jsonl:{line}: ")) && told[n].contains(words), "{told:#?}");
    };
    assert_eq!(told.len(), 3, "{told:#?}");
    holds(0, "3", "skipped: ");
    holds(1, "5", "follows on a line that is not there (never-written)");
    holds(2, "6", "skipped: cut off by the end of the file");
    let said: Vec<String> = server
        .last_of("ID:hurt")
        .messages()
        .iter()
        .map(|m| m["content"][0]["text"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(said, ["ID:hurt one", "two", "three", "four", "and?"]);
    // What was bridged once is told again, what was written since is in order.
    let again = world.festoon(["-p", "and now?", "--resume", SESSION]).run();
    again.code(0);
    assert_eq!(again.stderr.lines().filter(|l| l.contains(".jsonl:")).count(), 3, "{}", again.stderr);
}
