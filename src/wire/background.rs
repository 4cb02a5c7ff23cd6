//! Background tasks as they are written down: one record a task, the truth about how it stands.
//!
//! A terminal record holds its notification with the id under which it is mailed, so that announcing
//! it again is harmless.

use super::frame::TaskNotification;
use super::ids::{AgentId, AgentName, BackgroundId, MessageId, RunId};
use super::mail::Wake;
use super::run::ProcessId;
use super::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The version of [`TaskRecord`].
pub const TASK_RECORD_VERSION: u32 = 1;

/// What runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// An agent with a context of its own.
    Subagent,
    /// An agent with its parent's context.
    Fork,
    /// A shell command.
    Shell,
    /// A member of the team in this process.
    InProcessTeammate,
    /// A member of the team in a process of its own.
    PaneTeammate,
}

impl TaskKind {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Subagent => "subagent",
            Self::Fork => "fork",
            Self::Shell => "shell",
            Self::InProcessTeammate => "in_process_teammate",
            Self::PaneTeammate => "pane_teammate",
        }
    }
    /// Whether it is an agent without a name in the team: it takes a place among the running agents, has
    /// a sidechain, and a headless run waits for it.
    pub fn is_agent(self) -> bool {
        matches!(self, Self::Subagent | Self::Fork)
    }
}

/// How a task stands. One of the last three comes exactly once a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// Waits for a place.
    Queued,
    /// Works.
    Running,
    /// Came to its end.
    Completed,
    /// Ended by an error.
    Failed,
    /// Was stopped.
    Cancelled,
}

impl TaskState {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
    /// True for the states nothing follows by itself.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// Who stopped a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoppedBy {
    /// The person: no agent brings it back.
    User,
    /// An agent that may: the one that launched it, or one above.
    Parent,
    /// The end of the agent it belongs to.
    AgentEnd,
    /// The end of the session.
    SessionEnd,
}

/// What a task has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskUsage {
    /// Tokens of the last response, summed.
    pub total_tokens: u64,
    /// Tool calls.
    pub tool_uses: u64,
    /// From start to end.
    pub duration_ms: u64,
}

/// `background/<task>.json`. Written by the process that runs the task alone.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRecord {
    /// [`TASK_RECORD_VERSION`].
    pub version: u32,
    /// Which task; for an agent, its id.
    pub task_id: BackgroundId,
    /// What runs.
    pub kind: TaskKind,
    /// Which run of it.
    pub run_id: RunId,
    /// How it stands.
    pub state: TaskState,
    /// A few words for people.
    pub description: String,
    /// A name it can be reached by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<AgentName>,
    /// Who launched this run, and is told of its end.
    pub launched_by: AgentId,
    /// The named agent that one is or works below: whose process runs the task.
    pub root: AgentName,
    /// That agent's incarnation.
    pub incarnation: u32,
    /// The process that runs it; records of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessId>,
    /// The call that launched it.
    pub tool_use_id: String,
    /// Where its output is.
    pub output_file: String,
    /// When it was launched first.
    pub created_at: Timestamp,
    /// Since when it is in its state.
    pub since: Timestamp,
    /// Who stopped it, if somebody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<StoppedBy>,
    /// In a terminal record: what is told of it, unless nobody is to be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notification: Option<Announcement>,
    /// In a terminal record: what it came to, whoever is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<TaskNotification>,
}

/// The notification of a terminal record.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Announcement {
    /// The message, whenever it is sent.
    pub id: MessageId,
    /// Whose inbox it goes to: a named agent, or the id of one without a name.
    pub to: AgentName,
    /// That agent's incarnation.
    pub incarnation: u32,
    /// What it does to an idle reader.
    pub wake: Wake,
    /// True once it is known to be stored there.
    pub announced: bool,
}
