//! Prompts as lines of JSON on standard input.

use crate::support::model_server::{ModelServer, prompt, say};
use serde_json::{Value, json};

fn line(content: &Value) -> String {
    format!("{}\n", json!({ "type": "user", "message": { "role": "user", "content": content } }))
}

const RUN: [&str; 5] = ["-p", "--input-format", "stream-json", "--output-format", "stream-json"];

#[test]
fn each_line_is_a_turn_and_the_end_of_input_ends_the_run() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:one"), [say("First.").into(), say("Second.").into()]);
    let said = line(&json!("ID:one")) + "\n" + &line(&json!([{ "type": "text", "text": "ID:two" }]));
    let done = world.festoon(RUN).stdin(said).run();
    let result = done.code(0).result();
    assert_eq!(json!([result["result"], result["num_turns"]]), json!(["Second.", 2]));
    let kinds: Vec<Value> =
        done.lines().iter().map(|l| l["type"].clone()).filter(|t| t != "system").collect();
    assert_eq!(kinds, ["user", "assistant", "user", "assistant", "result"]);
    let last = server.last_of("ID:one");
    assert_eq!(last.mail(), [["ID:two"]]);
}

#[test]
fn a_line_that_is_none_ends_the_run_and_keeps_what_was_answered() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:one"), [say("First.").into()]);
    let done = world.festoon(RUN).stdin(line(&json!("ID:one")) + "not json\n" + &line(&json!("never"))).run();
    let result = done.code(2).result();
    assert_eq!(json!([result["result"], result["is_error"]]), json!(["First.", true]));
    let message = result["error"]["message"].as_str().expect("a message").to_owned();
    assert!(message.starts_with("line 2 of standard input: it is no message"), "{message}");
    world.festoon(["--input-format", "stream-json"]).run().code(2);
}
