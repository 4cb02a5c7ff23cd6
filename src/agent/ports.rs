//! The borders of one agent: what it needs from the team and the person, as traits.
//!
//! Implemented in `team` and `cli`, injected through [`super::runtime::Runtime`] and
//! [`super::build::AgentPlan`]. An agent that has no team gets no mailbox and lives all the same.

use super::context::AgentContext;
use crate::store::error::StoreError;
use crate::wire::access::Access;
use crate::wire::ask::AskKind;
use crate::wire::event::EventKind;
use crate::wire::ids::{AgentName, AskId, BackgroundId, MessageId};
use crate::wire::mail::{Claimed, Draft, Receipt};
use crate::wire::permission::{Decision, PermissionMode, Scope, Suggestion};
use crate::wire::question::QuestionAnswer;
use serde_json::value::RawValue;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A boxed future, for object-safe traits.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why mail could not be sent, claimed or acknowledged; text for whoever tried.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{what}")]
pub struct MailError {
    /// A stable word: `no_such_member`, `stopped`, `full`, `too_large`, `rate_limited`, `disk` …
    pub kind: &'static str,
    /// What happened, to which message or file, and what to do next.
    pub what: String,
}

/// The mail of one agent. One reader per inbox.
///
/// A claimed message comes again unless it is acknowledged; `send` returns *stored* or an error,
/// never waits for the reader, and never loses silently.
pub trait Mailbox: Send + Sync {
    /// Stores a message in the inbox of `to`.
    fn send<'a>(&'a self, to: &'a AgentName, draft: Draft) -> BoxFuture<'a, Result<Receipt, MailError>>;
    /// What waits for the model, at most `max`, in order of delivery; nothing is marked.
    fn claim(&self, max: usize) -> BoxFuture<'_, Result<Vec<Claimed>, MailError>>;
    /// Marks messages as read, once the transcript holds their ids.
    fn ack<'a>(&'a self, ids: &'a [MessageId]) -> BoxFuture<'a, Result<(), MailError>>;
    /// Resolves when something may wait. A hint: claim to know.
    fn changed(&self) -> BoxFuture<'_, ()>;
    /// Whose mailbox it is.
    fn owner(&self) -> &AgentName;
    /// Everyone a broadcast goes to: the living members and the leader, without the owner.
    fn others(&self) -> BoxFuture<'_, Result<Vec<AgentName>, MailError>>;
    /// Answers the shutdown request that the model was shown; `refusal` is the reason for a no.
    fn answer_shutdown<'a>(
        &'a self,
        request_id: &'a str,
        refusal: Option<String>,
    ) -> BoxFuture<'a, Result<(), MailError>>;
    /// Decides about the plan of `of`, which the owner's model was shown; `feedback` goes with it. Only the
    /// leader may, and the first decision counts.
    fn answer_plan<'a>(
        &'a self,
        of: &'a AgentName,
        request_id: &'a AskId,
        decision: Decision,
        feedback: Option<String>,
    ) -> BoxFuture<'a, Result<(), MailError>>;
}

/// A message from a task to the agent that launched it, under an id that was fixed before.
#[derive(Debug, Clone)]
pub struct Letter {
    /// The message: sending it again changes nothing.
    pub id: MessageId,
    /// Who says it: the task.
    pub from: BackgroundId,
    /// Whose inbox: a named agent, or the id of one without a name.
    pub to: AgentName,
    /// That agent's incarnation.
    pub incarnation: u32,
    /// What it says.
    pub draft: Draft,
}

/// The mail of those who have no name in the team.
pub trait PostOffice: Send + Sync {
    /// The mailbox of an agent without a name; its inbox is made when there is none.
    fn mailbox<'a>(&'a self, agent: &'a AgentContext) -> BoxFuture<'a, Result<Arc<dyn Mailbox>, MailError>>;
    /// Takes the inbox of such an agent away again, when it has never had mail.
    fn close<'a>(&'a self, agent: &'a AgentContext) -> BoxFuture<'a, Result<(), MailError>>;
    /// Stores a letter, once however often it is sent. The inbox is made when there is none.
    fn notify(&self, letter: Letter) -> BoxFuture<'_, Result<(), MailError>>;
}

/// A task that somebody else runs and the registry only lists: a teammate.
pub trait BackgroundTask: Send + Sync {
    /// How it stands, in a word, and what it does.
    fn state(&self) -> BoxFuture<'_, String>;
    /// Asks it to end; says what became of that, for a model.
    fn stop(&self) -> BoxFuture<'_, String>;
}

/// The log of what happens in the team, for people and programs; agents never read it.
pub trait Journal: Send + Sync {
    /// Adds a line about this agent. A failure is the log's own business: nobody waits for its content.
    fn log<'a>(
        &'a self,
        agent: &'a AgentContext,
        event: EventKind,
        fields: serde_json::Value,
    ) -> BoxFuture<'a, ()>;
}

/// A call that needs a person.
#[derive(Debug, Clone)]
pub struct AskRequest {
    /// What is asked.
    pub kind: AskKind,
    /// The asking agent.
    pub context: Arc<AgentContext>,
    /// The call.
    pub tool_use_id: String,
    /// The tool.
    pub tool: String,
    /// Its exact input.
    pub input: Arc<RawValue>,
    /// What it would touch.
    pub access: Access,
    /// The rule or mode that led here.
    pub rule: String,
    /// What "always" could mean.
    pub suggestions: Vec<Suggestion>,
    /// What the hooks of this process have decided already.
    pub hook: Option<HookWord>,
    /// For a plan: the modes to go on in; a plain yes means the first.
    pub modes: Vec<PermissionMode>,
}

/// What a `PermissionRequest` hook decided.
#[derive(Debug, Clone)]
pub struct HookWord {
    /// Yes or no.
    pub decision: Decision,
    /// Why not.
    pub note: Option<String>,
    /// The input to run with instead.
    pub updated_input: Option<Box<RawValue>>,
}

/// Who answers a hook's decision in the records.
pub const HOOK: &str = "hook";

/// Where asks of a process are decided, which is where their hooks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskPlace {
    /// In this process, or nowhere, since nobody is there to be asked.
    Here,
    /// In the leader's.
    Elsewhere,
}

/// What became of an ask.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Somebody decided.
    Decided {
        /// Yes or no.
        decision: Decision,
        /// For how long.
        scope: Scope,
        /// A word to the agent.
        note: Option<String>,
        /// The input to run with instead.
        updated_input: Option<Box<RawValue>>,
        /// Who.
        by: String,
        /// For a plan: the mode that was chosen.
        mode: Option<PermissionMode>,
        /// For a question: what was said.
        answers: Vec<QuestionAnswer>,
    },
    /// Nobody is there to answer, with the reason.
    Nobody(String),
    /// The call was cancelled while it waited.
    Cancelled,
    /// The ask could not be made or read.
    Failed(String),
}

/// A call that waited for an answer when the process of its agent ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftCall {
    /// The call.
    pub tool_use_id: String,
    /// Whether the answer has come meanwhile.
    pub answered: bool,
}

/// Brings asks to whoever answers. Each ask is made once and answered once.
pub trait PermissionBroker: Send + Sync {
    /// Waits for the answer: as long as a person takes, unless cancelled.
    fn decide<'a>(&'a self, ask: AskRequest, cancel: &'a CancellationToken) -> BoxFuture<'a, Answer>;

    /// Those of these calls that an earlier process of this agent left waiting for an answer: none of them has
    /// begun. [`Self::decide`] goes on with their asks, under the same ids; other asks that the agent left
    /// open are closed.
    fn left<'a>(
        &'a self,
        context: &'a AgentContext,
        calls: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<LeftCall>, StoreError>>;
    /// Closes the asks that [`Self::left`] has found and nobody went on with.
    fn close_left<'a>(&'a self, context: &'a AgentContext) -> BoxFuture<'a, ()>;
    /// Where that happens.
    fn place(&self) -> AskPlace;
    /// The mode of the leader as it is now, which no approval of a plan goes beyond; `default` where it
    /// cannot be found out.
    fn leaders_mode(&self) -> BoxFuture<'_, PermissionMode>;
}

/// Tells that something others write to may have changed. A hint: look to know.
pub trait Changes: Send + Sync {
    /// Resolves at the next change after this call, or when it is time to look anyway.
    fn changed(&self) -> BoxFuture<'static, ()>;
}
