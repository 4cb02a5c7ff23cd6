//! The inbox file as text: parsed into entries, put together again.
//!
//! Owns the layout (`[`, one entry a line, `]`). Promises that an entry we do not change keeps its
//! bytes, line breaks between its members aside, and that one we do change keeps the members we do
//! not know. Never touches a file.

use super::super::jsonl::one_line;
use super::stamp::Tally;
use crate::wire::ids::MessageId;
use crate::wire::mail::{Message, Wake};
use crate::wire::open::RawMap;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use std::collections::HashSet;

/// An inbox without mail.
pub(super) const EMPTY: &[u8] = b"[\n]\n";
/// What a file begins with.
pub(super) const HEAD: &[u8] = b"[\n";
/// What a file with entries ends with.
pub(super) const FOOT: &[u8] = b"\n]\n";
/// What stands between entries.
pub(super) const BETWEEN: &[u8] = b",\n";
/// Positions from here on are not ours: doubles, which other programs use, count no further.
const SEQ_BOUND: u64 = 1 << 52;

/// One entry.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// Its JSON, without line breaks.
    pub line: String,
    /// The message it is, or why it is none.
    pub message: Result<Message, String>,
}

impl Item {
    /// Takes the JSON of an entry.
    pub(super) fn new(json: &str) -> Self {
        let line = if json.contains(['\n', '\r']) {
            String::from_utf8(one_line(json.as_bytes().to_vec())).unwrap_or_else(|_| json.to_owned())
        } else {
            json.to_owned()
        };
        let message = serde_json::from_str(&line).map_err(|e| e.to_string());
        Self { line, message }
    }

    /// The message, if it waits.
    pub(super) fn unread(&self) -> Option<&Message> {
        self.message.as_ref().ok().filter(|m| !m.read)
    }

    /// Whether its reader has had it.
    pub(super) fn is_read(&self) -> bool {
        self.message.as_ref().is_ok_and(|m| m.read)
    }

    /// Its id, when it has one.
    pub(super) fn id(&self) -> Option<&MessageId> {
        self.message.as_ref().ok()?.id.as_ref()
    }

    /// Its position; 0 when it has none of ours.
    pub(super) fn seq(&self) -> u64 {
        self.message.as_ref().map_or(0, |m| if m.seq < SEQ_BOUND { m.seq } else { 0 })
    }

    /// Gives it an id.
    pub(super) fn set_id(&mut self, id: MessageId) {
        self.set("id", &id);
        if let Ok(message) = &mut self.message {
            message.id = Some(id);
        }
    }

    /// Gives it a position.
    pub(super) fn set_seq(&mut self, seq: u64) {
        self.set("seq", &seq);
        if let Ok(message) = &mut self.message {
            message.seq = seq;
        }
    }

    /// Marks it as read.
    pub(super) fn set_read(&mut self) {
        self.set("read", &true);
        if let Ok(message) = &mut self.message {
            message.read = true;
        }
    }

    /// Sets a member of the object; the others keep their bytes and their order.
    pub(super) fn set<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) {
        let (Ok(mut map), Ok(value)) = (serde_json::from_str::<RawMap>(&self.line), to_raw_value(value))
        else {
            return; // only entries that are messages, and so objects, are changed
        };
        let at = map.0.iter().position(|(k, _)| k == key);
        map.0.retain({
            let mut first = true;
            move |(k, _)| k != key || std::mem::take(&mut first)
        });
        match at {
            Some(at) => map.0[at].1 = value,
            None => map.0.push((key.to_owned(), value)),
        }
        if let Ok(line) = serde_json::to_string(&map) {
            self.line = line;
        }
    }
}

/// Reads a file of any layout. An error says why it is no JSON array.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<Item>, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let raw: Vec<&RawValue> = serde_json::from_str(text).map_err(|e| e.to_string())?;
    Ok(raw.into_iter().map(|entry| Item::new(entry.get())).collect())
}

/// Finds the messages in a file that is no JSON array: whole ones that begin a line or follow
/// another, each id once.
pub(super) fn salvage(bytes: &[u8]) -> Vec<Item> {
    let mut items = Vec::new();
    let mut seen = HashSet::new();
    let mut rest = bytes;
    while let Some(start) = rest.iter().position(|b| *b == b'{') {
        rest = &rest[start..];
        let mut stream = serde_json::Deserializer::from_slice(rest).into_iter::<Box<RawValue>>();
        let found = stream.next();
        let end = stream.byte_offset();
        let item = found.and_then(Result::ok).map(|raw| Item::new(raw.get()));
        match item {
            Some(item) if item.message.is_ok() => {
                rest = &rest[end..];
                if item.id().is_none_or(|id| seen.insert(id.clone())) {
                    items.push(item);
                }
            }
            _ => {
                let line = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                rest = &rest[line..];
            }
        }
    }
    items
}

/// The file with these entries.
pub(super) fn render<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<u8> {
    let mut bytes = HEAD.to_vec();
    for (i, line) in lines.enumerate() {
        if i > 0 {
            bytes.extend_from_slice(BETWEEN);
        }
        bytes.extend_from_slice(line.as_bytes());
    }
    if bytes == HEAD {
        return EMPTY.to_vec();
    }
    bytes.extend_from_slice(FOOT);
    bytes
}

/// What one more line takes of a file.
pub(super) fn cost(line: &str) -> usize {
    line.len() + BETWEEN.len()
}

/// Counts entries.
pub(super) fn tally(items: &[Item]) -> Tally {
    let mut tally = Tally::default();
    let mut ids = HashSet::new();
    let mut seqs = HashSet::new();
    for item in items {
        tally.entries += 1;
        if let Some(message) = item.unread() {
            tally.waiting += 1;
            tally.turn += u64::from(message.wake != Wake::Queue);
        }
        if !item.is_read() {
            tally.unread_bytes += cost(&item.line) as u64;
        }
        let in_order =
            item.id().is_some_and(|id| ids.insert(id)) && item.seq() != 0 && seqs.insert(item.seq());
        tally.odd += u64::from(!in_order);
    }
    tally
}
