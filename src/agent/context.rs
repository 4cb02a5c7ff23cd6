//! Who an agent is. Handed on explicitly as an `Arc`; never looked up from a global.

use crate::wire::ids::{AgentId, AgentName, BackgroundId, SessionId, TeamName};
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::task::JoinHandle;
use tracing::Instrument;

/// How an agent stands to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// The one the user talks to.
    Main,
    /// A named member of a team.
    Teammate,
    /// Started by a tool call, answers with its result.
    Subagent,
}

impl Tier {
    /// Whether it waits for more after its turn.
    pub fn outlives_a_turn(self) -> bool {
        match self {
            Self::Main | Self::Teammate => true,
            Self::Subagent => false,
        }
    }
}

/// The identity of one agent.
#[derive(Debug, Clone)]
pub struct AgentContext {
    /// The id it was made with; [`Self::id`] is the one it has.
    pub made_as: AgentId,
    /// Its name in the team; `None` for subagents.
    pub name: Option<AgentName>,
    /// The definition it runs.
    pub agent_type: String,
    /// How it stands to the others.
    pub tier: Tier,
    /// The team it belongs to or works below.
    pub team: TeamLabel,
    /// The named agent it is or works below: whose inbox takes answers meant for it.
    pub root: AgentName,
    /// That agent's incarnation.
    pub incarnation: u32,
    /// For display.
    pub color: Option<String>,
    /// 0 is the main agent.
    pub depth: u32,
    /// `main`, `agent:builtin:<type>` or `agent:custom:<name>` (contract §13).
    pub query_source: String,
    /// The main session.
    pub session: SessionId,
    /// The directory that session belongs to.
    pub session_cwd: PathBuf,
    /// The background task that it is or works below.
    pub task: Option<BackgroundId>,
    /// The call that started it.
    pub parent_tool_use_id: Option<String>,
    /// Its directory.
    pub cwd: PathBuf,
}

/// The name of a team as all agents of a process see it: its leader may name it while nobody is in it.
/// Cloning copies a pointer.
#[derive(Debug, Clone)]
pub struct TeamLabel(Arc<RwLock<TeamName>>);

impl TeamLabel {
    /// A team that is called so.
    pub fn new(name: TeamName) -> Self {
        Self(Arc::new(RwLock::new(name)))
    }
    /// What it is called now.
    pub fn get(&self) -> TeamName {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Names it anew, for all who share it.
    pub fn set(&self, name: TeamName) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = name;
    }
}

impl AgentContext {
    /// Its id. The main agent's follows the name of its team.
    pub fn id(&self) -> AgentId {
        match self.tier {
            Tier::Main => AgentId::member(&self.root, &self.team.get()),
            Tier::Teammate | Tier::Subagent => self.made_as.clone(),
        }
    }
    /// What people call it: its name, else its type.
    pub fn label(&self) -> &str {
        self.name.as_ref().map_or(self.agent_type.as_str(), AgentName::as_str)
    }
}

/// Starts a task that belongs to an agent: its log lines carry the agent's id. The only place that
/// may call `tokio::spawn`, since what a task inherits from its maker is nothing.
#[expect(clippy::disallowed_methods, reason = "this is the one helper the ban points to")]
pub fn spawn_in<F>(context: &AgentContext, task: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(task.instrument(tracing::info_span!("agent", id = %context.id())))
}
