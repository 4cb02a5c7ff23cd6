//! Searching one file: lines and their context, bounded, and given up when the call is cancelled.

use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use std::fs::File;
use std::io::{self, Read};
use tokio_util::sync::CancellationToken;

/// Characters of a line that are shown.
const LINE_CHARS: usize = 500;
/// Characters of one file's lines after which its search stops.
const MAX_CHARS: usize = 2_000_000;
/// Memory for one file where a match may span lines, and for one line else.
const HEAP: usize = 256 * 1024 * 1024;

/// What one file holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Matching lines, or matches where they may span lines.
    pub matches: u64,
    /// The lines to show, `path:number:text`, context `path-number-text`, gaps `--`.
    pub lines: Vec<String>,
}

/// A search that can be made in many files.
pub(super) struct Search {
    matcher: RegexMatcher,
    searcher: Searcher,
    /// Whether lines begin with their number.
    pub numbers: bool,
    /// Whether it is enough to know that there is a match.
    pub first_only: bool,
}

impl Search {
    /// `before` and `after`: lines of context.
    pub(super) fn new(matcher: RegexMatcher, multiline: bool, before: usize, after: usize) -> Self {
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .multi_line(multiline)
            .before_context(before)
            .after_context(after)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(HEAP))
            .build();
        Self { matcher, searcher, numbers: true, first_only: false }
    }

    /// Searches an open file; `shown` is its name in the lines.
    ///
    /// # Errors
    /// When it cannot be read, a line is too long for memory, or the call is cancelled.
    pub(super) fn file(&mut self, file: File, shown: &str, cancel: &CancellationToken) -> io::Result<Found> {
        let mut lines = Lines {
            shown,
            numbers: self.numbers,
            first_only: self.first_only,
            found: Found::default(),
            chars: 0,
            binary: false,
        };
        self.searcher.search_reader(&self.matcher, Cancellable { file, cancel }, &mut lines)?;
        // What looks like text at its beginning may still be none.
        Ok(if lines.binary { Found::default() } else { lines.found })
    }
}

struct Cancellable<'a> {
    file: File,
    cancel: &'a CancellationToken,
}

impl Read for Cancellable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        self.file.read(buffer)
    }
}

struct Lines<'a> {
    shown: &'a str,
    numbers: bool,
    first_only: bool,
    found: Found,
    chars: usize,
    binary: bool,
}

impl Lines<'_> {
    fn add(&mut self, number: Option<u64>, mark: char, line: &[u8]) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
        let mut text = self.shown.to_owned();
        text.push(mark);
        if let Some(number) = number.filter(|_| self.numbers) {
            text.push_str(&number.to_string());
            text.push(mark);
        }
        match line.char_indices().nth(LINE_CHARS) {
            None => text.push_str(&line),
            Some((end, _)) => {
                text.push_str(&line[..end]);
                text.push_str(&format!(" [… {} bytes more]", line.len() - end));
            }
        }
        self.chars += text.len();
        self.found.lines.push(text);
    }
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.found.matches += 1;
        if self.first_only {
            return Ok(false);
        }
        let mut number = found.line_number();
        for line in found.lines() {
            self.add(number, ':', line);
            number = number.map(|number| number + 1);
        }
        Ok(self.chars < MAX_CHARS)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.add(context.line_number(), '-', context.bytes());
        Ok(self.chars < MAX_CHARS)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.found.lines.push("--".to_owned());
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.binary = true;
        Ok(false)
    }
}
