//! The way to the screen: whole lines, in order, from whoever has something to say.
//!
//! One thread prints. Text that streams in is broken into rows of the terminal's width and shown row
//! by row, since a row that is not complete would have to share its line with the prompt; other lines
//! wait for the end of the line that streams in, and go between its rows only when that takes long
//! ([`HELD`]). Lines of our own are broken by words. Nobody who prints ever waits.

use crate::cli::out;
use crate::cli::text::{clean, end_of_words, width};
use crate::cli::view::LineSink;
use crate::cli::wrap;
use crate::os::terminal;
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long a line waits for the end of one that streams in: longer than a model takes for a paragraph,
/// and not as long as a provider that has stalled.
const HELD: Duration = Duration::from_secs(3);
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
    let mut page = Page::default();
    while let Some(first) = page.next(waiting) {
        let columns = sink.columns();
        let mut out = String::new();
        let mut done = Vec::new();
        let mut next = Some(first);
        while let Some(job) = next {
            page.take(job, columns, &mut out, &mut done);
            next = waiting.try_recv().ok().map(Next::Job);
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

/// What the printing thread does next.
enum Next {
    Job(Job),
    /// Lines have waited long enough for the end of a streamed line.
    Overdue,
}

/// The stream, and the lines that wait until it is at the end of one of its own.
#[derive(Default)]
struct Page {
    stream: Stream,
    held: Vec<String>,
    /// When the first of them came.
    since: Option<Instant>,
}

impl Page {
    /// Waits for something to do; `None` when nobody prints any more.
    fn next(&self, waiting: &mpsc::Receiver<Job>) -> Option<Next> {
        let Some(since) = self.since else { return waiting.recv().ok().map(Next::Job) };
        match waiting.recv_timeout(HELD.saturating_sub(since.elapsed())) {
            Ok(job) => Some(Next::Job(job)),
            Err(mpsc::RecvTimeoutError::Timeout | mpsc::RecvTimeoutError::Disconnected) => {
                Some(Next::Overdue)
            }
        }
    }

    fn take(
        &mut self,
        next: Next,
        columns: Option<usize>,
        out: &mut String,
        done: &mut Vec<oneshot::Sender<()>>,
    ) {
        match next {
            Next::Job(Job::Line(text)) if self.stream.is_within_line() => {
                self.since.get_or_insert_with(Instant::now);
                self.held.push(text);
            }
            Next::Job(Job::Line(text)) => put(&text, columns, out),
            // One line of the stream after the other: what waits goes between them.
            Next::Job(Job::Piece(text)) => {
                for piece in text.split_inclusive('\n') {
                    self.stream.take(piece, columns, out);
                    if !self.stream.is_within_line() {
                        self.release(columns, out);
                    }
                }
            }
            Next::Job(Job::EndOfText) => {
                self.stream.end(out);
                self.release(columns, out);
            }
            Next::Job(Job::Flush(answer)) => {
                self.release(columns, out);
                done.push(answer);
            }
            Next::Overdue => self.release(columns, out),
        }
    }

    fn release(&mut self, columns: Option<usize>, out: &mut String) {
        self.since = None;
        self.held.drain(..).for_each(|text| put(&text, columns, out));
    }
}

/// A line, or several, broken by words to the width.
fn put(text: &str, columns: Option<usize>, out: &mut String) {
    match columns {
        Some(columns) => out.push_str(&wrap::all(text, columns)),
        None => out.push_str(text),
    }
    out.push('\n');
}

/// Streamed text on its way to rows.
#[derive(Default)]
struct Stream {
    /// What is not a complete row yet.
    open: String,
    /// Whether a part of the line that is coming in has been shown.
    begun: bool,
}

impl Stream {
    /// Whether a line of it has begun and not ended.
    fn is_within_line(&self) -> bool {
        self.begun || !self.open.is_empty()
    }

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
            self.begun = true;
        }
    }

    fn end(&mut self, out: &mut String) {
        self.begun = false;
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
    fn other_lines_wait_for_the_end_of_a_streamed_line() {
        let mut page = Page::default();
        let mut shown = |job| {
            let mut out = String::new();
            page.take(job, Some(10), &mut out, &mut Vec::new());
            out
        };
        let piece = |text: &str| Next::Job(Job::Piece(text.to_owned()));
        let line = |text: &str| Next::Job(Job::Line(text.to_owned()));
        assert_eq!(shown(line("before")), "before\n");
        assert_eq!(shown(piece("one two three f")), "one two\n");
        assert_eq!(shown(line("news of the day")), "");
        assert_eq!(shown(piece("our\nnext")), "three four\nnews of\nthe day\n");
        assert_eq!(shown(line("more")), "");
        assert_eq!(shown(Next::Job(Job::EndOfText)), "next\nmore\n");
        // A stream that stalls keeps nothing back.
        assert_eq!(shown(piece("begun")), "");
        assert_eq!(shown(line("late")), "");
        assert_eq!(shown(Next::Overdue), "late\n");
        assert_eq!(shown(piece(" and ended\n")), "begun and\nended\n");
    }

    #[test]
    fn what_the_model_writes_cannot_move_the_cursor() {
        assert_eq!(stream(&["a\u{1b}[Ab\n"], Some(20)), "a\\u{1b}[Ab\n[end]");
    }
}
