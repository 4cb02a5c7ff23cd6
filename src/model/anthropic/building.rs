//! One content block while its pieces come in.
//!
//! Owns how pieces become a [`Block`]. Promises that thinking, signatures and tool inputs are kept as
//! they were sent, and that blocks of types we do not know pass through.

use crate::model::calls::{Malformed, is_object};
use crate::wire::block::{Block, BlockKind, NotABlock};
use crate::wire::open::RawMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::fmt::Write as _;

/// A piece for display.
pub(super) enum Piece {
    /// Nothing to show.
    None,
    /// Text.
    Text(String),
    /// Thinking.
    Thinking(String),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Start {
    #[serde(rename = "type")]
    kind: String,
    text: String,
    thinking: String,
    signature: String,
    citations: Option<Vec<Box<RawValue>>>,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(default)]
    text: String,
    #[serde(default)]
    thinking: String,
    #[serde(default)]
    signature: String,
    #[serde(default)]
    partial_json: String,
    citation: Option<Box<RawValue>>,
}

/// The block so far.
pub(super) enum Building {
    /// `text`, and where it comes from, entry by entry as it came
    Text { text: String, citations: Vec<Box<RawValue>> },
    /// `thinking`; its text may be empty while the signature is not
    Thinking { text: String, signature: String },
    /// Everything else: the block as it began, and the JSON text of its input as far as it came.
    Raw { start: Block, input: String },
}

impl Building {
    /// Begins with the `content_block` of `content_block_start`.
    pub(super) fn begin(raw: Box<RawValue>) -> Result<Self, NotABlock> {
        let start = Block::from_raw(raw)?;
        let known: Start = serde_json::from_str(start.raw()).unwrap_or_default();
        Ok(match start.kind() {
            BlockKind::Text => {
                Self::Text { text: known.text, citations: known.citations.unwrap_or_default() }
            }
            BlockKind::Thinking if known.kind == "thinking" => {
                Self::Thinking { text: known.thinking, signature: known.signature }
            }
            _ => Self::Raw { start, input: String::new() },
        })
    }

    /// Takes the `delta` of a `content_block_delta`; one of a type we do not know changes nothing. Also
    /// says how many bytes it brought.
    pub(super) fn add(&mut self, raw: &RawValue) -> Result<(Piece, usize), serde_json::Error> {
        let delta: Delta = serde_json::from_str(raw.get())?;
        let cited = delta.citation.as_ref().map_or(0, |citation| citation.get().len());
        let size = delta.text.len()
            + delta.thinking.len()
            + delta.signature.len()
            + delta.partial_json.len()
            + cited;
        let piece = match self {
            Self::Text { text, citations } => {
                text.push_str(&delta.text);
                citations.extend(delta.citation);
                if delta.text.is_empty() { Piece::None } else { Piece::Text(delta.text) }
            }
            Self::Thinking { text, signature } => {
                text.push_str(&delta.thinking);
                signature.push_str(&delta.signature);
                if delta.thinking.is_empty() { Piece::None } else { Piece::Thinking(delta.thinking) }
            }
            Self::Raw { input, .. } => {
                input.push_str(&delta.partial_json);
                Piece::None
            }
        };
        Ok((piece, size))
    }

    /// The text so far.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text { text, .. } => text,
            _ => "",
        }
    }

    /// The tool's name, when this is a call.
    pub(super) fn tool(&self) -> Option<String> {
        match self {
            Self::Raw { start, .. } => start.as_tool_use().map(|call| call.name),
            _ => None,
        }
    }

    /// The finished block; `None` for one that the API would refuse to read back (blank text, thinking
    /// that is empty and unsigned).
    pub(super) fn finish(self) -> Result<(Option<Block>, Option<Malformed>), NotABlock> {
        match self {
            Self::Text { text, .. } if text.trim().is_empty() => Ok((None, None)),
            Self::Text { text, citations } => Ok((Some(cited(&text, &citations)?), None)),
            Self::Thinking { text, signature } => {
                let kept = !(text.is_empty() && signature.is_empty());
                Ok((kept.then(|| Block::thinking(&text, &signature)), None))
            }
            Self::Raw { start, input } if start.kind() == BlockKind::ToolUse => finish_call(start, input),
            Self::Raw { start, input } if input.trim().is_empty() => Ok((Some(start), None)),
            Self::Raw { start, input } => Ok((Some(with_input(&start, &input)?), None)),
        }
    }
}

/// A text with its sources, which the API wants back as they were.
fn cited(text: &str, citations: &[Box<RawValue>]) -> Result<Block, NotABlock> {
    if citations.is_empty() {
        return Ok(Block::text(text));
    }
    let list: Vec<&str> = citations.iter().map(|citation| citation.get()).collect();
    let text = serde_json::Value::from(text);
    Block::parse(&format!(r#"{{"type":"text","text":{text},"citations":[{}]}}"#, list.join(",")))
}

fn finish_call(start: Block, input: String) -> Result<(Option<Block>, Option<Malformed>), NotABlock> {
    if input.trim().is_empty() {
        // Nothing was streamed: the call has no input, or brought it whole at the start.
        let whole = start.as_tool_use().filter(|call| is_object(call.input.get()));
        return Ok((Some(if whole.is_some() { start } else { with_input(&start, "{}")? }), None));
    }
    if is_object(&input) {
        return Ok((Some(with_input(&start, &input)?), None));
    }
    let block = with_input(&start, "{}")?;
    let id = block.as_tool_use().map(|call| call.id).unwrap_or_default();
    Ok((Some(block), Some((id, input))))
}

/// The block with `input` in place of what it began with, its other members as they came.
fn with_input(start: &Block, input: &str) -> Result<Block, NotABlock> {
    let members: RawMap = serde_json::from_str(start.raw()).unwrap_or_default();
    let mut text = String::with_capacity(start.raw().len() + input.len() + 16);
    let others = members.0.iter().filter(|(name, _)| name != "input");
    for (name, value) in others.map(|(n, v)| (n, v.get())).chain([(&"input".to_owned(), input)]) {
        text.push(if text.is_empty() { '{' } else { ',' });
        // Writing into a String cannot fail.
        let _ = write!(text, "{}:{value}", serde_json::Value::from(name.as_str()));
    }
    text.push('}');
    Block::parse(&text)
}
