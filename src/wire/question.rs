//! Questions to a person and their answers, as they are written (contract §10, §12).

use serde::{Deserialize, Serialize};

/// The input of `AskUserQuestion`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Questions {
    /// One to four of them.
    pub questions: Vec<Question>,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// The question.
    pub question: String,
    /// What it is about, in a word or two.
    #[serde(default)]
    pub header: String,
    /// What can be chosen; words of one's own always can.
    #[serde(default)]
    pub options: Vec<QuestionOption>,
    /// Whether several can be chosen.
    #[serde(default)]
    pub multi_select: bool,
}

/// What can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionOption {
    /// The choice.
    pub label: String,
    /// What it means.
    #[serde(default)]
    pub description: String,
}

/// What a person said to one question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionAnswer {
    /// The question.
    pub question: String,
    /// The labels that were chosen.
    #[serde(default)]
    pub selected: Vec<String>,
    /// Words of one's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl QuestionAnswer {
    /// The answer in a line: what was chosen, then what was said.
    pub fn words(&self) -> String {
        let chosen = self.selected.iter().map(String::as_str).chain(self.text.as_deref());
        chosen.collect::<Vec<_>>().join("; ")
    }
}
