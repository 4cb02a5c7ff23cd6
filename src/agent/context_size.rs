//! How much of its model's context a conversation fills.
//!
//! A response says how many tokens its request had; what came since is estimated from its bytes. The
//! estimate errs on the side of too much: too early costs a little, too late a failed request.

use crate::model::provider::PromptPrefix;
use crate::wire::block::{Block, BlockKind, ChatMessage};
use crate::wire::usage::Usage;

/// Bytes of a token, in halves: source text and JSON have 3 to 4 (measured by both vendors' counters;
/// prose has more).
const HALF_BYTES: u64 = 7;
/// Tokens of an image. Models scale larger ones down to about this:
/// <https://platform.claude.com/docs/en/build-with-claude/vision>
const IMAGE_TOKENS: u64 = 2_000;
/// What is around the data of an image in a block.
const DATA: &str = "\"data\":\"";

/// Tokens of so much text.
fn of_bytes(bytes: usize) -> u64 {
    (bytes as u64 * 2).div_ceil(HALF_BYTES)
}

/// An estimate of a block's tokens.
fn of_block(block: &Block) -> u64 {
    let raw = block.raw();
    let may_hold_data = matches!(block.kind(), BlockKind::ToolResult | BlockKind::Other);
    if !may_hold_data || !raw.contains(r#""type":"base64""#) {
        return of_bytes(raw.len());
    }
    let (mut data, mut images) = (0, 0);
    for part in raw.split(DATA).skip(1) {
        data += part.find('"').unwrap_or(part.len());
        images += 1;
    }
    of_bytes(raw.len() - data) + images * IMAGE_TOKENS
}

/// An estimate of a message's tokens.
pub fn of_message(message: &ChatMessage) -> u64 {
    message.blocks.iter().map(of_block).sum()
}

/// An estimate of the tokens of messages.
pub fn of_messages(messages: &[ChatMessage]) -> u64 {
    messages.iter().map(of_message).sum()
}

/// An estimate of a whole request.
pub fn of_request(prefix: &PromptPrefix, messages: &[ChatMessage]) -> u64 {
    of_bytes(prefix.system.len() + prefix.tools.len()) + of_messages(messages)
}

/// More than any context holds: what a server counts beyond it is no count, and sums stay far from the end of
/// the numbers.
const MOST: u64 = 1 << 48;

/// What a response says of the request that would follow it; `None` when its provider does not count.
pub fn after_response(usage: &Usage) -> Option<u64> {
    let tokens = usage.context().saturating_add(usage.output_tokens);
    (usage.context() > 0).then_some(tokens.min(MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_of_images_is_not_counted_as_text() {
        let text = Block::text(&"x".repeat(3_500 - 25));
        assert_eq!(of_block(&text), 1_000);
        let data = "A".repeat(400_000);
        let image = format!(
            r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}"#
        );
        let image = Block::parse(&image).expect("a block");
        let result = Block::tool_result_blocks("t", &[image.clone(), image], false);
        let tokens = of_block(&result);
        assert!((4_000..4_100).contains(&tokens), "{tokens}");
    }

    #[test]
    fn a_provider_that_counts_nothing_says_nothing() {
        assert_eq!(after_response(&Usage::default()), None);
        let absurd = Usage { input_tokens: u64::MAX, output_tokens: u64::MAX, ..Usage::default() };
        assert_eq!(after_response(&absurd), Some(MOST));
        let usage =
            Usage { input_tokens: 1, cache_read_input_tokens: 10, output_tokens: 5, ..Usage::default() };
        assert_eq!(after_response(&usage), Some(16));
    }
}
