//! Transcript lines and their companion `.meta.json` (contract §8).

use super::block::{Block, Role};
use super::ids::{AgentId, AgentName, LineId, MessageId, SessionId, TeamName};
use super::permission::PermissionMode;
use super::time::Timestamp;
use super::usage::Usage;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LineType {
    /// A user message.
    User,
    /// An assistant message.
    Assistant,
    /// Something about the run; see [`Line::subtype`].
    System,
}

/// One line of a transcript.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// What it is.
    #[serde(rename = "type")]
    pub kind: LineType,
    /// This line.
    pub uuid: LineId,
    /// The line before it; null on the first line of a file.
    pub parent_uuid: Option<LineId>,
    /// The session of the main agent.
    pub session_id: SessionId,
    /// The agent, on sidechains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// True for every agent that is not the main one.
    pub is_sidechain: bool,
    /// When.
    pub timestamp: Timestamp,
    /// The agent's directory.
    pub cwd: String,
    /// The branch there, empty outside git.
    #[serde(default)]
    pub git_branch: String,
    /// The program's version.
    pub version: String,
    /// The team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_name: Option<TeamName>,
    /// The message, on user and assistant lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<LineMessage>,
    /// On system lines: `run_started`, `run_ended`, `mail_delivered`, `warning`, `compact_boundary` …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subtype: Option<String>,
    /// On system lines, a sentence for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// On `mail_delivered`: what the next user line delivers, or which frames were acted on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub message_ids: Vec<MessageId>,
    /// On system lines, further data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

/// A message in the Messages API shape.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LineMessage {
    /// Who.
    pub role: Role,
    /// Its blocks.
    pub content: Vec<StoredBlock>,
    /// The model, on assistant lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider's id of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Tokens of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why it stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
}

/// A block in a transcript line. A block whose raw bytes hold a line break would break the line, so
/// it is stored as a readable copy with the exact bytes beside it, in the string member `raw`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBlock(pub Block);

#[derive(Serialize)]
struct WithRaw<'a> {
    #[serde(flatten)]
    readable: serde_json::Map<String, serde_json::Value>,
    raw: &'a str,
}

impl Serialize for StoredBlock {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let raw = self.0.raw();
        if !raw.contains(['\n', '\r']) {
            return self.0.serialize(s);
        }
        let readable = serde_json::from_str(raw).map_err(serde::ser::Error::custom)?;
        WithRaw { readable, raw }.serialize(s)
    }
}

impl<'de> Deserialize<'de> for StoredBlock {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Exact {
            raw: Option<String>,
        }
        let line = Box::<RawValue>::deserialize(d)?;
        let exact: Exact = serde_json::from_str(line.get()).map_err(serde::de::Error::custom)?;
        let block = match exact.raw {
            Some(raw) => Block::parse(&raw),
            None => Block::from_raw(line),
        };
        block.map(StoredBlock).map_err(serde::de::Error::custom)
    }
}

/// `agent-<id>.meta.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentMeta {
    /// Who.
    pub agent_id: AgentId,
    /// The definition's name.
    pub agent_type: String,
    /// What it was started for, in a few words.
    pub description: String,
    /// The call that started it.
    pub tool_use_id: Option<String>,
    /// Who started it.
    pub parent_agent_id: AgentId,
    /// The main session.
    pub parent_session_id: SessionId,
    /// Whether it is a fork.
    pub is_fork: bool,
    /// 0 is the main agent.
    pub depth: u32,
    /// `provider:name`.
    pub model: String,
    /// A name it can be reached by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `queued`, `running`, `completed`, `failed`, `cancelled`.
    pub status: String,
    /// Its mode.
    pub permission_mode: PermissionMode,
    /// Its directory.
    pub cwd: String,
    /// Its worktree.
    pub worktree_path: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// The named agent it works below: only that one's process writes its transcript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<AgentName>,
    /// The rules it was given instead of its parent's session rules, for a later run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_tools: Option<Vec<String>>,
    /// SHA-256 of a fork's shared prefix, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_sha256: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_with_line_breaks_fits_on_a_line_and_comes_back_exactly() {
        let raw = "{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"X\",\"input\":{\n \"a\": 1e2,\r\n \"b\": \"\\u00e9\"}}";
        let stored = StoredBlock(Block::parse(raw).expect("parses"));
        let line = serde_json::to_string(&stored).expect("writes");
        assert!(!line.contains('\n'));
        let again: StoredBlock = serde_json::from_str(&line).expect("reads");
        assert_eq!(again.0.raw(), raw);
    }
}
