//! A Messages API request as bytes: the frozen prefix, then the blocks as they are.
//!
//! Owns the order of fields and where cache markers go. Promises that two requests with the same
//! prefix and the same first messages begin with the same bytes, markers aside, and that nothing is
//! copied or encoded again but names and numbers. Blocks of other wires are left out.

use crate::model::body::{self, Segments};
use crate::model::foreign::is_foreign_to_messages;
use crate::model::provider::{Anchor, ModelRequest, PromptPrefix, ToolDeclaration};
use crate::model::search::{Bounds, MAX_SEARCHES};
use crate::wire::block::{Block, BlockKind, Role};
use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeSet;

/// Markers in the conversation; with the one on the system prompt the API's limit of four is reached.
const CONVERSATION_MARKERS: usize = 3;
/// Takes the place of the `}` that ends a marked block.
const MARKER: &str = r#","cache_control":{"type":"ephemeral"}}"#;

fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// The `tools` array. A description that is empty is left out.
pub(in crate::model) fn tools(declarations: &[ToolDeclaration]) -> String {
    let list: Vec<String> = declarations
        .iter()
        .map(|tool| {
            let description = if tool.description.trim().is_empty() {
                String::new()
            } else {
                format!(r#""description":{},"#, json(&tool.description))
            };
            format!(r#"{{"name":{},{description}"input_schema":{}}}"#, json(&tool.name), tool.schema)
        })
        .collect();
    format!("[{}]", list.join(","))
}

/// The `tools` array of a request that searches the web.
/// See <https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool>.
pub(in crate::model) fn search_tools(bounds: &Bounds) -> String {
    let domains = |name: &str, list: &Vec<String>| {
        if list.is_empty() { String::new() } else { format!(r#","{name}":{}"#, json(list)) }
    };
    format!(
        r#"[{{"type":"web_search_20250305","name":"web_search","max_uses":{MAX_SEARCHES}{}{}}}]"#,
        domains("allowed_domains", &bounds.allowed),
        domains("blocked_domains", &bounds.blocked)
    )
}

/// The system prompt as one text block, or nothing when it is blank (the API refuses blank text).
pub(in crate::model) fn system(prompt: &str) -> String {
    if prompt.trim().is_empty() { String::new() } else { Block::text(prompt).raw().to_owned() }
}

/// The whole body.
pub(super) fn segments(request: &ModelRequest) -> Segments {
    let mut out = Segments::default();
    head(&mut out, &request.prefix);
    let marked = marked(request);
    let mut first = true;
    for (i, message) in request.messages.iter().enumerate() {
        let own = message.blocks.iter().enumerate().filter(|(_, block)| !is_foreign_to_messages(block));
        let mut open = false;
        for (j, block) in own {
            out.fixed(match (open, first, message.role) {
                (true, ..) => ",",
                (_, true, Role::User) => r#"{"role":"user","content":["#,
                (_, true, Role::Assistant) => r#"{"role":"assistant","content":["#,
                (_, false, Role::User) => r#"]},{"role":"user","content":["#,
                (_, false, Role::Assistant) => r#"]},{"role":"assistant","content":["#,
            });
            (open, first) = (true, false);
            push_block(&mut out, body::block(block), marked.contains(&(i, j)));
        }
    }
    out.fixed(if first { "]}" } else { "]}]}" });
    out
}

fn head(out: &mut Segments, prefix: &PromptPrefix) {
    out.push(Bytes::from(format!(
        r#"{{"model":{},"max_tokens":{}"#,
        json(&prefix.model),
        prefix.max_output_tokens
    )));
    if let Some(thinking) = &prefix.thinking {
        out.fixed(r#","thinking":"#);
        out.push(body::shared(thinking));
    }
    if let Some(effort) = &prefix.effort {
        out.fixed(r#","output_config":"#);
        out.push(body::shared(effort));
    }
    out.fixed(r#","stream":true"#);
    if &*prefix.tools != "[]" {
        out.fixed(r#","tools":"#);
        out.push(body::shared(&prefix.tools));
    }
    if !prefix.system.is_empty() {
        out.fixed(r#","system":["#);
        push_block(out, body::shared(&prefix.system), true);
        out.fixed("]");
    }
    out.fixed(r#","messages":["#);
}

fn push_block(out: &mut Segments, bytes: Bytes, mark: bool) {
    match bytes.strip_suffix(b"}") {
        Some(open) if mark => {
            out.push(bytes.slice(..open.len()));
            out.fixed(MARKER);
        }
        _ => out.push(bytes),
    }
}

/// Message and block of each marker: the anchors' own, or the nearest block before it in the same
/// message that may carry one.
fn marked(request: &ModelRequest) -> BTreeSet<(usize, usize)> {
    let first = request.anchors.len().saturating_sub(CONVERSATION_MARKERS);
    request.anchors[first..].iter().filter_map(|anchor| place(request, *anchor)).collect()
}

fn place(request: &ModelRequest, anchor: Anchor) -> Option<(usize, usize)> {
    let blocks = &request.messages.get(anchor.message)?.blocks;
    let last = anchor.block.unwrap_or(usize::MAX).min(blocks.len().checked_sub(1)?);
    let block = (0..=last).rev().find(|&j| may_carry_marker(&blocks[j]))?;
    Some((anchor.message, block))
}

/// Thinking may not be marked, and a block that came with a marker of its own keeps that one.
fn may_carry_marker(block: &Block) -> bool {
    block.kind() != BlockKind::Thinking && !is_foreign_to_messages(block) && !has_own_marker(block)
}

fn has_own_marker(block: &Block) -> bool {
    #[derive(serde::Deserialize)]
    struct Marked {
        cache_control: Option<Box<RawValue>>,
    }
    block.raw().contains("cache_control")
        && serde_json::from_str::<Marked>(block.raw()).is_ok_and(|m| m.cache_control.is_some())
}
