//! An agent definition: what kind of agent to run (contract §9).

use super::hooks::HookSettings;
use super::mcp::McpChoice;
use super::permission::PermissionMode;
use super::settings::Effort;
use serde::{Deserialize, Serialize};

/// Which tools an agent has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ToolChoice {
    /// All that its parent has.
    #[default]
    All,
    /// Exactly these; `!Name` entries mean all but these.
    List(Vec<String>),
}

/// How an agent is kept apart from where its parent works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// A git worktree of its own.
    Worktree,
}

/// A definition, built in or from a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentDefinition {
    /// What `subagent_type` names.
    pub name: String,
    /// When to use it, for the model that chooses.
    pub description: String,
    /// Its tools.
    #[serde(default)]
    pub tools: ToolChoice,
    /// Taken away first.
    #[serde(default)]
    pub disallowed_tools: Vec<String>,
    /// Its MCP servers: exactly these; `None` for all that are configured.
    #[serde(default)]
    pub mcp_servers: Option<Vec<McpChoice>>,
    /// A model or alias; `None` inherits.
    #[serde(default)]
    pub model: Option<String>,
    /// Its mode, never wider than its parent's.
    #[serde(default)]
    pub permission_mode: Option<PermissionMode>,
    /// Rounds.
    #[serde(default)]
    pub max_turns: Option<u32>,
    /// Whether it works in the background unless the call says otherwise.
    #[serde(default)]
    pub background: Option<bool>,
    /// Where it works, when that is not where its parent does.
    #[serde(default)]
    pub isolation: Option<Isolation>,
    /// Its colour as a teammate; `None` is the next one that is free.
    #[serde(default)]
    pub color: Option<String>,
    /// How hard its model thinks; `None` is what the session says.
    #[serde(default)]
    pub effort: Option<Effort>,
    /// True: only its report comes back, without the trailer on how to continue it.
    #[serde(default)]
    pub one_shot: bool,
    /// True: no instruction files and no git status in its context.
    #[serde(default)]
    pub omit_instructions: bool,
    /// What runs when something happens to it, beside the hooks of the settings.
    #[serde(default, skip_serializing_if = "HookSettings::is_empty")]
    pub hooks: HookSettings,
    /// Its system prompt.
    pub system_prompt: String,
}
