//! What every language model looks like to the agent loop.
//!
//! A [`PromptPrefix`] is immutable and shared by pointer; a request adds the conversation to it. A
//! provider sends the bytes of prefix and blocks as they are, cache markers aside.

use super::search::Bounds;
use super::tuning::Tuning;
use crate::wire::block::{Block, ChatMessage};
use crate::wire::usage::Usage;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A boxed future, for object-safe traits.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A tool as declared to a model. `schema` is JSON text, frozen.
#[derive(Debug, Clone)]
pub struct ToolDeclaration {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON Schema of its input, an object.
    pub schema: Arc<str>,
}

/// System prompt and tool declarations, frozen as the bytes of one wire, with what must stay equal
/// for a prompt cache to hit. Rendered once per session (spec §3), shared by forks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptPrefix {
    /// The model's name at its provider, e.g. `claude-…`.
    pub model: String,
    /// The `tools` array of the wire, serialized; `[]` when there are none.
    pub tools: Arc<str>,
    /// The system prompt, serialized for the wire (Messages API: one text block without cache marker).
    pub system: Arc<str>,
    /// Bound of the answer, in tokens; 0 leaves it to the provider.
    pub max_output_tokens: u32,
    /// The wire's thinking setting, serialized; `None` leaves it out.
    pub thinking: Option<Arc<str>>,
    /// The wire's setting of how hard to think, serialized; `None` leaves it out.
    pub effort: Option<Arc<str>>,
}

/// Who asks, for scripts, recordings and logs; never sent to a model.
#[derive(Debug, Clone, Default)]
pub struct RequestTag {
    /// The agent's name or, for an unnamed one, its type.
    pub agent: String,
    /// Rounds this agent has begun, from 1.
    pub round: u32,
}

/// A place in a conversation where a cached part ends: after one block of one message. A block and not
/// only a message, because a fork shares its last message with its siblings up to the directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Anchor {
    /// Index into `messages`; one that does not exist is ignored.
    pub message: usize,
    /// Index of the block; `None` is the last one.
    pub block: Option<usize>,
}

impl Anchor {
    /// After the last block of a message.
    pub fn end_of(message: usize) -> Self {
        Self { message, block: None }
    }
    /// After one block of a message.
    pub fn after(message: usize, block: usize) -> Self {
        Self { message, block: Some(block) }
    }
}

/// One request.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// What comes first.
    pub prefix: Arc<PromptPrefix>,
    /// The conversation, shared with whoever keeps it; the last message is the user's.
    pub messages: Arc<Vec<ChatMessage>>,
    /// Where cached parts end, oldest first, at most three (with more, the last three count): the ends
    /// of earlier requests and of this one; for a fork also its last shared block. Wires without
    /// markers ignore them.
    pub anchors: Vec<Anchor>,
    /// Who asks.
    pub tag: RequestTag,
}

/// Why a response ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// The model was done.
    EndTurn,
    /// It waits for tool results.
    ToolUse,
    /// The answer reached `max_output_tokens`.
    MaxTokens,
    /// It would not answer.
    Refusal,
    /// The provider paused a long turn; sending the same again goes on.
    PauseTurn,
    /// The context is full.
    ContextExceeded,
    /// Anything else, as named on the wire.
    Other(String),
}

impl StopReason {
    /// From the Messages API's name.
    pub fn from_wire(name: &str) -> Self {
        match name {
            "end_turn" => Self::EndTurn,
            "tool_use" => Self::ToolUse,
            "max_tokens" => Self::MaxTokens,
            "refusal" => Self::Refusal,
            "pause_turn" => Self::PauseTurn,
            "model_context_window_exceeded" => Self::ContextExceeded,
            other => Self::Other(other.to_owned()),
        }
    }
    /// The Messages API's name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::Refusal => "refusal",
            Self::PauseTurn => "pause_turn",
            Self::ContextExceeded => "model_context_window_exceeded",
            Self::Other(name) => name,
        }
    }
}

/// A complete response.
#[derive(Debug, Clone)]
pub struct ModelResponse {
    /// The provider's id of it.
    pub id: String,
    /// The model that answered.
    pub model: String,
    /// Its blocks, in order, none of them an empty text.
    pub blocks: Vec<Block>,
    /// Why it ended.
    pub stop: StopReason,
    /// Its tokens.
    pub usage: Usage,
    /// Tool calls whose streamed input was no JSON object: call id and what the model wrote. Their
    /// block holds `{}`.
    pub malformed: Vec<(String, String)>,
}

/// What happens while a response comes in; for display only, the response holds all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// More text.
    Text(String),
    /// More thinking.
    Thinking(String),
    /// A tool call began.
    ToolCall {
        /// The tool.
        name: String,
    },
    /// The answer comes in one piece, although a stream was asked for.
    Whole,
    /// The attempt failed and will be made again, or has to wait before it is made; what was shown of it is
    /// void.
    Retry {
        /// The attempt that comes.
        attempt: u32,
        /// Attempts in all.
        of: u32,
        /// How long from now.
        after: Duration,
        /// What failed, in one line.
        why: String,
    },
}

/// Takes deltas; must not block.
pub trait DeltaSink: Send + Sync {
    /// One more.
    fn delta(&self, delta: Delta);
}

/// A model behind a wire. Dropping the future of [`ModelProvider::respond`] cancels the request.
pub trait ModelProvider: Send + Sync {
    /// The provider's name in `provider:name`.
    fn name(&self) -> &'static str;
    /// Serializes system prompt and tools once, for all requests of a session and its forks.
    fn freeze(&self, model: &str, system: &str, tools: &[ToolDeclaration], tuning: &Tuning) -> PromptPrefix;
    /// What a request begins with whose only tool is the provider's own search of the web; its answer is
    /// for [`super::search::found`]. `None` where the provider has no such tool.
    fn freeze_search(&self, _model: &str, _system: &str, _bounds: &Bounds) -> Option<PromptPrefix> {
        None
    }
    /// Sends a request and takes the whole response.
    fn respond<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>>;
}

/// Why there is no response. `partial` is the text that came before the failure.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{what}")]
pub struct ModelError {
    /// What kind of failure.
    pub kind: ModelErrorKind,
    /// One sentence with status and the provider's own words; never a key.
    pub what: String,
    /// Text that was received before.
    pub partial: String,
    /// How long the provider asked to wait.
    pub retry_after: Option<Duration>,
}

impl ModelError {
    /// A failure without partial text; `what` is one sentence.
    pub fn new(kind: ModelErrorKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), partial: String::new(), retry_after: None }
    }
    /// The same with the text that was received before it.
    pub fn with_partial(self, partial: impl Into<String>) -> Self {
        Self { partial: partial.into(), ..self }
    }
}

/// Kinds of failures, by what to do about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// The key is missing or refused (401, 403): exit 4.
    Credentials,
    /// The request is refused (400, 404, 413 …); repeating it is no use.
    Refused,
    /// The conversation does not fit into the model's context; a shorter one may.
    ContextExceeded,
    /// Too many requests (429).
    RateLimited,
    /// The provider is overloaded or broken (5xx, 529).
    Unavailable,
    /// No connection, or the stream broke or stalled.
    Connection,
    /// The response made no sense.
    Protocol,
    /// The script has no answer or is wrong.
    Script,
}

impl ModelErrorKind {
    /// Whether the same request may succeed later.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::RateLimited | Self::Unavailable | Self::Connection)
    }
}
