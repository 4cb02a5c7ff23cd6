//! One line of a team's event log (contract §15).

use super::ids::{AgentName, TeamName};
use super::time::Timestamp;
use serde::{Deserialize, Serialize};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are the contract's and say it")]
pub enum EventKind {
    Spawn,
    Ready,
    Send,
    Deliver,
    Undeliverable,
    Refused,
    Ask,
    Decision,
    Idle,
    Task,
    Limit,
    Shutdown,
    Exit,
    Lost,
    Notice,
    Fork,
}

/// A line; `fields` stand beside the fixed ones.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub ts: Timestamp,
    /// What.
    pub event: EventKind,
    /// Where.
    pub team: TeamName,
    /// Who.
    pub agent: AgentName,
    /// Which of that name.
    pub incarnation: u32,
    /// By event: `messageId`, `askId`, `to`, `reason`, `exit` …
    #[serde(flatten)]
    pub fields: serde_json::Map<String, serde_json::Value>,
}
