//! A server as a process: started below a guard, fed with requests, listened to, ended in order.
//!
//! One task keeps the process and passes bytes between it and the client. Promises that the process and
//! all it started are gone when [`Kept::gone`] resolves, and that they end with our process however that
//! ends (the guard sees to it). Remembers what the server last wrote to standard error, for messages, and
//! the schemas of its tools as the bytes they came in.

use super::lines::{Lines, Schemas};
use crate::os::command::{
    self, CommandEvent, CommandSpec, Exit, RunningCommand, StandardError, StandardInput,
};
use crate::os::error::OsError;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
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
    fault: Arc<OnceLock<String>>,
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
        let patience = if self.fault.get().is_some() { Duration::ZERO } else { patience };
        let exit = timeout(patience, exit.wait_for(Option::is_some)).await;
        let ended = match exit.as_ref().map(|exit| exit.as_ref().map(|exit| **exit)) {
            Ok(Ok(Some(exit))) => format!("it ended with {exit}"),
            _ => "it closed the connection".to_owned(),
        };
        let ended = self.fault.get().cloned().unwrap_or(ended);
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
    let fault = Arc::new(OnceLock::new());
    let keeper = Keeper {
        command,
        exit,
        words: Arc::clone(&words),
        fault: Arc::clone(&fault),
        schemas: Arc::clone(&schemas),
    };
    tasks.spawn(async move {
        keeper.keep(ours, stop).await;
        gone.send_replace(true);
    });
    Ok((Pipes { from, to }, Kept { exit: exit_seen, gone: gone_seen, words, fault, schemas }))
}

struct Keeper {
    command: RunningCommand,
    exit: watch::Sender<Option<Exit>>,
    words: Arc<Mutex<Vec<u8>>>,
    /// What it did that ended the connection.
    fault: Arc<OnceLock<String>>,
    schemas: Arc<Schemas>,
}

impl Keeper {
    async fn keep(mut self, ours: DuplexStream, stop: CancellationToken) {
        let (mut requests, mut answers) = split(ours);
        let mut lines = Lines::default();
        let mut request = Vec::new();
        loop {
            // A server that reads slowly is fed slowly.
            let takes = self.command.unfed() < PIPE;
            // None comes first: a server that never stops talking is fed and ended all the same.
            let event = tokio::select! {
                () = stop.cancelled() => break,
                event = self.command.event() => event,
                count = requests.read_buf(&mut request), if takes => {
                    if !matches!(count, Ok(count) if count > 0) {
                        break;
                    }
                    lines.goes(&request);
                    self.command.feed(&request);
                    request.clear();
                    continue;
                }
            };
            match event {
                // It has closed its output: no answer comes any more, whatever it still does.
                CommandEvent::Output(data) if data.is_empty() => break,
                CommandEvent::Output(data) => {
                    if let Err(fault) = lines.comes(&data, &self.schemas) {
                        let _ = self.fault.set(fault); // the first one ends it
                        break;
                    }
                    let written = tokio::select! {
                        () = stop.cancelled() => break,
                        written = answers.write_all(&data) => written,
                    };
                    if written.is_err() {
                        break;
                    }
                }
                CommandEvent::Stderr(data) => hear(&self.words, self.command.program(), &data),
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
        let Self { command, words, .. } = &mut self;
        let program = command.program().to_owned();
        let by_itself = async {
            loop {
                match command.event().await {
                    CommandEvent::Exited { exit, .. } => return exit,
                    CommandEvent::Gone => return Exit::Lost,
                    CommandEvent::Stderr(data) => hear(words, &program, &data),
                    CommandEvent::Output(_) => {}
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
}

/// Keeps the end of what a server writes to standard error.
fn hear(words: &Mutex<Vec<u8>>, program: &str, data: &[u8]) {
    tracing::debug!(server = program, text = %String::from_utf8_lossy(data), "standard error");
    let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
    words.extend_from_slice(data);
    let surplus = words.len().saturating_sub(LAST_WORDS);
    words.drain(..surplus);
}
