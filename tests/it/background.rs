//! Background agents: launched and not waited for, told of once, seen and stopped at the root.

use crate::support::model_server::{ModelServer, Part, call_as, gate, prompt, say};
use crate::support::state::json_file;
use serde_json::{Value, json};
use std::path::PathBuf;

/// A call that launches an agent in the background.
fn beside(id: &str, prompt: &str, more: Value) -> Part {
    let mut input = json!({ "description": "a job", "prompt": prompt, "run_in_background": true });
    for (key, value) in more.as_object().into_iter().flatten() {
        input[key] = value.clone();
    }
    call_as(id, "Agent", input)
}

#[test]
fn a_background_agent_is_launched_at_once_and_told_of_once() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [[beside("b", "ID:child <&>", json!({}))].into(), say("I go on.").into(), say("Heard it.").into()],
    );
    server.on(prompt("ID:child"), [[gate("child"), say("It is <done> & dusted.")].into()]);
    let running = world.festoon(["-p", "ID:lead", "--output-format", "stream-json"]).start();
    server.reached("child");
    server.wait_for("ID:lead", 2);
    let launched: Value = serde_json::from_str(&server.last_of("ID:lead").result("b").0).expect("JSON");
    let id = launched["agentId"].as_str().expect("an id").to_owned();
    let output = launched["outputFile"].as_str().expect("a file").to_owned();
    assert_eq!(
        launched,
        json!({ "status": "async_launched", "agentId": id, "description": "a job", "prompt": "ID:child <&>",
                "outputFile": output, "canReadOutputFile": true, "queued": false })
    );
    let meta = world.sidechains()[0].with_extension("meta.json");
    assert_eq!(json_file(&meta)["status"], "running");
    server.open("child");
    let done = running.wait();
    done.code(0);
    assert_eq!(done.result()["result"], "Heard it.");
    server.all_played();

    let heard = server.last_of("ID:lead").mail().concat();
    let duration = regex::Regex::new(r"duration_ms: \d+").expect("a pattern");
    let heard: Vec<_> =
        heard.iter().map(|text| duration.replace(text, "duration_ms: N").into_owned()).collect();
    let total = regex::Regex::new(r"total_tokens: [1-9]\d*").expect("a pattern");
    assert!(total.is_match(&heard[0]), "{heard:?}");
    assert_eq!(
        total.replace(&heard[0], "total_tokens: N"),
        format!(
            "<task-notification>\n<task-id>{id}</task-id>\n<status>completed</status>\n<summary>Agent \"a job\" \
             completed</summary>\n<result>It is &lt;done&gt; &amp; dusted.</result>\n<output-file>{output}</output-file>\n\
             <usage>total_tokens: N\ntool_uses: 0\nduration_ms: N</usage>\n</task-notification>"
        )
    );
    assert_eq!(heard.len(), 1);
    assert_eq!(std::fs::read_to_string(PathBuf::from(output)).expect("output"), "It is <done> & dusted.\n");
    assert_eq!(json_file(&meta)["status"], "completed");
    assert_eq!(world.check_transcripts(), 2);
}
