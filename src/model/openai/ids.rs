//! Ids of tool calls, unique in their conversation.
//!
//! Servers may leave an id out, or begin anew with `call_0` in every answer. A result is found by its
//! call's id, so such calls get one of ours. It follows from the request and the place of the call, so
//! that a repeated request gives the same one, and is sent back like any other.

use crate::model::provider::ModelRequest;
use crate::wire::block::BlockKind;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// Bytes of a hash that make an id.
const HASH: usize = 12;

/// Gives ids to the calls of one answer.
pub(super) struct CallIds<'a> {
    request: &'a ModelRequest,
    given: Vec<String>,
}

impl<'a> CallIds<'a> {
    /// For the answer to `request`.
    pub(super) fn new(request: &'a ModelRequest) -> Self {
        Self { request, given: Vec::new() }
    }

    /// The server's id when it can be used, else one of ours.
    pub(super) fn unique(&mut self, server: &str) -> String {
        let mut id = server.trim().to_owned();
        let mut attempt = 0;
        while id.is_empty() || self.is_taken(&id) {
            id = self.made(server, attempt);
            attempt += 1;
        }
        self.given.push(id.clone());
        id
    }

    fn is_taken(&self, id: &str) -> bool {
        let blocks = self.request.messages.iter().flat_map(|message| message.blocks.iter());
        // The text search spares reading every call of a long conversation.
        let encoded = super::view::json(id);
        self.given.iter().any(|given| given == id)
            || blocks
                .filter(|block| block.kind() == BlockKind::ToolUse && block.raw().contains(&encoded))
                .any(|block| block.as_tool_use().is_some_and(|call| call.id == id))
    }

    fn made(&self, server: &str, attempt: u32) -> String {
        let place = format!("{} {} {attempt} {server}", self.request.messages.len(), self.given.len());
        let mut hash = Sha256::new();
        hash.update(place.as_bytes());
        for block in self.request.messages.last().iter().flat_map(|message| message.blocks.iter()) {
            hash.update(block.raw().as_bytes());
        }
        let mut id = "call_".to_owned();
        for byte in hash.finalize().iter().take(HASH) {
            // Writing into a String cannot fail.
            let _ = write!(id, "{byte:02x}");
        }
        id
    }
}
