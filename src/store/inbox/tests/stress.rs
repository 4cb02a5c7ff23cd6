//! Eight processes send, some of them are killed, one reader acknowledges, and somebody looks.

use super::super::*;
use crate::store::paths::Paths;
use crate::store::tests::team::{Team, message, name};
use crate::wire::ids::TeamName;
use serde::de::IgnoredAny;
use std::collections::HashSet;
use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const SENDERS: usize = 8;
const MESSAGES: usize = 500;
/// Senders that are killed now and then; another process does the rest of their work.
const VICTIMS: usize = 3;
/// Kills of each of them.
const KILLS: usize = 6;
const DEADLINE: Duration = Duration::from_secs(120);
/// Tells the sender below where it is and what it does: the state root, the log, its first number.
const PART: &str = "FESTOON_STRESS_PART";

fn random(below: u64) -> u64 {
    RandomState::new().build_hasher().finish() % below
}

fn inbox_of(home: &Path) -> Inbox {
    let team = Paths::from_home(home).team(&TeamName::new("review").expect("slug"));
    let keys = Keys::load(&team).expect("keys");
    Inbox::new(&team, &name("anna"), &keys, Durability::Process)
}

/// Not a test of its own: the process that sends. It logs an id once its message is stored.
#[test]
fn sender() {
    let Some(part) = std::env::var_os(PART) else { return };
    let [home, log, first]: [OsString; 3] =
        std::env::split_paths(&part).map(OsString::from).collect::<Vec<_>>().try_into().expect("three parts");
    let inbox = inbox_of(Path::new(&home));
    let mut out = std::fs::OpenOptions::new().append(true).create(true).open(&log).expect("log");
    for number in first.to_str().and_then(|n| n.parse().ok()).expect("number")..MESSAGES {
        let receipt = inbox.send(message("ben", &format!("message {number}"))).expect("sends");
        writeln!(out, "{}", receipt.id).expect("logs");
    }
}

fn start(home: &Path, log: &Path, first: usize) -> Child {
    let first = first.to_string();
    let part = std::env::join_paths([home.as_os_str(), log.as_os_str(), first.as_ref()]).expect("joins");
    Command::new(std::env::current_exe().expect("this program"))
        .args(["store::inbox::tests::stress::sender", "--exact", "--quiet"])
        .env(PART, part)
        .stdout(Stdio::null())
        .spawn()
        .expect("starts")
}

/// The ids that a sender knew to be stored; the last line may be cut by a kill.
fn logged(log: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(str::to_owned).collect()
}

/// Runs a sender until its messages are sent, killing it at random moments.
fn run_sender(home: &Path, number: usize, over: Instant) {
    let mut kills = if number < VICTIMS { KILLS } else { 0 };
    loop {
        let log = home.join(format!("sender-{number}-{kills}.log"));
        let done: usize =
            (kills + 1..=KILLS).map(|k| logged(&home.join(format!("sender-{number}-{k}.log"))).len()).sum();
        let mut child = start(home, &log, done);
        let mut ended = None;
        if kills > 0 {
            let share = (done + random(MESSAGES as u64 / KILLS as u64) as usize).min(MESSAGES - 1);
            while ended.is_none() && done + logged(&log).len() < share && Instant::now() < over {
                ended = child.try_wait().expect("waits");
                std::thread::park_timeout(Duration::from_millis(2));
            }
            for _ in 0..random(2_000) {
                std::hint::spin_loop(); // somewhere in the middle of a send
            }
        } else {
            while ended.is_none() && Instant::now() < over {
                ended = child.try_wait().expect("waits");
                std::thread::park_timeout(Duration::from_millis(5));
            }
        }
        drop(child.kill()); // SIGKILL; nothing to do for one that has ended
        child.wait().expect("waits");
        assert!(Instant::now() < over, "sender {number} is too slow");
        if let Some(status) = ended {
            assert!(status.success(), "sender {number}: {status}");
            return;
        }
        kills -= 1;
    }
}

/// Claims and acknowledges until everybody is done and nothing waits. Now and then it forgets what
/// it has not recorded, or dies before it acknowledges.
fn read_all(inbox: &Inbox, done: &AtomicBool) -> Vec<String> {
    let mut recorded = Vec::new();
    let mut known = HashSet::new();
    loop {
        let last = done.load(Ordering::SeqCst);
        let claim = inbox.claim(1, 1 + random(40) as usize).expect("claims");
        assert_eq!(claim.notices.len(), 0, "{:?}", claim.notices);
        if claim.messages.is_empty() {
            if last {
                return recorded;
            }
            std::thread::park_timeout(Duration::from_millis(1));
            continue;
        }
        let mut ids = Vec::new();
        for claimed in claim.messages {
            assert_eq!(claimed.origin, crate::wire::mail::Origin::Team);
            if known.insert(claimed.id.clone()) {
                recorded.push(claimed.id.as_str().to_owned());
            }
            ids.push(claimed.id);
        }
        if random(10) > 0 {
            inbox.ack(&ids).expect("acknowledges");
        }
    }
}

#[test]
fn nothing_is_lost_or_doubled_and_every_look_sees_json() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    let over = Instant::now() + DEADLINE;
    let done = AtomicBool::new(false);
    let (recorded, looks) = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|number| {
                let home = team.home.path();
                scope.spawn(move || run_sender(home, number, over))
            })
            .collect();
        let reader = scope.spawn(|| read_all(&inbox, &done));
        let looker = scope.spawn(|| {
            let mut looks = 0_u64;
            while !done.load(Ordering::SeqCst) {
                let bytes = std::fs::read(inbox.path()).expect("reads");
                if let Err(e) = serde_json::from_slice::<Vec<IgnoredAny>>(&bytes) {
                    panic!("look {looks}: {e}: {}", String::from_utf8_lossy(&bytes));
                }
                looks += 1;
                std::thread::park_timeout(Duration::from_micros(100)); // leaves some processor to the others
            }
            looks
        });
        let ended: Vec<bool> = senders.into_iter().map(|sender| sender.join().is_ok()).collect();
        done.store(true, Ordering::SeqCst);
        assert_eq!(ended, [true; SENDERS]);
        (reader.join().expect("reads"), looker.join().expect("looks"))
    });
    let mut stored = HashSet::new();
    for number in 0..SENDERS {
        let logs = (0..=KILLS).map(|k| logged(&team.home.path().join(format!("sender-{number}-{k}.log"))));
        let ids: Vec<String> = logs.flatten().collect();
        assert_eq!(ids.len(), MESSAGES, "sender {number}");
        stored.extend(ids);
    }
    let delivered: HashSet<String> = recorded.iter().cloned().collect();
    assert_eq!(delivered.len(), recorded.len(), "once each");
    let lost: Vec<&String> = stored.difference(&delivered).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    // A killed sender may have stored one message that it could not log.
    let unlogged = delivered.len() - stored.len();
    assert!(unlogged <= VICTIMS * KILLS, "{unlogged} messages that nobody sent");
    assert!(looks > 100, "{looks} looks");
    let mut seqs: Vec<u64> = inbox.messages().expect("reads").iter().map(|m| m.seq).collect();
    seqs.extend(inbox.archive().expect("reads").map(|m| m.seq));
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=delivered.len() as u64).collect::<Vec<_>>(), "no position twice, none left out");
    assert_eq!(inbox.verify().expect("verifies"), Vec::<String>::new());
}
