//! Definition files, good and bad.

use super::*;
use crate::wire::hooks::{HookCommand, HookGroup, HookKind};
use serde_json::json;

fn parsed(text: &str) -> DefinitionFile {
    parse(Path::new("a.md"), text.as_bytes()).expect("a definition")
}

fn refused(text: &str) -> String {
    parse(Path::new("a.md"), text.as_bytes()).expect_err(text).to_string()
}

const FULL: &str = "---
name: writer
description: 'Writes: all of it'
tools: Read, Bash(git log:*,x), Edit
disallowedTools:
  - WebFetch
model: fast
permissionMode: acceptEdits
maxTurns: 12
effort: low
omitClaudeMd: true
mcpServers:
  a:
    command: b
hooks:
  PreToolUse:
    - matcher: Bash|Edit
      hooks: [{ type: command, command: ./check.sh, timeout: 5 }]
      wobble: 1
  NoEvent: []
wibble:
  - 1
color: blue
---

You write.

---
And more.
";

#[test]
fn everything_a_file_can_say() {
    let file = parsed(FULL);
    assert_eq!(
        file.definition,
        AgentDefinition {
            name: "writer".to_owned(),
            description: "Writes: all of it".to_owned(),
            tools: ToolChoice::List(["Read", "Bash(git log:*,x)", "Edit"].map(str::to_owned).to_vec()),
            disallowed_tools: vec!["WebFetch".to_owned()],
            mcp_servers: Some(vec![McpChoice::Brought("a".to_owned(), json!({"command": "b"}))]),
            model: Some("fast".to_owned()),
            permission_mode: Some(PermissionMode::AcceptEdits),
            max_turns: Some(12),
            background: None,
            effort: Some(Effort::Low),
            isolation: None,
            color: Some("blue".to_owned()),
            one_shot: false,
            omit_instructions: true,
            hooks: HookSettings {
                pre_tool_use: vec![HookGroup {
                    matcher: Some("Bash|Edit".to_owned()),
                    hooks: vec![HookCommand {
                        kind: HookKind::Command,
                        command: "./check.sh".to_owned(),
                        timeout: Some(5),
                    }],
                }],
                ..HookSettings::default()
            },
            system_prompt: "You write.\n\n---\nAnd more.".to_owned(),
        }
    );
    let warnings: Vec<(usize, &str)> = file.warnings.iter().map(|w| (w.line, w.what.as_str())).collect();
    assert_eq!(
        warnings,
        [
            (15, "unknown key `hooks.NoEvent`"),
            (15, "unknown key `hooks.PreToolUse.0.wobble`"),
            (21, "unknown key `wibble`"),
        ]
    );
}

#[test]
fn a_mark_and_carriage_returns_change_nothing() {
    let windows = format!("\u{feff}{}", FULL.replace('\n', "\r\n"));
    assert_eq!(parsed(&windows), parsed(FULL));
}

#[test]
fn servers_are_named_or_brought() {
    let servers = |text: &str| {
        parsed(&format!("---\nname: a\ndescription: b\nmcpServers: {text}\n---\nx")).definition.mcp_servers
    };
    let named = |name: &str| McpChoice::Named(name.to_owned());
    let db = McpChoice::Brought("db".to_owned(), json!({"command": "x"}));
    assert_eq!(servers("[slack, {db: {command: x}}]"), Some(vec![named("slack"), db.clone()]));
    assert_eq!(servers("slack, git"), Some(vec![named("slack"), named("git")]));
    assert_eq!(servers("{db: {command: x}}"), Some(vec![db]));
    assert_eq!((servers("[]"), servers("")), (Some(Vec::new()), None));
}

#[test]
fn what_is_left_out_is_inherited() {
    let file = parsed("---\nname: a\ndescription: b\ntools: '*'\nmodel: inherit\npermissionMode:\n---\nx");
    assert_eq!(file.definition.tools, ToolChoice::All);
    assert_eq!((file.definition.model, file.definition.permission_mode), (None, None));
    assert!(file.warnings.is_empty());
}

#[test]
fn a_bad_file_is_refused_with_line_and_reason() {
    let cases = [
        ("", "a.md:1: a definition begins with a line `---` and its front matter"),
        ("You are", "a.md:1: a definition begins with a line `---` and its front matter"),
        ("---\nname: a\n", "a.md:1: the front matter has no end: a second line `---`"),
        ("---\n---\nx", "a.md:2: the front matter has no `name`"),
        ("---\nname: a\n---\nx", "a.md:3: the front matter has no `description`"),
        (
            "---\nname: a\ndescription: b\n---\n \n",
            "a.md:4: there is no system prompt below the front matter",
        ),
        ("---\nname: 7\n---\nx", "a.md:2: `name` is a text, not 7 (put it in quotes)"),
        ("---\nname: a/b\n---\nx", "a.md:2: `name` cannot hold '/'"),
        ("---\n\nname: ''\n---\nx", "a.md:3: `name` is empty"),
        ("---\nmaxTurns: 0\n---\nx", "a.md:2: `maxTurns` is a number from 1, not 0"),
        ("---\neffort: max\n---\nx", "a.md:2: `effort` is one of low, medium, high, not \"max\""),
        ("---\ntools: [Read, 3]\n---\nx", "a.md:2: `tools` holds names of tools, not 3"),
        ("---\ntools: []\n---\nx", "a.md:2: `tools` holds an empty name"),
        (
            "---\nmcpServers: [3]\n---\nx",
            "a.md:2: `mcpServers` holds names and configurations of servers, not 3",
        ),
        (
            "---\nmcpServers: {a: b}\n---\nx",
            "a.md:2: `mcpServers`: a is the configuration of a server, not \"b\"",
        ),
        ("---\nhooks: [Stop]\n---\nx", "a.md:2: `hooks` must be a map of keys"),
        ("---\nhooks: {Stop: [[x]]}\n---\nx", "a.md:2: `hooks.Stop[]` must be a map of keys"),
        (
            "---\nhooks: {Stop: 1}\n---\nx",
            "a.md:2: `hooks.Stop`: invalid type: integer `1`, expected a sequence",
        ),
        (
            "---\nhooks: {Stop: [{hooks: [{command: ''}]}]}\n---\nx",
            "a.md:2: `hooks`: Stop[0].hooks[0].command: there is none",
        ),
        ("---\nisolation: jail\n---\nx", "a.md:2: `isolation` is \"worktree\" or left out, not \"jail\""),
        (
            "---\ncolor: mauve\n---\nx",
            "a.md:2: `color` is one of blue, green, yellow, magenta, cyan, red, orange, purple, not \"mauve\"",
        ),
        (
            "---\npermissionMode: yolo\n---\nx",
            "a.md:2: there is no permission mode `yolo` (there are default, acceptEdits, plan, auto, dontAsk, \
             bypassPermissions)",
        ),
        (
            "---\nomitInstructions: maybe\n---\nx",
            "a.md:2: `omitInstructions` is true or false, not \"maybe\"",
        ),
    ];
    for (text, why) in cases {
        assert_eq!(refused(text), why, "{text:?}");
    }
    let cases = [
        ("---\nname: a\n\tdescription: b\n---\nx", "a.md:2: "),
        ("---\nname: a\nname: b\n---\nx", "a.md:3: "),
        ("---\ndescription: use it when: asked\n---\nx", "a.md:2: "),
        ("---\n- a\n---\nx", "a.md:2: "),
    ];
    for (text, start) in cases {
        let why = refused(text);
        let start = format!("{start}the front matter is no YAML that can be used: ");
        assert!(why.starts_with(&start) && !why.contains('\n'), "{text:?}: {why}");
    }
    let bytes = b"---\nname: \xff\n---\nx";
    let error = parse(Path::new("a.md"), bytes).expect_err("not text");
    assert_eq!(error.to_string(), "a.md:2: this line is not UTF-8 text");
}

#[test]
fn the_example_of_the_documentation_is_a_definition() {
    let page = include_str!("../../../docs/formats/agent-definition.md");
    let example =
        page.split("```markdown\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let file = parsed(example);
    assert_eq!((file.definition.name.as_str(), file.definition.max_turns), ("checker", Some(40)));
    assert!(file.warnings.is_empty());
}
