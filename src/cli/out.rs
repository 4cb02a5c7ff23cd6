//! Printing that survives a reader which has gone away.
//!
//! Owns the way to standard output and standard error for everything that is not drawn. A closed
//! pipe means that nobody wants to read more; it never ends a run, and never panics. What could not be
//! written to standard output for another reason is an error: at once for a listing ([`Out`]), at the end
//! for a run that goes on without it ([`lost`]).

use super::error::CliError;
use super::text::sentence;
use super::view::LineSink;
use crate::os::terminal;
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::{OnceLock, mpsc};
use std::thread::JoinHandle;

/// Why a part of what was printed is lost, once some is.
static LOST: OnceLock<String> = OnceLock::new();

fn cannot_write(error: io::Error) -> CliError {
    CliError::from(error).about("standard output cannot be written")
}

/// A line on standard output, its colours taken away where nobody sees them.
pub fn line(text: impl Display) {
    plain(&styled(&text.to_string()));
}

/// A line on standard output as it is; `false` when it did not get there.
pub fn plain(text: &str) -> bool {
    let written = terminal::write_out(&format!("{text}\n"));
    if let Err(error) = &written
        && error.kind() != ErrorKind::BrokenPipe
    {
        // The first reason is the one that is told.
        let _ = LOST.set(error.to_string());
    }
    written.is_ok()
}

/// The error of a run whose lines could not be printed; a closed pipe is none.
pub fn lost() -> Option<CliError> {
    LOST.get().map(|why| cannot_write(io::Error::other(why.as_str())))
}

/// A line on standard error.
pub fn error(text: impl Display) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// A warning on standard error.
pub fn warning(text: impl Display) {
    error(format_args!("warning: {}", sentence(&text.to_string())));
}

/// Whether standard output takes colours: a terminal, and nothing in the environment against it.
pub fn has_colors() -> bool {
    anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
}

/// The text as it may be written to standard output without further ado.
pub fn styled(text: &str) -> String {
    if has_colors() { text.to_owned() } else { anstream::adapter::strip_str(text).to_string() }
}

/// A thread that prints lines, so that whoever has something to say never waits for a slow reader.
pub struct Printing {
    lines: Lines,
    thread: JoinHandle<()>,
}

/// A handle on it. `None` is the end.
#[derive(Clone)]
pub struct Lines(mpsc::Sender<Option<String>>);

impl Printing {
    /// Starts the thread.
    pub fn start() -> std::io::Result<Self> {
        let (lines, waiting) = mpsc::channel::<Option<String>>();
        let thread = std::thread::Builder::new().name("lines".to_owned()).spawn(move || {
            while let Ok(Some(text)) = waiting.recv() {
                line(text);
            }
        })?;
        Ok(Self { lines: Lines(lines), thread })
    }

    /// A handle for whoever has lines.
    pub fn lines(&self) -> Lines {
        self.lines.clone()
    }

    /// Waits until everything is out.
    pub fn finish(self) {
        // Both fail only when the thread is gone.
        let _ = self.lines.0.send(None);
        let _ = self.thread.join();
    }
}

impl LineSink for Lines {
    fn line(&self, text: String) {
        // Fails only after the end, when nobody looks any more.
        let _ = self.0.send(Some(text));
    }
}

/// Where a command prints. Colours are taken out when nobody would see them.
#[derive(Default)]
pub struct Out {
    closed: bool,
}

impl Out {
    /// Prints a line.
    ///
    /// # Errors
    /// A full disk and the like; never a closed pipe.
    pub fn line(&mut self, text: impl Display) -> Result<(), CliError> {
        self.write(&format!("{text}\n"))
    }

    /// Prints a text as it is.
    ///
    /// # Errors
    /// As [`Out::line`].
    pub fn write(&mut self, text: &str) -> Result<(), CliError> {
        if self.closed {
            return Ok(());
        }
        match terminal::write_out(&styled(text)) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.closed = true,
            done => done.map_err(cannot_write)?,
        }
        Ok(())
    }

    /// Prints bytes that no terminal has to understand.
    ///
    /// # Errors
    /// As [`Out::line`].
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.write(&String::from_utf8_lossy(bytes))
    }

    /// Prints a value as one line of JSON.
    ///
    /// # Errors
    /// As [`Out::line`].
    pub fn json<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), CliError> {
        let text = serde_json::to_string(value).map_err(|e| CliError::from(std::io::Error::from(e)))?;
        self.line(text)
    }

    /// Whether nobody reads any more.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}
