//! An ask and its decision, as files (contract §1, §16).

use super::ids::{AgentId, AgentName, AskId};
use super::permission::{Decision, PermissionMode, Scope, Suggestion};
use super::question::{Question, QuestionAnswer, Questions};
use super::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AskKind {
    /// May this tool call run?
    Permission,
    /// A question to the person.
    Question,
    /// Is this plan good?
    Plan,
    /// May this confined command reach the network?
    Sandbox,
}

/// Where an ask stands. `decided` follows from the decision file, never from this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AskStatus {
    /// Waits for a person.
    Open,
    /// Has an answer.
    Decided,
    /// Nobody waits for it any more.
    Closed,
}

/// `asks/<id>.json`: made once by the asking agent's process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    /// Also the file's stem.
    pub id: AskId,
    /// What is asked.
    pub kind: AskKind,
    /// The asking agent.
    pub agent_id: AgentId,
    /// Whose inbox takes the response: the asking agent, or the main agent or teammate it works below.
    pub reply_to: AgentName,
    /// That agent's incarnation.
    pub incarnation: u32,
    /// The tool.
    pub tool: String,
    /// The call.
    pub tool_use_id: String,
    /// Its exact input.
    pub input: Box<RawValue>,
    /// What it would do, in a sentence.
    pub description: String,
    /// The asking agent's directory.
    pub cwd: String,
    /// Where the session's settings are, which an answer with scope `project` goes to; its directory when
    /// left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The rule or mode that led here.
    pub rule: String,
    /// What "always" could mean.
    #[serde(default)]
    pub suggestions: Vec<Suggestion>,
    /// For a plan: the modes in which the agent may go on once it is approved; a plain yes means the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<PermissionMode>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When nobody waits any more: written by the asking process, or by its leader when that has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Closed>,
    /// When the asking process took a yes: from then on the call may have begun, so after the death of that
    /// process nobody asks for it again. Absent as long as nothing has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Timestamp>,
}

impl Ask {
    /// What is asked, when it is a question and its input is well formed.
    pub fn questions(&self) -> Vec<Question> {
        match self.kind {
            AskKind::Question => serde_json::from_str::<Questions>(self.input.get())
                .map(|input| input.questions)
                .unwrap_or_default(),
            AskKind::Permission | AskKind::Plan | AskKind::Sandbox => Vec::new(),
        }
    }

    /// The plan, when it is about one.
    pub fn plan(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Input {
            plan: String,
        }
        let is_plan = self.kind == AskKind::Plan;
        is_plan.then(|| serde_json::from_str::<Input>(self.input.get()).ok())?.map(|input| input.plan)
    }

    /// Whether both are the same question about the same call of the same run of an agent.
    pub fn is_again(&self, other: &Self) -> bool {
        self.kind == other.kind
            && (&self.agent_id, self.incarnation) == (&other.agent_id, other.incarnation)
            && (&self.tool, &self.tool_use_id, &self.cwd) == (&other.tool, &other.tool_use_id, &other.cwd)
            && self.has_input_of(other)
    }

    fn has_input_of(&self, other: &Self) -> bool {
        let input = |ask: &Self| serde_json::from_str::<serde_json::Value>(ask.input.get()).ok();
        self.input.get() == other.input.get() || (input(self).is_some() && input(self) == input(other))
    }

    /// Whether an answer to one can be the answer to the other: two permissions for the same call in the
    /// same directory.
    pub fn is_same(&self, other: &Self) -> bool {
        [self.kind, other.kind] == [AskKind::Permission; 2]
            && self.tool == other.tool
            && self.cwd == other.cwd
            && self.has_input_of(other)
    }
}

/// Why an ask was closed without an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
}

/// `asks/<id>.decision.json`: created exclusively, so the first decision counts.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionRecord {
    /// The ask.
    pub ask_id: AskId,
    /// Yes or no.
    pub decision: Decision,
    /// For how long.
    pub scope: Scope,
    /// A word to the asking agent, also with a yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The input to run with instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_input: Option<Box<RawValue>>,
    /// For a plan: the mode that was chosen to go on in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// For a question: what was said, one a question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<QuestionAnswer>,
    /// Who decided: `user`, `hook:<name>`, `demo` …
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// HMAC-SHA-256 with the team's key over all other members in RFC 8785 form.
    #[serde(default)]
    pub sig: String,
}
