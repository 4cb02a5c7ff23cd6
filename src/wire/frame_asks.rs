//! Payloads of frames about plans, questions, modes and rules (contract §12).

use super::ids::AskId;
use super::permission::{Behavior, PermissionMode};
use super::question::{Question, QuestionAnswer};
use serde::{Deserialize, Serialize};

/// worker → leader: a plan waits for approval. The leader's model sees it as mail, a person as an ask.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanApprovalRequest {
    /// The ask.
    pub request_id: AskId,
    /// The plan, Markdown.
    pub plan: String,
}

/// leader → worker: what became of a plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanApprovalResponse {
    /// The ask.
    pub request_id: AskId,
    /// Yes or no.
    pub approved: bool,
    /// A word to the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// The mode that was chosen to go on in; without it, the one before plan mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
}

/// worker → leader: a person is asked something.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuestionRequest {
    /// The ask.
    pub ask_id: AskId,
    /// What is asked.
    pub questions: Vec<Question>,
}

/// leader → worker: the answers, one a question; none when the person did not want to answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuestionResponse {
    /// The ask.
    pub ask_id: AskId,
    /// In the order of the questions.
    pub answers: Vec<QuestionAnswer>,
    /// A word beside them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// leader → worker: work in this mode from now on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ModeSetRequest {
    /// The mode.
    pub mode: PermissionMode,
}

/// leader → all: rules that hold for everyone from now on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TeamPermissionUpdate {
    /// Rules such as `Bash(cargo test:*)`; with `path`, names of tools.
    pub rules: Vec<String>,
    /// What they do.
    pub behavior: Behavior,
    /// The path pattern that the tools may (not) touch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl TeamPermissionUpdate {
    /// The rules as they are written elsewhere: `Edit` and the path `src/**` are `Edit(src/**)`.
    pub fn texts(&self) -> Vec<String> {
        match &self.path {
            None => self.rules.clone(),
            Some(path) => self.rules.iter().map(|tool| format!("{tool}({path})")).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_makes_rules_of_tools() {
        let update = |path: Option<&str>| TeamPermissionUpdate {
            rules: vec!["Edit".into(), "Read".into()],
            behavior: Behavior::Allow,
            path: path.map(str::to_owned),
        };
        assert_eq!(update(None).texts(), ["Edit", "Read"]);
        assert_eq!(update(Some("src/**")).texts(), ["Edit(src/**)", "Read(src/**)"]);
    }
}
