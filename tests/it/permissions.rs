//! Who may do what in a run where nobody can be asked.

use crate::support::model_server::{ModelServer, Part, Reply, call_as, prompt, say};
use crate::support::run::Done;
use crate::support::world::World;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

/// What the model tries: an edit, a read, a command that writes, one that only looks.
fn attempts() -> Vec<Part> {
    vec![
        call_as("write", "Write", json!({ "file_path": "new.txt", "content": "x" })),
        call_as("read", "Read", json!({ "file_path": "a.txt" })),
        call_as("touch", "Bash", json!({ "command": "touch touched" })),
        call_as("look", "Bash", json!({ "command": "cat a.txt" })),
    ]
}

struct Tried {
    done: Done,
    /// Which calls were refused.
    refused: Vec<String>,
    server: ModelServer,
    world: World,
}

fn attempt(args: &[&str], settings: Option<&str>) -> Tried {
    let server = ModelServer::start();
    let world = server.world();
    world.file("a.txt", "one\n");
    if let Some(settings) = settings {
        world.file(".festoon/settings.json", settings);
    }
    server.on(prompt("ID:try"), [attempts().into(), say("done").into()]);
    let done = world.festoon(["-p", "ID:try", "--output-format", "json"]).args(args).run();
    world.check_transcripts();
    let results = server.last_of("ID:try").results();
    let refused = results.iter().filter(|(_, _, e)| *e).map(|(id, _, _)| id.clone()).collect();
    Tried { done, refused, server, world }
}

impl Tried {
    #[track_caller]
    fn expect(&self, code: i32, refused: &[&str]) {
        self.done.code(code);
        assert_eq!(self.refused, refused);
        let result = self.done.result();
        assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(false)));
        let listed = result["permission_denials"].as_array().expect("a list");
        let ids: Vec<&Value> = listed.iter().map(|d| &d["tool_use_id"]).collect();
        assert_eq!(ids, refused.iter().map(|r| json!(r)).collect::<Vec<_>>().iter().collect::<Vec<_>>());
        let nobody = listed.iter().any(|d| d["nobody_to_ask"] == true);
        assert_eq!(nobody, code == 5, "{result:#}");
        assert_eq!(self.world.project.join("new.txt").exists(), !refused.contains(&"write"));
        assert_eq!(self.world.project.join("touched").exists(), !refused.contains(&"touch"));
    }

    fn says(&self, id: &str) -> String {
        self.server.last_of("ID:try").result(id).0
    }
}

#[test]
fn by_default_what_needs_a_person_is_denied_with_the_reason() {
    let tried = attempt(&[], None);
    tried.expect(5, &["write", "touch"]);
    for id in ["write", "touch"] {
        assert!(tried.says(id).contains("nobody is there to answer"), "{}", tried.says(id));
    }
    let denials = tried.done.result()["permission_denials"].clone();
    let team = tried.world.team();
    let team = team.file_name().and_then(|n| n.to_str()).expect("a team");
    let reason = "nobody is there to answer (headless, without --ask-timeout)";
    assert_eq!(
        denials,
        json!([
            { "tool_name": "Write", "tool_use_id": "write", "tool_input": { "file_path": "new.txt", "content": "x" },
              "agent_id": format!("team-lead@{team}"), "reason": reason, "nobody_to_ask": true },
            { "tool_name": "Bash", "tool_use_id": "touch", "tool_input": { "command": "touch touched" },
              "agent_id": format!("team-lead@{team}"), "reason": reason, "nobody_to_ask": true },
        ])
    );
}

#[test]
fn modes_decide_what_no_rule_decides() {
    attempt(&["--permission-mode", "dontAsk"], None).expect(0, &["write", "touch"]);
    attempt(&["--permission-mode", "acceptEdits"], None).expect(5, &["touch"]);
    attempt(&["--permission-mode", "bypassPermissions"], None).expect(0, &[]);
    attempt(&["--permission-mode", "plan"], None).expect(0, &["write", "touch"]);
}

#[test]
fn rules_allow_what_they_name() {
    attempt(&["--allowed-tools", "Bash(touch:*)"], None).expect(5, &["write"]);
    attempt(&["--allowed-tools", "Write,Bash(touch touched)"], None).expect(0, &[]);
    attempt(&["--allowed-tools", "Edit(new.txt)", "--allowed-tools", "Bash(mv:*)"], None)
        .expect(5, &["touch"]);
    let settings = r#"{"permissions":{"allow":["Bash(touch:*)","Edit(*.txt)"]}}"#;
    attempt(&[], Some(settings)).expect(0, &[]);
    attempt(&["--permission-mode", "dontAsk", "--allowed-tools", "Bash(touch:*)"], None)
        .expect(0, &["write"]);
}

#[test]
fn denials_by_rule_are_no_failure_and_win_over_everything() {
    let free = ["--permission-mode", "bypassPermissions", "--disallowed-tools"];
    let with = |rule: &'static str| [&free[..], &[rule]].concat();
    attempt(&with("Bash"), None).expect(0, &["touch", "look"]);
    attempt(&with("Bash(touch:*),Edit(new.txt)"), None).expect(0, &["write", "touch"]);
    attempt(&with("Read(a.txt)"), None).expect(0, &["read", "look"]);
    let settings = r#"{"permissions":{"allow":["Write","Bash"],"deny":["Write(new.txt)"]}}"#;
    let tried = attempt(&[], Some(settings));
    tried.expect(0, &["write"]);
    assert!(tried.says("write").contains("Write(new.txt)"), "{}", tried.says("write"));
}

#[test]
fn a_rule_that_asks_asks_even_when_all_is_allowed() {
    let settings = r#"{"permissions":{"ask":["Bash(touch:*)"]}}"#;
    attempt(&["--permission-mode", "bypassPermissions"], Some(settings)).expect(5, &["touch"]);
    attempt(&["--allowed-tools", "Write,Bash"], Some(settings)).expect(5, &["touch"]);
}

#[test]
fn the_mode_of_the_settings_counts_and_the_flag_wins() {
    let settings = r#"{"permissions":{"defaultMode":"acceptEdits"}}"#;
    attempt(&[], Some(settings)).expect(5, &["touch"]);
    attempt(&["--permission-mode", "dontAsk"], Some(settings)).expect(0, &["write", "touch"]);
    // Asking nothing at all is for the person to choose.
    let free = r#"{"permissions":{"defaultMode":"bypassPermissions"}}"#;
    let tried = attempt(&[], Some(free));
    tried.expect(5, &["write", "touch"]);
    assert!(tried.done.stderr.contains("settings.json: permissions.defaultMode;"));
    attempt(&["--trust"], Some(free)).expect(0, &[]);
}

#[test]
fn the_closed_part_of_the_state_is_closed_in_every_mode() {
    let server = ModelServer::start();
    let world = server.world();
    let team_file = world.home.join("teams").display().to_string();
    let link = world.project.join("way-in");
    std::os::unix::fs::symlink(world.home.join("teams"), &link).expect("link");
    server.on(
        prompt("ID:try"),
        [
            [
                call_as("glob", "Glob", json!({ "pattern": "**/*", "path": team_file })),
                call_as("grep", "Grep", json!({ "pattern": ".", "path": "way-in" })),
                call_as("write", "Write", json!({ "file_path": format!("{team_file}/x"), "content": "x" })),
                call_as("through", "Write", json!({ "file_path": "way-in/x", "content": "x" })),
            ]
            .into(),
            say("done").into(),
        ],
    );
    world.festoon(["-p", "ID:try", "--permission-mode", "bypassPermissions"]).run().code(0);
    let results = server.last_of("ID:try").results();
    assert_eq!(results.iter().filter(|(_, _, failed)| *failed).count(), 4, "{results:#?}");
    assert!(!world.home.join("teams/x").exists());
}

#[test]
fn an_ask_that_is_held_open_ends_by_itself() {
    let tried = attempt(&["--ask-timeout", "1"], None);
    tried.expect(5, &["write", "touch"]);
    assert!(tried.says("write").contains("nobody answered within 1 s"), "{}", tried.says("write"));
}

#[test]
fn a_childs_denials_are_listed_with_the_child() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            call_as("a", "Agent", json!({ "description": "d", "prompt": "ID:child" })).into(),
            say("done").into(),
        ],
    );
    server.on(
        prompt("ID:child"),
        [call_as("w", "Write", json!({ "file_path": "x", "content": "x" })).into(), say("no").into()],
    );
    let done = world.festoon(["-p", "ID:lead", "--output-format", "json"]).run();
    done.code(5);
    let denials = done.result()["permission_denials"].clone();
    assert_eq!(denials.as_array().map(Vec::len), Some(1));
    let child = server.last_of("ID:lead").find(r"agentId: (\S+)");
    assert_eq!((&denials[0]["agent_id"], &denials[0]["tool_use_id"]), (&json!(child), &json!("w")));
}

#[test]
fn a_child_gets_no_more_than_its_parent_has() {
    let server = ModelServer::start();
    let world = server.world();
    let wish = json!({ "description": "d", "prompt": "ID:child", "mode": "bypassPermissions", "allowedTools": ["Write", "Bash"] });
    server.on(prompt("ID:lead"), [call_as("a", "Agent", wish).into(), say("done").into()]);
    server.on(prompt("ID:child"), [Reply::from(attempts()), say("no").into()]);
    world.file("a.txt", "");
    world.festoon(["-p", "ID:lead", "--permission-mode", "dontAsk"]).run().code(0);
    let child = server.last_of("ID:child");
    assert!(child.result("write").1 && child.result("touch").1, "{:#?}", child.results());
    assert!(!world.project.join("new.txt").exists());
}

#[test]
fn a_child_works_inside_its_parents_project_alone() {
    let server = ModelServer::start();
    let world = server.world();
    world.file("sub/own.txt", "own");
    let outside = world.home.parent().expect("has one").join("outside");
    fs::create_dir_all(&outside).expect("dir");
    fs::write(outside.join("secret.txt"), "SECRET").expect("file");
    symlink(&outside, world.project.join("link")).expect("link");
    let agent = |name: &str, cwd: &str| {
        let wish = json!({ "description": "d", "prompt": format!("ID:{name}"), "cwd": cwd });
        call_as(name, "Agent", wish)
    };
    let outside_text = outside.display().to_string();
    let calls =
        vec![agent("far", &outside_text), agent("up", ".."), agent("link", "link"), agent("sub", "sub")];
    server.on(prompt("ID:lead"), [Reply::from(calls), say("done").into()]);
    let looks = vec![
        call_as("own", "Read", json!({ "file_path": "own.txt" })),
        call_as("denied", "Read", json!({ "file_path": "../a.txt" })),
        call_as("shell", "Bash", json!({ "command": "cat ../a.txt", "timeout": 1e4 })),
        call_as("inner", "Bash", json!({ "command": "cat own.txt", "timeout": 30_000.0 })),
    ];
    server.on(prompt("ID:sub"), [Reply::from(looks), say("seen").into()]);
    world.file("a.txt", "A");
    // The rule is the parent's: it means the file in the parent's directory.
    world.festoon(["-p", "ID:lead", "--disallowed-tools", "Read(a.txt)"]).run().code(0);
    let lead = server.last_of("ID:lead");
    for name in ["far", "up", "link"] {
        let (text, is_error) = lead.result(name);
        assert!(is_error && text.contains("lies outside your project"), "{name}: {text}");
    }
    assert!(!lead.result("sub").1, "{:?}", lead.result("sub"));
    let child = server.last_of("ID:sub");
    let failed: Vec<_> = child.results().iter().map(|(id, _, failed)| (id.clone(), *failed)).collect();
    let wanted = [("own", false), ("denied", true), ("shell", true), ("inner", false)];
    assert_eq!(failed, wanted.map(|(id, failed)| (id.to_owned(), failed)), "{:#?}", child.results());
}

#[test]
fn a_rule_about_a_file_holds_however_a_command_or_a_link_names_it() {
    let server = ModelServer::start();
    let world = server.world();
    for dir in ["sub", "deep/er"] {
        fs::create_dir_all(world.project.join(dir)).expect("dirs");
    }
    world.file(".env", "SECRET=1\n");
    world.file("plain", "fine\n");
    world.file("deep/er/plain", "fine\n");
    symlink(".env", world.project.join("lnk")).expect("link");
    symlink("../.env", world.project.join("sub/l")).expect("link");
    world.file(".festoon/settings.json", r#"{"permissions":{"deny":["Read(.env)"]}}"#);
    let dots = format!("cat {}.env", ".*/".repeat(18));
    let denied = [
        "cat .e*",
        "cat lnk",
        "cat l?k",
        "cat .[e]nv",
        "cd sub && cat ../.env",
        "< .env cat",
        "< lnk cat",
        "head -n1 sub/../lnk",
        "grep -r SECRET .",
        "grep -r SECRET",
        "sed -n p lnk",
        "grep -R SECRET sub",
        "diff -r sub deep",
        "sed 'r .env' plain",
        "git grep --no-index SECRET",
    ];
    let asked = [
        "cat $X",
        "cat {.env,plain}",
        "(cd sub); cat .env",
        "ls -a | xargs cat",
        "cp lnk copy",
        "git grep SECRET",
        "tar cf - . | strings",
        "tar chf - sub | strings",
    ];
    let mut runs = vec![
        "cat plain",
        "cat p*",
        "sed 's/fine/r .env/' plain",
        "sed 'r plain' plain",
        "grep -r fine sub deep",
        "grep -R fine deep",
        "git grep --no-index fine -- deep",
        "tar cf - deep | wc -c",
        "timeout 20 ls .",
        "mkdir -p sub",
        "grep -r fine deep",
        "cd deep && cat er/plain",
        "ls -a",
        "echo .env",
    ];
    // Where it is not installed it fails, and nothing would be known.
    if std::env::split_paths(&std::env::var_os("PATH").expect("set")).any(|dir| dir.join("rg").is_file()) {
        runs.push("rg fine");
    }
    let calls = |kind: &str, commands: &[&str]| -> Vec<Part> {
        let one = |(n, command): (usize, &&str)| {
            call_as(&format!("{kind}{n}"), "Bash", json!({ "command": command }))
        };
        commands.iter().enumerate().map(one).collect()
    };
    let mut parts = calls("denied", &denied);
    parts.extend(calls("asked", &asked));
    parts.extend(calls("runs", &runs));
    parts.push(call_as("deniedtool", "Read", json!({ "file_path": "lnk" })));
    parts.push(call_as("runs99", "Grep", json!({ "pattern": "SECRET|fine", "output_mode": "content" })));
    parts.push(call_as("dots", "Bash", json!({ "command": dots })));
    server.on(prompt("ID:try"), [parts.into(), say("done").into()]);
    world.festoon(["-p", "ID:try", "--permission-mode", "bypassPermissions"]).run().code(5);
    for (id, text, is_error) in server.last_of("ID:try").results() {
        assert!(!text.contains("SECRET=1"), "{id}: {text}");
        let expected = match id.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "runs" => !is_error,
            // It leads up to whatever else is on this machine: found, or too much to look at.
            "dots" => is_error && text.starts_with("Permission denied: "),
            "asked" => {
                text.contains("may apply, which only the running shell knows")
                    || text.contains("a person's yes")
            }
            _ => text.contains("the rule Read(.env) (project settings) denies it"),
        };
        assert!(expected, "{id}: {text}");
    }
}
