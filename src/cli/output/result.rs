//! The result object of a headless run (contract §5), and the exit status that goes with it.

use crate::agent::tally::{Denial, ModelUse};
use crate::wire::error::{ErrorReport, ExitKind};
use crate::wire::ids::SessionId;
use crate::wire::usage::{Money, Usage};
use serde::Serialize;
use std::collections::BTreeMap;

/// What is said of a turn whose last response held neither text nor a call.
pub const NO_ANSWER: &str = "the model ended its turn without an answer: its last message holds no text";

/// How the run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subtype {
    /// With an answer.
    Success,
    /// At the limit of rounds.
    ErrorMaxTurns,
    /// At a limit or budget.
    ErrorLimit,
    /// Otherwise.
    ErrorDuringExecution,
}

/// The object.
#[derive(Debug, Serialize)]
pub struct RunResult {
    /// `result`
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// How it ended.
    pub subtype: Subtype,
    /// Whether it failed.
    pub is_error: bool,
    /// The final answer, or the error.
    pub result: String,
    /// What had come of the answer when the model failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// `max_tokens` when the answer breaks off at the model's limit of output; else left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<&'static str>,
    /// [`NO_ANSWER`] when the last turn ended without one; else left out. `result` is empty then, or what the
    /// model said before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'static str>,
    /// The session.
    pub session_id: SessionId,
    /// Rounds of the main agent.
    pub num_turns: u32,
    /// Milliseconds from the start.
    pub duration_ms: u64,
    /// US dollars of all agents; `null` when a price is unknown.
    pub total_cost_usd: Money,
    /// Tokens of all agents.
    pub usage: Usage,
    /// By model.
    pub model_usage: BTreeMap<String, ModelUse>,
    /// Calls that were denied.
    pub permission_denials: Vec<Denial>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReport>,
}

/// The status of a run when several hold: 130, 4, 2, 3, 1, 5, 0 (contract §16).
pub fn worst(statuses: impl IntoIterator<Item = ExitKind>) -> Option<ExitKind> {
    const ORDER: [ExitKind; 6] = [
        ExitKind::Interrupted,
        ExitKind::NoModel,
        ExitKind::Usage,
        ExitKind::Limit,
        ExitKind::Failed,
        ExitKind::Denied,
    ];
    let all: Vec<ExitKind> = statuses.into_iter().collect();
    ORDER.into_iter().find(|kind| all.contains(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_telling_status_wins() {
        assert_eq!(worst([ExitKind::Denied, ExitKind::Limit, ExitKind::Failed]), Some(ExitKind::Limit));
        assert_eq!(
            worst([ExitKind::Failed, ExitKind::Interrupted, ExitKind::NoModel]),
            Some(ExitKind::Interrupted)
        );
        assert_eq!(worst([]), None);
    }
}
