//! `festoon up`: a blueprint becomes a team.

use crate::support::state::json_file;
use crate::support::world::World;
use serde_json::json;
use std::fs;

/// A world with a blueprint of its own, outside of the project.
fn world() -> World {
    let world = World::new();
    let dir = world.outside().join("own");
    fs::create_dir_all(dir.join("roles")).expect("dirs");
    let write = |name: &str, text: &str| fs::write(dir.join(name), text).expect("file");
    write(
        "crew.toml",
        r#"name = "Crew"
description = "Counts"
script = "crew.script.toml"
lead-prompt = "Do: {task}\nWith:\n{members}"
[[member]]
name = "Anna"
role = "counter"
duty = "counts"
"#,
    );
    write(
        "roles/counter.md",
        "---\nname: counter\ndescription: Counts files.\ntools: Glob\ncolour: red\n---\nYou count.\n",
    );
    write(
        "crew.script.toml",
        r#"[[rule]]
agent = "team-lead"
round = 1
reply = [{ tool = "Agent", input = { name = "Anna", subagent_type = "counter", description = "count", prompt = "{{prompt | last 3}}" } }]
[[rule]]
agent = "team-lead"
contains = "count of one"
reply = [{ text = "{{mail:anna | last 1}}" }]
[[rule]]
agent = "team-lead"
times = "always"
reply = [{ text = "I wait." }]
[[rule]]
agent = "anna"
reply = [{ text = "For {{prompt | match 'Do: (.*)' 1}}: a count of one." }]
"#,
    );
    world
}

#[test]
fn a_blueprint_of_ones_own_plays_its_script_with_its_roles() {
    let world = world();
    for name in ["crew", "crew-2"] {
        let done = world.festoon(["up", "../own/crew.toml", "--task", "look {members}"]).run();
        done.code(0);
        assert_eq!(done.stdout, "For look {members}: a count of one.\n");
        let role = world.outside().join("project/../own/roles/counter.md");
        assert_eq!(done.stderr, format!("warning: {}:5: unknown key `colour`\n", role.display()));
        let team = json_file(&world.home.join("teams").join(name).join("team.json"));
        assert_eq!(
            (&team["description"], &team["members"][0]["agentType"]),
            (&json!("Counts"), &json!("counter"))
        );
    }
    let lines = world.sidechain_of("anna");
    let prompt =
        lines.iter().find(|l| l["type"] == "user").expect("a prompt")["message"]["content"].to_string();
    assert!(prompt.contains("- name `Anna`, subagent_type `counter`: counts"), "{prompt}");
}

#[test]
fn what_is_missing_is_said() {
    let world = world();
    for (args, why) in [
        (vec!["up", "../own/crew.toml"], "the blueprint Crew has no task of its own"),
        (vec!["up", "crew"], "there is no blueprint \"crew\""),
        (vec!["up", "./crew.toml"], "crew.toml: there is no such file"),
        (vec!["up", "demo"], "the blueprint demo plays a script that ships with it"),
        (vec!["up"], "required arguments"),
    ] {
        let done = world.festoon(&args).run();
        done.code(2);
        assert!(done.stderr.contains(why), "{args:?}: {}", done.stderr);
    }
    let done = world.festoon(["up", "review"]).run();
    done.code(4);
    let off = r#"{"teams":false}"#;
    let done = world.festoon(["up", "../own/crew.toml", "--task", "x", "--settings", off]).run();
    done.code(2);
    assert!(world.teams().is_empty());
}
