//! How an agent ends: the same steps for every tier and every way to end (spec §20).
//!
//! Owns the [`Tenure`] of an agent: from before it is built, a task of its own waits for the end, whether
//! that is said or its owner is dropped by a panic or an abort, and then does the last steps. Promises that
//! they run once, that cutting off the agent's task does not cut them off, and that whoever holds a token
//! of theirs waits for them. Never decides how an agent ended.

#[cfg(test)]
mod tests;

use super::context::{AgentContext, spawn_in};
use super::core::AgentCore;
use std::future::Future;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// An agent in office; dropping it only signals that it was cut off.
pub struct Tenure<E, T> {
    over: oneshot::Sender<E>,
    last: JoinHandle<T>,
}

impl<E: Send + 'static, T: Send + 'static> Tenure<E, T> {
    /// From now on `finalizer` runs when the agent is over, with how it ended; `None` when it was cut off
    /// without a word. `joined` is kept until then: whoever joins the agent waits for that.
    pub fn begin<F>(
        context: &AgentContext,
        joined: TaskTrackerToken,
        finalizer: impl FnOnce(Option<E>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        let (over, ended) = oneshot::channel::<E>();
        let last = spawn_in(context, async move {
            let _joined = joined;
            finalizer(ended.await.ok()).await
        });
        Self { over, last }
    }

    /// Ends it and waits; `None` when the finalizer itself broke off, which is logged.
    pub async fn end(self, end: E) -> Option<T> {
        // It listens until it is told.
        let _ = self.over.send(end);
        self.last.await.inspect_err(|error| tracing::error!(%error, "the end of an agent broke off")).ok()
    }
}

impl AgentCore {
    /// Lets go of what the agent holds in this process: its commands and what was cut off below it, its
    /// files, its list, the conversation that could be forked, its place. Its MCP servers are leased by
    /// its tools and go with them.
    pub async fn let_go(&self) {
        self.shells.end().await;
        self.files.clear();
        self.todos.set([]);
        self.fork_point.clear();
        self.place.set(None);
    }
}
