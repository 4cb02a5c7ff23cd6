//! How many agents may be started and run in this process.
//!
//! A place is a value whose drop gives it back. A parent that waits for a foreground child lends the
//! child its place, so that a tree of waiting parents cannot starve its own leaves.

use crate::wire::limits::{MAX_AGENTS, MAX_AGENTS_TOTAL, MAX_DEPTH};
use crate::wire::settings::LimitSettings;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

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
    max_running: usize,
    started: AtomicUsize,
    running: AtomicUsize,
    /// Told whenever a place is given back or a loan returns.
    freed: Notify,
}

/// A place among the running agents.
pub struct Slot {
    slots: Arc<Slots>,
    /// Whose place it is, when it is lent.
    lender: Option<Arc<Slot>>,
    lent: AtomicBool,
}

impl Drop for Slot {
    fn drop(&mut self) {
        match &self.lender {
            Some(lender) => lender.lent.store(false, Ordering::Release),
            None => {
                self.slots.running.fetch_sub(1, Ordering::AcqRel);
            }
        }
        self.slots.freed.notify_waiters();
    }
}

/// The place an agent has now: subagents for their whole life, teammates while they are in a turn.
#[derive(Default)]
pub struct Place(Mutex<Option<Arc<Slot>>>);

impl Place {
    /// A place from the start.
    pub fn of(slot: Option<Arc<Slot>>) -> Self {
        Self(Mutex::new(slot))
    }
    /// Takes or gives up a place.
    pub fn set(&self, slot: Option<Slot>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = slot.map(Arc::new);
    }
    /// The place, to lend to a child.
    pub fn get(&self) -> Option<Arc<Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Slots {
    /// Bounds from the settings, else the defaults.
    pub fn new(limits: &LimitSettings) -> Self {
        Self {
            max_depth: limits.max_depth.unwrap_or(MAX_DEPTH),
            max_total: limits.max_agents_total.unwrap_or(MAX_AGENTS_TOTAL),
            started: AtomicUsize::new(0),
            max_running: limits.max_agents.unwrap_or(MAX_AGENTS).max(1),
            running: AtomicUsize::new(0),
            freed: Notify::new(),
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

    /// A place for an agent: its waiting parent's own when that is not lent already, else the next free
    /// one, whichever comes first.
    pub async fn place(self: &Arc<Self>, parent: Option<&Arc<Slot>>) -> Slot {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // From here on nothing that is given back is missed.
            freed.as_mut().enable();
            if let Some(slot) = self.try_place(parent) {
                return slot;
            }
            freed.await;
        }
    }

    fn try_place(self: &Arc<Self>, parent: Option<&Arc<Slot>>) -> Option<Slot> {
        let slot = |lender| Slot { slots: Arc::clone(self), lender, lent: AtomicBool::new(false) };
        if let Some(parent) = parent
            && parent.lent.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire).is_ok()
        {
            return Some(slot(Some(Arc::clone(parent))));
        }
        let taken = self
            .running
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n < self.max_running).then_some(n + 1));
        taken.is_ok().then(|| slot(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(depth: u32, running: usize, total: usize) -> Arc<Slots> {
        Arc::new(Slots::new(&LimitSettings {
            max_depth: Some(depth),
            max_agents: Some(running),
            max_agents_total: Some(total),
            tool_concurrency: None,
        }))
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
        assert!(parent.lent.load(Ordering::SeqCst));
        drop(grandchild);
        drop(child);
        assert!(!parent.lent.load(Ordering::SeqCst));
        drop(parent);
        assert_eq!(slots.running.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn a_second_child_gets_its_parents_place_when_the_first_returns_it() {
        let slots = slots(9, 1, 9);
        let parent = Arc::new(slots.place(None).await);
        let first = slots.place(Some(&parent)).await;
        let second = slots.place(Some(&parent));
        tokio::pin!(second);
        tokio::select! {
            biased;
            _ = &mut second => panic!("there is no second place yet"),
            () = std::future::ready(()) => {}
        }
        drop(first);
        let second = second.await;
        assert!(second.lender.is_some() && parent.lent.load(Ordering::SeqCst));
    }
}
