//! Calls that were denied to teammates, in whatever process: in the result object, each once.

use crate::support::model_server::{ModelServer, call_as, prompt, say};
use crate::support::run::Done;
use crate::support::world::World;
use crate::teammates::start;
use serde_json::{Value, json};

const BACKENDS: [&str; 3] = ["in-process", "process", "tmux"];

/// Anna may not write by a rule, and nobody is there to allow her command.
fn run(backend: &str, format: &str, more: &[&str]) -> (World, Done) {
    let server = ModelServer::start();
    let mut world = server.world();
    // Panes of a leader outside tmux are on a server of its team's own.
    let sockets = world.outside().join("tmux");
    std::fs::create_dir(&sockets).expect("dir");
    world.env.insert("TMUX_TMPDIR".into(), sockets.to_str().expect("UTF-8").to_owned());
    server.on(prompt("ID:lead"), [start("a", "anna", "ID:anna").into(), say("Waiting.").into()]);
    server.always(prompt("ID:lead"), say("Ok."));
    let write = call_as("w", "Write", json!({ "file_path": "w", "content": "w" }));
    let touch = call_as("t", "Bash", json!({ "command": "touch t" }));
    server.on(prompt("ID:anna"), [write.into(), touch.into(), say("Nothing could be done.").into()]);
    let settings = r#"{"permissions":{"deny":["Write"]}}"#;
    let args =
        ["-p", "ID:lead", "--teammate-mode", backend, "--output-format", format, "--settings", settings];
    let done = world.festoon(args).args(more).run();
    (world, done)
}

#[test]
fn denials_of_teammates_are_in_the_result_wherever_they_run() {
    for backend in BACKENDS {
        for more in [["--ask-timeout", "1"].as_slice(), &[]] {
            let (world, done) = run(backend, "json", more);
            done.code(5);
            let denials = done.result()["permission_denials"].clone();
            let team = world.team().file_name().and_then(|n| n.to_str()).expect("UTF-8").to_owned();
            let seen: Vec<Value> = denials
                .as_array()
                .expect("a list")
                .iter()
                .map(|d| {
                    json!([
                        d["tool_name"],
                        d["tool_use_id"],
                        d["tool_input"],
                        d["agent_id"],
                        d["nobody_to_ask"]
                    ])
                })
                .collect();
            let anna = format!("anna@{team}");
            let expected = [
                json!(["Write", "w", { "file_path": "w", "content": "w" }, anna, false]),
                json!(["Bash", "t", { "command": "touch t" }, anna, true]),
            ];
            assert_eq!(seen, expected, "{backend} {more:?}");
        }
    }
}

#[test]
fn a_person_reads_which_calls_of_teammates_nobody_allowed() {
    for backend in BACKENDS {
        let (_world, done) = run(backend, "text", &[]);
        done.code(5);
        assert_eq!(done.stderr.matches("Bash of anna@").count(), 1, "{backend}: {}", done.stderr);
    }
}
