use super::*;
use proptest::prelude::*;

const LADDER: Ladder = Ladder {
    polite: Duration::from_secs(15),
    interrupt: Duration::from_secs(5),
    terminate: Duration::from_secs(4),
};
const GRACE: Grace = Grace { interrupt: Duration::from_secs(5), terminate: Duration::from_secs(4) };
const LAST: Duration = Duration::from_secs(14);

fn stop(insistence: Insistence) -> Stop {
    Stop {
        request_id: "r1".to_owned(),
        by: "user".to_owned(),
        reason: "done".to_owned(),
        insistence,
        ladder: LADDER,
    }
}

fn exit(kind: ExitKind, exit: &str) -> Event {
    Event::ExitSeen(ExitReport { exit: exit.to_owned(), kind, forced: false, unexpected: true })
}

fn ended(verdict: Verdict, exit: &str, reason: &str) -> Vec<Effect> {
    let (exit, reason) = (exit.to_owned(), reason.to_owned());
    vec![
        Effect::WriteEnded { verdict, exit: exit.clone(), reason: reason.clone() },
        Effect::ReleaseSlot,
        Effect::TellLeader(Note::Ended { verdict, exit, reason }),
    ]
}

/// Drives a life and keeps the effects of the last step.
struct Drive {
    life: Lifecycle,
    now: Instant,
}

impl Drive {
    fn starting() -> Self {
        let now = Instant::now();
        Self { life: Lifecycle::starting(now), now }
    }
    fn live(activity: AgentState) -> Self {
        let mut drive = Self::starting();
        assert_eq!(drive.feed(Event::SpawnSucceeded), []);
        assert_eq!(drive.feed(Event::Reported(activity)), []);
        assert_eq!(drive.life.state(), activity);
        drive
    }
    fn feed(&mut self, event: Event) -> Vec<Effect> {
        let (life, effects) = self.life.clone().step(event, self.now);
        self.life = life;
        effects
    }
    fn asked(activity: AgentState, insistence: Insistence) -> Self {
        let mut drive = Self::live(activity);
        let request = Effect::SendShutdownRequest {
            request_id: "r1".to_owned(),
            deadline: drive.now + LADDER.polite,
            reason: "done".to_owned(),
        };
        let effects = drive.feed(Event::StopAsked(stop(insistence)));
        assert_eq!(effects, [request, Effect::ArmTimer { epoch: 1, after: LADDER.polite }]);
        drive
    }
}

#[test]
fn a_teammate_that_agrees_is_stopped_once_it_is_gone() {
    let mut drive = Drive::asked(AgentState::Idle, Insistence::Ask);
    assert_eq!(
        drive.feed(Event::ShutdownApproved { request_id: "r1".to_owned() }),
        [Effect::ArmTimer { epoch: 2, after: LADDER.interrupt }]
    );
    assert_eq!(drive.life.state(), AgentState::Stopping);
    assert_eq!(
        drive.feed(exit(ExitKind::Clean, "exit 0")),
        ended(Verdict::Stopped, "exit 0", "stopped by user: done")
    );
    assert_eq!(drive.life.phase(), &Phase::Over(Verdict::Stopped));
}

#[test]
fn a_refusal_is_told_and_the_teammate_lives_on() {
    let mut drive = Drive::asked(AgentState::Working, Insistence::Ask);
    let refusal = Event::ShutdownRejected { request_id: "r1".to_owned(), reason: "not yet".to_owned() };
    assert_eq!(
        drive.feed(refusal),
        [Effect::TellLeader(Note::Refused { reason: "not yet".to_owned(), overridden: false })]
    );
    assert_eq!(drive.life.phase(), &Phase::Live(Activity::Working));
    // The timer of the polite step runs out later and means nothing.
    assert_eq!(drive.feed(Event::Timer { epoch: 1 }), []);
    assert_eq!(drive.life.phase(), &Phase::Live(Activity::Working));
}

#[test]
fn an_insisted_stop_goes_on_after_a_refusal() {
    let mut drive = Drive::asked(AgentState::Working, Insistence::Insist);
    let refusal = Event::ShutdownRejected { request_id: "r1".to_owned(), reason: "not yet".to_owned() };
    assert_eq!(
        drive.feed(refusal),
        [
            Effect::TellLeader(Note::Refused { reason: "not yet".to_owned(), overridden: true }),
            Effect::Interrupt,
            Effect::ArmTimer { epoch: 2, after: LADDER.interrupt },
        ]
    );
}

#[test]
fn the_ladder_runs_to_its_end_without_any_answer() {
    let mut drive = Drive::asked(AgentState::Working, Insistence::Ask);
    assert_eq!(
        drive.feed(Event::Timer { epoch: 1 }),
        [Effect::Interrupt, Effect::ArmTimer { epoch: 2, after: LADDER.interrupt }]
    );
    assert_eq!(
        drive.feed(Event::Timer { epoch: 2 }),
        [Effect::Terminate(GRACE), Effect::ArmTimer { epoch: 3, after: LAST }]
    );
    assert_eq!(
        drive.feed(exit(ExitKind::Killed, "signal 9")),
        ended(Verdict::Stopped, "signal 9", "stopped by user: done")
    );
}

#[test]
fn an_end_that_cannot_be_verified_is_an_end_all_the_same() {
    let mut drive = Drive::live(AgentState::Idle);
    assert_eq!(
        drive.feed(Event::StopAsked(stop(Insistence::Now))),
        [Effect::Terminate(GRACE), Effect::ArmTimer { epoch: 1, after: LAST }]
    );
    assert_eq!(
        drive.feed(Event::Timer { epoch: 1 }),
        ended(Verdict::Lost, "unknown", "it was ended by force, and its end could not be verified")
    );
}

#[test]
fn an_answer_in_prose_does_not_wait_for_the_deadline() {
    let mut drive = Drive::asked(AgentState::Working, Insistence::Ask);
    assert_eq!(
        drive.feed(Event::TurnEndedWithoutAnswer { request_id: "r1".to_owned() }),
        [Effect::Terminate(GRACE), Effect::ArmTimer { epoch: 2, after: LAST }]
    );
}

#[test]
fn the_end_of_an_interrupted_turn_does_not_wait_for_the_deadline() {
    let mut drive = Drive::live(AgentState::Working);
    assert_eq!(
        drive.feed(Event::StopAsked(stop(Insistence::Now))),
        [Effect::Interrupt, Effect::ArmTimer { epoch: 1, after: LADDER.interrupt }]
    );
    assert_eq!(
        drive.feed(Event::Reported(AgentState::Idle)),
        [Effect::Terminate(GRACE), Effect::ArmTimer { epoch: 2, after: LAST }]
    );
}

#[test]
fn answers_to_another_request_mean_nothing() {
    let mut drive = Drive::asked(AgentState::Idle, Insistence::Ask);
    let before = drive.life.clone();
    let request_id = "r0".to_owned();
    for event in [
        Event::ShutdownApproved { request_id: request_id.clone() },
        Event::ShutdownRejected { request_id: request_id.clone(), reason: String::new() },
        Event::TurnEndedWithoutAnswer { request_id },
    ] {
        assert_eq!(drive.feed(event), []);
        assert_eq!(drive.life, before);
    }
}

#[test]
fn a_second_stop_can_only_hurry_the_first() {
    let mut drive = Drive::asked(AgentState::Waiting, Insistence::Insist);
    assert_eq!(drive.feed(Event::StopAsked(stop(Insistence::Ask))), []);
    assert_eq!(
        drive.feed(Event::StopAsked(stop(Insistence::Now))),
        [Effect::Interrupt, Effect::ArmTimer { epoch: 2, after: LADDER.interrupt }]
    );
    assert_eq!(drive.feed(Event::StopAsked(stop(Insistence::Now))), []);
}

#[test]
fn a_stop_during_the_start_is_carried_out_after_it() {
    let mut drive = Drive::starting();
    assert_eq!(drive.feed(Event::StopAsked(stop(Insistence::Ask))), []);
    assert_eq!(
        drive.feed(Event::SpawnSucceeded),
        [Effect::Interrupt, Effect::ArmTimer { epoch: 1, after: LADDER.interrupt }]
    );
}

#[test]
fn ends_nobody_asked_for_are_judged_by_how_they_came() {
    for (kind, text, verdict, reason) in [
        (ExitKind::Clean, "exit 0", Verdict::Stopped, "it ended by itself"),
        (ExitKind::Failed, "panicked: x", Verdict::Failed, "it ended by an error"),
        (ExitKind::Killed, "signal 9", Verdict::Lost, "it is gone without a word"),
        (ExitKind::Unknown, "gone", Verdict::Lost, "it is gone without a word"),
        (ExitKind::Fenced, "fenced", Verdict::Failed, "it was stuck and was shut out"),
    ] {
        let mut drive = Drive::live(AgentState::Working);
        assert_eq!(drive.feed(exit(kind, text)), ended(verdict, text, reason));
    }
}

#[test]
fn a_last_word_decides_the_verdict_and_has_a_deadline() {
    let mut drive = Drive::live(AgentState::Working);
    assert_eq!(
        drive.feed(Event::Reported(AgentState::Failed)),
        [Effect::ArmTimer { epoch: 1, after: LAST_WORD_GRACE }]
    );
    assert_eq!(
        drive.feed(exit(ExitKind::Unknown, "gone")),
        ended(Verdict::Failed, "gone", "it reported a failure")
    );

    let mut drive = Drive::live(AgentState::Working);
    drive.feed(Event::Reported(AgentState::Stopped));
    assert_eq!(
        drive.feed(Event::Timer { epoch: 1 }),
        [Effect::Terminate(DEFAULT_GRACE), Effect::ArmTimer { epoch: 2, after: Duration::from_secs(15) }]
    );
}

#[test]
fn a_start_that_fails_is_over_at_once() {
    let mut drive = Drive::starting();
    assert_eq!(
        drive.feed(Event::SpawnFailed { why: "no pane".to_owned() }),
        ended(Verdict::Failed, "not started", "could not start: no pane")
    );
    assert_eq!(drive.feed(Event::SpawnSucceeded), []);
}

fn any_event() -> impl Strategy<Value = Event> {
    let id = || prop_oneof![Just("r1".to_owned()), Just("r2".to_owned())];
    let insistence = prop_oneof![Just(Insistence::Ask), Just(Insistence::Insist), Just(Insistence::Now)];
    let state = prop_oneof![
        Just(AgentState::Starting),
        Just(AgentState::Working),
        Just(AgentState::Idle),
        Just(AgentState::Waiting),
        Just(AgentState::Stopping),
        Just(AgentState::Stopped),
        Just(AgentState::Failed),
    ];
    let kind = prop_oneof![
        Just(ExitKind::Clean),
        Just(ExitKind::Failed),
        Just(ExitKind::Killed),
        Just(ExitKind::Unknown),
    ];
    prop_oneof![
        4 => Just(Event::SpawnSucceeded),
        1 => Just(Event::SpawnFailed { why: "no".to_owned() }),
        6 => state.prop_map(Event::Reported),
        1 => kind.prop_map(|kind| exit(kind, "some")),
        4 => (id(), insistence)
            .prop_map(|(request_id, insistence)| Event::StopAsked(Stop { request_id, ..stop(insistence) })),
        2 => id().prop_map(|request_id| Event::ShutdownApproved { request_id }),
        2 => id().prop_map(|request_id| Event::ShutdownRejected { request_id, reason: "no".to_owned() }),
        2 => id().prop_map(|request_id| Event::TurnEndedWithoutAnswer { request_id }),
        6 => (0_u64..8).prop_map(|epoch| Event::Timer { epoch }),
    ]
}

/// What must hold of every step, whatever came before.
struct Watch {
    asked: bool,
    ended: usize,
    epoch: u64,
    terminates: usize,
}

impl Watch {
    fn see(&mut self, before: &Lifecycle, event: &Event, after: &Lifecycle, effects: &[Effect]) {
        match event {
            Event::StopAsked(_) | Event::Reported(AgentState::Stopped | AgentState::Failed) => {
                self.asked = true;
            }
            _ => {}
        }
        for effect in effects {
            match effect {
                Effect::Terminate(_) => {
                    assert!(self.asked, "terminated without being asked");
                    self.terminates += 1;
                }
                Effect::ArmTimer { epoch, .. } => {
                    assert!(*epoch > self.epoch, "a timer without an epoch of its own");
                    self.epoch = *epoch;
                }
                Effect::WriteEnded { verdict, .. } => {
                    self.ended += 1;
                    assert_eq!(after.phase(), &Phase::Over(*verdict));
                }
                Effect::SendShutdownRequest { .. }
                | Effect::Interrupt
                | Effect::ReleaseSlot
                | Effect::TellLeader(_) => {}
            }
        }
        assert!(self.terminates <= 1, "terminated twice");
        assert_eq!(self.ended, usize::from(after.is_over()), "the end is written once, when it comes");
        if before.is_over() {
            assert_eq!((before, effects), (after, &[][..]), "nothing follows the end");
        } else if after.is_over() {
            let last = &effects[effects.len() - 3..];
            assert!(
                matches!(last, [Effect::WriteEnded { .. }, Effect::ReleaseSlot, Effect::TellLeader(_)]),
                "written, released, told: {effects:?}"
            );
        } else if matches!(after.phase(), Phase::Stopping { .. }) {
            assert!(self.epoch > 0, "every rung has a timer");
        }
        if let Event::Timer { epoch } = event
            && *epoch < before.epoch
        {
            assert_eq!((before, effects), (after, &[][..]), "a stale timer does nothing");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_sequence_of_events_keeps_the_promises(events in proptest::collection::vec(any_event(), 0..40)) {
        let start = Instant::now();
        let mut life = Lifecycle::starting(start);
        let mut watch = Watch { asked: false, ended: 0, epoch: 0, terminates: 0 };
        for (n, event) in (0_u32..).zip(events) {
            let now = start + Duration::from_millis(u64::from(n));
            let (after, effects) = life.clone().step(event.clone(), now);
            watch.see(&life, &event, &after, &effects);
            life = after;
        }
        // From wherever it got to: a stop needs nothing but spawn's outcome and its own timers to end.
        let way_out = [
            Event::SpawnSucceeded,
            Event::StopAsked(stop(Insistence::Ask)),
        ];
        for event in way_out {
            let (after, effects) = life.clone().step(event.clone(), start);
            watch.see(&life, &event, &after, &effects);
            life = after;
        }
        for _ in 0..4 {
            let event = Event::Timer { epoch: life.epoch };
            let (after, effects) = life.clone().step(event.clone(), start);
            watch.see(&life, &event, &after, &effects);
            life = after;
        }
        prop_assert!(life.is_over());
    }

    #[test]
    fn an_exit_ends_it_from_any_state(events in proptest::collection::vec(any_event(), 0..20)) {
        let now = Instant::now();
        let mut life = Lifecycle::starting(now);
        for event in events {
            life = life.step(event, now).0;
        }
        let (life, _) = life.step(exit(ExitKind::Unknown, "gone"), now);
        prop_assert!(life.is_over());
    }
}
