//! Teammates in panes of iTerm2, through its `it2` command.
//!
//! Owns the panes from the split to the verified end of their processes. A worker is the pane's own
//! process: it is the command of a profile that is there only while the pane is made, and whose name, of
//! the team, the agent and the run, proves afterwards that the pane is ours. Promises that panes are made
//! one after the other, that a spawn which fails leaves no pane, process or profile, and that nothing is
//! ever typed. Never hides a pane: `it2` cannot. What is taken for granted of iTerm2 and `it2` stands in
//! `docs/design/executors.md`.

mod client;
mod profiles;

use super::watched::Watched;
use super::worker::{self, FAILED_SPAWN_GRACE, LAST_WORDS};
use crate::os::process;
use crate::team::executor::{
    BoxFuture, ExitReport, Grace, HandleRecord, Launch, Liveness, SpawnError, TeammateExecutor,
    TeammateHandle,
};
use crate::wire::run::RunRecord;
use crate::wire::team::{BackendType, Member};
use crate::wire::worker::WorkerSpec;
use client::{It2, It2Error};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What helps when there is no pane to be had.
const HINT: &str =
    "iTerm2's Python API must be on (Settings, General, Magic); --teammate-mode in-process needs none";

/// Whether the leader sits in a session of iTerm2 and `it2` is in its `PATH`.
pub fn is_here(env: &BTreeMap<String, String>) -> bool {
    let in_path = |path: &String| path.split(':').any(|dir| Path::new(dir).join("it2").is_file());
    env.get("TERM_PROGRAM").is_some_and(|program| program == "iTerm.app")
        && client::leader(env).is_some()
        && env.get("PATH").is_some_and(in_path)
}

/// Starts teammates in panes of iTerm2.
pub struct Iterm2Executor {
    shared: Arc<Shared>,
}

struct Shared {
    it2: It2,
    program: PathBuf,
    /// The session of the last pane that was made, below which the next one goes; held while one is made.
    last: Mutex<Option<String>>,
    tasks: TaskTracker,
}

impl Iterm2Executor {
    /// An executor that puts `program`, our own, into panes of the iTerm2 that `env` tells of.
    pub fn new(program: PathBuf, env: &BTreeMap<String, String>) -> Self {
        let it2 = It2::new(env, program.clone());
        let shared = Shared { it2, program, last: Mutex::new(None), tasks: TaskTracker::new() };
        Self { shared: Arc::new(shared) }
    }
}

fn failed(step: &'static str, why: impl ToString) -> SpawnError {
    SpawnError { step, why: why.to_string(), hint: HINT.to_owned() }
}

impl TeammateExecutor for Iterm2Executor {
    fn backend(&self) -> BackendType {
        BackendType::Iterm2
    }

    fn spawn(&self, launch: Launch) -> BoxFuture<'_, Result<Box<dyn TeammateHandle>, SpawnError>> {
        Box::pin(async move {
            let start = |given_up| start(Arc::clone(&self.shared), launch, given_up);
            let pane = worker::guarded(&self.shared.tasks, HINT, start).await?;
            Ok(Box::new(pane) as Box<dyn TeammateHandle>)
        })
    }

    fn adopt<'a>(
        &'a self,
        member: &'a Member,
        run: Option<&'a RunRecord>,
    ) -> BoxFuture<'a, Option<Box<dyn TeammateHandle>>> {
        Box::pin(async move {
            let run = run?;
            let shared = &self.shared;
            let profile = profile_of(&member.agent_id.to_string(), &run.run_id.to_string());
            let session = match &member.pane_id {
                Some(session) if shared.it2.profile_of(session).await.as_ref() == Ok(&profile) => {
                    Some(session.clone())
                }
                _ => None,
            };
            let process = run.process();
            if !process::is_alive(&process) {
                if let Some(session) = &session {
                    shared.close(session, &profile).await;
                }
                return None;
            }
            let worker = Watched::start(&shared.tasks, &member.agent_id, &run.run_id, process, None);
            let pane = Pane { shared: Arc::clone(shared), worker, session, profile };
            Some(Box::new(pane) as Box<dyn TeammateHandle>)
        })
    }
}

/// The name of the profile that a pane is made with.
fn profile_of(agent: &str, run: &str) -> String {
    format!("festoon {agent}/{run}")
}

/// Starts one worker, waits until it is ready, and undoes everything when it does not get there.
async fn start(shared: Arc<Shared>, launch: Launch, given_up: CancellationToken) -> Result<Pane, SpawnError> {
    let argv = worker::command_line(&shared.program, &launch.spec, &launch.spec_file)
        .map_err(|why| failed("prepare worker", why))?;
    let pane = shared.make_pane(&launch.spec, &argv).await?;
    let outcome = worker::ready(launch.ready, launch.deadline, pane.worker.end(), &given_up).await;
    let Err(why) = outcome else { return Ok(pane) };
    let session = pane.session.as_deref().unwrap_or_default();
    let words = shared.it2.last_lines(session, LAST_WORDS).await.unwrap_or_default();
    pane.terminate(FAILED_SPAWN_GRACE).await;
    Err(failed("wait for ready", worker::quoting(why, &words)))
}

impl Shared {
    /// Makes a pane with the worker in it. On failure there is none.
    async fn make_pane(self: &Arc<Self>, spec: &WorkerSpec, argv: &[String]) -> Result<Pane, SpawnError> {
        let mut last = self.last.lock().await;
        let profile = profile_of(&spec.agent_id.to_string(), &spec.run_id.to_string());
        let file = self.it2.offer(&profile, argv, &spec.cwd).await.map_err(|e| failed("offer profile", e))?;
        let made = self.split(last.as_deref(), &profile).await;
        profiles::remove(file).await;
        let session = made.map_err(|e| failed("create pane", e))?;
        let pid = match self.it2.pid(&session).await {
            Ok(pid) => pid,
            Err(error) => {
                self.close(&session, &profile).await;
                return Err(failed("start worker", error));
            }
        };
        let process = worker::identity(pid);
        let worker = Watched::start(&self.tasks, &spec.agent_id, &spec.run_id, process, None);
        *last = Some(session.clone());
        Ok(Pane { shared: Arc::clone(self), worker, session: Some(session), profile })
    }

    /// Below the last of our panes, or beside the leader when that is gone or there is none.
    async fn split(&self, last: Option<&str>, profile: &str) -> Result<String, It2Error> {
        if let Some(last) = last
            && let Ok(session) = self.it2.split_below(last, profile).await
        {
            return Ok(session);
        }
        self.it2.split_beside_leader(profile).await
    }

    /// Closes a pane that is ours; one that is gone is fine.
    async fn close(&self, session: &str, profile: &str) {
        match self.it2.profile_of(session).await {
            Ok(found) if found == profile => {}
            _ => return,
        }
        if let Err(error) = self.it2.close(session).await {
            tracing::warn!(%session, %error, "the pane of an ended teammate could not be closed");
        }
    }
}

/// A worker in its pane.
struct Pane {
    shared: Arc<Shared>,
    worker: Arc<Watched>,
    /// The pane's session, when it was proved ours.
    session: Option<String>,
    profile: String,
}

impl TeammateHandle for Pane {
    fn record(&self) -> HandleRecord {
        self.worker.record(self.session.clone())
    }
    fn probe(&self) -> BoxFuture<'_, Liveness> {
        Box::pin(std::future::ready(self.worker.look()))
    }
    fn exited(&self) -> BoxFuture<'_, ExitReport> {
        Box::pin(self.worker.end())
    }
    fn interrupt(&self) -> BoxFuture<'_, ()> {
        self.worker.interrupt();
        Box::pin(std::future::ready(()))
    }
    fn terminate(&self, grace: Grace) -> BoxFuture<'_, ExitReport> {
        Box::pin(async move {
            let report = self.worker.terminate(grace).await;
            if let Some(session) = &self.session {
                self.shared.close(session, &self.profile).await;
            }
            report
        })
    }
    fn hide(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }
    fn show(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }
}
