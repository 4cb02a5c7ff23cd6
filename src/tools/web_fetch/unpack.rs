//! Pages that came compressed, although they were asked for as they are.
//!
//! Reads no further than its bound, however much a few bytes unpack to.

use brotli_decompressor::Decompressor;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use std::io::{ErrorKind, Read};

/// Bytes that the decompressor takes in at once.
const PIECE: usize = 16 * 1024;
/// Encodings that are taken one in another; an honest server uses one.
const MAX_LAYERS: usize = 3;

/// The body as it was before it was encoded, and whether some of it is missing. `encoding` is the header in
/// lower case, the last one applied last (RFC 9110 §8.4); `cut` says that the body is only a beginning.
///
/// # Errors
/// Why it cannot be unpacked, as the end of a sentence that begins with the host.
pub(super) fn unpack(
    encoding: &str,
    body: Vec<u8>,
    cut: bool,
    most: usize,
) -> Result<(Vec<u8>, bool), String> {
    let layers: Vec<&str> =
        encoding.split(',').map(str::trim).filter(|layer| !matches!(*layer, "" | "identity")).collect();
    if layers.len() > MAX_LAYERS {
        return Err(format!("sent the page compressed {} times", layers.len()));
    }
    let mut page = (body, cut);
    for layer in layers.into_iter().rev() {
        let (body, cut) = &page;
        let body = body.as_slice();
        page = match layer {
            "gzip" | "x-gzip" => bounded(MultiGzDecoder::new(body), *cut, most),
            // What the standard calls so is zlib's format; some send it bare.
            "deflate" => bounded(ZlibDecoder::new(body), *cut, most)
                .or_else(|_| bounded(DeflateDecoder::new(body), *cut, most)),
            "br" => bounded(Decompressor::new(body, PIECE), *cut, most),
            other => return Err(format!("sent the page in an encoding that is not understood ({other})")),
        }
        .map_err(|error| format!("sent the page compressed ({layer}), and it cannot be unpacked: {error}"))?;
    }
    Ok(page)
}

/// At most `most` bytes; of a body that is only a beginning, as much as can be had.
fn bounded(mut from: impl Read, cut: bool, most: usize) -> std::io::Result<(Vec<u8>, bool)> {
    let mut out = Vec::new();
    let mut piece = [0; PIECE];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok((out, cut)),
            Ok(count) => {
                let room = most - out.len();
                out.extend_from_slice(&piece[..count.min(room)]);
                if count > room {
                    return Ok((out, true));
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) if cut && !out.is_empty() => return Ok((out, true)),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use std::io::Write;

    /// `hello hello hello` as zlib of Node.js (brotliCompressSync) writes it.
    const BROTLI: [u8; 20] = [
        0x1b, 0x10, 0x00, 0xf8, 0x8d, 0x94, 0x6e, 0xde, 0x44, 0x55, 0x86, 0x96, 0x6c, 0x20, 0x6f, 0x01, 0x4f,
        0x1c, 0x60, 0x1c,
    ];

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(data).expect("writes");
        encoder.finish().expect("ends")
    }

    #[test]
    fn every_encoding_of_the_web_is_read() {
        let text = b"hello hello hello".to_vec();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(&text).expect("writes");
        let zlib = zlib.finish().expect("ends");
        let mut bare = DeflateEncoder::new(Vec::new(), Compression::default());
        bare.write_all(&text).expect("writes");
        let bare = bare.finish().expect("ends");
        for (encoding, body) in [
            ("", text.clone()),
            ("identity", text.clone()),
            ("gzip", gzip(&text)),
            ("x-gzip", gzip(&text)),
            ("deflate", zlib.clone()),
            ("deflate", bare),
            ("br", BROTLI.to_vec()),
            ("deflate, gzip", gzip(&zlib)),
        ] {
            assert_eq!(unpack(encoding, body, false, 1000), Ok((text.clone(), false)), "{encoding}");
        }
    }

    #[test]
    fn what_unpacks_without_end_or_is_broken_does_no_harm() {
        let bomb = gzip(&gzip(&vec![0; 50_000_000]));
        let (page, cut) = unpack("gzip, gzip", bomb, false, 100_000).expect("unpacks");
        assert_eq!((page.len(), cut), (100_000, true));
        let whole = gzip(b"hello");
        let half = whole[..whole.len() - 9].to_vec();
        assert!(unpack("gzip", half.clone(), false, 1000).is_err());
        assert!(unpack("gzip", half, true, 1000).is_ok_and(|(page, cut)| cut && b"hello".starts_with(&page)));
        for (encoding, why) in [
            ("br", "sent the page compressed (br), and it cannot be unpacked: "),
            ("gzip", "sent the page compressed (gzip), and it cannot be unpacked: "),
            ("zstd", "sent the page in an encoding that is not understood (zstd)"),
            ("gzip,gzip,gzip,gzip", "sent the page compressed 4 times"),
        ] {
            let error = unpack(encoding, b"\xff\xffplain".to_vec(), false, 1000).expect_err(encoding);
            assert!(error.starts_with(why), "{error}");
        }
    }
}
