//! Carrying out what the lifecycle asks for: requests, timers, force, and the last entry.

use super::{Order, StopOutcome, Work};
use crate::agent::context::spawn_in;
use crate::store::clock;
use crate::team::ending;
use crate::team::lifecycle::{Effect, Note, Verdict};
use crate::team::mailbox::{FileMailbox, Sender};
use crate::wire::frame::{FrameType, ShutdownRequest};
use crate::wire::ids::AgentName;
use crate::wire::mail::{Draft, Wake};
use crate::wire::team::Ended;
use std::time::Instant;

impl Work {
    /// Carries them out in order. Before the end of one that has a worktree is written, that is looked at.
    pub(super) async fn carry_out_all(&mut self, name: &AgentName, effects: Vec<Effect>) {
        let mut effects = effects.into_iter();
        while let Some(effect) = effects.next() {
            if matches!(effect, Effect::WriteEnded { .. }) && self.has_place(name) {
                self.settle(name, std::iter::once(effect).chain(effects).collect());
                return;
            }
            self.carry_out(name, effect).await;
        }
    }

    pub(super) async fn carry_out(&mut self, name: &AgentName, effect: Effect) {
        let Some(charge) = self.members.get_mut(name) else { return };
        let run_id = charge.spec.run_id.clone();
        match effect {
            Effect::SendShutdownRequest { request_id, deadline, reason } => {
                let request = ShutdownRequest {
                    request_id,
                    deadline: clock::in_future(deadline.saturating_duration_since(Instant::now())),
                    reason: Some(reason),
                    leader_leaves: charge.leaves,
                };
                self.send_request(name, &request).await;
            }
            Effect::Interrupt => {
                if let Some(handle) = charge.handle.clone() {
                    drop(spawn_in(&self.parts.lead, async move { handle.interrupt().await }));
                }
            }
            Effect::Terminate(grace) => {
                let Some(handle) = charge.handle.clone() else { return };
                let (orders, name) = (self.orders.clone(), name.clone());
                drop(spawn_in(&self.parts.lead, async move {
                    let report = handle.terminate(grace).await;
                    let _ = orders.send(Order::Exited { name, run_id, report });
                }));
            }
            Effect::ArmTimer { epoch, after } => {
                let (orders, name) = (self.orders.clone(), name.clone());
                drop(spawn_in(&self.parts.lead, async move {
                    tokio::time::sleep(after).await;
                    let _ = orders.send(Order::Timer { name, run_id, epoch });
                }));
            }
            Effect::WriteEnded { verdict, exit, reason } => {
                let reason = charge.reason(verdict, reason);
                self.write_ended(name, verdict, exit, reason).await
            }
            Effect::ReleaseSlot => self.close_asks(name).await,
            Effect::TellLeader(Note::Ended { verdict, exit, reason }) => {
                let reason = charge.reason(verdict, reason);
                self.tell(name, Note::Ended { verdict, exit, reason }).await
            }
            Effect::TellLeader(note) => self.tell(name, note).await,
        }
    }

    pub(super) async fn send_request(&self, name: &AgentName, request: &ShutdownRequest) {
        let lead = FileMailbox::new(self.parts.team.clone(), AgentName::team_lead(), 1, None);
        let text = format!("The leader asks {name} to shut down.");
        let sent = match Draft::frame(FrameType::ShutdownRequest, text, request) {
            Ok(draft) => lead.post(name, draft, Sender::Trusted).await.map(drop).map_err(|e| e.what),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = sent {
            // The ladder goes on by its timer.
            tracing::warn!(%name, %error, "a shutdown request could not be sent");
        }
    }

    async fn write_ended(&mut self, name: &AgentName, verdict: Verdict, exit: String, reason: String) {
        let Some(charge) = self.members.get(name) else { return };
        let ended = Ended::new(verdict.state(), clock::now(), exit, reason);
        self.record_end(name, charge.spec.incarnation, charge.listed, &ended).await;
        if let Some(charge) = self.members.get_mut(name) {
            charge.task = None;
            for waiter in charge.waiters.drain(..) {
                let _ = waiter.send(StopOutcome::Over(ended.clone()));
            }
        }
    }

    /// Writes a verdict; a failure is kept for the end of the run.
    pub(super) async fn record_end(
        &mut self,
        name: &AgentName,
        incarnation: u32,
        listed: bool,
        ended: &Ended,
    ) {
        if let Err(error) = ending::record(&self.parts.team, name, incarnation, listed, ended).await {
            tracing::error!(%name, %error, "the end of a teammate could not be written");
            self.unsaid.push(format!("{name} is {}: {} ({error})", ended.state.as_str(), ended.reason));
        }
    }

    async fn close_asks(&self, name: &AgentName) {
        let Some(charge) = self.members.get(name) else { return };
        let (team, incarnation) = (&self.parts.team, charge.spec.incarnation);
        let closed =
            ending::close_asks(team, name, ending::Whose::Of(incarnation), "the asking agent has ended");
        if let Err(error) = closed.await {
            tracing::warn!(%name, %error, "the asks of an ended teammate could not be closed");
        }
    }

    async fn tell(&mut self, name: &AgentName, note: Note) {
        let Some(charge) = self.members.get_mut(name) else { return };
        let (agent_id, incarnation) = (charge.spec.agent_id.clone(), charge.spec.incarnation);
        let draft = match note {
            Note::Refused { reason, overridden } => {
                if !overridden {
                    for waiter in charge.waiters.drain(..) {
                        let _ = waiter.send(StopOutcome::Refused(reason.clone()));
                    }
                }
                charge.asked = overridden;
                let what = if overridden { "It is shut down all the same." } else { "It goes on." };
                Draft::text(format!("{name} does not want to shut down: {reason}. {what}"))
            }
            // A teammate that never started was reported to its spawner; one that leaves with its
            // leader needs no obituary.
            Note::Ended { .. } if !charge.listed || charge.leaves => return,
            Note::Ended { verdict, exit, reason } => {
                // Who ends without being asked leaves something undone.
                let expected = verdict == Verdict::Stopped && charge.asked;
                let wake = if expected { Wake::Queue } else { Wake::Turn };
                match ending::obituary(&agent_id, incarnation, verdict.state(), &exit, &reason) {
                    Ok(draft) => draft.waking(wake),
                    Err(error) => return tracing::error!(%error, "a notice could not be encoded"),
                }
            }
        };
        let system = FileMailbox::new(self.parts.team.clone(), AgentName::system(), 1, None);
        if let Err(error) = system.post(&AgentName::team_lead(), draft, Sender::Trusted).await {
            tracing::error!(%name, %error, "the leader could not be told");
            self.unsaid.push(format!("the leader was not told of {name}: {error}"));
        }
    }
}
