//! Transcripts as a tree and as documents.

use crate::support::model_server::{ModelServer, call_as, prompt, say};
use crate::support::state::history;
use serde_json::{Value, json};

#[test]
fn a_session_is_shown_as_a_tree_and_exported() {
    let server = ModelServer::start();
    let world = server.world();
    let agent = |id: &str, prompt: &str| {
        call_as(id, "Agent", json!({ "description": format!("do {id}"), "prompt": prompt }))
    };
    server.on(prompt("ID:lead"), [agent("a", "ID:outer").into(), say("All done.").into()]);
    server.on(prompt("ID:outer"), [agent("b", "ID:inner").into(), say("```\ncode\n```").into()]);
    server.on(prompt("ID:inner"), [say("Innermost.").into()]);
    world.festoon(["-p", "ID:lead"]).run().code(0);

    let tree = world.festoon(["log", "tree", "--json"]).run().code(0).json();
    let seen =
        |node: &Value| json!([node["agentType"], node["description"], node["status"], node["messages"]]);
    let outer = &tree["children"][0];
    let inner = &outer["children"][0];
    assert_eq!(seen(&tree), json!(["main", "", "", 4]));
    assert_eq!(seen(outer), json!(["general-purpose", "do a", "completed", 4]));
    assert_eq!(seen(inner), json!(["general-purpose", "do b", "completed", 2]));
    assert_eq!(inner["children"], json!([]));
    assert!(tree["tokens"].as_u64() > Some(0) && tree["cost"].is_null(), "{tree}");
    let shown = world.festoon(["log", "tree"]).run().code(0).stdout.clone();
    let names: Vec<&str> =
        shown.lines().skip(1).map(|line| line.split("  ").next().expect("a cell")).collect();
    assert_eq!(
        names,
        ["team-lead", "└ general-purpose", "  └ general-purpose"].map(|n| n.trim_start_matches("  "))
    );

    let which = format!("/{}", outer["agentId"].as_str().expect("an id"));
    let session = world.transcript()[0]["sessionId"].as_str().expect("an id").to_owned();
    let document =
        world.festoon(["log", "export", &format!("{session}{which}")]).run().code(0).stdout.clone();
    assert!(document.contains("## Agent (") && document.contains("\n```\ncode\n```\n"), "{document}");
    assert!(document.contains("**Agent**\n\n```json\n{"), "{document}");

    assert_eq!(world.festoon(["log", "export", "-o", "t.json"]).run().code(0).stdout, "written to t.json\n");
    let messages: Vec<Value> = serde_json::from_str(&world.read("t.json")).expect("JSON");
    let whole = world.festoon(["log", "export"]).run().code(0).stdout.clone();
    assert!(whole.contains("````\n```\ncode\n```"), "a fence that what it holds cannot close: {whole}");
    let kept = history(&world.transcript());
    let roles = |all: &[Value]| all.iter().map(|m| m["role"].clone()).collect::<Vec<_>>();
    assert_eq!(roles(&messages), ["user", "assistant", "user", "assistant"]);
    assert_eq!(
        messages.iter().map(|m| &m["content"]).collect::<Vec<_>>(),
        kept.iter().map(|m| &m["content"]).collect::<Vec<_>>()
    );
    assert_eq!(world.festoon(["log", "export", "-o", "no/dir/x"]).run().code(1).stdout, "");
}
