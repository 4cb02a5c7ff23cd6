//! The roster file `team.json` (contract §6). The leader alone writes it.

use super::ids::{AgentId, AgentName, SessionId, TeamName};
use super::open::Open;
use super::permission::PermissionMode;
use super::run::{AgentState, RunRecord};
use super::time::Timestamp;
use super::usage::{Money, Usage};
use serde::{Deserialize, Serialize};

/// The format version written here.
pub const TEAM_VERSION: u32 = 1;
/// Colours in the order they are given out; each stands out on light and dark ground.
pub const COLORS: [&str; 8] = ["blue", "green", "yellow", "magenta", "cyan", "red", "orange", "purple"];

/// A team.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TeamFile {
    /// [`TEAM_VERSION`]
    pub version: u32,
    /// The slug.
    pub name: TeamName,
    /// The name as given.
    pub display_name: String,
    /// What the team is for.
    #[serde(default)]
    pub description: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// `team-lead@<team>`.
    pub lead_agent_id: AgentId,
    /// The session of the leader.
    pub lead_session_id: SessionId,
    /// Panes the user asked to hide.
    #[serde(default)]
    pub hidden_pane_ids: Vec<String>,
    /// Rules for every member.
    #[serde(default)]
    pub allowed_paths: Vec<Open<AllowedPath>>,
    /// All members that ever were; the leader is not among them.
    #[serde(default)]
    pub members: Vec<Open<Member>>,
}

/// A path that every member may use with a tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllowedPath {
    /// A path or glob.
    pub path: String,
    /// The tool.
    pub tool_name: String,
    /// Who added it.
    pub added_by: String,
    /// When.
    pub added_at: Timestamp,
}

/// Where a teammate runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendType {
    /// A task in the leader's process.
    InProcess,
    /// A child process without a terminal.
    Process,
    /// A tmux pane.
    Tmux,
    /// An iTerm2 pane.
    Iterm2,
}

impl BackendType {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InProcess => "in-process",
            Self::Process => "process",
            Self::Tmux => "tmux",
            Self::Iterm2 => "iterm2",
        }
    }
}

/// One teammate.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// `<name>@<team>`.
    pub agent_id: AgentId,
    /// The slug.
    pub agent_name: AgentName,
    /// The name as given.
    pub display_name: String,
    /// The definition it runs.
    pub agent_type: String,
    /// The model, as resolved: `provider:name`.
    pub model: String,
    /// For display.
    pub color: String,
    /// Where it runs.
    pub backend_type: BackendType,
    /// Its pane.
    pub pane_id: Option<String>,
    /// The socket of the tmux server that has the pane: a later leader may sit in another one, or in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pane_server: Option<String>,
    /// Raised when a new agent takes a name that was used before.
    pub incarnation: u32,
    /// Its mode at spawn.
    pub permission_mode: PermissionMode,
    /// Whether it must plan first.
    #[serde(default)]
    pub plan_mode_required: bool,
    /// Its directory.
    pub cwd: String,
    /// Its worktree.
    pub worktree_path: Option<String>,
    /// Its own session id.
    pub session_id: SessionId,
    /// When it joined.
    pub joined_at: Timestamp,
    /// When new leaders have started it again lately, each time out of the middle of its work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarts: Vec<Timestamp>,
    /// The leader's verdict when it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
}

/// How a member ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// `stopped`, `failed` or `lost`.
    pub state: AgentState,
    /// When.
    pub at: Timestamp,
    /// How the process or task ended.
    pub exit: String,
    /// Why.
    pub reason: String,
    /// Tokens of its whole life: its run record goes to whoever takes its name next.
    #[serde(default)]
    pub usage: Usage,
    /// Money of its whole life.
    #[serde(default)]
    pub cost: Money,
}

impl Ended {
    /// A verdict on one who has used nothing, as far as is known yet.
    pub fn new(state: AgentState, at: Timestamp, exit: impl Into<String>, reason: impl Into<String>) -> Self {
        let (exit, reason) = (exit.into(), reason.into());
        Self { state, at, exit, reason, usage: Usage::default(), cost: Money::default() }
    }

    /// The same with what its last run record says it has used.
    pub fn having_used(mut self, record: Option<&RunRecord>) -> Self {
        if let Some(record) = record {
            (self.usage, self.cost) = (record.usage, record.cost);
        }
        self
    }
}
