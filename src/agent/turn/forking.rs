//! What the loop does for forks: it opens the point where they begin, and it begins as one.

use super::Agent;
use crate::agent::context_size;
use crate::agent::core::AgentCore;
use crate::agent::events::AgentEvent;
use crate::agent::fork::AGENT_TOOL;
use crate::agent::fork::point::{Opened, Snapshot};
use crate::agent::fork::seed::behind;
use crate::agent::transcript::{FORK_RECEIPT, NewLine};
use crate::store::error::StoreError;
use crate::wire::block::{Block, ChatMessage, ToolUse};
use crate::wire::event::EventKind;
use crate::wire::fork::{ForkReceipt, ReceiptEnd};
use crate::wire::ids::LineId;
use crate::wire::usage::Usage;
use serde_json::json;
use std::sync::Arc;

impl Agent {
    /// Lets the calls of the message on `line`, which the history ends with, fork the conversation.
    pub(super) fn open_fork_point<'a>(
        &self,
        core: &'a AgentCore,
        calls: &[ToolUse],
        line: LineId,
    ) -> Option<Opened<'a>> {
        if !calls.iter().any(|call| call.name == AGENT_TOOL) {
            return None;
        }
        Some(core.fork_point.open(Snapshot {
            prefix: Arc::clone(&self.prefix),
            tool_names: core.tool_names().to_vec(),
            messages: self.history.to_vec(),
            transcript: self.transcript.path().to_owned(),
            line,
        }))
    }

    /// Gives a fork its directive: on disk by itself, in the history behind the results that it shares.
    pub async fn begin_fork(&mut self, directive: Block) -> Result<(), StoreError> {
        let own = ChatMessage::user(vec![directive]);
        let uuids = self.transcript.append(vec![NewLine::message(&own, None)]).await?;
        let shared = self.forked.as_ref().map(|f| f.placeholders.clone()).unwrap_or_default();
        let message = behind(shared, &own.blocks);
        self.set_filled(self.filled + context_size::of_message(&message));
        Arc::make_mut(&mut self.history).push(message);
        if let Some(uuid) = uuids.into_iter().next_back() {
            self.observe(&AgentEvent::Message { uuid, message: Arc::new(own), response: None });
        }
        Ok(())
    }

    /// What the first request of a fork cost; `None` for other agents, and before the first response.
    pub fn receipt(&self) -> Option<&ForkReceipt> {
        self.forked.as_ref()?.receipt.as_ref()
    }

    /// Writes a fork's receipt when this response is its first.
    pub(super) async fn take_receipt(&mut self, usage: Usage) -> Result<(), StoreError> {
        let Some(forked) = self.forked.as_mut().filter(|f| f.shares && f.receipt.is_none()) else {
            return Ok(());
        };
        let receipt = ForkReceipt {
            shared: forked.shared.clone(),
            cache_read_tokens: usage.cache_read_input_tokens,
            cache_creation_tokens: usage.cache_creation_input_tokens,
            input_tokens: usage.input_tokens,
            ended: None,
        };
        forked.receipt = Some(receipt.clone());
        self.write_receipt(receipt).await
    }

    /// A fork that has compacted its conversation shares it no more: its receipt ends, and says so.
    pub(in crate::agent) async fn end_receipt(&mut self) -> Result<(), StoreError> {
        let Some(forked) = self.forked.as_mut().filter(|f| f.shares) else { return Ok(()) };
        forked.shares = false;
        let Some(receipt) = &mut forked.receipt else { return Ok(()) };
        receipt.ended = Some(ReceiptEnd::Compacted);
        let receipt = receipt.clone();
        self.write_receipt(receipt).await
    }

    async fn write_receipt(&self, receipt: ForkReceipt) -> Result<(), StoreError> {
        let line = NewLine::system(FORK_RECEIPT, receipt.sentence()).with_data(&receipt);
        self.transcript.append(vec![line]).await?;
        let fields =
            json!({ "agentId": self.core.context.id(), "summary": receipt.sentence(), "receipt": receipt });
        self.core.runtime.journal.log(&self.core.context, EventKind::Fork, fields).await;
        self.observe(&AgentEvent::ForkReceipt(receipt));
        Ok(())
    }
}
