//! A page of a text file: numbered lines, cut and bounded, made while the file streams by.

use super::file_cache::FileState;
use super::tool::ToolOutput;
use crate::wire::limits::TOOL_RESULT_CHARS;
use sha2::{Digest, Sha256};
use std::path::Path;
use std::time::SystemTime;

/// Characters of a line that are shown.
pub(super) const LINE_CHARS: usize = 2_000;
/// Characters of lines that are shown; the rest of a result is for notes.
const PAGE_CHARS: usize = TOOL_RESULT_CHARS - 1_000;

/// The lines that are shown, and what is learned of the rest on the way.
pub(super) struct Page {
    first: usize,
    limit: usize,
    hashed: bool,
    hash: Sha256,
    bytes: u64,
    text: String,
    chars: usize,
    /// The line that is being read, its beginning.
    line: Vec<u8>,
    /// Bytes of the line that are not in `line`.
    dropped: usize,
    started: bool,
    /// Lines that are over.
    lines: usize,
    shown: usize,
    full: bool,
    invalid: bool,
    ended: bool,
}

impl Page {
    /// A page of `limit` lines from line `first` (from 1); `hashed`: the whole file is to be hashed.
    pub(super) fn new(first: usize, limit: usize, hashed: bool) -> Self {
        Self {
            first,
            limit,
            hashed,
            hash: Sha256::new(),
            bytes: 0,
            text: String::new(),
            chars: 0,
            line: Vec::new(),
            dropped: 0,
            started: false,
            lines: 0,
            shown: 0,
            full: false,
            invalid: false,
            ended: false,
        }
    }

    /// The next bytes of the file.
    pub(super) fn take(&mut self, data: &[u8]) {
        if self.hashed {
            self.hash.update(data);
        }
        let data = match (self.bytes, data) {
            // A byte order mark is not part of the text.
            (0, [0xef, 0xbb, 0xbf, rest @ ..]) => {
                self.bytes = 3;
                rest
            }
            _ => data,
        };
        self.bytes += data.len() as u64;
        let mut rest = data;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.part(&rest[..end]);
            self.line_ends();
            rest = &rest[end + 1..];
        }
        self.part(rest);
    }

    /// Whether all lines that are to be shown are there.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// The state of the whole file, once its end was reached, if it was to be hashed.
    pub(super) fn state(&self, modified: Option<SystemTime>) -> Option<FileState> {
        let hash = self.hash.clone().finalize().into();
        (self.hashed && self.ended).then_some(FileState { modified, size: self.bytes, hash })
    }

    fn part(&mut self, part: &[u8]) {
        self.started |= !part.is_empty();
        if self.full || self.lines + 1 < self.first {
            return;
        }
        // Four bytes are the longest character; one more for a carriage return.
        let room = (4 * LINE_CHARS + 1).saturating_sub(self.line.len());
        let taken = part.len().min(room);
        self.line.extend_from_slice(&part[..taken]);
        self.dropped += part.len() - taken;
    }

    fn line_ends(&mut self) {
        self.lines += 1;
        self.started = false;
        if !self.full && self.lines >= self.first {
            self.show();
        }
        self.line.clear();
        self.dropped = 0;
    }

    fn show(&mut self) {
        if self.shown == self.limit {
            self.full = true;
            return;
        }
        let bytes = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let whole = String::from_utf8_lossy(bytes);
        // The cut may have gone through a character.
        self.invalid |= self.dropped == 0 && matches!(whole, std::borrow::Cow::Owned(_));
        let mut line: String = whole.chars().take(LINE_CHARS).collect();
        if line.len() < whole.len() || self.dropped > 0 {
            let hidden = bytes.len() + self.dropped - line.len().min(bytes.len());
            line.push_str(&format!(" [… {hidden} bytes of this line are left out]"));
        }
        let line = format!("{:>6}\t{line}\n", self.lines);
        let chars = line.chars().count();
        if self.chars + chars > PAGE_CHARS && self.shown > 0 {
            self.full = true;
            return;
        }
        self.text.push_str(&line);
        self.chars += chars;
        self.shown += 1;
    }

    /// The file's end was reached.
    pub(super) fn end(&mut self) {
        if self.started {
            self.line_ends();
        }
        self.ended = true;
    }

    /// The lines with notes on what is not shown, or why there are none.
    pub(super) fn told(mut self, path: &Path) -> Result<ToolOutput, ToolOutput> {
        if self.shown == 0 && self.ended {
            if self.lines == 0 {
                return Ok(ToolOutput::ok(format!("[{} is empty]", path.display())));
            }
            return Err(ToolOutput::error(format!(
                "{} has only {} lines, so there is no line {}.",
                path.display(),
                self.lines,
                self.first
            )));
        }
        self.text.pop();
        let last = self.first + self.shown - 1;
        if self.full {
            let of = if self.ended { format!(" of {}", self.lines) } else { String::new() };
            self.text.push_str(&format!(
                "\n\n[lines {}–{last}{of}; go on with offset {}]",
                self.first,
                last + 1
            ));
        }
        if self.invalid {
            self.text.push_str("\n\n[the file is not valid UTF-8; what is not is shown as \u{fffd}]");
        }
        if !self.hashed {
            self.text.push_str("\n\n[the file is too large for Edit and Write; change it with Bash]");
        }
        Ok(ToolOutput::ok(self.text))
    }
}
