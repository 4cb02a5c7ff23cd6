//! What an owner and the guard of a command say to each other, one JSON value a line.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Bytes that are usually text: a JSON string where they are UTF-8, else `{"base64": …}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bytes(pub Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Raw { base64: String },
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => Form::Raw { base64: STANDARD.encode(&self.0) }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Form::deserialize(deserializer)? {
            Form::Text(text) => text.into_bytes(),
            Form::Raw { base64 } => STANDARD.decode(base64).map_err(serde::de::Error::custom)?,
        }))
    }
}

impl From<&OsStr> for Bytes {
    fn from(text: &OsStr) -> Self {
        Self(text.as_bytes().to_vec())
    }
}
impl From<Bytes> for OsString {
    fn from(bytes: Bytes) -> Self {
        OsString::from_vec(bytes.0)
    }
}

/// The first line on the lifeline: what to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct GuardSpec {
    /// Program and arguments.
    pub argv: Vec<Bytes>,
    /// Where.
    pub cwd: Bytes,
    /// The complete environment.
    pub env: BTreeMap<String, String>,
    /// What the command reads; nothing is `/dev/null`.
    pub stdin: Bytes,
    /// Standard error comes as [`Report::Stderr`] instead of in the output.
    pub split: bool,
    /// More to read comes as [`Order::Input`], after `stdin`.
    pub open: bool,
}

/// A later line on the lifeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// End everything: TERM, and KILL after so many milliseconds.
    End { grace_ms: u64 },
    /// More for the command to read.
    Input { data: Bytes },
    /// There is no more to read.
    CloseInput,
}

/// A line on the guard's standard error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// The command runs.
    Started { pid: u32 },
    /// It could not be started.
    Failed { why: String },
    /// Some of its standard error.
    Stderr { data: Bytes },
    /// It ended, by itself (`code`) or by a signal; `left`: processes it had started still run.
    Exited { code: Option<i32>, signal: Option<i32>, left: bool },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_kind_come_back() {
        for bytes in [&b""[..], b"plain \"text\"\n", "\u{e9}\0".as_bytes(), b"\xff\xfe\0x"] {
            let line = serde_json::to_string(&Bytes(bytes.to_vec())).expect("writes");
            assert!(!line.contains('\n'));
            assert_eq!(serde_json::from_str::<Bytes>(&line).expect("reads"), Bytes(bytes.to_vec()));
        }
    }
}
