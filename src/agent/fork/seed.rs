//! What a fork is built from instead of a prompt: its parent's bytes, by pointer.
//!
//! The fork's transcript holds its own words only. Here they are put behind its parent's again: the first
//! of them, the directive, into one message with the placeholders, as it was sent.

use super::bytes::{last_shared, placeholders};
use crate::model::provider::{Anchor, PromptPrefix};
use crate::tools::file_cache::FileCache;
use crate::wire::block::{Block, ChatMessage, Role};
use crate::wire::fork::{ForkOrigin, ForkReceipt, SharedPrefix};
use std::sync::Arc;

/// Where a fork begins. It has no place for a model, a tool or a definition: what was sent is sent.
pub struct Seed {
    /// The parent's frozen prefix.
    pub prefix: Arc<PromptPrefix>,
    /// The names of the tools it declares.
    pub tool_names: Vec<String>,
    /// The parent's conversation, its message of calls last.
    pub messages: Vec<ChatMessage>,
    /// Where that is on disk.
    pub origin: ForkOrigin,
    /// What the parent knew of files.
    pub files: FileCache,
    /// What the first request cost, when that is known already.
    pub receipt: Option<ForkReceipt>,
}

/// What a running fork knows of its beginning.
#[derive(Debug)]
pub struct Forked {
    /// The results that stand before its directive.
    pub placeholders: Vec<Block>,
    /// How many messages stand before its first one.
    pub shared_messages: usize,
    /// What it shares with its siblings.
    pub shared: SharedPrefix,
    /// What its first request cost.
    pub receipt: Option<ForkReceipt>,
    /// Whether its conversation still begins as its parent's.
    pub shares: bool,
}

impl Seed {
    /// The results that stand before the directive.
    pub fn placeholders(&self) -> Vec<Block> {
        self.messages.last().map(|m| placeholders(m, &self.origin.placeholder)).unwrap_or_default()
    }

    /// What the running fork has to know.
    pub fn forked(self) -> Forked {
        let placeholders = self.placeholders();
        Forked {
            placeholders,
            shared_messages: self.messages.len(),
            shared: self.origin.shared,
            receipt: self.receipt,
            shares: true,
        }
    }

    /// What stands before the fork's own words.
    pub fn beginning(&self) -> Beginning {
        Beginning { messages: self.messages.clone(), placeholders: self.placeholders() }
    }
}

/// What stands before an agent's own words; nothing, except for a fork.
#[derive(Debug, Default)]
pub struct Beginning {
    messages: Vec<ChatMessage>,
    placeholders: Vec<Block>,
}

impl Beginning {
    /// The whole conversation of one that has said these messages itself.
    pub fn join(self, own: Vec<ChatMessage>) -> Vec<ChatMessage> {
        if self.messages.is_empty() {
            return own;
        }
        let mut all = self.messages;
        let mut own = own.into_iter();
        if let Some(first) = own.next() {
            all.push(behind(self.placeholders, &first.blocks));
        }
        all.extend(own);
        all
    }
}

/// A fork's first message as it is sent.
pub fn behind(mut placeholders: Vec<Block>, own: &[Block]) -> ChatMessage {
    placeholders.extend(own.iter().cloned());
    ChatMessage::user(placeholders)
}

/// Where the requests ended that led to this conversation, the last `most` of them: an answer stands
/// behind each.
pub fn request_ends(messages: &[ChatMessage], most: usize) -> Vec<Anchor> {
    let answers = (1..messages.len()).rev().filter(|&i| messages[i].role == Role::Assistant);
    let mut ends: Vec<Anchor> = answers.take(most).map(|i| Anchor::end_of(i - 1)).collect();
    ends.reverse();
    ends
}

/// The same for a fork: as long as nothing came back to its first message, its siblings are marked too.
pub fn fork_ends(messages: &[ChatMessage], shared: usize, placeholders: usize, most: usize) -> Vec<Anchor> {
    let mut ends = request_ends(messages, most);
    if messages.len() <= shared + 1 {
        ends.extend(last_shared(shared, placeholders));
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ids::{AgentId, LineId};

    fn user(text: &str) -> ChatMessage {
        ChatMessage::user(vec![Block::text(text)])
    }

    fn call(id: &str) -> Block {
        Block::parse(&format!(r#"{{"type":"tool_use","id":"{id}","name":"Agent","input":{{}}}}"#))
            .expect("parses")
    }

    #[test]
    fn a_forks_own_words_stand_behind_its_parents() {
        let seed = Seed {
            prefix: Arc::new(PromptPrefix {
                model: "m".to_owned(),
                tools: "[]".into(),
                system: "S".into(),
                max_output_tokens: 1,
                thinking: None,
                effort: None,
            }),
            tool_names: Vec::new(),
            messages: vec![user("go"), ChatMessage::assistant(vec![call("a"), call("b")])],
            origin: ForkOrigin {
                parent_agent_id: AgentId::new("p"),
                parent_transcript: "s.jsonl".to_owned(),
                parent_line: LineId::new("l"),
                prefix_file: "p.json".to_owned(),
                placeholder: "later".to_owned(),
                shared: SharedPrefix { shared_bytes: 0, prefix_sha256: String::new() },
            },
            files: FileCache::default(),
            receipt: None,
        };
        let answer = ChatMessage::assistant(vec![Block::text("Scope: x")]);
        let result = |id| Block::tool_result(id, "later", false);
        let first = ChatMessage::user(vec![result("a"), result("b"), Block::text("D")]);
        let [go, calls] = [seed.messages[0].clone(), seed.messages[1].clone()];
        assert_eq!(
            seed.beginning().join(vec![user("D"), answer.clone()]),
            [go.clone(), calls.clone(), first, answer]
        );
        assert_eq!(seed.beginning().join(Vec::new()), [go, calls]);
        assert!(Arc::ptr_eq(&seed.beginning().join(Vec::new())[1].blocks, &seed.messages[1].blocks));
    }

    #[test]
    fn marks_stay_where_requests_ended_and_the_shared_part_is_marked_until_it_is_answered() {
        let answer = || ChatMessage::assistant(vec![Block::text("x")]);
        let mut all = vec![user("0"), answer(), user("2"), user("3"), answer()];
        assert_eq!(request_ends(&all, 2), [Anchor::end_of(0), Anchor::end_of(3)]);
        assert_eq!(request_ends(&all, 1), [Anchor::end_of(3)]);
        assert_eq!(request_ends(&all[..1], 2), []);
        let shared = all.len();
        let before = [Anchor::end_of(0), Anchor::end_of(3), Anchor::after(5, 0)];
        assert_eq!(fork_ends(&all, shared, 1, 2), before);
        all.push(user("directive"));
        assert_eq!(fork_ends(&all, shared, 1, 2), before);
        all.push(answer());
        assert_eq!(fork_ends(&all, shared, 1, 2), [Anchor::end_of(3), Anchor::end_of(5)]);
    }
}
