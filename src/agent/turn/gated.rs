//! Hooks around the turns of an agent: its first words, its last ones, and what the user says between.

use super::{Agent, TurnEnd, TurnError};
use crate::agent::context::Tier;
use crate::agent::events::{AgentEvent, Trigger};
use crate::agent::first::user_message;
use crate::agent::gates::{Answered, GateEvent, GateOutcome, GateVerdict, SessionEnding, SessionSource};
use crate::store::error::StoreError;
use crate::wire::block::{Block, ChatMessage};
use crate::wire::frame::FrameType;
use crate::wire::hooks::HookEvent;
use crate::wire::ids::USER;
use crate::wire::mail::{Claimed, Origin};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// How often hooks may send an agent on in one turn. One that never lets it end would cost without end;
/// eight is more than a hook needs that looks at `stop_hook_active`.
pub const SENT_ON: u32 = 8;

impl Agent {
    /// Tells the hooks that the session begins; what they say goes before the next prompt.
    pub async fn session_starts(&mut self, source: SessionSource, cancel: &CancellationToken) {
        let outcome = self.core.gate(GateEvent::SessionStart(source), cancel).await;
        self.only_tell(HookEvent::SessionStart, &outcome);
        self.keep_context(HookEvent::SessionStart, outcome.context);
    }

    /// Asks the hooks whether the conversation may be compacted.
    ///
    /// # Errors
    /// Why not.
    pub(in crate::agent) async fn may_compact(
        &mut self,
        trigger: Trigger,
        focus: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<(), String> {
        let outcome = self.core.gate(GateEvent::PreCompact { trigger, focus }, cancel).await;
        match outcome.refusal() {
            Some(why) => Err(format!("a hook refused it: {why}")),
            None => Ok(()),
        }
    }

    /// What hooks add to the new beginning of a conversation that was compacted: those at the start of a
    /// session, which has one in its main agent alone, and what is not told yet.
    pub(in crate::agent) async fn after_summary(&mut self, cancel: &CancellationToken) -> Vec<Block> {
        if self.core.context.tier == Tier::Main {
            self.session_starts(SessionSource::Compact, cancel).await;
        }
        self.take_context()
    }

    /// Tells the hooks that the session ends.
    pub async fn session_ends(&self, ending: SessionEnding, cancel: &CancellationToken) {
        let outcome = self.core.gate(GateEvent::SessionEnd(ending), cancel).await;
        self.only_tell(HookEvent::SessionEnd, &outcome);
    }

    /// What the user says, as the blocks that begin a turn.
    pub(super) async fn submitted(
        &mut self,
        text: &str,
        cancel: &CancellationToken,
    ) -> Result<Vec<Block>, TurnError> {
        let outcome = self.core.gate(GateEvent::UserPromptSubmit(text), cancel).await;
        if let Some(why) = outcome.refusal() {
            return Err(TurnError::Refused(why.to_owned()));
        }
        self.keep_context(HookEvent::UserPromptSubmit, outcome.context);
        Ok(user_message(self, text).await)
    }

    /// Tells the hooks once that a subagent begins.
    pub(super) async fn announced(&mut self, cancel: &CancellationToken) -> Result<(), TurnError> {
        if self.core.context.tier != Tier::Subagent || self.announced {
            return Ok(());
        }
        self.announced = true;
        let outcome = self.core.gate(GateEvent::SubagentStart, cancel).await;
        if let Some(why) = outcome.refusal() {
            return Err(TurnError::Refused(why.to_owned()));
        }
        self.keep_context(HookEvent::SubagentStart, outcome.context);
        Ok(())
    }

    /// A prompt with what hooks have said before it; it stays the last block. `None` when neither is there: a
    /// conversation that goes on as it is gets what hooks have said in a message of its own.
    pub(super) fn with_context(&mut self, prompt: Option<Vec<Block>>) -> Option<Vec<Block>> {
        let context = self.take_context();
        let Some(mut blocks) = prompt else { return (!context.is_empty()).then_some(context) };
        let at = blocks.len().saturating_sub(1);
        blocks.splice(at..at, context);
        Some(blocks)
    }

    /// Lets a final answer pass the hooks. True when one of them sends the agent on: what it says is in the
    /// history then.
    pub(super) async fn sent_on(
        &mut self,
        end: &TurnEnd,
        times: u32,
        cancel: &CancellationToken,
    ) -> Result<bool, StoreError> {
        let context = Arc::clone(&self.core.context);
        let answered = Answered { again: times > 0, text: &end.text };
        let team = context.team.get();
        let event = match (context.tier, &context.name) {
            (Tier::Main, _) => GateEvent::Stop(answered),
            (Tier::Teammate, Some(name)) => GateEvent::TeammateIdle { answered, name, team: &team },
            (Tier::Subagent | Tier::Teammate, _) => GateEvent::SubagentStop(answered),
        };
        let kind = event.kind();
        let outcome = self.core.gate(event, cancel).await;
        if let Some(why) = outcome.stop {
            self.tell(format!("a {} hook ended the turn: {why}", kind.as_str()));
            return Ok(false);
        }
        self.keep_context(kind, outcome.context);
        let GateVerdict::Block(why) = outcome.verdict else { return Ok(false) };
        if times >= SENT_ON {
            self.tell(format!(
                "{} hooks have sent the agent on {SENT_ON} times in this turn; it ends",
                kind.as_str()
            ));
            return Ok(false);
        }
        let said = format!("A {} hook does not let you end yet: {why}", kind.as_str());
        let mut blocks = std::mem::take(&mut self.context);
        blocks.push(Block::text(&said));
        self.record(ChatMessage::user(blocks), None).await?;
        Ok(true)
    }

    /// Lets what the user says between rounds pass the hooks. What they refuse is replaced by word of it:
    /// the message counts as delivered either way.
    pub(super) async fn heard(&mut self, mail: &mut [Claimed], cancel: &CancellationToken) {
        let is_users = |c: &&mut Claimed| {
            c.message.from == USER && c.message.kind == FrameType::PeerDm && c.origin == Origin::Team
        };
        for claimed in mail.iter_mut().filter(is_users) {
            let outcome = self.core.gate(GateEvent::UserPromptSubmit(&claimed.message.text), cancel).await;
            let Some(why) = outcome.refusal() else {
                self.keep_context(HookEvent::UserPromptSubmit, outcome.context);
                continue;
            };
            self.tell(format!("a hook refused your message: {why}"));
            claimed.message.text = "[a hook of the user refused this message, so it is not shown]".to_owned();
        }
    }

    /// What hooks have said since the last message, as blocks.
    pub(super) fn take_context(&mut self) -> Vec<Block> {
        std::mem::take(&mut self.context)
    }

    /// The same blocks wait for another message again.
    pub(in crate::agent) fn give_back_context(&mut self, mut blocks: Vec<Block>) {
        blocks.append(&mut self.context);
        self.context = blocks;
    }

    fn keep_context(&mut self, event: HookEvent, texts: Vec<String>) {
        let block = |text: String| Block::text(&format!("A {} hook adds:\n{text}", event.as_str()));
        self.context.extend(texts.into_iter().map(block));
    }

    /// An event at which nothing can be refused: what a hook refuses is shown.
    fn only_tell(&self, event: HookEvent, outcome: &GateOutcome) {
        if let Some(why) = outcome.refusal() {
            self.tell(format!("a {} hook objects: {why}", event.as_str()));
        }
    }

    fn tell(&self, what: String) {
        self.observe(&AgentEvent::Notice(what));
    }
}
