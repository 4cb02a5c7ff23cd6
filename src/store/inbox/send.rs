//! Putting one message into an inbox.
//!
//! Owns the cost of it: signing and encoding before the lock, and under it, as long as nobody else
//! has touched the file, a copy of the bytes that wait with one line more, none of them parsed.

use super::super::error::StoreError;
use super::super::jsonl;
use super::super::lock::Patience;
use super::entries::{self, BETWEEN, EMPTY, FOOT, HEAD, Item, cost};
use super::held::{Held, Loaded};
use super::stamp::Stamp;
use super::{Inbox, log_notices};
use crate::wire::ids::MessageId;
use crate::wire::limits::{INBOX_BYTES, INBOX_MESSAGES};
use crate::wire::mail::{MAX_TEXT_CHARS, Message, Receipt, Wake};

/// The longest that the position can make a line longer by.
const MAX_SEQ: &str = r#""seq":18446744073709551615,"#;

/// A message as it will stand in the file, but for its position.
struct Line<'a> {
    message: &'a Message,
    id: &'a MessageId,
    json: String,
}

impl Line<'_> {
    /// The line with its position, which comes after the id.
    fn at(&self, seq: u64) -> Result<String, StoreError> {
        let head = 1 + r#""id":"#.len() + json_length(self.id.as_str()) + 1;
        if self.json.as_bytes().get(head - 1) == Some(&b',') {
            return Ok(format!("{}\"seq\":{seq},{}", &self.json[..head], &self.json[head..]));
        }
        let mut item = Item::new(&self.json);
        item.set_seq(seq);
        Ok(item.line)
    }
}

fn json_length(text: &str) -> usize {
    serde_json::to_string(text).map_or(0, |json| json.len())
}

pub(super) fn send(
    inbox: &Inbox,
    message: &Message,
    patience: Patience,
) -> Result<Option<Receipt>, StoreError> {
    let (message, id) = prepare(inbox, message)?;
    let json = String::from_utf8_lossy(&jsonl::encode(&inbox.0.file, &message)?).into_owned();
    let line = Line { message: &message, id: &id, json };
    let largest = line.json.len() + MAX_SEQ.len() + HEAD.len() + FOOT.len();
    if largest > INBOX_BYTES {
        return Err(too_large(inbox, largest, "bytes", INBOX_BYTES));
    }
    inbox.locked(patience, |held| {
        let seq = match held.read()? {
            Some((bytes, Some(stamp))) if may_append(&bytes, &stamp, &line) => {
                append(held, &bytes, &stamp, &line)?
            }
            _ => insert(held, &line)?,
        };
        Ok(Receipt { id: id.clone(), seq, to: inbox.0.agent.clone() })
    })
}

/// Completes and signs the message.
fn prepare(inbox: &Inbox, message: &Message) -> Result<(Message, MessageId), StoreError> {
    let mut message = message.clone();
    let agent = &inbox.0.agent;
    if message.to.get_or_insert_with(|| agent.clone()) != agent {
        return Err(StoreError::invalid(&inbox.0.file, "the message is for somebody else"));
    }
    if message.text.len() > MAX_TEXT_CHARS {
        let chars = message.text.chars().count();
        if chars > MAX_TEXT_CHARS {
            return Err(too_large(inbox, chars, "characters", MAX_TEXT_CHARS));
        }
    }
    let id = message.id.get_or_insert_with(MessageId::generate).clone();
    message.seq = 0;
    message.read = false;
    inbox.0.keys.sign_message(&mut message)?;
    Ok((message, id))
}

fn too_large(inbox: &Inbox, size: usize, unit: &'static str, limit: usize) -> StoreError {
    StoreError::TooLarge { agent: inbox.0.agent.clone(), size, unit, limit }
}

/// Whether the bytes can be copied unseen: the stamp is right about them, there is room, and the
/// same message is not there already.
fn may_append(bytes: &[u8], stamp: &Stamp, line: &Line<'_>) -> bool {
    let framed = if stamp.tally.entries == 0 {
        bytes == EMPTY
    } else {
        bytes.starts_with(HEAD) && bytes.ends_with(FOOT)
    };
    framed
        && stamp.tally.waiting < INBOX_MESSAGES as u64
        && bytes.len() + cost(&line.json) + MAX_SEQ.len() <= INBOX_BYTES
        && std::str::from_utf8(bytes).is_ok_and(|text| !text.contains(line.id.as_str()))
}

fn append(held: &Held<'_>, bytes: &[u8], stamp: &Stamp, line: &Line<'_>) -> Result<u64, StoreError> {
    let seq = stamp.seq + 1;
    let text = line.at(seq)?;
    let mut new = Vec::with_capacity(bytes.len() + cost(&text));
    if stamp.tally.entries == 0 {
        new.extend_from_slice(HEAD);
    } else {
        new.extend_from_slice(&bytes[..bytes.len() - FOOT.len()]);
        new.extend_from_slice(BETWEEN);
    }
    new.extend_from_slice(text.as_bytes());
    new.extend_from_slice(FOOT);
    let mut tally = stamp.tally;
    tally.entries += 1;
    tally.waiting += 1;
    tally.turn += u64::from(line.message.wake != Wake::Queue);
    tally.unread_bytes += cost(&text) as u64;
    held.store_bytes(&new, seq, tally)?;
    Ok(seq)
}

/// The way for a file that others touched or that is nearly full: all of it is read.
fn insert(held: &Held<'_>, line: &Line<'_>) -> Result<u64, StoreError> {
    let Loaded { mut items, seq, notices } = held.load()?;
    log_notices(&held.inbox.0, &notices);
    if let Some(there) = items.iter().find(|item| item.id() == Some(line.id)) {
        return Ok(there.seq()); // sent before by somebody who did not live to know
    }
    let seq = seq + 1;
    let item = Item::new(&line.at(seq)?);
    let tally = entries::tally(&items);
    let room = INBOX_BYTES - HEAD.len() - FOOT.len() - cost(&item.line);
    let waiting = usize::try_from(tally.waiting).unwrap_or(usize::MAX);
    let bytes = usize::try_from(tally.unread_bytes).unwrap_or(usize::MAX);
    if waiting >= INBOX_MESSAGES || bytes > room {
        return Err(StoreError::Full { agent: held.inbox.0.agent.clone(), messages: waiting, bytes });
    }
    let old = Held::take_old(&mut items, room);
    held.archive(&old, &items)?;
    items.push(item);
    held.store(&items, seq)?;
    Ok(seq)
}
