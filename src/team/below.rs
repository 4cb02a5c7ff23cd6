//! What works in the background below a teammate: counted in its run record, stopped when it ends.

use super::reporter::Reporter;
use crate::agent::background::Background;
use crate::agent::context::{AgentContext, spawn_in};
use crate::agent::core::AgentCore;
use crate::store::error::StoreError;
use crate::wire::background::StoppedBy;
use crate::wire::ids::{AgentName, BackgroundId};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The work below one teammate. However the teammate ends, what runs below it is stopped.
pub(super) struct Below {
    background: Background,
    name: AgentName,
}

impl Below {
    /// Keeps the count in the record true until `ended`.
    pub(super) fn watch(
        background: &Background,
        context: &AgentContext,
        reporter: &Arc<Reporter>,
        ended: CancellationToken,
    ) -> Self {
        let below = Self { background: background.clone(), name: context.root.clone() };
        let (background, name, reporter) = (background.clone(), context.root.clone(), Arc::clone(reporter));
        let mut changes = background.changes();
        drop(spawn_in(context, async move {
            loop {
                tokio::select! {
                    () = ended.cancelled() => return,
                    changed = changes.changed() => if changed.is_err() { return },
                }
                if reporter.record().background == background.at_work(&name) {
                    continue;
                }
                if let Err(error) = count(&background, &name, &reporter).await {
                    tracing::warn!(%error, "the run record could not be written");
                }
            }
        }));
        below
    }

    /// Stops it, and waits.
    pub(super) async fn stop(&self) {
        self.background.stop_below(&self.name, StoppedBy::AgentEnd).await;
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        self.background.cancel_below(&self.name, StoppedBy::AgentEnd);
    }
}

/// Writes how much works below an agent, as it is at the moment of writing.
pub(super) async fn count(
    background: &Background,
    name: &AgentName,
    reporter: &Reporter,
) -> Result<(), StoreError> {
    reporter.change(|record| record.background = background.at_work(name)).await
}

/// Stops a task that the leader names, if it runs below this agent.
pub(super) fn stop_task(core: &AgentCore, task: BackgroundId) {
    let (background, name) = (core.runtime.background.clone(), core.context.root.clone());
    drop(spawn_in(&core.context, async move {
        if background.root_of(&task).as_ref() == Some(&name) {
            background.stop(&task, StoppedBy::Parent).await;
        }
    }));
}
