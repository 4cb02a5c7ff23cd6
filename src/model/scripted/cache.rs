//! A prompt cache as providers have it, simulated from the bytes of requests.
//!
//! A marker makes an entry of everything up to it; a later request reads the longest entry it finds
//! within 20 blocks before one of its own markers. A token is four bytes.

use crate::model::provider::ModelRequest;
use crate::wire::usage::Usage;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// How many blocks a provider looks back from a marker.
const LOOK_BACK: usize = 20;
/// Bytes of a token.
const BYTES_PER_TOKEN: usize = 4;

/// Tokens of so many bytes.
pub(super) fn tokens(bytes: usize) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN) as u64
}

/// What earlier requests left.
#[derive(Debug, Default)]
pub(super) struct PromptCache {
    entries: HashSet<u64>,
}

impl PromptCache {
    /// Input tokens of a request; its own entries are made.
    pub(super) fn take(&mut self, request: &ModelRequest) -> Usage {
        let mut chain = Chain::new(request);
        let mut marks: Vec<usize> = vec![chain.sums.len() - 1];
        for (i, message) in request.messages.iter().enumerate() {
            let begin = chain.sums.len();
            for block in message.blocks.iter() {
                chain.add(message.role as u8, block.raw());
            }
            for anchor in request.anchors.iter().filter(|a| a.message == i) {
                let last = message.blocks.len().saturating_sub(1);
                let block = anchor.block.unwrap_or(last).min(last);
                marks.push((begin + block).min(chain.sums.len() - 1));
            }
        }
        let found = marks
            .iter()
            .filter_map(|&mark| {
                let oldest = mark.saturating_sub(LOOK_BACK - 1);
                (oldest..=mark).rev().find(|&at| self.entries.contains(&chain.hashes[at]))
            })
            .max();
        let at = |index: Option<usize>| index.map_or(0, |i| tokens(chain.sums[i]));
        let (read, written) = (at(found), at(marks.iter().max().copied()));
        self.entries.extend(marks.iter().map(|&mark| chain.hashes[mark]));
        let total = at(Some(chain.sums.len() - 1));
        Usage {
            input_tokens: total - written.max(read),
            output_tokens: 0,
            cache_creation_input_tokens: written.saturating_sub(read),
            cache_read_input_tokens: read,
            web_search_requests: 0,
        }
    }
}

/// Running hashes and sizes over the parts of a request.
struct Chain {
    hashes: Vec<u64>,
    sums: Vec<usize>,
}

impl Chain {
    fn new(request: &ModelRequest) -> Self {
        let mut chain = Self { hashes: Vec::new(), sums: Vec::new() };
        chain.add(b't', &request.prefix.tools);
        chain.add(b's', &request.prefix.system);
        chain
    }

    fn add(&mut self, kind: u8, text: &str) {
        let mut hasher = DefaultHasher::new();
        (self.hashes.last(), kind, text).hash(&mut hasher);
        self.hashes.push(hasher.finish());
        self.sums.push(self.sums.last().unwrap_or(&0) + text.len());
    }
}
