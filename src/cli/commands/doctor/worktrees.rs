//! Worktrees that agents have left because there was something in them.

use super::Check;
use crate::agent::worktree::{Carry, KeptList, Nursery};
use crate::cli::environment::Environment;
use crate::cli::teams::children::{Places, Wanted};
use crate::cli::teams::{self, Desk};
use crate::os::guard;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::task::TaskTracker;

/// One check for each that is there and that no living agent works in.
pub async fn checks(desk: &Desk) -> Vec<Check> {
    let used = in_use(desk);
    let nursery = Nursery {
        root: desk.paths.worktrees().to_owned(),
        environment: Arc::new(environment(&desk.environment)),
        guard: PathBuf::from(guard::SELF_EXE),
        carry: Carry::Refuse,
        cleanup: TaskTracker::new(),
        kept: KeptList::default(),
    };
    let mut checks = Vec::new();
    for found in nursery.there().await {
        let kept = match found {
            Ok(kept) if used.contains(&kept.tree.path) => continue,
            Ok(kept) => kept,
            Err(error) => {
                checks.push(Check::problem("worktree", error.to_string(), "look at it with git"));
                continue;
            }
        };
        let what = kept.what.as_deref().unwrap_or("nothing new in it");
        let (path, branch, agent) = (kept.tree.path.display(), &kept.tree.branch, kept.agent());
        checks.push(Check::note(
            "worktree",
            format!("{path} (branch {branch}, agent {agent}): {what}"),
            format!("merge or drop what it holds, then: {}", kept.removal()),
        ));
    }
    checks
}

/// Only looks: git writes no index on the way.
fn environment(environment: &Environment) -> BTreeMap<String, String> {
    let mut all = environment.for_tools(&BTreeMap::new(), "git");
    all.insert("GIT_OPTIONAL_LOCKS".to_owned(), "0".to_owned());
    all
}

/// The worktrees of agents that live.
fn in_use(desk: &Desk) -> HashSet<PathBuf> {
    let mut used = HashSet::new();
    // Teams that cannot be read are told of elsewhere.
    let Ok(teams) = teams::all(&desk.paths) else { return used };
    for team in &teams {
        for member in team.roster.iter().flat_map(|roster| &roster.members) {
            let lives = team.rows.iter().any(|row| row.lives && row.name == member.agent_name);
            used.extend(member.worktree_path.as_ref().filter(|_| lives).map(PathBuf::from));
        }
    }
    let Ok(places) = Places::find(&desk.paths, &teams) else { return used };
    let children = teams.iter().flat_map(|team| places.children(team, Wanted::AtWork));
    let living = children.filter(|child| child.row.lives);
    used.extend(living.filter_map(|child| child.meta.worktree_path).map(PathBuf::from));
    used
}
