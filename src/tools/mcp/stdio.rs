//! A server as a process: started below a guard, fed with requests, listened to, ended in order.
//!
//! One task keeps the process and passes bytes between it and the client. Promises that the process and
//! all it started are gone when [`Kept::gone`] resolves, and that they end with our process however that
//! ends (the guard sees to it). Remembers what the server last wrote to standard error, for messages, and
//! the schemas of its tools as the bytes they came in.

use crate::os::command::{
    self, CommandEvent, CommandSpec, Exit, RunningCommand, StandardError, StandardInput,
};
use crate::os::error::OsError;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a server has to end by itself once its input is closed (MCP specification, "Shutdown").
const CLOSE_GRACE: Duration = Duration::from_millis(1500);
/// From TERM to KILL.
const TERM_GRACE: Duration = Duration::from_millis(1500);
/// Bytes on the way in each direction.
const PIPE: usize = 256 * 1024;
/// Longest line whose schemas are kept as they came; the client takes no longer one either.
const LONGEST_LINE: usize = 16 * 1024 * 1024;
/// Standard error that is remembered, in bytes.
const LAST_WORDS: usize = 2 * 1024;
/// What is shown of it.
const SHOWN_WORDS: usize = 300;

/// The two directions of a running server, for the client.
pub(super) struct Pipes {
    /// What the server writes.
    pub from: ReadHalf<DuplexStream>,
    /// What it reads.
    pub to: WriteHalf<DuplexStream>,
}

/// A running server, kept by a task of its own.
#[derive(Clone)]
pub(super) struct Kept {
    exit: watch::Receiver<Option<Exit>>,
    gone: watch::Receiver<bool>,
    words: Arc<Mutex<Vec<u8>>>,
    /// The input schemas it has sent, by tool.
    pub schemas: Arc<Schemas>,
}

impl Kept {
    /// Waits until nothing of the server is left.
    pub async fn gone(&self) {
        // The sender is only dropped by the keeper's end, after which nothing is left either.
        let _ = self.gone.clone().wait_for(|gone| *gone).await;
    }

    /// How it ended and what it wrote last, for a message; waits a little for the end.
    pub async fn last_words(&self, patience: Duration) -> String {
        let mut exit = self.exit.clone();
        let exit = timeout(patience, exit.wait_for(Option::is_some)).await;
        let ended = match exit.as_ref().map(|exit| exit.as_ref().map(|exit| **exit)) {
            Ok(Ok(Some(exit))) => format!("it ended with {exit}"),
            _ => "it closed the connection".to_owned(),
        };
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&words);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let shown = lines[lines.len().saturating_sub(3)..].join(" | ");
        let shown = super::plain(&shown);
        match shown.char_indices().nth(SHOWN_WORDS) {
            _ if shown.is_empty() => ended,
            Some((at, _)) => format!("{ended}; it wrote: {}…", &shown[..at]),
            None => format!("{ended}; it wrote: {shown}"),
        }
    }
}

/// Starts a server. It is ended when `stop` is cancelled or the client closes its side.
///
/// # Errors
/// When the program or its directory does not exist.
pub(super) async fn start(
    mut spec: CommandSpec,
    tasks: &TaskTracker,
    stop: CancellationToken,
) -> Result<(Pipes, Kept), OsError> {
    spec.stderr = StandardError::Apart;
    spec.input = StandardInput::Open;
    let command = command::start(spec).await?;
    let (ours, theirs) = duplex(PIPE);
    let (from, to) = split(theirs);
    let (exit, exit_seen) = watch::channel(None);
    let (gone, gone_seen) = watch::channel(false);
    let words = Arc::new(Mutex::new(Vec::new()));
    let schemas = Arc::new(Schemas::default());
    let keeper = Keeper { command, exit, words: Arc::clone(&words), schemas: Arc::clone(&schemas) };
    tasks.spawn(async move {
        keeper.keep(ours, stop).await;
        gone.send_replace(true);
    });
    Ok((Pipes { from, to }, Kept { exit: exit_seen, gone: gone_seen, words, schemas }))
}

struct Keeper {
    command: RunningCommand,
    exit: watch::Sender<Option<Exit>>,
    words: Arc<Mutex<Vec<u8>>>,
    schemas: Arc<Schemas>,
}

impl Keeper {
    async fn keep(mut self, ours: DuplexStream, stop: CancellationToken) {
        let (mut requests, mut answers) = split(ours);
        let mut tap = Tap::default();
        let mut request = Vec::new();
        loop {
            // A server that reads slowly is fed slowly.
            let takes = self.command.unfed() < PIPE;
            let event = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                event = self.command.event() => event,
                count = requests.read_buf(&mut request), if takes => {
                    if !matches!(count, Ok(count) if count > 0) {
                        break;
                    }
                    self.command.feed(&request);
                    request.clear();
                    continue;
                }
            };
            match event {
                CommandEvent::Output(data) => {
                    tap.see(&data, &self.schemas);
                    let written = tokio::select! {
                        () = stop.cancelled() => break,
                        written = answers.write_all(&data) => written,
                    };
                    if written.is_err() {
                        break;
                    }
                }
                CommandEvent::Stderr(data) => self.hear(&data),
                CommandEvent::Exited { exit, .. } => {
                    self.exit.send_replace(Some(exit));
                    break;
                }
                CommandEvent::Gone => break,
            }
        }
        // The client sees the end at once, whatever the server still needs for it.
        drop((requests, answers));
        self.end().await;
    }

    /// Closes its input, then TERM, then KILL; each step only if the one before has not done it.
    async fn end(mut self) {
        if self.exit.borrow().is_some() {
            // What it has left behind.
            self.command.kill().await;
            return;
        }
        self.command.close_input();
        let by_itself = async {
            loop {
                match self.command.event().await {
                    CommandEvent::Exited { exit, .. } => return exit,
                    CommandEvent::Gone => return Exit::Lost,
                    CommandEvent::Stderr(_) | CommandEvent::Output(_) => {}
                }
            }
        };
        let exit = match timeout(CLOSE_GRACE, by_itself).await {
            Ok(exit) => {
                self.command.kill().await;
                exit
            }
            Err(_) => self.command.terminate(TERM_GRACE).await,
        };
        self.exit.send_replace(Some(exit));
    }

    fn hear(&self, data: &[u8]) {
        tracing::debug!(server = self.command.program(), text = %String::from_utf8_lossy(data), "standard error");
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend_from_slice(data);
        let surplus = words.len().saturating_sub(LAST_WORDS);
        words.drain(..surplus);
    }
}

/// Input schemas as a server sent them. The client's own types sort the members of objects.
#[derive(Default)]
pub(super) struct Schemas(Mutex<HashMap<String, Box<RawValue>>>);

impl Schemas {
    /// The schema of a tool as it came last.
    pub fn of(&self, tool: &str) -> Option<Box<RawValue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(tool).cloned()
    }

    fn learn(&self, line: &[u8]) {
        #[derive(Deserialize)]
        struct Answer {
            result: Listed,
        }
        #[derive(Deserialize)]
        struct Listed {
            tools: Vec<Listing>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Listing {
            name: String,
            input_schema: Box<RawValue>,
        }
        let Ok(answer) = serde_json::from_slice::<Answer>(line) else { return };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(answer.result.tools.into_iter().map(|tool| (tool.name, tool.input_schema)));
    }
}

/// Looks for lists of tools in what a server writes.
#[derive(Default)]
struct Tap {
    line: Vec<u8>,
    /// The line is too long and passed over.
    skips: bool,
}

impl Tap {
    fn see(&mut self, data: &[u8], schemas: &Schemas) {
        for part in data.split_inclusive(|byte| *byte == b'\n') {
            if !self.skips {
                self.line.extend_from_slice(part);
            }
            self.skips |= self.line.len() > LONGEST_LINE;
            if part.ends_with(b"\n") {
                if !self.skips && memchr::memmem::find(&self.line, b"\"inputSchema\"").is_some() {
                    schemas.learn(&self.line);
                }
                self.skips = false;
                self.line.clear();
            } else if self.skips {
                self.line = Vec::new();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_found_in_pieces_of_lines_and_keep_their_bytes() {
        let schema = r#"{ "type":"object","properties":{"z":{"minimum":1e0},"a":{}} }"#;
        let list = format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{{"name":"t","inputSchema":{schema}}}]}}}}"#
        );
        let text = format!("noise \"inputSchema\"\n{list}\n{{\"half\"");
        let (mut tap, schemas) = (Tap::default(), Schemas::default());
        for piece in text.as_bytes().chunks(7) {
            tap.see(piece, &schemas);
        }
        assert_eq!(schemas.of("t").expect("known").get(), schema);
        assert!(schemas.of("noise").is_none());
        let endless = vec![b'x'; LONGEST_LINE + 2];
        tap.see(&endless, &schemas);
        assert!(tap.skips && tap.line.is_empty());
        tap.see(b"\"inputSchema\"\n", &schemas);
        assert!(!tap.skips);
    }
}
