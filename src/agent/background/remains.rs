//! What is still under way when the work of a task is over or was cut off: the finalizer of its agent.

use super::Worktree;
use std::sync::{Arc, OnceLock};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// What the registry waits for before it tells of an end, and what that leaves.
#[derive(Debug, Clone, Default)]
pub struct Remains {
    tasks: TaskTracker,
    worktree: Arc<OnceLock<Worktree>>,
}

impl Remains {
    /// As long as the returned value lives, the task is not over.
    pub fn hold(&self) -> TaskTrackerToken {
        self.tasks.token()
    }

    /// A worktree stays.
    pub fn keep(&self, worktree: Worktree) {
        // A run has one.
        let _ = self.worktree.set(worktree);
    }

    /// Waits for it, as long as its own steps may take; the worktree that stays.
    pub(super) async fn gone(&self) -> Option<Worktree> {
        self.tasks.close();
        self.tasks.wait().await;
        self.worktree.get().cloned()
    }
}
