//! Blocks that only one wire understands, kept in conversations that may move to another.
//!
//! A conversation is stored in the shape of the Messages API whatever provider ran. What other wires
//! need back and that shape has no place for becomes a block of a type of its own; each wire leaves out
//! the blocks that are not for it. Promises that what is left out depends on the block alone, so that a
//! request's earlier bytes never change.

use crate::wire::block::{Block, BlockKind};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The type of a Responses API item that holds encrypted reasoning, as it came.
pub(super) const REASONING: &str = "reasoning";
/// The type of a block of ours: what a Responses API message was marked as, before its text.
pub(super) const PHASE: &str = "message_phase";

/// The type of a Responses API item: a search that the provider made, as it came.
pub(super) const WEB_SEARCH_CALL: &str = "web_search_call";
/// The type of a block of ours: what a Responses API message names as its sources, before its text.
pub(super) const ANNOTATIONS: &str = "message_annotations";

/// The `type` of a block.
pub(super) fn type_of(block: &Block) -> String {
    #[derive(Deserialize)]
    struct Tag {
        #[serde(rename = "type")]
        tag: String,
    }
    serde_json::from_str::<Tag>(block.raw()).map(|t| t.tag).unwrap_or_default()
}

/// A `thinking` block of a server that does not sign: to be shown, and never sent to one that does.
pub(super) fn unsigned_thinking(text: &str) -> Option<Block> {
    Block::parse(&format!(r#"{{"type":"thinking","thinking":{}}}"#, serde_json::Value::from(text))).ok()
}

/// What was thought, in a `thinking` block that one can read.
pub(super) fn thinking(block: &Block) -> Option<String> {
    #[derive(Deserialize)]
    struct Thought {
        thinking: String,
    }
    let readable = block.kind() == BlockKind::Thinking;
    readable.then(|| serde_json::from_str::<Thought>(block.raw()).ok()).flatten().map(|t| t.thinking)
}

/// Whether the Messages API would refuse the block: it is of another wire.
pub(super) fn is_foreign_to_messages(block: &Block) -> bool {
    #[derive(Deserialize)]
    struct Signed {
        #[serde(rename = "type")]
        tag: String,
        signature: Option<Box<RawValue>>,
    }
    match block.kind() {
        BlockKind::Thinking => serde_json::from_str::<Signed>(block.raw())
            .is_ok_and(|thought| thought.tag == "thinking" && thought.signature.is_none()),
        BlockKind::Other => {
            matches!(type_of(block).as_str(), REASONING | PHASE | WEB_SEARCH_CALL | ANNOTATIONS)
        }
        BlockKind::Text | BlockKind::ToolUse | BlockKind::ToolResult => false,
    }
}
