//! Tool calls whose input came as text, for every wire.
//!
//! Promises that an input that is a JSON object is kept byte for byte.

use crate::wire::block::Block;
use crate::wire::open::RawMap;
use serde_json::value::RawValue;

/// A tool call whose input was no JSON object: call id and what the model wrote.
pub(super) type Malformed = (String, String);

/// Whether a text is one JSON object.
pub(super) fn is_object(text: &str) -> bool {
    serde_json::from_str::<RawMap>(text).is_ok()
}

/// The block of a call. An input that is blank counts as `{}`; one that is no object is set aside.
pub(super) fn call(id: &str, name: &str, written: String) -> (Block, Option<Malformed>) {
    if is_object(&written)
        && let Ok(input) = RawValue::from_string(written.clone())
    {
        return (Block::tool_use(id, name, &input), None);
    }
    let empty: &RawValue = serde_json::from_str("{}").unwrap_or(RawValue::NULL);
    let malformed = (!written.trim().is_empty()).then(|| (id.to_owned(), written));
    (Block::tool_use(id, name, empty), malformed)
}
