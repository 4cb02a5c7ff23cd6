//! What a headless run prints.

pub mod result;
pub mod stream_json;
