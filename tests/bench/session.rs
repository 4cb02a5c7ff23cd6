//! What a session costs: its rounds as the history grows, its start, and its memory.
//!
//! The real binary against a server in this process that answers at once, so that what is measured is
//! the client. Times are compared with a floor of the same run: a round with a bare exchange of as many
//! bytes, a start with `festoon paths`.

use crate::server::{Answer, Place, Server, memory};
use crate::{median, row};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Rounds of the long session.
const ROUNDS: usize = 200;
/// Rounds at its beginning and at its end that are compared.
const EDGE: usize = 20;
/// Starts that are measured.
const STARTS: usize = 15;
const PROMPT: [&str; 2] = ["-p", "work"];

/// Answers with calls until `rounds` requests were made, then with text.
fn server(rounds: usize) -> Server {
    let answered = AtomicUsize::new(0);
    Server::start(move |_| match answered.fetch_add(1, Ordering::Relaxed) + 1 {
        n if n >= rounds => Answer::Text("Done."),
        _ => Answer::Calls(vec![("Read", r#"{"file_path":"a.txt"}"#.to_owned())]),
    })
}

/// How long a bare exchange of so many bytes takes on this machine.
fn bare(bytes: usize) -> Duration {
    let server = server(usize::MAX);
    let mut stream = server.connect();
    let head = format!("POST / HTTP/1.1\r\ncontent-length: {bytes}\r\n\r\n");
    let body = vec![b'x'; bytes];
    median(21, || {
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).expect("sends");
        let mut byte = [0; 4096];
        let _ = stream.read(&mut byte).expect("reads");
        let _ = server.next();
    })
}

fn rounds() {
    let (place, server) = (Place::new(), server(ROUNDS));
    let mut child = place.with_model(&server, &PROMPT).spawn().expect("starts");
    let pid = child.id();
    let (mut seen, mut resident) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        seen.push(server.next());
        resident.push(memory(pid, "VmRSS:"));
    }
    assert!(child.wait().expect("ends").success());
    // From one answer to the next request as a whole, without what its bytes take by themselves.
    let own = |from: usize| {
        let mut times: Vec<Duration> = (from..from + EDGE)
            .map(|i| seen[i + 1].whole.saturating_duration_since(seen[i].answered))
            .collect();
        times.sort();
        let bytes = seen[from + EDGE / 2].body.len();
        (times[EDGE / 2].saturating_sub(bare(bytes)), bytes)
    };
    let ((first, small), (last, large)) = (own(1), own(ROUNDS - EDGE - 1));
    row("a round, without its bytes; bytes of a request", small, first, first);
    row("the same after 180 rounds", large, last, first);
    let grown = resident[ROUNDS - 1].saturating_sub(resident[EDGE]);
    println!(
        "{:<44} {:>8}   {:>9} KiB  (a request grew by {} KiB)",
        "memory, from round 20 to 200",
        ROUNDS,
        grown,
        (large - small) / 1024
    );
}

fn start() {
    let place = Place::new();
    let floor = median(STARTS, || {
        assert!(place.command(&["paths"]).status().expect("runs").success());
    });
    let (mut times, mut peak) = (Vec::new(), 0);
    for _ in 0..STARTS {
        let server = server(1);
        let begun = Instant::now();
        let mut child = place.with_model(&server, &PROMPT).spawn().expect("starts");
        times.push(server.next().whole.saturating_duration_since(begun));
        peak = peak.max(memory(child.id(), "VmHWM:"));
        assert!(child.wait().expect("ends").success());
    }
    times.sort();
    let first = times[STARTS / 2];
    row("festoon paths", STARTS, floor, floor);
    row("start to first request", STARTS, first, floor);
    row("the same over the floor", STARTS, first.saturating_sub(floor), floor);
    println!("{:<44} {:>8}   {:>9} KiB", "peak memory of one prompt", STARTS, peak);
}

/// Prints the rows.
pub fn session() {
    rounds();
    start();
}
