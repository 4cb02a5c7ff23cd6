//! Subagents: side by side, their results, their transcripts, their limits.

use crate::support::model_server::{ModelServer, Part, Reply, call_as, gate, prompt, say, think};
use crate::support::state::{json_file, jsonl};
use serde_json::{Value, json};

fn agent(id: &str, prompt: &str, more: Value) -> Part {
    let mut input = json!({ "description": "a job", "prompt": prompt });
    for (key, value) in more.as_object().into_iter().flatten() {
        input[key] = value.clone();
    }
    call_as(id, "Agent", input)
}

#[test]
fn two_work_side_by_side_and_answer_in_the_order_of_the_calls() {
    let server = ModelServer::start();
    let world = server.world();
    world.file("a.txt", "one\n");
    server.on(
        prompt("ID:lead"),
        [
            [
                agent("general", "ID:general", json!({})),
                agent("explore", "ID:explore", json!({ "subagent_type": "Explore" })),
            ]
            .into(),
            say("done").into(),
        ],
    );
    server.on(
        prompt("ID:general"),
        [
            [
                call_as("r", "Read", json!({ "file_path": "a.txt" })),
                call_as("g", "Glob", json!({ "pattern": "*" })),
            ]
            .into(),
            [gate("general"), say("General\nfound one.")].into(),
        ],
    );
    server.on(prompt("ID:explore"), [[gate("explore"), say("Explore found two.")].into()]);
    let running = world.festoon(["-p", "ID:lead", "--output-format", "stream-json"]).start();
    server.reached("general");
    server.reached("explore");
    server.open("explore");
    server.open("general");
    let done = running.wait();
    done.code(0);
    server.all_played();

    let last = server.last_of("ID:lead");
    let results = last.results();
    assert_eq!(results[1], ("explore".to_owned(), "Explore found two.".to_owned(), false));
    let trailer = regex::Regex::new(
        r"\AGeneral\nfound one\.\n\nagentId: (\S+) \(use SendMessage with to: '(\S+)' to continue this agent\)\n<usage>total_tokens: (\d+)\ntool_uses: 2\nduration_ms: \d+</usage>\z",
    )
    .expect("a pattern");
    let found = trailer.captures(&results[0].1).unwrap_or_else(|| panic!("{}", results[0].1));
    assert_eq!(found[1], found[2]);

    // Its own history, tools and prompt; nothing of its parent's.
    let child = server.last_of("ID:general");
    assert_eq!(child.messages()[0]["content"].as_array().map(Vec::len), Some(2));
    assert!(
        child.tools().contains(&"Agent") && child.tools().contains(&"SendMessage"),
        "{:?}",
        child.tools()
    );
    let explorer = server.last_of("ID:explore");
    for tool in ["Agent", "Edit", "Write"] {
        assert!(!explorer.tools().contains(&tool), "{:?}", explorer.tools());
    }
    assert_ne!(explorer.system(), child.system());

    // Transcript and metadata, and the stream that tells them apart.
    assert_eq!(world.check_transcripts(), 3);
    let id = found[1].to_owned();
    let sidechain = world.sidechains().into_iter().find(|p| p.to_str().is_some_and(|p| p.contains(&id)));
    let sidechain = sidechain.expect("a sidechain");
    assert!(jsonl(&sidechain).iter().all(|l| l["agentId"] == id.as_str() && l["isSidechain"] == true));
    let meta = json_file(&sidechain.with_extension("meta.json"));
    let keys =
        ["agentType", "description", "toolUseId", "isFork", "depth", "model", "status", "permissionMode"];
    let expected = json!([
        "general-purpose",
        "a job",
        "general",
        false,
        1,
        "anthropic:test-model",
        "completed",
        "default"
    ]);
    assert_eq!(json!(keys.map(|k| meta[k].clone())), expected);
    let lines = done.lines();
    let children: Vec<&Value> = lines.iter().filter(|l| l["parent_tool_use_id"] == "general").collect();
    let kinds: Vec<&str> =
        children.iter().filter_map(|l| l["type"].as_str()).filter(|t| *t != "system").collect();
    assert_eq!(kinds, ["user", "assistant", "user", "assistant"]);
    let started: Vec<&Value> =
        lines.iter().filter(|l| l["subtype"] == "task_started").map(|l| &l["agent_type"]).collect();
    assert_eq!(started.len(), 2);
}

#[test]
fn what_a_silent_agent_returns() {
    let server = ModelServer::start();
    let world = server.world();
    world.file("a.txt", "one\n");
    let kind = json!({ "subagent_type": "Explore" });
    let ids = ["ID:earlier", "ID:nothing", "ID:blank"];
    server
        .on(prompt("ID:lead"), [ids.map(|id| agent(&id[3..], id, kind.clone())).into(), say("done").into()]);
    let look = || call_as_new("Read", json!({ "file_path": "a.txt" }));
    server.on(
        prompt("ID:earlier"),
        [
            [say("Far."), look()].into(),
            [say("Near."), look()].into(),
            [look()].into(),
            Reply::Message(Vec::new()),
        ],
    );
    server.on(prompt("ID:nothing"), [[look()].into(), Reply::Message(Vec::new())]);
    server.on(prompt("ID:blank"), [[think("Hm."), look()].into(), [think("Nothing."), say("  \n")].into()]);
    world.festoon(["-p", "ID:lead"]).run().code(0);
    let nothing = "(Subagent completed but returned no output.)";
    let results: Vec<String> =
        server.last_of("ID:lead").results().into_iter().map(|(_, text, _)| text).collect();
    assert_eq!(results, ["Near.", nothing, nothing]);
    assert_eq!(world.check_transcripts(), 4);
}

fn call_as_new(name: &str, input: Value) -> Part {
    crate::support::model_server::call(name, input)
}

#[test]
fn an_unknown_type_is_an_error_that_lists_the_types() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [[agent("a", "ID:x", json!({ "subagent_type": "Wizard" }))].into(), say("done").into()],
    );
    world.festoon(["-p", "ID:lead"]).run().code(0);
    let (text, failed) = server.last_of("ID:lead").result("a");
    assert!(failed);
    for word in ["\"Wizard\"", "general-purpose", "Explore"] {
        assert!(text.contains(word), "{text}");
    }
    assert_eq!(world.sidechains().len(), 0);
}

#[test]
fn limits_refuse_or_queue_and_say_which() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [[agent("a", "ID:one", json!({}))].into(), say("done").into()]);
    server.on(prompt("ID:one"), [[agent("b", "ID:two", json!({}))].into(), say("one is done").into()]);
    world.festoon(["-p", "ID:lead", "--max-depth", "1"]).run().code(0);
    let (text, failed) = server.last_of("ID:one").result("b");
    assert!(failed && text.contains("depth") && text.contains("--max-depth"), "{text}");
    assert_eq!(server.of("ID:two").len(), 0);

    server.on(
        prompt("ID:total"),
        [
            ["c1", "c2", "c3"].map(|id| agent(id, "ID:child", json!({ "subagent_type": "Explore" }))).into(),
            say("done").into(),
        ],
    );
    server.always(prompt("ID:child"), say("here"));
    world.festoon(["-p", "ID:total", "--max-agents-total", "2"]).run().code(0);
    let results = server.last_of("ID:total").results();
    assert_eq!(results.iter().filter(|(_, _, failed)| *failed).count(), 1, "{results:#?}");
    let refused = results.iter().find(|(_, _, failed)| *failed).map(|(_, text, _)| text).expect("one");
    assert!(refused.contains("--max-agents-total"), "{refused}");
}

#[test]
fn more_agents_than_places_are_queued() {
    let server = ModelServer::start();
    let world = server.world();
    let calls: Vec<Part> = (0..3)
        .map(|n| agent(&format!("q{n}"), &format!("ID:queued-{n}"), json!({ "subagent_type": "Explore" })))
        .collect();
    server.on(prompt("ID:lead"), [calls.into(), say("done").into()]);
    for n in 0..3 {
        let id = format!("ID:queued-{n}");
        server.on(prompt(&id), [[gate(&id), say(&id)].into()]);
    }
    let running = world.festoon(["-p", "ID:lead", "--max-agents", "1"]).start();
    for n in 0..3 {
        crate::support::wait::until("one more begins", || server.of("ID:queued").len() == n + 1);
        let now = server.of("ID:queued").pop().expect("one").prompt();
        let id = now.lines().last().expect("the prompt").to_owned();
        server.open(&id);
    }
    running.wait().code(0);
    let results: Vec<String> = server.last_of("ID:lead").results().into_iter().map(|(_, t, _)| t).collect();
    assert_eq!(results, ["ID:queued-0", "ID:queued-1", "ID:queued-2"]);
}

#[test]
fn a_failing_agent_is_a_result_with_its_last_words() {
    let server = ModelServer::start();
    let world = server.world();
    world.file("a.txt", "one\n");
    server.on(prompt("ID:lead"), [[agent("a", "ID:child", json!({}))].into(), say("I go on.").into()]);
    server.on(
        prompt("ID:child"),
        [
            [say("Half of it."), call_as("r", "Read", json!({ "file_path": "a.txt" }))].into(),
            Reply::status(400, "invalid_request_error", "the prompt is too long"),
        ],
    );
    let done = world.festoon(["-p", "ID:lead"]).run();
    done.code(0);
    assert_eq!(done.stdout, "I go on.\n");
    let (text, failed) = server.last_of("ID:lead").result("a");
    assert!(failed && text.contains("the prompt is too long") && text.contains("Half of it."), "{text}");
    assert_eq!(world.check_transcripts(), 2);
}

#[test]
fn a_nested_agent_reports_to_its_parent_only() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [[agent("a", "ID:middle", json!({}))].into(), say("done").into()]);
    server.on(
        prompt("ID:middle"),
        [[agent("b", "ID:leaf", json!({ "subagent_type": "Explore" }))].into(), say("middle").into()],
    );
    server.on(prompt("ID:leaf"), [say("leaf").into()]);
    world.festoon(["-p", "ID:lead"]).run().code(0);
    assert_eq!(server.last_of("ID:middle").result("b"), ("leaf".to_owned(), false));
    let lead = server.last_of("ID:lead");
    assert!(lead.result("a").0.starts_with("middle\n"), "{}", lead.result("a").0);
    assert!(!String::from_utf8_lossy(&lead.raw).contains("ID:leaf"));
    assert_eq!(world.check_transcripts(), 3);
}
