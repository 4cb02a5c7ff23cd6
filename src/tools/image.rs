//! Images: known by their first bytes, measured, and passed to a model as a block.
//!
//! A model's provider refuses a whole conversation for one image that it cannot take, in every request
//! from then on. So whatever is not certainly good is refused here, with what to do about it.

use crate::wire::block::Block;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Largest image in bytes: the Messages API takes 5 MB of base64.
pub(super) const MAX_BYTES: u64 = 3_750_000;
/// Longest side in pixels that the Messages API takes.
pub(super) const MAX_SIDE: u32 = 8_000;

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

/// An image block; the error is the end of a sentence that begins with the image.
pub(super) fn block(content: &[u8]) -> Result<Block, String> {
    let bytes = content.len();
    if bytes as u64 > MAX_BYTES {
        return Err(format!("has {bytes} bytes, and at most {MAX_BYTES} can be shown; scale it down first"));
    }
    let media_type = media_type(content).ok_or("is no PNG, JPEG, GIF or WebP image")?;
    let Some((width, height)) = size(media_type, content) else {
        return Err(format!("is damaged or no real {media_type}, so it was not shown"));
    };
    if width.max(height) > MAX_SIDE {
        return Err(format!(
            "is {width} × {height} pixels, and at most {MAX_SIDE} on each side can be shown; scale it down first"
        ));
    }
    let data = STANDARD.encode(content);
    Block::parse(&format!(
        r#"{{"type":"image","source":{{"type":"base64","media_type":"{media_type}","data":"{data}"}}}}"#
    ))
    .map_err(|error| format!("could not be made into a block: {error}"))
}

/// The same for an image in base64, white space in it or not.
pub(super) fn of_base64(data: &str) -> Result<Block, String> {
    let data: String = data.split_whitespace().collect();
    let content = STANDARD.decode(data).map_err(|error| format!("is not valid base64: {error}"))?;
    block(&content)
}

/// Width and height in pixels, from the header; `None` when there is none, or no pixel.
fn size(media_type: &str, content: &[u8]) -> Option<(u32, u32)> {
    let (width, height) = match media_type {
        "image/png" => (be(content, 16, 4)?, be(content, 20, 4)?),
        "image/gif" => (le(content, 6, 2)?, le(content, 8, 2)?),
        "image/jpeg" => jpeg(content)?,
        _ => webp(content)?,
    };
    (width > 0 && height > 0).then_some((width, height))
}

/// A number of so many bytes, the highest first.
fn be(content: &[u8], at: usize, bytes: usize) -> Option<u32> {
    let part = content.get(at..at.checked_add(bytes)?)?;
    Some(part.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

/// The same, the lowest first.
fn le(content: &[u8], at: usize, bytes: usize) -> Option<u32> {
    let part = content.get(at..at.checked_add(bytes)?)?;
    Some(part.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

/// The frame header (SOF) holds the size; segments before it are passed over by their length.
fn jpeg(content: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        if *content.get(at)? != 0xff {
            return None;
        }
        let marker = *content.get(at + 1)?;
        match marker {
            // A fill byte, and markers without a length.
            0xff => at += 1,
            0x01 | 0xd0..=0xd8 => at += 2,
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                return Some((be(content, at + 7, 2)?, be(content, at + 5, 2)?));
            }
            // The end, or the picture itself without a frame.
            0xd9 | 0xda => return None,
            _ => at += 2 + usize::try_from(be(content, at + 2, 2)?).ok()?,
        }
    }
}

/// The three kinds of WebP files (RFC 9649).
fn webp(content: &[u8]) -> Option<(u32, u32)> {
    match content.get(12..16)? {
        b"VP8 " => Some((le(content, 26, 2)? & 0x3fff, le(content, 28, 2)? & 0x3fff)),
        b"VP8L" => {
            let bits = le(content, 21, 4)?;
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => Some((le(content, 24, 3)? + 1, le(content, 27, 3)? + 1)),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One pixel.
    pub(in crate::tools) const PNG: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    pub(in crate::tools) const GIF: &str = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";
    pub(in crate::tools) const WEBP: &str = "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==";
    /// The header of one of 640 × 480.
    pub(in crate::tools) const JPEG: [u8; 23] = [
        0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xff, 0xc0, 0, 11, 8, 0x01, 0xe0, 0x02, 0x80, 1, 1, 0x11,
        0, 0,
    ];

    #[test]
    fn images_are_measured() {
        let png = STANDARD.decode(PNG).expect("base64");
        assert_eq!(size("image/png", &png), Some((1, 1)));
        assert_eq!(size("image/gif", &STANDARD.decode(GIF).expect("base64")), Some((1, 1)));
        assert_eq!(size("image/webp", &STANDARD.decode(WEBP).expect("base64")), Some((1, 1)));
        assert_eq!(size("image/jpeg", &JPEG), Some((640, 480)));
        let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x80\x02\xe0\x41";
        assert_eq!(size("image/webp", lossy), Some((640, 480)));
        let extended = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x7f\x02\0\xdf\x01\0";
        assert_eq!(size("image/webp", extended), Some((640, 480)));
        for end in 0..JPEG.len() - 6 {
            assert_eq!(size("image/jpeg", &JPEG[..end]), None, "{end}");
        }
        assert_eq!(size("image/png", &png[..20]), None);
    }

    #[test]
    fn what_a_provider_would_refuse_is_refused_here() {
        let mut png = STANDARD.decode(PNG).expect("base64");
        assert!(block(&png).is_ok());
        png[18] = 0x1f;
        png[19] = 0x41;
        let wide = "is 8001 × 1 pixels, and at most 8000 on each side can be shown; scale it down first";
        assert_eq!(block(&png), Err(wide.to_owned()));
        png.truncate(20);
        assert_eq!(block(&png), Err("is damaged or no real image/png, so it was not shown".to_owned()));
        assert_eq!(block(b"text"), Err("is no PNG, JPEG, GIF or WebP image".to_owned()));
        assert!(of_base64("iVBO\nRw*").is_err_and(|why| why.starts_with("is not valid base64: ")));
        assert!(of_base64(&format!(" {}\n{}", &PNG[..20], &PNG[20..])).is_ok());
    }
}
