//! The binary as a process: started, watched, signalled, waited for.

use super::wait::{self, PATIENCE};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A command line that is not started yet.
pub struct Festoon {
    command: Command,
    stdin: Input,
}

enum Input {
    Nothing,
    Text(Vec<u8>),
    /// A pipe that stays open and silent.
    Silent,
}

/// A running binary. Killed when it is dropped.
pub struct Running {
    child: Child,
    stdout: Reader,
    stderr: Reader,
    /// Held open for as long as the test wants.
    pub stdin: Option<std::process::ChildStdin>,
}

/// How it went.
#[derive(Debug, Clone)]
pub struct Done {
    /// The status; `None` when a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Festoon {
    /// With exactly this environment.
    pub fn new<S: AsRef<OsStr>>(
        dir: &Path,
        env: &BTreeMap<String, String>,
        args: impl IntoIterator<Item = S>,
    ) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_festoon"));
        command.current_dir(dir).env_clear().envs(env).args(args);
        Self { command, stdin: Input::Nothing }
    }

    /// More arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// A variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// What is piped in.
    pub fn stdin(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.stdin = Input::Text(text.into());
        self
    }

    /// A pipe into which nobody writes.
    pub fn silent_stdin(mut self) -> Self {
        self.stdin = Input::Silent;
        self
    }

    /// Starts it.
    pub fn start(mut self) -> Running {
        let stdin = if matches!(self.stdin, Input::Nothing) { Stdio::null() } else { Stdio::piped() };
        self.command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().expect("the binary starts");
        let stdout = Reader::start(child.stdout.take().expect("piped"));
        let stderr = Reader::start(child.stderr.take().expect("piped"));
        let mut stdin = child.stdin.take();
        if let Input::Text(text) = &self.stdin {
            // The binary may have ended without reading.
            let _ = stdin.take().expect("piped").write_all(text);
        }
        Running { child, stdout, stderr, stdin }
    }

    /// Runs it to its end.
    pub fn run(self) -> Done {
        self.start().wait()
    }
}

impl Running {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Signals it.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.pid()).expect("pid")), signal).expect("it runs");
    }

    /// What it has printed so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// What it has complained about so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// The first complete line of standard output for which `wanted` holds, once there is one.
    pub fn line(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        wait::find(what, PATIENCE, || {
            let text = self.stdout();
            let complete = text.rfind('\n').map_or("", |end| &text[..end]);
            complete.lines().filter_map(|l| serde_json::from_str(l).ok()).find(|v| wanted(v))
        })
    }

    /// Waits for the end.
    pub fn wait(mut self) -> Done {
        drop(self.stdin.take());
        let mut status: Option<ExitStatus> = None;
        let end = std::time::Instant::now() + PATIENCE;
        while status.is_none() {
            status = self.child.try_wait().expect("waits");
            if status.is_none() {
                assert!(
                    std::time::Instant::now() < end,
                    "it does not end\nstdout: {}\nstderr: {}",
                    self.stdout(),
                    self.stderr()
                );
                wait::pause();
            }
        }
        let status = status.expect("ended");
        Done {
            code: status.code(),
            signal: status.signal(),
            stdout: self.stdout.finish(),
            stderr: self.stderr.finish(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has usually ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Done {
    /// Standard output as lines of JSON.
    pub fn lines(&self) -> Vec<Value> {
        let parse = |line: &str| match serde_json::from_str::<Value>(line) {
            Ok(value) if value.is_object() => value,
            other => panic!("not an object on a line: {line:?} ({other:?})"),
        };
        self.stdout.lines().map(parse).collect()
    }

    /// The result object: the only or the last line.
    pub fn result(&self) -> Value {
        let last = self.lines().pop();
        last.filter(|v| v["type"] == "result").unwrap_or_else(|| panic!("no result: {self:?}"))
    }

    /// The same with what differs between runs made equal.
    pub fn plain_result(&self) -> Value {
        let mut result = self.result();
        assert!(result["duration_ms"].as_u64().is_some_and(|ms| ms < 120_000), "{result}");
        assert!(result["session_id"].as_str().is_some_and(|id| !id.is_empty()), "{result}");
        result["duration_ms"] = "DURATION".into();
        result["session_id"] = "SESSION".into();
        result
    }

    /// Fails unless it ended with this status.
    #[track_caller]
    pub fn code(&self, wanted: i32) -> &Self {
        assert_eq!(self.code, Some(wanted), "{self:#?}");
        self
    }

    /// Standard output as one JSON value.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:#?}"))
    }

    /// The error object on standard error.
    pub fn error(&self) -> Value {
        let line = self.stderr.lines().rfind(|l| l.starts_with('{')).unwrap_or_else(|| panic!("{self:?}"));
        let value: Value = serde_json::from_str(line).expect("JSON");
        value["error"].clone()
    }
}

struct Reader {
    text: Arc<Mutex<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    fn start(mut from: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&text);
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                into.lock().expect("text").extend_from_slice(&buffer[..count]);
            }
        });
        Self { text, thread: Some(thread) }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().expect("text")).into_owned()
    }

    fn finish(&mut self) -> String {
        self.thread.take().expect("once").join().expect("reads");
        String::from_utf8(self.text.lock().expect("text").clone()).expect("UTF-8")
    }
}
