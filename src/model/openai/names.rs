//! Names of tools, as OpenAI's wires allow them.
//!
//! A name of 1 to 64 letters, digits, `_` and `-` is sent as it is; any other is shortened with a part
//! of its hash (contract §16), the same way always. Owns the way back for the names that were declared.

use crate::model::provider::ToolDeclaration;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

/// The wires' limit.
const LONGEST: usize = 64;
/// Hexadecimal digits of the hash.
const HASH: usize = 8;

/// The name on the wire.
pub(super) fn on_wire(name: &str) -> Cow<'_, str> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if (1..=LONGEST).contains(&name.len()) && name.chars().all(allowed) {
        return Cow::Borrowed(name);
    }
    let plain = name.chars().map(|c| if allowed(c) { c } else { '_' });
    let mut short: String = plain.take(LONGEST - HASH - 1).collect();
    short.push('_');
    for byte in Sha256::digest(name.as_bytes()).iter().take(HASH / 2) {
        // Writing into a String cannot fail.
        let _ = write!(short, "{byte:02x}");
    }
    Cow::Owned(short)
}

/// The declared names that the wire changes.
#[derive(Debug, Default)]
pub(super) struct ToolNames(Mutex<BTreeMap<String, String>>);

impl ToolNames {
    /// Remembers what is declared.
    pub(super) fn learn(&self, tools: &[ToolDeclaration]) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for tool in tools {
            if let Cow::Owned(short) = on_wire(&tool.name) {
                known.insert(short, tool.name.clone());
            }
        }
    }

    /// The tool that a model means.
    pub(super) fn meant(&self, on_wire: &str) -> String {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(on_wire).cloned().unwrap_or_else(|| on_wire.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_allowed_different_and_found_again() {
        let long = "x".repeat(65);
        let names = ["Read", "a.b", "a:b", "a b", "größe", "", &"x".repeat(64), &long, &format!("{long}y")];
        let declared = names.map(|name| ToolDeclaration {
            name: name.to_owned(),
            description: String::new(),
            schema: "{}".into(),
        });
        let known = ToolNames::default();
        known.learn(&declared);
        let mut seen = std::collections::BTreeSet::new();
        for name in names {
            let wire = on_wire(name).into_owned();
            let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
            assert!((1..=64).contains(&wire.len()) && wire.bytes().all(allowed), "{wire}");
            assert_eq!(known.meant(&wire), name);
            assert!(seen.insert(wire), "{name}");
        }
        assert_eq!(on_wire("Read"), "Read");
        assert_eq!(on_wire("a.b"), "a_b_2e7336dc");
        assert_eq!(known.meant("never_declared"), "never_declared");
    }
}
