//! The script format: what a scripted model answers, to whom and when (`docs/formats/script.md`).
//!
//! Owns reading and checking a script. Promises that a mistake is reported with file, line and reason
//! before the first answer. Never plays; see [`super::scripted`].

mod file;
pub mod template;

use crate::wire::block::Block;
use globset::GlobMatcher;
use regex::Regex;
use std::path::{Path, PathBuf};
use std::time::Duration;
use template::Template;

/// Why a script cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("cannot read the script {path}: {why}")]
    Read {
        /// Which.
        path: PathBuf,
        /// The system's words.
        why: String,
    },
    /// Something in it is wrong.
    #[error("{path}:{line}: {why}")]
    Wrong {
        /// Which.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

/// A script that was read and checked.
#[derive(Debug)]
pub struct Script {
    /// Its file.
    pub path: PathBuf,
    /// How long to wait between two pieces of text.
    pub pace: Duration,
    /// Characters a piece of text has at most.
    pub piece: usize,
    /// Where other processes open gates: a directory with a file for each.
    pub gates: PathBuf,
    /// How long a gate is waited for.
    pub gate_deadline: Duration,
    /// Whether its model can search the web.
    pub web_search: bool,
    /// In the order of the file.
    pub rules: Vec<Rule>,
}

/// When to answer what.
#[derive(Debug)]
pub struct Rule {
    /// Where it begins.
    pub line: usize,
    /// Who must ask; `None` is anyone.
    pub agent: Option<GlobMatcher>,
    /// In which round.
    pub round: Option<u32>,
    /// What must have been said.
    pub conditions: Vec<Condition>,
    /// How often it answers in one conversation; `None` is always.
    pub times: Option<u32>,
    /// The answer.
    pub reply: Vec<Part>,
}

/// Something that must have been said.
#[derive(Debug)]
pub struct Condition {
    /// Where to look.
    pub place: Place,
    /// What to find.
    pub find: Find,
}

/// Where a condition looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Text and tool results since the last answer.
    Input,
    /// What the conversation began with.
    Prompt,
    /// The whole conversation, both sides.
    Anywhere,
}

/// What a condition finds.
#[derive(Debug)]
pub enum Find {
    /// A text in it.
    Text(String),
    /// This text and nothing else.
    Whole(String),
    /// A pattern.
    Pattern(Regex),
}

impl Find {
    /// Whether it is in `text`.
    pub fn is_in(&self, text: &str) -> bool {
        match self {
            Self::Text(part) => text.contains(part.as_str()),
            Self::Whole(whole) => text == whole,
            Self::Pattern(regex) => regex.is_match(text),
        }
    }
}

/// One part of an answer.
#[derive(Debug)]
pub struct Part {
    /// Where it begins.
    pub line: usize,
    /// What it is.
    pub action: Action,
}

/// What a part does.
#[derive(Debug)]
pub enum Action {
    /// Says something.
    Text(Template),
    /// Thinks something, with a signature or an empty one.
    Thinking(Template, String),
    /// Calls a tool.
    Tool {
        /// Its name.
        name: String,
        /// Its input.
        input: Input,
        /// The call's id; one is made up when there is none.
        id: Option<String>,
    },
    /// Passes a content block through as it is.
    Block(Block),
    /// Waits.
    Delay(Duration),
    /// Waits for a gate.
    Gate(String),
    /// Fails, with a status or by breaking the connection.
    Error {
        /// As an HTTP server would answer; `None` is a broken connection.
        status: Option<u16>,
        /// The provider's words.
        message: String,
        /// How long to wait.
        retry_after: Option<Duration>,
    },
    /// Overrides token counts.
    Usage(UsageOverride),
    /// Overrides why the answer ends.
    Stop(String),
}

/// Token counts that stand in place of the simulated ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UsageOverride {
    /// Fresh input.
    pub input_tokens: Option<u64>,
    /// Output.
    pub output_tokens: Option<u64>,
    /// Input written to the cache.
    pub cache_creation_input_tokens: Option<u64>,
    /// Input read from the cache.
    pub cache_read_input_tokens: Option<u64>,
}

/// A tool's input.
#[derive(Debug)]
pub enum Input {
    /// JSON text as the model would write it, right or wrong.
    Raw(Template),
    /// An object.
    Object(Vec<(String, Shape)>),
}

/// A JSON value with holes.
#[derive(Debug)]
pub enum Shape {
    /// JSON text without holes.
    Fixed(String),
    /// A string, or a number that comes from one hole.
    Text(Template),
    /// A list.
    List(Vec<Shape>),
    /// An object.
    Object(Vec<(String, Shape)>),
}

impl Script {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| ScriptError::Read { path: path.to_owned(), why: e.to_string() })?;
        Self::parse(path, &text)
    }

    /// Reads a text that stands in `path`.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ScriptError> {
        file::read(path, text)
    }
}
