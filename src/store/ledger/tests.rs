//! The ledger between processes, and in the hands of others.

use super::*;
use crate::store::tests::team::Team;
use crate::wire::ledger::Used;
use crate::wire::settings::LimitSettings;
use crate::wire::usage::{Money, Usage};

fn process(pid: u32) -> ProcessId {
    ProcessId { pid, start_time: 1, boot_id: "b".to_owned(), host: "h".to_owned() }
}

/// Even pids live.
fn lives(id: &ProcessId) -> bool {
    id.pid.is_multiple_of(2)
}

fn bounds(running: usize, total: usize) -> Bounds {
    Bounds::new(&LimitSettings {
        max_agents: Some(running),
        max_agents_total: Some(total),
        ..LimitSettings::default()
    })
}

/// Tries until the lock is free.
fn insist<T>(mut job: impl FnMut() -> Result<Option<T>, StoreError>) -> T {
    loop {
        if let Some(done) = job().expect("works") {
            return done;
        }
        std::thread::yield_now();
    }
}

fn begun(team: &Team, bounds: &Bounds) -> Ledger {
    let ledger = Ledger::new(&team.team, process(2), lives);
    assert!(insist(|| ledger.begin(bounds.clone(), None)));
    ledger
}

#[test]
fn many_processes_get_each_place_and_each_count_once() {
    let team = Team::new();
    begun(&team, &bounds(5, 30));
    let wins: Vec<(usize, usize)> = std::thread::scope(|scope| {
        let work = |n: u32| {
            let ledger = Ledger::new(&team.team, process(n * 2), lives);
            move || {
                let starts = (0..10).filter(|_| insist(|| ledger.start()) == Granted::Yes).count();
                let places = (1..=3).filter(|n| insist(|| ledger.run(*n)) == Granted::Yes).count();
                for _ in 0..5 {
                    let used =
                        Used { usage: Usage { input_tokens: 1, ..Usage::default() }, cost: Money(Some(1.0)) };
                    insist(|| ledger.update(|file| file.count(&format!("a{n}"), "a", "m", used)));
                }
                (starts, places)
            }
        };
        let threads: Vec<_> = (1..=8).map(|n| scope.spawn(work(n))).collect();
        threads.into_iter().map(|t| t.join().expect("joins")).collect()
    });
    let file = Ledger::new(&team.team, process(2), lives).read().expect("reads");
    assert_eq!((wins.iter().map(|w| w.0).sum::<usize>(), file.started), (30, 30));
    assert_eq!(file.holders.iter().map(|h| h.running).sum::<usize>(), 5);
    assert_eq!(
        (file.total().usage.total(), file.total().cost, file.agents.len()),
        (40, Money(Some(40.0)), 8)
    );
}

#[test]
fn the_places_of_the_dead_are_free_when_somebody_needs_them() {
    let team = Team::new();
    let ledger = begun(&team, &bounds(2, 9));
    let dead = Ledger::new(&team.team, process(3), lives);
    assert_eq!(insist(|| dead.run(2)), Granted::Yes);
    assert_eq!(insist(|| ledger.run(1)), Granted::Yes);
    assert_eq!(insist(|| ledger.run(3)), Granted::No { taken: 1, limit: 2 });
    assert_eq!(ledger.read().expect("reads").holders, [Holder { process: process(2), running: 1 }]);
    // Fewer than before is never refused, and nothing is left of who runs nothing.
    assert_eq!(insist(|| ledger.run(0)), Granted::Yes);
    assert_eq!(ledger.read().expect("reads").holders, []);
}

#[test]
fn a_new_leader_sets_the_bounds_and_keeps_the_rest() {
    let team = Team::new();
    let ledger = begun(&team, &bounds(1, 1));
    assert_eq!(insist(|| ledger.start()), Granted::Yes);
    assert_eq!(insist(|| ledger.start()), Granted::No { taken: 1, limit: 1 });
    let text = std::fs::read_to_string(ledger.file()).expect("reads");
    std::fs::write(ledger.file(), text.replacen('{', "{ \"theirs\": 1e2,", 1)).expect("writes");
    assert!(!insist(|| ledger.begin(bounds(1, 2), None)));
    assert_eq!(insist(|| ledger.start()), Granted::Yes);
    assert!(std::fs::read_to_string(ledger.file()).expect("reads").contains("\"theirs\": 1e2"));

    let kept = team.home.path().join("kept.json");
    assert_eq!(super::kept(&kept).expect("absent"), None);
    keep(&kept, &ledger.read().expect("reads")).expect("keeps");
    std::fs::remove_file(ledger.file()).expect("removes");
    let earlier = super::kept(&kept).expect("reads");
    assert!(!insist(|| ledger.begin(bounds(1, 3), earlier.clone())));
    assert_eq!(ledger.read().expect("reads").started, 2);
}

#[test]
fn a_damaged_ledger_is_an_error_and_never_an_empty_one() {
    let team = Team::new();
    let ledger = begun(&team, &bounds(1, 1));
    for text in ["", "{", "[]", r#"{"version":2,"limits":{"maxAgents":1,"maxAgentsTotal":1}}"#] {
        std::fs::write(ledger.file(), text).expect("writes");
        for error in [
            ledger.start().expect_err(text),
            ledger.read().expect_err(text),
            ledger.begin(bounds(1, 1), None).expect_err(text),
        ] {
            assert!(error.to_string().contains("ledger.json"), "{error}");
        }
        assert_eq!(std::fs::read_to_string(ledger.file()).expect("reads"), text);
    }
    std::fs::remove_file(ledger.file()).expect("removes");
    assert!(matches!(ledger.start(), Err(StoreError::NotFound { .. })));
}

#[test]
fn an_operation_costs_the_same_after_much_history() {
    let team = Team::new();
    let ledger = begun(&team, &bounds(9, 1_000_000));
    let used = Used { usage: Usage { input_tokens: 1, ..Usage::default() }, cost: Money(Some(0.1)) };
    let count = |agents: std::ops::Range<usize>| {
        agents
            .for_each(|n| insist(|| ledger.update(|file| file.count(&format!("agent-{n}"), "a", "m", used))));
        std::fs::metadata(ledger.file()).expect("is there").len()
    };
    let early = count(0..300);
    let late = count(300..900);
    assert!(late <= early + 1000, "{early} bytes, then {late}");
}
