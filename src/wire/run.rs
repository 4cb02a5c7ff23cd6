//! `run/<agent>.json`: what an agent says of itself (contract §6). Only that agent writes it.

use super::ids::{AgentId, RunId};
use super::permission::PermissionMode;
use super::time::Timestamp;
use super::usage::{Money, Usage};
use serde::{Deserialize, Serialize};

/// What an agent is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentState {
    /// Not ready yet.
    Starting,
    /// In a turn.
    Working,
    /// Ready for more.
    Idle,
    /// For a person's answer.
    Waiting,
    /// Ending.
    Stopping,
    /// Ended on purpose.
    Stopped,
    /// Ended by an error.
    Failed,
    /// Its process is gone without a word; said by the leader.
    Lost,
}

impl AgentState {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Working => "working",
            Self::Idle => "idle",
            Self::Waiting => "waiting",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Lost => "lost",
        }
    }
    /// True for the states nothing follows by itself.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Stopped | Self::Failed | Self::Lost)
    }
}

/// The identity of a process: a pid alone may be reused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessId {
    /// The pid.
    pub pid: u32,
    /// Start time in clock ticks since boot (`/proc/<pid>/stat`, field 22).
    pub start_time: u64,
    /// The kernel's boot id.
    pub boot_id: String,
    /// The host's name.
    pub host: String,
}

/// The record.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// Who.
    pub agent_id: AgentId,
    /// Which of that name.
    pub incarnation: u32,
    /// Which run of it.
    pub run_id: RunId,
    /// Its model, `provider:name`; the leader says it here, since it has no row in the roster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The mode it works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// What it does.
    pub state: AgentState,
    /// Since when.
    pub since: Timestamp,
    /// Pid of its process (the leader's for an in-process teammate).
    pub pid: u32,
    /// See [`ProcessId::start_time`].
    pub start_time: u64,
    /// See [`ProcessId::boot_id`].
    pub boot_id: String,
    /// See [`ProcessId::host`].
    pub host: String,
    /// Last sign of work; only while working.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Timestamp>,
    /// The tool that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_tool: Option<String>,
    /// Tokens so far.
    #[serde(default)]
    pub usage: Usage,
    /// Money so far.
    #[serde(default)]
    pub cost: Money,
    /// The highest `seq` that was delivered.
    #[serde(default)]
    pub delivered_seq: u64,
    /// Turns begun; with `deliveredSeq` it tells two looks at the same state apart.
    #[serde(default)]
    pub turns: u64,
    /// Agents that work in the background below it: as long as there are some, it is not at rest.
    #[serde(default)]
    pub background: usize,
    /// A shutdown request whose turn ended without an answer: the leader's ladder goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered_shutdown: Option<String>,
    /// The program's version.
    pub version: String,
}

impl RunRecord {
    /// The first record of a run.
    pub fn starting(
        agent: &AgentId,
        incarnation: u32,
        run: &RunId,
        process: ProcessId,
        now: Timestamp,
    ) -> Self {
        Self {
            agent_id: agent.clone(),
            incarnation,
            run_id: run.clone(),
            model: None,
            permission_mode: None,
            state: AgentState::Starting,
            since: now,
            pid: process.pid,
            start_time: process.start_time,
            boot_id: process.boot_id,
            host: process.host,
            heartbeat: None,
            current_tool: None,
            usage: Usage::default(),
            cost: Money::default(),
            delivered_seq: 0,
            turns: 0,
            background: 0,
            unanswered_shutdown: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// The process it runs in.
    pub fn process(&self) -> ProcessId {
        ProcessId {
            pid: self.pid,
            start_time: self.start_time,
            boot_id: self.boot_id.clone(),
            host: self.host.clone(),
        }
    }
}
