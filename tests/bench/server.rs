//! A Messages server in this process that answers at once, and the places in which the binary runs.
//!
//! It owns what was asked of it and when; what is measured is the client alone.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// How long anything here may take before the measurement is given up.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// A request as the server saw it: when it was there as a whole, when its answer began, and its body.
pub struct Seen {
    pub whole: Instant,
    pub answered: Instant,
    pub body: Vec<u8>,
}

/// What a model says: text, or calls as (tool, input as JSON).
pub enum Answer {
    Text(&'static str),
    Calls(Vec<(&'static str, String)>),
}

type Model = dyn Fn(&[u8]) -> Answer + Send + Sync;

/// The server; `seen` gives the requests in the order in which they were answered.
pub struct Server {
    address: SocketAddr,
    seen: mpsc::Receiver<Seen>,
}

impl Server {
    pub fn start(model: impl Fn(&[u8]) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = listener.local_addr().expect("address");
        let (tell, seen) = mpsc::channel();
        let model: Arc<Model> = Arc::new(model);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (model, tell) = (Arc::clone(&model), tell.clone());
                std::thread::spawn(move || serve(stream, &*model, &tell));
            }
        });
        Self { address, seen }
    }

    pub fn next(&self) -> Seen {
        self.seen.recv_timeout(PATIENCE).expect("a request")
    }

    /// The next request that holds `text`; those before it are passed over.
    pub fn until(&self, text: &str) -> Seen {
        loop {
            let seen = self.next();
            if holds(&seen.body, text) {
                return seen;
            }
        }
    }

    /// Waits until nothing was asked for so long.
    pub fn quiet(&self, time: Duration) {
        while self.seen.recv_timeout(time).is_ok() {}
    }

    /// Requests that came and were not taken yet.
    pub fn drain(&self) -> usize {
        self.seen.try_iter().count()
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("connects");
        stream.set_nodelay(true).expect("nodelay");
        stream
    }
}

pub fn holds(body: &[u8], text: &str) -> bool {
    memchr::memmem::find(body, text.as_bytes()).is_some()
}

fn serve(stream: TcpStream, model: &Model, tell: &mpsc::Sender<Seen>) {
    stream.set_nodelay(true).expect("nodelay");
    let mut reader = BufReader::new(stream.try_clone().expect("clones"));
    let mut writer = stream;
    while let Some(body) = request(&mut reader) {
        let whole = Instant::now();
        let answer = response(&model(&body));
        let seen = Seen { whole, answered: Instant::now(), body };
        if writer.write_all(answer.as_bytes()).is_err() || tell.send(seen).is_err() {
            return;
        }
    }
}

/// Reads a request; gives its body.
fn request(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
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
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body).ok()?;
    Some(body)
}

fn response(answer: &Answer) -> String {
    let usage = r#"{"input_tokens":1,"output_tokens":1}"#;
    let mut events =
        vec![("message_start", format!(r#""message":{{"id":"m","model":"m","usage":{usage}}}"#))];
    let mut block = |index: usize, start: String, delta: String| {
        events.push(("content_block_start", format!(r#""index":{index},"content_block":{start}"#)));
        events.push(("content_block_delta", format!(r#""index":{index},"delta":{delta}"#)));
        events.push(("content_block_stop", format!(r#""index":{index}"#)));
    };
    let stop = match answer {
        Answer::Text(text) => {
            let delta = serde_json::json!({"type": "text_delta", "text": text});
            block(0, r#"{"type":"text","text":""}"#.to_owned(), delta.to_string());
            "end_turn"
        }
        Answer::Calls(calls) => {
            for (index, (tool, input)) in calls.iter().enumerate() {
                let id = uuid::Uuid::now_v7().simple();
                let start =
                    format!(r#"{{"type":"tool_use","id":"toolu_{id}","name":"{tool}","input":{{}}}}"#);
                let delta = serde_json::json!({"type": "input_json_delta", "partial_json": input});
                block(index, start, delta.to_string());
            }
            "tool_use"
        }
    };
    events.push(("message_delta", format!(r#""delta":{{"stop_reason":"{stop}"}},"usage":{usage}"#)));
    events.push(("message_stop", String::new()));
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

/// A state root and a project of their own.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        for made in ["state", "project"] {
            fs::create_dir(dir.path().join(made)).expect("dir");
        }
        fs::write(dir.path().join("project/a.txt"), "a line of text as there are many\n".repeat(40))
            .expect("file");
        Self(dir)
    }

    pub fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_festoon"));
        command
            .args(arguments)
            .current_dir(self.0.path().join("project"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.0.path())
            .env("FESTOON_HOME", self.state())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// The same with this server as the model.
    pub fn with_model(&self, server: &Server, arguments: &[&str]) -> Command {
        let mut command = self.command(arguments);
        command
            .args(["--model", "anthropic:m"])
            .env("ANTHROPIC_API_KEY", "sk-bench")
            .env("ANTHROPIC_BASE_URL", server.url());
        command
    }
}

/// A line of `/proc/<pid>/status`, in KiB.
pub fn memory(pid: u32, key: &str) -> usize {
    let status =
        fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Time on a processor of all threads of a process.
pub fn processor(pid: u32) -> Duration {
    let tasks = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task"));
    let nanoseconds = tasks.into_iter().flatten().flatten().map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        text.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
    });
    Duration::from_nanos(nanoseconds.sum())
}

/// Waits for a condition, and fails past [`PATIENCE`].
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
