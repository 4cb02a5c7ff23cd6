//! A worker's process under watch, for backends that know nothing but the process of how it ends.
//!
//! Owns the news of the end, which is said once, and the steps of an ending by force. Never touches a
//! terminal.

use super::worker;
use crate::os::command::Exit;
use crate::os::detached::Detached;
use crate::os::process::{self, Signal};
use crate::team::executor::{ExitKind, ExitReport, Grace, HandleRecord, Liveness};
use crate::wire::ids::{AgentId, RunId};
use crate::wire::run::ProcessId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// One worker.
pub(super) struct Watched {
    agent: AgentId,
    run: RunId,
    process: ProcessId,
    asked: AtomicBool,
    forced: AtomicBool,
    ended: watch::Sender<Option<ExitReport>>,
}

impl Watched {
    /// Watches a worker to its end; `child` is there when it is a child of this process.
    pub(super) fn start(
        tasks: &TaskTracker,
        agent: &AgentId,
        run: &RunId,
        process: ProcessId,
        child: Option<Detached>,
    ) -> Arc<Self> {
        let worker = Arc::new(Self {
            agent: agent.clone(),
            run: run.clone(),
            process,
            asked: AtomicBool::new(false),
            forced: AtomicBool::new(false),
            ended: watch::Sender::new(None),
        });
        tasks.spawn(Arc::clone(&worker).see_to_the_end(child));
        worker
    }

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

    /// Waits for the end.
    pub(super) async fn end(&self) -> ExitReport {
        let mut ended = self.ended.subscribe();
        let end = ended.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        // The sender lives in `self`: there is always an end.
        end.unwrap_or_else(|| self.report("unknown".to_owned(), ExitKind::Unknown))
    }

    /// Ends it by force, with all of its session and below it.
    pub(super) async fn terminate(&self, grace: Grace) -> ExitReport {
        self.asked.store(true, Ordering::Release);
        if worker::end(&self.process, grace.terminate, &self.forced).await {
            self.end().await
        } else {
            self.report("still there after KILL".to_owned(), ExitKind::Fenced)
        }
    }

    /// Ends its running turn.
    pub(super) fn interrupt(&self) {
        if let Err(error) = process::signal(&self.process, Signal::Interrupt) {
            tracing::warn!(%error, "a teammate could not be interrupted");
        }
    }

    /// Looks at the process.
    pub(super) fn look(&self) -> Liveness {
        let (alive, pid) = (process::is_alive(&self.process), self.process.pid);
        Liveness { alive, evidence: format!("pid {pid} {}", if alive { "running" } else { "gone" }) }
    }

    /// For the roster.
    pub(super) fn record(&self, pane_id: Option<String>) -> HandleRecord {
        HandleRecord {
            agent_id: self.agent.clone(),
            run_id: self.run.clone(),
            pane_id,
            pane_server: None,
            process: Some(self.process.clone()),
        }
    }
}
