//! Between rounds: kinds of agents that have come, changed or gone.

use super::Agent;
use crate::agent::definitions::Pace;
use crate::agent::fork::AGENT_TOOL;
use crate::agent::fork::guard::is_fork;
use crate::agent::kinds::Told;
use crate::store::error::StoreError;
use crate::wire::block::{Block, ChatMessage};

impl Agent {
    /// Tells the model what is new about the kinds that it may start, if it may start any.
    pub(super) async fn tell_kinds(&mut self) -> Result<(), StoreError> {
        if is_fork(&self.core.context) || !self.core.tool_names().iter().any(|name| name == AGENT_TOOL) {
            return Ok(());
        }
        self.core.look_for_kinds(Pace::NowAndThen).await;
        let now = self.core.runtime.definitions.kinds();
        let told = match &mut self.told {
            Some(told) => told,
            None => self.told.insert(Told::find(&now, &self.prefix.tools, &self.history)),
        };
        match told.news(&now) {
            Some(news) => self.record(ChatMessage::user(vec![Block::text(&news)]), None).await.map(drop),
            None => Ok(()),
        }
    }
}
