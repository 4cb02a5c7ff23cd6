//! A Responses API request as bytes, in its stateless form.
//!
//! Nothing is kept at the provider (`store: false`): every request holds the whole conversation, and the
//! reasoning comes encrypted and goes back byte for byte. Each message is translated on its own by a pure
//! function of its blocks, so that a request begins with the bytes of the one before it. Owns the order
//! of fields.

pub(super) mod assemble;
mod item;

use super::view::{Part, json, outcome, part};
use super::{Sending, names};
use crate::model::body::{self, Segments};
use crate::model::foreign::{PHASE, REASONING, type_of};
use crate::model::provider::{ModelRequest, ToolDeclaration};
use crate::model::search::Bounds;
use crate::wire::block::{Block, BlockKind, ChatMessage, Role};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::fmt::Write as _;

/// The `tools` array. Not `strict`, which would forbid what schemas of tools may hold.
pub(super) fn tools(declarations: &[ToolDeclaration]) -> String {
    let list: Vec<String> = declarations
        .iter()
        .map(|tool| {
            format!(
                r#"{{"type":"function","name":{},"description":{},"parameters":{},"strict":false}}"#,
                json(&names::on_wire(&tool.name)),
                json(&tool.description),
                tool.schema
            )
        })
        .collect();
    format!("[{}]", list.join(","))
}

/// The `tools` array of a request that searches the web. Domains to leave out have no place in it.
/// See <https://developers.openai.com/api/docs/guides/tools-web-search>.
pub(super) fn search_tools(bounds: &Bounds) -> String {
    if bounds.allowed.is_empty() {
        return r#"[{"type":"web_search"}]"#.to_owned();
    }
    let allowed = serde_json::Value::from(bounds.allowed.clone());
    format!(r#"[{{"type":"web_search","filters":{{"allowed_domains":{allowed}}}}}]"#)
}

/// The system prompt as a JSON string, or nothing when it is blank.
pub(super) fn system(prompt: &str) -> String {
    if prompt.trim().is_empty() { String::new() } else { json(prompt) }
}

/// The whole body.
pub(super) fn segments(request: &ModelRequest, sending: &Sending<'_>) -> Segments {
    let prefix = &request.prefix;
    let mut head = format!(r#"{{"model":{},"stream":true,"store":false"#, json(&prefix.model));
    // Writing into a String cannot fail.
    if sending.reasoning {
        head.push_str(r#","include":["reasoning.encrypted_content"]"#);
    }
    if prefix.max_output_tokens > 0 {
        let _ = write!(head, r#","max_output_tokens":{}"#, prefix.max_output_tokens);
    }
    if let Some(thinking) = &prefix.thinking {
        let _ = write!(head, r#","reasoning":{thinking}"#);
    }
    if let Some(key) = &sending.cache_key {
        let _ = write!(head, r#","prompt_cache_key":{}"#, json(key));
    }
    let mut out = Segments::default();
    out.push(Bytes::from(head));
    if !prefix.system.is_empty() {
        out.fixed(r#","instructions":"#);
        out.push(body::shared(&prefix.system));
    }
    if &*prefix.tools != "[]" {
        out.fixed(r#","tools":"#);
        out.push(body::shared(&prefix.tools));
    }
    out.fixed(r#","input":["#);
    let encoded = request.messages.iter().map(|m| sending.encoded.get(m, sending.reasoning, encode));
    let mut first = true;
    for bytes in encoded.filter(|bytes| !bytes.is_empty()) {
        if !first {
            out.fixed(",");
        }
        first = false;
        out.push(bytes);
    }
    out.fixed("]}");
    out
}

/// A message as items, joined by commas; nothing when the wire has no place for any of it.
fn encode(message: &ChatMessage) -> String {
    let items = match message.role {
        Role::User => user(&message.blocks),
        Role::Assistant => assistant(&message.blocks),
    };
    items.join(",")
}

fn user(blocks: &[Block]) -> Vec<String> {
    let mut items: Vec<String> = blocks
        .iter()
        .filter_map(outcome)
        .map(|result| {
            let output = if result.images.is_empty() {
                json(&result.text)
            } else {
                let images = result.images.into_iter().map(Part::Image);
                list(&std::iter::once(Part::Text(result.text)).chain(images).collect::<Vec<_>>())
            };
            format!(r#"{{"type":"function_call_output","call_id":{},"output":{output}}}"#, json(&result.id))
        })
        .collect();
    let parts: Vec<Part> = blocks.iter().filter(|b| b.kind() != BlockKind::ToolResult).map(part).collect();
    if !parts.is_empty() {
        items.push(format!(r#"{{"type":"message","role":"user","content":{}}}"#, list(&parts)));
    }
    items
}

fn list(parts: &[Part]) -> String {
    let parts: Vec<String> = parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => format!(r#"{{"type":"input_text","text":{}}}"#, json(text)),
            Part::Image(url) => format!(r#"{{"type":"input_image","image_url":{}}}"#, json(url)),
        })
        .collect();
    format!("[{}]", parts.join(","))
}

fn assistant(blocks: &[Block]) -> Vec<String> {
    let mut items = Vec::new();
    let mut phase = None;
    for (i, block) in blocks.iter().enumerate() {
        if let Some(text) = block.as_text() {
            let marked = phase.take().map(|p| format!(r#""phase":{p},"#)).unwrap_or_default();
            items.push(format!(
                r#"{{"type":"message","role":"assistant",{marked}"content":[{{"type":"output_text","text":{}}}]}}"#,
                json(&text)
            ));
        } else if let Some(call) = block.as_tool_use() {
            items.push(format!(
                r#"{{"type":"function_call","call_id":{},"name":{},"arguments":{}}}"#,
                json(&call.id),
                json(&names::on_wire(&call.name)),
                json(call.input.get())
            ));
        } else if block.kind() == BlockKind::Other {
            match type_of(block).as_str() {
                REASONING if may_return(block) && leads_to_something(&blocks[i + 1..]) => {
                    items.push(block.raw().to_owned());
                }
                PHASE => phase = phase_of(block),
                _ => {}
            }
        }
    }
    items
}

/// Whether a reasoning item says all by itself; without its content the provider would look it up, and
/// nothing is stored there.
fn may_return(block: &Block) -> bool {
    #[derive(Deserialize)]
    struct Reasoning {
        encrypted_content: Option<String>,
        content: Option<Vec<Box<RawValue>>>,
    }
    serde_json::from_str::<Reasoning>(block.raw()).is_ok_and(|item| {
        item.encrypted_content.is_some_and(|text| !text.is_empty())
            || item.content.is_some_and(|list| !list.is_empty())
    })
}

/// The API refuses reasoning without the text or call that it led to, as in an answer that was cut.
fn leads_to_something(after: &[Block]) -> bool {
    after.iter().any(|block| matches!(block.kind(), BlockKind::Text | BlockKind::ToolUse))
}

fn phase_of(block: &Block) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct Marked {
        phase: Box<RawValue>,
    }
    serde_json::from_str::<Marked>(block.raw()).ok().map(|marked| marked.phase)
}
