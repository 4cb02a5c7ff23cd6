//! Places and counts, also of processes that are no more.

use super::*;
use crate::agent::ports::BoxFuture;
use crate::os::process;
use crate::store::paths::{Paths, TeamPaths};
use crate::wire::ids::TeamName;
use crate::wire::ledger::Bounds;
use crate::wire::run::ProcessId;
use crate::wire::settings::LimitSettings;

/// For tests in which nobody else changes the ledger, or the net has to do.
struct NeverTold;

impl Changes for NeverTold {
    fn changed(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// A team's directory with a ledger in it.
struct Home {
    _dir: tempfile::TempDir,
    team: TeamPaths,
    disk: Disk,
}

impl Home {
    fn new(running: usize, total: usize) -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        let team = Paths::from_home(dir.path()).team(&TeamName::new("t").expect("slug"));
        team.make().expect("makes");
        let limits = LimitSettings {
            max_agents: Some(running),
            max_agents_total: Some(total),
            ..LimitSettings::default()
        };
        let home = Self { _dir: dir, team, disk: Disk::start().expect("starts") };
        home.ledger(process::current().expect("lives")).begin(Bounds::new(&limits), None).expect("begins");
        home
    }

    fn ledger(&self, me: ProcessId) -> Ledger {
        Ledger::new(&self.team, me, process::is_alive)
    }

    /// The limits as a process sees them.
    fn slots(&self, depth: u32, me: ProcessId) -> Arc<Slots> {
        let shared = Shared::new(self.disk.clone(), self.ledger(me), Arc::new(NeverTold));
        Arc::new(Slots::new(depth, shared))
    }

    fn mine(&self, depth: u32) -> Arc<Slots> {
        self.slots(depth, process::current().expect("lives"))
    }

    fn running(&self) -> usize {
        self.ledger(process::current().expect("lives"))
            .read()
            .expect("reads")
            .holders
            .iter()
            .map(|h| h.running)
            .sum()
    }

    /// Waits until what was queued before is done.
    async fn settled(&self) {
        self.disk.run(&self.team.dir(), || Ok(())).await.expect("runs");
    }
}

fn said(outcome: Result<Started, LimitError>) -> String {
    match outcome {
        Ok(_) => panic!("it was started"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn depth_and_total_refuse_and_a_failed_start_does_not_count() {
    let home = Home::new(1, 2);
    let slots = home.mine(1);
    assert!(said(slots.start(2).await).contains("depth 2"));
    slots.start(1).await.expect("the first").stays();
    let failed = slots.start(1).await.expect("the second");
    assert!(said(slots.start(1).await).contains("has started 2"));
    drop(failed);
    home.settled().await;
    slots.start(1).await.expect("again").stays();
    assert!(said(slots.start(1).await).contains("--max-agents-total"));
}

#[tokio::test]
async fn a_waiting_parent_lends_its_place_once() {
    let home = Home::new(1, 9);
    let slots = home.mine(9);
    let parent = Arc::new(slots.place(None).await.expect("a place"));
    let child = Arc::new(slots.place(Some(&parent)).await.expect("lent"));
    let grandchild = slots.place(Some(&child)).await.expect("lent");
    assert!(parent.lent.load(Ordering::SeqCst));
    assert_eq!(home.running(), 1);
    drop(grandchild);
    drop(child);
    assert!(!parent.lent.load(Ordering::SeqCst));
    drop(parent);
    home.settled().await;
    assert_eq!(home.running(), 0);
}

#[tokio::test]
async fn a_second_child_gets_its_parents_place_when_the_first_returns_it() {
    let home = Home::new(1, 9);
    let slots = home.mine(9);
    let parent = Arc::new(slots.place(None).await.expect("a place"));
    let first = slots.place(Some(&parent)).await.expect("lent");
    let second = slots.place(Some(&parent));
    tokio::pin!(second);
    tokio::select! {
        biased;
        _ = &mut second => panic!("there is no second place yet"),
        () = home.settled() => {}
    }
    drop(first);
    let second = second.await.expect("lent");
    assert!(second.lender.is_some() && parent.lent.load(Ordering::SeqCst));
}

#[tokio::test]
async fn processes_share_the_places_and_a_dead_one_leaves_its_own() {
    let home = Home::new(2, 9);
    let (mine, process) = (home.mine(9), process::current().expect("lives"));
    // Another living process, and one that was killed.
    let other = home.slots(9, process::of(1).expect("the first process lives"));
    let dead = home.slots(9, ProcessId { start_time: process.start_time + 1, ..process });
    let kept = other.place(None).await.expect("a place");
    let left = dead.place(None).await.expect("a place");
    std::mem::forget(left);
    let taken = mine.place(None).await.expect("what the dead one left");
    assert_eq!(home.running(), 2);
    let waits = mine.place(None);
    tokio::pin!(waits);
    tokio::select! {
        biased;
        _ = &mut waits => panic!("there is no third place"),
        () = home.settled() => {}
    }
    drop(kept);
    drop(waits.await.expect("a place"));
    drop(taken);
    home.settled().await;
    assert_eq!(home.running(), 0);
}

#[tokio::test]
async fn who_no_longer_wants_its_place_leaves_none_taken() {
    let home = Home::new(1, 9);
    let slots = home.mine(9);
    for _ in 0..50 {
        let place = slots.place(None);
        tokio::pin!(place);
        // Dropped at once, after the store thread was asked.
        // Whether it came in time or not.
        drop(futures_util::poll!(place.as_mut()));
    }
    home.settled().await;
    home.settled().await;
    assert_eq!((home.running(), slots.running.load(Ordering::SeqCst)), (0, 0));
}

#[tokio::test]
async fn a_launcher_that_waits_offers_its_place_and_gets_it_back() {
    let home = Home::new(1, 9);
    let slots = home.mine(9);
    let place = Place::of(Some(Arc::new(slots.place(None).await.expect("a place"))));
    assert!(slots.try_place().await.expect("looks").is_none());
    let beside = slots.place_beside(|| place.offered());
    tokio::pin!(beside);
    tokio::select! {
        biased;
        _ = &mut beside => panic!("nothing is offered yet"),
        () = home.settled() => {}
    }
    place.offer();
    let child = beside.await.expect("the launcher's");
    let back = place.reclaim();
    tokio::pin!(back);
    tokio::select! {
        biased;
        () = &mut back => panic!("the child has it"),
        () = home.settled() => {}
    }
    drop(child);
    back.await;
    assert!(place.offered().is_none());
    assert_eq!((home.running(), slots.running.load(Ordering::SeqCst)), (1, 1));
}
