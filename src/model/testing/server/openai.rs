//! What OpenAI's wires refuse, as far as a client of ours could get it wrong.
//!
//! From the vendor's API reference and the errors it gives: every call is answered before anything else
//! is said, names are short and plain, reasoning stands before what it led to.

use serde_json::Value;
use std::collections::BTreeSet;

type Check = Result<(), String>;

fn check(fine: bool, why: impl Into<String>) -> Check {
    if fine { Ok(()) } else { Err(why.into()) }
}

fn only(value: &Value, keys: &[&str], place: &str) -> Check {
    let map = value.as_object().ok_or(format!("{place}: an object"))?;
    match map.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(format!("Unknown parameter: '{place}.{key}'")),
        None => Ok(()),
    }
}

fn text(value: &Value, place: &str) -> Check {
    check(value.as_str().is_some_and(|text| !text.is_empty()), format!("{place}: a text that is not empty"))
}

fn name(value: &Value, place: &str) -> Check {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name = value.as_str().unwrap_or_default();
    check((1..=64).contains(&name.len()) && name.chars().all(plain), format!("{place}: bad name {name:?}"))
}

fn body(bytes: &[u8], keys: &[&str]) -> Result<Value, String> {
    let body: Value = serde_json::from_slice(bytes).map_err(|e| format!("not JSON: {e}"))?;
    only(&body, keys, "body")?;
    text(&body["model"], "model")?;
    check(body["stream"] == Value::Bool(true), "stream: expected")?;
    Ok(body)
}

fn tools(body: &Value, function: impl Fn(&Value) -> &Value) -> Check {
    let Some(tools) = body.get("tools") else { return Ok(()) };
    let list = tools.as_array().filter(|l| !l.is_empty()).ok_or("tools: empty array")?;
    let mut names = BTreeSet::new();
    for tool in list {
        if tool["type"] == "web_search" {
            only(tool, &["type", "filters"], "tools")?;
            continue;
        }
        check(tool["type"] == "function", "tools: a function")?;
        let function = function(tool);
        name(&function["name"], "tools")?;
        check(function["parameters"]["type"] == "object", "tools: parameters of an object")?;
        check(names.insert(function["name"].to_string()), "tools: names must be unique")?;
    }
    Ok(())
}

/// Calls of a conversation.
#[derive(Default)]
struct Calls {
    known: BTreeSet<String>,
    open: Vec<String>,
}

impl Calls {
    fn begin(&mut self, id: &Value, arguments: &Value, place: &str) -> Check {
        text(id, &format!("{place}.id"))?;
        let id = id.as_str().unwrap_or_default().to_owned();
        let input = arguments.as_str().ok_or(format!("{place}: arguments must be a string"))?;
        let object = serde_json::from_str::<Value>(input).is_ok_and(|v| v.is_object());
        check(object, format!("{place}: arguments must be an object's"))?;
        check(self.known.insert(id.clone()), format!("{place}: call ids must be unique"))?;
        self.open.push(id);
        Ok(())
    }
    fn answer(&mut self, id: &Value, place: &str) -> Check {
        let id = id.as_str().unwrap_or_default();
        let at = self.open.iter().position(|open| open == id);
        let at = at.ok_or(format!("{place}: no tool call found for {id}"))?;
        self.open.remove(at);
        Ok(())
    }
    fn all_answered(&self, place: &str) -> Check {
        check(self.open.is_empty(), format!("{place}: calls without results: {:?}", self.open))
    }
}

/// The reason why a chat completions request would be refused.
pub(super) fn refuse_chat(bytes: &[u8]) -> Check {
    let fields = [
        "model",
        "stream",
        "stream_options",
        "max_completion_tokens",
        "prompt_cache_key",
        "tools",
        "messages",
    ];
    let body = body(bytes, &fields)?;
    check(body["stream_options"]["include_usage"] == Value::Bool(true), "stream_options: expected")?;
    tools(&body, |tool| &tool["function"])?;
    let messages = body["messages"].as_array().filter(|l| !l.is_empty()).ok_or("messages: empty")?;
    let mut calls = Calls::default();
    for (i, message) in messages.iter().enumerate() {
        let place = format!("messages.{i}");
        let role = message["role"].as_str().unwrap_or_default();
        if role != "tool" {
            calls.all_answered(&place)?;
        }
        match role {
            "system" => {
                only(message, &["role", "content"], &place)?;
                check(i == 0, format!("{place}: the system's comes first"))?;
                text(&message["content"], &place)?;
            }
            "tool" => {
                only(message, &["role", "content", "tool_call_id"], &place)?;
                check(message["content"].is_string(), format!("{place}: a string"))?;
                calls.answer(&message["tool_call_id"], &place)?;
            }
            "user" => {
                only(message, &["role", "content"], &place)?;
                user_content(&message["content"], &place)?;
            }
            "assistant" => {
                only(message, &["role", "content", "tool_calls", "reasoning_content"], &place)?;
                let made = message.get("tool_calls").map(|list| {
                    list.as_array().filter(|l| !l.is_empty()).ok_or(format!("{place}: empty tool_calls"))
                });
                let made = made.transpose()?;
                if made.is_none() || !message["content"].is_null() {
                    check(message["content"].is_string(), format!("{place}: expected a string"))?;
                }
                for call in made.into_iter().flatten() {
                    only(call, &["id", "type", "function"], &place)?;
                    check(call["type"] == "function", format!("{place}: a function"))?;
                    name(&call["function"]["name"], &place)?;
                    calls.begin(&call["id"], &call["function"]["arguments"], &place)?;
                }
            }
            other => return Err(format!("{place}: bad role {other:?}")),
        }
    }
    calls.all_answered("the end")
}

fn user_content(content: &Value, place: &str) -> Check {
    let Some(parts) = content.as_array() else { return text(content, place) };
    check(!parts.is_empty(), format!("{place}: empty content"))?;
    parts.iter().try_for_each(|part| match part["type"].as_str() {
        Some("text") => text(&part["text"], place),
        Some("image_url") => image(&part["image_url"]["url"], place),
        _ => Err(format!("{place}: a user cannot say {part}")),
    })
}

fn image(url: &Value, place: &str) -> Check {
    let url = url.as_str().unwrap_or_default();
    check(url.starts_with("data:image/") || url.starts_with("https://"), format!("{place}: bad image {url}"))
}

/// The reason why a Responses API request would be refused.
pub(super) fn refuse_responses(bytes: &[u8]) -> Check {
    let fields = [
        "model",
        "stream",
        "store",
        "include",
        "max_output_tokens",
        "prompt_cache_key",
        "instructions",
        "tools",
        "input",
    ];
    let body = body(bytes, &fields)?;
    check(body["store"] == Value::Bool(false), "store: false")?;
    tools(&body, |tool| tool)?;
    let items = body["input"].as_array().filter(|l| !l.is_empty()).ok_or("input: empty")?;
    let mut calls = Calls::default();
    let mut thought = false;
    for (i, item) in items.iter().enumerate() {
        let place = format!("input.{i}");
        let kind = item["type"].as_str().unwrap_or_default();
        let said_by_model = kind == "function_call" || item["role"] == "assistant";
        if thought && !said_by_model && kind != "reasoning" {
            return Err(format!("{place}: reasoning was provided without its required following item"));
        }
        thought = kind == "reasoning";
        match kind {
            "message" => {
                only(item, &["type", "role", "content", "phase"], &place)?;
                let part = if said_by_model { "output_text" } else { "input_text" };
                if !said_by_model {
                    calls.all_answered(&place)?;
                }
                parts(&item["content"], part, &place)?;
            }
            "function_call" => {
                only(item, &["type", "call_id", "name", "arguments"], &place)?;
                name(&item["name"], &place)?;
                calls.begin(&item["call_id"], &item["arguments"], &place)?;
            }
            "function_call_output" => {
                only(item, &["type", "call_id", "output"], &place)?;
                calls.answer(&item["call_id"], &place)?;
                if !item["output"].is_string() {
                    parts(&item["output"], "input_text", &place)?;
                }
            }
            "reasoning" => text(&item["encrypted_content"], &place)?,
            other => return Err(format!("{place}: bad item {other:?}")),
        }
    }
    check(!thought, "the end: reasoning was provided without its required following item")?;
    calls.all_answered("the end")
}

fn parts(content: &Value, kind: &str, place: &str) -> Check {
    let list = content.as_array().filter(|l| !l.is_empty()).ok_or(format!("{place}: empty content"))?;
    list.iter().try_for_each(|part| match part["type"].as_str() {
        Some("input_image") if kind == "input_text" => image(&part["image_url"], place),
        Some(other) if other == kind => text(&part["text"], place),
        _ => Err(format!("{place}: bad part {part}")),
    })
}
