//! Files of lines that are only ever appended to.
//!
//! Owns appending and reading JSON lines. Promises that lines given together are written by one
//! call, after a missing final newline was put in place (a killed writer leaves a torn line), and
//! that a line which could not be written whole is taken back. Readers stream, and are given a torn
//! tail as what it is. Never replaces or shortens a file whose append succeeded.

use super::error::StoreError;
use super::own::{self, Open};
use crate::wire::settings::Durability;
use serde::Serialize;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Tails are read in steps of this size at first.
const TAIL_STEP: u64 = 64 * 1024;
/// No tail is read beyond this: twice what an inbox can hold.
const TAIL_MOST: u64 = 8 * 1024 * 1024;

/// Appends one line (without its newline) to a file that is made when missing.
pub fn append_line(path: &Path, line: &[u8]) -> Result<(), StoreError> {
    let mut file = own::open_or_make(path, Open::Append)?;
    append_to(&mut file, path, &[line], Durability::Process)
}

/// Appends lines to an open file with one write.
pub(super) fn append_to(
    file: &mut File,
    path: &Path,
    lines: &[&[u8]],
    durability: Durability,
) -> Result<(), StoreError> {
    if lines.is_empty() {
        return Ok(());
    }
    let before = file.metadata().map_err(|e| StoreError::io("inspect", path, e))?.len();
    let mut bytes = Vec::with_capacity(1 + lines.iter().map(|l| l.len() + 1).sum::<usize>());
    if before > 0 {
        let mut last = [0];
        file.read_exact_at(&mut last, before - 1).map_err(|e| StoreError::io("read", path, e))?;
        if last != *b"\n" {
            bytes.push(b'\n');
        }
    }
    for line in lines {
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
    }
    if let Err(e) = file.write_all(&bytes) {
        drop(file.set_len(before)); // a full disk must not leave half of it; the reader copes if this fails too
        return Err(StoreError::io("append to", path, e));
    }
    if durability == Durability::Disk {
        file.sync_data().map_err(|e| StoreError::io("sync", path, e))?;
    }
    Ok(())
}

/// A value as one line. Raw parts of it may have been written over several lines; outside strings
/// a line break is only a space, and inside JSON has none.
pub(super) fn encode<T: Serialize>(path: &Path, value: &T) -> Result<Vec<u8>, StoreError> {
    let line = serde_json::to_vec(value).map_err(|e| StoreError::invalid(path, e))?;
    Ok(one_line(line))
}

/// The same JSON text without line breaks.
pub(super) fn one_line(mut json: Vec<u8>) -> Vec<u8> {
    json.retain(|b| !matches!(b, b'\n' | b'\r'));
    json
}

/// Reads the lines of a file one by one, blank ones left out. A last line without a newline comes
/// like the others and says so.
pub struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    number: usize,
}

/// One line of a file.
pub struct RawLine {
    /// Its number, from 1.
    pub number: usize,
    /// Its bytes, without the newline.
    pub bytes: Vec<u8>,
    /// Whether it had a newline; without one its writer may have died in it.
    pub complete: bool,
}

impl Lines {
    /// Opens; `None` when the file is not there.
    pub fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        let file = own::open(path, Open::Read)?;
        Ok(file.map(|file| Self {
            path: path.to_owned(),
            reader: BufReader::with_capacity(TAIL_STEP as usize, file),
            number: 0,
        }))
    }
}

impl Iterator for Lines {
    type Item = Result<RawLine, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let mut bytes = Vec::new();
            match self.reader.read_until(b'\n', &mut bytes) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(e) => return Some(Err(StoreError::io("read", &self.path, e))),
            }
            self.number += 1;
            let complete = bytes.last() == Some(&b'\n');
            if complete {
                bytes.pop();
            }
            if bytes.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            return Some(Ok(RawLine { number: self.number, bytes, complete }));
        }
    }
}

/// The last lines of a file, as far as they fit in some 64 KiB, at least one if there is a whole
/// one within 8 MiB. Reads nothing before them. Empty when the file is not there.
pub(super) fn tail(path: &Path) -> Result<Vec<Vec<u8>>, StoreError> {
    let Some(file) = own::open(path, Open::Read)? else { return Ok(Vec::new()) };
    let len = file.metadata().map_err(|e| StoreError::io("inspect", path, e))?.len();
    let mut step = TAIL_STEP;
    loop {
        let from = len.saturating_sub(step);
        let bytes = read_range(&file, path, from, len)?;
        let mut lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
        if from > 0 {
            lines.remove(0); // most likely cut
        }
        lines.retain(|line| !line.is_empty());
        if !lines.is_empty() || from == 0 || step >= TAIL_MOST {
            return Ok(lines.into_iter().map(<[u8]>::to_vec).collect());
        }
        step *= 4;
    }
}

/// The bytes from `from` to `to`.
pub(super) fn read_range(file: &File, path: &Path, from: u64, to: u64) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![0; usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut bytes, from).map_err(|e| StoreError::io("read", path, e))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(path: &Path) -> Vec<(usize, String, bool)> {
        let lines = Lines::open(path).expect("opens").expect("is there");
        lines
            .map(|line| line.expect("reads"))
            .map(|line| (line.number, String::from_utf8(line.bytes).expect("text"), line.complete))
            .collect()
    }

    #[test]
    fn a_torn_tail_gets_its_newline_before_the_next_line() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("a.jsonl");
        append_line(&path, b"1").expect("appends");
        std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut f| f.write_all(b"\n{\"to"))
            .expect("tears");
        assert_eq!(all(&path), [(1, "1".to_owned(), true), (3, "{\"to".to_owned(), false)]);
        append_line(&path, b"2").expect("appends");
        assert_eq!(std::fs::read(&path).expect("reads"), b"1\n\n{\"to\n2\n");
        assert!(Lines::open(&dir.path().join("none")).expect("looks").is_none());
    }

    #[test]
    fn the_tail_is_found_without_reading_the_rest() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("a.jsonl");
        assert_eq!(tail(&path).expect("absent"), Vec::<Vec<u8>>::new());
        append_line(&path, b"first").expect("appends");
        assert_eq!(tail(&path).expect("reads"), [b"first".to_vec()]);
        let long = vec![b'x'; 300_000];
        for _ in 0..6 {
            append_line(&path, &long).expect("appends");
        }
        let lengths: Vec<usize> = tail(&path).expect("reads").iter().map(Vec::len).collect();
        assert_eq!(lengths, [300_000; 3], "some of it, whole lines only");
        append_line(&path, b"last").expect("appends");
        assert_eq!(tail(&path).expect("reads"), [b"last".to_vec()]);
    }

    #[test]
    fn raw_parts_with_line_breaks_fit_on_a_line() {
        let raw =
            serde_json::value::RawValue::from_string("{\r\n \"a\" :\n\"x\\ny\"}".to_owned()).expect("raw");
        let line = encode(Path::new("x"), &raw).expect("encodes");
        assert_eq!(line, b"{ \"a\" :\"x\\ny\"}");
    }
}
