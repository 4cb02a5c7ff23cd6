//! What a team costs: from a message to the request it leads to, starting agents, and being idle.

use crate::server::{Answer, PATIENCE, Place, Server, holds, memory, processor, until};
use crate::{message, row};
use festoon::store::inbox::Inbox;
use festoon::store::paths::{Paths, TeamPaths};
use festoon::store::roster::Roster;
use festoon::store::run;
use festoon::store::sign::Keys;
use festoon::store::slug;
use festoon::wire::ids::AgentName;
use festoon::wire::run::{AgentState, RunRecord};
use festoon::wire::settings::Durability;
use std::io::Write;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Messages that are sent to an idle worker.
const MESSAGES: usize = 200;
/// Readers by poll are slow to measure.
const POLLS: usize = 20;
/// The poll that others use.
const POLL: Duration = Duration::from_millis(500);
/// Subagents that are started one after the other.
const SPAWNS: usize = 50;
/// Idle teammates of which half are processes.
const SMALL_TEAM: usize = 10;
/// Idle teammates in one process.
const LARGE_TEAM: usize = 1_000;
/// Teammates that are asked for in one message.
const BATCH: usize = 100;

/// A leader that waits for lines on its standard input, and its team.
struct Led {
    child: Child,
    team: TeamPaths,
}

impl Led {
    fn start(place: &Place, server: &Server, arguments: &[&str]) -> Self {
        let mut all = vec!["-p", "--input-format", "stream-json", "--output-format", "stream-json"];
        all.extend(["--max-agents", "2000", "--max-agents-total", "2000"]);
        all.extend(arguments);
        let child = place.with_model(server, &all).stdin(Stdio::piped()).spawn().expect("starts");
        let paths = Paths::from_home(&place.state());
        let mut names = Vec::new();
        until("the leader has a team", || {
            names = Roster::list(&paths).unwrap_or_default();
            !names.is_empty()
        });
        Self { child, team: paths.team(&names[0]) }
    }

    fn say(&mut self, text: &str) {
        let line = serde_json::json!({"type": "user", "message": {"role": "user", "content": text}});
        let input = self.child.stdin.as_mut().expect("a pipe");
        writeln!(input, "{line}").expect("it reads");
    }

    fn record(&self, name: &AgentName) -> Option<RunRecord> {
        run::of_incarnation(&self.team, name, 1)
    }

    fn idle(&self, name: &AgentName) -> bool {
        self.record(name).is_some_and(|r| r.state == AgentState::Idle && r.background == 0)
    }

    /// The end of its input is the end of the run.
    fn end(mut self) {
        drop(self.child.stdin.take());
        let end = self.child.wait().expect("ends");
        assert!(end.success(), "{end}");
    }
}

fn member(n: usize) -> AgentName {
    slug::agent_name(&format!("w{n}")).expect("a name")
}

/// Spawns the teammates `from..from + count` when it is asked to with `SPAWN-from-count`, and says "Done." else.
fn model(body: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(body);
    let last = text.rsplit("\"role\":\"user\"").next().unwrap_or_default();
    let Some(order) = last.split("SPAWN-").nth(1) else { return Answer::Text("Done.") };
    let mut numbers = order.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
    let (from, count): (usize, usize) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(1));
    let call = |n| {
        let input = serde_json::json!({
            "description": "wait", "prompt": "WORKER", "name": format!("w{n}"),
        });
        ("Agent", input.to_string())
    };
    Answer::Calls((from..from + count).map(call).collect())
}

/// From a stored message to the request of an idle worker in another process.
fn send_to_request() {
    let (place, server) = (Place::new(), Server::start(model));
    let mut led = Led::start(&place, &server, &["--teammate-mode", "process"]);
    led.say("SPAWN-0-1");
    let worker = member(0);
    until("the worker is idle", || led.idle(&worker));
    let keys = Keys::load(&led.team).expect("keys");
    let inbox = Inbox::new(&led.team, &worker, &keys, Durability::Process);
    let mut times: Vec<Duration> = (0..MESSAGES)
        .map(|n| {
            until("the worker is idle", || led.idle(&worker));
            server.drain();
            let mut mail = message(&worker);
            mail.text = format!("PING-{n}-");
            let start = Instant::now();
            inbox.send(mail).expect("stored");
            server.until(&format!("PING-{n}-")).whole.saturating_duration_since(start)
        })
        .collect();
    times.sort();
    let poll = polled(&inbox, &worker);
    row("send to request in an idle worker, median", MESSAGES, times[MESSAGES / 2], poll);
    row("the same, p99", MESSAGES, times[MESSAGES * 99 / 100], poll);
    row("send to seen by a 500 ms poll, median", POLLS, poll, poll);
    led.end();
}

/// From a stored message to its being seen by a reader that looks every [`POLL`].
fn polled(inbox: &Inbox, worker: &AgentName) -> Duration {
    let path = inbox.path().to_owned();
    let (tell, seen) = mpsc::channel();
    std::thread::spawn(move || {
        loop {
            let bytes = std::fs::read(&path).unwrap_or_default();
            if tell.send((Instant::now(), bytes)).is_err() {
                return;
            }
            std::thread::park_timeout(POLL);
        }
    });
    let mut times: Vec<Duration> = (0..POLLS)
        .map(|n| {
            // Spread over the period of the poll.
            std::thread::park_timeout(POLL * u32::try_from(n).unwrap_or(0) / POLLS as u32);
            let mut mail = message(worker);
            mail.text = format!("POLL-{n}-");
            let start = Instant::now();
            inbox.send(mail).expect("stored");
            loop {
                let (at, bytes) = seen.recv_timeout(PATIENCE).expect("a look");
                if holds(&bytes, &format!("POLL-{n}-")) {
                    return at.saturating_duration_since(start);
                }
            }
        })
        .collect();
    times.sort();
    times[POLLS / 2]
}

/// From a call of `Agent` to the first request of the subagent, beside a round with `Read`.
fn spawn() {
    let place = Place::new();
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |body| {
        if !holds(body, "LEADER") {
            return Answer::Text("Done.");
        }
        let input = r#"{"description":"d","prompt":"CHILD"}"#;
        match asked.fetch_add(1, Ordering::Relaxed) {
            n if n >= 2 * SPAWNS => Answer::Text("Done."),
            n if n % 2 == 0 => Answer::Calls(vec![("Agent", input.to_owned())]),
            _ => Answer::Calls(vec![("Read", r#"{"file_path":"a.txt"}"#.to_owned())]),
        }
    });
    let mut child = place.with_model(&server, &["-p", "LEADER"]).spawn().expect("starts");
    let (mut spawns, mut reads) = (Vec::new(), Vec::new());
    let mut call = server.next();
    for _ in 0..SPAWNS {
        let (first, read, next) = (server.next(), server.next(), server.next());
        spawns.push(first.whole.saturating_duration_since(call.answered));
        reads.push(next.whole.saturating_duration_since(read.answered));
        call = next;
    }
    assert!(child.wait().expect("ends").success());
    spawns.sort();
    reads.sort();
    row("call of Agent to its first request", SPAWNS, spawns[SPAWNS / 2], reads[SPAWNS / 2]);
}

/// Requests and time on a processor of a team that waits.
fn idle(wait: Duration) {
    let (place, server) = (Place::new(), Server::start(model));
    let mut led = Led::start(&place, &server, &["--teammate-mode", "process"]);
    led.say(&format!("SPAWN-0-{SMALL_TEAM}"));
    until("all are idle", || (0..SMALL_TEAM).all(|n| led.idle(&member(n))));
    until("the leader is idle", || led.idle(&AgentName::team_lead()));
    let processes: Vec<u32> = std::iter::once(led.child.id())
        .chain((0..SMALL_TEAM).filter_map(|n| led.record(&member(n)).map(|r| r.pid)))
        .collect();
    let used = || processes.iter().map(|pid| processor(*pid)).sum::<Duration>();
    // Each report wakes the leader; only what comes after the last of them is waiting.
    server.quiet(Duration::from_secs(2));
    let before = used();
    std::thread::park_timeout(wait);
    let share = (used() - before).as_secs_f64() / wait.as_secs_f64();
    println!(
        "{:<44} {:>8}   {:>9.3} %   ({} requests in {} s, {} processes)",
        "an idle team, share of one core",
        SMALL_TEAM,
        share * 100.0,
        server.drain(),
        wait.as_secs(),
        processes.len(),
    );
    led.end();
}

/// Memory of many idle teammates in one process.
fn crowd() {
    let (place, server) = (Place::new(), Server::start(model));
    let mut led = Led::start(&place, &server, &["--teammate-mode", "in-process"]);
    led.say("Hello.");
    until("the leader is idle", || led.idle(&AgentName::team_lead()));
    let alone = memory(led.child.id(), "VmRSS:");
    let begun = Instant::now();
    for from in (0..LARGE_TEAM).step_by(BATCH) {
        led.say(&format!("SPAWN-{from}-{BATCH}"));
        until("a batch is idle", || (from..from + BATCH).all(|n| led.idle(&member(n))));
    }
    let took = begun.elapsed();
    let all = memory(led.child.id(), "VmRSS:");
    println!(
        "{:<44} {:>8}   {:>9} KiB  ({} KiB each; started in {} s)",
        "memory of idle in-process teammates",
        LARGE_TEAM,
        all,
        all.saturating_sub(alone) / LARGE_TEAM,
        took.as_secs(),
    );
    led.end();
}

/// Prints the rows.
pub fn team(full: bool) {
    send_to_request();
    spawn();
    idle(Duration::from_secs(if full { 60 } else { 10 }));
    crowd();
}
