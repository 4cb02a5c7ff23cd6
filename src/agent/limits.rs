//! How many agents may be started and run in this process.
//!
//! A place is a value whose drop gives it back. A parent that waits for a foreground child lends the
//! child its place, so that a tree of waiting parents cannot starve its own leaves.

use crate::wire::limits::{MAX_AGENTS, MAX_AGENTS_TOTAL, MAX_DEPTH};
use crate::wire::settings::LimitSettings;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A limit that refuses a spawn; says which, how it stands and how to raise it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct LimitReached {
    /// One sentence for a model and a person.
    pub what: String,
}

/// The bounds and what is taken of them.
pub struct Slots {
    max_depth: u32,
    max_total: usize,
    started: AtomicUsize,
    running: Arc<Semaphore>,
}

/// A place among the running agents.
pub struct Slot {
    _permit: Option<OwnedSemaphorePermit>,
    lender: Option<Arc<Slot>>,
    lent: AtomicBool,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(lender) = &self.lender {
            lender.lent.store(false, Ordering::Release);
        }
    }
}

impl Slots {
    /// Bounds from the settings, else the defaults.
    pub fn new(limits: &LimitSettings) -> Self {
        Self {
            max_depth: limits.max_depth.unwrap_or(MAX_DEPTH),
            max_total: limits.max_agents_total.unwrap_or(MAX_AGENTS_TOTAL),
            started: AtomicUsize::new(0),
            running: Arc::new(Semaphore::new(
                limits.max_agents.unwrap_or(MAX_AGENTS).clamp(1, Semaphore::MAX_PERMITS),
            )),
        }
    }

    /// Counts one more agent at `depth`, or says which limit forbids it.
    pub fn start(&self, depth: u32) -> Result<(), LimitReached> {
        if depth > self.max_depth {
            return Err(LimitReached {
                what: format!(
                    "no agent may be started here: it would be at depth {depth}, and the limit is {} \
                     (--max-depth, limits.maxDepth); do the work yourself",
                    self.max_depth
                ),
            });
        }
        let counted = self
            .started
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n < self.max_total).then_some(n + 1));
        match counted {
            Ok(_) => Ok(()),
            Err(started) => Err(LimitReached {
                what: format!(
                    "no agent may be started any more: this session has started {started}, and the limit is {} \
                     (--max-agents-total, limits.maxAgentsTotal); do the work yourself",
                    self.max_total
                ),
            }),
        }
    }

    /// Takes back a count whose agent did not come to be.
    pub fn undo_start(&self) {
        self.started.fetch_sub(1, Ordering::AcqRel);
    }

    /// A place for an agent whose parent waits for it: the parent's own when it is not lent already,
    /// else the next free one.
    pub async fn place(&self, parent: Option<&Arc<Slot>>) -> Slot {
        if let Some(parent) = parent
            && parent.lent.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire).is_ok()
        {
            return Slot { _permit: None, lender: Some(Arc::clone(parent)), lent: AtomicBool::new(false) };
        }
        // The semaphore is never closed, so an error cannot come; a place without a permit would be harmless.
        let permit = Arc::clone(&self.running).acquire_owned().await.ok();
        Slot { _permit: permit, lender: None, lent: AtomicBool::new(false) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(depth: u32, running: usize, total: usize) -> Slots {
        Slots::new(&LimitSettings {
            max_depth: Some(depth),
            max_agents: Some(running),
            max_agents_total: Some(total),
            tool_concurrency: None,
        })
    }

    #[test]
    fn depth_and_total_refuse_and_a_failed_start_does_not_count() {
        let slots = slots(1, 1, 2);
        assert!(slots.start(2).expect_err("too deep").what.contains("depth 2"));
        assert_eq!(slots.start(1), Ok(()));
        assert_eq!(slots.start(1), Ok(()));
        assert!(slots.start(1).expect_err("too many").what.contains("has started 2"));
        slots.undo_start();
        assert_eq!(slots.start(1), Ok(()));
    }

    #[tokio::test]
    async fn a_waiting_parent_lends_its_place_once() {
        let slots = slots(9, 1, 9);
        let parent = Arc::new(slots.place(None).await);
        let child = Arc::new(slots.place(Some(&parent)).await);
        let grandchild = slots.place(Some(&child)).await;
        assert!(slots.running.available_permits() == 0 && parent.lent.load(Ordering::SeqCst));
        drop(grandchild);
        drop(child);
        assert!(!parent.lent.load(Ordering::SeqCst));
        drop(parent);
        assert_eq!(slots.running.available_permits(), 1);
    }
}
