//! Images: known by their first bytes, passed to a model as a block.

use crate::wire::block::Block;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Largest image in bytes: the Messages API takes 5 MB of base64.
pub(super) const MAX_BYTES: u64 = 3_750_000;

/// The media type of an image that models take, by its first 12 bytes.
pub(super) fn media_type(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// An image block; `None` cannot be, unless the block's own syntax changed.
pub(super) fn block(media_type: &str, content: &[u8]) -> Option<Block> {
    let data = STANDARD.encode(content);
    Block::parse(&format!(
        r#"{{"type":"image","source":{{"type":"base64","media_type":"{media_type}","data":"{data}"}}}}"#
    ))
    .ok()
}
