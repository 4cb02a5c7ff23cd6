//! The registry of background tasks: what works beside its launcher, from launch to the one end it has.
//!
//! Owns the records of tasks (`background/<task>.json`), their output files, and who is told of their
//! end. Promises one terminal transition a run, that every state is on disk before anybody hears of
//! it, that the launcher's turn never waits for a place, and one writer for each transcript. Tasks hang
//! off the session and no turn ends them. Never reads a task's result into a history: its notification
//! is mail.

mod door;
mod drive;
mod end;
mod find;
pub mod progress;
mod reconcile;
mod remains;
pub mod shells;
mod stop;
#[cfg(test)]
mod tests;
pub mod tools;

pub use door::{Door, Inside};
pub use end::{Outcome, TaskEnd, Worktree};
pub use find::TaskView;
pub use remains::Remains;

use super::context::AgentContext;
use super::core::AgentCore;
use super::disk::Disk;
use super::events::{AgentEvent, Observer};
use super::limits::{Slot, Slots};
use super::ports::{BackgroundTask, PostOffice};
use crate::os::process;
use crate::store::error::StoreError;
use crate::store::paths::Paths;
use crate::store::{background, clock, transcript};
use crate::wire::background::{TASK_RECORD_VERSION, TaskKind, TaskRecord, TaskState};
use crate::wire::ids::{AgentId, AgentName, BackgroundId, RunId};
use crate::wire::transcript::AgentMeta;
use door::Doors;
use progress::{Progress, Seen};
use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Finished tasks that stay in memory (spec §24); the others are read from disk.
const KEPT_FINISHED: usize = 100;
/// How long work may take to end after it was stopped, before it is cut off.
pub const STOP_GRACE: Duration = Duration::from_secs(15);

/// What is started in the background.
pub struct Launch {
    /// Its id; for an agent, the agent's.
    pub id: BackgroundId,
    /// What it is.
    pub kind: TaskKind,
    /// This run of it.
    pub run_id: RunId,
    /// A few words for people.
    pub description: String,
    /// A name it can be reached by, as long as it is known here.
    pub name: Option<AgentName>,
    /// Who launches it, and is told of its end.
    pub launcher: Arc<AgentCore>,
    /// The call that does.
    pub tool_use_id: String,
    /// For an agent: its metadata, whose status is kept in step.
    pub meta: Option<(PathBuf, AgentMeta)>,
}

/// What the launching call may say.
#[derive(Debug, Clone)]
pub struct Launched {
    /// The task.
    pub id: BackgroundId,
    /// Where its output goes.
    pub output_file: PathBuf,
    /// True when it waits for a place.
    pub queued: bool,
}

/// What the work of a task is given.
pub struct TaskControl {
    /// The task.
    pub id: BackgroundId,
    /// This run of it.
    pub run_id: RunId,
    /// Cancelled when it is stopped; the work then ends soon, with [`Outcome::Cancelled`].
    pub cancel: CancellationToken,
    /// An agent's place among those that run.
    pub slot: Option<Slot>,
    /// An agent's door for mail; it is closed before the agent ends.
    pub door: Option<Arc<Door>>,
    /// What of it goes on when the work itself is over or was cut off.
    pub remains: Remains,
    /// The file that holds its output.
    pub output_file: PathBuf,
    /// When it was begun.
    pub started: Instant,
}

/// Why nothing was launched; a sentence for a model.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// By the settings.
    #[error("background work is turned off by the setting `background`")]
    TurnedOff,
    /// Another run of it has not ended.
    #[error("{0} is running already")]
    Running(BackgroundId),
    /// Another living task has the name.
    #[error("there is already a background agent named {0}")]
    NameTaken(AgentName),
    /// Nothing can be written down.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What the registry works with.
pub struct Parts {
    /// Where everything is.
    pub paths: Paths,
    /// The store thread.
    pub disk: Disk,
    /// Places among the running agents.
    pub slots: Arc<Slots>,
    /// Sees what happens.
    pub observer: Arc<dyn Observer>,
    /// Collects what agents that work in the background do; an observer beside the others.
    pub progress: Arc<Progress>,
    /// Brings notifications.
    pub post: Arc<dyn PostOffice>,
    /// How long work may take to end after it was stopped, before it is cut off; and at the end of the
    /// session what remains of it.
    pub stop_grace: Duration,
    /// False when the settings turn background work off.
    pub allowed: bool,
    /// Whether agents run in the background when neither call nor definition says so.
    pub by_default: bool,
}

/// A handle on the registry.
#[derive(Clone)]
pub struct Background(Arc<Inner>);

struct Inner {
    parts: Parts,
    table: Mutex<Table>,
    doors: Doors,
    /// Cancelled when the session ends.
    ending: CancellationToken,
    changed: watch::Sender<u64>,
    /// What could not be written down or told.
    unsaid: Mutex<Vec<String>>,
}

#[derive(Default)]
struct Table {
    /// By id; the newest run of each.
    tasks: BTreeMap<BackgroundId, Arc<Entry>>,
    /// Tasks that others run.
    listed: BTreeMap<BackgroundId, Listed>,
    launched: u64,
}

#[derive(Clone)]
struct Listed {
    kind: TaskKind,
    task: Arc<dyn BackgroundTask>,
}

/// One run of one task.
struct Entry {
    /// Launches so far when it was launched: the order of listings.
    number: u64,
    record: Mutex<TaskRecord>,
    /// The file of the record.
    path: PathBuf,
    output_file: PathBuf,
    launcher: Arc<AgentContext>,
    meta: Option<(PathBuf, AgentMeta)>,
    cancel: CancellationToken,
    /// Follows the record, after the terminal state was announced.
    state: watch::Sender<TaskState>,
    seen: Arc<Seen>,
    /// Up to where the launcher has read the output.
    read_to: Arc<tokio::sync::Mutex<u64>>,
}

/// How a run comes to its place.
struct Waiting {
    /// The place, when there was one.
    slot: Option<Slot>,
    /// Who may offer its own.
    launcher: Arc<AgentCore>,
    /// An agent's door; others take no place.
    inside: Option<Inside>,
}

impl Entry {
    fn record(&self) -> MutexGuard<'_, TaskRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.state.borrow().is_over()
    }
}

/// Takes a task that others run out of the list again.
pub struct Registration {
    background: Background,
    id: BackgroundId,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.background.table().listed.remove(&self.id);
        self.background.bump();
    }
}

impl Background {
    /// An empty registry.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(Inner {
            parts,
            table: Mutex::default(),
            doors: Doors::default(),
            ending: CancellationToken::new(),
            changed: watch::channel(0).0,
            unsaid: Mutex::default(),
        }))
    }

    /// False when the settings turn background work off.
    pub fn allowed(&self) -> bool {
        self.0.parts.allowed
    }

    /// Whether an agent runs in the background: what the call says, else its definition, else the mode of
    /// the session.
    pub fn wanted(&self, call: Option<bool>, definition: Option<bool>) -> bool {
        call.unwrap_or_else(|| self.allowed() && definition.unwrap_or(self.0.parts.by_default))
    }

    /// The mail of agents without a name.
    pub fn post(&self) -> &Arc<dyn PostOffice> {
        &self.0.parts.post
    }

    /// Launches a task. When this returns, the task is on disk and its work has begun or waits for a place;
    /// the work itself is run to its end whatever becomes of the caller.
    pub async fn launch<F, W>(&self, launch: Launch, work: F) -> Result<Launched, LaunchError>
    where
        F: FnOnce(TaskControl) -> W + Send + 'static,
        W: Future<Output = TaskEnd> + Send + 'static,
    {
        if !self.allowed() {
            return Err(LaunchError::TurnedOff);
        }
        let takes_place = launch.kind.is_agent();
        let inside = match takes_place {
            true => Some(
                self.enter(&AgentId::new(launch.id.as_str()))
                    .ok_or_else(|| LaunchError::Running(launch.id.clone()))?,
            ),
            false => None,
        };
        let slot = if takes_place { self.0.parts.slots.try_place().await? } else { None };
        let queued = takes_place && slot.is_none();
        let state = if queued { TaskState::Queued } else { TaskState::Running };
        let launcher = Arc::clone(&launch.launcher);
        let (entry, words) = self.admit(launch, state)?;
        if let Err(error) = self.begin(&entry).await {
            let id = entry.record().task_id.clone();
            self.table().tasks.remove(&id);
            self.0.parts.progress.leave(&id);
            return Err(error.into());
        }
        let launched =
            Launched { id: entry.record().task_id.clone(), output_file: entry.output_file.clone(), queued };
        self.tell(&entry, AgentEvent::TaskLaunched);
        self.bump();
        let place = Waiting { slot, launcher, inside };
        self.drive(entry, place, words, work);
        Ok(launched)
    }

    /// Puts a new run into the table, unless its id or name is taken.
    fn admit(&self, launch: Launch, state: TaskState) -> Result<(Arc<Entry>, progress::Words), LaunchError> {
        let context = &launch.launcher.context;
        let project = self.0.parts.paths.project(&context.session_cwd);
        let path = project.background(&context.session, &launch.id);
        let output_file = project.output(&context.session, launch.id.as_str());
        let mut table = self.table();
        if let Some(name) = &launch.name {
            let taken = table.tasks.values().any(|e| {
                let record = e.record();
                !e.is_over() && record.name.as_ref() == Some(name) && record.task_id != launch.id
            });
            if taken {
                return Err(LaunchError::NameTaken(name.clone()));
            }
        }
        let before = table.tasks.get(&launch.id).map(|e| e.record().created_at.clone());
        let now = clock::now();
        table.launched += 1;
        let (seen, words) = self.0.parts.progress.enter(&launch.id);
        let record = TaskRecord {
            version: TASK_RECORD_VERSION,
            task_id: launch.id.clone(),
            kind: launch.kind,
            run_id: launch.run_id,
            state,
            description: launch.description,
            name: launch.name,
            launched_by: context.id().clone(),
            root: context.root.clone(),
            incarnation: context.incarnation,
            process: process::current().ok(),
            tool_use_id: launch.tool_use_id,
            output_file: output_file.display().to_string(),
            created_at: before.unwrap_or_else(|| now.clone()),
            since: now,
            stopped_by: None,
            notification: None,
            outcome: None,
        };
        let entry = Arc::new(Entry {
            number: table.launched,
            record: Mutex::new(record),
            path,
            output_file,
            launcher: Arc::clone(context),
            meta: launch.meta,
            cancel: CancellationToken::new(),
            state: watch::channel(state).0,
            seen,
            read_to: Arc::default(),
        });
        table.tasks.insert(launch.id, Arc::clone(&entry));
        Ok((entry, words))
    }

    /// The first entries on disk: output file, metadata, record.
    async fn begin(&self, entry: &Arc<Entry>) -> Result<(), StoreError> {
        let output = entry.output_file.clone();
        let made = self.0.parts.disk.run(&entry.output_file, move || background::make_output(&output));
        made.await?;
        self.write_meta(entry).await?;
        self.write(entry).await
    }

    /// Writes the record as it is now.
    async fn write(&self, entry: &Entry) -> Result<(), StoreError> {
        let (path, record) = (entry.path.clone(), entry.record().clone());
        self.0.parts.disk.run(&entry.path, move || background::write(&path, &record)).await
    }

    /// Writes the metadata with the state of the record.
    async fn write_meta(&self, entry: &Entry) -> Result<(), StoreError> {
        let Some((path, meta)) = entry.meta.clone() else { return Ok(()) };
        let meta = AgentMeta { status: entry.record().state.as_str().to_owned(), ..meta };
        let file = path.clone();
        self.0.parts.disk.run(&file, move || transcript::write_meta(&path, &meta)).await
    }

    /// Lists a task that others run, until the returned value is dropped.
    pub fn list(&self, id: BackgroundId, kind: TaskKind, task: Arc<dyn BackgroundTask>) -> Registration {
        self.table().listed.insert(id.clone(), Listed { kind, task });
        self.bump();
        Registration { background: self.clone(), id }
    }

    /// Resolves when a task changed its state, from the moment of the call on.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// What could not be written down or told, a sentence each.
    pub fn unsaid(&self) -> Vec<String> {
        self.0.unsaid.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bump(&self) {
        self.0.changed.send_modify(|n| *n += 1);
    }

    fn tell(&self, entry: &Entry, event: impl FnOnce(Arc<TaskRecord>) -> AgentEvent) {
        let record = Arc::new(entry.record().clone());
        self.0.parts.observer.event(&entry.launcher, &event(record));
    }

    /// Something went wrong that nobody waits for.
    fn complain(&self, entry: &Entry, what: String) {
        self.0.parts.observer.event(&entry.launcher, &AgentEvent::Notice(what.clone()));
        self.0.unsaid.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }
}

impl Table {
    /// Forgets the oldest finished tasks.
    fn prune(&mut self) {
        let mut over: Vec<(u64, BackgroundId)> =
            self.tasks.iter().filter(|(_, e)| e.is_over()).map(|(id, e)| (e.number, id.clone())).collect();
        over.sort();
        let surplus = over.len().saturating_sub(KEPT_FINISHED);
        for (_, id) in over.into_iter().take(surplus) {
            self.tasks.remove(&id);
        }
    }
}
