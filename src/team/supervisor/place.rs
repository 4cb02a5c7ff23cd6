//! The worktrees of members: made before they start, looked at when they have ended. All that `git` does
//! is done in tasks that report back; a `git` that hangs delays its own member and nobody else.

use super::{Order, Work};
use crate::agent::context::spawn_in;
use crate::agent::worktree::{Ending, Nursery, WorktreeLease};
use crate::team::lifecycle::Effect;
use crate::team::spawn::stand_in;
use crate::wire::ids::{AgentName, RunId};
use std::path::Path;

impl Work {
    /// Has its worktree made. When nobody waits for it any more, the lease takes it away again.
    pub(super) fn isolate(&self, name: &AgentName) {
        let Some(charge) = self.members.get(name) else { return };
        let (name, run_id, cwd) = (name.clone(), charge.spec.run_id.clone(), charge.spec.cwd.clone());
        let (agent, orders) = (charge.spec.agent_id.clone(), self.orders.clone());
        let nursery = self.parts.nursery.clone();
        drop(spawn_in(&self.parts.lead, async move {
            let made = nursery.create(&cwd, &agent).await;
            let outcome = made
                .map(|(tree, notices)| (WorktreeLease::new(&nursery, tree), notices))
                .map_err(|error| format!("{error}."));
            // A closed channel means that the leader is ending.
            let _ = orders.send(Order::Isolated { name, run_id, outcome });
        }));
    }

    /// Its worktree is there, or cannot be had.
    pub(super) async fn isolated(
        &mut self,
        name: &AgentName,
        run_id: &RunId,
        outcome: Result<(WorktreeLease, Vec<String>), String>,
    ) {
        if !self.is_current(name, run_id) {
            return;
        }
        let Some(charge) = self.members.get_mut(name).filter(|charge| charge.isolating) else { return };
        charge.isolating = false;
        match outcome {
            Ok((lease, notices)) => {
                stand_in(&mut charge.spec, lease.tree());
                charge.notes.extend(notices);
                charge.lease = Some(lease);
                self.begin(name).await;
            }
            Err(why) => self.not_started(name, why).await,
        }
    }

    /// Whether it has a worktree to be looked at when it ends.
    pub(super) fn has_place(&self, name: &AgentName) -> bool {
        self.members.get(name).is_some_and(|charge| charge.spec.worktree.is_some() && !charge.settling)
    }

    /// Looks at its worktree and then carries out the rest of its end.
    pub(super) fn settle(&mut self, name: &AgentName, effects: Vec<Effect>) {
        let Some(charge) = self.members.get_mut(name) else { return };
        charge.settling = true;
        let (name, run_id, lease) = (name.clone(), charge.spec.run_id.clone(), charge.lease.take());
        let (path, cwd) = (charge.spec.worktree.clone(), charge.spec.cwd.clone());
        let (nursery, orders) = (self.parts.nursery.clone(), self.orders.clone());
        drop(spawn_in(&self.parts.lead, async move {
            let place = match (lease, path) {
                (Some(lease), _) => ended(&lease).await,
                (None, Some(path)) => found_and_ended(&nursery, &path, &cwd).await,
                (None, None) => None,
            };
            let _ = orders.send(Order::Settled { name, run_id, place, effects });
        }));
    }

    pub(super) async fn settled(&mut self, name: &AgentName, place: Option<String>, effects: Vec<Effect>) {
        if let Some(charge) = self.members.get_mut(name) {
            charge.place = place;
        }
        for effect in effects {
            self.carry_out(name, effect).await;
        }
        if let Some(charge) = self.members.get_mut(name) {
            charge.settling = false;
        }
    }
}

/// Takes a worktree away when nothing in it is new; else says that it stays.
async fn ended(lease: &WorktreeLease) -> Option<String> {
    let tree = lease.tree();
    match lease.end().await {
        Ending::Removed => None,
        Ending::Kept(why) => {
            Some(format!("its worktree {} (branch {}) is kept: {why}", tree.path.display(), tree.branch))
        }
    }
}

/// The same for one that an earlier leader has made.
pub(super) async fn found_and_ended(nursery: &Nursery, path: &Path, cwd: &Path) -> Option<String> {
    match nursery.find(path, cwd).await {
        None => Some(format!("its worktree {} is not there any more", path.display())),
        Some(tree) => ended(&WorktreeLease::new(nursery, tree)).await,
    }
}
