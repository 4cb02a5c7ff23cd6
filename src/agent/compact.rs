//! Compaction: a conversation that is near the end of its context goes on from a summary (spec §23).
//!
//! Owns when it happens, what is summarized, and what stays. Promises that the history is replaced only
//! once the new beginning is on disk, that on any failure it stays as it was and somebody is told, that no
//! call is parted from its result, and that nothing here runs in circles. The prefix is never touched.

mod cut;

use super::context_size;
use super::events::{AgentEvent, Compaction, Trigger};
use super::first;
use super::kept;
use super::modes;
use super::transcript::{COMPACT_BOUNDARY, NewLine};
use super::turn::{Agent, TurnError};
use crate::model::provider::{
    Anchor, Delta, DeltaSink, ModelError, ModelErrorKind, ModelResponse, StopReason,
};
use crate::wire::block::{Block, ChatMessage};
use crate::wire::ledger::Used;
use crate::wire::usage::{Money, Usage};
use cut::Cut;
use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Rounds that stay as they are, at most.
const KEPT_ROUNDS: usize = 4;
/// What they may take of the model's context: one part in so many.
const KEPT_SHARE: u64 = 5;
/// How much fuller the context has to be before it is tried again: one part in so many.
const STEP: u64 = 10;
/// Tokens left for the summary when all of the conversation is sent along.
const SUMMARY_ROOM: u64 = 4_000;
/// Asked once more when the answer holds no text.
const TRIES: usize = 2;
/// Added for that.
const AGAIN: &str = "\n\nYour last answer held no text. Write the summary now, without calling a tool.";

/// What came of a compaction.
#[derive(Debug)]
pub enum Compacted {
    /// The conversation goes on from its summary.
    Done(Compaction),
    /// There is nothing that could be summarized.
    Nothing,
    /// The summary that was asked for would make it longer: it is as it was. Told already.
    NoShorter,
    /// It was cancelled.
    Cancelled,
    /// The conversation is as it was; why.
    Failed(String),
}

/// A summary and what it cost.
struct Summary {
    text: String,
    usage: Usage,
}

/// Why there is no summary.
enum NoSummary {
    Cancelled,
    Why(String),
}

impl Agent {
    /// Sends the history, after a compaction when one is due, and once more after one when the provider
    /// says that the context is full. `None` when cancelled.
    pub(super) async fn answer(
        &mut self,
        cancel: &CancellationToken,
    ) -> Result<Option<ModelResponse>, TurnError> {
        if self.is_compaction_due() {
            match self.compact(Trigger::Auto, None, cancel).await {
                Compacted::Cancelled => return Ok(None),
                // Its request may have been the last one the budget had.
                Compacted::Done(_) | Compacted::NoShorter | Compacted::Failed(_) => {
                    self.core.runtime.budget.admit().await?;
                }
                Compacted::Nothing => {}
            }
        }
        let first = self.ask_model(cancel).await;
        let error = match &first {
            Err(TurnError::Model(error)) if error.kind == ModelErrorKind::ContextExceeded => error.clone(),
            Ok(Some(response)) if breaks_off(response) => {
                ModelError::new(ModelErrorKind::ContextExceeded, "the model's context is full")
            }
            _ => return first,
        };
        if let Ok(Some(response)) = &first {
            // What was said so far is void; its tokens are not.
            self.count(response.usage).await;
        }
        if !self.core.runtime.compaction.enabled {
            return Err(error.into());
        }
        match self.compact(Trigger::Full, None, cancel).await {
            Compacted::Cancelled => Ok(None),
            Compacted::Done(_) => {
                self.core.runtime.budget.admit().await?;
                match self.ask_model(cancel).await? {
                    Some(response) if breaks_off(&response) => {
                        self.count(response.usage).await;
                        Err(self.too_large(&error).into())
                    }
                    answer => Ok(answer),
                }
            }
            Compacted::Nothing | Compacted::NoShorter => Err(self.too_large(&error).into()),
            Compacted::Failed(why) => {
                let what = format!("{error}; and the conversation could not be compacted: {why}");
                Err(ModelError::new(ModelErrorKind::ContextExceeded, what).into())
            }
        }
    }

    /// Compacts on demand; `focus` is what the person wants kept above all.
    pub async fn compact_now(&mut self, focus: Option<&str>, cancel: &CancellationToken) -> Compacted {
        if let Err(error) = self.finish_left(cancel).await {
            self.observe(&AgentEvent::Notice(error.to_string()));
        }
        self.compact(Trigger::Manual, focus, cancel).await
    }

    fn is_compaction_due(&self) -> bool {
        let settings = &self.core.runtime.compaction;
        let limit = share(self.core.model.context_tokens, settings.threshold);
        settings.enabled && self.filled >= limit && self.filled >= self.compact_from
    }

    /// Nothing can be taken away, and it does not fit.
    fn too_large(&self, error: &ModelError) -> ModelError {
        let last = self.history.last().map(context_size::of_message).unwrap_or_default();
        let what = format!(
            "{error}; there is nothing left to compact: the last message alone is about {last} tokens, and {} takes {}",
            self.core.model.full, self.core.model.context_tokens
        );
        ModelError::new(ModelErrorKind::ContextExceeded, what)
    }

    async fn compact(
        &mut self,
        trigger: Trigger,
        focus: Option<&str>,
        cancel: &CancellationToken,
    ) -> Compacted {
        let before = self.filled;
        let outcome = self.try_compact(trigger, focus, cancel).await;
        match &outcome {
            Compacted::Done(done) => {
                self.compact_from = done.post_tokens + self.step();
                self.observe(&AgentEvent::Compacted(done.clone()));
                if let Err(error) = self.end_receipt().await {
                    self.observe(&AgentEvent::Notice(format!(
                        "the end of a receipt could not be written: {error}"
                    )));
                }
            }
            Compacted::Failed(why) => {
                self.compact_from = before + self.step();
                let what = format!("the conversation was not compacted and stays as it is: {why}");
                self.observe(&AgentEvent::Notice(what));
            }
            // A longer conversation may have something.
            Compacted::Nothing | Compacted::NoShorter => self.compact_from = before + self.step(),
            Compacted::Cancelled => {}
        }
        outcome
    }

    fn step(&self) -> u64 {
        (self.core.model.context_tokens / STEP).max(1)
    }

    async fn try_compact(
        &mut self,
        trigger: Trigger,
        focus: Option<&str>,
        cancel: &CancellationToken,
    ) -> Compacted {
        let room = self.core.model.context_tokens / KEPT_SHARE;
        let Some(cut) = Cut::find(&self.history, KEPT_ROUNDS, room) else { return Compacted::Nothing };
        if trigger == Trigger::Manual && cut::is_all_kept(&self.history, KEPT_ROUNDS, room) {
            return Compacted::Nothing;
        }
        let allowed = self.may_compact(trigger, focus, cancel).await;
        if cancel.is_cancelled() {
            return Compacted::Cancelled;
        }
        if let Err(why) = allowed {
            return Compacted::Failed(why);
        }
        self.observe(&AgentEvent::Compacting(trigger));
        let pre_tokens = self.filled;
        let summary = match self.summarize(trigger, &cut, focus, cancel).await {
            Ok(summary) => summary,
            Err(NoSummary::Cancelled) => return Compacted::Cancelled,
            Err(NoSummary::Why(why)) => return Compacted::Failed(why),
        };
        let beginning = self.beginning(&summary.text).await;
        let kept = self.history.len() - cut.start;
        let mut history = Vec::with_capacity(kept + 1);
        history.push(ChatMessage::user(beginning.clone()));
        history.extend_from_slice(&self.history[cut.start..]);
        let post_tokens = context_size::of_request(&self.prefix, &history);
        if post_tokens >= pre_tokens {
            let why =
                format!("with its summary it would be no shorter ({post_tokens} tokens after {pre_tokens})");
            if trigger != Trigger::Manual {
                return Compacted::Failed(why);
            }
            self.observe(&AgentEvent::Notice(format!("the conversation stays as it is: {why}")));
            return Compacted::NoShorter;
        }
        // Told once nothing but the disk can prevent it any more; what they say then waits for the next
        // message.
        let from_hooks = self.after_summary(cancel).await;
        let message = ChatMessage::user(beginning.into_iter().chain(from_hooks.iter().cloned()).collect());
        history[0] = message.clone();
        let post_tokens = context_size::of_request(&self.prefix, &history);
        let data = json!({
            "trigger": trigger.as_str(), "preTokens": pre_tokens, "postTokens": post_tokens,
            "keptMessages": kept, "usage": summary.usage, "model": self.core.model.full,
        });
        let text = format!("compacted from about {pre_tokens} to {post_tokens} tokens");
        let lines =
            vec![NewLine::system(COMPACT_BOUNDARY, text).with_data(&data), NewLine::message(&message, None)];
        let uuids = match self.transcript.append(lines).await {
            Ok(uuids) => uuids,
            Err(error) => {
                self.give_back_context(from_hooks);
                return Compacted::Failed(error.to_string());
            }
        };
        self.history = Arc::new(history);
        self.anchors.clear();
        // A notice of new kinds of agents may be gone with the rest.
        self.told = None;
        self.set_filled(post_tokens);
        let cost = self.core.runtime.prices.cost(&self.core.model.full, &summary.usage);
        let usage = summary.usage;
        let uuid = uuids.into_iter().next();
        Compacted::Done(Compaction {
            uuid,
            trigger,
            pre_tokens,
            post_tokens,
            kept_messages: kept,
            usage,
            cost,
        })
    }

    /// The message that takes the place of what is summarized: the surroundings, the summary, and what
    /// must not be forgotten.
    async fn beginning(&self, summary: &str) -> Vec<Block> {
        let mut blocks = first::surroundings(&self.core, self.branch()).await;
        blocks.push(Block::text(&format!(
            "<conversation-summary>\nWhat was said before this was summarized to make room; the user sees all of it, \
             you see this:\n\n{}\n</conversation-summary>",
            summary.trim()
        )));
        let mut parts = kept::todos(&self.core);
        parts.extend(kept::background(&self.core));
        parts.extend(self.core.runtime.kept.gather(&self.core).await);
        parts.extend(kept::files(&self.core, &self.history).await);
        blocks.extend(parts.iter().map(kept::Kept::block));
        blocks.extend(modes::reminder(&self.core).map(Block::text));
        blocks
    }

    /// Asks the same model, in the same conversation, so that what it has cached is read. What does not
    /// fit any more is left out from the end, which stays anyway, then from the beginning.
    async fn summarize(
        &mut self,
        trigger: Trigger,
        cut: &Cut,
        focus: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<Summary, NoSummary> {
        let window = self.core.model.context_tokens;
        let whole = trigger != Trigger::Full && self.filled + SUMMARY_ROOM < window;
        let mut attempts: Vec<Vec<ChatMessage>> = Vec::new();
        if whole {
            attempts.push(self.history.to_vec());
        }
        attempts.push(self.history[..cut.start].to_vec());
        attempts.extend(cut::shortened(&self.history[..cut.start], window / 2));
        let mut why = String::new();
        for (number, messages) in attempts.into_iter().enumerate() {
            let rest = match (whole && number == 0, self.history.len() - cut.start) {
                (_, 0) => "Whoever goes on has nothing else but it.".to_owned(),
                (true, kept) => format!(
                    "The last {kept} messages before this one stay as they are, after it; of all the rest whoever \
                     goes on has nothing else but it."
                ),
                (false, _) => {
                    "A few messages that follow on this stay as they are, after it; of all the rest \
                               whoever goes on has nothing else but it."
                        .to_owned()
                }
            };
            match self.ask_for_summary(messages, &rest, focus, cancel).await {
                Err(TurnError::Model(error)) if error.kind == ModelErrorKind::ContextExceeded => {
                    why = error.to_string();
                }
                Err(error) => return Err(NoSummary::Why(error.to_string())),
                Ok(None) => return Err(NoSummary::Cancelled),
                Ok(Some(summary)) => return Ok(summary),
            }
        }
        Err(NoSummary::Why(why))
    }

    async fn ask_for_summary(
        &mut self,
        messages: Vec<ChatMessage>,
        rest: &str,
        focus: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<Option<Summary>, TurnError> {
        let focus =
            focus.map(|f| format!("\n\nThe user asks you to keep this above all: {f}")).unwrap_or_default();
        let ask =
            include_str!("prompts/compact.md").trim().replace("{rest}", rest).replace("{focus}", &focus);
        let end = Anchor::end_of(messages.len().saturating_sub(1));
        let mut anchors: Vec<Anchor> = self.anchors.iter().copied().filter(|a| *a < end).collect();
        anchors.push(end);
        let mut usage = Usage::default();
        for attempt in 0..TRIES {
            let words = if attempt == 0 { ask.clone() } else { format!("{ask}{AGAIN}") };
            let mut request = messages.clone();
            request.push(ChatMessage::user(vec![Block::text(&words)]));
            self.core.runtime.budget.admit().await?;
            let sink = Retries(self);
            let Some(response) = self.send(Arc::new(request), anchors.clone(), &sink, cancel).await? else {
                return Ok(None);
            };
            usage += response.usage;
            self.count(response.usage).await;
            if response.stop == StopReason::Refusal {
                return Err(TurnError::Stopped("the model refused to summarize".to_owned()));
            }
            let text = ChatMessage::assistant(response.blocks).text();
            if !text.trim().is_empty() {
                return Ok(Some(Summary { text, usage }));
            }
            if response.stop == StopReason::ContextExceeded {
                return Err(ModelError::new(ModelErrorKind::ContextExceeded, "no room for a summary").into());
            }
        }
        Err(TurnError::Stopped("the model called tools instead of writing a summary".to_owned()))
    }

    /// Adds tokens that were used to the sums; returns their price.
    pub(super) async fn count(&mut self, usage: Usage) -> Money {
        let runtime = Arc::clone(&self.core.runtime);
        let cost = runtime.prices.cost(&self.core.model.full, &usage);
        self.usage += usage;
        self.cost += cost;
        runtime.tally.count(&self.core.model.full, usage, cost);
        let used = Used { usage, cost };
        if let Err(error) = runtime.budget.count(&self.core.context, &self.core.model.full, used).await {
            // The answer is there and paid for; the next request is refused when the ledger stays broken.
            self.observe(&AgentEvent::Notice(format!("what a response has used was not counted: {error}")));
        }
        cost
    }
}

/// An answer that the end of the context has cut, with nothing to go on from.
fn breaks_off(response: &ModelResponse) -> bool {
    use crate::wire::block::BlockKind;
    response.stop == StopReason::ContextExceeded
        && !response.blocks.iter().any(|b| b.kind() == BlockKind::ToolUse)
}

/// A share of a model's context, in tokens.
fn share(tokens: u64, share: f64) -> u64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive share of a number far below 2^53"
    )]
    let part = (tokens as f64 * share) as u64;
    part
}

/// Shows retries; the summary itself is not what the person waits for.
struct Retries<'a>(&'a Agent);

impl DeltaSink for Retries<'_> {
    fn delta(&self, delta: Delta) {
        if matches!(delta, Delta::Retry { .. }) {
            self.0.observe(&AgentEvent::Delta(delta));
        }
    }
}
