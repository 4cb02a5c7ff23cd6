//! The task list, with real files.

use super::*;
use crate::store::tests::team::{Team, name};
use std::sync::Barrier;

fn new(subject: &str, blocked_by: &[u64]) -> NewTask {
    let blocked_by = blocked_by.iter().map(|id| TaskId(*id)).collect();
    NewTask { subject: subject.to_owned(), blocked_by, ..NewTask::default() }
}

/// Comes again as long as the lock is held.
fn patiently<T>(job: impl Fn() -> Result<Option<T>, TaskError>) -> Result<T, TaskError> {
    let begun = std::time::Instant::now();
    loop {
        if let Some(done) = job()? {
            return Ok(done);
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "the lock is never free");
        std::thread::yield_now();
    }
}

fn make(team: &Team, subject: &str, blocked_by: &[u64]) -> u64 {
    patiently(|| create(&team.team, new(subject, blocked_by), &name("team-lead"))).expect("makes a task").id.0
}

fn status(status: TaskStatus) -> Change {
    Change { status: Some(status), ..Change::default() }
}

fn change(team: &Team, id: u64, change: Change, who: &str) -> Result<Task, String> {
    let updated = patiently(|| update(&team.team, TaskId(id), change.clone(), &name(who), |_| Ok(())));
    updated.map(|updated| updated.task).map_err(|e| e.to_string())
}

fn claim(team: &Team, id: u64, who: &str) -> Result<Option<String>, String> {
    let task = change(team, id, status(TaskStatus::InProgress), who)?;
    Ok(task.owner.map(|owner| owner.as_str().to_owned()))
}

fn edges(team: &Team) -> Vec<(u64, Vec<u64>, Vec<u64>)> {
    let plain = |ids: &[TaskId]| ids.iter().map(|id| id.0).collect();
    let (tasks, troubles) = list(&team.team).expect("lists");
    assert!(troubles.is_empty(), "{troubles:?}");
    tasks.iter().map(|t| (t.id.0, plain(&t.blocks), plain(&t.blocked_by))).collect()
}

#[test]
fn numbers_rise_and_a_deleted_one_is_never_given_again() {
    let team = Team::new();
    assert_eq!((make(&team, "a", &[]), make(&team, "b", &[]), make(&team, "c", &[])), (1, 2, 3));
    delete(&team.team, TaskId(3), |_| Ok(())).expect("deletes").expect("free");
    assert_eq!(make(&team, "d", &[]), 4);
    std::fs::write(team.team.tasks_counter(), "{ not a number").expect("damages");
    std::fs::write(team.team.task(TaskId(5)), "{ not a task").expect("damages");
    assert_eq!(make(&team, "e", &[]), 6);
    let (tasks, troubles) = list(&team.team).expect("lists");
    assert_eq!(tasks.iter().map(|t| t.id.0).collect::<Vec<_>>(), [1, 2, 4, 6]);
    assert_eq!(troubles.len(), 1);
    assert!(troubles[0].to_string().contains("tasks/5.json"), "{}", troubles[0]);
}

#[test]
fn tasks_made_at_once_have_numbers_of_their_own() {
    let team = Team::new();
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..10 {
                    make(&team, "x", &[]);
                }
            });
        }
    });
    let numbers: Vec<u64> = edges(&team).into_iter().map(|(id, ..)| id).collect();
    assert_eq!(numbers, (1..=80).collect::<Vec<_>>());
}

#[test]
fn one_of_two_claims_wins_and_the_other_gets_the_reason() {
    let team = Team::new();
    for round in 1..=20 {
        assert_eq!(make(&team, "x", &[]), round);
        let barrier = Barrier::new(2);
        let outcomes = std::thread::scope(|scope| {
            let both = ["anna", "bo"].map(|who| {
                let (team, barrier) = (&team, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    claim(team, round, who)
                })
            });
            both.map(|thread| thread.join().expect("ends"))
        });
        let winner = if outcomes[0].is_ok() { ("anna", &outcomes[1]) } else { ("bo", &outcomes[0]) };
        assert!(outcomes.iter().any(Result::is_ok), "{outcomes:?}");
        assert_eq!(winner.1, &Err(format!("task {round} is {}'s", winner.0)));
        change(&team, round, status(TaskStatus::Completed), winner.0).expect("completes");
    }
}

#[test]
fn a_claim_fails_with_a_reason() {
    let team = Team::new();
    for blocked_by in [&[][..], &[1], &[], &[]] {
        make(&team, "x", blocked_by);
    }
    assert_eq!(claim(&team, 9, "bo"), Err("there is no task 9".to_owned()));
    assert_eq!(claim(&team, 2, "bo"), Err("task 2 is blocked by 1".to_owned()));
    assert_eq!(claim(&team, 1, "bo"), Ok(Some("bo".to_owned())));
    assert_eq!(claim(&team, 1, "bo"), Ok(Some("bo".to_owned())), "again");
    assert_eq!(claim(&team, 1, "anna"), Err("task 1 is bo's".to_owned()));
    assert_eq!(claim(&team, 3, "bo"), Err("bo is busy with task 1".to_owned()));
    change(&team, 1, status(TaskStatus::Completed), "bo").expect("completes");
    assert_eq!(claim(&team, 1, "bo"), Err("task 1 is completed".to_owned()));
    assert_eq!(claim(&team, 2, "bo"), Ok(Some("bo".to_owned())), "freed by its completion");
    assert_eq!(change(&team, 2, status(TaskStatus::Pending), "bo").expect("gives back").owner, None);
    assert_eq!(claim(&team, 3, "bo"), Ok(Some("bo".to_owned())));
}

#[test]
fn edges_stand_on_both_ends_and_close_no_circle() {
    let team = Team::new();
    for _ in 0..4 {
        make(&team, "x", &[]);
    }
    let ids = |ids: &[u64]| ids.iter().map(|id| TaskId(*id)).collect::<Vec<_>>();
    let blocks = |to: &[u64]| Change { add_blocks: ids(to), ..Change::default() };
    change(&team, 1, blocks(&[3, 2]), "bo").expect("links");
    change(&team, 3, blocks(&[4]), "bo").expect("links");
    let before = edges(&team);
    assert_eq!(
        before,
        [(1, vec![2, 3], vec![]), (2, vec![], vec![1]), (3, vec![4], vec![1]), (4, vec![], vec![3])]
    );
    for (id, to, why) in [
        (4, &[1][..], "task 4 and task 1 would wait for each other"),
        (2, &[2], "task 2 and task 2 would wait for each other"),
        (2, &[4, 9], "there is no task 9"),
    ] {
        assert_eq!(change(&team, id, blocks(to), "bo").map(|t| t.id.0), Err(why.to_owned()));
        assert_eq!(edges(&team), before, "nothing is half done");
    }
    delete(&team.team, TaskId(3), |_| Ok(())).expect("deletes").expect("free");
    assert_eq!(edges(&team), [(1, vec![2], vec![]), (2, vec![], vec![1]), (4, vec![], vec![])]);
}

#[test]
fn an_edge_with_one_end_gets_the_other() {
    let team = Team::new();
    make(&team, "a", &[]);
    make(&team, "b", &[1]);
    let path = team.team.task(TaskId(1));
    let half = std::fs::read_to_string(&path).expect("reads").replace("2", "");
    std::fs::write(&path, half.replace("\n    \n  ", "")).expect("as after a kill between two writes");
    assert_eq!(edges(&team), [(1, vec![2], vec![]), (2, vec![], vec![1])]);
}

#[test]
fn what_a_dead_owner_left_is_free_again_with_a_note() {
    let team = Team::new();
    for _ in 0..3 {
        make(&team, "x", &[]);
    }
    claim(&team, 1, "bo").expect("claims");
    change(&team, 1, status(TaskStatus::Completed), "bo").expect("completes");
    claim(&team, 2, "bo").expect("claims");
    let assigned = Change { owner: Some(Some(name("bo"))), ..Change::default() };
    change(&team, 3, assigned, "team-lead").expect("assigns");
    assert!(release(&team.team, &name("anna"), "").expect("nothing to do").expect("free").is_empty());
    let freed = release(&team.team, &name("bo"), "bo is lost").expect("frees").expect("free");
    let seen: Vec<_> = freed.iter().map(|t| (t.id.0, t.status, &t.owner, t.note.as_deref())).collect();
    let free = |id| (id, TaskStatus::Pending, &None, Some("bo is lost"));
    assert_eq!(seen, [free(2), free(3)]);
    let first = load(&team.team, TaskId(1)).expect("reads").expect("is there");
    assert_eq!((first.status, first.owner), (TaskStatus::Completed, Some(name("bo"))));
    assert_eq!(claim(&team, 2, "anna"), Ok(Some("anna".to_owned())));
    assert_eq!(load(&team.team, TaskId(2)).expect("reads").expect("is there").note, None);
}

#[test]
fn what_others_noted_in_a_task_survives() {
    let team = Team::new();
    make(&team, "x", &[]);
    let path = team.team.task(TaskId(1));
    let text = std::fs::read_to_string(&path).expect("reads");
    std::fs::write(&path, text.replacen('{', "{ \"theirs\": 1e2,", 1)).expect("adds");
    claim(&team, 1, "bo").expect("claims");
    assert!(std::fs::read_to_string(&path).expect("reads").contains("\"theirs\": 1e2"));
}

#[test]
fn nobody_waits_for_a_lock_that_is_held_and_nothing_is_changed() {
    let team = Team::new();
    let id = make(&team, "a", &[]);
    claim(&team, id, "anna").expect("claims");
    let held = lock::with_locked_file(&team.team.tasks_lock(), Missing::Make, Patience::Once, |_| {
        let begun = std::time::Instant::now();
        let (team, anna) = (&team.team, name("anna"));
        assert!(create(team, new("b", &[]), &anna).expect("no error").is_none());
        let done = status(TaskStatus::Completed);
        assert!(update(team, TaskId(id), done, &anna, |_| Ok(())).expect("no error").is_none());
        assert!(delete(team, TaskId(id), |_| Ok(())).expect("no error").is_none());
        assert!(release(team, &anna, "gone").expect("no error").is_none());
        assert!(begun.elapsed() < std::time::Duration::from_secs(5));
        Ok(())
    });
    held.expect("locks").expect("was free");
    let (tasks, _) = list(&team.team).expect("lists");
    assert_eq!(tasks.iter().map(|t| (t.id.0, t.status)).collect::<Vec<_>>(), [(id, TaskStatus::InProgress)]);
}

#[test]
fn the_task_that_somebody_works_on_is_found_among_others() {
    let team = Team::new();
    let all: Vec<u64> = ["a", "b", "c"].map(|subject| make(&team, subject, &[])).to_vec();
    assert_eq!(in_progress_of(&team.team, &name("anna")).expect("looks"), None);
    claim(&team, all[1], "anna").expect("claims");
    claim(&team, all[2], "anna-2").expect("claims");
    // Its name alone, in whatever field, makes it nobody's.
    change(
        &team,
        all[0],
        Change { subject: Some("anna is in_progress".to_owned()), ..Change::default() },
        "bo",
    )
    .expect("changes");
    assert_eq!(in_progress_of(&team.team, &name("anna")).expect("looks"), Some(TaskId(all[1])));
    change(&team, all[1], status(TaskStatus::Completed), "anna").expect("completes");
    assert_eq!(in_progress_of(&team.team, &name("anna")).expect("looks"), None);
}
