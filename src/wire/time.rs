//! Points in time as they are written: RFC 3339, milliseconds, `Z`.

use serde::{Deserialize, Serialize};
use std::fmt;

/// RFC 3339 in UTC with milliseconds, e.g. `2026-01-01T00:00:00.000Z`; sorts as text.
/// Made by `store::clock`; a text from another program is kept as it came.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(String);

impl Timestamp {
    /// Wraps a text that was read or made by `store::clock`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
