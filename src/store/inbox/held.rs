//! An inbox while its lock is held: read, changed, replaced.
//!
//! Owns every write to the inbox file, the archive and the stamp. Promises that the archive has a
//! line before the inbox loses it, that a file which is no JSON array is kept aside and what can be
//! read in it is kept in place, and that a position is never given twice. Lives only inside the
//! closure that holds the lock.

use super::super::error::StoreError;
use super::super::own::{self, Open};
use super::super::{atomic, clock, jsonl, run};
use super::entries::{self, Item};
use super::stamp::{Print, Stamp, Tally};
use super::{Inbox, InboxNotice};
use crate::wire::ids::MessageId;
use crate::wire::limits::{INBOX_BYTES, INBOX_KEPT_READ, INBOX_KEPT_READ_BYTES};
use crate::wire::mail::Message;
use serde::Deserialize;
use std::cell::Cell;
use std::collections::HashSet;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;

/// The inbox, locked.
pub(super) struct Held<'a> {
    pub inbox: &'a Inbox,
    lock: &'a File,
    stamp: Option<Stamp>,
    /// Length of the archive that the next stamp tells. What comes after it was appended by
    /// somebody who died before the stamp, and perhaps before the inbox shrank.
    archived: Cell<Option<u64>>,
}

/// The bytes of the file, with the stamp if that describes them.
type Content = (Vec<u8>, Option<Stamp>);

/// The inbox, read.
pub(super) struct Loaded {
    pub items: Vec<Item>,
    /// The largest position ever given.
    pub seq: u64,
    pub notices: Vec<InboxNotice>,
}

impl<'a> Held<'a> {
    pub(super) fn new(inbox: &'a Inbox, lock: &'a File) -> Self {
        let stamp = Stamp::read(lock);
        Self { inbox, lock, stamp, archived: Cell::new(stamp.map(|stamp| stamp.archived)) }
    }

    /// The bytes of the file with the stamp that describes them, if one does. `None` for a file
    /// that is not there: the next write makes it.
    pub(super) fn read(&self) -> Result<Option<Content>, StoreError> {
        let path = &self.inbox.0.file;
        let Some(mut file) = own::open(path, Open::Read)? else { return Ok(None) };
        let found = file.metadata().map_err(|e| StoreError::io("inspect", path, e))?;
        let mut bytes = Vec::with_capacity(usize::try_from(found.len()).unwrap_or(0) + 1);
        file.read_to_end(&mut bytes).map_err(|e| StoreError::io("read", path, e))?;
        let print = Print::from(&found);
        Ok(Some((bytes, self.stamp.filter(|stamp| stamp.print == print))))
    }

    /// All entries. A file that is no JSON array is set aside after a second look, and what can be
    /// read of it put in its place.
    pub(super) fn load(&self) -> Result<Loaded, StoreError> {
        let Some((bytes, stamp)) = self.read()? else {
            let seq = self.largest_seq(&[])?;
            return Ok(Loaded { items: Vec::new(), seq, notices: Vec::new() });
        };
        let parsed = match entries::parse(&bytes) {
            Ok(items) => Ok((items, stamp)),
            // Somebody may be writing without the lock just now.
            Err(_) => match self.read()? {
                None => Ok((Vec::new(), None)),
                Some((bytes, stamp)) => match entries::parse(&bytes) {
                    Ok(items) => Ok((items, stamp)),
                    Err(why) => Err((bytes, why)),
                },
            },
        };
        match parsed {
            Ok((items, Some(stamp))) => Ok(Loaded { items, seq: stamp.seq, notices: Vec::new() }),
            Ok((items, None)) => {
                let seq = self.largest_seq(&items)?;
                Ok(Loaded { items, seq, notices: Vec::new() })
            }
            Err((bytes, why)) => {
                let items = entries::salvage(&bytes);
                let seq = self.largest_seq(&items)?;
                let aside = self.set_file_aside()?;
                self.store(&items, seq)?;
                let notice = InboxNotice::Corrupt { aside, why, kept: items.len() };
                Ok(Loaded { items, seq, notices: vec![notice] })
            }
        }
    }

    /// The largest position in any place that remembers one.
    fn largest_seq(&self, items: &[Item]) -> Result<u64, StoreError> {
        let inbox = &self.inbox.0;
        let mut largest = items.iter().map(Item::seq).max().unwrap_or(0);
        largest = largest.max(self.stamp.map_or(0, |stamp| stamp.seq));
        for line in jsonl::tail(&inbox.archive)? {
            largest = largest.max(serde_json::from_slice::<Place>(&line).map_or(0, |place| place.seq));
        }
        let delivered = match run::load(&inbox.team, &inbox.agent) {
            Ok(record) => record.map_or(0, |record| record.delivered_seq),
            Err(StoreError::Corrupt { .. }) => 0, // the other three know as much
            Err(e) => return Err(e),
        };
        Ok(largest.max(delivered))
    }

    /// Replaces the file with these entries.
    pub(super) fn store(&self, items: &[Item], seq: u64) -> Result<(), StoreError> {
        let bytes = entries::render(items.iter().map(|item| item.line.as_str()));
        self.store_bytes(&bytes, seq, entries::tally(items))
    }

    /// Replaces the file with bytes that hold what `tally` counts.
    pub(super) fn store_bytes(&self, bytes: &[u8], seq: u64, tally: Tally) -> Result<(), StoreError> {
        let inbox = &self.inbox.0;
        own::check_target(&inbox.file)?;
        let found = atomic::replace_locked(&inbox.file, &inbox.temp, bytes, inbox.durability)?;
        let archived = match self.archived.get() {
            Some(archived) => archived,
            None => unstamped(std::fs::metadata(&inbox.archive).map_or(0, |found| found.len())),
        };
        Stamp { print: Print::from(&found), seq, tally, archived }.write(self.lock);
        Ok(())
    }

    /// Appends entries to the archive, except those that a process appended which died before it
    /// could shrink the inbox. `staying` is what the inbox keeps.
    pub(super) fn archive(&self, items: &[Item], staying: &[Item]) -> Result<(), StoreError> {
        if items.is_empty() {
            return Ok(());
        }
        let inbox = &self.inbox.0;
        let path = &inbox.archive;
        let mut file = own::open_or_make(path, Open::Append)?;
        let length =
            |file: &File| file.metadata().map(|m| m.len()).map_err(|e| StoreError::io("inspect", path, e));
        let now = length(&file)?;
        let known = self.archived.get().unwrap_or_else(|| unstamped(now)).min(now);
        let surplus = jsonl::read_range(&file, path, known, now)?;
        let there: HashSet<MessageId> = surplus
            .split(|b| *b == b'\n')
            .filter_map(|line| serde_json::from_slice::<Place>(line).ok()?.id)
            .collect();
        let lines: Vec<&[u8]> = items
            .iter()
            .filter(|item| item.id().is_none_or(|id| !there.contains(id)))
            .map(|item| item.line.as_bytes())
            .collect();
        jsonl::append_to(&mut file, path, &lines, inbox.durability)?;
        let again = staying.iter().any(|item| item.id().is_some_and(|id| there.contains(id)));
        self.archived.set(Some(if again { known } else { length(&file)? }));
        Ok(())
    }

    /// Takes the read entries out that are more than stay: the last few, as far as they are small
    /// and `room` bytes hold them with what waits. Gives what leaves, oldest first.
    pub(super) fn take_old(items: &mut Vec<Item>, room: usize) -> Vec<Item> {
        let waiting: usize = items.iter().filter(|i| !i.is_read()).map(|i| entries::cost(&i.line)).sum();
        let most = INBOX_KEPT_READ_BYTES.min(room.saturating_sub(waiting));
        let (mut count, mut bytes) = (0, 0);
        let mut kept = Vec::with_capacity(items.len());
        let mut old = Vec::new();
        for item in items.drain(..).rev() {
            if item.is_read() {
                count += 1;
                bytes += entries::cost(&item.line);
                if count > INBOX_KEPT_READ || bytes > most {
                    old.push(item);
                    continue;
                }
            }
            kept.push(item);
        }
        kept.reverse();
        old.reverse();
        *items = kept;
        old
    }

    /// Keeps the file under another name too; the caller replaces it.
    fn set_file_aside(&self) -> Result<PathBuf, StoreError> {
        let file = &self.inbox.0.file;
        let aside = self.free_name("corrupt")?;
        match std::fs::hard_link(file, &aside) {
            Ok(()) => Ok(aside),
            // A file system without hard links.
            Err(_) => std::fs::rename(file, &aside)
                .map(|()| aside)
                .map_err(|e| StoreError::io("move aside", file, e)),
        }
    }

    /// Writes an entry that is no message, or comes a second time, to a file of its own.
    pub(super) fn set_entry_aside(&self, item: &Item, why: String) -> Result<InboxNotice, StoreError> {
        let aside = self.free_name("malformed")?;
        let mut bytes = item.line.clone().into_bytes();
        bytes.push(b'\n');
        atomic::replace(&aside, &bytes, self.inbox.0.durability)?;
        Ok(InboxNotice::Malformed { aside, why })
    }

    /// `<agent>.<what>-<time>.json`, with a number if that is taken.
    fn free_name(&self, what: &str) -> Result<PathBuf, StoreError> {
        let inbox = &self.inbox.0;
        let stem = format!("{}.{what}-{}", inbox.agent, clock::for_file_name());
        let mut number = 1;
        loop {
            let name = if number == 1 { format!("{stem}.json") } else { format!("{stem}-{number}.json") };
            let path = inbox.file.with_file_name(name);
            match std::fs::symlink_metadata(&path) {
                Err(e) if e.kind() == ErrorKind::NotFound => return Ok(path),
                Err(e) => return Err(StoreError::io("inspect", &path, e)),
                Ok(_) => number += 1,
            }
        }
    }
}

/// How much of an archive is surely older than any write that was cut off, when no stamp says so:
/// one write appends what an inbox holds, at most.
fn unstamped(length: u64) -> u64 {
    length.saturating_sub(INBOX_BYTES as u64)
}

/// Where an archived entry stood.
#[derive(Deserialize)]
struct Place {
    id: Option<MessageId>,
    #[serde(default)]
    seq: u64,
}

/// Whether a message is for `incarnation` or for whoever reads.
pub(super) fn is_for(message: &Message, incarnation: u32) -> bool {
    message.incarnation.is_none_or(|meant| meant == incarnation)
}
