//! Keys of model providers, taken out of everything that is written down.
//!
//! Owns what counts as one of our keys and what stands in its place. Promises that nothing else is changed:
//! a text without a key comes out as it went in, byte for byte, and so does one that only looks like it.
//! Short values are no keys: local servers are given words like `none`.

use super::block::{Block, BlockKind};
use std::sync::Arc;

/// Keys are at least so long, in bytes; those of all providers are much longer.
const SHORTEST: usize = 20;
/// What stands in a key's place; safe in JSON as it is.
pub const MASKED: &str = "[key]";

/// The keys that are taken out. Cloning copies a pointer. Its `Debug` form holds none of them.
#[derive(Clone, Default)]
pub struct Mask(Arc<[Box<str>]>);

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mask({} keys)", self.0.len())
    }
}

impl Mask {
    /// For these values; white space around them is not part of a key.
    pub fn new<'k>(values: impl IntoIterator<Item = &'k str>) -> Self {
        let plain = |key: &&str| key.len() >= SHORTEST && key.bytes().all(|b| b.is_ascii_graphic());
        let mut keys: Vec<Box<str>> =
            values.into_iter().map(str::trim).filter(plain).map(Box::from).collect();
        // A key that holds another one goes first.
        keys.sort_by_key(|key| std::cmp::Reverse(key.len()));
        keys.dedup();
        Self(keys.into())
    }

    /// A text without keys.
    pub fn text(&self, text: String) -> String {
        self.0.iter().fold(text, |text, key| match text.contains(&**key) {
            true => text.replace(&**key, MASKED),
            false => text,
        })
    }

    /// A block without keys. `None` when it is one that must not be changed and holds one: the signature of
    /// a model's thinking is over its text.
    pub fn block(&self, block: Block) -> Option<Block> {
        if !self.0.iter().any(|key| block.raw().contains(&**key)) {
            return Some(block);
        }
        match block.kind() {
            BlockKind::Thinking => None,
            _ => {
                Some(Block::parse(&self.text(block.raw().to_owned())).unwrap_or_else(|_| Block::text(MASKED)))
            }
        }
    }

    /// All blocks without keys.
    pub fn blocks(&self, blocks: Vec<Block>) -> Vec<Block> {
        if self.0.is_empty() {
            return blocks;
        }
        blocks.into_iter().filter_map(|block| self.block(block)).collect()
    }

    /// For output that comes in pieces.
    pub fn stream(&self) -> MaskStream {
        MaskStream { mask: self.clone(), held: Vec::new() }
    }
}

/// Takes keys out of output that comes in pieces, also those that lie across two of them.
#[derive(Debug)]
pub struct MaskStream {
    mask: Mask,
    /// What may be the beginning of a key.
    held: Vec<u8>,
}

impl MaskStream {
    /// What of the output so far can be written down.
    pub fn push(&mut self, data: &[u8]) -> Vec<u8> {
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(data);
        for key in self.mask.0.iter() {
            all = without(all, key.as_bytes());
        }
        let begun = |key: &str| {
            let most = all.len().min(key.len() - 1);
            (1..=most).rev().find(|count| all.ends_with(&key.as_bytes()[..*count])).unwrap_or(0)
        };
        let held = self.mask.0.iter().map(|key| begun(key)).max().unwrap_or(0);
        self.held = all.split_off(all.len() - held);
        all
    }

    /// What was held back, once no more comes.
    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

fn without(data: Vec<u8>, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = data.as_slice();
    while let Some(at) = find(rest, key) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(MASKED.as_bytes());
        rest = &rest[at + key.len()..];
    }
    if rest.len() == data.len() {
        return data;
    }
    out.extend_from_slice(rest);
    out
}

fn find(data: &[u8], key: &[u8]) -> Option<usize> {
    let first = *key.first()?;
    let last = data.len().checked_sub(key.len())?;
    let mut from = 0;
    while let Some(at) = data[from..=last].iter().position(|byte| *byte == first) {
        if data[from + at..].starts_with(key) {
            return Some(from + at);
        }
        from += at + 1;
        if from > last {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-test-0123456789-abcdef";

    fn mask() -> Mask {
        Mask::new([KEY, " ollama\n", "", "sk-test-0123456789-abcdef-longer\n", "with a blank in the middle"])
    }

    #[test]
    fn keys_go_and_nothing_else_changes() {
        let mask = mask();
        for (text, expected) in [
            (format!("a {KEY} b {KEY}"), "a [key] b [key]"),
            (format!("{KEY}-longer!"), "[key]!"),
            ("ollama with a blank in the middle".to_owned(), "ollama with a blank in the middle"),
            ("sk-test-0123456789-abcde".to_owned(), "sk-test-0123456789-abcde"),
        ] {
            assert_eq!(mask.text(text), expected);
        }
        assert_eq!(format!("{mask:?}"), "Mask(2 keys)");
    }

    #[test]
    fn blocks_keep_their_bytes_and_signed_ones_with_a_key_go() {
        let mask = mask();
        let odd = Block::parse("{ \"type\":\"text\", \"text\":\"a\\/1e2\" }").expect("block");
        let thinks = |text: &str| Block::thinking(text, "sig");
        let with = Block::parse(&format!(
            r#"{{"type":"tool_use","id":"t","name":"Bash","input":{{"b":1e2,"a":"{KEY}"}}}}"#
        ));
        let masked = mask.blocks(vec![odd.clone(), thinks("x"), thinks(KEY), with.expect("block")]);
        let raw: Vec<&str> = masked.iter().map(Block::raw).collect();
        assert_eq!(raw[..2], [odd.raw(), thinks("x").raw()]);
        assert_eq!(raw[2..], [r#"{"type":"tool_use","id":"t","name":"Bash","input":{"b":1e2,"a":"[key]"}}"#]);
    }

    #[test]
    fn output_in_pieces_is_the_same_as_in_one() {
        let text = format!("ss sk-test {KEY}{KEY} sk-test-0123456789-abcdef-longer end sk-te");
        let whole = mask().text(text.clone());
        for size in 1..text.len() {
            let mut stream = mask().stream();
            let mut out: Vec<u8> =
                text.as_bytes().chunks(size).flat_map(|piece| stream.push(piece)).collect();
            out.extend(stream.finish());
            let out = String::from_utf8(out).expect("text");
            // Whether the shorter key was one or the beginning of the longer is not known in time.
            assert_eq!(out.replace("[key]-longer", "[key]"), whole, "{size}");
        }
        let mut none = Mask::default().stream();
        assert_eq!((none.push(b"abc"), none.finish()), (b"abc".to_vec(), Vec::new()));
    }
}
