//! Ids and names, parsed once at the edge.
//!
//! A *slug* is the canonical, file-safe form of a display name: ASCII letters, digits, `-` and `_`.
//! Turning a display name into a slug needs Unicode tables and lives in `store::slug`; here a slug
//! is only accepted or refused.

use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

/// The name of the main agent of every team.
pub const TEAM_LEAD: &str = "team-lead";
/// Sender name of mail from the person.
pub const USER: &str = "user";
/// Sender name of mail from the runtime.
pub const SYSTEM: &str = "system";
/// Names nobody may take (contract §7, pitfalls "Names and identity").
pub const RESERVED: [&str; 5] = [TEAM_LEAD, USER, SYSTEM, "main", "*"];
/// Longest display name, in characters after trimming (contract §16).
pub const MAX_NAME_CHARS: usize = 64;

/// A text that is not a slug.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a slug: only ASCII letters, digits, '-' and '_', at most 80 of them")]
pub struct NotASlug(pub String);

/// True when `text` may be used as a file name component without further thought.
pub fn is_slug(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 80
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

macro_rules! slug_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Accepts a slug; a display name goes through `store::slug` first.
            pub fn new(slug: impl Into<String>) -> Result<Self, NotASlug> {
                let slug = slug.into();
                if is_slug(&slug) { Ok(Self(slug)) } else { Err(NotASlug(slug)) }
            }
            /// The slug.
            pub fn as_str(&self) -> &str { &self.0 }
        }
        impl TryFrom<String> for $name {
            type Error = NotASlug;
            fn try_from(text: String) -> Result<Self, NotASlug> { Self::new(text) }
        }
        impl From<$name> for String { fn from(name: $name) -> String { name.0 } }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&self.0) }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write!(f, "{:?}", self.0) }
        }
    };
}

slug_type! {
    /// An agent's name inside its team: `team-lead`, `anna`; also `user` and `system` as senders.
    AgentName
}
slug_type! {
    /// A team's name, the directory below `teams/`.
    TeamName
}

impl AgentName {
    /// The leader's name.
    pub fn team_lead() -> Self {
        Self(TEAM_LEAD.to_owned())
    }
    /// The person, as a sender.
    pub fn user() -> Self {
        Self(USER.to_owned())
    }
    /// The runtime, as a sender.
    pub fn system() -> Self {
        Self(SYSTEM.to_owned())
    }
    /// True for [`TEAM_LEAD`].
    pub fn is_lead(&self) -> bool {
        self.0 == TEAM_LEAD
    }
    /// True for names that are never an inbox of a member.
    pub fn is_reserved(&self) -> bool {
        RESERVED.contains(&self.0.as_str())
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);
        impl $name {
            /// Wraps an id that was read or received.
            pub fn new(id: impl Into<String>) -> Self { Self(id.into()) }
            /// The id as text.
            pub fn as_str(&self) -> &str { &self.0 }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&self.0) }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write!(f, "{:?}", self.0) }
        }
    };
}

text_id! {
    /// Any agent: `anna@review` for a team member, `team-lead@review` for a main agent,
    /// `a` and 16 hex digits for a subagent. Also the stem of its transcript's file name.
    AgentId
}
text_id! {
    /// A session of a main agent (a UUIDv7, or what `--session-id` gave): the transcript's file stem.
    SessionId
}
text_id! {
    /// One run of an agent; a restart or resume gets a new one, which fences the old one out.
    RunId
}
text_id! {
    /// A message in an inbox (UUIDv7 when we wrote it).
    MessageId
}
text_id! {
    /// A request for permission; also its file's stem.
    AskId
}
text_id! {
    /// A transcript line.
    LineId
}
text_id! {
    /// A background task: an agent's id, or `b` and 16 hex digits for a shell command. Also the stem of
    /// its output file.
    BackgroundId
}

impl AgentId {
    /// `<name>@<team>`.
    pub fn member(name: &AgentName, team: &TeamName) -> Self {
        Self(format!("{name}@{team}"))
    }
    /// A new id for an agent without a name.
    pub fn subagent() -> Self {
        let hex = Uuid::new_v4().simple().to_string();
        Self(format!("a{}", &hex[..16]))
    }
}
/// Whether a text is the id of an agent without a name: `a` and 16 hex digits.
pub fn is_subagent(text: &str) -> bool {
    text.len() == 17 && text.starts_with('a') && text.bytes().skip(1).all(|b| b.is_ascii_hexdigit())
}

impl SessionId {
    /// A new session.
    pub fn generate() -> Self {
        Self(Uuid::now_v7().to_string())
    }
}
impl RunId {
    /// A new run.
    pub fn generate() -> Self {
        Self(Uuid::now_v7().to_string())
    }
    /// When it was made, in milliseconds since 1970; `None` for one that another program named.
    pub fn begun_ms(&self) -> Option<u64> {
        let (seconds, nanos) = Uuid::parse_str(&self.0).ok()?.get_timestamp()?.to_unix();
        Some(seconds * 1000 + u64::from(nanos / 1_000_000))
    }
}
impl MessageId {
    /// A new message (UUIDv7: ordered by time).
    pub fn generate() -> Self {
        Self(Uuid::now_v7().to_string())
    }
}
impl AskId {
    /// A new ask: short enough to type, unique enough to be a file name in one team.
    pub fn generate() -> Self {
        let hex = Uuid::new_v4().simple().to_string();
        Self(format!("ask-{}", &hex[..8]))
    }
}
impl BackgroundId {
    /// The task that an agent is.
    pub fn of_agent(agent: &AgentId) -> Self {
        Self(agent.as_str().to_owned())
    }
    /// A new shell command.
    pub fn shell() -> Self {
        let hex = Uuid::new_v4().simple().to_string();
        Self(format!("b{}", &hex[..16]))
    }
}
impl LineId {
    /// A new transcript line.
    pub fn generate() -> Self {
        Self(Uuid::new_v4().to_string())
    }
}
