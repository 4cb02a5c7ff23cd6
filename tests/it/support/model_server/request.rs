//! One request as it came, and questions about it.

use serde_json::Value;
use std::collections::BTreeMap;

/// A request.
#[derive(Debug)]
pub struct Request {
    /// Its number, from 1.
    pub number: u64,
    /// Headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body's exact bytes.
    pub raw: Vec<u8>,
    /// The body.
    pub body: Value,
}

impl Request {
    /// The messages.
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The number of cache markers.
    pub fn markers(&self) -> usize {
        String::from_utf8_lossy(&self.raw).matches(r#""cache_control":{"#).count()
    }

    /// The text of the first message.
    pub fn prompt(&self) -> String {
        self.messages().first().map(|m| texts(&m["content"]).join("\n")).unwrap_or_default()
    }

    /// The system prompt.
    pub fn system(&self) -> String {
        texts(&self.body["system"]).join("\n")
    }

    /// What came since the last answer: text and tool results.
    pub fn input(&self) -> String {
        let last = self.messages().iter().rposition(|m| m["role"] == "assistant").map_or(0, |at| at + 1);
        let new: Vec<String> =
            self.messages()[last..].iter().flat_map(|m| all_texts(&m["content"])).collect();
        new.join("\n")
    }

    /// Which request of its conversation it is, from 1, as far as the history shows.
    pub fn round(&self) -> usize {
        1 + self.messages().iter().filter(|m| m["role"] == "assistant").count()
    }

    /// All tool results in order: id, text, whether it is an error.
    pub fn results(&self) -> Vec<(String, String, bool)> {
        let blocks = self.messages().iter().flat_map(|m| m["content"].as_array().into_iter().flatten());
        blocks
            .filter(|b| b["type"] == "tool_result")
            .map(|b| {
                let id = b["tool_use_id"].as_str().expect("id").to_owned();
                (id, all_texts(&b["content"]).join("\n"), b["is_error"] == true)
            })
            .collect()
    }

    /// The result of one call: text, whether it is an error.
    #[track_caller]
    pub fn result(&self, id: &str) -> (String, bool) {
        let found = self.results().into_iter().find(|(i, _, _)| i == id);
        let (_, text, error) = found.unwrap_or_else(|| panic!("no result of {id}: {:#?}", self.results()));
        (text, error)
    }

    /// The names of the tools.
    pub fn tools(&self) -> Vec<&str> {
        self.body["tools"].as_array().into_iter().flatten().filter_map(|t| t["name"].as_str()).collect()
    }

    /// The text blocks of user messages after the first one: mail and notices, message by message.
    pub fn mail(&self) -> Vec<Vec<String>> {
        let users = self.messages().iter().skip(1).filter(|m| m["role"] == "user");
        users.map(|m| texts(&m["content"])).filter(|t| !t.is_empty()).collect()
    }

    /// The directive, when a fork asks.
    pub fn directive(&self) -> Option<String> {
        let users = self.messages().iter().filter(|m| m["role"] == "user");
        users.flat_map(|m| texts(&m["content"])).find(|text| text.starts_with("<fork-boilerplate>"))
    }

    /// The body without its cache markers, byte for byte.
    pub fn unmarked(&self) -> String {
        let text = std::str::from_utf8(&self.raw).expect("UTF-8");
        text.replace(r#","cache_control":{"type":"ephemeral"}"#, "")
    }

    /// The same up to a fork's directive.
    #[track_caller]
    pub fn shared(&self) -> String {
        let body = self.unmarked();
        let end = body.find(r#"{"type":"text","text":"<fork-boilerplate>"#).expect("a fork");
        body[..end].to_owned()
    }

    /// What a pattern with one group finds in the last input.
    #[track_caller]
    pub fn find(&self, pattern: &str) -> String {
        let pattern = regex::Regex::new(pattern).expect("a pattern");
        let input = self.input();
        let found = pattern.captures(&input).unwrap_or_else(|| panic!("no {pattern} in {input}"));
        found[1].to_owned()
    }
}

/// Text blocks.
fn texts(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        Value::Array(blocks) => blocks
            .iter()
            .filter(|b| b["type"] == "text")
            .filter_map(|b| b["text"].as_str())
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    }
}

/// Text blocks and tool results.
fn all_texts(content: &Value) -> Vec<String> {
    match content {
        Value::Array(blocks) => blocks
            .iter()
            .flat_map(|b| {
                if b["type"] == "tool_result" {
                    all_texts(&b["content"])
                } else {
                    texts(&Value::Array(vec![b.clone()]))
                }
            })
            .collect(),
        other => texts(other),
    }
}
