//! Where a conversation can be forked: while the calls of its last message run.
//!
//! Owns the snapshot that a call takes, and the running hash over what was sent. A snapshot holds
//! pointers; it costs 24 bytes a message and copies no block. The hash of a conversation that grows is
//! computed once for each of its blocks, however many forks there are.

use crate::model::provider::PromptPrefix;
use crate::wire::block::{Block, ChatMessage, Role};
use crate::wire::fork::SharedPrefix;
use crate::wire::ids::LineId;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A conversation as it was when a message of calls had been recorded.
#[derive(Debug)]
pub struct Snapshot {
    /// What was sent first.
    pub prefix: Arc<PromptPrefix>,
    /// The names of the declared tools.
    pub tool_names: Vec<String>,
    /// What was sent then, and the answer to it, whole.
    pub messages: Vec<ChatMessage>,
    /// The transcript that holds it.
    pub transcript: PathBuf,
    /// The line of that answer.
    pub line: LineId,
}

/// The place in an agent where its calls find the snapshot.
#[derive(Debug, Default)]
pub struct ForkPoint {
    now: Mutex<Option<Arc<Snapshot>>>,
    running: Mutex<Running>,
}

/// Closes the point when it is dropped.
pub struct Opened<'a>(&'a ForkPoint);

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        *lock(&self.0.now) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ForkPoint {
    /// Calls can fork from here on, until the value is dropped.
    pub fn open(&self, snapshot: Snapshot) -> Opened<'_> {
        *lock(&self.now) = Some(Arc::new(snapshot));
        Opened(self)
    }

    /// Forgets the conversation and what was measured of it.
    pub fn clear(&self) {
        *lock(&self.now) = None;
        *lock(&self.running) = Running::default();
    }

    /// The conversation, while calls run.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        lock(&self.now).clone()
    }

    /// What forks of this snapshot share, their placeholders among it.
    pub fn measure(&self, snapshot: &Snapshot, placeholders: &[Block]) -> SharedPrefix {
        lock(&self.running).measure(&snapshot.prefix, &snapshot.messages, placeholders)
    }
}

/// Hash and size of the messages that were seen so far.
#[derive(Debug, Default)]
struct Running {
    seen: Option<Seen>,
}

#[derive(Debug)]
struct Seen {
    prefix: Arc<PromptPrefix>,
    /// The first and the last message, to see whether a conversation goes on from here. They are held, so
    /// that an address cannot come to mean another message.
    ends: Option<(ChatMessage, ChatMessage)>,
    messages: usize,
    sum: Sum,
}

#[derive(Debug, Clone)]
struct Sum {
    hash: Sha256,
    bytes: u64,
}

impl Sum {
    fn of(prefix: &PromptPrefix) -> Self {
        let mut sum = Self { hash: Sha256::new(), bytes: 0 };
        sum.mark(&prefix.model);
        sum.mark(prefix.thinking.as_deref().unwrap_or_default());
        sum.mark(prefix.effort.as_deref().unwrap_or_default());
        sum.part(&prefix.tools);
        sum.part(&prefix.system);
        sum
    }

    /// Takes what is shared and has no bytes of its own in the sum.
    fn mark(&mut self, text: &str) {
        self.hash.update(text);
        self.hash.update(b"\n");
    }

    fn part(&mut self, text: &str) {
        self.mark(text);
        self.bytes += text.len() as u64;
    }

    fn message(&mut self, message: &ChatMessage) {
        self.mark(match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        });
        message.blocks.iter().for_each(|block| self.part(block.raw()));
    }
}

fn same(a: &ChatMessage, b: &ChatMessage) -> bool {
    Arc::ptr_eq(&a.blocks, &b.blocks)
}

impl Seen {
    fn goes_on(&self, prefix: &Arc<PromptPrefix>, messages: &[ChatMessage]) -> bool {
        let ends = self.ends.as_ref().is_none_or(|(first, last)| {
            messages.first().is_some_and(|m| same(m, first))
                && messages.get(self.messages - 1).is_some_and(|m| same(m, last))
        });
        Arc::ptr_eq(&self.prefix, prefix) && ends
    }
}

impl Running {
    fn measure(
        &mut self,
        prefix: &Arc<PromptPrefix>,
        messages: &[ChatMessage],
        placeholders: &[Block],
    ) -> SharedPrefix {
        let mut seen = self.seen.take().filter(|seen| seen.goes_on(prefix, messages)).unwrap_or_else(|| {
            Seen { prefix: Arc::clone(prefix), ends: None, messages: 0, sum: Sum::of(prefix) }
        });
        messages[seen.messages..].iter().for_each(|message| seen.sum.message(message));
        seen.messages = messages.len();
        seen.ends = messages.first().cloned().zip(messages.last().cloned());
        let mut sum = seen.sum.clone();
        self.seen = Some(seen);
        sum.message(&ChatMessage::user(placeholders.to_vec()));
        let mut hex = String::with_capacity(64);
        for byte in sum.hash.finalize() {
            // Writing into a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
        }
        SharedPrefix { shared_bytes: sum.bytes, prefix_sha256: hex }
    }
}

/// The same for a conversation that was read again.
pub fn measure(prefix: &Arc<PromptPrefix>, messages: &[ChatMessage], placeholders: &[Block]) -> SharedPrefix {
    Running::default().measure(prefix, messages, placeholders)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(system: &str) -> Arc<PromptPrefix> {
        Arc::new(PromptPrefix {
            model: "m".to_owned(),
            tools: "[]".into(),
            system: system.into(),
            max_output_tokens: 1,
            thinking: None,
            effort: None,
        })
    }

    fn user(text: &str) -> ChatMessage {
        ChatMessage::user(vec![Block::text(text)])
    }

    #[test]
    fn the_hash_is_what_the_page_says() {
        let result = Block::tool_result("t", "x", false);
        let shared = measure(&prefix("S"), &[user("a")], std::slice::from_ref(&result));
        let text = format!("m\n\n\n[]\nS\nuser\n{}\nuser\n{}\n", Block::text("a").raw(), result.raw());
        let hex: String = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
        let bytes = "[]S".len() + Block::text("a").raw().len() + result.raw().len();
        assert_eq!(shared, SharedPrefix { shared_bytes: bytes as u64, prefix_sha256: hex });
    }

    #[test]
    fn a_running_hash_is_the_same_as_a_new_one_whatever_came_before() {
        let (prefix, other) = (prefix("S"), prefix("T"));
        let mut all: Vec<ChatMessage> = (0..9).map(|n| user(&n.to_string())).collect();
        let mut running = Running::default();
        let mut check = |prefix: &Arc<PromptPrefix>, messages: &[ChatMessage]| {
            assert_eq!(running.measure(prefix, messages, &[]), measure(prefix, messages, &[]));
        };
        check(&prefix, &all[..3]);
        check(&prefix, &all[..3]);
        check(&prefix, &all);
        check(&prefix, &all[..2]);
        check(&prefix, &all);
        check(&other, &all);
        // Compacted, with a tail that is kept.
        all.drain(..6);
        check(&other, &all);
        all[0] = user("a summary");
        check(&other, &all);
    }

    #[test]
    fn a_point_is_open_while_its_guard_lives() {
        let point = ForkPoint::default();
        let snapshot = |n| Snapshot {
            prefix: prefix("S"),
            tool_names: Vec::new(),
            messages: vec![user("x"); n],
            transcript: PathBuf::new(),
            line: LineId::new("l"),
        };
        assert!(point.snapshot().is_none());
        let open = point.open(snapshot(2));
        let taken = point.snapshot().expect("open");
        drop(open);
        assert!(point.snapshot().is_none());
        assert_eq!(taken.messages.len(), 2, "who took it keeps it");
    }
}
