//! One worker in its pane: watched to its end, interrupted, ended, hidden and shown.
//!
//! Owns the proof that a pane is ours and the order of an ending: the process first, everything of its
//! session and below it next, the pane last. Promises that the end is said once, within
//! `TmuxOptions::status_wait` of it, also when tmux hangs. A worker whose pane was closed or cannot be proved is still a process
//! that can be watched and ended.

use super::server::{PaneFacts, TmuxError};
use super::{Shared, boxes, layout, tag_of, team_of};
use crate::exec::worker;
use crate::os::process::{self, Signal};
use crate::team::executor::{BoxFuture, ExitKind, ExitReport, Grace, HandleRecord, Liveness, TeammateHandle};
use crate::wire::ids::{AgentId, RunId};
use crate::wire::run::ProcessId;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Part of the wait for an exit status that is left for closing the pane.
const CLOSE_SHARE: Duration = Duration::from_millis(300);
/// How long `terminate` waits for a pane to be closed after its process is gone.
const CLOSE_WAIT: Duration = Duration::from_secs(10);
/// Between two looks at a pane whose process has just ended.
const LOOK: Duration = Duration::from_millis(20);
/// Lines of a dead pane that are kept.
const LAST_WORDS: usize = 10;

/// What proves that a pane is ours, together with the tag and the process.
#[derive(Debug, Clone)]
pub(super) struct Proof {
    pane: String,
    server_pid: u32,
}

impl Proof {
    /// Of a pane that was just made, or whose tag and process were compared.
    pub(super) fn of(facts: &PaneFacts) -> Self {
        Self { pane: facts.id.clone(), server_pid: facts.server_pid }
    }
}

/// How a worker ended, and what its pane showed then.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) report: ExitReport,
    pub(super) said: String,
}

/// One worker.
pub(super) struct Pane {
    shared: Arc<Shared>,
    agent: AgentId,
    run: RunId,
    process: ProcessId,
    proof: Option<Proof>,
    asked: AtomicBool,
    forced: AtomicBool,
    ended: watch::Sender<Option<End>>,
    closed: CancellationToken,
}

impl Pane {
    /// Takes a worker under watch; the watch ends with it.
    pub(super) fn watch(
        shared: Arc<Shared>,
        agent: AgentId,
        run: RunId,
        process: ProcessId,
        proof: Option<Proof>,
    ) -> Arc<Self> {
        let pane = Arc::new(Self {
            shared,
            agent,
            run,
            process,
            proof,
            asked: AtomicBool::new(false),
            forced: AtomicBool::new(false),
            ended: watch::Sender::new(None),
            closed: CancellationToken::new(),
        });
        pane.shared.tasks.spawn(Arc::clone(&pane).see_to_the_end());
        pane
    }

    async fn see_to_the_end(self: Arc<Self>) {
        worker::gone(&self.process).await;
        worker::kill_session(&self.process);
        let mut closing = pin!(self.close());
        let closed = timeout(self.shared.status_wait, &mut closing).await;
        let late = closed.is_err();
        let (exit, kind, said) = closed.unwrap_or_else(|_| unknown("gone, and tmux does not answer"));
        let report = ExitReport {
            exit,
            kind,
            forced: self.forced.load(Ordering::Acquire),
            unexpected: !self.asked.load(Ordering::Acquire),
        };
        self.ended.send_replace(Some(End { report, said }));
        if late {
            closing.await;
        }
        self.closed.cancel();
    }

    /// Waits for the end.
    pub(super) async fn end(&self) -> End {
        let mut ended = self.ended.subscribe();
        let end = ended.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        // The sender lives in `self`: there is always an end.
        end.unwrap_or_else(|| End { report: self.unverified("unknown"), said: String::new() })
    }

    /// Reads how the process of a dead pane ended, and removes the pane.
    async fn close(&self) -> (String, ExitKind, String) {
        let until = Instant::now() + self.shared.status_wait.saturating_sub(CLOSE_SHARE);
        let facts = loop {
            match self.find().await {
                Ok(Some(facts))
                    if facts.status.is_some() || facts.signal.is_some() || Instant::now() >= until =>
                {
                    break facts;
                }
                Ok(Some(_)) => {
                    sleep(LOOK).await;
                    // It counts; a server that refuses this will be asked again.
                    let _ = self.shared.server.reap().await;
                }
                Ok(None) if self.proof.is_none() => return unknown("gone"),
                Ok(None) => return unknown("gone, its pane was closed"),
                Err(error) => return unknown(&format!("gone ({error})")),
            }
        };
        let said = self.shared.server.last_lines(&facts.id, LAST_WORDS).await.unwrap_or_default();
        if let Err(error) = self.remove().await {
            tracing::warn!(pane = facts.id, %error, "the pane of an ended teammate could not be removed");
        }
        match (facts.status, facts.signal) {
            // tmux says status 0 beside a signal.
            (_, Some(signal)) if signal > 0 => (format!("signal {signal}"), ExitKind::Killed, said),
            (Some(0), _) => ("exit 0".to_owned(), ExitKind::Clean, said),
            (Some(status), _) => (format!("exit {status}"), ExitKind::Failed, said),
            (None, _) => ("gone".to_owned(), ExitKind::Unknown, said),
        }
    }

    /// Our pane as it is now: the same server, our tag, our process.
    async fn find(&self) -> Result<Option<PaneFacts>, TmuxError> {
        let Some(proof) = &self.proof else { return Ok(None) };
        let tag = tag_of(&self.agent, &self.run);
        let panes = self.shared.server.panes().await?;
        Ok(panes.into_iter().find(|facts| {
            facts.id == proof.pane
                && facts.server_pid == proof.server_pid
                && facts.pid == self.process.pid
                && facts.tag == tag
        }))
    }

    async fn remove(&self) -> Result<(), TmuxError> {
        let _one_at_a_time = self.shared.layout.lock().await;
        // Looked at again: the server may have removed it while we waited.
        match self.find().await? {
            Some(facts) => self.shared.server.close(&facts.id).await,
            None => Ok(()),
        }
    }

    /// Ends the process, everything of its session and below it, and then the pane.
    pub(super) async fn terminate(&self, grace: Grace) -> ExitReport {
        self.asked.store(true, Ordering::Release);
        if !worker::end(&self.process, grace.terminate, &self.forced).await {
            return self.unverified("still there after KILL");
        }
        let report = self.end().await.report;
        // The news may have come before the pane was closed; a server that hangs cannot hold us up.
        let _ = timeout(CLOSE_WAIT, self.closed.cancelled()).await;
        report
    }

    fn unverified(&self, exit: &str) -> ExitReport {
        ExitReport {
            exit: exit.to_owned(),
            kind: ExitKind::Fenced,
            forced: true,
            unexpected: !self.asked.load(Ordering::Acquire),
        }
    }

    async fn hide(&self) -> Result<bool, TmuxError> {
        let _one_at_a_time = self.shared.layout.lock().await;
        let Some(facts) = self.find().await? else { return Ok(false) };
        if !facts.hidden {
            let name = self.agent.as_str().split('@').next().unwrap_or_default();
            self.shared.server.hide(&facts, name).await?;
        }
        Ok(true)
    }

    async fn show(&self) -> Result<bool, TmuxError> {
        let _one_at_a_time = self.shared.layout.lock().await;
        let Some(facts) = self.find().await? else { return Ok(false) };
        if facts.hidden {
            let panes = self.shared.server.panes().await?;
            let leader = self.shared.leader(&panes).ok().flatten();
            let boxes = boxes(&panes, team_of(&facts.tag).unwrap_or_default(), Some(&facts.id));
            let place = layout::place(&boxes, leader.map(|facts| facts.id.as_str()));
            match self.shared.server.show(&facts.id, &place).await {
                Err(TmuxError::Refused { .. }) => {
                    self.shared.server.show(&facts.id, &layout::Place::Window).await?;
                }
                shown => shown?,
            }
        }
        Ok(true)
    }

    async fn look(&self) -> Liveness {
        let pid = self.process.pid;
        if !process::is_alive(&self.process) {
            return Liveness { alive: false, evidence: format!("pid {pid} gone") };
        }
        let pane = match (&self.proof, self.find().await) {
            (None, _) => "without a pane of ours".to_owned(),
            (Some(proof), Ok(Some(_))) => format!("in pane {}", proof.pane),
            (Some(proof), Ok(None)) => format!("but pane {} is gone", proof.pane),
            (Some(_), Err(error)) => format!("({error})"),
        };
        Liveness { alive: true, evidence: format!("pid {pid} running {pane}") }
    }
}

fn unknown(exit: &str) -> (String, ExitKind, String) {
    (exit.to_owned(), ExitKind::Unknown, String::new())
}

/// A worker, for the team.
pub(super) struct PaneHandle(pub(super) Arc<Pane>);

/// What a person asked for and tmux refused is no error of the teammate.
fn shown(outcome: Result<bool, TmuxError>) -> bool {
    outcome.unwrap_or_else(|error| {
        tracing::warn!(%error, "a pane could not be moved");
        false
    })
}

impl TeammateHandle for PaneHandle {
    fn record(&self) -> HandleRecord {
        HandleRecord {
            agent_id: self.0.agent.clone(),
            run_id: self.0.run.clone(),
            pane_id: self.0.proof.as_ref().map(|proof| proof.pane.clone()),
            pane_server: self.0.proof.as_ref().map(|_| self.0.shared.server.socket().display().to_string()),
            process: Some(self.0.process.clone()),
        }
    }
    fn probe(&self) -> BoxFuture<'_, Liveness> {
        Box::pin(self.0.look())
    }
    fn exited(&self) -> BoxFuture<'_, ExitReport> {
        Box::pin(async { self.0.end().await.report })
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
        Box::pin(async { shown(self.0.hide().await) })
    }
    fn show(&self) -> BoxFuture<'_, bool> {
        Box::pin(async { shown(self.0.show().await) })
    }
}
