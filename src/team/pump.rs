//! Acts on control frames as they arrive, also in the middle of a turn or a hung tool call.
//!
//! A frame is acted on, then recorded in the transcript, then acknowledged; acting twice is harmless.
//! Frames without a good signature never come here: they are text for the model, from outside.

use super::mailbox::{FileMailbox, is_for_model};
use super::wake::Topic;
use crate::agent::mail::payload;
use crate::agent::ports::Mailbox;
use crate::agent::transcript::{NewLine, Transcript};
use crate::wire::event::EventKind;
use crate::wire::frame::{FrameType, PermissionResponse, ShutdownAnswer, ShutdownRequest, TaskStopRequest};
use crate::wire::frame_asks::{ModeSetRequest, TeamPermissionUpdate};
use crate::wire::ids::{AgentName, BackgroundId, MessageId, TEAM_LEAD, USER};
use crate::wire::mail::{Claimed, Origin, Wake};
use crate::wire::permission::{PermissionMode, Rule, RuleSource};
use serde_json::json;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// What a frame means to the agent's owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// The leader or the user ends the running turn.
    Interrupt,
    /// The leader ends: leave at once, without asking the model.
    Leave {
        /// The request to agree to.
        request_id: String,
    },
    /// The leader stops a background task that runs below this agent.
    StopTask(BackgroundId),
    /// A teammate answered a shutdown request.
    ShutdownAnswer {
        /// Who.
        from: AgentName,
        /// Which request.
        request_id: String,
        /// Why not; `None` when it agrees.
        refused: Option<String>,
    },
    /// The leader sets the mode.
    Mode(PermissionMode),
    /// The leader adds rules.
    Rules(Vec<Rule>),
}

/// Reads the control frames of one agent.
pub struct Pump {
    mailbox: Arc<FileMailbox>,
    transcript: Transcript,
    out: mpsc::UnboundedSender<Control>,
    interrupted: HashSet<MessageId>,
}

impl Pump {
    /// A pump for the owner behind `out`.
    pub fn new(
        mailbox: Arc<FileMailbox>,
        transcript: Transcript,
        out: mpsc::UnboundedSender<Control>,
    ) -> Self {
        Self { mailbox, transcript, out, interrupted: HashSet::new() }
    }

    /// Works until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut signal = self.mailbox.team().hub.signal(Topic::Inbox(self.mailbox.me().clone()));
        loop {
            self.look().await;
            tokio::select! {
                () = cancel.cancelled() => return,
                () = signal.changed() => {}
            }
        }
    }

    async fn look(&mut self) {
        let waiting = match self.mailbox.peek().await {
            Ok(waiting) => waiting,
            Err(error) => {
                tracing::warn!(%error, "mail could not be read");
                return;
            }
        };
        for claimed in waiting.iter().filter(|c| interrupts(c)) {
            if self.interrupted.insert(claimed.id.clone()) {
                self.tell(Control::Interrupt);
            }
        }
        let frames: Vec<&Claimed> = waiting.iter().filter(|c| !is_for_model(c)).collect();
        if frames.is_empty() {
            return;
        }
        let ids: Vec<MessageId> = frames.iter().map(|c| c.id.clone()).collect();
        for frame in frames {
            self.act(frame).await;
        }
        if let Err(error) = self.transcript.append(vec![NewLine::delivered(ids.clone())]).await {
            tracing::warn!(%error, "frames were acted on but not recorded; they will come again");
            return;
        }
        if let Err(error) = self.mailbox.ack(&ids).await {
            tracing::warn!(%error, "frames were not acknowledged; they will come again");
        }
    }

    async fn act(&self, claimed: &Claimed) {
        let message = &claimed.message;
        let from = AgentName::new(message.from.clone()).ok();
        match &message.kind {
            FrameType::ShutdownRequest => {
                if let Some(request) = payload::<ShutdownRequest>(message) {
                    self.tell(Control::Leave { request_id: request.request_id });
                }
            }
            FrameType::ShutdownApproved | FrameType::ShutdownRejected => {
                let rejected = message.kind == FrameType::ShutdownRejected;
                if let (Some(from), Some(answer)) = (from, payload::<ShutdownAnswer>(message)) {
                    let refused =
                        rejected.then(|| answer.reason.unwrap_or_else(|| "no reason was given".to_owned()));
                    self.tell(Control::ShutdownAnswer { from, request_id: answer.request_id, refused });
                }
            }
            FrameType::TaskStopRequest if message.from == TEAM_LEAD => {
                if let Some(request) = payload::<TaskStopRequest>(message) {
                    self.tell(Control::StopTask(request.task_id));
                }
            }
            // The decision file is the truth; whoever waits for it looks again.
            FrameType::PermissionResponse if payload::<PermissionResponse>(message).is_some() => {
                self.mailbox.team().hub.poke(Topic::Asks);
            }
            // The ask file is the truth; the frame makes sure the leader looks.
            FrameType::PermissionRequest | FrameType::QuestionRequest => {
                self.mailbox.team().hub.poke(Topic::Asks);
            }
            FrameType::PlanApprovalResponse | FrameType::QuestionResponse => {
                self.mailbox.team().hub.poke(Topic::Asks);
            }
            FrameType::ModeSetRequest if from.as_ref().is_some_and(AgentName::is_lead) => {
                if let Some(request) = payload::<ModeSetRequest>(message) {
                    self.tell(Control::Mode(request.mode));
                }
            }
            FrameType::TeamPermissionUpdate if from.as_ref().is_some_and(AgentName::is_lead) => {
                if let Some(update) = payload::<TeamPermissionUpdate>(message) {
                    let rule = |text| Rule { text, behavior: update.behavior, source: RuleSource::Team };
                    self.tell(Control::Rules(update.texts().into_iter().map(rule).collect()));
                }
            }
            other @ (FrameType::ModeSetRequest | FrameType::TeamPermissionUpdate) => {
                let reason =
                    format!("{} is for the leader to send, not for {}", other.as_str(), message.from);
                self.refuse(claimed, &reason).await;
            }
            other => {
                let reason = format!("this version does not act on {}", other.as_str());
                self.refuse(claimed, &reason).await;
            }
        }
    }

    async fn refuse(&self, claimed: &Claimed, reason: &str) {
        let fields = json!({ "reason": reason, "messageId": claimed.id });
        let mailbox = &self.mailbox;
        mailbox.team().log(EventKind::Refused, mailbox.me(), mailbox.incarnation(), fields).await;
    }

    fn tell(&self, control: Control) {
        // The owner is gone: it is ending, and what it was to be told no longer matters.
        let _ = self.out.send(control);
    }
}

fn interrupts(claimed: &Claimed) -> bool {
    let from = claimed.message.from.as_str();
    claimed.message.wake == Wake::Interrupt
        && claimed.origin == Origin::Team
        && (from == USER || from == AgentName::team_lead().as_str())
}
