//! Coordinator mode: a leader that only delegates, and workers that are not restricted by it.

use crate::support::model_server::{ModelServer, call, call_as, prompt, say};
use serde_json::json;

const OWN: [&str; 7] =
    ["Agent", "SendMessage", "TaskOutput", "TaskStop", "TaskCreate", "TaskGet", "TaskList"];

#[test]
fn a_coordinator_delegates_and_its_workers_have_all_tools() {
    let server = ModelServer::start();
    let world = server.world();
    world.file("a.txt", "one\n");
    server.on(
        prompt("ID:lead"),
        [[
            call_as("a", "Agent", json!({ "description": "look", "prompt": "ID:worker" })),
            call_as("f", "Agent", json!({ "description": "f", "prompt": "x", "subagent_type": "fork" })),
            call_as("r", "Read", json!({ "file_path": "a.txt" })),
        ]
        .into()],
    );
    server.always(prompt("ID:lead"), say("Heard."));
    server.on(
        prompt("ID:worker"),
        [call("Read", json!({ "file_path": "a.txt" })).into(), say("It says one.").into()],
    );
    world.festoon(["-p", "ID:lead", "--coordinator"]).run().code(0);
    let lead = server.last_of("ID:lead");
    assert_eq!(lead.tools().len(), 8);
    assert!(OWN.iter().all(|tool| lead.tools().contains(tool)), "{:?}", lead.tools());
    assert!(lead.result("a").0.contains("async_launched"), "{}", lead.result("a").0);
    assert!(lead.result("f").0.contains("coordinator mode") && lead.result("f").1);
    assert!(lead.result("r").0.contains("There is no tool named"), "{}", lead.result("r").0);
    let heard = lead.mail().concat().join("\n");
    assert!(heard.contains("<task-notification>") && heard.contains("It says one."), "{heard}");
    let worker = server.last_of("ID:worker");
    for tool in ["Read", "Edit", "Bash", "Grep"] {
        assert!(worker.tools().contains(&tool), "{:?}", worker.tools());
        assert!(lead.system().contains(tool), "{}", lead.system());
    }
    assert!(worker.results()[0].1.contains("one"), "{:?}", worker.results());
}

#[test]
fn the_mode_comes_from_the_environment_too_and_workers_do_not_inherit_it() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [call_as("a", "Agent", json!({ "description": "d", "prompt": "ID:anna", "name": "anna" })).into()],
    );
    server.always(prompt("ID:lead"), say("Heard."));
    server.on(
        prompt("ID:anna"),
        [
            call_as("s", "Agent", json!({ "description": "d", "prompt": "ID:sub" })).into(),
            say("Done.").into(),
        ],
    );
    server.on(prompt("ID:sub"), [say("Foreground.").into()]);
    let run = world.festoon(["-p", "ID:lead", "--teammate-mode", "process"]);
    run.env("FESTOON_COORDINATOR_MODE", "1").run().code(0);
    assert!(!server.last_of("ID:lead").tools().contains(&"Read"));
    let anna = server.last_of("ID:anna");
    assert!(anna.tools().contains(&"Read"), "{:?}", anna.tools());
    assert!(anna.result("s").0.starts_with("Foreground."), "{}", anna.result("s").0);
}
