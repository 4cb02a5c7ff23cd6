//! How many agents may be started and run, in the whole tree of a session and all its processes.
//!
//! A place is a value whose drop gives it back, and so is the count of an agent that is being started. A
//! parent that waits for a foreground child lends the child its place, so that a tree of waiting parents
//! cannot starve its own leaves. What all processes share stands in the ledger; waiting for a place costs
//! nothing but a look when the ledger changes.

use super::budget::{Budget, LimitKind, LimitReached};
use super::core::AgentCore;
use super::disk::Disk;
use super::events::AgentEvent;
use super::ports::Changes;
use crate::store::error::StoreError;
use crate::store::ledger::{Granted, Ledger};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Who waits for a place looks again after so long: a process that was killed tells nobody.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Why an agent was not started, or may not go on.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// A limit forbids it.
    #[error(transparent)]
    Reached(#[from] LimitReached),
    /// The ledger could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The ledger as the agents of this process use it.
#[derive(Clone)]
pub struct Shared {
    disk: Disk,
    ledger: Arc<Ledger>,
    changes: Arc<dyn Changes>,
}

impl Shared {
    /// `changes` tells that another process may have changed the ledger.
    pub fn new(disk: Disk, ledger: Ledger, changes: Arc<dyn Changes>) -> Self {
        Self { disk, ledger: Arc::new(ledger), changes }
    }

    /// Runs an operation on the ledger.
    pub async fn with<T: Send + 'static>(
        &self,
        mut job: impl FnMut(&Ledger) -> Result<Option<T>, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let ledger = Arc::clone(&self.ledger);
        self.disk.attempt(&self.file(), move || job(&ledger)).await
    }

    /// The same for whoever cannot wait.
    fn later<T: Send + 'static>(
        &self,
        mut job: impl FnMut(&Ledger) -> Result<Option<T>, StoreError> + Send + 'static,
    ) {
        let ledger = Arc::clone(&self.ledger);
        self.disk.later(&self.file(), move || job(&ledger));
    }

    /// The ledger's file.
    pub fn file(&self) -> PathBuf {
        self.ledger.file()
    }

    /// Resolves when the ledger may have changed since this call.
    pub fn changed(&self) -> super::ports::BoxFuture<'static, ()> {
        self.changes.changed()
    }
}

/// The bounds and what this process has taken of them.
pub struct Slots {
    max_depth: u32,
    shared: Shared,
    /// Agents that run in this process. Changed where the ledger is written, so that both always agree.
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
                let slots = Arc::clone(&self.slots);
                self.slots.shared.later(move |ledger| ledger.run(slots.running.load(Ordering::Acquire)));
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
    /// Has a place again after it was offered: the own one when whoever has it has ended, else another that
    /// comes free before.
    pub async fn retake(&self, slots: &Arc<Slots>) {
        let other = async {
            match slots.place(None).await {
                Ok(slot) => slot,
                // The ledger cannot be written: what is left is to wait for the own one.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.reclaim() => {}
            slot = other => self.set(Some(slot)),
        }
    }

    /// Takes it back: waits until whoever has it has ended.
    async fn reclaim(&self) {
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

/// An agent that is counted and not there yet. Dropped, it was never started.
#[must_use = "dropping it takes the count back"]
pub struct Started(Option<Shared>);

impl Started {
    /// The agent came to be: it counts from now on.
    pub fn stays(mut self) {
        self.0 = None;
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.later(Ledger::undo_start);
        }
    }
}

impl Slots {
    /// The limits of a process that shares this ledger. Nothing runs in it yet.
    pub fn new(max_depth: u32, shared: Shared) -> Self {
        Self { max_depth, shared, running: AtomicUsize::new(0), freed: Notify::new() }
    }

    /// Counts one more agent at `depth`, or says which limit forbids it. The text is for the model that
    /// wanted it.
    pub async fn start(&self, depth: u32) -> Result<Started, LimitError> {
        if depth > self.max_depth {
            let limit = self.max_depth;
            return Err(LimitReached {
                kind: LimitKind::Depth,
                what: format!(
                    "no agent may be started here: it would be at depth {depth}, and the limit is {limit} \
                     (--max-depth, limits.maxDepth); do the work yourself"
                ),
                hint: "--max-depth N, or limits.maxDepth in the settings, allows more".to_owned(),
            }
            .into());
        }
        Budget::new(self.shared.clone()).admit().await?;
        match self.shared.with(Ledger::start).await? {
            Granted::Yes => Ok(Started(Some(self.shared.clone()))),
            Granted::No { taken, limit } => Err(LimitReached {
                kind: LimitKind::AgentsTotal,
                what: format!(
                    "no agent may be started any more: this session has started {taken}, and the limit is {limit} \
                     (--max-agents-total, limits.maxAgentsTotal); do the work yourself"
                ),
                hint: "--max-agents-total N, or limits.maxAgentsTotal in the settings, allows more".to_owned(),
            }
            .into()),
        }
    }

    /// A place for an agent: its waiting parent's own when that is not lent already, else the next free
    /// one, whichever comes first.
    pub async fn place(self: &Arc<Self>, parent: Option<&Arc<Slot>>) -> Result<Slot, StoreError> {
        self.wait_for(|| parent.and_then(|parent| self.lent(parent))).await
    }

    /// A place for what was launched in the background: the next free one, or the one that its launcher
    /// offers while it waits.
    pub async fn place_beside(
        self: &Arc<Self>,
        offered: impl Fn() -> Option<Arc<Slot>>,
    ) -> Result<Slot, StoreError> {
        self.wait_for(|| {
            let slot = offered().and_then(|lender| self.lent(&lender))?;
            // Unless it was taken back meanwhile: the owner looks at the loan after it has said so.
            offered().is_some().then_some(slot)
        })
        .await
    }

    async fn wait_for(self: &Arc<Self>, lent: impl Fn() -> Option<Slot>) -> Result<Slot, StoreError> {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // From here on nothing that is given back is missed.
            freed.as_mut().enable();
            let changed = self.shared.changed();
            if let Some(slot) = lent() {
                return Ok(slot);
            }
            if let Some(slot) = self.try_place().await? {
                return Ok(slot);
            }
            let told = async {
                tokio::select! { () = freed => {} () = changed => {} }
            };
            // Told or not, it looks again.
            let _ = timeout(LOOK_AGAIN, told).await;
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
    pub async fn try_place(self: &Arc<Self>) -> Result<Option<Slot>, StoreError> {
        // The slot is made where the ledger is written: when the caller is gone by then, its drop gives
        // the place back.
        let slots = Arc::clone(self);
        self.shared
            .with(move |ledger| {
                let granted = ledger.run(slots.running.load(Ordering::Acquire) + 1)?;
                Ok(granted.map(|granted| match granted {
                    Granted::No { .. } => None,
                    Granted::Yes => {
                        slots.running.fetch_add(1, Ordering::AcqRel);
                        Some(Slot { slots: Arc::clone(&slots), lender: None, lent: AtomicBool::new(false) })
                    }
                }))
            })
            .await
    }
}

/// The spawns of one agent that were refused, since somebody looked last.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<(usize, Option<LimitReached>)>);

impl Refusals {
    /// One more.
    pub(super) fn note(&self, limit: &LimitReached) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *noted = (noted.0 + 1, Some(limit.clone()));
    }

    /// How many, and the limit that refused the last one.
    pub(super) fn take(&self) -> (usize, Option<LimitReached>) {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Counts one more agent below `parent`; every refusal is a text for its model, and the observer hears of it.
pub async fn count_child(parent: &AgentCore) -> Result<Started, String> {
    let runtime = &parent.runtime;
    let started = runtime.slots.start(parent.context.depth + 1).await;
    started.map_err(|error| {
        if let LimitError::Reached(limit) = &error {
            parent.refusals.note(limit);
            runtime.observer.event(&parent.context, &AgentEvent::LimitReached(limit.clone()));
        }
        error.to_string()
    })
}

#[cfg(test)]
mod tests;
