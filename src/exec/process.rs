//! Teammates as plain processes without a terminal: for servers, CI and scripts.
//!
//! Owns the workers from the start to the verified end. What a worker prints goes into a file beside its
//! spec, from which its last words are quoted when it does not start. A worker outlives its leader as
//! one in a pane does. Never hides or shows anything.

use super::worker;
use crate::os::command::Exit;
use crate::os::detached::{self, Detached};
use crate::os::process::{self, Signal};
use crate::team::executor::{
    BoxFuture, ExitKind, ExitReport, Grace, HandleRecord, Launch, Liveness, SpawnError, TeammateExecutor,
    TeammateHandle,
};
use crate::wire::ids::{AgentId, RunId};
use crate::wire::run::{ProcessId, RunRecord};
use crate::wire::team::{BackendType, Member};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How a worker that did not become ready is ended.
const FAILED_SPAWN_GRACE: Grace =
    Grace { interrupt: Duration::ZERO, terminate: Duration::from_millis(1_000) };
/// Lines that are quoted of a worker that did not start.
const LAST_WORDS: usize = 10;

/// Starts teammates as processes.
pub struct ProcessExecutor {
    program: PathBuf,
    /// Only what the program needs to find itself; the worker's own environment is in its spec.
    env: BTreeMap<String, String>,
    tasks: TaskTracker,
}

impl ProcessExecutor {
    /// An executor that starts `program`, our own, with as much of the leader's environment as it needs
    /// before it has read its spec.
    pub fn new(program: PathBuf, env: &BTreeMap<String, String>) -> Self {
        let kept = ["PATH", "HOME"].iter().filter_map(|key| env.get_key_value(*key));
        let env = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
        Self { program, env, tasks: TaskTracker::new() }
    }

    fn launch(&self, launch: &Launch, output: &Path) -> Result<Arc<Worker>, SpawnError> {
        let step = "start worker";
        let arguments: [OsString; 3] =
            ["teammate".into(), "--spec".into(), launch.spec_file.clone().into_os_string()];
        let child = detached::spawn(&self.program, &arguments, &launch.spec.cwd, &self.env, output)
            .map_err(|e| failed(step, e.to_string()))?;
        let process = worker::identity(child.pid());
        Ok(self.watch(&launch.spec.agent_id, &launch.spec.run_id, process, Some(child)))
    }

    fn watch(
        &self,
        agent: &AgentId,
        run: &RunId,
        process: ProcessId,
        child: Option<Detached>,
    ) -> Arc<Worker> {
        let worker = Arc::new(Worker {
            agent: agent.clone(),
            run: run.clone(),
            process,
            asked: AtomicBool::new(false),
            forced: AtomicBool::new(false),
            ended: watch::Sender::new(None),
        });
        self.tasks.spawn(Arc::clone(&worker).see_to_the_end(child));
        worker
    }
}

fn failed(step: &'static str, why: impl Into<String>) -> SpawnError {
    SpawnError { step, why: why.into(), hint: "--teammate-mode in-process needs no process".to_owned() }
}

impl TeammateExecutor for ProcessExecutor {
    fn backend(&self) -> BackendType {
        BackendType::Process
    }

    fn spawn(&self, launch: Launch) -> BoxFuture<'_, Result<Box<dyn TeammateHandle>, SpawnError>> {
        Box::pin(async move {
            let output = launch.spec_file.with_extension("log");
            let worker = self.launch(&launch, &output)?;
            // A task of its own, so that a worker half started is ended also when nobody waits any more.
            let given_up = CancellationToken::new();
            let waits = given_up.clone().drop_guard();
            let work = self.tasks.spawn(ready(worker, launch, output, given_up));
            let outcome = work.await;
            waits.disarm();
            let worker = outcome.map_err(|error| failed("start worker", error.to_string()))??;
            Ok(Box::new(WorkerHandle(worker)) as Box<dyn TeammateHandle>)
        })
    }

    fn adopt<'a>(
        &'a self,
        member: &'a Member,
        run: Option<&'a RunRecord>,
    ) -> BoxFuture<'a, Option<Box<dyn TeammateHandle>>> {
        Box::pin(async move {
            let run = run?;
            let process = run.process();
            if !process::is_alive(&process) {
                return None;
            }
            let worker = self.watch(&member.agent_id, &run.run_id, process, None);
            Some(Box::new(WorkerHandle(worker)) as Box<dyn TeammateHandle>)
        })
    }
}

/// Waits until a worker is ready, and ends it when it does not get there.
async fn ready(
    worker: Arc<Worker>,
    launch: Launch,
    output: PathBuf,
    given_up: CancellationToken,
) -> Result<Arc<Worker>, SpawnError> {
    let why = tokio::select! {
        biased;
        () = launch.ready => return Ok(worker),
        report = worker.end() => format!("it ended before it was ready ({})", report.exit),
        () = tokio::time::sleep(launch.deadline) => {
            format!("it was not ready within {} ms", launch.deadline.as_millis())
        }
        () = given_up.cancelled() => "the spawn was given up".to_owned(),
    };
    worker.terminate(FAILED_SPAWN_GRACE).await;
    let said = std::fs::read(&output).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let words = lines[lines.len().saturating_sub(LAST_WORDS)..].join("; ");
    let why = if words.is_empty() { why } else { format!("{why}; its last words: {words}") };
    Err(failed("wait for ready", why))
}

/// One worker.
struct Worker {
    agent: AgentId,
    run: RunId,
    process: ProcessId,
    asked: AtomicBool,
    forced: AtomicBool,
    ended: watch::Sender<Option<ExitReport>>,
}

impl Worker {
    async fn see_to_the_end(self: Arc<Self>, child: Option<Detached>) {
        let (exit, kind) = match child {
            // Waited for, so that nothing of it stays in the table of processes.
            Some(mut child) => match child.wait().await {
                Exit::Code(0) => ("exit 0".to_owned(), ExitKind::Clean),
                Exit::Code(code) => (format!("exit {code}"), ExitKind::Failed),
                Exit::Signal(number) => (format!("signal {number}"), ExitKind::Killed),
                Exit::Lost => ("gone".to_owned(), ExitKind::Unknown),
            },
            None => {
                worker::gone(&self.process).await;
                ("gone".to_owned(), ExitKind::Unknown)
            }
        };
        worker::kill_session(&self.process);
        self.ended.send_replace(Some(self.report(exit, kind)));
    }

    fn report(&self, exit: String, kind: ExitKind) -> ExitReport {
        let forced = self.forced.load(Ordering::Acquire);
        ExitReport { exit, kind, forced, unexpected: !self.asked.load(Ordering::Acquire) }
    }

    async fn end(&self) -> ExitReport {
        let mut ended = self.ended.subscribe();
        let end = ended.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        // The sender lives in `self`: there is always an end.
        end.unwrap_or_else(|| self.report("unknown".to_owned(), ExitKind::Unknown))
    }

    async fn terminate(&self, grace: Grace) -> ExitReport {
        self.asked.store(true, Ordering::Release);
        if worker::end(&self.process, grace.terminate, &self.forced).await {
            self.end().await
        } else {
            self.report("still there after KILL".to_owned(), ExitKind::Fenced)
        }
    }
}

/// A worker, for the team.
struct WorkerHandle(Arc<Worker>);

impl TeammateHandle for WorkerHandle {
    fn record(&self) -> HandleRecord {
        HandleRecord {
            agent_id: self.0.agent.clone(),
            run_id: self.0.run.clone(),
            pane_id: None,
            process: Some(self.0.process.clone()),
        }
    }
    fn probe(&self) -> BoxFuture<'_, Liveness> {
        let (alive, pid) = (process::is_alive(&self.0.process), self.0.process.pid);
        let evidence = format!("pid {pid} {}", if alive { "running" } else { "gone" });
        Box::pin(std::future::ready(Liveness { alive, evidence }))
    }
    fn exited(&self) -> BoxFuture<'_, ExitReport> {
        Box::pin(self.0.end())
    }
    fn interrupt(&self) -> BoxFuture<'_, ()> {
        if let Err(error) = process::signal(&self.0.process, Signal::Interrupt) {
            tracing::warn!(%error, "a teammate could not be interrupted");
        }
        Box::pin(std::future::ready(()))
    }
    fn terminate(&self, grace: Grace) -> BoxFuture<'_, ExitReport> {
        Box::pin(self.0.terminate(grace))
    }
    fn hide(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }
    fn show(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }
}
