//! `festoon up`: a blueprint becomes a team.

use crate::support::git::git;
use crate::support::state::json_file;
use crate::support::world::World;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

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

#[test]
fn members_have_settings_of_their_own_and_tasks_are_there_before_anybody_begins() {
    let world = world();
    let dir = world.outside().join("own");
    fs::write(
        dir.join("two.toml"),
        r#"name = "two"
description = "Two"
script = "two.script.toml"
lead-prompt = "Do: {task}\nWith:\n{members}\nTasks:\n{tasks}"
[budget]
max-agents-total = 2
max-tokens-total = 1_000_000
[[member]]
name = "Bo"
role = "counter"
duty = "plans"
permission-mode = "plan"
model = "strong"
[[member]]
name = "Cy"
role = "counter"
duty = "counts"
[[task]]
subject = "Count"
description = "Count for {task}"
owner = "Bo"
[[task]]
subject = "Tell"
description = "Tell it."
blocked-by = ["Count"]
"#,
    )
    .expect("blueprint");
    fs::write(
        dir.join("two.script.toml"),
        r#"[[rule]]
agent = "team-lead"
round = 1
reply = [
  { tool = "TaskList", id = "tasks", input = {} },
  { tool = "Agent", input = { name = "Bo", subagent_type = "counter-bo", description = "d", prompt = "Wait." } },
  { tool = "Agent", input = { name = "Cy", subagent_type = "counter", description = "d", prompt = "Wait." } },
  { tool = "Agent", id = "more", input = { name = "Di", subagent_type = "counter", description = "d", prompt = "Wait." } },
]
[[rule]]
agent = "team-lead"
round = 2
reply = [{ text = "{{result:more}}" }]
[[rule]]
times = "always"
reply = [{ text = "I wait." }]
"#,
    )
    .expect("script");
    // A leader that cannot start leaves no team, whatever was in it.
    let up = ["up", "../own/two.toml", "--task", "bees", "--keep-team"];
    let not_started = world.festoon(up).args(["--teammate-mode", "iterm2"]).run();
    not_started.code(2);
    assert_eq!(world.teams(), Vec::<PathBuf>::new());
    let done = world.festoon(up).run();
    done.code(0);
    let team = world.home.join("teams/two");
    let task = |n: u32| json_file(&team.join(format!("tasks/{n}.json")));
    let (first, second) = (task(1), task(2));
    assert_eq!(
        (&first["subject"], &first["description"], &first["blocks"]),
        (&json!("Count"), &json!("Count for bees"), &json!([2]))
    );
    assert_eq!((&second["blockedBy"], &second["createdBy"]), (&json!([1]), &json!("user")));
    let members = json_file(&team.join("team.json"))["members"].clone();
    let of = |n: usize, key: &str| members[n][key].clone();
    assert_eq!(
        [of(0, "agentType"), of(0, "permissionMode"), of(1, "agentType"), of(1, "permissionMode")],
        [json!("counter-bo"), json!("plan"), json!("counter"), json!("default")]
    );
    let prompt = world.transcript().into_iter().find(|l| l["type"] == "user").expect("a prompt");
    let prompt = prompt["message"]["content"].to_string();
    for told in [
        "subagent_type `counter-bo` (asks you for approval of its plan first): plans",
        "- task 1, Bo's: Count",
        "- task 2: Tell",
    ] {
        assert!(prompt.contains(told), "{told}: {prompt}");
    }
    let refused = world.transcript().iter().map(ToString::to_string).collect::<String>();
    assert!(refused.contains("--max-agents-total"), "the third is refused by the blueprint's budget");
    let events = fs::read_to_string(team.join("events.jsonl")).expect("events");
    let told = events.lines().filter(|l| l.contains("\"event\":\"task\"") && l.contains("offered")).count();
    assert_eq!(told, 1, "Bo is told of its task once, Cy of none that waits: {events}");
}

/// A repository in which `add.sh` adds and `check.sh` checks that it does.
fn repository() -> World {
    let world = World::new();
    world.file("add.sh", "#!/bin/sh\necho $(($1 + $2))\n");
    world.file(
        "check.sh",
        "got=$(sh add.sh 1 2)\n[ \"$got\" = 3 ] || { echo \"wrong: 1 and 2 give $got\"; exit 1; }\necho passed\n",
    );
    git(&world.project, &["init", "-q", "-b", "main"]);
    commit(&world.project, "add");
    world
}

fn commit(dir: &Path, message: &str) -> String {
    git(dir, &["add", "-A"]);
    git(dir, &["commit", "-q", "-m", message]);
    git(dir, &["rev-parse", "HEAD"])
}

/// Plays a blueprint that ships with its rehearsal; gives what the leader said at last
/// and what is left behind for the user.
fn rehearse(world: &World, name: &str, task: &str) -> (String, String) {
    let script = format!("scripted:{}/tests/it/rehearsals/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let args = ["up", name, "--task", task, "--model", &script];
    let more = ["--permission-mode", "acceptEdits", "--allowed-tools", "Bash"];
    let done = world.festoon(args.into_iter().chain(more)).run();
    done.code(0);
    (done.stdout.trim().to_owned(), done.stderr)
}

#[test]
fn a_review_finds_what_a_change_breaks_and_changes_nothing() {
    let world = repository();
    world.file("add.sh", "#!/bin/sh\necho $(($1 - $2))\n");
    let (answer, left) = rehearse(&world, "review", "this change");
    assert_eq!(left, "");
    assert_eq!(
        answer,
        "1. add.sh:2: 2 lines changed, it subtracts; shown by check.sh (wrong: 1 and 2 give -1)\n\
         Security: 1 line that prints, no eval. It cannot be merged."
    );
    assert_eq!(git(&world.project, &["status", "--short"]), " M add.sh");
}

#[test]
fn a_feature_is_built_and_verified_on_a_branch_that_stays() {
    let world = repository();
    let (answer, left) = rehearse(&world, "feature", "print JSON");
    let base = git(&world.project, &["rev-parse", "HEAD"]);
    let branches =
        git(&world.project, &["for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads"]);
    let built: Vec<&str> = branches.lines().filter(|l| !l.ends_with(&base)).collect();
    let [built] = built[..] else { panic!("one branch with the change: {branches}") };
    let (branch, commit) = built.split_once(' ').expect("two words");
    assert_eq!(left.lines().count(), 1, "only builder's worktree stays: {left}");
    assert!(left.contains(&format!("(branch {branch}, ")) && left.contains("is kept: 1 commit"), "{left}");
    assert_eq!(
        answer,
        format!(
            "BUILT for print JSON on {branch} at {commit}: {{\"sum\": 3}}; \
             HOLDS at {commit}: before 5, now {{\"sum\": 5}}"
        )
    );
    assert_eq!(git(&world.project, &["diff", "--stat", &base, commit, "--", "check.sh"]), "");
    assert_eq!(git(&world.project, &["status", "--short"]), "");
    let tasks = world.home.join("teams/feature/tasks");
    for (n, owner) in [(1, "builder"), (2, "verifier")] {
        let task = json_file(&tasks.join(format!("{n}.json")));
        assert_eq!((&task["status"], &task["owner"]), (&json!("completed"), &json!(owner)));
    }
    assert!(
        json_file(&tasks.join("1.json"))["description"].as_str().expect("text").starts_with("print JSON\n")
    );
}

#[test]
fn an_investigation_names_the_line_the_command_and_the_commit() {
    let world = repository();
    world.file("add.sh", "#!/bin/sh\necho $(($1 - $2))\n");
    let bad = commit(&world.project, "add: faster");
    world.file("README", "Adds.\n");
    commit(&world.project, "docs");
    let (answer, left) = rehearse(&world, "investigate", "1 and 2 do not give 3");
    assert_eq!(left, "");
    assert_eq!(
        answer,
        format!("CAUSE add.sh:2; HAPPENS with `sh check.sh`: wrong: 1 and 2 give -1; SINCE {bad}")
    );
    assert_eq!(git(&world.project, &["status", "--short"]), "");
    assert_eq!(git(&world.project, &["worktree", "list"]).lines().count(), 1, "nothing was changed there");
}
