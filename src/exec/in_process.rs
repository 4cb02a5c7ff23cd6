//! Teammates as tasks in the leader's process.
//!
//! Owns their tasks, from the spawn to a verified end. Promises that a panic ends that teammate and
//! nothing else, and that `terminate` always returns: cancel, then abort, then the fence for code that
//! never yields. The last steps of a teammate (its commands, what works below it) have a time of their own,
//! and are not code that is stuck. Never finds a teammate of an earlier process again: its task died with it.

use crate::os::panic;
use crate::team::executor::{
    BoxFuture, ExitKind, ExitReport, Grace, HandleRecord, Launch, Liveness, RunnerControl, RunnerExit,
    SpawnError, TeammateExecutor, TeammateHandle, TeammateRunner,
};
use crate::wire::run::RunRecord;
use crate::wire::team::{BackendType, Member};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[cfg(test)]
mod tests;

/// How the task of a teammate that did not become ready is ended.
const FAILED_SPAWN_GRACE: Grace =
    Grace { interrupt: Duration::from_millis(500), terminate: Duration::from_millis(500) };

/// How long the last steps of a teammate may take once its task has ended: longer than the stop of all that
/// works below it ([`crate::agent::background`]) and the end of its commands.
const LEAVE_DEADLINE: Duration = Duration::from_secs(60);

/// Starts teammates as tasks.
pub struct InProcessExecutor {
    runner: Arc<dyn TeammateRunner>,
    tasks: TaskTracker,
}

impl InProcessExecutor {
    /// An executor whose teammates are run by `runner`.
    pub fn new(runner: Arc<dyn TeammateRunner>) -> Self {
        Self { runner, tasks: TaskTracker::new() }
    }

    fn start(&self, launch: &Launch) -> Task {
        let cancel = CancellationToken::new();
        let (interrupt, interrupted) = watch::channel(0);
        let leaving = TaskTracker::new();
        let control =
            RunnerControl { cancel: cancel.clone(), interrupt: interrupted, leaving: leaving.clone() };
        let record = HandleRecord {
            agent_id: launch.spec.agent_id.clone(),
            run_id: launch.spec.run_id.clone(),
            pane_id: None,
            pane_server: None,
            process: None,
        };
        // Called inside the task: a runner that panics before its first await ends that task only.
        let (runner, spec) = (Arc::clone(&self.runner), launch.spec.clone());
        let work = self.tasks.spawn(async move { runner.run(spec, control).await });
        let asked = Arc::new(AtomicBool::new(false));
        let abort = work.abort_handle();
        let (ended, exit) = watch::channel(None);
        let ended = Arc::new(ended);
        let gone = CancellationToken::new();
        let last = Last { leaving, gone: gone.clone(), asked: Arc::clone(&asked), ended: Arc::clone(&ended) };
        self.tasks.spawn(last.publish(work));
        Task { record, cancel, interrupt, abort, gone, asked, ended, exit }
    }
}

impl TeammateExecutor for InProcessExecutor {
    fn backend(&self) -> BackendType {
        BackendType::InProcess
    }

    fn spawn(&self, launch: Launch) -> BoxFuture<'_, Result<Box<dyn TeammateHandle>, SpawnError>> {
        Box::pin(async move {
            let task = self.start(&launch);
            // When whoever waits for the spawn goes away, the teammate goes too.
            let given_up = task.cancel.clone().drop_guard();
            let early = tokio::select! {
                biased;
                () = launch.ready => None,
                report = task.exited() => Some(format!("ended before it was ready: {}", report.exit)),
                () = tokio::time::sleep(launch.deadline) => {
                    Some(format!("not ready within {} ms", launch.deadline.as_millis()))
                }
            };
            match early {
                None => {
                    given_up.disarm();
                    Ok(Box::new(task) as Box<dyn TeammateHandle>)
                }
                Some(why) => {
                    task.terminate(FAILED_SPAWN_GRACE).await;
                    Err(SpawnError { step: "wait for ready", why, hint: String::new() })
                }
            }
        })
    }

    fn adopt<'a>(
        &'a self,
        _member: &'a Member,
        _run: Option<&'a RunRecord>,
    ) -> BoxFuture<'a, Option<Box<dyn TeammateHandle>>> {
        Box::pin(std::future::ready(None))
    }
}

/// What there is to be done when a teammate's task has ended.
struct Last {
    /// What it leaves to be done when it was cut off.
    leaving: TaskTracker,
    /// Cancelled when the task itself has ended.
    gone: CancellationToken,
    asked: Arc<AtomicBool>,
    ended: Arc<watch::Sender<Option<ExitReport>>>,
}

impl Last {
    /// Waits for all of it, and says the end to everyone who waits.
    async fn publish(self, work: JoinHandle<RunnerExit>) {
        let (exit, kind) = match work.await {
            Ok(RunnerExit { exit, failed: false }) => (exit, ExitKind::Clean),
            Ok(RunnerExit { exit, failed: true }) => (exit, ExitKind::Failed),
            Err(error) => describe(error),
        };
        self.gone.cancel();
        self.leaving.close();
        let left = tokio::time::timeout(LEAVE_DEADLINE, self.leaving.wait()).await;
        let exit = match left {
            Ok(()) => exit,
            Err(_) => format!("{exit}; its last steps did not end within {} s", LEAVE_DEADLINE.as_secs()),
        };
        let forced = kind == ExitKind::Killed;
        let unexpected = !self.asked.load(Ordering::Acquire);
        say(&self.ended, ExitReport { exit, kind, forced, unexpected });
    }
}

fn describe(error: JoinError) -> (String, ExitKind) {
    match error.try_into_panic() {
        Ok(panic) => (format!("panicked: {}", panic::words(panic.as_ref())), ExitKind::Failed),
        Err(_) => ("aborted".to_owned(), ExitKind::Killed),
    }
}

/// The first end that is said counts: a task that ends after the fence changes nothing.
fn say(ended: &watch::Sender<Option<ExitReport>>, report: ExitReport) {
    ended.send_if_modified(|said| {
        let first = said.is_none();
        said.get_or_insert(report);
        first
    });
}

/// One teammate's task.
struct Task {
    record: HandleRecord,
    cancel: CancellationToken,
    interrupt: watch::Sender<u64>,
    abort: AbortHandle,
    /// Cancelled when the task itself has ended, whatever is still to be done.
    gone: CancellationToken,
    asked: Arc<AtomicBool>,
    ended: Arc<watch::Sender<Option<ExitReport>>>,
    exit: watch::Receiver<Option<ExitReport>>,
}

impl Task {
    async fn end(&self) -> ExitReport {
        let mut exit = self.exit.clone();
        // The sender lives in `self`, so the wait can only end with a report.
        let said = exit.wait_for(Option::is_some).await.map(|said| said.clone());
        said.ok().flatten().unwrap_or_else(fenced)
    }
    async fn end_within(&self, limit: Duration) -> Option<ExitReport> {
        tokio::time::timeout(limit, self.end()).await.ok()
    }
    async fn end_by_force(&self, grace: Grace) -> ExitReport {
        self.asked.store(true, Ordering::Release);
        self.cancel.cancel();
        if let Some(report) = self.end_within(grace.interrupt).await {
            return report;
        }
        self.abort.abort();
        if tokio::time::timeout(grace.terminate, self.gone.cancelled()).await.is_err() {
            say(&self.ended, fenced());
        }
        // Said within the time that its last steps have.
        self.end().await
    }
}

fn fenced() -> ExitReport {
    ExitReport { exit: "fenced".to_owned(), kind: ExitKind::Fenced, forced: true, unexpected: false }
}

impl TeammateHandle for Task {
    fn record(&self) -> HandleRecord {
        self.record.clone()
    }
    fn probe(&self) -> BoxFuture<'_, Liveness> {
        let liveness = match &*self.exit.borrow() {
            None => Liveness { alive: true, evidence: "task running".to_owned() },
            Some(report) => Liveness { alive: false, evidence: format!("task ended: {}", report.exit) },
        };
        Box::pin(std::future::ready(liveness))
    }
    fn exited(&self) -> BoxFuture<'_, ExitReport> {
        Box::pin(self.end())
    }
    fn interrupt(&self) -> BoxFuture<'_, ()> {
        self.interrupt.send_modify(|count| *count += 1);
        Box::pin(std::future::ready(()))
    }
    fn terminate(&self, grace: Grace) -> BoxFuture<'_, ExitReport> {
        Box::pin(self.end_by_force(grace))
    }
    fn hide(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }
    fn show(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }
}
