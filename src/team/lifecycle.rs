//! The life of one teammate as its leader sees it: (state, event, now) → (state, effects).
//!
//! Owns every rule about starting, stopping and ending. It is pure: it reads no clock, does no I/O and
//! waits for nothing; the supervisor feeds it events and carries out its effects in the order given.
//!
//! Promises: every state has a way out that does not depend on the teammate (`Starting` ends with the
//! executor's own deadline, each rung of the ladder has a timer); a timer carries the epoch it was armed
//! in and does nothing in a later one; the end is written exactly once, before it is told; nothing is
//! terminated unless somebody asked for a stop or the teammate itself said that it is over.

mod event;
#[cfg(test)]
mod tests;

pub use event::{Activity, Effect, Event, Insistence, Ladder, Note, Stop, Verdict};

use super::executor::{ExitKind, ExitReport, Grace};
use crate::wire::run::AgentState;
use std::time::{Duration, Instant};

/// What the last rung may take beyond its own deadlines before the end counts as unverified.
const TERMINATE_SLACK: Duration = Duration::from_secs(5);
/// How long a teammate that said it is over may take to be gone.
const LAST_WORD_GRACE: Duration = Duration::from_secs(5);
/// The steps of [`Grace`] where no stop request brought its own.
const DEFAULT_GRACE: Grace = Grace { interrupt: Duration::from_secs(5), terminate: Duration::from_secs(5) };

/// Where on the ladder a stop is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rung {
    /// Asked; waits for an answer.
    Polite,
    /// It agreed, or said its last word; waits for it to be gone.
    Leaving,
    /// Its turn was interrupted; waits for the turn or the teammate to end.
    Interrupt,
    /// The executor ends it by force.
    Terminate,
}

/// Why a teammate is ending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Somebody asked for it.
    Asked(Stop),
    /// It said so itself: `Stopped` or `Failed`.
    LastWord(AgentState),
}

/// The state of one teammate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// The executor is at it; a stop that came meanwhile waits for the outcome.
    Starting {
        /// What it said before the executor reported success.
        activity: Activity,
        /// A stop to begin with.
        pending: Option<Stop>,
    },
    /// Ready, in whatever it says it does.
    Live(Activity),
    /// On the ladder.
    Stopping {
        /// How far.
        rung: Rung,
        /// Why.
        cause: Cause,
        /// What it does meanwhile; it goes back to this when it refuses.
        activity: Activity,
    },
    /// Ended; nothing follows.
    Over(Verdict),
}

/// One teammate's life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lifecycle {
    phase: Phase,
    since: Instant,
    epoch: u64,
}

impl Lifecycle {
    /// A teammate whose spawn has just been asked of an executor.
    pub fn starting(now: Instant) -> Self {
        Self { phase: Phase::Starting { activity: Activity::Working, pending: None }, since: now, epoch: 0 }
    }
    /// A teammate of an earlier leader that was found alive, in the state its record gives.
    pub fn adopted(state: AgentState, now: Instant) -> Self {
        let activity = Activity::of(state).unwrap_or(Activity::Working);
        Self { phase: Phase::Live(activity), since: now, epoch: 0 }
    }
    /// The state.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }
    /// When the state was entered.
    pub fn since(&self) -> Instant {
        self.since
    }
    /// The state in the words of the wire.
    pub fn state(&self) -> AgentState {
        match &self.phase {
            Phase::Starting { .. } => AgentState::Starting,
            Phase::Live(Activity::Working) => AgentState::Working,
            Phase::Live(Activity::Idle) => AgentState::Idle,
            Phase::Live(Activity::Waiting) => AgentState::Waiting,
            Phase::Stopping { .. } => AgentState::Stopping,
            Phase::Over(verdict) => verdict.state(),
        }
    }
    /// True when nothing follows.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over(_))
    }

    /// True when it waits for work.
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Live(Activity::Idle))
    }

    /// One step. Events that mean nothing in a state change nothing.
    #[must_use]
    pub fn step(self, event: Event, now: Instant) -> (Self, Vec<Effect>) {
        let Self { phase, since, epoch } = self;
        let mut step = Step { now, epoch, effects: Vec::new() };
        let before = phase.clone();
        let phase = match phase {
            Phase::Starting { activity, pending } => step.starting(activity, pending, event),
            Phase::Live(activity) => step.live(activity, event),
            Phase::Stopping { rung, cause, activity } => step.stopping(rung, cause, activity, event),
            Phase::Over(verdict) => Phase::Over(verdict),
        };
        let since = if phase == before { since } else { now };
        (Self { phase, since, epoch: step.epoch }, step.effects)
    }
}

/// The work of one step: the effects so far, and the epoch of the newest timer.
struct Step {
    now: Instant,
    epoch: u64,
    effects: Vec<Effect>,
}

impl Step {
    fn starting(&mut self, activity: Activity, pending: Option<Stop>, event: Event) -> Phase {
        match event {
            // It has had no time to do anything worth asking about: no polite step.
            Event::SpawnSucceeded => match pending {
                Some(stop) => self.force(Cause::Asked(stop), activity),
                None => Phase::Live(activity),
            },
            Event::SpawnFailed { why } => {
                self.over(Verdict::Failed, "not started".to_owned(), format!("could not start: {why}"))
            }
            Event::ExitSeen(report) => match pending {
                Some(stop) => self.gone(&Cause::Asked(stop), report),
                None => self.over(Verdict::Failed, report.exit, "ended while it was starting".to_owned()),
            },
            Event::Reported(state) => {
                Phase::Starting { activity: Activity::of(state).unwrap_or(activity), pending }
            }
            Event::StopAsked(stop) => Phase::Starting { activity, pending: pending.or(Some(stop)) },
            Event::ShutdownApproved { .. }
            | Event::ShutdownRejected { .. }
            | Event::TurnEndedWithoutAnswer { .. }
            | Event::Timer { .. } => Phase::Starting { activity, pending },
        }
    }

    fn live(&mut self, activity: Activity, event: Event) -> Phase {
        match event {
            Event::Reported(state @ (AgentState::Stopped | AgentState::Failed)) => {
                self.leaving(Cause::LastWord(state), activity, LAST_WORD_GRACE)
            }
            Event::Reported(state) => Phase::Live(Activity::of(state).unwrap_or(activity)),
            Event::ExitSeen(report) => self.gone_unasked(report),
            Event::StopAsked(stop) if stop.insistence == Insistence::Now => {
                self.force(Cause::Asked(stop), activity)
            }
            Event::StopAsked(stop) => self.ask(stop, activity),
            Event::SpawnSucceeded
            | Event::SpawnFailed { .. }
            | Event::ShutdownApproved { .. }
            | Event::ShutdownRejected { .. }
            | Event::TurnEndedWithoutAnswer { .. }
            | Event::Timer { .. } => Phase::Live(activity),
        }
    }

    fn stopping(&mut self, rung: Rung, cause: Cause, activity: Activity, event: Event) -> Phase {
        match event {
            Event::ExitSeen(report) => self.gone(&cause, report),
            Event::Timer { epoch } if epoch == self.epoch => self.late(rung, cause, activity),
            Event::Reported(state @ (AgentState::Stopped | AgentState::Failed)) if rung < Rung::Leaving => {
                let grace = cause_grace(&cause).interrupt;
                self.leaving(with_last_word(cause, state), activity, grace)
            }
            // The interrupted turn has ended: nothing more to wait for.
            Event::Reported(AgentState::Idle) if rung == Rung::Interrupt => {
                self.terminate(cause, Activity::Idle)
            }
            Event::Reported(state) => {
                Phase::Stopping { rung, cause, activity: Activity::of(state).unwrap_or(activity) }
            }
            Event::StopAsked(stop) => self.asked_again(rung, cause, activity, stop),
            Event::ShutdownApproved { request_id } if rung == Rung::Polite && is_for(&cause, &request_id) => {
                let grace = cause_grace(&cause).interrupt;
                self.leaving(cause, activity, grace)
            }
            Event::ShutdownRejected { request_id, reason }
                if rung == Rung::Polite && is_for(&cause, &request_id) =>
            {
                self.refused(cause, activity, reason)
            }
            Event::TurnEndedWithoutAnswer { request_id }
                if rung == Rung::Polite && is_for(&cause, &request_id) =>
            {
                self.force(cause, Activity::Idle)
            }
            Event::SpawnSucceeded
            | Event::SpawnFailed { .. }
            | Event::ShutdownApproved { .. }
            | Event::ShutdownRejected { .. }
            | Event::TurnEndedWithoutAnswer { .. }
            | Event::Timer { .. } => Phase::Stopping { rung, cause, activity },
        }
    }

    /// A rung's deadline has passed.
    fn late(&mut self, rung: Rung, cause: Cause, activity: Activity) -> Phase {
        match rung {
            Rung::Polite => self.force(cause, activity),
            Rung::Leaving | Rung::Interrupt => self.terminate(cause, activity),
            Rung::Terminate => self.over(
                Verdict::Lost,
                "unknown".to_owned(),
                "it was ended by force, and its end could not be verified".to_owned(),
            ),
        }
    }

    /// A second stop can only make the first one more urgent.
    fn asked_again(&mut self, rung: Rung, cause: Cause, activity: Activity, stop: Stop) -> Phase {
        match cause {
            Cause::Asked(first) => {
                let insistence = first.insistence.max(stop.insistence);
                let cause = Cause::Asked(Stop { insistence, ..first });
                if insistence == Insistence::Now && rung < Rung::Interrupt {
                    return self.force(cause, activity);
                }
                Phase::Stopping { rung, cause, activity }
            }
            Cause::LastWord(_) if stop.insistence == Insistence::Now && rung < Rung::Terminate => {
                self.terminate(Cause::Asked(stop), activity)
            }
            Cause::LastWord(_) => Phase::Stopping { rung, cause, activity },
        }
    }

    fn ask(&mut self, stop: Stop, activity: Activity) -> Phase {
        self.effects.push(Effect::SendShutdownRequest {
            request_id: stop.request_id.clone(),
            deadline: self.now + stop.ladder.polite,
            reason: stop.reason.clone(),
        });
        self.arm(stop.ladder.polite);
        Phase::Stopping { rung: Rung::Polite, cause: Cause::Asked(stop), activity }
    }

    fn refused(&mut self, cause: Cause, activity: Activity, reason: String) -> Phase {
        let overridden = matches!(&cause, Cause::Asked(stop) if stop.insistence >= Insistence::Insist);
        self.effects.push(Effect::TellLeader(Note::Refused { reason, overridden }));
        if overridden {
            return self.force(cause, activity);
        }
        self.epoch += 1;
        Phase::Live(activity)
    }

    fn leaving(&mut self, cause: Cause, activity: Activity, within: Duration) -> Phase {
        self.arm(within);
        Phase::Stopping { rung: Rung::Leaving, cause, activity }
    }

    /// The first rung past politeness: interrupt a turn, or terminate when there is none.
    fn force(&mut self, cause: Cause, activity: Activity) -> Phase {
        if !activity.in_turn() {
            return self.terminate(cause, activity);
        }
        self.effects.push(Effect::Interrupt);
        self.arm(cause_grace(&cause).interrupt);
        Phase::Stopping { rung: Rung::Interrupt, cause, activity }
    }

    fn terminate(&mut self, cause: Cause, activity: Activity) -> Phase {
        let grace = cause_grace(&cause);
        self.effects.push(Effect::Terminate(grace));
        self.arm(grace.interrupt + grace.terminate + TERMINATE_SLACK);
        Phase::Stopping { rung: Rung::Terminate, cause, activity }
    }

    fn arm(&mut self, after: Duration) {
        self.epoch += 1;
        self.effects.push(Effect::ArmTimer { epoch: self.epoch, after });
    }

    fn gone(&mut self, cause: &Cause, report: ExitReport) -> Phase {
        let (verdict, reason) = match cause {
            Cause::Asked(stop) => (Verdict::Stopped, format!("stopped by {}: {}", stop.by, stop.reason)),
            Cause::LastWord(AgentState::Failed) => (Verdict::Failed, "it reported a failure".to_owned()),
            Cause::LastWord(_) => (Verdict::Stopped, "it ended by itself".to_owned()),
        };
        self.over(verdict, report.exit, reason)
    }

    fn gone_unasked(&mut self, report: ExitReport) -> Phase {
        let (verdict, reason) = match report.kind {
            ExitKind::Clean => (Verdict::Stopped, "it ended by itself"),
            ExitKind::Failed => (Verdict::Failed, "it ended by an error"),
            ExitKind::Fenced => (Verdict::Failed, "it was stuck and was shut out"),
            ExitKind::Killed | ExitKind::Unknown => (Verdict::Lost, "it is gone without a word"),
        };
        self.over(verdict, report.exit, reason.to_owned())
    }

    fn over(&mut self, verdict: Verdict, exit: String, reason: String) -> Phase {
        self.epoch += 1;
        self.effects.extend([
            Effect::WriteEnded { verdict, exit: exit.clone(), reason: reason.clone() },
            Effect::ReleaseSlot,
            Effect::TellLeader(Note::Ended { verdict, exit, reason }),
        ]);
        Phase::Over(verdict)
    }
}

fn cause_grace(cause: &Cause) -> Grace {
    match cause {
        Cause::Asked(stop) => stop.ladder.grace(),
        Cause::LastWord(_) => DEFAULT_GRACE,
    }
}

fn is_for(cause: &Cause, request: &str) -> bool {
    matches!(cause, Cause::Asked(stop) if stop.request_id == request)
}

/// A teammate that fails while it is asked to stop was still asked to stop.
fn with_last_word(cause: Cause, state: AgentState) -> Cause {
    match cause {
        asked @ Cause::Asked(_) => asked,
        Cause::LastWord(_) => Cause::LastWord(state),
    }
}
