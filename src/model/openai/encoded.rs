//! Messages in the form of a wire, encoded once and shared by all requests that hold them.
//!
//! A message is known by the address of its blocks, which it holds on to (weakly), so that an address
//! cannot come to mean another message. Never keeps a message alive.

use crate::wire::block::{Block, ChatMessage, Role};
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Messages that are gone are looked for when so many are known, and again at twice what is left.
const FIRST_SWEEP: usize = 256;

/// What an encoding depends on beside the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Variant {
    answer: bool,
    reasoning: bool,
}

struct Entry {
    of: Weak<[Block]>,
    bytes: Bytes,
}

struct Table {
    entries: HashMap<(usize, Variant), Entry>,
    sweep_at: usize,
}

/// The messages of one wire.
pub(super) struct Encoded(Mutex<Table>);

impl Default for Encoded {
    fn default() -> Self {
        Self(Mutex::new(Table { entries: HashMap::new(), sweep_at: FIRST_SWEEP }))
    }
}

impl Encoded {
    /// The encoding of a message, made now if it is new. `reasoning` tells two encodings apart: with
    /// what was thought, and without.
    pub(super) fn get(
        &self,
        message: &ChatMessage,
        reasoning: bool,
        encode: impl FnOnce(&ChatMessage) -> String,
    ) -> Bytes {
        let variant = Variant { answer: message.role == Role::Assistant, reasoning };
        let key = (message.blocks.as_ptr().addr(), variant);
        if let Some(entry) = self.table().entries.get(&key)
            && entry.of.upgrade().is_some_and(|blocks| Arc::ptr_eq(&blocks, &message.blocks))
        {
            return entry.bytes.clone();
        }
        let bytes = Bytes::from(encode(message));
        let mut table = self.table();
        let entry = Entry { of: Arc::downgrade(&message.blocks), bytes: bytes.clone() };
        table.entries.insert(key, entry);
        if table.entries.len() >= table.sweep_at {
            table.entries.retain(|_, entry| entry.of.strong_count() > 0);
            table.sweep_at = FIRST_SWEEP.max(2 * table.entries.len());
        }
        bytes
    }

    fn table(&self) -> std::sync::MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::user;

    #[test]
    fn a_message_is_encoded_once_while_it_lives() {
        let known = Encoded::default();
        let message = user("a");
        let first = known.get(&message, false, |m| m.text());
        let again = known.get(&message.clone(), false, |_| panic!("it is known"));
        assert_eq!(first.as_ptr(), again.as_ptr());
        assert_eq!(known.get(&message, true, |_| "other".to_owned()), "other");
        assert_eq!(known.get(&user("a"), false, |_| "equal, but another".to_owned()), "equal, but another");
        for i in 0..3 * FIRST_SWEEP {
            // Each is gone before the next one comes, often at the same address.
            let text = i.to_string();
            assert_eq!(known.get(&user(&text), false, |m| m.text()), text);
        }
        assert!(known.table().entries.len() <= FIRST_SWEEP);
    }
}
