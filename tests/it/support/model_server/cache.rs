//! The prompt cache as the vendor documents it, over the exact bytes of the requests.
//!
//! Prefixes in the order tools, system, messages; entries where a block carries a marker; from each
//! marker at most twenty blocks are looked back. Markers themselves are not part of what is cached.

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::collections::HashSet;

/// Blocks that are looked back from a marker, itself included.
const LOOK_BACK: usize = 20;

/// A block of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachePart {
    /// Its bytes and what else decides whether it is the same; without its marker.
    pub bytes: Vec<u8>,
    /// Whether it carries a marker.
    pub marked: bool,
}

/// Input tokens of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Neither read nor written.
    pub input: usize,
    /// Written.
    pub creation: usize,
    /// Read.
    pub read: usize,
}

impl Found {
    /// All input.
    pub fn total(self) -> usize {
        self.input + self.creation + self.read
    }
}

/// What has been cached.
#[derive(Default)]
pub struct Cache {
    entries: HashSet<Vec<u8>>,
}

impl Cache {
    /// Looks a request up and caches what it marks.
    pub fn look(&mut self, parts: &[CachePart]) -> Found {
        let (mut hash, mut total) = (Vec::new(), 0);
        let (mut keys, mut sums) = (Vec::new(), Vec::new());
        for part in parts {
            hash = Sha256::new()
                .chain_update(&hash)
                .chain_update(Sha256::digest(&part.bytes))
                .finalize()
                .to_vec();
            total += part.bytes.len().div_ceil(4);
            keys.push(hash.clone());
            sums.push(total);
        }
        let marks: Vec<usize> = (0..parts.len()).filter(|&i| parts[i].marked).collect();
        let hit = |mark: usize| {
            (mark.saturating_sub(LOOK_BACK - 1)..=mark).rev().find(|&k| self.entries.contains(&keys[k]))
        };
        let best = marks.iter().filter_map(|&mark| hit(mark)).max();
        let read = best.map_or(0, |k| sums[k]);
        let upto = marks.last().map_or(0, |&k| sums[k]);
        self.entries.extend(marks.iter().map(|&k| keys[k].clone()));
        Found { input: total - upto.max(read), creation: upto.saturating_sub(read), read }
    }
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: &'a RawValue,
    #[serde(borrow, default)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tools: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    system: Vec<&'a RawValue>,
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
}

/// The blocks of a request in cache order.
pub fn parts(raw: &[u8]) -> Vec<CachePart> {
    let body: Body<'_> = serde_json::from_slice(raw).expect("a checked request");
    let model = body.model.get();
    // A change of the thinking settings makes messages new, not tools and system.
    let mode = body.thinking.map_or("", RawValue::get);
    let mut all = Vec::new();
    for tool in body.tools {
        all.push(part(&format!("{model} tool"), tool));
    }
    for block in body.system {
        all.push(part(&format!("{model} system"), block));
    }
    for message in body.messages {
        let parsed: Message<'_> = serde_json::from_str(message.get()).expect("a checked message");
        let (before, after) = around(message.get(), parsed.content.get());
        let blocks: Vec<&RawValue> = serde_json::from_str(parsed.content.get()).expect("a list of blocks");
        for block in blocks {
            all.push(part(&format!("{model} {mode} {before}{after}"), block));
        }
    }
    all
}

/// What stands before and after `inner`, a slice of `outer`.
fn around<'a>(outer: &'a str, inner: &str) -> (&'a str, &'a str) {
    let start = inner.as_ptr().addr() - outer.as_ptr().addr();
    (&outer[..start], &outer[start + inner.len()..])
}

fn part(kind: &str, block: &RawValue) -> CachePart {
    let (text, marked) = without_marker(block.get());
    CachePart { bytes: format!("{kind} {text}").into_bytes(), marked }
}

/// A block's bytes without its own `cache_control`, and whether it had one.
pub fn without_marker(block: &str) -> (String, bool) {
    #[derive(Deserialize)]
    struct Marked<'a> {
        #[serde(borrow, default)]
        cache_control: Option<&'a RawValue>,
    }
    let marked: Marked<'_> = serde_json::from_str(block).expect("a block");
    let Some(value) = marked.cache_control else { return (block.to_owned(), false) };
    let (before, after) = around(block, value.get());
    let key = before.rfind("\"cache_control\"").expect("its key");
    let head = before[..key].trim_end();
    match head.strip_suffix(',') {
        Some(head) => (format!("{head}{after}"), true),
        None => (format!("{head}{}", after.trim_start().trim_start_matches(',')), true),
    }
}

#[test]
fn markers_are_cut_out_and_nothing_else() {
    let cut = |text: &str| without_marker(text);
    assert_eq!(
        cut(r#"{"type":"text","text":"\u0041","cache_control":{"type":"ephemeral"}}"#),
        (r#"{"type":"text","text":"\u0041"}"#.to_owned(), true)
    );
    assert_eq!(cut(r#"{"a":1}"#), (r#"{"a":1}"#.to_owned(), false));
}

#[test]
fn a_prefix_is_found_within_twenty_blocks_and_no_further() {
    let block = |n: usize, marked| CachePart { bytes: format!("{n:04}").into_bytes(), marked };
    let request =
        |blocks: usize| -> Vec<CachePart> { (0..blocks).map(|n| block(n, n == blocks - 1)).collect() };
    let mut cache = Cache::default();
    assert_eq!(cache.look(&request(5)), Found { input: 0, creation: 5, read: 0 });
    assert_eq!(cache.look(&request(24)), Found { input: 0, creation: 19, read: 5 });
    let mut cache = Cache::default();
    cache.look(&request(5));
    assert_eq!(cache.look(&request(25)), Found { input: 0, creation: 25, read: 0 });
    let mut changed = request(6);
    changed[2].bytes[0] = b'x';
    assert_eq!(cache.look(&changed), Found { input: 0, creation: 6, read: 0 });
}
