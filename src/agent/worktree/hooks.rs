//! What hooks hear of worktrees: that one was made, which they may refuse, and that one is gone, which they
//! may not. They run where the worktree is made and removed: with the agent that starts another one in it.

use super::{Ending, WorktreeLease};
use crate::agent::context::AgentContext;
use crate::agent::gates::{GateEvent, GateTree, Gates, scene_of};
use crate::store::paths::Paths;
use crate::wire::hooks::HookSettings;
use crate::wire::permission::PermissionMode;
use tokio_util::sync::CancellationToken;

/// Whose worktree it is.
pub struct Tenant<'a> {
    /// The agent.
    pub context: &'a AgentContext,
    /// Its mode.
    pub mode: PermissionMode,
    /// The hooks of its definition.
    pub hooks: &'a HookSettings,
}

/// Lets a worktree pass the hooks, which run in it. The good case is what a person should know; refused, it
/// is taken away again, and the error says why.
pub async fn made(
    gates: &dyn Gates,
    paths: &Paths,
    tenant: &Tenant<'_>,
    lease: &WorktreeLease,
) -> Result<Vec<String>, String> {
    let tree = lease.tree();
    let scene = scene_of(paths, tenant.context, &tree.cwd, tenant.mode, tenant.hooks);
    let event = GateEvent::WorktreeCreate(GateTree { path: &tree.path, branch: &tree.branch });
    // Each hook has a time of its own.
    let outcome = gates.pass(&scene, event, &CancellationToken::new()).await;
    let Some(why) = outcome.refusal() else { return Ok(outcome.notices) };
    let refusal = format!("a hook refused its worktree: {why}");
    match lease.end().await {
        Ending::Removed => Err(refusal),
        Ending::Kept(left) => Err(format!("{refusal}; {} is kept all the same: {left}", tree.path.display())),
    }
}

/// Ends a lease, and tells the hooks when that took the worktree away; they run in the session's
/// directory. The second value is what a person should know.
pub async fn ended(
    gates: &dyn Gates,
    paths: &Paths,
    tenant: &Tenant<'_>,
    lease: &WorktreeLease,
) -> (Ending, Vec<String>) {
    let ending = lease.end().await;
    if ending != Ending::Removed {
        return (ending, Vec::new());
    }
    let tree = lease.tree();
    let scene = scene_of(paths, tenant.context, &tenant.context.session_cwd, tenant.mode, tenant.hooks);
    let event = GateEvent::WorktreeRemove(GateTree { path: &tree.path, branch: &tree.branch });
    let outcome = gates.pass(&scene, event, &CancellationToken::new()).await;
    (ending, outcome.notices)
}
