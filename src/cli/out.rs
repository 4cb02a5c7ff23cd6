//! Printing that survives a reader which has gone away.
//!
//! Owns the way to standard output and standard error for everything that is not drawn. A closed
//! pipe means that nobody wants to read more; it never ends a run, and never panics.

use super::view::LineSink;
use std::fmt::Display;
use std::io::Write;
use std::sync::mpsc;
use std::thread::JoinHandle;

/// A line on standard output, its colours taken away where nobody sees them.
pub fn line(text: impl Display) {
    // Nowhere to print to means nothing to print.
    let _ = writeln!(anstream::stdout().lock(), "{text}");
}

/// A line on standard error.
pub fn error(text: impl Display) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// A warning on standard error.
pub fn warning(text: impl Display) {
    error(format_args!("warning: {text}"));
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
