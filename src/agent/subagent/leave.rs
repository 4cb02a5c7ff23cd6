//! The finalizer of every subagent and fork, in the foreground and in the background.
//!
//! Its commands end, its last line is written, news that it has not read goes to the agent above it, an inbox that never had mail goes, and a worktree in which
//! nothing is new; of one that was never built nothing stays at all. Only then may it be started again.

use super::Prepared;
use crate::agent::background::{self, Inside, Remains};
use crate::agent::context::AgentContext;
use crate::agent::core::AgentCore;
use crate::agent::events::AgentEvent;
use crate::agent::finalizer::Tenure;
use crate::agent::runtime::Runtime;
use crate::agent::transcript::{NewLine, RUN_ENDED, Transcript};
use crate::agent::turn::Agent;
use crate::agent::worktree::hooks::{self, Tenant};
use crate::agent::worktree::{Ending, Worktree, WorktreeLease};
use crate::store::error::StoreError;
use crate::store::transcript;
use crate::wire::background::TaskState;
use crate::wire::hooks::HookSettings;
use crate::wire::permission::PermissionMode;
use crate::wire::transcript::AgentMeta;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// A worktree that stays when its agent has ended.
pub(super) struct Kept {
    pub(super) tree: Worktree,
    pub(super) why: String,
}

/// How a subagent is in office.
pub(super) struct Office {
    tenure: Tenure<TaskState, Option<Kept>>,
    body: Body,
}

/// What there is of it once it is built.
type Body = Arc<OnceLock<(Arc<AgentCore>, Transcript)>>;

/// Who joins it.
pub(super) enum Joined {
    /// Its parent, whose call waits for it.
    Parent(Inside),
    /// The registry.
    Registry(Remains),
}

struct Estate {
    runtime: Arc<Runtime>,
    context: AgentContext,
    body: Body,
    worktree: Option<WorktreeLease>,
    /// The metadata, where the registry does not keep it.
    record: Option<(PathBuf, AgentMeta)>,
    joined: Joined,
}

impl Office {
    /// Takes care of the end of what is prepared.
    pub(super) fn of(prepared: &Prepared, joined: Joined) -> Self {
        let body = Body::default();
        let (held, record) = match &joined {
            Joined::Parent(_) => {
                (prepared.parent.shells.hold(), Some((prepared.meta_path.clone(), prepared.meta.clone())))
            }
            Joined::Registry(remains) => (remains.hold(), None),
        };
        let estate = Estate {
            runtime: Arc::clone(&prepared.parent.runtime),
            context: prepared.context.clone(),
            body: Arc::clone(&body),
            worktree: prepared.worktree.clone(),
            record,
            joined,
        };
        let last = move |end| async move { estate.settle(end).await };
        Self { tenure: Tenure::begin(&prepared.context, held, last), body }
    }

    /// It is built.
    pub(super) fn built(&self, agent: &Agent) {
        // Once.
        let _ = self.body.set((Arc::clone(agent.core()), agent.transcript().clone()));
    }

    /// Ends it and waits; the worktree that stays.
    pub(super) async fn end(self, end: TaskState) -> Option<Kept> {
        self.tenure.end(end).await.flatten()
    }
}

impl Estate {
    /// Every step, whatever became of the others.
    async fn settle(self, end: Option<TaskState>) -> Option<Kept> {
        let end = end.unwrap_or(TaskState::Cancelled);
        let body = self.body.get();
        if let Some((core, transcript)) = body {
            core.let_go().await;
            let last = NewLine::system(RUN_ENDED, end.as_str());
            self.tell(transcript.append(vec![last]).await.map(drop).map_err(|e| e.to_string()));
        }
        let handed = self.runtime.background.hand_on(&self.context).await;
        self.tell(handed.map_err(|e| e.to_string()));
        let closed = self.runtime.background.post().close(&self.context).await;
        self.tell(closed.map_err(|e| e.to_string()));
        if let Some((path, meta)) = self.record.clone() {
            let meta = body.map(|_| AgentMeta { status: end.as_str().to_owned(), ..meta });
            let file = path.clone();
            let write = move || match &meta {
                Some(meta) => transcript::write_meta(&path, meta),
                None => remove(&path),
            };
            self.tell(self.runtime.disk.run(&file, write).await.map_err(|e| e.to_string()));
        }
        let kept = match &self.worktree {
            None => None,
            Some(lease) => self.leave_worktree(lease).await,
        };
        match (self.joined, &kept) {
            // From here on it can be started again.
            (Joined::Parent(inside), _) => drop(inside),
            (Joined::Registry(remains), Some(Kept { tree, .. })) => remains.keep(background::Worktree {
                path: tree.path.display().to_string(),
                branch: tree.branch.clone(),
            }),
            (Joined::Registry(_), None) => {}
        }
        kept
    }

    /// Its worktree goes, which the hooks are told, or is kept.
    async fn leave_worktree(&self, lease: &WorktreeLease) -> Option<Kept> {
        let none = HookSettings::default();
        let (mode, hooks) = match self.body.get() {
            Some((core, _)) => (core.permissions.mode(), &core.definition.hooks),
            None => (PermissionMode::Default, &none),
        };
        let tenant = Tenant { context: &self.context, mode, hooks };
        let (ending, notices) = hooks::ended(&*self.runtime.gates, &self.runtime.paths, &tenant, lease).await;
        notices.into_iter().for_each(|notice| self.tell(Err(notice)));
        match ending {
            Ending::Removed => None,
            Ending::Kept(why) => Some(Kept { tree: lease.tree().clone(), why }),
        }
    }

    /// What could not be done is shown; the end stands.
    fn tell(&self, done: Result<(), impl Into<String>>) {
        if let Err(why) = done {
            self.runtime.observer.event(&self.context, &AgentEvent::Notice(why.into()));
        }
    }
}

fn remove(path: &std::path::Path) -> Result<(), StoreError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::Io { path: path.to_owned(), doing: "remove", source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
