//! The agent loop: the one place where any agent, of whatever tier, works.
//!
//! A turn is an input and all rounds up to the final answer. Mail is delivered between rounds and only
//! there. Every message is on disk before it is sent on or shown; the history never holds a call
//! without its result.

mod calls;
mod forking;
mod gated;
mod kinds;
mod left;

pub use gated::SENT_ON;

use super::budget::LimitReached;
use super::build::INTERRUPTED;
use super::context::Tier;
use super::context_size;
use super::core::AgentCore;
use super::events::{AgentEvent, ResponseInfo, TurnSummary};
use super::fork::seed::{Forked, fork_ends, request_ends};
use super::kinds::Told;
use super::limits::LimitError;
use super::mail;
use super::mcp::Servers;
use super::pipeline;
use super::ports::{LeftCall, Mailbox};
use super::transcript::{NewLine, Transcript, WARNING};
use crate::model::provider::{
    Anchor, Delta, DeltaSink, ModelError, ModelRequest, ModelResponse, PromptPrefix, RequestTag, StopReason,
};
use crate::os::panic;
use crate::store::error::StoreError;
use crate::tools::set::ToolSet;
use crate::wire::block::{Block, BlockKind, ChatMessage, Role};
use crate::wire::ids::{LineId, MessageId};
use crate::wire::mail::Claimed;
use crate::wire::usage::{Money, Usage};
use futures_util::FutureExt;
use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio_util::sync::CancellationToken;

/// Rounds of refused spawns alone that end a turn: the first refusal says what to do instead, the second may
/// be one that was under way.
const REFUSED_ROUNDS: u32 = 3;
/// Messages taken from the inbox at one boundary.
const MAIL_AT_ONCE: usize = 100;
/// Ends of earlier requests that keep their cache marker beside this one's.
pub(super) const OLD_ANCHORS: usize = 2;

/// What a turn starts with.
#[derive(Debug, Clone)]
pub enum TurnInput {
    /// The spawner's words, with all that belongs to them.
    Prompt(Vec<Block>),
    /// The user's words, as they were said.
    Said(String),
    /// Whatever mail waits.
    Mail,
    /// What the history ends with.
    Continue,
}

/// How a turn ended.
#[derive(Debug)]
pub enum TurnStatus {
    /// With a final answer.
    Completed,
    /// At the limit of rounds: the answer is partial.
    MaxRounds,
    /// By the user, the leader or the end of the process.
    Cancelled,
    /// Without a usable answer.
    Failed(TurnError),
}

/// Why a turn failed.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// The model did not answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The transcript could not be written; nothing further was sent.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The model would not go on.
    #[error("the model stopped: {0}")]
    Stopped(String),
    /// A budget of the session is used up; no further request was begun.
    #[error(transparent)]
    Limit(#[from] LimitReached),
    /// A hook did not let the turn begin.
    #[error("a hook refused it: {0}")]
    Refused(String),
    /// A hook ended the work.
    #[error("a hook stopped the work: {0}")]
    Halted(String),
    /// It did nothing any more but start agents that a limit of the session forbids.
    #[error("it went on starting agents: {0}")]
    Spawns(LimitReached),
    /// Our own code panicked; the words are the panic's.
    #[error("panicked: {0}")]
    Panicked(String),
}

impl From<LimitError> for TurnError {
    fn from(error: LimitError) -> Self {
        match error {
            LimitError::Reached(limit) => Self::Limit(limit),
            LimitError::Store(error) => Self::Store(error),
        }
    }
}

/// The end of a turn.
#[derive(Debug)]
pub struct TurnEnd {
    /// How.
    pub status: TurnStatus,
    /// The final text: of the last assistant message with text, or what came of the one at which the
    /// model failed; empty when there was none.
    pub text: String,
    /// Rounds it took.
    pub rounds: u32,
    /// Tokens of the last response.
    pub last_usage: Usage,
    /// Tool calls that were made.
    pub tool_uses: u32,
    /// True when mail was put into the conversation and no answer of the model came after it: it counts
    /// as read, so whoever owns the agent has to let it answer.
    pub owes_answer: bool,
    /// True when the last response ended at its limit of tokens: the text breaks off.
    pub cut: bool,
    /// True when the last response held no text and no call: the model thought, or said nothing at all.
    pub silent: bool,
}

impl TurnEnd {
    /// True when it ended because a budget of the session is used up.
    pub fn is_limit(&self) -> bool {
        matches!(self.status, TurnStatus::Failed(TurnError::Limit(_)))
    }
}

/// One agent.
pub struct Agent {
    pub(super) core: Arc<AgentCore>,
    pub(super) prefix: Arc<PromptPrefix>,
    pub(super) tools: ToolSet,
    pub(super) servers: Servers,
    /// Where the prefix is kept for a later run.
    pub(super) prefix_file: Option<PathBuf>,
    pub(super) transcript: Transcript,
    mailbox: Option<Arc<dyn Mailbox>>,
    pub(super) history: Arc<Vec<ChatMessage>>,
    /// Where the last requests ended: their cache markers stay.
    pub(super) anchors: Vec<Anchor>,
    delivered: HashSet<MessageId>,
    /// The ids of all calls so far: a history with one twice is refused.
    call_ids: HashSet<String>,
    branch: String,
    /// What hooks have said and the model has not been told.
    context: Vec<Block>,
    /// Whether hooks know that this subagent begins.
    announced: bool,
    max_rounds: Option<u32>,
    rounds: u32,
    pub(super) usage: Usage,
    pub(super) cost: Money,
    /// Of a fork: where its own part begins.
    forked: Option<Forked>,
    /// Tokens of the next request, as far as they are known.
    pub(super) filled: u64,
    /// Below so many tokens no compaction is tried again.
    pub(super) compact_from: u64,
    /// Results in the history that the transcript does not have yet.
    owed: Option<ChatMessage>,
    /// Calls of the last message that wait for an answer since an earlier process, and the line of that
    /// message.
    pub(super) left: Option<(Vec<LeftCall>, LineId)>,
    /// Kinds of agents that its model knows of; looked up at the first round.
    pub(super) told: Option<Told>,
}

/// What one round led to.
enum Round {
    Goes(u32),
    /// The service paused a long answer: the same history is sent again, and nothing is put between.
    Paused,
    Done,
}

impl Agent {
    #[expect(clippy::too_many_arguments, reason = "called once, by `build`, which names each part")]
    pub(super) fn new(
        core: Arc<AgentCore>,
        prefix: Arc<PromptPrefix>,
        tools: ToolSet,
        transcript: Transcript,
        mailbox: Option<Arc<dyn Mailbox>>,
        history: Vec<ChatMessage>,
        delivered: HashSet<MessageId>,
        branch: String,
        max_rounds: Option<u32>,
        (usage, cost): (Usage, Money),
        forked: Option<Forked>,
        filled: Option<u64>,
    ) -> Self {
        let anchors = match &forked {
            Some(forked) => {
                fork_ends(&history, forked.shared_messages, forked.placeholders.len(), OLD_ANCHORS)
            }
            None => request_ends(&history, OLD_ANCHORS),
        };
        let filled = filled.unwrap_or_else(|| context_size::of_request(&prefix, &history));
        let mut agent = Self {
            core,
            prefix,
            tools,
            servers: Servers::default(),
            prefix_file: None,
            transcript,
            mailbox,
            call_ids: history.iter().flat_map(ChatMessage::tool_uses).map(|call| call.id).collect(),
            history: Arc::new(history),
            anchors,
            delivered,
            branch,
            context: Vec::new(),
            announced: false,
            max_rounds,
            rounds: 0,
            usage,
            cost,
            forked,
            filled,
            compact_from: 0,
            owed: None,
            left: None,
            told: None,
        };
        agent.set_filled(filled);
        agent
    }

    /// Notes how much of the context the next request fills.
    pub(super) fn set_filled(&mut self, tokens: u64) {
        self.filled = tokens;
        self.core.context_filled.store(tokens, Ordering::Relaxed);
    }

    /// Who it is and what it shares with its tools.
    pub fn core(&self) -> &Arc<AgentCore> {
        &self.core
    }

    /// The conversation as the model is sent it, its surroundings included.
    pub fn history(&self) -> &[ChatMessage] {
        &self.history
    }

    /// Its transcript.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Its mail.
    pub fn mailbox(&self) -> Option<&Arc<dyn Mailbox>> {
        self.mailbox.as_ref()
    }

    /// Tokens and money so far, those of its earlier runs among them.
    pub fn used(&self) -> (Usage, Money) {
        (self.usage, self.cost)
    }

    /// True before anything was said.
    pub fn is_fresh(&self) -> bool {
        self.history.is_empty()
    }

    /// The branch of its directory, empty outside git.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// Works until there is a final answer, a limit, an error, or `cancel`.
    pub async fn turn(&mut self, input: TurnInput, cancel: &CancellationToken) -> TurnEnd {
        self.observe(&AgentEvent::TurnStarted);
        self.meet_servers().await;
        let mut end = TurnEnd {
            status: TurnStatus::Completed,
            text: String::new(),
            rounds: 0,
            last_usage: Usage::default(),
            tool_uses: 0,
            owes_answer: false,
            cut: false,
            silent: false,
        };
        end.status = match AssertUnwindSafe(self.rounds(input, cancel, &mut end)).catch_unwind().await {
            Ok(Ok(status)) => status,
            Ok(Err(error)) => TurnStatus::Failed(error),
            Err(panic) => {
                let words = panic::words(panic.as_ref()).to_owned();
                self.mend().await;
                TurnStatus::Failed(TurnError::Panicked(words))
            }
        };
        if let TurnStatus::Failed(error) = &end.status {
            // Best effort: the error itself is reported by whoever reads the end.
            let _ = self.transcript.append(vec![NewLine::system(WARNING, error.to_string())]).await;
        }
        if let TurnStatus::Failed(TurnError::Limit(limit)) = &end.status {
            self.observe(&AgentEvent::LimitReached(limit.clone()));
        }
        if let TurnStatus::Failed(TurnError::Model(error)) = &end.status
            && !error.partial.trim().is_empty()
        {
            end.text.clone_from(&error.partial);
        }
        self.observe(&AgentEvent::TurnEnded(TurnSummary {
            rounds: end.rounds,
            usage: self.usage,
            cost: self.cost,
            ok: matches!(end.status, TurnStatus::Completed),
        }));
        end
    }

    /// After a panic: calls that have no result get one, as after the death of a process.
    async fn mend(&mut self) {
        let open = self.history.last().map(ChatMessage::tool_uses).unwrap_or_default();
        if open.is_empty() || self.owed.is_some() {
            return;
        }
        self.core.broker.close_left(&self.core.context).await;
        let results = open.iter().map(|call| Block::tool_result(&call.id, INTERRUPTED, true)).collect();
        if let Err(error) = self.record(ChatMessage::user(results), None).await {
            self.observe(&AgentEvent::Notice(error.to_string()));
        }
    }

    async fn rounds(
        &mut self,
        input: TurnInput,
        cancel: &CancellationToken,
        end: &mut TurnEnd,
    ) -> Result<TurnStatus, TurnError> {
        if let Some(owed) = &self.owed {
            self.transcript.append(vec![NewLine::message(owed, None)]).await?;
            self.owed = None;
        }
        self.finish_left(cancel).await?;
        let goes_on = matches!(input, TurnInput::Continue);
        let blocks = match input {
            TurnInput::Prompt(blocks) => Some(blocks),
            TurnInput::Said(text) => Some(self.submitted(&text, cancel).await?),
            TurnInput::Mail | TurnInput::Continue => None,
        };
        self.announced(cancel).await?;
        let is_said = blocks.is_some();
        // Mail takes what hooks have said along.
        let blocks = if goes_on || is_said { self.with_context(blocks) } else { None };
        if let Some(blocks) = blocks {
            let line = self.record(ChatMessage::user(blocks), None).await?;
            if let Some(line) = line.filter(|_| is_said && self.core.context.tier == Tier::Main) {
                self.core.runtime.checkpoints.begin(line);
            }
        }
        let mut sent_on = 0;
        let mut refused = 0;
        let mut paused = false;
        loop {
            // Before the mail is looked at: what is left unread starts the next turn.
            if cancel.is_cancelled() {
                return Ok(TurnStatus::Cancelled);
            }
            // The same: mail that no request would follow stays unread.
            self.core.runtime.budget.admit().await?;
            if !paused {
                end.owes_answer |= self.deliver_mail(cancel).await?;
                if self.history.last().is_none_or(|m| m.role == Role::Assistant) {
                    // Nothing to answer: the mail that woke us was recorded in an earlier run.
                    return Ok(TurnStatus::Completed);
                }
                self.tell_kinds().await?;
            }
            if self.max_rounds.is_some_and(|max| end.rounds >= max) {
                return Ok(TurnStatus::MaxRounds);
            }
            end.rounds += 1;
            self.rounds += 1;
            self.observe(&AgentEvent::RoundStarted(end.rounds));
            let Some(response) = self.answer(cancel).await? else { return Ok(TurnStatus::Cancelled) };
            end.last_usage = response.usage;
            end.owes_answer = false;
            end.cut = response.stop == StopReason::MaxTokens;
            let round = self.take_response(response, cancel, end).await?;
            paused = matches!(round, Round::Paused);
            match round {
                Round::Goes(calls) => {
                    end.tool_uses += calls;
                    self.only_spawns(calls, &mut refused)?;
                }
                Round::Paused => {}
                Round::Done if self.sent_on(end, sent_on, cancel).await? => sent_on += 1,
                Round::Done => return Ok(TurnStatus::Completed),
            }
        }
    }

    /// Counts rounds in a row in which all it did was to start agents, and a limit forbade each: who does
    /// not see that after some of them never will, and a tree of such agents would not end.
    fn only_spawns(&self, calls: u32, refused: &mut u32) -> Result<(), TurnError> {
        let (count, limit) = self.core.refusals.take();
        let Some(limit) = limit.filter(|_| u32::try_from(count).is_ok_and(|count| count >= calls)) else {
            *refused = 0;
            return Ok(());
        };
        *refused += 1;
        if *refused < REFUSED_ROUNDS { Ok(()) } else { Err(TurnError::Spawns(limit)) }
    }

    /// Sends the history; `None` when cancelled.
    pub(super) async fn ask_model(
        &mut self,
        cancel: &CancellationToken,
    ) -> Result<Option<ModelResponse>, TurnError> {
        let last = self.history.len() - 1;
        let mut anchors = self.anchors.clone();
        if anchors.last() != Some(&Anchor::end_of(last)) {
            anchors.push(Anchor::end_of(last));
        }
        let (messages, sink) = (Arc::clone(&self.history), Deltas(&self.core));
        let Some(response) = self.send(messages, anchors, &sink, cancel).await? else { return Ok(None) };
        if self.anchors.last() != Some(&Anchor::end_of(last)) {
            self.anchors.push(Anchor::end_of(last));
            let surplus = self.anchors.len().saturating_sub(OLD_ANCHORS);
            self.anchors.drain(..surplus);
        }
        Ok(Some(response))
    }

    /// Sends these messages behind the prefix; `None` when cancelled.
    pub(super) async fn send(
        &self,
        messages: Arc<Vec<ChatMessage>>,
        anchors: Vec<Anchor>,
        sink: &dyn DeltaSink,
        cancel: &CancellationToken,
    ) -> Result<Option<ModelResponse>, TurnError> {
        let request = ModelRequest {
            prefix: Arc::clone(&self.prefix),
            messages,
            anchors,
            tag: RequestTag { agent: self.core.context.label().to_owned(), round: self.rounds },
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => Ok(None),
            response = self.core.model.provider.respond(&request, sink) => Ok(Some(response?)),
        }
    }

    /// Records a response and runs its calls.
    async fn take_response(
        &mut self,
        response: ModelResponse,
        cancel: &CancellationToken,
        end: &mut TurnEnd,
    ) -> Result<Round, TurnError> {
        let cost = self.count(response.usage).await;
        let measured = context_size::after_response(&response.usage);
        let info = ResponseInfo {
            cost,
            id: response.id,
            model: response.model,
            usage: response.usage,
            stop_reason: response.stop.as_str().to_owned(),
        };
        let (blocks, renamed) = calls::in_order(response.blocks, &mut self.call_ids);
        let message = ChatMessage::assistant(blocks);
        let mut calls = message.tool_uses();
        for (old, new) in &renamed {
            let what = format!("the model used the call id {old:?} again; the call goes on as {new:?}");
            self.observe(&AgentEvent::Notice(what));
        }
        for (id, text) in response.malformed {
            let id = renamed.iter().find(|(old, _)| *old == id).map_or(id, |(_, new)| new.clone());
            if let Some(call) = calls.iter_mut().find(|c| c.id == id) {
                call.malformed = Some(text);
            }
        }
        let text = message.text();
        end.silent = calls.is_empty() && text.trim().is_empty();
        if !text.trim().is_empty() {
            end.text = text;
        }
        // A message of thinking alone, or of nothing, is refused by models when it is sent back.
        let mut line = None;
        if message.blocks.iter().any(|b| b.kind() != BlockKind::Thinking) {
            line = self.record(message, Some(info)).await?;
        }
        if let Some(tokens) = measured {
            self.set_filled(tokens);
        }
        if let Err(error) = self.take_receipt(response.usage).await {
            // The calls of this message need their results, whatever becomes of the books.
            self.observe(&AgentEvent::Notice(format!("the receipt of this fork was not kept: {error}")));
        }
        if calls.is_empty() {
            return match response.stop {
                StopReason::Refusal => Err(TurnError::Stopped("it refused to answer".to_owned())),
                StopReason::ContextExceeded => Err(TurnError::Stopped("its context is full".to_owned())),
                StopReason::PauseTurn => Ok(Round::Paused),
                _ => Ok(Round::Done),
            };
        }
        let count = u32::try_from(calls.len()).unwrap_or(u32::MAX);
        let core = Arc::clone(&self.core);
        let open = line.and_then(|line| self.open_fork_point(&core, &calls, line));
        let (results, halted) = pipeline::run_calls(&core, &self.tools, calls, cancel).await;
        drop(open);
        self.take_results(results).await?;
        halted.map_or(Ok(Round::Goes(count)), |why| Err(TurnError::Halted(why)))
    }

    /// Records the results of all calls of the last message.
    async fn take_results(&mut self, results: Vec<Block>) -> Result<(), TurnError> {
        let results = ChatMessage::user(results);
        if let Err(error) = self.record(results.clone(), None).await {
            // The calls have run: without their results the history would be refused from here on. On
            // disk they are missing until the next turn begins; a run that starts before is told that
            // their effects are unknown.
            self.set_filled(self.filled + context_size::of_message(&results));
            Arc::make_mut(&mut self.history).push(results.clone());
            self.owed = Some(results);
            return Err(error.into());
        }
        self.book_side_requests().await?;
        Ok(())
    }

    /// What the tools of this round have asked models counts as the agent's.
    async fn book_side_requests(&mut self) -> Result<(), StoreError> {
        let used = self.core.side.take();
        for used in &used {
            self.usage += used.usage;
            self.cost += used.cost;
        }
        if used.is_empty() {
            return Ok(());
        }
        self.transcript.append(used.iter().map(|used| used.line()).collect()).await.map(drop)
    }

    /// Puts waiting mail at the end of the history: on disk first, then acknowledged.
    /// True when there was some.
    async fn deliver_mail(&mut self, cancel: &CancellationToken) -> Result<bool, TurnError> {
        let Some(mailbox) = self.mailbox.clone() else { return Ok(false) };
        let claimed = match mailbox.claim(MAIL_AT_ONCE).await {
            Ok(claimed) => claimed,
            Err(error) => {
                self.observe(&AgentEvent::Notice(format!("mail could not be read: {error}")));
                return Ok(false);
            }
        };
        if claimed.is_empty() {
            return Ok(false);
        }
        let ids: Vec<MessageId> = claimed.iter().map(|c| c.id.clone()).collect();
        let mut new: Vec<Claimed> = claimed.into_iter().filter(|c| !self.delivered.contains(&c.id)).collect();
        let any = !new.is_empty();
        if any {
            self.heard(&mut new, cancel).await;
            let mut blocks = mail::render(&new);
            blocks.extend(self.take_context());
            let message = ChatMessage::user(blocks);
            let new_ids: Vec<MessageId> = new.iter().map(|c| c.id.clone()).collect();
            let lines = vec![NewLine::delivered(new_ids.clone()), NewLine::message(&message, None)];
            let uuids = self.transcript.append(lines).await?;
            self.delivered.extend(new_ids);
            self.push(message, None, uuids);
            self.observe(&AgentEvent::MailDelivered(new.into()));
        }
        match mailbox.ack(&ids).await {
            // Acknowledged mail never comes again, so its ids need not be remembered.
            Ok(()) => ids.iter().for_each(|id| drop(self.delivered.take(id))),
            Err(error) => {
                self.observe(&AgentEvent::Notice(format!("mail could not be acknowledged: {error}")))
            }
        }
        Ok(any)
    }

    /// On disk, then in the history; gives the line.
    async fn record(
        &mut self,
        message: ChatMessage,
        info: Option<ResponseInfo>,
    ) -> Result<Option<LineId>, StoreError> {
        let blocks = self.core.runtime.mask.blocks(message.blocks.to_vec());
        let message = ChatMessage { blocks: blocks.into(), ..message };
        let uuids = self.transcript.append(vec![NewLine::message(&message, info.as_ref())]).await?;
        let line = uuids.last().cloned();
        self.push(message, info, uuids);
        Ok(line)
    }

    fn push(&mut self, message: ChatMessage, response: Option<ResponseInfo>, uuids: Vec<LineId>) {
        Arc::make_mut(&mut self.history).push(message.clone());
        self.set_filled(self.filled + context_size::of_message(&message));
        if let Some(uuid) = uuids.into_iter().next_back() {
            self.observe(&AgentEvent::Message { uuid, message: Arc::new(message), response });
        }
    }

    pub(super) fn observe(&self, event: &AgentEvent) {
        self.core.runtime.observer.event(&self.core.context, event);
    }
}

struct Deltas<'a>(&'a AgentCore);

impl DeltaSink for Deltas<'_> {
    fn delta(&self, delta: Delta) {
        self.0.runtime.observer.event(&self.0.context, &AgentEvent::Delta(delta));
    }
}
