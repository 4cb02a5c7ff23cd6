//! `--worktree`: a session in a git worktree of its own.
//!
//! Owns the worktree from before the session until after its end: made like those of isolated agents, taken
//! away when nothing in it is new, else named with what to do about it. Settings, rules and trust are those of
//! the directory it was started in; paths on the command line are read from there as well.

use super::compose::nursery;
use super::error::CliError;
use super::setup::Setup;
use super::{ending, out};
use crate::agent::worktree::{Ending, Kept, Nursery, Worktree};
use crate::wire::error::ExitKind;
use crate::wire::ids::AgentId;
use uuid::Uuid;

/// The worktree of a session.
pub struct Own {
    nursery: Nursery,
    tree: Worktree,
}

/// The setup of a session in a worktree of its own, when that is asked for.
///
/// # Errors
/// Outside git, without a commit, or with uncommitted changes (unless `worktree.carry` is set); exit 1.
pub async fn enter(mut setup: Setup) -> Result<(Setup, Option<Own>), CliError> {
    if !setup.shared.worktree {
        return Ok((setup, None));
    }
    let nursery = nursery(&setup);
    let agent = AgentId::new(format!("session-{}", &Uuid::new_v4().simple().to_string()[..8]));
    let (tree, notices) = nursery.create(&setup.cwd, &agent).await.map_err(|e| {
        CliError::new(ExitKind::Failed, "worktree", e.to_string(), "without --worktree it works right here")
    })?;
    notices.iter().for_each(out::warning);
    out::error(format_args!("the session works in {} (branch {})", tree.path.display(), tree.branch));
    setup.shared = setup.shared.anchored(&setup.cwd);
    setup.cwd.clone_from(&tree.cwd);
    Ok((setup, Some(Own { nursery, tree })))
}

/// What became of a session, once its worktree is looked after.
pub async fn left<T>(own: Option<Own>, ended: T) -> T {
    if let Some(own) = own {
        own.leave().await;
    }
    ended
}

impl Own {
    /// The session is over: takes the worktree away, or says that it stays.
    async fn leave(self) {
        if let Ending::Kept(what) = self.nursery.finish(&self.tree).await {
            out::warning(ending::kept(&Kept { tree: self.tree, what: Some(what) }));
        }
    }
}
