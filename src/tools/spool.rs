//! The output of a running command: bounded in memory, the whole in a file once it is long.
//!
//! Promises that memory stays below a few hundred kilobytes and the file below [`MAX_FILE`], however
//! much a command writes, and that its last bytes are always there.

use super::cap;
use crate::wire::limits::TOOL_RESULT_CHARS;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

/// Bytes that are held in memory before a file is begun.
const IN_MEMORY: usize = 256 * 1024;
/// Bytes of the end that are held in memory beside the file.
const TAIL: usize = 64 * 1024;
/// Bytes that are kept in the file.
pub(super) const MAX_FILE: u64 = 100 * 1024 * 1024;
/// Characters of a last line that are shown as progress.
const PROGRESS_CHARS: usize = 200;

/// Collects output.
pub(super) struct Spool {
    dir: PathBuf,
    id: String,
    /// All of the output, or its first [`IN_MEMORY`] bytes.
    head: Vec<u8>,
    /// The last bytes, once there is a file.
    tail: Vec<u8>,
    file: Option<Result<(File, PathBuf), String>>,
    total: u64,
}

impl Spool {
    /// Empty. The file would be `<dir>/<id>.txt`.
    pub(super) fn new(dir: PathBuf, id: String) -> Self {
        Self { dir, id, head: Vec::new(), tail: Vec::new(), file: None, total: 0 }
    }

    /// Adds output. Writes to the file as it comes: pieces of 64 KiB into the page cache.
    pub(super) fn push(&mut self, data: &[u8]) {
        if self.file.is_none() && self.head.len() + data.len() <= IN_MEMORY {
            self.head.extend_from_slice(data);
            self.total += data.len() as u64;
            return;
        }
        if self.file.is_none() {
            let mut file = cap::create(&self.dir, &self.id).map_err(|error| error.to_string());
            write(&mut file, &self.head);
            self.file = Some(file);
        }
        if let Some(file) = self.file.as_mut().filter(|_| self.total < MAX_FILE) {
            write(file, data);
        }
        self.total += data.len() as u64;
        self.tail.extend_from_slice(data);
        // Cut only now and then, so that each byte is moved at most once.
        if self.tail.len() > 2 * TAIL {
            self.tail.drain(..self.tail.len() - TAIL);
        }
    }

    /// The last line that is not blank, shortened.
    pub(super) fn last_line(&self) -> String {
        let end = if self.file.is_some() { &self.tail } else { &self.head };
        // Enough for the line and for a character that is cut in two.
        let end = &end[end.len().saturating_sub(4 * PROGRESS_CHARS)..];
        let text = String::from_utf8_lossy(end);
        let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        line.trim().chars().take(PROGRESS_CHARS).collect()
    }

    /// All of the output as text, or its two ends and where the whole is.
    pub(super) fn finish(self) -> String {
        let Some(file) = self.file else { return text(self.head) };
        let kept = file.map(|(_, path)| path);
        let (head, tail) = (text(self.head), text(self.tail));
        let half = cap::half(TOOL_RESULT_CHARS - 1_000);
        let (head, tail) = (cap::head(&head, half), cap::tail(&tail, half));
        let shown = (head.len() + tail.len()) as u64;
        let mut missing = format!("about {} of {} bytes", self.total.saturating_sub(shown), self.total);
        if self.total > MAX_FILE {
            missing = format!("{missing} (the file holds the first {MAX_FILE})");
        }
        cap::joined(head, tail, &missing, &kept)
    }
}

fn write(file: &mut Result<(File, PathBuf), String>, data: &[u8]) {
    let Ok((open, path)) = file else { return };
    if let Err(error) = open.write_all(data) {
        *file = Err(format!("{error}; {} holds its beginning", path.display()));
    }
}

/// Output as text; what is no UTF-8 is replaced and said.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| {
        let text = String::from_utf8_lossy(error.as_bytes());
        format!("{text}\n[bytes that are not UTF-8 are shown as \u{fffd}]")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool(dir: &std::path::Path) -> Spool {
        Spool::new(dir.to_owned(), "t".to_owned())
    }

    #[test]
    fn short_output_needs_no_file() {
        let temp = tempfile::tempdir().expect("temp");
        let mut spool = spool(temp.path());
        spool.push(b"one\n");
        spool.push(b"two \xff\n\n");
        assert_eq!(spool.last_line(), "two \u{fffd}");
        assert_eq!(spool.finish(), "one\ntwo \u{fffd}\n\n\n[bytes that are not UTF-8 are shown as \u{fffd}]");
        assert_eq!(std::fs::read_dir(temp.path()).expect("list").count(), 0);
    }

    #[test]
    fn long_output_is_whole_in_the_file_and_small_in_memory() {
        let temp = tempfile::tempdir().expect("temp");
        let mut spool = spool(temp.path());
        let mut whole = Vec::new();
        for line in 0..100_000 {
            let line = format!("line {line}\n");
            spool.push(line.as_bytes());
            whole.extend(line.into_bytes());
        }
        assert!(spool.head.capacity() + spool.tail.capacity() < 1024 * 1024);
        assert_eq!(spool.last_line(), "line 99999");
        let text = spool.finish();
        let path = temp.path().join("t.txt");
        assert!(text.starts_with("line 0\nline 1\n") && text.ends_with("\nline 99999\n"));
        assert!(text.contains(&format!("the whole is in {}", path.display())));
        assert!(text.chars().count() < TOOL_RESULT_CHARS);
        assert_eq!(std::fs::read(path).expect("kept"), whole);
    }

    #[test]
    fn endless_output_fills_neither_memory_nor_disk() {
        let temp = tempfile::tempdir().expect("temp");
        let mut spool = spool(temp.path());
        let piece = vec![b'x'; 1024 * 1024];
        for _ in 0..103 {
            spool.push(&piece);
        }
        spool.push(b"\nthe end");
        let text = spool.finish();
        assert!(text.ends_with("the end"));
        assert!(text.contains("the file holds the first 104857600"));
        let size = std::fs::metadata(temp.path().join("t.txt")).expect("kept").len();
        assert!(size <= MAX_FILE + 1024 * 1024, "{size}");
    }
}
