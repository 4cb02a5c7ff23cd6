//! An error as it is shown: what happened, and what to do next (contract §15).

use serde::Serialize;

/// The exit status an error leads to (contract §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitKind {
    /// 1: the run failed.
    Failed,
    /// 2: wrong use.
    Usage,
    /// 3: a limit or budget ended it.
    Limit,
    /// 4: no model or no credentials.
    NoModel,
    /// 5: something needed was denied and nobody could be asked.
    Denied,
    /// 130: interrupted.
    Interrupted,
}

impl ExitKind {
    /// The status code.
    pub fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Limit => 3,
            Self::NoModel => 4,
            Self::Denied => 5,
            Self::Interrupted => 130,
        }
    }
}

/// The object behind `{"error": …}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorReport {
    /// A stable word: `usage`, `not_found`, `no_model`, `disk` …
    pub kind: String,
    /// One sentence: what happened, to which file or agent.
    pub message: String,
    /// What to do next; may be empty.
    pub hint: String,
}
