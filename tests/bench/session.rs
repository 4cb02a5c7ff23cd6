//! What a session costs: its rounds as the history grows, its start, and its memory.
//!
//! The real binary against a server in this process that answers at once, so that what is measured is
//! the client. Times are compared with a floor of the same run: a round with a bare exchange of as many
//! bytes, a start with `festoon paths`.

use crate::{median, row};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Rounds of the long session.
const ROUNDS: usize = 200;
/// Rounds at its beginning and at its end that are compared.
const EDGE: usize = 20;
/// Starts that are measured.
const STARTS: usize = 15;

/// A request as the server saw it: when it was there as a whole, when its answer began, and its bytes.
struct Seen {
    whole: Instant,
    answered: Instant,
    bytes: usize,
}

/// A server that answers the first `rounds - 1` requests with a call, the next with text.
struct Server {
    address: SocketAddr,
    seen: mpsc::Receiver<Seen>,
}

impl Server {
    fn start(rounds: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("address");
        let (tell, seen) = mpsc::channel();
        std::thread::spawn(move || {
            let mut answered = 0;
            for stream in listener.incoming().flatten() {
                serve(stream, rounds, &mut answered, &tell);
            }
        });
        Self { address, seen }
    }

    fn next(&self) -> Seen {
        self.seen.recv_timeout(Duration::from_secs(60)).expect("a request")
    }
}

fn serve(stream: TcpStream, rounds: usize, answered: &mut usize, tell: &mpsc::Sender<Seen>) {
    stream.set_nodelay(true).expect("nodelay");
    let mut reader = BufReader::new(stream.try_clone().expect("clones"));
    let mut writer = stream;
    while let Some(bytes) = request(&mut reader) {
        let whole = Instant::now();
        *answered += 1;
        let answer = answer(*answered, *answered >= rounds);
        let seen = Seen { whole, answered: Instant::now(), bytes };
        if writer.write_all(answer.as_bytes()).is_err() || tell.send(seen).is_err() {
            return;
        }
    }
}

/// Reads a request; gives the bytes of its body.
fn request(reader: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    std::io::copy(&mut reader.take(length), &mut std::io::sink()).ok()?;
    usize::try_from(length).ok()
}

fn answer(number: usize, last: bool) -> String {
    let (start, delta, stop) = if last {
        (
            r#"{"type":"text","text":""}"#.to_owned(),
            r#"{"type":"text_delta","text":"Done."}"#.to_owned(),
            "end_turn",
        )
    } else {
        (
            format!(r#"{{"type":"tool_use","id":"toolu_{number}","name":"Read","input":{{}}}}"#),
            r#"{"type":"input_json_delta","partial_json":"{\"file_path\":\"a.txt\"}"}"#.to_owned(),
            "tool_use",
        )
    };
    let usage = r#"{"input_tokens":1,"output_tokens":1}"#;
    let events = [
        ("message_start", format!(r#""message":{{"id":"m{number}","model":"m","usage":{usage}}}"#)),
        ("content_block_start", format!(r#""index":0,"content_block":{start}"#)),
        ("content_block_delta", format!(r#""index":0,"delta":{delta}"#)),
        ("content_block_stop", r#""index":0"#.to_owned()),
        ("message_delta", format!(r#""delta":{{"stop_reason":"{stop}"}},"usage":{usage}"#)),
        ("message_stop", String::new()),
    ];
    let mut body = String::new();
    for (name, rest) in events {
        let comma = if rest.is_empty() { "" } else { "," };
        body.push_str(&format!("event: {name}\ndata: {{\"type\":\"{name}\"{comma}{rest}}}\n\n"));
    }
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        for made in ["state", "project"] {
            fs::create_dir(dir.path().join(made)).expect("dir");
        }
        fs::write(dir.path().join("project/a.txt"), "a line of text as there are many\n".repeat(40))
            .expect("file");
        Self(dir)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_festoon"));
        command
            .args(arguments)
            .current_dir(self.0.path().join("project"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.0.path())
            .env("FESTOON_HOME", self.0.path().join("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn prompt(&self, server: &Server) -> Child {
        self.command(&["-p", "work", "--model", "anthropic:m"])
            .env("ANTHROPIC_API_KEY", "sk-bench")
            .env("ANTHROPIC_BASE_URL", format!("http://{}", server.address))
            .spawn()
            .expect("starts")
    }
}

/// A line of `/proc/<pid>/status`, in KiB.
fn memory(pid: u32, key: &str) -> usize {
    let status =
        fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// How long a bare exchange of so many bytes takes on this machine.
fn bare(bytes: usize) -> Duration {
    let server = Server::start(usize::MAX);
    let mut stream = TcpStream::connect(server.address).expect("connects");
    stream.set_nodelay(true).expect("nodelay");
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
    let (place, server) = (Place::new(), Server::start(ROUNDS));
    let mut child = place.prompt(&server);
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
        let bytes = seen[from + EDGE / 2].bytes;
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
        let server = Server::start(1);
        let begun = Instant::now();
        let mut child = place.prompt(&server);
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
