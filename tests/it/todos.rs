//! Lists of things to do: shown, kept for a later run, and each agent its own.

use crate::support::model_server::{ModelServer, Part, call_as, prompt, say};
use serde_json::{Value, json};

fn write(id: &str, items: &[(&str, &str)]) -> Part {
    let todos: Vec<Value> = items
        .iter()
        .map(|(content, status)| json!({ "content": content, "status": status, "activeForm": format!("{content}…") }))
        .collect();
    call_as(id, "TodoWrite", json!({ "todos": todos }))
}

fn shown(lines: &[Value]) -> Vec<Value> {
    lines.iter().filter(|line| line["subtype"] == "todos").cloned().collect()
}

#[test]
fn a_list_is_shown_and_a_child_has_its_own() {
    let server = ModelServer::start();
    let world = server.world();
    let child = json!({ "description": "look", "prompt": "ID:child", "subagent_type": "general-purpose" });
    server.on(
        prompt("ID:list"),
        [
            [write("t1", &[("look", "in_progress"), ("fix", "pending")]), call_as("a1", "Agent", child)]
                .into(),
            write("t2", &[("look", "completed"), ("fix", "in_progress")]).into(),
            say("done").into(),
        ],
    );
    server.on(prompt("ID:child"), [write("c1", &[("mine", "pending")]).into(), say("seen").into()]);
    let done = world.festoon(["-p", "ID:list", "--output-format", "stream-json", "--verbose"]).run();
    done.code(0);
    let lists: Vec<(Value, Value)> = shown(&done.lines())
        .iter()
        .map(|line| (line["parent_tool_use_id"].clone(), line["todos"].clone()))
        .collect();
    let item = |content: &str, status: &str| json!({ "content": content, "status": status, "activeForm": format!("{content}…") });
    assert_eq!(
        lists,
        [
            (Value::Null, json!([item("look", "in_progress"), item("fix", "pending")])),
            (json!("a1"), json!([item("mine", "pending")])),
            (Value::Null, json!([item("look", "completed"), item("fix", "in_progress")])),
        ]
    );
    assert_eq!(
        server.last_of("ID:list").result("t2"),
        ("The list is saved: 1 of 2 done, 1 in progress.".to_owned(), false)
    );
}

#[test]
fn a_resumed_session_has_its_list_again() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:first"),
        [
            write("t1", &[("look", "completed"), ("fix it", "in_progress"), ("test it", "pending")]).into(),
            call_as("bad", "TodoWrite", json!({ "todos": [{ "content": "", "status": "pending" }] })).into(),
            say("so far").into(),
        ],
    );
    let first = world.festoon(["-p", "ID:first", "--output-format", "json"]).run();
    first.code(0);
    let session = first.result()["session_id"].as_str().expect("an id").to_owned();
    assert!(server.last_of("ID:first").result("bad").1);
    let piped = world.festoon(["--resume", &session]).stdin("").run();
    piped.code(0);
    let lines: Vec<&str> =
        piped.stdout.lines().filter(|line| line.contains('▸') || line.contains('▫')).collect();
    assert_eq!(lines, ["  ▸ fix it…", "  ▫ test it"], "{piped:#?}");
}
