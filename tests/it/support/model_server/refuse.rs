//! What the service refuses, in the words of a test that fails.
//!
//! From the vendor's reference and the errors it gives, and one thing more: what an assistant message
//! says must be what this server said.

use super::Request;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

const FIELDS: [&str; 13] = [
    "model",
    "messages",
    "max_tokens",
    "system",
    "tools",
    "tool_choice",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "stream",
    "metadata",
    "thinking",
];
const BLOCK_FIELDS: [(&str, &[&str]); 9] = [
    ("text", &["type", "text", "cache_control", "citations"]),
    ("tool_use", &["type", "id", "name", "input", "cache_control"]),
    ("server_tool_use", &["type", "id", "name", "input", "cache_control"]),
    ("web_search_tool_result", &["type", "tool_use_id", "content", "cache_control"]),
    ("tool_result", &["type", "tool_use_id", "content", "is_error", "cache_control"]),
    ("thinking", &["type", "thinking", "signature"]),
    ("redacted_thinking", &["type", "data"]),
    ("image", &["type", "source", "cache_control"]),
    ("document", &["type", "source", "title", "context", "citations", "cache_control"]),
];

/// What the server has said: blocks by id, signatures by their thinking.
#[derive(Default)]
pub struct Issued {
    calls: BTreeMap<String, Value>,
    redacted: BTreeSet<String>,
    paused: Vec<Value>,
}

impl Issued {
    /// Remembers a reply that was paused: its message may end the conversation.
    pub fn pause(&mut self, blocks: &[Value]) {
        self.paused.push(blocks.into());
    }

    /// Remembers the blocks of a reply.
    pub fn note(&mut self, blocks: &[Value]) {
        for block in blocks {
            if let Some(id) = block["id"].as_str() {
                self.calls.insert(id.to_owned(), block.clone());
            }
            if let Some(data) = block["data"].as_str() {
                self.redacted.insert(data.to_owned());
            }
        }
    }
}

/// The signature of a thinking block.
pub fn signature(thinking: &str) -> String {
    let digest = Sha256::digest(format!("signed: {thinking}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

type Refusal = Result<(), String>;

fn check(fine: bool, why: impl FnOnce() -> String) -> Refusal {
    if fine { Ok(()) } else { Err(why()) }
}

fn blank(text: &Value) -> bool {
    text.as_str().is_none_or(|t| t.trim().is_empty())
}

fn extra<'a>(object: &'a Value, allowed: &[&str]) -> Option<&'a String> {
    object.as_object()?.keys().find(|k| !allowed.contains(&k.as_str()))
}

/// Why the service would refuse this request.
pub fn request(request: &Request, issued: &Issued) -> Refusal {
    let header = |name: &str| request.headers.get(name).map(String::as_str).unwrap_or_default();
    check(header("anthropic-version") == "2023-06-01", || "anthropic-version: header is required".into())?;
    check(header("content-type").starts_with("application/json"), || "content-type: unsupported".into())?;
    check(header("content-length").parse() == Ok(request.raw.len()), || "content-length: required".into())?;
    let body = &request.body;
    check(body.is_object(), || "the body is not a JSON object".into())?;
    if let Some(key) = extra(body, &FIELDS) {
        return Err(format!("{key}: extra inputs are not permitted"));
    }
    check(!blank(&body["model"]), || "model: field required".into())?;
    check(body["max_tokens"].as_u64().is_some_and(|n| n > 0), || "max_tokens: field required".into())?;
    check(body["stream"] == true, || "stream: this server only streams".into())?;
    let marks = markers(body);
    check(marks <= 4, || format!("at most 4 blocks with cache_control; found {marks}"))?;
    if let Some(declared) = body.get("tools") {
        tools(declared)?;
    }
    for (i, block) in body["system"].as_array().into_iter().flatten().enumerate() {
        check(!blank(&block["text"]), || format!("system.{i}: text content blocks must be non-empty"))?;
    }
    thinking(body)?;
    let list = body["messages"].as_array().ok_or("messages: field required")?;
    messages(list)?;
    let goes_on = |m: &Value| m["role"] == "user" || issued.paused.contains(&bare(&m["content"]));
    check(list.last().is_some_and(goes_on), || "the conversation must end with a user message".into())?;
    list.iter().flat_map(|m| m["content"].as_array().into_iter().flatten()).try_for_each(|b| own(b, issued))
}

/// Blocks without their cache markers.
fn bare(blocks: &Value) -> Value {
    let mut bare = blocks.clone();
    for block in bare.as_array_mut().into_iter().flatten() {
        block.as_object_mut().map(|block| block.remove("cache_control"));
    }
    bare
}

fn thinking(body: &Value) -> Refusal {
    let settings = &body["thinking"];
    if settings["type"] != "enabled" {
        return Ok(());
    }
    let budget = settings["budget_tokens"].as_u64().unwrap_or(0);
    check(budget >= 1024, || "thinking.budget_tokens: at least 1024".into())?;
    check(body["max_tokens"].as_u64() > Some(budget), || {
        "max_tokens: more than thinking.budget_tokens".into()
    })
}

/// A block of the assistant must be as this server sent it.
fn own(block: &Value, issued: &Issued) -> Refusal {
    match block["type"].as_str() {
        Some("tool_use") => {
            let id = block["id"].as_str().unwrap_or_default();
            let sent = issued.calls.get(id).ok_or(format!("call {id} was never made"))?;
            // Input that was no object had to be replaced by something.
            let same = !sent["input"].is_object() || sent["input"] == block["input"];
            check(same && sent["name"] == block["name"], || format!("call {id} was {sent}, now {block}"))
        }
        Some("thinking") => {
            let sent = signature(block["thinking"].as_str().unwrap_or_default());
            check(block["signature"] == Value::String(sent), || {
                "invalid `signature` in `thinking` block".into()
            })
        }
        Some("redacted_thinking") => {
            let data = block["data"].as_str().unwrap_or_default();
            check(issued.redacted.contains(data), || "invalid `data` in `redacted_thinking` block".into())
        }
        _ => Ok(()),
    }
}

/// Blocks with a cache marker, anywhere but in what tools declare or are given.
fn markers(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.iter().map(markers).sum(),
        Value::Object(map) => {
            let own = usize::from(map.get("cache_control").is_some_and(Value::is_object));
            let below = map.iter().filter(|(k, _)| !matches!(k.as_str(), "input" | "input_schema"));
            own + below.map(|(_, v)| markers(v)).sum::<usize>()
        }
        _ => 0,
    }
}

fn tools(tools: &Value) -> Refusal {
    let list = tools.as_array().ok_or("tools: a list")?;
    let mut names = BTreeSet::new();
    for (i, tool) in list.iter().enumerate() {
        let name = tool["name"].as_str().unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let fits = (1..=128).contains(&name.len()) && name.chars().all(plain);
        check(fits, || format!("tools.{i}.name: must match ^[a-zA-Z0-9_-]{{1,128}}$"))?;
        check(names.insert(name), || format!("tools.{i}.name: {name} twice"))?;
        if tool["type"] == "web_search_20250305" {
            let known = ["type", "name", "max_uses", "allowed_domains", "blocked_domains"];
            check(name == "web_search" && extra(tool, &known).is_none(), || format!("tools.{i}: {tool}"))?;
            continue;
        }
        check(tool["input_schema"]["type"] == "object", || {
            format!("tools.{i}.input_schema: must be an object's")
        })?;
    }
    Ok(())
}

/// Why a history would be refused. It may end with either side.
pub fn messages(messages: &[Value]) -> Refusal {
    check(messages.first().is_some_and(|m| m["role"] == "user"), || {
        "the first message must be the user's".into()
    })?;
    let mut open: Vec<String> = Vec::new();
    let mut ids = BTreeSet::new();
    let mut previous = "user";
    for (i, message) in messages.iter().enumerate() {
        if let Some(key) = extra(message, &["role", "content"]) {
            return Err(format!("messages.{i}.{key}: extra inputs are not permitted"));
        }
        let role = message["role"].as_str().unwrap_or_default();
        let blocks = message["content"].as_array().filter(|b| !b.is_empty());
        let blocks =
            blocks.ok_or_else(|| format!("messages.{i}: content must be a list that is not empty"))?;
        for (j, block) in blocks.iter().enumerate() {
            shape(block).map_err(|why| format!("messages.{i}.content.{j}: {why}"))?;
        }
        let outcome = match role {
            "user" => user(blocks, &open).map(|()| Vec::new()),
            "assistant" if previous == "assistant" => Err("two answers in a row".into()),
            "assistant" => assistant(blocks, &open, &mut ids),
            other => Err(format!("role {other:?}")),
        };
        open = outcome.map_err(|why| format!("messages.{i}: {why}"))?;
        previous = role;
    }
    Ok(())
}

fn shape(block: &Value) -> Refusal {
    let kind = block["type"].as_str().unwrap_or_default();
    let fields = BLOCK_FIELDS.iter().find(|(name, _)| *name == kind).map(|(_, fields)| fields);
    let fields = fields.ok_or_else(|| format!("unknown type {kind:?}"))?;
    match extra(block, fields) {
        Some(key) => Err(format!("{key}: extra inputs are not permitted")),
        None => check(kind != "text" || !blank(&block["text"]), || "text must be non-whitespace".into()),
    }
}

fn user(blocks: &[Value], open: &[String]) -> Refusal {
    let mut answered: BTreeSet<&str> = BTreeSet::new();
    let mut other_seen = false;
    for block in blocks {
        if block["type"] != "tool_result" {
            check(matches!(block["type"].as_str(), Some("text" | "image" | "document")), || {
                format!("a user cannot say {}", block["type"])
            })?;
            other_seen = true;
            continue;
        }
        let id = block["tool_use_id"].as_str().unwrap_or_default();
        check(open.iter().any(|o| o == id), || format!("a result without its call: {id}"))?;
        check(answered.insert(id), || format!("two results for {id}"))?;
        check(!other_seen, || "tool_result blocks must come first".into())?;
        result(block)?;
    }
    match open.iter().find(|id| !answered.contains(id.as_str())) {
        Some(id) => Err(format!("call {id} has no result right after it")),
        None => Ok(()),
    }
}

fn result(block: &Value) -> Refusal {
    if let Some(list) = block["content"].as_array() {
        for part in list {
            check(part["type"] != "text" || !blank(&part["text"]), || "blank text in a result".into())?;
        }
    }
    let empty = block["content"].is_null()
        || block["content"] == ""
        || block["content"].as_array().is_some_and(Vec::is_empty);
    check(block["is_error"] != true || !empty, || "content cannot be empty if is_error is true".into())
}

fn assistant(blocks: &[Value], open: &[String], ids: &mut BTreeSet<String>) -> Result<Vec<String>, String> {
    check(open.is_empty(), || "calls before it have no result".into())?;
    let mut calls = Vec::new();
    for block in blocks {
        match block["type"].as_str().unwrap_or_default() {
            "tool_use" => {
                let id = block["id"].as_str().unwrap_or_default().to_owned();
                check(block["input"].is_object(), || format!("the input of {id} must be an object"))?;
                check(!blank(&block["name"]), || format!("{id} has no name"))?;
                check(ids.insert(id.clone()), || format!("the id {id} is used twice"))?;
                calls.push(id);
            }
            "thinking" => check(!blank(&block["signature"]), || "thinking without a signature".into())?,
            "text" | "redacted_thinking" | "server_tool_use" | "web_search_tool_result" => {}
            other => return Err(format!("an assistant cannot say {other}")),
        }
    }
    let thinks = |b: &Value| b["type"].as_str().is_some_and(|t| t.ends_with("thinking"));
    check(!blocks.iter().all(thinks), || "nothing but thinking".into())?;
    Ok(calls)
}
