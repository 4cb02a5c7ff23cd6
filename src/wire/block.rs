//! Conversation messages as the exact bytes they came or were first written in.
//!
//! A [`Block`] is one content block in the Messages API shape, kept as raw JSON. It is sent, stored
//! and read back without being parsed and encoded again, so that a prompt cache that compares bytes
//! finds its prefix (spec §7). Views parse on demand and never feed back.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::sync::Arc;

/// Who said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person, mail, tool results.
    User,
    /// The model.
    Assistant,
}

/// One content block: raw JSON of an object with a `type`. Cloning copies a pointer.
#[derive(Debug, Clone)]
pub struct Block {
    raw: Arc<RawValue>,
    kind: BlockKind,
}

/// The `type` of a block, as far as the runtime cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// `text`
    Text,
    /// `tool_use`
    ToolUse,
    /// `tool_result`
    ToolResult,
    /// `thinking` or `redacted_thinking`
    Thinking,
    /// anything else (images, server tools …), passed on untouched
    Other,
}

/// A tool call as the model wrote it.
#[derive(Debug, Clone)]
pub struct ToolUse {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The input, byte for byte. Normally an object; see [`ToolUse::malformed`].
    pub input: Box<RawValue>,
    /// What the model sent as input when that was not a JSON object; `input` is `{}` then.
    pub malformed: Option<String>,
}

/// A text that is not a content block.
#[derive(Debug, thiserror::Error)]
#[error("not a content block: {0}")]
pub struct NotABlock(String);

#[derive(Deserialize)]
struct Tag {
    #[serde(rename = "type")]
    tag: String,
}

/// Encodes a value as JSON text. Strings and structs of ours cannot fail; a failure would be a
/// `Serialize` bug and shows as JSON `null`.
fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

impl Block {
    /// Takes raw JSON text of an object with a `type`.
    pub fn from_raw(raw: Box<RawValue>) -> Result<Self, NotABlock> {
        let tag: Tag = serde_json::from_str(raw.get()).map_err(|e| NotABlock(e.to_string()))?;
        let kind = match tag.tag.as_str() {
            "text" => BlockKind::Text,
            "tool_use" => BlockKind::ToolUse,
            "tool_result" => BlockKind::ToolResult,
            "thinking" | "redacted_thinking" => BlockKind::Thinking,
            _ => BlockKind::Other,
        };
        Ok(Self { raw: raw.into(), kind })
    }

    /// Parses raw JSON text.
    pub fn parse(text: &str) -> Result<Self, NotABlock> {
        let raw = RawValue::from_string(text.to_owned()).map_err(|e| NotABlock(e.to_string()))?;
        Self::from_raw(raw)
    }

    fn written(kind: BlockKind, text: String) -> Self {
        // The text is assembled from encoded parts below, so it is valid JSON by construction.
        let raw = RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self { raw: raw.into(), kind }
    }

    /// A `text` block. The Messages API refuses empty text; callers must not pass it.
    pub fn text(text: &str) -> Self {
        Self::written(BlockKind::Text, format!(r#"{{"type":"text","text":{}}}"#, json(text)))
    }

    /// A `thinking` block with its signature as received.
    pub fn thinking(thinking: &str, signature: &str) -> Self {
        Self::written(
            BlockKind::Thinking,
            format!(r#"{{"type":"thinking","thinking":{},"signature":{}}}"#, json(thinking), json(signature)),
        )
    }

    /// A `tool_use` block. `input` is what the model streamed, kept byte for byte when it is a JSON
    /// object; otherwise `{}` is sent and the text kept in `malformed` by the caller's transcript.
    pub fn tool_use(id: &str, name: &str, input: &RawValue) -> Self {
        Self::written(
            BlockKind::ToolUse,
            format!(
                r#"{{"type":"tool_use","id":{},"name":{},"input":{}}}"#,
                json(id),
                json(name),
                input.get()
            ),
        )
    }

    /// A `tool_result` block with text content; an empty text becomes a marker, which the API demands for errors.
    pub fn tool_result(tool_use_id: &str, content: &str, is_error: bool) -> Self {
        let content = if content.is_empty() { "(no output)" } else { content };
        let error = if is_error { r#","is_error":true"# } else { "" };
        Self::written(
            BlockKind::ToolResult,
            format!(
                r#"{{"type":"tool_result","tool_use_id":{},"content":{}{error}}}"#,
                json(tool_use_id),
                json(content)
            ),
        )
    }

    /// A `tool_result` block whose content is a list of blocks (text, images).
    pub fn tool_result_blocks(tool_use_id: &str, content: &[Block], is_error: bool) -> Self {
        let error = if is_error { r#","is_error":true"# } else { "" };
        let list: Vec<&str> = content.iter().map(Block::raw).collect();
        Self::written(
            BlockKind::ToolResult,
            format!(
                r#"{{"type":"tool_result","tool_use_id":{},"content":[{}]{error}}}"#,
                json(tool_use_id),
                list.join(",")
            ),
        )
    }

    /// The raw JSON.
    pub fn raw(&self) -> &str {
        self.raw.get()
    }

    /// The shared raw value, for building requests without a copy.
    pub fn shared(&self) -> Arc<RawValue> {
        Arc::clone(&self.raw)
    }

    /// What kind of block it is.
    pub fn kind(&self) -> BlockKind {
        self.kind
    }

    /// The text of a `text` block.
    pub fn as_text(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Text {
            text: String,
        }
        (self.kind == BlockKind::Text)
            .then(|| serde_json::from_str::<Text>(self.raw()).ok())
            .flatten()
            .map(|t| t.text)
    }

    /// The call in a `tool_use` block.
    pub fn as_tool_use(&self) -> Option<ToolUse> {
        #[derive(Deserialize)]
        struct Call {
            id: String,
            name: String,
            input: Box<RawValue>,
        }
        (self.kind == BlockKind::ToolUse)
            .then(|| serde_json::from_str::<Call>(self.raw()).ok())
            .flatten()
            .map(|c| ToolUse { id: c.id, name: c.name, input: c.input, malformed: None })
    }

    /// Id, text and error flag of a `tool_result` block; nested text blocks are joined by newlines.
    pub fn as_tool_result(&self) -> Option<(String, String, bool)> {
        #[derive(Deserialize)]
        struct Answer {
            tool_use_id: String,
            #[serde(default)]
            content: Option<Box<RawValue>>,
            #[serde(default)]
            is_error: bool,
        }
        if self.kind != BlockKind::ToolResult {
            return None;
        }
        let answer: Answer = serde_json::from_str(self.raw()).ok()?;
        let text = answer.content.map_or_else(String::new, |c| content_text(&c));
        Some((answer.tool_use_id, text, answer.is_error))
    }
}

fn content_text(content: &RawValue) -> String {
    if let Ok(text) = serde_json::from_str::<String>(content.get()) {
        return text;
    }
    let blocks: Vec<Block> = serde_json::from_str(content.get()).unwrap_or_default();
    let texts: Vec<String> = blocks.iter().filter_map(Block::as_text).collect();
    texts.join("\n")
}

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        self.raw() == other.raw()
    }
}
impl Eq for Block {}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_raw(raw).map_err(serde::de::Error::custom)
    }
}

/// One message of a conversation. Cloning copies pointers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMessage {
    /// Who said it.
    pub role: Role,
    /// Its blocks, never empty in a request.
    pub blocks: Arc<[Block]>,
}

impl ChatMessage {
    /// A user message.
    pub fn user(blocks: Vec<Block>) -> Self {
        Self { role: Role::User, blocks: blocks.into() }
    }
    /// An assistant message.
    pub fn assistant(blocks: Vec<Block>) -> Self {
        Self { role: Role::Assistant, blocks: blocks.into() }
    }
    /// All `text` blocks, joined by newlines.
    pub fn text(&self) -> String {
        let texts: Vec<String> = self.blocks.iter().filter_map(Block::as_text).collect();
        texts.join("\n")
    }
    /// The tool calls, in order.
    pub fn tool_uses(&self) -> Vec<ToolUse> {
        self.blocks.iter().filter_map(Block::as_tool_use).collect()
    }
    /// Size on the wire, without the frame around the blocks.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(|b| b.raw().len() + 1).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_keeps_the_bytes_it_came_in() {
        for text in [
            r#"{"type":"tool_use","id":"t","name":"X","input":{"a":1e2,"a":0.10,"b":12345678901234567890123,"c":"\u00e9"}}"#,
            "{ \"type\" : \"text\", \"text\" : \"a\\/b\" }",
        ] {
            let block = Block::parse(text).expect("parses");
            assert_eq!(serde_json::to_string(&block).expect("writes"), text);
            let again: Block = serde_json::from_str(text).expect("reads");
            assert_eq!(again.raw(), text);
        }
    }

    #[test]
    fn results_are_read_from_text_and_from_blocks() {
        let plain = Block::tool_result("t1", "a\"b", true);
        assert_eq!(plain.as_tool_result(), Some(("t1".into(), "a\"b".into(), true)));
        let listed = Block::tool_result_blocks("t2", &[Block::text("x"), Block::text("y")], false);
        assert_eq!(listed.as_tool_result(), Some(("t2".into(), "x\ny".into(), false)));
        assert_eq!(
            Block::tool_result("t3", "", true).as_tool_result().map(|r| r.1),
            Some("(no output)".into())
        );
    }
}
