//! Looking at tasks: for tools, status lines, and whoever asks whether all is quiet.

use super::progress::Doing;
use super::{Background, Entry};
use crate::agent::context::AgentContext;
use crate::agent::ports::BackgroundTask;
use crate::store::background;
use crate::store::error::StoreError;
use crate::wire::background::{TaskKind, TaskRecord, TaskState};
use crate::wire::ids::{AgentId, AgentName, BackgroundId};
use std::sync::Arc;
use tokio::sync::{OwnedMutexGuard, watch};

/// A task as it is now.
#[derive(Debug, Clone)]
pub struct TaskView {
    /// Its record.
    pub record: TaskRecord,
    /// What it does; of a task of an earlier process nothing is known.
    pub doing: Doing,
}

impl Entry {
    fn view(&self) -> TaskView {
        let mut record = self.record().clone();
        // A state counts once it is announced.
        record.state = *self.state.borrow();
        TaskView { record, doing: self.seen.now() }
    }
}

impl Background {
    fn entry(&self, word: &str) -> Option<Arc<Entry>> {
        let table = self.table();
        if let Some(entry) = table.tasks.get(&BackgroundId::new(word)) {
            return Some(Arc::clone(entry));
        }
        let named = |e: &&Arc<Entry>| e.record().name.as_ref().is_some_and(|n| n.as_str() == word);
        table.tasks.values().filter(named).max_by_key(|e| e.number).cloned()
    }

    /// The task with this id or registered name, also one of an earlier process of the session.
    pub async fn find(&self, context: &AgentContext, word: &str) -> Result<Option<TaskView>, StoreError> {
        if let Some(entry) = self.entry(word) {
            return Ok(Some(entry.view()));
        }
        let project = self.0.parts.paths.project(&context.session_cwd);
        let (session, word) = (context.session.clone(), word.to_owned());
        let dir = project.background_dir(&session);
        let found = self.0.parts.disk.run(&dir, move || {
            if let Some(record) = background::load(&project, &session, &BackgroundId::new(word.as_str()))? {
                return Ok(Some(record));
            }
            let (all, _) = background::list(&project, &session)?;
            Ok(all.into_iter().rfind(|r| r.name.as_ref().is_some_and(|n| n.as_str() == word)))
        });
        Ok(found.await?.map(|record| TaskView { record, doing: Doing::default() }))
    }

    /// All tasks of this process, in the order of their launches.
    pub fn views(&self) -> Vec<TaskView> {
        let mut all: Vec<Arc<Entry>> = self.table().tasks.values().cloned().collect();
        all.sort_by_key(|entry| entry.number);
        all.iter().map(|entry| entry.view()).collect()
    }

    /// The named agent below which a task of this process runs.
    pub fn root_of(&self, task: &BackgroundId) -> Option<AgentName> {
        self.table().tasks.get(task).map(|entry| entry.record().root.clone())
    }

    /// Resolves when a task does something else.
    pub fn progress(&self) -> watch::Receiver<u64> {
        self.0.parts.progress.changes()
    }

    /// The states of a task of this process, as they come.
    pub fn follow(&self, task: &BackgroundId) -> Option<watch::Receiver<TaskState>> {
        self.table().tasks.get(task).map(|entry| entry.state.subscribe())
    }

    /// A task that others run.
    pub fn listed(&self, word: &str) -> Option<(BackgroundId, TaskKind, Arc<dyn BackgroundTask>)> {
        let table = self.table();
        let found = table.listed.iter().find(|(id, _)| {
            id.as_str() == word || id.as_str().split_once('@').is_some_and(|(name, _)| name == word)
        });
        found.map(|(id, listed)| (id.clone(), listed.kind, Arc::clone(&listed.task)))
    }

    /// How many agents work in the background below this named agent, at any depth; those that wait for a
    /// place count.
    pub fn at_work(&self, root: &AgentName) -> usize {
        self.count(|record| &record.root == root)
    }

    /// How many agents that this one has launched work in the background.
    pub fn launched_by(&self, agent: &AgentId) -> usize {
        self.count(|record| &record.launched_by == agent)
    }

    /// How many agents of this process work in the background.
    pub fn all_at_work(&self) -> usize {
        self.count(|_| true)
    }

    fn count(&self, mine: impl Fn(&TaskRecord) -> bool) -> usize {
        let table = self.table();
        let counts = |e: &&Arc<Entry>| {
            let record = e.record();
            !e.is_over() && record.kind.is_agent() && mine(&record)
        };
        table.tasks.values().filter(counts).count()
    }

    /// Up to where the output of a task has been shown to its launcher; nobody else reads it meanwhile.
    /// `None` for a task of an earlier process.
    pub async fn reading(&self, task: &BackgroundId) -> Option<OwnedMutexGuard<u64>> {
        let entry = self.table().tasks.get(task).cloned()?;
        Some(Arc::clone(&entry.read_to).lock_owned().await)
    }
}
