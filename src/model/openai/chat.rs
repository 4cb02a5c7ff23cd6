//! A chat completions request as bytes.
//!
//! Each message is translated on its own by a pure function of its blocks, so that a request begins
//! with the bytes of the one before it. Owns the order of fields. What the wire has no place for is left
//! out (signed thinking, provider's own tools) or named (documents).

pub(super) mod assemble;
mod calls;
mod delta;

use super::view::{Part, json, outcome, part};
use super::{Sending, names};
use crate::model::body::{self, Segments};
use crate::model::foreign;
use crate::model::provider::{ModelRequest, ToolDeclaration};
use crate::wire::block::{Block, BlockKind, ChatMessage, Role};
use bytes::Bytes;
use std::fmt::Write as _;

/// The `tools` array.
pub(super) fn tools(declarations: &[ToolDeclaration]) -> String {
    let list: Vec<String> = declarations
        .iter()
        .map(|tool| {
            format!(
                r#"{{"type":"function","function":{{"name":{},"description":{},"parameters":{}}}}}"#,
                json(&names::on_wire(&tool.name)),
                json(&tool.description),
                tool.schema
            )
        })
        .collect();
    format!("[{}]", list.join(","))
}

/// The system prompt as the first message, or nothing when it is blank.
pub(super) fn system(prompt: &str) -> String {
    if prompt.trim().is_empty() {
        return String::new();
    }
    format!(r#"{{"role":"system","content":{}}}"#, json(prompt))
}

/// The whole body.
pub(super) fn segments(request: &ModelRequest, sending: &Sending<'_>) -> Segments {
    let prefix = &request.prefix;
    let mut head = format!(
        r#"{{"model":{},"stream":true,"stream_options":{{"include_usage":true}}"#,
        json(&prefix.model)
    );
    // Writing into a String cannot fail.
    if prefix.max_output_tokens > 0 {
        let _ = write!(head, r#","max_completion_tokens":{}"#, prefix.max_output_tokens);
    }
    if let Some(effort) = &prefix.effort {
        let _ = write!(head, r#","reasoning_effort":{effort}"#);
    }
    if let Some(key) = &sending.cache_key {
        let _ = write!(head, r#","prompt_cache_key":{}"#, json(key));
    }
    let mut out = Segments::default();
    out.push(Bytes::from(head));
    if &*prefix.tools != "[]" {
        out.fixed(r#","tools":"#);
        out.push(body::shared(&prefix.tools));
    }
    out.fixed(r#","messages":["#);
    let system = (!prefix.system.is_empty()).then(|| body::shared(&prefix.system));
    let encode = |message: &ChatMessage| encode(message, sending.reasoning);
    let rest = request.messages.iter().map(|m| sending.encoded.get(m, sending.reasoning, encode));
    let mut first = true;
    for bytes in system.into_iter().chain(rest).filter(|bytes| !bytes.is_empty()) {
        if !first {
            out.fixed(",");
        }
        first = false;
        out.push(bytes);
    }
    out.fixed("]}");
    out
}

/// A message as one or more of the wire's, joined by commas; nothing when the wire has no place for any
/// of it. `reasoning`: whether the server wants back what it thought.
fn encode(message: &ChatMessage, reasoning: bool) -> String {
    match message.role {
        Role::User => user(&message.blocks),
        Role::Assistant => assistant(&message.blocks, reasoning),
    }
}

/// Results come first, each a message of its own; a `tool` message cannot hold images, so they follow in
/// the user's.
fn user(blocks: &[Block]) -> String {
    let mut messages = Vec::new();
    let mut parts = Vec::new();
    for result in blocks.iter().filter_map(outcome) {
        messages.push(format!(
            r#"{{"role":"tool","tool_call_id":{},"content":{}}}"#,
            json(&result.id),
            json(&result.text)
        ));
        if !result.images.is_empty() {
            parts.push(Part::Text(format!("Images of the result of {}:", result.id)));
            parts.extend(result.images.into_iter().map(Part::Image));
        }
    }
    parts.extend(blocks.iter().filter(|b| b.kind() != BlockKind::ToolResult).map(part));
    match parts.as_slice() {
        [] => {}
        // The form that every server reads.
        [Part::Text(text)] => messages.push(format!(r#"{{"role":"user","content":{}}}"#, json(text))),
        _ => {
            let list: Vec<String> = parts.iter().map(content).collect();
            messages.push(format!(r#"{{"role":"user","content":[{}]}}"#, list.join(",")));
        }
    }
    messages.join(",")
}

fn content(part: &Part) -> String {
    match part {
        Part::Text(text) => format!(r#"{{"type":"text","text":{}}}"#, json(text)),
        Part::Image(url) => format!(r#"{{"type":"image_url","image_url":{{"url":{}}}}}"#, json(url)),
    }
}

fn assistant(blocks: &[Block], reasoning: bool) -> String {
    let texts: Vec<String> = blocks.iter().filter_map(Block::as_text).collect();
    let calls: Vec<String> = blocks
        .iter()
        .filter_map(Block::as_tool_use)
        .map(|call| {
            format!(
                r#"{{"id":{},"type":"function","function":{{"name":{},"arguments":{}}}}}"#,
                json(&call.id),
                json(&names::on_wire(&call.name)),
                json(call.input.get())
            )
        })
        .collect();
    let thought: Vec<String> =
        if reasoning { blocks.iter().filter_map(foreign::thinking).collect() } else { Vec::new() };
    if texts.is_empty() && calls.is_empty() && thought.is_empty() {
        return String::new();
    }
    let text = match (texts.is_empty(), calls.is_empty()) {
        (true, false) => "null".to_owned(),
        _ => json(&texts.join("\n")),
    };
    let mut out = format!(r#"{{"role":"assistant","content":{text}"#);
    // Writing into a String cannot fail.
    if !thought.is_empty() || (reasoning && !calls.is_empty()) {
        // Wanted with every call, even when nothing was thought.
        let _ = write!(out, r#","reasoning_content":{}"#, json(&thought.join("\n")));
    }
    if !calls.is_empty() {
        let _ = write!(out, r#","tool_calls":[{}]"#, calls.join(","));
    }
    out.push('}');
    out
}
