//! Parts that tests of models share: a local server of all wires that reads strictly and can pace, cut
//! and stall its stream at any byte, conversations, and a sink that remembers.

mod server;
pub(super) mod tls;

use super::provider::{Anchor, Delta, DeltaSink, ModelRequest, PromptPrefix, RequestTag};
use crate::wire::block::{Block, ChatMessage};
pub(super) use server::{Answer, Server};
use std::sync::{Arc, Mutex};

/// Remembers what it was told.
#[derive(Default)]
pub(super) struct Heard(Mutex<Vec<Delta>>);

impl DeltaSink for Heard {
    fn delta(&self, delta: Delta) {
        self.0.lock().expect("deltas").push(delta);
    }
}

impl Heard {
    pub(super) fn all(&self) -> Vec<Delta> {
        self.0.lock().expect("deltas").clone()
    }
    /// All text, joined.
    pub(super) fn text(&self) -> String {
        let texts = self.all().into_iter().filter_map(|d| match d {
            Delta::Text(text) => Some(text),
            _ => None,
        });
        texts.collect()
    }
}

/// A prefix with one tool, as a session would have frozen it.
pub(super) fn prefix() -> Arc<PromptPrefix> {
    Arc::new(PromptPrefix {
        model: "claude-test".to_owned(),
        tools: r#"[{"name":"Read","description":"reads","input_schema":{"type":"object"}}]"#.into(),
        system: r#"{"type":"text","text":"be brief"}"#.into(),
        max_output_tokens: 1000,
        thinking: None,
        effort: None,
    })
}

/// A request of `agent` in `round`.
pub(super) fn request(agent: &str, round: u32, messages: &[ChatMessage]) -> ModelRequest {
    ModelRequest {
        prefix: prefix(),
        messages: Arc::new(messages.to_vec()),
        anchors: vec![Anchor::end_of(messages.len().saturating_sub(1))],
        tag: RequestTag { agent: agent.to_owned(), round },
    }
}

/// A user's message of one text.
pub(super) fn user(text: &str) -> ChatMessage {
    ChatMessage::user(vec![Block::text(text)])
}
