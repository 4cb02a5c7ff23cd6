//! One item of an agent's own list of things to do, as `TodoWrite` takes it and as events show it.

use serde::{Deserialize, Serialize};

/// One item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Todo {
    /// What is to be done: `Run the tests`.
    pub content: String,
    /// How far it is.
    pub status: TodoStatus,
    /// The same while it is being done: `Running the tests`; empty when the model gave none.
    #[serde(default)]
    pub active_form: String,
}

/// How far an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Completed,
}

impl Todo {
    /// What people are shown: the active form while it is being done.
    pub fn shown(&self) -> &str {
        match self.status {
            TodoStatus::InProgress if !self.active_form.trim().is_empty() => &self.active_form,
            TodoStatus::Pending | TodoStatus::InProgress | TodoStatus::Completed => &self.content,
        }
    }
}
