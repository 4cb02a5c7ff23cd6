//! What an agent does, as it happens: for screens, streams and run records. Nothing depends on it.

use super::budget::LimitReached;
use super::context::AgentContext;
use super::tally::Denial;
use crate::model::provider::Delta;
use crate::wire::background::TaskRecord;
use crate::wire::block::ChatMessage;
use crate::wire::fork::ForkReceipt;
use crate::wire::ids::LineId;
use crate::wire::mail::Claimed;
use crate::wire::permission::PermissionMode;
use crate::wire::todo::Todo;
use crate::wire::usage::{Money, Usage};
use std::sync::Arc;

/// One thing that happened.
#[derive(Debug, Clone)]
pub enum AgentEvent {
    /// It goes on from a transcript: tokens and money of its own earlier runs.
    Restored(Usage, Money),
    /// A turn began.
    TurnStarted,
    /// A round began: a request goes out.
    RoundStarted(u32),
    /// A piece of the response, for display.
    Delta(Delta),
    /// A message was completed and recorded.
    Message {
        /// Its transcript line.
        uuid: LineId,
        /// The message.
        message: Arc<ChatMessage>,
        /// For an assistant message: the model and tokens of the response.
        response: Option<ResponseInfo>,
    },
    /// One of its tools has asked a model: tokens and money of that.
    SideRequest(Usage, Money),
    /// A tool call began.
    ToolStarted {
        /// The call.
        id: String,
        /// The tool.
        tool: String,
        /// What it does, in one line.
        summary: String,
    },
    /// A running call says something.
    ToolProgress {
        /// The call.
        id: String,
        /// A line.
        text: String,
    },
    /// A tool call ended.
    ToolEnded {
        /// The call.
        id: String,
        /// The tool.
        tool: String,
        /// Whether it failed.
        is_error: bool,
        /// The first line of the result.
        head: String,
    },
    /// Its list of things to do was replaced by this one.
    Todos(Arc<[Todo]>),
    /// A call waits for a person, or no longer does.
    Waiting(bool),
    /// Its permission mode is another one now.
    ModeChanged(PermissionMode),
    /// Mail was put into the conversation.
    MailDelivered(Arc<[Claimed]>),
    /// A child was started by a tool call.
    ChildStarted(Arc<AgentContext>, String),
    /// The first response to a fork came in.
    ForkReceipt(ForkReceipt),
    /// It has launched a background task.
    TaskLaunched(Arc<TaskRecord>),
    /// A background task that it launched has ended, and its notification is stored.
    TaskEnded(Arc<TaskRecord>),
    /// A summary of the conversation is being written.
    Compacting(Trigger),
    /// The conversation goes on from a summary; what a fork shared with its parent ends here.
    Compacted(Compaction),
    /// The turn ended.
    TurnEnded(TurnSummary),
    /// A call of it was denied.
    Denied(Arc<Denial>),
    /// A limit forbade a spawn or a request.
    LimitReached(LimitReached),
    /// Something a person should know.
    Notice(String),
}

/// Why a conversation is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// The next request would pass the threshold.
    Auto,
    /// The provider said that the context is full.
    Full,
    /// A person asked for it.
    Manual,
}

impl Trigger {
    /// As transcripts and streams have it: `auto` or `manual`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto | Self::Full => "auto",
            Self::Manual => "manual",
        }
    }
}

/// A compaction that was done.
#[derive(Debug, Clone)]
pub struct Compaction {
    /// Its line in the transcript.
    pub uuid: Option<LineId>,
    /// Why.
    pub trigger: Trigger,
    /// Tokens of the conversation before.
    pub pre_tokens: u64,
    /// An estimate of what they are now.
    pub post_tokens: u64,
    /// Messages that stayed as they were.
    pub kept_messages: usize,
    /// What the summary took.
    pub usage: Usage,
    /// Its price.
    pub cost: Money,
}

/// What is known of a response beside its blocks.
#[derive(Debug, Clone)]
pub struct ResponseInfo {
    /// The provider's id.
    pub id: String,
    /// The model that answered.
    pub model: String,
    /// Its tokens.
    pub usage: Usage,
    /// Its price.
    pub cost: Money,
    /// Why it stopped.
    pub stop_reason: String,
}

/// A turn in numbers.
#[derive(Debug, Clone)]
pub struct TurnSummary {
    /// Rounds of the turn.
    pub rounds: u32,
    /// Tokens of the agent so far.
    pub usage: Usage,
    /// Money of the agent so far.
    pub cost: Money,
    /// Whether it came to an end of its own.
    pub ok: bool,
}

/// Sees everything that in-process agents do; must not block.
pub trait Observer: Send + Sync {
    /// One more event.
    fn event(&self, agent: &AgentContext, event: &AgentEvent);
}

/// Sees nothing.
pub struct Silent;

impl Observer for Silent {
    fn event(&self, _: &AgentContext, _: &AgentEvent) {}
}

/// Passes everything to several observers, in order.
pub struct Fan(pub Vec<Arc<dyn Observer>>);

impl Observer for Fan {
    fn event(&self, agent: &AgentContext, event: &AgentEvent) {
        for observer in &self.0 {
            observer.event(agent, event);
        }
    }
}
