//! What the server says: replies, their parts, and the bytes of their events.

use super::Request;
use super::refuse::signature;
use serde_json::{Value, json};
use std::fmt;

/// One piece of a reply.
#[derive(Debug, Clone)]
pub enum Part {
    /// A text block.
    Text(String),
    /// A signed thinking block.
    Thinking(String),
    /// A thinking block that only the service can read.
    Redacted(String),
    /// A tool call: name, the input's exact text, and its id when it has a given one.
    Call {
        /// The tool.
        name: String,
        /// JSON text as the model wrote it.
        input: String,
        /// The id; made up when left out.
        id: Option<String>,
    },
    /// A block as it stands, whole in its first event.
    Block(Value),
    /// Waits until the gate is open.
    Gate(String),
    /// An `error` event, and the end of the stream.
    Error {
        /// `overloaded_error` …
        kind: &'static str,
        /// Its words.
        message: String,
    },
    /// Why the message ends.
    Stop(&'static str),
    /// The connection breaks after this share of the events' bytes, in thousandths.
    Cut(usize),
    /// The same, but the response ends properly.
    End(usize),
    /// The same, but nothing more comes.
    Stall(usize),
    /// Events are sent in chunks of so many bytes.
    Chunk(usize),
}

/// An answer to one request.
pub enum Reply {
    /// A stream.
    Message(Vec<Part>),
    /// An HTTP status with an error body.
    Status {
        /// The status.
        status: u16,
        /// `rate_limit_error` …
        kind: &'static str,
        /// Its words.
        message: String,
        /// More headers.
        headers: Vec<(&'static str, String)>,
    },
    /// The connection is closed without a word.
    HangUp,
    /// What this makes of the request.
    With(Box<dyn Fn(&Request) -> Reply + Send + Sync>),
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(parts) => write!(f, "{parts:?}"),
            Self::Status { status, .. } => write!(f, "{status}"),
            Self::HangUp => write!(f, "hang up"),
            Self::With(_) => write!(f, "…"),
        }
    }
}

impl Reply {
    /// An error status.
    pub fn status(status: u16, kind: &'static str, message: &str) -> Self {
        Self::Status { status, kind, message: message.to_owned(), headers: Vec::new() }
    }

    /// Computed from the request.
    pub fn with(make: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::With(Box::new(make))
    }
}

impl From<Part> for Reply {
    fn from(part: Part) -> Self {
        Self::Message(vec![part])
    }
}

impl<const N: usize> From<[Part; N]> for Reply {
    fn from(parts: [Part; N]) -> Self {
        Self::Message(parts.into())
    }
}

impl From<Vec<Part>> for Reply {
    fn from(parts: Vec<Part>) -> Self {
        Self::Message(parts)
    }
}

/// Text.
pub fn say(text: &str) -> Part {
    Part::Text(text.to_owned())
}

/// Thinking.
pub fn think(text: &str) -> Part {
    Part::Thinking(text.to_owned())
}

/// A tool call.
pub fn call(name: &str, input: Value) -> Part {
    Part::Call { name: name.to_owned(), input: input.to_string(), id: None }
}

/// A tool call with an id that the test knows.
pub fn call_as(id: &str, name: &str, input: Value) -> Part {
    Part::Call { name: name.to_owned(), input: input.to_string(), id: Some(id.to_owned()) }
}

/// A block as it stands.
pub fn block(block: Value) -> Part {
    Part::Block(block)
}

/// A gate.
pub fn gate(name: &str) -> Part {
    Part::Gate(name.to_owned())
}

/// One step of a stream.
pub enum Step {
    /// Bytes to send.
    Bytes(Vec<u8>),
    /// A gate to pass.
    Gate(String),
}

/// How a stream ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As it should, or at least with the last chunk of the response.
    Proper,
    /// In the middle.
    Broken,
    /// Never.
    Silent,
}

/// A whole stream.
pub struct Stream {
    /// What is sent.
    pub steps: Vec<Step>,
    /// How it ends.
    pub end: End,
    /// Bytes of a chunk.
    pub chunk: usize,
}

fn event(name: &str, data: &Value) -> Step {
    Step::Bytes(format!("event: {name}\ndata: {data}\n\n").into_bytes())
}

fn pieces(text: &str, size: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(size).map(|c| c.iter().collect()).collect()
}

/// The content blocks a reply comes to, with ids made by `id`.
pub fn blocks(parts: &[Part], mut id: impl FnMut() -> String) -> Vec<Value> {
    let mut all = Vec::new();
    for part in parts {
        match part {
            Part::Text(text) => all.push(json!({ "type": "text", "text": text })),
            Part::Thinking(text) => {
                all.push(json!({ "type": "thinking", "thinking": text, "signature": signature(text) }));
            }
            Part::Redacted(data) => all.push(json!({ "type": "redacted_thinking", "data": data })),
            Part::Call { name, input, id: given } => {
                let id = given.clone().unwrap_or_else(&mut id);
                let input = serde_json::from_str(input).unwrap_or(Value::Null);
                all.push(json!({ "type": "tool_use", "id": id, "name": name, "input": input }));
            }
            Part::Block(block) => all.push(block.clone()),
            _ => {}
        }
    }
    all
}

/// The events of a reply. `blocks` are its blocks, from [`blocks`].
pub fn stream(parts: &[Part], blocks: &[Value], model: &Value, message_id: &str, usage: &Value) -> Stream {
    let mut started = usage.clone();
    started["output_tokens"] = 1.into();
    let mut steps = vec![
        event(
            "message_start",
            &json!({ "type": "message_start", "message": { "id": message_id, "type": "message", "role": "assistant",
                     "model": model, "content": [], "stop_reason": null, "stop_sequence": null, "usage": started } }),
        ),
        event("ping", &json!({ "type": "ping" })),
    ];
    let mut index = 0;
    let (mut end, mut limit, mut chunk) = (End::Proper, None, usize::MAX);
    let mut stop = if blocks.iter().any(|b| b["type"] == "tool_use") { "tool_use" } else { "end_turn" };
    let mut broke_off = false;
    for part in parts {
        match part {
            Part::Gate(name) => steps.push(Step::Gate(name.clone())),
            Part::Error { kind, message } => {
                steps.push(event(
                    "error",
                    &json!({ "type": "error", "error": { "type": kind, "message": message } }),
                ));
                broke_off = true;
                break;
            }
            Part::Stop(reason) => stop = reason,
            Part::Cut(at) => (limit, end) = (Some(*at), End::Broken),
            Part::End(at) => (limit, end) = (Some(*at), End::Proper),
            Part::Stall(at) => (limit, end) = (Some(*at), End::Silent),
            Part::Chunk(size) => chunk = *size,
            _ => {
                push_block(&mut steps, index, part, &blocks[index]);
                index += 1;
            }
        }
    }
    if !broke_off {
        steps.push(event(
            "message_delta",
            &json!({ "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null }, "usage": usage }),
        ));
        steps.push(event("message_stop", &json!({ "type": "message_stop" })));
    }
    if let Some(share) = limit {
        shorten(&mut steps, share);
    }
    Stream { steps, end, chunk }
}

fn push_block(steps: &mut Vec<Step>, index: usize, part: &Part, block: &Value) {
    let mut start = block.clone();
    let deltas: Vec<Value> = match part {
        Part::Text(text) => {
            start["text"] = "".into();
            pieces(text, 24).into_iter().map(|t| json!({ "type": "text_delta", "text": t })).collect()
        }
        Part::Thinking(text) => {
            start["thinking"] = "".into();
            start["signature"] = "".into();
            let texts =
                pieces(text, 24).into_iter().map(|t| json!({ "type": "thinking_delta", "thinking": t }));
            let signature = json!({ "type": "signature_delta", "signature": block["signature"] });
            texts.chain([signature]).collect()
        }
        Part::Call { input, .. } => {
            start["input"] = json!({});
            let all = [String::new()].into_iter().chain(pieces(input, 17));
            all.map(|t| json!({ "type": "input_json_delta", "partial_json": t })).collect()
        }
        _ => Vec::new(),
    };
    steps.push(event(
        "content_block_start",
        &json!({ "type": "content_block_start", "index": index, "content_block": start }),
    ));
    for delta in deltas {
        let delta = json!({ "type": "content_block_delta", "index": index, "delta": delta });
        steps.push(event("content_block_delta", &delta));
    }
    steps.push(event("content_block_stop", &json!({ "type": "content_block_stop", "index": index })));
}

/// Keeps only so many thousandths of the bytes; always less than all of them.
fn shorten(steps: &mut Vec<Step>, share: usize) {
    let total: usize = steps.iter().map(|s| if let Step::Bytes(b) = s { b.len() } else { 0 }).sum();
    let mut left = (total * share / 1000).min(total.saturating_sub(1));
    steps.retain_mut(|step| match step {
        Step::Gate(_) => left > 0,
        Step::Bytes(bytes) => {
            bytes.truncate(left);
            left -= bytes.len();
            !bytes.is_empty()
        }
    });
}
