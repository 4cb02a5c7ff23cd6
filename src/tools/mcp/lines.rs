//! The lines between a client and a server's process, looked at on their way.
//!
//! Owns two things that the protocol's client does not do: it keeps input schemas as the bytes they came in,
//! and it notices a server that breaks the protocol. The client drops what it cannot read, and a call would
//! wait for its time limit; here that is a fault with a sentence, at once. Lines that are plainly no message
//! (a program that prints) are passed over.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

/// Longest line that is taken, in bytes: the client takes no longer one either.
const LONGEST_LINE: usize = 16 * 1024 * 1024;

/// Input schemas as a server sent them. The client's own types sort the members of objects.
#[derive(Default)]
pub(super) struct Schemas(Mutex<HashMap<String, Box<RawValue>>>);

impl Schemas {
    /// The schema of a tool as it came last.
    pub fn of(&self, tool: &str) -> Option<Box<RawValue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(tool).cloned()
    }

    fn learn(&self, line: &[u8]) {
        #[derive(Deserialize)]
        struct Answer {
            result: Listed,
        }
        #[derive(Deserialize)]
        struct Listed {
            tools: Vec<Listing>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Listing {
            name: String,
            input_schema: Box<RawValue>,
        }
        let Ok(answer) = serde_json::from_slice::<Answer>(line) else { return };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(answer.result.tools.into_iter().map(|tool| (tool.name, tool.input_schema)));
    }
}

/// What matters of a message.
#[derive(Deserialize)]
struct Envelope {
    id: Option<Value>,
    method: Option<IgnoredAny>,
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

/// Both directions of one connection.
#[derive(Default)]
pub(super) struct Lines {
    coming: Vec<u8>,
    going: Vec<u8>,
    /// The ids of all requests that were sent, as JSON.
    asked: HashSet<String>,
}

impl Lines {
    /// Looks at what goes to the server.
    pub fn goes(&mut self, data: &[u8]) {
        for part in data.split_inclusive(|byte| *byte == b'\n') {
            self.going.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.going);
                if let Ok(Envelope { id: Some(id), method: Some(_), .. }) = serde_json::from_slice(&line) {
                    self.asked.insert(id.to_string());
                }
            }
        }
    }

    /// Looks at what comes from the server.
    ///
    /// # Errors
    /// What it did that no server may do; the connection is of no use any more.
    pub fn comes(&mut self, data: &[u8], schemas: &Schemas) -> Result<(), String> {
        for part in data.split_inclusive(|byte| *byte == b'\n') {
            self.coming.extend_from_slice(part);
            if self.coming.len() > LONGEST_LINE {
                let most = LONGEST_LINE >> 20;
                return Err(format!("it sent a line of more than {most} MiB, and no longer one is taken"));
            }
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.coming);
                if memchr::memmem::find(&line, b"\"inputSchema\"").is_some() {
                    schemas.learn(&line);
                }
                self.message(&line)?;
            }
        }
        Ok(())
    }

    fn message(&self, line: &[u8]) -> Result<(), String> {
        let line = line.trim_ascii();
        if !line.starts_with(b"{") || memchr::memmem::find(line, b"\"jsonrpc\"").is_none() {
            return Ok(());
        }
        let broken = |error: serde_json::Error| format!("it sent a message that is not valid JSON ({error})");
        match serde_json::from_slice(line).map_err(broken)? {
            Envelope { id: Some(id), method: None, result, error }
                if (result.is_some() || error.is_some()) && !self.asked.contains(&id.to_string()) =>
            {
                Err(format!(
                    "it answered a request that was not made (id {})",
                    super::shortened(&id.to_string(), 40)
                ))
            }
            Envelope { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comes(lines: &mut Lines, text: &str) -> Result<(), String> {
        lines.comes(text.as_bytes(), &Schemas::default())
    }

    #[test]
    fn schemas_are_found_in_pieces_of_lines_and_keep_their_bytes() {
        let schema = r#"{ "type":"object","properties":{"z":{"minimum":1e0},"a":{}} }"#;
        let list = format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{{"name":"t","inputSchema":{schema}}}]}}}}"#
        );
        let text = format!("noise \"inputSchema\"\n{list}\n{{\"half\"");
        let (mut lines, schemas) = (Lines::default(), Schemas::default());
        lines.goes(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n");
        for piece in text.as_bytes().chunks(7) {
            lines.comes(piece, &schemas).expect("good");
        }
        assert_eq!(schemas.of("t").expect("known").get(), schema);
        assert!(schemas.of("noise").is_none());
    }

    #[test]
    fn what_breaks_the_protocol_is_a_fault_and_noise_is_not() {
        let mut lines = Lines::default();
        lines.goes(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"met");
        lines.goes(b"hod\":\"x\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"note\"}\n");
        for good in [
            "no JSON {\n[1,2\n\n{\"odd\":true}\n{\"level\":\n",
            "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n",
            "{\"jsonrpc\":\"2.0\",\"id\":99,\"method\":\"ping\"}\n",
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n",
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,\"message\":\"m\"}}\n",
        ] {
            assert_eq!(comes(&mut lines, good), Ok(()), "{good}");
        }
        for (bad, why) in [
            (
                "{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{}}\n",
                "it answered a request that was not made (id 8)",
            ),
            (
                "{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"result\":{}}\n",
                "it answered a request that was not made (id \"7\")",
            ),
            (
                "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\n",
                "it sent a message that is not valid JSON (EOF while parsing an object at line 1 column 34)",
            ),
        ] {
            assert_eq!(comes(&mut lines, bad), Err(why.to_owned()), "{bad}");
        }
        let endless = "x".repeat(LONGEST_LINE + 2);
        let why = "it sent a line of more than 16 MiB, and no longer one is taken";
        assert_eq!(comes(&mut lines, &endless), Err(why.to_owned()));
    }
}
