//! What is written down about forks: where one began, and what its first request cost.

use super::ids::{AgentId, LineId};
use serde::{Deserialize, Serialize};

/// What a fork and its siblings send alike, cache markers aside: declarations, system prompt, and every
/// block before the directive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedPrefix {
    /// The bytes of these parts, without what a wire puts between them.
    pub shared_bytes: u64,
    /// SHA-256 over these parts in their order, a line feed behind each, in hex. `docs/design/forks.md`
    /// says how to compute it from files.
    pub prefix_sha256: String,
}

/// The data of a `fork_origin` line: where the conversation of a fork begins. A pointer, not a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkOrigin {
    /// Whose conversation it was.
    pub parent_agent_id: AgentId,
    /// Its transcript, relative to the directory of the project's sessions, with `/`.
    pub parent_transcript: String,
    /// Its line with the message whose call started the fork: the last one that is shared.
    pub parent_line: LineId,
    /// The frozen prefix that was sent, relative to the same directory. Forks that share it share the file.
    pub prefix_file: String,
    /// The result that stands for every call of that message.
    pub placeholder: String,
    /// What the parent's conversation must come to when it is read again.
    #[serde(flatten)]
    pub shared: SharedPrefix,
}

/// What the first response to a fork says about its input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ForkReceipt {
    /// What was shared.
    #[serde(flatten)]
    pub shared: SharedPrefix,
    /// Tokens read from the prompt cache.
    pub cache_read_tokens: u64,
    /// Tokens written to it.
    pub cache_creation_tokens: u64,
    /// Tokens that were neither.
    pub input_tokens: u64,
    /// Why the fork shares nothing any more; absent as long as it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<ReceiptEnd>,
}

/// Why a fork's requests no longer begin as its parent's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReceiptEnd {
    /// It has compacted its conversation.
    Compacted,
}

impl ForkReceipt {
    /// All input of the request, in tokens.
    pub fn total(&self) -> u64 {
        self.cache_read_tokens + self.cache_creation_tokens + self.input_tokens
    }

    /// The receipt as a sentence for a person.
    pub fn sentence(&self) -> String {
        let total = self.total();
        // Rounded down: a hundred per cent is said only of all.
        let share = (self.cache_read_tokens * 1000).checked_div(total).unwrap_or(0);
        let end = match self.ended {
            Some(ReceiptEnd::Compacted) => {
                "; ended: the fork has compacted its conversation and shares it no more"
            }
            None => "",
        };
        format!(
            "{}.{} % of {total} input tokens from the cache, {} new; {} bytes shared{end}",
            share / 10,
            share % 10,
            total - self.cache_read_tokens,
            self.shared.shared_bytes
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_has_the_contracts_fields_and_reads_well() {
        let shared = SharedPrefix { shared_bytes: 400_000, prefix_sha256: "ab".to_owned() };
        let receipt = ForkReceipt {
            shared,
            cache_read_tokens: 99_960,
            cache_creation_tokens: 30,
            input_tokens: 10,
            ended: None,
        };
        assert_eq!(
            serde_json::to_value(&receipt).expect("writes"),
            serde_json::json!({ "sharedBytes": 400_000, "prefixSha256": "ab", "cacheReadTokens": 99_960,
                                "cacheCreationTokens": 30, "inputTokens": 10 })
        );
        assert_eq!(
            receipt.sentence(),
            "99.9 % of 100000 input tokens from the cache, 40 new; 400000 bytes shared"
        );
        let over = ForkReceipt { ended: Some(ReceiptEnd::Compacted), ..receipt.clone() };
        assert_eq!(serde_json::to_value(&over).expect("writes")["ended"], "compacted");
        assert!(over.sentence().ends_with("has compacted its conversation and shares it no more"));
        let nothing =
            ForkReceipt { cache_read_tokens: 0, cache_creation_tokens: 0, input_tokens: 0, ..receipt };
        assert!(nothing.sentence().starts_with("0.0 % of 0 "));
    }
}
