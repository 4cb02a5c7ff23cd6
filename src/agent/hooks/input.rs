//! An event as a hook reads it: one JSON object on standard input (contract §11).

use crate::agent::gates::{Answered, GateCall, GateEvent, GateTask, Scene};
use serde::{Serialize, Serializer};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

/// What a matcher is held against; `None` where matchers mean nothing.
pub(super) fn subject<'a>(scene: &Scene<'a>, event: &GateEvent<'a>) -> Option<&'a str> {
    match event {
        GateEvent::PreToolUse(call)
        | GateEvent::PostToolUse { call, .. }
        | GateEvent::PermissionRequest { call, .. } => Some(call.tool),
        GateEvent::SessionStart(source) => Some(source.as_str()),
        GateEvent::SessionEnd(reason) => Some(reason.as_str()),
        GateEvent::Notification { kind, .. } => Some(kind),
        GateEvent::SubagentStart | GateEvent::SubagentStop(_) => Some(scene.agent_type),
        GateEvent::TeammateIdle { name, .. } => Some(name.as_str()),
        GateEvent::PreCompact { trigger, .. } => Some(trigger.as_str()),
        GateEvent::UserPromptSubmit(_)
        | GateEvent::Stop(_)
        | GateEvent::TaskCreated(_)
        | GateEvent::TaskCompleted(_)
        | GateEvent::WorktreeCreate(_)
        | GateEvent::WorktreeRemove(_) => None,
    }
}

/// Members in order; the input of a call keeps its bytes.
#[derive(Default)]
struct Members(Vec<(&'static str, Box<RawValue>)>);

impl Members {
    fn put(&mut self, name: &'static str, value: &(impl Serialize + ?Sized)) {
        // Only a map with keys that are no text could fail here, and there is none.
        self.0.extend(to_raw_value(value).ok().map(|value| (name, value)));
    }

    fn call(&mut self, call: &GateCall<'_>) {
        self.put("tool_name", call.tool);
        self.put("tool_input", call.input);
        self.put("tool_use_id", call.id);
    }

    fn task(&mut self, task: &GateTask<'_>) {
        if let Some(id) = &task.id {
            self.put("task_id", &id.to_string());
        }
        self.put("task_subject", task.subject);
        self.put("task_description", task.description);
        self.put("teammate_name", task.by);
        self.put("team_name", task.team);
    }

    fn answered(&mut self, answered: &Answered<'_>) {
        self.put("stop_hook_active", &answered.again);
        self.put("last_assistant_message", answered.text);
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// The object, with a line break at its end.
pub(super) fn encode(scene: &Scene<'_>, event: &GateEvent<'_>) -> Vec<u8> {
    let mut all = Members::default();
    all.put("session_id", scene.session);
    all.put("transcript_path", &scene.transcript.to_string_lossy());
    all.put("cwd", &scene.cwd.to_string_lossy());
    all.put("permission_mode", &scene.mode);
    all.put("hook_event_name", event.kind().as_str());
    all.put("agent_id", &scene.agent_id);
    all.put("agent_type", scene.agent_type);
    match event {
        GateEvent::SessionStart(source) => all.put("source", source.as_str()),
        GateEvent::SessionEnd(reason) => all.put("reason", reason.as_str()),
        GateEvent::UserPromptSubmit(prompt) => all.put("prompt", *prompt),
        GateEvent::PreToolUse(call) => all.call(call),
        GateEvent::PostToolUse { call, response, is_error } => {
            all.call(call);
            all.put("tool_response", &json!({ "content": response, "is_error": is_error }));
        }
        GateEvent::PermissionRequest { call, rule, suggestions } => {
            all.call(call);
            all.put("rule", *rule);
            all.put("permission_suggestions", suggestions);
        }
        GateEvent::Notification { kind, message } => {
            all.put("notification_type", *kind);
            all.put("message", *message);
        }
        GateEvent::Stop(answered) => all.answered(answered),
        GateEvent::SubagentStart => {}
        GateEvent::SubagentStop(answered) => {
            all.answered(answered);
            all.put("agent_transcript_path", &scene.transcript.to_string_lossy());
        }
        GateEvent::TeammateIdle { answered, name, team } => {
            all.answered(answered);
            all.put("teammate_name", *name);
            all.put("team_name", *team);
        }
        GateEvent::TaskCreated(task) | GateEvent::TaskCompleted(task) => all.task(task),
        GateEvent::WorktreeCreate(tree) | GateEvent::WorktreeRemove(tree) => {
            all.put("worktree_path", &tree.path.to_string_lossy());
            all.put("worktree_branch", tree.branch);
        }
        GateEvent::PreCompact { trigger, focus } => {
            all.put("trigger", trigger.as_str());
            all.put("custom_instructions", focus.unwrap_or_default());
        }
    }
    let mut bytes = serde_json::to_vec(&all).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}
