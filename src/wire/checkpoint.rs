//! A line of the index of file checkpoints: what a file was before a turn changed it.

use super::ids::LineId;
use super::time::Timestamp;
use serde::{Deserialize, Serialize};

/// One file in one turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// The transcript line that began the turn, or that tells of a rewind.
    pub turn: LineId,
    /// The file; absolute, without links.
    pub path: String,
    /// What it was.
    pub before: FormerFile,
    /// Who changed it.
    pub agent: String,
    /// When.
    pub at: Timestamp,
}

/// What a file was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum FormerFile {
    /// It was not there.
    Absent,
    /// It had the content that is kept under this name.
    Content {
        /// SHA-256 of it, in hex.
        sha256: String,
        /// Its mode bits.
        mode: u32,
    },
    /// It is not kept.
    NotKept {
        /// Why.
        why: String,
    },
}
