//! The spec file of a teammate: everything it needs to start (spec §10).
//!
//! Written 0600 by the leader; the worker removes `environment` and `mcpServers`, which may hold keys, from
//! the file once it has read it.

use super::definition::AgentDefinition;
use super::ids::{AgentId, AgentName, RunId, SessionId, TeamName};
use super::mcp::McpServer;
use super::permission::{PermissionMode, Rule};
use super::settings::{RetrySettings, Settings};
use super::team::BackendType;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The format written here; a worker of another version refuses the file.
pub const WORKER_SPEC_VERSION: u32 = 1;

/// What a teammate is started with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerSpec {
    /// [`WORKER_SPEC_VERSION`]
    pub version: u32,
    /// The leader's program version; another one refuses to start.
    pub program_version: String,
    /// The leader's state root; a worker whose root differs refuses to start.
    pub state_root: PathBuf,
    /// The team.
    pub team: TeamName,
    /// The name.
    pub name: AgentName,
    /// `<name>@<team>`
    pub agent_id: AgentId,
    /// Which of that name.
    pub incarnation: u32,
    /// Which run of it.
    pub run_id: RunId,
    /// The leader's session, below which the transcript lies.
    pub lead_session_id: SessionId,
    /// The directory the leader's session belongs to (names the folder below `projects/`).
    pub lead_cwd: PathBuf,
    /// The teammate's own session id.
    pub session_id: SessionId,
    /// The call that started it.
    pub tool_use_id: Option<String>,
    /// What it was started for, in a few words.
    pub description: String,
    /// Its first prompt.
    pub prompt: String,
    /// What kind of agent it is, as resolved.
    pub definition: AgentDefinition,
    /// `provider:name`, as resolved.
    pub model: String,
    /// Its mode, as resolved.
    pub permission_mode: PermissionMode,
    /// Its rules, as resolved.
    pub rules: Vec<Rule>,
    /// The leader's project, which its rules are bound to; `cwd` lies in it or in one of the others.
    pub project_root: PathBuf,
    /// Directories that count as the project beside it.
    pub additional_directories: Vec<PathBuf>,
    /// Its directory.
    pub cwd: PathBuf,
    /// For display.
    pub color: String,
    /// Where it runs.
    pub backend: BackendType,
    /// How far below the main agent it is.
    pub depth: u32,
    /// Who answers its asks.
    pub asks: AskPolicy,
    /// Retries of model requests.
    pub retry: RetrySettings,
    /// Its own worktree, if it has one.
    #[serde(default)]
    pub worktree: Option<PathBuf>,
    /// The settings it works under, as the leader resolved them.
    pub settings: Settings,
    /// Whether the leader's project is trusted: hooks, servers and definitions that bring either.
    #[serde(default)]
    pub trusted: bool,
    /// The MCP servers of the leader's configuration, for a worker of its own process; may hold keys, so
    /// they leave the file once read.
    #[serde(default)]
    pub mcp_servers: Vec<McpServer>,
    /// The leader's environment; holds keys, so it leaves the file once read.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

/// What becomes of a call that needs a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AskPolicy {
    /// The ask stays open until somebody answers.
    Wait,
    /// The ask stays open for so many seconds, then it is denied.
    WaitSeconds(u64),
    /// Nobody is there: denied at once.
    Deny,
}
