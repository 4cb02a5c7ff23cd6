//! What is chosen, what hooks read, and what several say together. Processes are tried with the real
//! program.

use super::*;
use crate::agent::events::Trigger;
use crate::agent::gates::{Answered, GateCall, GateTask, GateTree, SessionEnding, SessionSource};
use crate::wire::ids::{AgentId, AgentName, SessionId, TeamName};
use crate::wire::permission::PermissionMode;
use crate::wire::task::TaskId;
use run::Written;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::path::Path;

fn settings(value: Value) -> HookSettings {
    serde_json::from_value(value).expect("hooks")
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).expect("JSON")
}

struct Stage {
    id: AgentId,
    session: SessionId,
    own: HookSettings,
}

impl Stage {
    fn new(own: Value) -> Self {
        Self { id: AgentId::new("a1"), session: SessionId::new("s1"), own: settings(own) }
    }

    fn scene(&self) -> Scene<'_> {
        Scene {
            agent_id: self.id.clone(),
            agent_type: "Explore",
            session: &self.session,
            transcript: PathBuf::from("/t.jsonl"),
            cwd: Path::new("/w"),
            project: Path::new("/p"),
            mode: PermissionMode::AcceptEdits,
            own: &self.own,
            shells: None,
        }
    }
}

fn command(name: &str) -> Value {
    json!([{ "hooks": [{ "command": name }] }])
}

#[test]
fn a_matcher_is_a_name_several_or_an_expression() {
    let all = ["Bash", "BashOutput", "Edit", "mcp__db__query"];
    let matched = |matcher: Option<&str>| all.map(|name| fits(matcher, name));
    for everything in [None, Some(""), Some("*"), Some(" ")] {
        assert_eq!(matched(everything), [true; 4]);
    }
    assert_eq!(matched(Some("Bash")), [true, false, false, false]);
    assert_eq!(matched(Some("Edit|Bash")), [true, false, true, false]);
    assert_eq!(matched(Some("bash")), [false; 4]);
    assert_eq!(matched(Some("^mcp__")), [false, false, false, true]);
    assert_eq!(matched(Some("mcp__db__.*")), [false, false, false, true]);
    assert_eq!(matched(Some("Bash.*|Edit")), [true, true, true, false]);
    assert_eq!(matched(Some("(")), [false; 4]);
}

#[test]
fn each_command_runs_once_and_a_definitions_own_come_last() {
    let of_settings = json!({
        "PreToolUse": [
            { "matcher": "Bash", "hooks": [{ "command": "a" }, { "command": "b" }] },
            { "matcher": "Edit", "hooks": [{ "command": "c" }] },
            { "hooks": [{ "command": "b", "timeout": 1 }] },
        ],
        "Stop": command("stop"), "SubagentStop": [{ "matcher": "Plan", "hooks": [{ "command": "plan" }] }],
    });
    let hooks = Hooks::new(settings(of_settings), Arc::default());
    let own = json!({ "PreToolUse": command("own"), "Stop": command("own stop") });
    let stage = Stage::new(own);
    let input = raw("{}");
    let chosen = |event: GateEvent<'_>| -> Vec<String> {
        hooks.chosen(&stage.scene(), &event).iter().map(|hook| hook.command.clone()).collect()
    };
    let call = GateCall { tool: "Bash", input: &input, id: "c" };
    assert_eq!(chosen(GateEvent::PreToolUse(call)), ["a", "b", "own"]);
    let answered = Answered { again: false, text: "" };
    assert_eq!(chosen(GateEvent::Stop(answered)), ["stop", "own stop"]);
    assert_eq!(chosen(GateEvent::SubagentStop(answered)), ["own stop"]);
    assert_eq!(chosen(GateEvent::SubagentStart), Vec::<String>::new());
    assert!(hooks.listens(HookEvent::Stop) && !hooks.listens(HookEvent::Notification));
}

#[test]
fn an_event_is_an_object_and_an_input_keeps_its_bytes() {
    let stage = Stage::new(json!({}));
    let text =
        |event: GateEvent<'_>| String::from_utf8(input::encode(&stage.scene(), &event)).expect("UTF-8");
    let input = raw(r#"{"n": 1e2,"n":12345678901234567890123}"#);
    let call = GateCall { tool: "Bash", input: &input, id: "c" };
    let common = r#"{"session_id":"s1","transcript_path":"/t.jsonl","cwd":"/w","permission_mode":"acceptEdits","hook_event_name":"#;
    let who = r#""agent_id":"a1","agent_type":"Explore""#;
    let wanted = format!(
        "{common}\"PreToolUse\",{who},\"tool_name\":\"Bash\",\"tool_input\":{},\"tool_use_id\":\"c\"}}\n",
        input.get()
    );
    assert_eq!(text(GateEvent::PreToolUse(call)), wanted);
    let members = |event: GateEvent<'_>| -> Value {
        let mut value: Value = serde_json::from_str(&text(event)).expect("an object");
        let object = value.as_object_mut().expect("an object");
        for name in ["session_id", "transcript_path", "cwd", "permission_mode", "agent_id", "agent_type"] {
            assert!(object.remove(name).is_some(), "{name}");
        }
        value
    };
    let input = raw("{}");
    let call = GateCall { tool: "T", input: &input, id: "c" };
    let answered = Answered { again: true, text: "bye" };
    let (name, team) = (AgentName::new("anna").expect("name"), TeamName::new("t").expect("name"));
    for (event, own) in [
        (GateEvent::SessionStart(SessionSource::Resume), json!({ "source": "resume" })),
        (GateEvent::SessionEnd(SessionEnding::Done), json!({ "reason": "done" })),
        (GateEvent::UserPromptSubmit("hi"), json!({ "prompt": "hi" })),
        (
            GateEvent::PostToolUse { call, response: "out", is_error: true },
            json!({ "tool_name": "T", "tool_input": {}, "tool_use_id": "c",
                    "tool_response": { "content": "out", "is_error": true } }),
        ),
        (
            GateEvent::PermissionRequest { call, rule: "r", suggestions: &[] },
            json!({ "tool_name": "T", "tool_input": {}, "tool_use_id": "c", "rule": "r", "permission_suggestions": [] }),
        ),
        (
            GateEvent::Notification { kind: "k", message: "m" },
            json!({ "notification_type": "k", "message": "m" }),
        ),
        (GateEvent::Stop(answered), json!({ "stop_hook_active": true, "last_assistant_message": "bye" })),
        (GateEvent::SubagentStart, json!({})),
        (
            GateEvent::SubagentStop(answered),
            json!({ "stop_hook_active": true, "last_assistant_message": "bye", "agent_transcript_path": "/t.jsonl" }),
        ),
        (
            GateEvent::TeammateIdle { answered, name: &name, team: &team },
            json!({ "stop_hook_active": true, "last_assistant_message": "bye", "teammate_name": "anna",
                    "team_name": "t" }),
        ),
        (
            GateEvent::TaskCompleted(GateTask {
                id: Some(TaskId(3)),
                subject: "s",
                description: "d",
                by: &name,
                team: &team,
            }),
            json!({ "task_id": "3", "task_subject": "s", "task_description": "d", "teammate_name": "anna",
                    "team_name": "t" }),
        ),
        (
            GateEvent::WorktreeCreate(GateTree { path: Path::new("/tree"), branch: "b" }),
            json!({ "worktree_path": "/tree", "worktree_branch": "b" }),
        ),
        (
            GateEvent::PreCompact { trigger: Trigger::Full, focus: None },
            json!({ "trigger": "auto", "custom_instructions": "" }),
        ),
    ] {
        let mut wanted = own;
        wanted["hook_event_name"] = json!(event.kind().as_str());
        assert_eq!(members(event), wanted);
    }
}

fn together(event: HookEvent, all: &[(Exit, &str, &str)]) -> GateOutcome {
    let mut together = Together::new(event);
    for (number, (exit, stdout, stderr)) in all.iter().enumerate() {
        let hook = HookCommand { kind: HookKind::Command, command: format!("h{number}"), timeout: None };
        let written =
            Written { stdout: stdout.as_bytes().to_vec(), stderr: stderr.as_bytes().to_vec(), is_cut: false };
        together.add(&hook, Ran::Ended(*exit, written));
    }
    together.outcome
}

#[test]
fn a_refusal_beats_a_question_and_a_question_a_yes() {
    let says = |word: &str| {
        format!(
            r#"{{"hookSpecificOutput":{{"permissionDecision":"{word}","permissionDecisionReason":"{word} it"}}}}"#
        )
    };
    let (yes, ask, no) = (says("allow"), says("ask"), says("deny"));
    let verdict = |all: &[&str]| {
        let all: Vec<_> = all.iter().map(|text| (Exit::Code(0), *text, "")).collect();
        together(HookEvent::PreToolUse, &all).verdict
    };
    assert_eq!(verdict(&[]), GateVerdict::Pass);
    assert_eq!(verdict(&["", &yes]), GateVerdict::Allow);
    assert_eq!(verdict(&[&ask, &yes]), GateVerdict::Ask("ask it".into()));
    assert_eq!(verdict(&[&yes, &no, &ask]), GateVerdict::Block("deny it".into()));
    let exits = [(Exit::Code(0), yes.as_str(), ""), (Exit::Code(2), "", " because\n")];
    assert_eq!(together(HookEvent::PreToolUse, &exits).verdict, GateVerdict::Block("because".into()));
    assert_eq!(
        together(HookEvent::Stop, &[(Exit::Code(2), "", "")]).verdict,
        GateVerdict::Block("it gives no reason".into())
    );
}

#[test]
fn what_fails_is_a_notice_and_decides_nothing() {
    let all = [
        (Exit::Code(1), r#"{"decision":"block"}"#, "first\nlast words\n"),
        (Exit::Signal(9), "", ""),
        (Exit::Code(0), "{", ""),
        (Exit::Code(0), r#"{"systemMessage":"hear me"}"#, ""),
    ];
    let outcome = together(HookEvent::PostToolUse, &all);
    assert_eq!((outcome.verdict, outcome.stop, outcome.context), (GateVerdict::Pass, None, vec![]));
    let wanted = [
        "PostToolUse hook: it ended with exit status 1: last words (`h0`)",
        "PostToolUse hook: it was killed by signal 9 (KILL) (`h1`)",
        "PostToolUse hook: its output cannot be used: EOF while parsing an object at line 1 column 1 (`h2`)",
        "PostToolUse hook: hear me (`h3`)",
    ];
    assert_eq!(outcome.notices, wanted);
}

#[test]
fn the_first_changed_input_counts_and_long_texts_are_cut() {
    let changed = |n: u32| format!(r#"{{"hookSpecificOutput":{{"updatedInput":{{"n":{n}}}}}}}"#);
    let (one, two) = (changed(1), changed(2));
    let all = [(Exit::Code(0), one.as_str(), ""), (Exit::Code(0), &one, ""), (Exit::Code(0), &two, "")];
    let outcome = together(HookEvent::PreToolUse, &all);
    assert_eq!(outcome.updated_input.expect("changed").get(), r#"{"n":1}"#);
    assert_eq!(
        outcome.notices,
        ["PreToolUse hook: another hook has changed the input before, and that counts (`h2`)"]
    );
    let long = "ä".repeat(CONTEXT_CHARS + 1);
    let outcome = together(HookEvent::SessionStart, &[(Exit::Code(0), &long, "")]);
    let wanted = format!("{}\n[cut after {CONTEXT_CHARS} characters]", "ä".repeat(CONTEXT_CHARS));
    assert_eq!(outcome.context, [wanted]);
}

#[test]
fn what_no_type_forbids_is_found_with_its_key() {
    let wrong = |value: Value| check(&settings(value)).expect_err("wrong");
    let expression = wrong(json!({ "Stop": [{}, { "matcher": "(" }] }));
    assert!(expression.starts_with("Stop[1].matcher: \"(\" is no regular expression: "), "{expression}");
    assert_eq!(
        wrong(json!({ "PreToolUse": command("  ") })),
        "PreToolUse[0].hooks[0].command: there is none"
    );
    let never = json!({ "PreToolUse": [{ "hooks": [{ "command": "x", "timeout": 0 }] }] });
    assert_eq!(wrong(never), "PreToolUse[0].hooks[0].timeout: it is a number of seconds from 1");
    let good = json!({ "PreToolUse": [{ "matcher": "*", "hooks": [{ "type": "command", "command": "x", "timeout": 9 }] }] });
    assert_eq!(check(&settings(good)), Ok(()));
}
