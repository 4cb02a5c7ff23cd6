//! Where a teammate runs, as the team sees it; implemented by the adapters in `exec`.
//!
//! An executor starts and ends teammates and proves what it knows about them. It never carries
//! text to or from one, and never touches a pane or process it cannot prove it made.

use crate::wire::ids::{AgentId, RunId};
use crate::wire::run::{ProcessId, RunRecord};
use crate::wire::team::{BackendType, Member};
use crate::wire::worker::WorkerSpec;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A boxed future, for object-safe traits.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Everything an executor needs to start one teammate.
pub struct Launch {
    /// What the teammate is.
    pub spec: WorkerSpec,
    /// The spec as written for a worker of its own process; 0600.
    pub spec_file: PathBuf,
    /// Resolves when the teammate has said that it is ready (its run record names `spec.run_id` and
    /// a state past `starting`). Made by `team`, so that executors carry no protocol.
    pub ready: BoxFuture<'static, ()>,
    /// How long readiness may take.
    pub deadline: Duration,
}

/// Why a teammate did not start. Everything the attempt made is gone again.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {why}")]
pub struct SpawnError {
    /// Which step failed: `create pane`, `wait for ready` …
    pub step: &'static str,
    /// What happened, with the program's own words where there are some.
    pub why: String,
    /// What the person can do.
    pub hint: String,
}

/// What an executor knows of a teammate, for the roster and for finding it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandleRecord {
    /// Who.
    pub agent_id: AgentId,
    /// Which run.
    pub run_id: RunId,
    /// Its pane.
    pub pane_id: Option<String>,
    /// The server that has the pane, when panes of several may carry the same id: a socket's path.
    pub pane_server: Option<String>,
    /// Its process.
    pub process: Option<ProcessId>,
}

/// Whether a teammate lives, with what was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Liveness {
    /// True while its task or process runs; a zombie is dead.
    pub alive: bool,
    /// `pid 4711 running`, `pane %3 gone` …
    pub evidence: String,
}

/// How long each forceful step of an ending may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grace {
    /// In this process: from the cancel to the abort. A process of its own was interrupted before.
    pub interrupt: Duration,
    /// From TERM to KILL; in this process, from the abort to the fence.
    pub terminate: Duration,
}

/// What kind of end it was, for the verdict on the teammate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitKind {
    /// Status 0, or its task came to its end.
    Clean,
    /// Another status, a panic, or a task that reports failure.
    Failed,
    /// By a signal or an abort.
    Killed,
    /// Its task cannot be stopped; its run was shut out instead.
    Fenced,
    /// Gone, and nobody could see how.
    Unknown,
}

/// How a teammate ended, verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitReport {
    /// `exit 0`, `signal 9`, `cancelled`, `panicked: …`, `fenced` …
    pub exit: String,
    /// The same, as a kind.
    pub kind: ExitKind,
    /// True when it took a TERM, KILL or abort.
    pub forced: bool,
    /// True when [`TeammateHandle::terminate`] had not been called. An executor does not see the
    /// polite step, so an agreed shutdown counts as unexpected here; `team::lifecycle` knows better.
    pub unexpected: bool,
}

/// Starts teammates of one backend.
pub trait TeammateExecutor: Send + Sync {
    /// Which backend.
    fn backend(&self) -> BackendType;
    /// Starts one and waits until it is ready; on failure nothing of it is left.
    fn spawn(&self, launch: Launch) -> BoxFuture<'_, Result<Box<dyn TeammateHandle>, SpawnError>>;
    /// Finds a teammate of an earlier leader again, from its row and the record it wrote of itself;
    /// `None` when it is provably gone. Without a record it never was ready, and counts as gone.
    fn adopt<'a>(
        &'a self,
        member: &'a Member,
        run: Option<&'a RunRecord>,
    ) -> BoxFuture<'a, Option<Box<dyn TeammateHandle>>>;
    /// Called when the leader ends: removes what the executor keeps for itself, unless a teammate still
    /// uses it.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// One running teammate.
pub trait TeammateHandle: Send + Sync {
    /// For the roster.
    fn record(&self) -> HandleRecord;
    /// Looks.
    fn probe(&self) -> BoxFuture<'_, Liveness>;
    /// Resolves once it is gone, however that came; may be awaited again and by several.
    fn exited(&self) -> BoxFuture<'_, ExitReport>;
    /// Ends its running turn, not the teammate.
    fn interrupt(&self) -> BoxFuture<'_, ()>;
    /// Ends it by force, step by step, and its pane with it. Always returns, with a verified exit.
    fn terminate(&self, grace: Grace) -> BoxFuture<'_, ExitReport>;
    /// Takes its pane out of sight; `false` when it has none.
    fn hide(&self) -> BoxFuture<'_, bool>;
    /// Brings its pane back; `false` when it has none.
    fn show(&self) -> BoxFuture<'_, bool>;
}

/// How the leader's process reaches a teammate that runs inside it.
pub struct RunnerControl {
    /// Cancelled: end the teammate in order.
    pub cancel: CancellationToken,
    /// Counts interrupts. A runner marks it seen (`borrow_and_update`) when a turn begins and ends the
    /// turn when it changes, so that an interrupt of an idle teammate does not hit its next turn.
    pub interrupt: watch::Receiver<u64>,
    /// What still runs here when the runner's task is over, however that came, belongs to the end of the
    /// teammate: its finalizer.
    pub leaving: TaskTracker,
}

/// How a runner ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerExit {
    /// `completed`, `cancelled`, or the error in a line.
    pub exit: String,
    /// True when it ended by an error.
    pub failed: bool,
}

/// Runs one teammate to its end: the same code in the leader's process and in a worker's.
/// Composed by `cli`; called by the in-process executor and by the worker mode of the program.
pub trait TeammateRunner: Send + Sync {
    /// The whole life of one teammate. It says ready through its run record, as in any process, and
    /// sets up its own context: nothing of the caller's task is inherited.
    fn run(&self, spec: WorkerSpec, control: RunnerControl) -> BoxFuture<'static, RunnerExit>;
}
