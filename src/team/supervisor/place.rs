//! The worktrees of members: made before they start, looked at when they have ended. All that `git` does
//! is done in tasks that report back; a `git` that hangs delays its own member and nobody else.

use super::{Order, SupervisorParts, Work};
use crate::agent::context::{AgentContext, spawn_in};
use crate::agent::worktree::hooks::{self, Tenant};
use crate::agent::worktree::{Ending, Nursery, WorktreeLease};
use crate::team::lifecycle::Effect;
use crate::team::spawn::stand_in;
use crate::team::teammate;
use crate::wire::event::EventKind;
use crate::wire::ids::{AgentName, RunId};
use crate::wire::worker::WorkerSpec;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

impl Work {
    /// Has its worktree made. When nobody waits for it any more, the lease takes it away again.
    pub(super) fn isolate(&self, name: &AgentName) {
        let Some(charge) = self.members.get(name) else { return };
        let (name, run_id, spec) = (name.clone(), charge.spec.run_id.clone(), charge.spec.clone());
        let (parts, orders) = (Arc::clone(&self.parts), self.orders.clone());
        drop(spawn_in(&self.parts.lead, async move {
            let outcome = made(&parts, &spec).await.map_err(|why| format!("{why}."));
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
        let (parts, spec, orders) = (Arc::clone(&self.parts), charge.spec.clone(), self.orders.clone());
        drop(spawn_in(&self.parts.lead, async move {
            let place = ended(&parts, &spec, lease).await;
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

/// Makes a worktree for a member, if the hooks let it; with what its leader should know.
async fn made(parts: &SupervisorParts, spec: &WorkerSpec) -> Result<(WorktreeLease, Vec<String>), String> {
    let nursery = &parts.nursery;
    let made = nursery.create(&spec.cwd, &spec.agent_id).await;
    let (tree, mut notices) = made.map_err(|error| error.to_string())?;
    let lease = WorktreeLease::new(nursery, tree);
    let context = teammate::context(spec);
    let paths = parts.team.paths.paths();
    notices.extend(hooks::made(&*parts.gates, paths, &tenant(&context, spec), &lease).await?);
    Ok((lease, notices))
}

/// Takes the worktree of one that has ended away when nothing in it is new; else says that it stays.
/// Without a lease it is one that an earlier leader has made.
async fn ended(parts: &SupervisorParts, spec: &WorkerSpec, lease: Option<WorktreeLease>) -> Option<String> {
    let lease = match (lease, &spec.worktree) {
        (Some(lease), _) => lease,
        (None, None) => return None,
        (None, Some(path)) => match parts.nursery.find(path, &spec.cwd).await {
            None => return Some(gone(path)),
            Some(tree) => WorktreeLease::new(&parts.nursery, tree),
        },
    };
    let context = teammate::context(spec);
    let paths = parts.team.paths.paths();
    let (ending, notices) = hooks::ended(&*parts.gates, paths, &tenant(&context, spec), &lease).await;
    for notice in notices {
        let fields = json!({ "reason": notice });
        parts.team.log(EventKind::Notice, &spec.name, spec.incarnation, fields).await;
    }
    stays(&lease, ending)
}

/// The same for a member of which nothing but its row is left.
pub(super) async fn found_and_ended(nursery: &Nursery, path: &Path, cwd: &Path) -> Option<String> {
    match nursery.find(path, cwd).await {
        None => Some(gone(path)),
        Some(tree) => {
            let lease = WorktreeLease::new(nursery, tree);
            let ending = lease.end().await;
            stays(&lease, ending)
        }
    }
}

fn tenant<'a>(context: &'a AgentContext, spec: &'a WorkerSpec) -> Tenant<'a> {
    Tenant { context, mode: spec.permission_mode, hooks: &spec.definition.hooks }
}

fn gone(path: &Path) -> String {
    format!("its worktree {} is not there any more", path.display())
}

fn stays(lease: &WorktreeLease, ending: Ending) -> Option<String> {
    let tree = lease.tree();
    match ending {
        Ending::Removed => None,
        Ending::Kept(why) => {
            Some(format!("its worktree {} (branch {}) is kept: {why}", tree.path.display(), tree.branch))
        }
    }
}
