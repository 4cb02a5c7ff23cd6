//! Teammates as plain processes without a terminal: for servers, CI and scripts.
//!
//! Owns the workers from the start to the verified end. What a worker prints goes into a file beside its
//! spec, from which its last words are quoted when it does not start. A worker outlives its leader as
//! one in a pane does. Never hides or shows anything.

use super::watched::Watched;
use super::worker::{self, FAILED_SPAWN_GRACE, LAST_WORDS};
use crate::os::detached;
use crate::os::process;
use crate::team::executor::{
    BoxFuture, ExitReport, Grace, HandleRecord, Launch, Liveness, SpawnError, TeammateExecutor,
    TeammateHandle,
};
use crate::wire::run::RunRecord;
use crate::wire::team::{BackendType, Member};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What helps when a process cannot be started.
const HINT: &str = "--teammate-mode in-process needs no process";

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

    fn launch(&self, launch: &Launch, output: &Path) -> Result<Arc<Watched>, SpawnError> {
        let arguments: [OsString; 3] =
            ["teammate".into(), "--spec".into(), launch.spec_file.clone().into_os_string()];
        let child = detached::spawn(&self.program, &arguments, &launch.spec.cwd, &self.env, output)
            .map_err(|e| failed("start worker", e.to_string()))?;
        let process = worker::identity(child.pid());
        let (agent, run) = (&launch.spec.agent_id, &launch.spec.run_id);
        Ok(Watched::start(&self.tasks, agent, run, process, Some(child)))
    }
}

fn failed(step: &'static str, why: impl Into<String>) -> SpawnError {
    SpawnError { step, why: why.into(), hint: HINT.to_owned() }
}

impl TeammateExecutor for ProcessExecutor {
    fn backend(&self) -> BackendType {
        BackendType::Process
    }

    fn spawn(&self, launch: Launch) -> BoxFuture<'_, Result<Box<dyn TeammateHandle>, SpawnError>> {
        Box::pin(async move {
            let output = launch.spec_file.with_extension("log");
            let worker = self.launch(&launch, &output)?;
            let start = |given_up| start(worker, launch, output, given_up);
            let worker = worker::guarded(&self.tasks, HINT, start).await?;
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
            let worker = Watched::start(&self.tasks, &member.agent_id, &run.run_id, process, None);
            Some(Box::new(WorkerHandle(worker)) as Box<dyn TeammateHandle>)
        })
    }
}

/// Waits until a worker is ready, and ends it when it does not get there.
async fn start(
    worker: Arc<Watched>,
    launch: Launch,
    output: PathBuf,
    given_up: CancellationToken,
) -> Result<Arc<Watched>, SpawnError> {
    let outcome = worker::ready(launch.ready, launch.deadline, worker.end(), &given_up).await;
    let Err(why) = outcome else { return Ok(worker) };
    worker.terminate(FAILED_SPAWN_GRACE).await;
    let said = std::fs::read(&output).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let words = lines[lines.len().saturating_sub(LAST_WORDS)..].join("; ");
    Err(failed("wait for ready", worker::quoting(why, &words)))
}

/// A worker, for the team.
struct WorkerHandle(Arc<Watched>);

impl TeammateHandle for WorkerHandle {
    fn record(&self) -> HandleRecord {
        self.0.record(None)
    }
    fn probe(&self) -> BoxFuture<'_, Liveness> {
        Box::pin(std::future::ready(self.0.look()))
    }
    fn exited(&self) -> BoxFuture<'_, ExitReport> {
        Box::pin(self.0.end())
    }
    fn interrupt(&self) -> BoxFuture<'_, ()> {
        self.0.interrupt();
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
