//! Hooks as they are written down: in settings and in the front matter of definitions (contract §11).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What can happen. The names are those people know from other agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it, and `HookSettings` has their words")]
pub enum HookEvent {
    SessionStart,
    SessionEnd,
    UserPromptSubmit,
    PreToolUse,
    PostToolUse,
    PermissionRequest,
    Notification,
    Stop,
    SubagentStart,
    SubagentStop,
    TeammateIdle,
    TaskCreated,
    TaskCompleted,
    PreCompact,
    WorktreeCreate,
    WorktreeRemove,
}

impl HookEvent {
    /// All of them, in the order of the contract.
    pub const ALL: [Self; 16] = [
        Self::SessionStart,
        Self::SessionEnd,
        Self::UserPromptSubmit,
        Self::PreToolUse,
        Self::PostToolUse,
        Self::PermissionRequest,
        Self::Notification,
        Self::Stop,
        Self::SubagentStart,
        Self::SubagentStop,
        Self::TeammateIdle,
        Self::TaskCreated,
        Self::TaskCompleted,
        Self::PreCompact,
        Self::WorktreeCreate,
        Self::WorktreeRemove,
    ];

    /// Its name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionStart => "SessionStart",
            Self::SessionEnd => "SessionEnd",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::PermissionRequest => "PermissionRequest",
            Self::Notification => "Notification",
            Self::Stop => "Stop",
            Self::SubagentStart => "SubagentStart",
            Self::SubagentStop => "SubagentStop",
            Self::TeammateIdle => "TeammateIdle",
            Self::TaskCreated => "TaskCreated",
            Self::TaskCompleted => "TaskCompleted",
            Self::PreCompact => "PreCompact",
            Self::WorktreeCreate => "WorktreeCreate",
            Self::WorktreeRemove => "WorktreeRemove",
        }
    }
}

/// What runs at which event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "PascalCase", default)]
pub struct HookSettings {
    /// A session begins or goes on; the matcher is `startup`, `resume` or `compact`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub session_start: Vec<HookGroup>,
    /// A session ends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub session_end: Vec<HookGroup>,
    /// The user has said something.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub user_prompt_submit: Vec<HookGroup>,
    /// A tool is about to run; the matcher is its name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_tool_use: Vec<HookGroup>,
    /// A tool has run; the matcher is its name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_tool_use: Vec<HookGroup>,
    /// A call needs a person; the matcher is the tool's name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permission_request: Vec<HookGroup>,
    /// Somebody waits for the person.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notification: Vec<HookGroup>,
    /// The main agent has answered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<HookGroup>,
    /// A subagent or fork begins; the matcher is its type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subagent_start: Vec<HookGroup>,
    /// A subagent or fork has answered; the matcher is its type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subagent_stop: Vec<HookGroup>,
    /// A teammate has answered and is about to wait for mail.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub teammate_idle: Vec<HookGroup>,
    /// A task is about to be put on the list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub task_created: Vec<HookGroup>,
    /// A task is about to be completed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub task_completed: Vec<HookGroup>,
    /// A conversation is about to be compacted: `manual`, `auto`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_compact: Vec<HookGroup>,
    /// A worktree was made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub worktree_create: Vec<HookGroup>,
    /// A worktree was removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub worktree_remove: Vec<HookGroup>,
}

impl HookSettings {
    /// What runs at one event.
    pub fn at(&self, event: HookEvent) -> &[HookGroup] {
        match event {
            HookEvent::SessionStart => &self.session_start,
            HookEvent::SessionEnd => &self.session_end,
            HookEvent::UserPromptSubmit => &self.user_prompt_submit,
            HookEvent::PreToolUse => &self.pre_tool_use,
            HookEvent::PostToolUse => &self.post_tool_use,
            HookEvent::PermissionRequest => &self.permission_request,
            HookEvent::Notification => &self.notification,
            HookEvent::Stop => &self.stop,
            HookEvent::SubagentStart => &self.subagent_start,
            HookEvent::SubagentStop => &self.subagent_stop,
            HookEvent::TeammateIdle => &self.teammate_idle,
            HookEvent::TaskCreated => &self.task_created,
            HookEvent::TaskCompleted => &self.task_completed,
            HookEvent::PreCompact => &self.pre_compact,
            HookEvent::WorktreeCreate => &self.worktree_create,
            HookEvent::WorktreeRemove => &self.worktree_remove,
        }
    }

    /// Every command with its event.
    pub fn commands(&self) -> impl Iterator<Item = (HookEvent, &HookCommand)> {
        HookEvent::ALL.into_iter().flat_map(|event| {
            self.at(event).iter().flat_map(move |g| g.hooks.iter().map(move |h| (event, h)))
        })
    }

    /// Whether nothing runs at all.
    pub fn is_empty(&self) -> bool {
        self.commands().next().is_none()
    }
}

/// Commands for what one matcher fits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HookGroup {
    /// A name, several with `|` between them, or a regular expression; everything when left out, empty or
    /// `*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matcher: Option<String>,
    /// What runs.
    pub hooks: Vec<HookCommand>,
}

/// One command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HookCommand {
    /// `command`, the one kind there is.
    #[serde(rename = "type", default)]
    pub kind: HookKind,
    /// For a shell.
    pub command: String,
    /// Seconds it may take; 60 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
}

/// What a hook is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HookKind {
    /// A shell command.
    #[default]
    Command,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_event_is_found_by_its_name() {
        for event in HookEvent::ALL {
            let text =
                json!({ event.as_str(): [{ "matcher": "x", "hooks": [{ "command": event.as_str() }] }] });
            let hooks: HookSettings = serde_json::from_value(text).expect("hooks");
            let all: Vec<_> = hooks.commands().map(|(at, hook)| (at, hook.command.as_str())).collect();
            assert_eq!(all, [(event, event.as_str())]);
            assert_eq!(serde_json::to_value(event).expect("a name"), json!(event.as_str()));
        }
    }
}
