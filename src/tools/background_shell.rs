//! A command that goes on beside its agent: its output into a file as it comes, until it ends or is
//! stopped.
//!
//! Promises that all of it is gone when it was stopped, timed out, or its agent ended, and that the file
//! holds all output (up to [`MAX_FILE`]) before the end is told. Knows no registry.

use super::shells::{self, Shells};
use super::spool::MAX_FILE;
use crate::os::command::{CommandEvent, Exit, RunningCommand};
use crate::wire::mask::Mask;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Bytes of the end that are told with it.
const TAIL: usize = 4_000;

/// A command that was started to go on by itself.
pub struct BackgroundShell {
    /// The command.
    pub running: RunningCommand,
    /// What it is, for people.
    pub description: String,
    /// When it is ended; `None` lets it run.
    pub timeout: Option<Duration>,
    /// The commands of its agent, with which it ends.
    pub shells: Arc<Shells>,
    /// What its output is written down without.
    pub mask: Mask,
}

/// Why we ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Somebody stopped it.
    Stopped,
    /// Its agent has ended.
    AgentEnded,
    /// Its time was over.
    TimedOut,
}

/// How it went.
#[derive(Debug)]
pub struct ShellEnd {
    /// How the command itself ended; `None` when it was ended by us.
    pub exit: Option<Exit>,
    /// Why it was ended by us.
    pub cut: Option<Cut>,
    /// The end of its output.
    pub tail: String,
    /// What could not be written, or was left running.
    pub note: Option<String>,
}

/// Runs it to its end. `stop` ends it.
pub async fn run(shell: BackgroundShell, output: &Path, stop: &CancellationToken) -> ShellEnd {
    let BackgroundShell { mut running, timeout, shells, mask, .. } = shell;
    let mut mask = mask.stream();
    let _held = shells.hold();
    let ending = shells.ending();
    let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut file = Output::open(output);
    let mut cut = None;
    loop {
        let over = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            event = running.event() => event,
            why = async {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => Cut::Stopped,
                    () = ending.cancelled() => Cut::AgentEnded,
                    () = over => Cut::TimedOut,
                }
            }, if cut.is_none() => {
                cut = Some(why);
                running.end(shells::GRACE);
                continue;
            }
        };
        match event {
            CommandEvent::Output(data) | CommandEvent::Stderr(data) => file.push(&mask.push(&data)),
            CommandEvent::Exited { exit, left } if cut.is_none() => {
                file.push(&mask.finish());
                let mut note = file.trouble.take();
                if left {
                    shells.keep(running);
                    note = Some(
                        "it left processes running, which live until you end; their output is not kept"
                            .to_owned(),
                    );
                }
                return ShellEnd { exit: Some(exit), cut: None, tail: file.tail(), note };
            }
            CommandEvent::Exited { .. } => {}
            CommandEvent::Gone => {
                file.push(&mask.finish());
                let note = file.trouble.take();
                return ShellEnd { exit: None, cut, tail: file.tail(), note };
            }
        }
    }
}

/// The output file.
struct Output {
    path: PathBuf,
    file: Option<File>,
    written: u64,
    last: Vec<u8>,
    trouble: Option<String>,
}

impl Output {
    fn open(path: &Path) -> Self {
        let (file, trouble) = match OpenOptions::new().append(true).open(path) {
            Ok(file) => (Some(file), None),
            Err(error) => (None, Some(format!("its output is not kept: {}: {error}", path.display()))),
        };
        Self { path: path.to_owned(), file, written: 0, last: Vec::new(), trouble }
    }

    /// Writes as it comes: pieces of 64 KiB into the page cache.
    fn push(&mut self, data: &[u8]) {
        self.last.extend_from_slice(data);
        if self.last.len() > 2 * TAIL {
            self.last.drain(..self.last.len() - TAIL);
        }
        let Some(file) = &mut self.file else { return };
        if self.written >= MAX_FILE {
            self.trouble =
                Some(format!("{} holds the first {MAX_FILE} bytes of its output", self.path.display()));
            return;
        }
        self.written += data.len() as u64;
        if let Err(error) = file.write_all(data) {
            self.trouble = Some(format!("its output is not whole: {}: {error}", self.path.display()));
            self.file = None;
        }
    }

    /// The end of the output as text, from the beginning of a line where it is cut.
    fn tail(&self) -> String {
        let end = &self.last[self.last.len().saturating_sub(TAIL)..];
        let text = String::from_utf8_lossy(end);
        let cut = (self.written > end.len() as u64).then(|| text.find('\n')).flatten();
        cut.map_or(text.as_ref(), |line| &text[line + 1..]).trim_end().to_owned()
    }
}
