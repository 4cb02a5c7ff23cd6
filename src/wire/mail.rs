//! One entry of an inbox (contract §7).

use super::frame::FrameType;
use super::ids::{AgentName, MessageId};
use super::open::Open;
use super::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Longest message text, in characters (spec §24).
pub const MAX_TEXT_CHARS: usize = 1_000_000;
/// Longest summary, in characters (contract §7).
pub const MAX_SUMMARY_CHARS: usize = 200;

/// What a message does to an idle reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wake {
    /// Starts a turn.
    #[default]
    Turn,
    /// Waits for the next turn.
    Queue,
    /// Ends the running turn first; only the leader and the user may send it.
    Interrupt,
}

/// A message as it stands in the inbox file. Other programs may write one with only `from`, `text`,
/// `timestamp` and `read`; the rest is given on first sight.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Message {
    /// Unique; the key for "delivered once". Absent only before first sight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<MessageId>,
    /// Position in this inbox, from 1, never reused. 0 only before first sight.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub seq: u64,
    /// `peer_dm` or a frame type.
    #[serde(rename = "type", default)]
    pub kind: FrameType,
    /// Sender as claimed; only a good `sig` proves it.
    pub from: String,
    /// Recipient; absent in entries of other programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<AgentName>,
    /// What a person reads; for a frame, a sentence about it.
    pub text: String,
    /// A frame's typed content, an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Box<RawValue>>,
    /// When it was sent.
    pub timestamp: Timestamp,
    /// True only after the reader's transcript holds the id.
    #[serde(default)]
    pub read: bool,
    /// The sender's colour, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// At most [`MAX_SUMMARY_CHARS`] characters, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// What it does to an idle reader.
    #[serde(default)]
    pub wake: Wake,
    /// The recipient's incarnation it was meant for; `None` in entries of other programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<u32>,
    /// HMAC-SHA-256 in lower-case hex over the canonical form of the signed fields (contract §16).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sig: Option<String>,
}

/// An inbox entry with the members we do not know.
pub type Entry = Open<Message>;

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// A message that is to be sent; the mailbox adds id, seq, time, incarnation and signature.
#[derive(Debug, Clone)]
pub struct Draft {
    /// `peer_dm` or a frame.
    pub kind: FrameType,
    /// Text for a person.
    pub text: String,
    /// A frame's content.
    pub payload: Option<Box<RawValue>>,
    /// For display.
    pub summary: Option<String>,
    /// For display.
    pub color: Option<String>,
    /// What it does to an idle reader.
    pub wake: Wake,
}

impl Draft {
    /// Plain text from one agent to another.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            kind: FrameType::PeerDm,
            text: text.into(),
            payload: None,
            summary: None,
            color: None,
            wake: Wake::Turn,
        }
    }

    /// A frame with its payload and a sentence about it.
    pub fn frame<P: Serialize>(
        kind: FrameType,
        text: impl Into<String>,
        payload: &P,
    ) -> serde_json::Result<Self> {
        let payload = serde_json::value::to_raw_value(payload)?;
        Ok(Self {
            kind,
            text: text.into(),
            payload: Some(payload),
            summary: None,
            color: None,
            wake: Wake::Turn,
        })
    }

    /// The same with another effect on an idle reader.
    pub fn waking(mut self, wake: Wake) -> Self {
        self.wake = wake;
        self
    }
}

/// Proof that a message is on disk in the recipient's inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Receipt {
    /// The stored message.
    pub id: MessageId,
    /// Its position.
    pub seq: u64,
    /// Who will get it.
    pub to: AgentName,
}

/// Where a message really came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Signed with a key of the team: the sender is who it says.
    Team,
    /// Written by something else; shown as from outside, lowest priority, never acted on as a frame.
    Outside,
}

/// A message handed to its reader, which comes again unless it is acknowledged.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// Its id (always present from here on).
    pub id: MessageId,
    /// The message.
    pub message: Message,
    /// Whether the signature was good.
    pub origin: Origin,
}
