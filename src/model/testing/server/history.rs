//! What the Messages API refuses, as far as a client of ours could get it wrong.
//!
//! From the vendor's API reference and the errors it gives: every call is answered in the very next
//! message, results stand before text, nothing is blank, at most four cache markers, none on thinking.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const FIELDS: [&str; 7] = ["model", "max_tokens", "thinking", "stream", "tools", "system", "messages"];
const MARKERS: usize = 4;

/// The reason why the service would refuse the request.
pub(super) fn refuse(headers: &BTreeMap<String, String>, body: &[u8]) -> Result<(), String> {
    if headers.get("anthropic-version").map(String::as_str) != Some("2023-06-01") {
        return Err("anthropic-version is missing".to_owned());
    }
    let body: Value = serde_json::from_slice(body).map_err(|e| format!("not JSON: {e}"))?;
    let fields = body.as_object().ok_or("not an object")?;
    if let Some(extra) = fields.keys().find(|k| !FIELDS.contains(&k.as_str())) {
        return Err(format!("{extra}: extra inputs are not permitted"));
    }
    check(body["model"].as_str().is_some_and(|m| !m.is_empty()), "model: required")?;
    check(body["max_tokens"].as_u64().is_some_and(|n| n > 0), "max_tokens: required")?;
    check(body["stream"] == Value::Bool(true), "stream: expected")?;
    if let Some(tools) = body.get("tools") {
        self::tools(tools)?;
    }
    for block in body["system"].as_array().into_iter().flatten() {
        check(!blank(&block["text"]), "system: blank text")?;
    }
    let markers = markers(&body);
    check(markers <= MARKERS, &format!("{markers} blocks with cache_control"))?;
    messages(body["messages"].as_array().ok_or("messages: required")?)
}

fn check(fine: bool, why: &str) -> Result<(), String> {
    if fine { Ok(()) } else { Err(why.to_owned()) }
}

fn blank(text: &Value) -> bool {
    text.as_str().is_none_or(|t| t.trim().is_empty())
}

/// Markers anywhere but in what a tool was given or declares.
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

fn tools(tools: &Value) -> Result<(), String> {
    let list = tools.as_array().filter(|l| !l.is_empty()).ok_or("tools: a list that is not empty")?;
    let mut names = BTreeSet::new();
    for tool in list {
        let name = tool["name"].as_str().ok_or("tools: no name")?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        check(!name.is_empty() && name.len() <= 128 && name.chars().all(plain), "tools: bad name")?;
        check(names.insert(name), "tools: names must be unique")?;
        if tool["type"] == "web_search_20250305" {
            check(name == "web_search" && tool.get("input_schema").is_none(), "tools: web_search")?;
            let both = tool.get("allowed_domains").is_some() && tool.get("blocked_domains").is_some();
            check(!both, "tools: allowed_domains or blocked_domains")?;
            continue;
        }
        check(tool["input_schema"]["type"] == "object", "tools: input_schema must be an object's")?;
    }
    Ok(())
}

fn messages(messages: &[Value]) -> Result<(), String> {
    check(messages.first().is_some_and(|m| m["role"] == "user"), "the first message must be the user's")?;
    check(messages.last().is_some_and(|m| m["role"] == "user"), "the last message must be the user's")?;
    let mut open: Vec<String> = Vec::new();
    let mut known = BTreeSet::new();
    let mut previous = "";
    for (i, message) in messages.iter().enumerate() {
        let keys: Vec<&String> = message.as_object().ok_or("a message is an object")?.keys().collect();
        check(keys == ["content", "role"], &format!("messages.{i}: role and content, nothing else"))?;
        let role = message["role"].as_str().unwrap_or_default();
        check(role == "user" || role == "assistant", &format!("messages.{i}: bad role"))?;
        check(role == "user" || previous != "assistant", &format!("messages.{i}: two answers in a row"))?;
        let blocks = message["content"].as_array().filter(|b| !b.is_empty());
        let blocks = blocks.ok_or(format!("messages.{i}: empty content"))?;
        open = match role {
            "assistant" => answer(i, blocks, &open, &mut known)?,
            _ => question(i, blocks, &open)?,
        };
        previous = role;
    }
    Ok(())
}

/// A user's message; every open call must be answered in it.
fn question(i: usize, blocks: &[Value], open: &[String]) -> Result<Vec<String>, String> {
    let mut answered: Vec<&str> = Vec::new();
    let mut text_seen = false;
    for block in blocks {
        match block["type"].as_str().unwrap_or_default() {
            "tool_result" => {
                let id = block["tool_use_id"].as_str().unwrap_or_default();
                check(open.iter().any(|o| o == id), &format!("messages.{i}: result without call {id}"))?;
                check(!answered.contains(&id), &format!("messages.{i}: two results for {id}"))?;
                check(!text_seen, &format!("messages.{i}: results must come before text"))?;
                let failed = block["is_error"] == Value::Bool(true);
                check(!failed || !blank(&block["content"]) || block["content"].is_array(), "empty error")?;
                answered.push(id);
            }
            "text" => {
                check(!blank(&block["text"]), &format!("messages.{i}: blank text"))?;
                text_seen = true;
            }
            "image" | "document" | "search_result" => {}
            other => return Err(format!("messages.{i}: a user cannot say {other}")),
        }
    }
    match open.iter().find(|id| !answered.contains(&id.as_str())) {
        Some(id) => Err(format!("messages.{i}: call {id} has no result in the next message")),
        None => Ok(Vec::new()),
    }
}

/// A model's message; returns its calls.
fn answer(
    i: usize,
    blocks: &[Value],
    open: &[String],
    known: &mut BTreeSet<String>,
) -> Result<Vec<String>, String> {
    check(open.is_empty(), &format!("messages.{i}: calls without results before it"))?;
    let mut calls = Vec::new();
    let mut only_thinking = true;
    for block in blocks {
        let kind = block["type"].as_str().unwrap_or_default();
        only_thinking &= kind.ends_with("thinking");
        match kind {
            "text" => check(!blank(&block["text"]), &format!("messages.{i}: blank text"))?,
            "tool_use" => {
                let id = block["id"].as_str().unwrap_or_default().to_owned();
                check(block["input"].is_object(), &format!("messages.{i}: input must be an object"))?;
                check(!blank(&block["name"]), &format!("messages.{i}: a call without a name"))?;
                check(known.insert(id.clone()), &format!("messages.{i}: call ids must be unique"))?;
                calls.push(id);
            }
            "thinking" => {
                check(!blank(&block["signature"]), &format!("messages.{i}: invalid signature"))?;
                check(block.get("cache_control").is_none(), &format!("messages.{i}: marker on thinking"))?;
            }
            "redacted_thinking" => {
                check(block.get("cache_control").is_none(), &format!("messages.{i}: marker on thinking"))?;
            }
            _ => {}
        }
    }
    check(!only_thinking, &format!("messages.{i}: nothing but thinking"))?;
    Ok(calls)
}
