//! The way to the screen: whole lines, in order, from whoever has something to say.
//!
//! One thread prints. Text that streams in is broken into rows of the terminal's width and shown row
//! by row, since a row that is not complete would have to share its line with the prompt; other lines
//! go between the rows of an answer, never into them. Nobody who prints ever waits.

use crate::cli::out;
use crate::cli::text::{clean, end_of_words, width};
use crate::cli::view::LineSink;
use crate::os::terminal;
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// A row up and down again: a text that shows nothing.
const NOTHING: &str = "\x1b[A\n";

enum Job {
    Line(String),
    Piece(String),
    EndOfText,
    Flush(oneshot::Sender<()>),
}

/// A handle on the printing thread; cheap to clone.
#[derive(Clone)]
pub struct Printer(mpsc::Sender<Job>);

impl Printer {
    /// Starts the thread on a sink.
    pub fn start(sink: impl Sink + 'static) -> std::io::Result<Self> {
        let (jobs, waiting) = mpsc::channel();
        let name = "printer".to_owned();
        std::thread::Builder::new().name(name).spawn(move || print(&waiting, sink))?;
        Ok(Self(jobs))
    }

    /// A piece of a text that streams in.
    pub fn piece(&self, text: &str) {
        self.send(Job::Piece(text.to_owned()));
    }

    /// The streamed text is complete, or broken off.
    pub fn end_of_text(&self) {
        self.send(Job::EndOfText);
    }

    /// Several lines that belong together.
    pub fn lines(&self, lines: &[String]) {
        self.send(Job::Line(lines.join("\n")));
    }

    /// Resolves when all that was said until now has been handed to the terminal.
    pub async fn flush(&self) {
        let (done, over) = oneshot::channel();
        self.send(Job::Flush(done));
        // An error means that the thread has ended, after which nothing is left to print.
        let _ = over.await;
    }

    fn send(&self, job: Job) {
        // Fails only when the thread is gone, and then there is no terminal either.
        let _ = self.0.send(job);
    }
}

impl LineSink for Printer {
    fn line(&self, text: String) {
        self.send(Job::Line(text));
    }
}

/// Where complete lines go.
pub trait Sink: Send {
    /// Shows lines, each ended by a line break.
    fn put(&mut self, lines: &str);
    /// Cells of a row; `None` for no bound.
    fn columns(&self) -> Option<usize>;
    /// Returns when what was put is on the screen.
    fn settle(&mut self) {}
}

fn print(waiting: &mpsc::Receiver<Job>, mut sink: impl Sink) {
    let mut stream = Stream::default();
    while let Ok(first) = waiting.recv() {
        let columns = sink.columns();
        let mut out = String::new();
        let mut done = Vec::new();
        let mut next = Some(first);
        while let Some(job) = next {
            match job {
                Job::Line(text) => {
                    out.push_str(&text);
                    out.push('\n');
                }
                Job::Piece(text) => stream.take(&text, columns, &mut out),
                Job::EndOfText => stream.end(&mut out),
                Job::Flush(answer) => done.push(answer),
            }
            next = waiting.try_recv().ok();
        }
        if !out.is_empty() {
            sink.put(&out);
        }
        if !done.is_empty() {
            sink.settle();
        }
        for answer in done {
            // Whoever asked may have stopped waiting.
            let _ = answer.send(());
        }
    }
}

/// Streamed text on its way to rows.
#[derive(Default)]
struct Stream {
    /// What is not a complete row yet.
    open: String,
}

impl Stream {
    fn take(&mut self, piece: &str, columns: Option<usize>, out: &mut String) {
        self.open.push_str(&clean(piece));
        while let Some(at) = self.open.find('\n') {
            let rest = self.open.split_off(at + 1);
            self.rows(columns, out);
            self.end(out);
            self.open = rest;
        }
        self.rows(columns, out);
    }

    /// Moves out the rows that are full.
    fn rows(&mut self, columns: Option<usize>, out: &mut String) {
        let Some(columns) = columns else { return };
        while width(self.open.trim_end()) > columns {
            let rest = self.open.split_off(end_of_words(&self.open, columns));
            out.push_str(self.open.trim_end());
            out.push('\n');
            self.open = rest.trim_start_matches(' ').to_owned();
        }
    }

    fn end(&mut self, out: &mut String) {
        if self.open.is_empty() {
            return;
        }
        out.push_str(self.open.trim_end());
        out.push('\n');
        self.open.clear();
    }
}

/// Standard output, for runs without a line editor.
pub struct Plain;

impl Sink for Plain {
    fn put(&mut self, lines: &str) {
        out::line(lines.strip_suffix('\n').unwrap_or(lines));
    }
    fn columns(&self) -> Option<usize> {
        None
    }
}

/// Whether the line editor is there to put lines above the one being typed.
#[derive(Clone, Default)]
pub struct Live(Arc<(Mutex<Editing>, Condvar)>);

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Editing {
    /// Between two lines, or not begun.
    #[default]
    No,
    /// A line is being edited.
    Yes,
    /// There will be no more lines.
    Over,
}

impl Live {
    /// The prompt is on the screen.
    pub fn begins(&self) {
        self.set(Editing::Yes);
    }

    /// The line is complete.
    pub fn pauses(&self) {
        self.set(Editing::No);
    }

    /// The editor is gone.
    pub fn ends(&self) {
        self.set(Editing::Over);
    }

    /// Waits until it is; false when that takes too long.
    pub fn has_ended(&self, at_most: Duration) -> bool {
        let now = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.0.1.wait_timeout_while(now, at_most, |e| *e != Editing::Over);
        let (now, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *now == Editing::Over
    }

    fn set(&self, to: Editing) {
        let mut now = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *now != Editing::Over && *now != to {
            *now = to;
            self.0.1.notify_all();
        }
    }

    /// Waits for one or the other; true while a line is edited.
    fn wait(&self) -> bool {
        let now = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.0.1.wait_while(now, |e| *e == Editing::No).unwrap_or_else(PoisonError::into_inner);
        *now == Editing::Yes
    }
}

/// The line editor's own printer, which draws the line being typed anew below.
pub struct AboveTheLine {
    printer: Box<dyn rustyline::ExternalPrinter + Send>,
    live: Live,
}

impl AboveTheLine {
    /// Prints through `printer` while `live` says that a line is edited.
    pub fn new(printer: impl rustyline::ExternalPrinter + Send + 'static, live: Live) -> Self {
        Self { printer: Box::new(printer), live }
    }
}

impl Sink for AboveTheLine {
    fn put(&mut self, lines: &str) {
        // Between two lines the editor would let a later text overtake an earlier one.
        if !self.live.wait() || self.printer.print(out::styled(lines)).is_err() {
            Plain.put(lines);
        }
    }
    fn columns(&self) -> Option<usize> {
        terminal::size().map(|size| size.columns.saturating_sub(1).max(10))
    }
    fn settle(&mut self) {
        // The editor takes one text at a time: it has shown the first before it takes the next but one.
        for _ in 0..2 {
            if !self.live.wait() || self.printer.print(NOTHING.to_owned()).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(pieces: &[&str], columns: Option<usize>) -> String {
        let mut stream = Stream::default();
        let mut out = String::new();
        pieces.iter().for_each(|piece| stream.take(piece, columns, &mut out));
        out.push_str("[end]");
        stream.end(&mut out);
        out
    }

    #[test]
    fn text_is_shown_as_soon_as_a_row_is_full() {
        assert_eq!(stream(&["one two th", "ree four"], Some(10)), "one two\n[end]three four\n");
        assert_eq!(stream(&["a\n", "\n  b", "c\nd"], Some(10)), "a\n\n  bc\n[end]d\n");
        assert_eq!(stream(&["漢字漢字漢字"], Some(4)), "漢字\n漢字\n[end]漢字\n");
        assert_eq!(stream(&["one two three four"], None), "[end]one two three four\n");
        assert_eq!(stream(&["12345 ", "7890"], Some(5)), "12345\n[end]7890\n");
    }

    #[test]
    fn what_the_model_writes_cannot_move_the_cursor() {
        assert_eq!(stream(&["a\u{1b}[Ab\n"], Some(20)), "a\\u{1b}[Ab\n[end]");
    }
}
