//! What the last writer of ours knew about the inbox file, kept in its lock file.
//!
//! Owns the one line in `<agent>.lock`. As long as the inbox file is the one the stamp describes,
//! a sender need not parse what waits: position, counts and validity are known. Any other writer,
//! and a death between the rename and the stamp, makes the stamp not match, and the file is read
//! in full. Never needed for correctness: a missing or torn stamp only costs time.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};

/// First word of the line, with the version of its form.
const WORD: &str = "festoon-inbox-1";
/// The line is filled up to this length, so that a shorter one covers a longer one.
const LENGTH: usize = 256;

/// Tells one content of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Print {
    inode: u64,
    size: u64,
    modified: i128,
}

impl From<&Metadata> for Print {
    fn from(found: &Metadata) -> Self {
        let modified = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
        Self { inode: found.ino(), size: found.size(), modified }
    }
}

/// The counts of an inbox file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    /// Entries of any kind.
    pub entries: u64,
    /// Unread messages.
    pub waiting: u64,
    /// Those of them that start a turn.
    pub turn: u64,
    /// Bytes of the lines that are not read, separators included.
    pub unread_bytes: u64,
    /// Entries that a claim has to put in order first.
    pub odd: u64,
}

/// The line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The inbox file.
    pub print: Print,
    /// The largest position ever given.
    pub seq: u64,
    /// What is in it.
    pub tally: Tally,
    /// How long the archive was.
    pub archived: u64,
}

impl Stamp {
    /// Reads the stamp; `None` when there is none.
    pub(super) fn read(lock: &File) -> Option<Self> {
        let mut bytes = [0; LENGTH];
        lock.read_exact_at(&mut bytes, 0).ok()?;
        Self::parse(std::str::from_utf8(&bytes).ok()?)
    }

    /// Writes the stamp. Failing is harmless, since an old stamp does not match.
    pub(super) fn write(&self, lock: &File) {
        let mut line = self.text();
        line.push_str(&" ".repeat(LENGTH.saturating_sub(line.len() + 1)));
        line.push('\n');
        drop(lock.write_all_at(line.as_bytes(), 0));
    }

    fn text(&self) -> String {
        let Self { print, seq, tally, archived } = self;
        format!(
            "{WORD} {} {} {} {seq} {} {} {} {} {} {archived} .",
            print.inode,
            print.size,
            print.modified,
            tally.entries,
            tally.waiting,
            tally.turn,
            tally.unread_bytes,
            tally.odd,
        )
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        if words.next() != Some(WORD) {
            return None;
        }
        let inode = words.next()?.parse().ok()?;
        let size = words.next()?.parse().ok()?;
        let modified = words.next()?.parse().ok()?;
        let mut number = || words.next()?.parse::<u64>().ok();
        let stamp = Self {
            print: Print { inode, size, modified },
            seq: number()?,
            tally: Tally {
                entries: number()?,
                waiting: number()?,
                turn: number()?,
                unread_bytes: number()?,
                odd: number()?,
            },
            archived: number()?,
        };
        (words.next() == Some(".")).then_some(stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_comes_back_and_a_torn_one_does_not() {
        let file = tempfile::tempfile().expect("temp file");
        assert_eq!(Stamp::read(&file), None);
        let found = file.metadata().expect("stat");
        let tally = Tally { entries: 5, waiting: 4, turn: 3, unread_bytes: 2, odd: 1 };
        let stamp = Stamp { print: Print::from(&found), seq: u64::MAX, tally, archived: 9 };
        stamp.write(&file);
        assert_eq!(Stamp::read(&file), Some(stamp));
        assert_eq!(file.metadata().expect("stat").len(), LENGTH as u64);
        let text = stamp.text();
        for cut in 0..text.len() {
            assert_eq!(Stamp::parse(&text[..cut]), None, "{cut}");
        }
    }
}
