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
            Some(lender) => lender.lent.store(false, Ordering::SeqCst),
            None => {
                self.slots.running.fetch_sub(1, Ordering::AcqRel);
            }
        }
        self.slots.freed.notify_waiters();
    }
}

/// The place an agent has now: subagents for their whole life, teammates while they are in a turn.
#[derive(Default)]
pub struct Place {
    slot: Mutex<Option<Arc<Slot>>>,
    /// Whether the agent waits for what it has launched in the background, which may have the place.
    offered: AtomicBool,
}

impl Place {
    /// A place from the start.
    pub fn of(slot: Option<Arc<Slot>>) -> Self {
        Self { slot: Mutex::new(slot), offered: AtomicBool::new(false) }
    }
    /// Takes or gives up a place.
    pub fn set(&self, slot: Option<Slot>) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = slot.map(Arc::new);
    }
    /// The place, to lend to a child.
    pub fn get(&self) -> Option<Arc<Slot>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Offers the place to what the agent has launched in the background, while it waits for that: a
    /// queued child must not wait for the very place that its waiting parent holds.
    pub fn offer(&self) {
        self.offered.store(true, Ordering::SeqCst);
        if let Some(slot) = self.get() {
            slot.slots.freed.notify_waiters();
        }
    }
    /// The place, if it is offered.
    pub fn offered(&self) -> Option<Arc<Slot>> {
        self.offered.load(Ordering::SeqCst).then(|| self.get()).flatten()
    }
    /// Takes it back: waits until whoever has it has ended.
    pub async fn reclaim(&self) {
        self.offered.store(false, Ordering::SeqCst);
        let Some(slot) = self.get() else { return };
        loop {
            let freed = slot.slots.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if !slot.lent.load(Ordering::SeqCst) {
                return;
            }
            freed.await;
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

    /// A place for what was launched in the background: the next free one, or the one that its launcher
    /// offers while it waits.
    pub async fn place_beside(self: &Arc<Self>, offered: impl Fn() -> Option<Arc<Slot>>) -> Slot {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if let Some(slot) = self.try_place(None) {
                return slot;
            }
            if let Some(slot) = offered().and_then(|lender| self.lent(&lender)) {
                // Unless it was taken back meanwhile: the owner looks at the loan after it has said so.
                if offered().is_some() {
                    return slot;
                }
            }
            freed.await;
        }
    }

    fn lent(self: &Arc<Self>, lender: &Arc<Slot>) -> Option<Slot> {
        let free = lender.lent.compare_exchange(false, true, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        free.then(|| Slot {
            slots: Arc::clone(self),
            lender: Some(Arc::clone(lender)),
            lent: AtomicBool::new(false),
        })
    }

    /// A place if one is free at once.
    pub fn try_place(self: &Arc<Self>, parent: Option<&Arc<Slot>>) -> Option<Slot> {
        if let Some(slot) = parent.and_then(|parent| self.lent(parent)) {
            return Some(slot);
        }
        let taken = self
            .running
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n < self.max_running).then_some(n + 1));
        taken.is_ok().then(|| Slot { slots: Arc::clone(self), lender: None, lent: AtomicBool::new(false) })
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

    #[tokio::test]
    async fn a_launcher_that_waits_offers_its_place_and_gets_it_back() {
        let slots = slots(9, 1, 9);
        let place = Place::of(Some(Arc::new(slots.place(None).await)));
        assert!(slots.try_place(None).is_none());
        let beside = slots.place_beside(|| place.offered());
        tokio::pin!(beside);
        tokio::select! {
            biased;
            _ = &mut beside => panic!("nothing is offered yet"),
            () = std::future::ready(()) => {}
        }
        place.offer();
        let child = beside.await;
        let back = place.reclaim();
        tokio::pin!(back);
        tokio::select! {
            biased;
            () = &mut back => panic!("the child has it"),
            () = std::future::ready(()) => {}
        }
        drop(child);
        back.await;
        assert!(place.offered().is_none() && slots.running.load(Ordering::SeqCst) == 1);
    }
}
