//! How a teammate ends: the last steps of its process, whether it agreed, failed, panicked or was cut off.

use super::{Host, Leave};
use crate::agent::core::AgentCore;
use crate::agent::transcript::{NewLine, RUN_ENDED, Transcript};
use crate::team::below::Below;
use crate::team::executor::RunnerExit;
use crate::team::mailbox::{FileMailbox, Sender};
use crate::team::meta;
use crate::team::reporter::Reporter;
use crate::wire::frame::{FrameType, ShutdownAnswer};
use crate::wire::ids::AgentName;
use crate::wire::mail::{Draft, Wake};
use crate::wire::run::AgentState;
use crate::wire::worker::WorkerSpec;
use std::sync::{Arc, OnceLock};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How it ends.
pub(super) struct Parting {
    pub(super) exit: RunnerExit,
    /// The request it agrees to.
    agrees: Option<String>,
}

impl Parting {
    pub(super) fn of(leave: Leave) -> Self {
        let (exit, agrees) = match leave {
            Leave::Cancelled => ("cancelled", None),
            Leave::Agreed(request) => ("agreed to shut down", request),
        };
        Self { exit: RunnerExit { exit: exit.to_owned(), failed: false }, agrees }
    }

    pub(super) fn failed(exit: String) -> Self {
        Self { exit: RunnerExit { exit, failed: true }, agrees: None }
    }
}

/// What there is of it once it is built.
pub(super) type Body = Arc<OnceLock<(Arc<AgentCore>, Transcript, Arc<FileMailbox>)>>;

/// What it leaves.
pub(super) struct Estate {
    pub(super) host: Host,
    pub(super) spec: WorkerSpec,
    pub(super) reporter: Arc<Reporter>,
    pub(super) below: Below,
    pub(super) flusher: JoinHandle<()>,
    pub(super) body: Body,
    /// Ends its pump and whatever else follows it.
    pub(super) ended: CancellationToken,
}

impl Estate {
    /// Every step, whatever became of the others.
    pub(super) async fn settle(self, parting: Option<Parting>) -> RunnerExit {
        let Parting { exit, agrees } =
            parting.unwrap_or_else(|| Parting::failed("it was cut off".to_owned()));
        if let Some((core, transcript, mailbox)) = self.body.get() {
            core.let_go().await;
            say(&self.reporter, AgentState::Stopping).await;
            if let Some(request_id) = agrees {
                approve(mailbox, &self.spec, request_id).await;
            }
            let last = NewLine::system(RUN_ENDED, exit.exit.clone());
            if let Err(error) = transcript.append(vec![last]).await {
                tracing::warn!(%error, "the end of the run could not be recorded");
            }
        }
        self.below.stop().await;
        meta::write(&self.host, &self.spec, if exit.failed { "failed" } else { "completed" }).await;
        self.ended.cancel();
        // It only ever ends by the token; a panic in it has been logged by the runtime.
        let _ = self.flusher.await;
        say(&self.reporter, if exit.failed { AgentState::Failed } else { AgentState::Stopped }).await;
        self.host.reporters.remove(&self.reporter);
        exit
    }
}

async fn say(reporter: &Reporter, state: AgentState) {
    if let Err(error) = reporter.set_state(state).await {
        tracing::warn!(%error, "the state could not be written");
    }
}

/// Agrees to a shutdown request in the name of the runtime.
async fn approve(mailbox: &FileMailbox, spec: &WorkerSpec, request_id: String) {
    let answer = ShutdownAnswer {
        request_id,
        pane_id: None,
        backend_type: spec.backend.as_str().to_owned(),
        reason: None,
    };
    let text = format!("{} shuts down.", spec.name);
    let sent = match Draft::frame(FrameType::ShutdownApproved, text, &answer) {
        Ok(draft) => mailbox.post(&AgentName::team_lead(), draft.waking(Wake::Queue), Sender::Trusted).await,
        Err(error) => return tracing::error!(%error, "the answer could not be encoded"),
    };
    if let Err(error) = sent {
        // The leader's ladder sees the exit all the same.
        tracing::warn!(%error, "the answer to a shutdown request was not stored");
    }
}
