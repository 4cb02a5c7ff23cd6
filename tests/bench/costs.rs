//! `scripts/bench`: what things cost, as ratios within one run; no absolute time is a verdict.
//!
//! Costs that grow with the mail ever exchanged, with history or with the number of other agents are
//! defects, so each is measured at several sizes and compared with the smallest.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a measurement stops at a failure and prints its rows"
)]

mod forks;
mod server;
mod session;
mod team;

use festoon::store::inbox::Inbox;
use festoon::store::paths::Paths;
use festoon::store::roster::Roster;
use festoon::store::sign::Keys;
use festoon::store::watch::Watcher;
use festoon::store::{clock, slug};
use festoon::wire::frame::FrameType;
use festoon::wire::ids::{AgentId, AgentName, MessageId, SessionId};
use festoon::wire::mail::{Message, Wake};
use festoon::wire::settings::Durability;
use festoon::wire::team::{TEAM_VERSION, TeamFile};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The median of several runs of `work`.
fn median(runs: usize, mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[runs / 2]
}

fn row(what: &str, size: usize, time: Duration, base: Duration) {
    let ratio = time.as_secs_f64() / base.as_secs_f64();
    println!("{what:<44} {size:>8}   {:>9.1} µs   × {ratio:.3}", time.as_secs_f64() * 1e6);
}

struct Team {
    _dir: tempfile::TempDir,
    inbox: Inbox,
    paths: Paths,
    agent: AgentName,
}

fn team() -> Team {
    let dir = tempfile::tempdir().expect("temp dir");
    let paths = Paths::from_home(&dir.path().join("home"));
    paths.ensure_root().expect("root");
    let name = slug::team_name("bench").expect("name");
    let file = TeamFile {
        version: TEAM_VERSION,
        name: name.clone(),
        display_name: "bench".to_owned(),
        description: String::new(),
        created_at: clock::now(),
        lead_agent_id: AgentId::member(&AgentName::team_lead(), &name),
        lead_session_id: SessionId::generate(),
        hidden_pane_ids: Vec::new(),
        allowed_paths: Vec::new(),
        members: Vec::new(),
    };
    let team = Roster::create(&paths, &file).expect("team");
    let keys = Keys::create(&team).expect("keys");
    let agent = AgentName::team_lead();
    let inbox = Inbox::new(&team, &agent, &keys, Durability::Process);
    inbox.create().expect("inbox");
    Team { _dir: dir, inbox, paths, agent }
}

fn message(to: &AgentName) -> Message {
    Message {
        id: Some(MessageId::generate()),
        seq: 0,
        kind: FrameType::PeerDm,
        from: "anna".to_owned(),
        to: Some(to.clone()),
        text: "a message of an ordinary length, as agents send them to each other all day long".to_owned(),
        payload: None,
        timestamp: clock::now(),
        read: false,
        color: None,
        summary: None,
        wake: Wake::Turn,
        incarnation: Some(1),
        sig: None,
    }
}

/// Sends and reads one message; nothing waits before or after.
fn exchange(team: &Team) {
    let receipt = team.inbox.send(message(&team.agent)).expect("stored");
    team.inbox.ack(&[receipt.id]).expect("acknowledged");
}

fn mail_ever_exchanged(sizes: &[usize]) {
    let team = team();
    let mut exchanged = 0;
    let mut base = None;
    for &size in sizes {
        while exchanged < size {
            exchange(&team);
            exchanged += 1;
        }
        let time = median(101, || exchange(&team));
        exchanged += 101;
        row("send + acknowledge, messages exchanged before", size, time, *base.get_or_insert(time));
    }
}

fn mail_waiting(sizes: &[usize]) {
    let team = team();
    let mut waiting = 0;
    let mut base = None;
    for &size in sizes {
        while waiting < size {
            team.inbox.send(message(&team.agent)).expect("stored");
            waiting += 1;
        }
        let time = median(51, || drop(team.inbox.send(message(&team.agent)).expect("stored")));
        waiting += 51;
        row("send, messages waiting", size, time, *base.get_or_insert(time));
    }
}

fn wake_up() {
    let team = team();
    let name = slug::team_name("bench").expect("name");
    let (told, news) = mpsc::channel();
    let watcher = Watcher::start().expect("watcher");
    let own = format!("{}.json", team.agent);
    let _guard = watcher
        .watch(&team.paths.team(&name).inboxes(), move |file| {
            if file == own.as_str() {
                let _ = told.send(Instant::now());
            }
        })
        .expect("watch");
    let mut times: Vec<Duration> = (0..301)
        .map(|_| {
            while news.try_recv().is_ok() {}
            let start = Instant::now();
            team.inbox.send(message(&team.agent)).expect("stored");
            let woken = news.recv_timeout(Duration::from_secs(10)).expect("a wake-up");
            let took = woken.saturating_duration_since(start);
            let waiting: Vec<MessageId> =
                team.inbox.peek(1).expect("peek").expect("in order").into_iter().map(|c| c.id).collect();
            team.inbox.ack(&waiting).expect("acknowledged");
            took
        })
        .collect();
    times.sort();
    // A poll of 500 ms finds a message after half its period on average.
    let poll = Duration::from_millis(250);
    row("send to wake-up in a watcher, median", 301, times[150], poll);
    row("send to wake-up in a watcher, p99", 301, times[298], poll);
    println!("{:<44} {:>8}   (× is the share of a 500 ms poll's mean)", "", "");
}

fn main() {
    let full = std::env::args().any(|a| a == "--full");
    let exchanged: &[usize] = if full { &[10, 1_000, 100_000] } else { &[10, 1_000, 10_000] };
    println!("{:<44} {:>8}   {:>12}   ratio", "what", "size", "median");
    mail_ever_exchanged(exchanged);
    mail_waiting(&[10, 100, 1_000]);
    wake_up();
    session::session();
    team::team(full);
    forks::hundred_forks();
}
