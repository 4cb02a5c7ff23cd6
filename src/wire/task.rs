//! One task of a team's list: `tasks/<id>.json` (spec §14).

use super::ids::AgentName;
use super::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fmt;

/// The number of a task, from 1; a deleted one's is never given again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct TaskId(pub u64);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text that is no number of a task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the number of a task")]
pub struct NotATask(pub String);

impl std::str::FromStr for TaskId {
    type Err = NotATask;
    fn from_str(text: &str) -> Result<Self, NotATask> {
        let digits = text.trim().trim_start_matches('#');
        match digits.parse() {
            Ok(id) if id > 0 && digits.bytes().all(|b| b.is_ascii_digit()) => Ok(Self(id)),
            _ => Err(NotATask(text.to_owned())),
        }
    }
}

/// Models write the number as a text as often as not.
impl<'de> Deserialize<'de> for TaskId {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        let text = match Written::deserialize(d)? {
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text,
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Nobody works on it.
    Pending,
    /// Its owner works on it.
    InProgress,
    /// Done.
    Completed,
}

impl TaskStatus {
    /// All, by name.
    pub const NAMES: [(&'static str, Self); 3] =
        [("pending", Self::Pending), ("in_progress", Self::InProgress), ("completed", Self::Completed)];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }
}

/// A task.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Its number.
    pub id: TaskId,
    /// What is to be done, in a line.
    pub subject: String,
    /// All that whoever does it has to know.
    #[serde(default)]
    pub description: String,
    /// The subject while it is done: "Running the tests".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_form: Option<String>,
    /// Where it stands.
    pub status: TaskStatus,
    /// Who does it, will do it, or has done it.
    #[serde(default)]
    pub owner: Option<AgentName>,
    /// Tasks that wait for this one, ascending.
    #[serde(default)]
    pub blocks: Vec<TaskId>,
    /// Tasks this one waits for, ascending; those that are completed hold it no more.
    #[serde(default)]
    pub blocked_by: Vec<TaskId>,
    /// Whatever else the team notes; an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Box<RawValue>>,
    /// What happened to it that its owner should know: whom it was taken from, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// When its owner got it and was told so; absent for one that was somebody's from the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned_at: Option<Timestamp>,
    /// Who made it.
    pub created_by: AgentName,
    /// When.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_number_however_it_is_written() {
        let read = |json: &str| serde_json::from_str::<TaskId>(json).ok();
        assert_eq!(read("7"), Some(TaskId(7)));
        assert_eq!(read("\"7\""), Some(TaskId(7)));
        assert_eq!(read("\" #7 \""), Some(TaskId(7)));
        for wrong in ["0", "-1", "1.5", "\"\"", "\"x\"", "\"+7\"", "\"../7\"", "null", "\"1e2\""] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(serde_json::to_string(&TaskId(7)).expect("writes"), "7");
    }
}
