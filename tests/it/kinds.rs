//! Kinds of agents from files that come and go while a session runs.

use crate::support::model_server::{ModelServer, Part, call, call_as, gate, prompt, say};
use crate::support::world::World;
use serde_json::{Value, json};

fn define(world: &World, name: &str, description: &str) {
    let text = format!("---\nname: {name}\ndescription: {description}\n---\nYou are {name}.\n");
    world.file(&format!(".festoon/agents/{name}.md"), &text);
}

fn agent(id: &str, kind: &str, prompt: &str) -> Part {
    call_as(id, "Agent", json!({ "description": "a job", "prompt": prompt, "subagent_type": kind }))
}

fn look() -> Part {
    call("Glob", json!({ "pattern": "*.none" }))
}

#[test]
fn a_kind_that_is_new_is_announced_and_can_be_used_while_the_declarations_stay() {
    let server = ModelServer::start();
    let world = server.world();
    define(&world, "old", "Was there");
    server.on(prompt("ID:lead"), [[gate("begun"), look()].into()]);
    server.on(
        prompt("ID:lead").input("<agent-kinds>"),
        [[agent("f", "fresh", "ID:fresh"), agent("g", "old", "ID:old")].into()],
    );
    server.on(prompt("ID:lead").input("fresh is here"), [say("Done.").into()]);
    server.always(prompt("ID:lead"), [look()]);
    server.on(prompt("ID:fresh"), [say("fresh is here").into()]);
    let running = world.festoon(["-p", "ID:lead", "--output-format", "stream-json"]).start();
    server.reached("begun");
    define(&world, "fresh", "Came <later>");
    std::fs::remove_file(world.project.join(".festoon/agents/old.md")).expect("removes");
    world.file(".festoon/agents/bad.md", "---\nname: [\n---\n");
    server.open("begun");
    let done = running.wait();
    done.code(0);
    assert_eq!(done.result()["result"], "Done.");

    let requests = server.of("ID:lead");
    let told: Vec<String> = requests
        .last()
        .expect("a request")
        .messages()
        .iter()
        .filter(|message| message["role"] == "user")
        .flat_map(|message| message["content"].as_array().cloned().unwrap_or_default())
        .filter_map(|block| block["text"].as_str().map(str::to_owned))
        .filter(|text| text.starts_with("<agent-kinds>"))
        .collect();
    let wanted = "<agent-kinds>\nThe kinds of agents that Agent starts have changed.\nNew:\n- fresh: Came \
                  &lt;later&gt;\nNot there any more:\nold\n</agent-kinds>";
    assert_eq!(told, [wanted], "told once");
    let declared: Vec<&Value> = requests.iter().map(|request| &request.body["tools"]).collect();
    assert!(declared.windows(2).all(|pair| pair[0] == pair[1]), "the declarations are frozen");
    assert!(declared[0].to_string().contains("- old: Was there"));
    assert!(server.last_of("ID:fresh").system().contains("You are fresh."));
    let (text, failed) = server.last_of("ID:lead").result("g");
    assert!(failed && text.contains("no agent type \"old\"") && text.contains("fresh"), "{text}");
    let notices: Vec<Value> = done.lines().into_iter().filter(|l| l["subtype"] == "notice").collect();
    let bad: Vec<&str> =
        notices.iter().filter_map(|n| n["text"].as_str()).filter(|text| text.contains("bad.md")).collect();
    assert_eq!(bad.len(), 1, "{notices:#?}");
    assert!(bad[0].contains("bad.md:2: "), "{bad:?}");
    assert_eq!(world.check_transcripts(), 2);
}

#[test]
fn a_file_that_is_changed_counts_at_the_next_use() {
    let server = ModelServer::start();
    let world = server.world();
    define(&world, "helper", "Helps");
    server.on(
        prompt("ID:lead"),
        [
            [agent("a", "helper", "ID:first")].into(),
            [gate("between"), agent("b", "helper", "ID:second")].into(),
            say("Done.").into(),
        ],
    );
    server.on(prompt("ID:first"), [say("one").into()]);
    server.on(prompt("ID:second"), [say("two").into()]);
    let running = world.festoon(["-p", "ID:lead"]).start();
    server.reached("between");
    world.file(".festoon/agents/helper.md", "---\nname: helper\ndescription: Helps\n---\nYou are another.\n");
    server.open("between");
    running.wait().code(0);
    assert!(server.last_of("ID:first").system().contains("You are helper."));
    assert!(server.last_of("ID:second").system().contains("You are another."));
    let lead = String::from_utf8_lossy(&server.last_of("ID:lead").raw).into_owned();
    assert!(!lead.contains("<agent-kinds>"), "nothing that the model needs to know has changed");
}

#[test]
fn what_a_kind_resolves_to_is_shown_for_every_tier() {
    let server = ModelServer::start();
    let world = server.world();
    let text = "---\nname: tester\ndescription: Runs tests\ntools: Read, Bash(cargo test:*), Agent, NoSuchTool\n\
                model: fast\npermissionMode: plan\nmaxTurns: 7\n---\nYou test.\n";
    world.file(".festoon/agents/tester.md", text);
    let start = |id: &str, more: Value| {
        let mut input = json!({ "description": "a job", "prompt": id, "subagent_type": "tester" });
        input.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
        call("Agent", input)
    };
    server.on(
        prompt("ID:lead"),
        [[
            start("ID:sub", json!({})),
            start("ID:back", json!({ "run_in_background": true })),
            start("ID:mate", json!({ "name": "mate" })),
        ]
        .into()],
    );
    server.always(prompt("ID:lead"), say("Ok."));
    for id in ["ID:sub", "ID:back", "ID:mate"] {
        server.on(prompt(id), [say("Here.").into()]);
    }
    world.festoon(["-p", "ID:lead"]).run().code(0);
    let shown = world.festoon(["agents", "show", "tester", "--json"]).run();
    let shown: Value = serde_json::from_str(&shown.code(0).stdout).expect("JSON");
    for (id, key) in [("ID:sub", "tools"), ("ID:back", "toolsInBackground"), ("ID:mate", "toolsAsTeammate")] {
        let request = server.last_of(id);
        assert_eq!(json!(request.tools()), shown[key], "{id}");
        assert_eq!(
            Some(format!("anthropic:{}", request.body["model"].as_str().expect("a model"))).as_deref(),
            shown["modelHere"].as_str()
        );
        assert!(request.system().contains(shown["systemPrompt"].as_str().expect("text")), "{id}");
    }
    assert_eq!(world.members()[0]["permissionMode"], shown["permissionModeHere"]);
    let said = ["source", "model", "permissionMode", "maxTurns"].map(|key| shown[key].clone());
    assert_eq!(json!(said), json!(["project", "fast", "plan", 7]));
    // A kind with all tools shows all that its agents are declared, in every tier.
    let shown = world.festoon(["agents", "show", "general-purpose", "--json"]).run();
    let shown: Value = serde_json::from_str(&shown.code(0).stdout).expect("JSON");
    let main = server.last_of("ID:lead");
    let declared: Vec<&str> = main.tools();
    for tool in shown["tools"].as_array().expect("tools") {
        assert!(declared.contains(&tool.as_str().expect("a name")), "{tool} is none of the main agent's");
    }
    let text = world.festoon(["agents", "show", "tester"]).run().code(0).stdout.clone();
    let (page, prompt) = text.split_once("\nsystem prompt\n").expect("a page");
    assert_eq!(prompt, "You test.\n");
    assert!(page.starts_with("tester\nRuns tests\n\nsource          project: "), "{page}");
    for line in [
        "mode            plan",
        "tools           Read, Bash, Agent",
        "rounds          7",
        "isolation       none: it works where its parent does",
        "MCP servers     all that are configured",
        "hooks           none of its own",
    ] {
        assert!(page.lines().any(|l| l == line), "{line:?}: {page}");
    }
    assert!(page.contains("\nmodel           fast, here anthropic:"), "{page}");
    assert!(page.contains("left out        ") && page.contains("not in its tools: "), "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");

    // What cannot be used hides nothing: only `check` fails for it.
    world.file(".festoon/agents/bad.md", "---\nname: [\n---\n");
    let listed = world.festoon(["agents", "list"]).run();
    listed.code(0);
    assert!(listed.stdout.contains("tester") && listed.stderr.starts_with("warning: "), "{listed:?}");
    assert!(listed.stderr.contains("bad.md:"), "{listed:?}");
    let checked = world.festoon(["agents", "check"]).run();
    checked.code(1);
    assert!(checked.stdout.contains("bad.md:"), "{checked:?}");
}
