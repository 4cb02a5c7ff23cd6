//! What one tool call would touch: made by `tools`, resolved by `agent`, judged by `policy`.

use std::path::PathBuf;

/// What a call would do, in the terms permission rules speak of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The tool's name, as rules name it.
    pub tool: String,
    /// What is touched.
    pub target: Target,
    /// What it would do, in one line for a person: `Write src/a.rs (120 lines)`.
    pub summary: String,
}

/// The thing a call touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Nothing outside the agent itself (todo lists, questions).
    Nothing,
    /// Files or directories that are read; absolute, links resolved by `agent` before `policy` sees them.
    Read(Vec<PathBuf>),
    /// Files that are written; absolute, links resolved.
    Edit(Vec<PathBuf>),
    /// A shell command, as the shell will see it.
    Command(String),
    /// An address on the network.
    Fetch(String),
    /// A search of the web for this.
    Search(String),
    /// An agent of this type is started.
    Agent(String),
    /// Mail to this agent.
    Message(String),
    /// A tool of an MCP server or another that rules know by name only.
    Named,
}

impl Target {
    /// The files and directories it names.
    pub fn paths(&self) -> &[PathBuf] {
        match self {
            Self::Read(paths) | Self::Edit(paths) => paths,
            Self::Nothing
            | Self::Command(_)
            | Self::Fetch(_)
            | Self::Search(_)
            | Self::Agent(_)
            | Self::Message(_)
            | Self::Named => &[],
        }
    }
}
