//! Stopping tasks: one of them, those of an agent, all.

use super::{Background, Entry};
use crate::wire::background::{StoppedBy, TaskState};
use crate::wire::ids::{AgentName, BackgroundId};
use futures_util::future::join_all;
use std::sync::Arc;
use std::time::Duration;

/// How long a stopped task may take until its end is told: the grace of its work, its cut, at the end of a
/// session what remains of it, and the writing of it.
const STOP_DEADLINE: Duration = Duration::from_secs(45);

impl Background {
    /// Stops a task and waits for its end; the state it ended in, or `None` when there is no such task at
    /// work. Who stops first is remembered.
    pub async fn stop(&self, task: &BackgroundId, by: StoppedBy) -> Option<TaskState> {
        let entry = self.table().tasks.get(task).cloned()?;
        self.stop_entry(&entry, by).await
    }

    /// Stops everything below a named agent, which ends.
    pub async fn stop_below(&self, root: &AgentName, by: StoppedBy) {
        self.stop_where(by, |entry| &entry.record().root == root).await;
    }

    /// Stops everything, because the session ends: from now on nothing that is stopped waits long for what
    /// remains of it.
    pub async fn stop_all(&self, by: StoppedBy) {
        self.0.ending.cancel();
        self.stop_where(by, |_| true).await;
    }

    /// The same without waiting, for an owner that is gone already.
    pub fn cancel_below(&self, root: &AgentName, by: StoppedBy) {
        let below: Vec<Arc<Entry>> =
            self.table().tasks.values().filter(|e| &e.record().root == root).cloned().collect();
        for entry in below.iter().filter(|entry| !entry.is_over()) {
            entry.record().stopped_by.get_or_insert(by);
            entry.cancel.cancel();
        }
    }

    async fn stop_where(&self, by: StoppedBy, wanted: impl Fn(&Entry) -> bool) {
        let all: Vec<Arc<Entry>> = self.table().tasks.values().filter(|e| wanted(e)).cloned().collect();
        join_all(all.iter().map(|entry| self.stop_entry(entry, by))).await;
    }

    async fn stop_entry(&self, entry: &Entry, by: StoppedBy) -> Option<TaskState> {
        if entry.is_over() {
            return None;
        }
        entry.record().stopped_by.get_or_insert(by);
        entry.cancel.cancel();
        let mut state = entry.state.subscribe();
        let over = tokio::time::timeout(STOP_DEADLINE, state.wait_for(|state| state.is_over())).await;
        match over {
            Ok(Ok(state)) => Some(*state),
            // It is cancelled and its place in the table says so in a moment.
            Ok(Err(_)) | Err(_) => Some(TaskState::Cancelled),
        }
    }
}
