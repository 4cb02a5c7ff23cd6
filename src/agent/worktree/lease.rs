//! A worktree as long as its agent has it.
//!
//! Promises that a worktree whose agent never came to be, or was cut off, is looked at all the same: when
//! the last lease is dropped without [`WorktreeLease::end`], it is taken away in the background if
//! nothing in it is new, else it stays and the log names it.

use super::{Ending, Nursery, Worktree};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Handle;

/// A share in a worktree; clones are of the same one.
#[derive(Clone)]
pub struct WorktreeLease(Arc<Leased>);

struct Leased {
    tree: Worktree,
    nursery: Nursery,
    ended: AtomicBool,
}

impl WorktreeLease {
    /// Takes care of a worktree from now on.
    pub fn new(nursery: &Nursery, tree: Worktree) -> Self {
        Self(Arc::new(Leased { tree, nursery: nursery.clone(), ended: AtomicBool::new(false) }))
    }

    /// The worktree.
    pub fn tree(&self) -> &Worktree {
        &self.0.tree
    }

    /// Its agent lives, and its owner will end the lease: only dropping it means nothing any more.
    pub fn lives(&self) {
        self.0.ended.store(true, Ordering::Release);
    }

    /// Its agent has ended: takes it away if nothing in it is new, else says why it stays.
    pub async fn end(&self) -> Ending {
        self.0.ended.store(true, Ordering::Release);
        self.0.nursery.finish(&self.0.tree).await
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        // Outside a runtime the process is ending; what is there is found by `git worktree list`.
        if *self.ended.get_mut() || Handle::try_current().is_err() {
            return;
        }
        let (nursery, tree) = (self.nursery.clone(), self.tree.clone());
        self.nursery.cleanup.spawn(async move {
            if let Ending::Kept(why) = nursery.finish(&tree).await {
                tracing::warn!(path = %tree.path.display(), branch = tree.branch, why, "a worktree is kept");
            }
        });
    }
}
