//! What is said about a teammate's life: the events that come in and the effects that go out.
//!
//! Owns the words only; what they mean in which state is in the module above.

use crate::team::executor::{ExitReport, Grace};
use crate::wire::run::AgentState;
use std::time::{Duration, Instant};

/// What a living teammate does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// In a turn.
    Working,
    /// Ready for more.
    Idle,
    /// In a turn that waits for a person.
    Waiting,
}

impl Activity {
    pub(super) fn of(state: AgentState) -> Option<Self> {
        match state {
            AgentState::Working => Some(Self::Working),
            AgentState::Idle => Some(Self::Idle),
            AgentState::Waiting => Some(Self::Waiting),
            AgentState::Starting
            | AgentState::Stopping
            | AgentState::Stopped
            | AgentState::Failed
            | AgentState::Lost => None,
        }
    }
    pub(super) fn in_turn(self) -> bool {
        matches!(self, Self::Working | Self::Waiting)
    }
}

/// How much the person wants the stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Insistence {
    /// A refusal is heard and ends the stop.
    Ask,
    /// A refusal is told, and the ladder goes on.
    Insist,
    /// The polite step is left out.
    Now,
}

/// Deadlines of the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ladder {
    /// For the answer to the polite request.
    pub polite: Duration,
    /// For an interrupted turn to end, and for an agreed end to happen.
    pub interrupt: Duration,
    /// From TERM to KILL.
    pub terminate: Duration,
}

impl Ladder {
    pub(super) fn grace(self) -> Grace {
        Grace { interrupt: self.interrupt, terminate: self.terminate }
    }
}

/// A request to stop one teammate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// Names the request in the teammate's answer.
    pub request_id: String,
    /// Who asked: `user`, `team-lead`, `budget` …
    pub by: String,
    /// Why, for the teammate and for the record.
    pub reason: String,
    /// How much it is wanted.
    pub insistence: Insistence,
    /// The deadlines.
    pub ladder: Ladder,
}

/// How it ended, as the leader judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// On purpose.
    Stopped,
    /// By an error.
    Failed,
    /// Without a word.
    Lost,
}

impl Verdict {
    /// The state that goes into the roster.
    pub fn state(self) -> AgentState {
        match self {
            Self::Stopped => AgentState::Stopped,
            Self::Failed => AgentState::Failed,
            Self::Lost => AgentState::Lost,
        }
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The executor's spawn returned a handle.
    SpawnSucceeded,
    /// The executor's spawn failed, and nothing of it is left.
    SpawnFailed {
        /// Why.
        why: String,
    },
    /// Its run record says so.
    Reported(AgentState),
    /// It is gone: its handle's `exited` or `terminate` returned.
    ExitSeen(ExitReport),
    /// Somebody wants it to end.
    StopAsked(Stop),
    /// It agrees to end.
    ShutdownApproved {
        /// To which request.
        request_id: String,
    },
    /// It refuses to end.
    ShutdownRejected {
        /// Which request.
        request_id: String,
        /// Why.
        reason: String,
    },
    /// The turn that showed it the request ended, and it answered in prose or not at all.
    TurnEndedWithoutAnswer {
        /// Which request.
        request_id: String,
    },
    /// A timer ran out.
    Timer {
        /// The epoch it was armed in.
        epoch: u64,
    },
}

/// What the supervisor has to do, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Send a `shutdown_request`.
    SendShutdownRequest {
        /// Its id.
        request_id: String,
        /// Until when an answer counts.
        deadline: Instant,
        /// Why it should end.
        reason: String,
    },
    /// Call the handle's `interrupt`.
    Interrupt,
    /// Call the handle's `terminate`, and feed its report back as [`Event::ExitSeen`].
    Terminate(Grace),
    /// Feed [`Event::Timer`] with this epoch after this time.
    ArmTimer {
        /// To tell a stale one.
        epoch: u64,
        /// How long.
        after: Duration,
    },
    /// Write the end into the roster. (After a spawn that failed, a row made for it is taken out instead.)
    WriteEnded {
        /// The verdict.
        verdict: Verdict,
        /// How its process or task ended.
        exit: String,
        /// Why.
        reason: String,
    },
    /// Close the asks that it left open.
    ReleaseSlot,
    /// Tell the leader.
    TellLeader(Note),
}

/// What the leader is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// It refuses to end.
    Refused {
        /// Its reason.
        reason: String,
        /// True when the ladder goes on all the same.
        overridden: bool,
    },
    /// It has ended.
    Ended {
        /// The verdict.
        verdict: Verdict,
        /// How its process or task ended.
        exit: String,
        /// Why.
        reason: String,
    },
}
