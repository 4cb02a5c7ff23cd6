//! Going on where an earlier process of the agent waited for an answer: those calls first, then the turn.

use super::{Agent, TurnError};
use crate::agent::pipeline;
use crate::wire::block::ChatMessage;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

impl Agent {
    /// Ends the calls of the last message, if some of them wait for an answer since an earlier process.
    pub(in crate::agent) async fn finish_left(
        &mut self,
        cancel: &CancellationToken,
    ) -> Result<(), TurnError> {
        let Some((left, line)) = self.left.take() else { return Ok(()) };
        let calls = self.history.last().map(ChatMessage::tool_uses).unwrap_or_default();
        let core = Arc::clone(&self.core);
        let open = self.open_fork_point(&core, &calls, line);
        let (results, halted) = pipeline::finish_calls(&core, &self.tools, calls, &left, cancel).await;
        drop(open);
        core.broker.close_left(&core.context).await;
        self.take_results(results).await?;
        halted.map_or(Ok(()), |why| Err(TurnError::Halted(why)))
    }
}
