//! One agent's mail: a JSON array in a file, its lock, its archive (contract §7).
//!
//! Owns `<agent>.json`, `<agent>.lock`, `<agent>.archive.jsonl` and what is set aside beside them.
//! Promises: a stored message survives the death of every process, a reader without a lock sees
//! valid JSON every time, a message comes until it is acknowledged, a position is never used twice,
//! and the cost of a send depends on what waits alone. Never parses text as a frame, and never
//! takes a failed read for an empty inbox.

mod claim;
mod entries;
mod held;
mod send;
mod stamp;
#[cfg(test)]
mod tests;
mod verify;

use super::error::StoreError;
use super::events;
use super::jsonl::Lines;
use super::lock::{self, Missing, Patience};
use super::own::{self, Open};
use super::paths::TeamPaths;
use super::run::agents_in;
use super::sign::Keys;
use super::{atomic, clock};
use crate::wire::event::{Event, EventKind};
use crate::wire::ids::{AgentName, MessageId};
use crate::wire::limits::LOCK_DEADLINE;
use crate::wire::mail::{Claimed, Entry, Message, Receipt};
use crate::wire::settings::Durability;
use entries::Item;
use held::{Held, is_for};
use serde_json::Value;
use stamp::{Print, Stamp};
use std::path::PathBuf;
use std::sync::Arc;

/// An agent's inbox. Cloning copies a pointer.
#[derive(Debug, Clone)]
pub struct Inbox(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    team: TeamPaths,
    agent: AgentName,
    keys: Keys,
    durability: Durability,
    dir: PathBuf,
    file: PathBuf,
    temp: PathBuf,
    lock: PathBuf,
    archive: PathBuf,
}

/// Mail to be read, and what was found on the way.
#[derive(Debug, Clone, Default)]
pub struct Claim {
    /// Unread mail, in the order of delivery.
    pub messages: Vec<Claimed>,
    /// To be told to a person, or to a sender.
    pub notices: Vec<InboxNotice>,
}

/// Something in an inbox that was not as it should be.
#[derive(Debug, Clone)]
pub enum InboxNotice {
    /// The file was no JSON array. It is kept aside; what could be read of it is back in place.
    Corrupt {
        /// Where it is.
        aside: PathBuf,
        /// What was wrong.
        why: String,
        /// Entries that are back in place.
        kept: usize,
    },
    /// An entry was no message, or came a second time. It is kept aside.
    Malformed {
        /// Where it is.
        aside: PathBuf,
        /// What was wrong.
        why: String,
    },
    /// A message was for an incarnation that has ended. It is in the archive; its sender should know.
    Undeliverable {
        /// The message.
        message: Box<Message>,
    },
}

/// How much mail there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InboxCounts {
    /// Unread messages.
    pub waiting: usize,
    /// Those of them that start a turn.
    pub waiting_turn: usize,
    /// The largest position known without reading the archive.
    pub last_seq: u64,
}

/// Whose inboxes a team has, sorted. Reads names alone.
pub fn owners(team: &TeamPaths) -> Result<Vec<AgentName>, StoreError> {
    let dir = team.inboxes();
    team.check(&dir)?;
    agents_in(&dir)
}

impl Inbox {
    /// The inbox of an agent; touches nothing.
    pub fn new(team: &TeamPaths, agent: &AgentName, keys: &Keys, durability: Durability) -> Self {
        let dir = team.inboxes();
        Self(Arc::new(Inner {
            team: team.clone(),
            agent: agent.clone(),
            keys: keys.clone(),
            durability,
            file: team.inbox(agent),
            temp: dir.join(format!(".{agent}.json.tmp")),
            lock: team.inbox_lock(agent),
            archive: team.archive(agent),
            dir,
        }))
    }

    /// Whose it is.
    pub fn agent(&self) -> &AgentName {
        &self.0.agent
    }

    /// The file, for people.
    pub fn path(&self) -> &std::path::Path {
        &self.0.file
    }

    /// Makes the inbox if it is not there. Before this, nobody can send to the agent.
    pub fn create(&self) -> Result<(), StoreError> {
        self.0.team.paths().make_dirs(&self.0.dir)?;
        own::open_or_make(&self.0.lock, Open::Update)?;
        atomic::create_exclusive(&self.0.file, entries::EMPTY, self.0.durability)?;
        own::check_target(&self.0.file)
    }

    /// Stores a message: gives it its position, its id if it has none, and its signature. Sending
    /// one whose id is in the file already changes nothing. Waits up to 10 s for the lock.
    ///
    /// Errors say that nothing was stored: [`StoreError::NoSuchMember`], [`StoreError::Full`],
    /// [`StoreError::TooLarge`], [`StoreError::LockTimeout`], or what the disk said.
    pub fn send(&self, message: Message) -> Result<Receipt, StoreError> {
        self.waited(send::send(self, &message, Patience::For(LOCK_DEADLINE))?)
    }

    /// The same with one try for the lock: `None` when it is held now.
    pub fn try_send(&self, message: &Message) -> Result<Option<Receipt>, StoreError> {
        send::send(self, message, Patience::Once)
    }

    /// Unread mail for this incarnation in the order of delivery, without a lock and without
    /// changing anything. `None` when entries wait that no claim has seen yet: what other programs
    /// wrote has neither id nor place before that.
    pub fn peek(&self, incarnation: u32) -> Result<Option<Vec<Claimed>>, StoreError> {
        let items = self.parsed()?;
        if items.iter().any(|item| item.message.is_err() || item.id().is_none()) {
            return Ok(None);
        }
        let unread = items.iter().filter_map(Item::unread).filter(|m| is_for(m, incarnation));
        Ok(Some(claim::claimed(self, unread)))
    }

    /// Takes up to `max` unread messages for this incarnation to read them; they come again until
    /// [`Inbox::ack`]. Puts in order what others wrote, and archives what an ended incarnation
    /// should have got.
    pub fn claim(&self, incarnation: u32, max: usize) -> Result<Claim, StoreError> {
        self.waited(claim::claim(self, incarnation, max, Patience::For(LOCK_DEADLINE))?)
    }

    /// The same with one try for the lock: `None` when it is held now.
    pub fn try_claim(&self, incarnation: u32, max: usize) -> Result<Option<Claim>, StoreError> {
        claim::claim(self, incarnation, max, Patience::Once)
    }

    /// Marks messages as read. Ids that do not wait here are fine: they were acknowledged before.
    pub fn ack(&self, ids: &[MessageId]) -> Result<(), StoreError> {
        self.waited(claim::ack(self, ids, Patience::For(LOCK_DEADLINE))?)
    }

    /// The same with one try for the lock: `None` when it is held now.
    pub fn try_ack(&self, ids: &[MessageId]) -> Result<Option<()>, StoreError> {
        claim::ack(self, ids, Patience::Once)
    }

    /// Puts the file in order without reading mail, and gives it our layout.
    pub fn repair(&self) -> Result<Vec<InboxNotice>, StoreError> {
        self.waited(claim::repair(self, Patience::For(LOCK_DEADLINE))?)
    }

    /// How much waits, without a lock.
    pub fn counts(&self) -> Result<InboxCounts, StoreError> {
        self.0.team.check(&self.0.dir)?;
        let stamp = own::open(&self.0.lock, Open::Read)?.and_then(|lock| Stamp::read(&lock));
        if let Some(stamp) = stamp
            && std::fs::symlink_metadata(&self.0.file).is_ok_and(|found| Print::from(&found) == stamp.print)
        {
            return Ok(counted(stamp.tally, stamp.seq));
        }
        let items = self.parsed()?;
        let seq = items.iter().map(Item::seq).max().unwrap_or(0);
        Ok(counted(entries::tally(&items), seq.max(stamp.map_or(0, |stamp| stamp.seq))))
    }

    /// All entries of the file that are messages, without a lock.
    pub fn messages(&self) -> Result<Vec<Entry>, StoreError> {
        Ok(self.parsed()?.iter().filter_map(|item| serde_json::from_str(&item.line).ok()).collect())
    }

    /// What was read before, oldest first, and what was undeliverable (it has a member
    /// `undeliverable`); streams. Lines that are no messages are left out.
    pub fn archive(&self) -> Result<impl Iterator<Item = Entry> + use<>, StoreError> {
        self.0.team.check(&self.0.dir)?;
        let lines = Lines::open(&self.0.archive)?;
        Ok(lines
            .into_iter()
            .flatten()
            .map_while(Result::ok)
            .filter_map(|line| serde_json::from_slice(&line.bytes).ok()))
    }

    /// Looks for everything that should not be, without a lock and without changing anything; one
    /// sentence each.
    pub fn verify(&self) -> Result<Vec<String>, StoreError> {
        verify::verify(self)
    }

    /// Reads the file without a lock. What was damaged may have been in the middle of a write by
    /// somebody who does not rename, so there is a second look.
    fn parsed(&self) -> Result<Vec<Item>, StoreError> {
        self.0.team.check(&self.0.dir)?;
        let read = || match atomic::read_optional(&self.0.file)? {
            Some(bytes) => Ok(entries::parse(&bytes)),
            None => Err(self.no_such_member()),
        };
        match read()? {
            Ok(items) => Ok(items),
            Err(_) => read()?.map_err(|why| StoreError::Corrupt { path: self.0.file.clone(), why }),
        }
    }

    fn locked<T>(
        &self,
        patience: Patience,
        f: impl FnOnce(&Held<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        self.0.team.check(&self.0.dir)?;
        // An inbox has a lock file from its beginning; without either nobody is there.
        let there = |path| std::fs::symlink_metadata(path).is_ok();
        let missing = if there(&self.0.lock) {
            Missing::Refuse
        } else if there(&self.0.file) {
            Missing::Make
        } else {
            return Err(self.no_such_member());
        };
        match lock::with_locked_file(&self.0.lock, missing, patience, |lock| f(&Held::new(self, lock))) {
            Err(StoreError::NotFound { path }) if path == self.0.lock => Err(self.no_such_member()),
            done => done,
        }
    }

    fn waited<T>(&self, done: Option<T>) -> Result<T, StoreError> {
        done.ok_or_else(|| StoreError::LockTimeout { path: self.0.lock.clone(), waited: LOCK_DEADLINE })
    }

    fn no_such_member(&self) -> StoreError {
        StoreError::NoSuchMember {
            name: self.0.agent.clone(),
            team: self.0.team.name(),
            known: agents_in(&self.0.dir).unwrap_or_default(),
        }
    }
}

fn counted(tally: stamp::Tally, last_seq: u64) -> InboxCounts {
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    InboxCounts { waiting: number(tally.waiting), waiting_turn: number(tally.turn), last_seq }
}

impl InboxNotice {
    /// A sentence for a person.
    pub fn sentence(&self) -> String {
        match self {
            Self::Corrupt { aside, why, kept } => format!(
                "the inbox file was damaged ({why}); it is kept as {}, and {kept} of its messages are back in place",
                aside.display()
            ),
            Self::Malformed { aside, why } => {
                format!("an entry of the inbox was set aside as {} ({why})", aside.display())
            }
            Self::Undeliverable { message } => {
                format!("a message from {} was for an agent that has ended", message.from)
            }
        }
    }
}

/// Tells the event log what a sender or an acknowledgement came upon: there is no reader to tell.
fn log_notices(inbox: &Inner, notices: &[InboxNotice]) {
    for notice in notices {
        let mut fields = serde_json::Map::new();
        fields.insert("reason".to_owned(), Value::String(notice.sentence()));
        let event = Event {
            ts: clock::now(),
            event: EventKind::Notice,
            team: inbox.team.name(),
            agent: inbox.agent.clone(),
            incarnation: 0,
            fields,
        };
        drop(events::append(&inbox.team, &event)); // the set-aside file itself is the evidence
    }
}
