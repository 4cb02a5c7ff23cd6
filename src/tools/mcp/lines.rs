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
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Longest line that is taken, in bytes: the client takes no longer one either.
const LONGEST_LINE: usize = 16 * 1024 * 1024;

/// Ids of requests without an answer that are remembered; those of cancelled ones may stay for ever.
const MOST_OPEN: usize = 4096;
/// Ids of answered requests that are remembered: a server may answer twice what was cancelled meanwhile.
const MOST_ANSWERED: usize = 64;

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
    asked: Asked,
}

/// The ids of requests that were sent, as JSON.
#[derive(Default)]
struct Asked {
    /// Those without an answer, the oldest first.
    open: VecDeque<String>,
    /// The last that were answered.
    answered: VecDeque<String>,
    /// Whether some were dropped, so that an unknown id proves nothing any more.
    forgetful: bool,
}

impl Asked {
    fn ask(&mut self, id: String) {
        self.open.push_back(id);
        if self.open.len() > MOST_OPEN {
            self.open.pop_front();
            self.forgetful = true;
        }
    }

    /// Takes an answer; `false` when nobody can have asked for it.
    fn answer(&mut self, id: &str) -> bool {
        let Some(at) = self.open.iter().position(|open| open == id) else {
            return self.forgetful || self.answered.iter().any(|answered| answered == id);
        };
        self.answered.extend(self.open.remove(at));
        if self.answered.len() > MOST_ANSWERED {
            self.answered.pop_front();
        }
        true
    }
}

impl Lines {
    /// Looks at what goes to the server.
    pub fn goes(&mut self, data: &[u8]) {
        for part in data.split_inclusive(|byte| *byte == b'\n') {
            self.going.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.going);
                if let Ok(Envelope { id: Some(id), method: Some(_), .. }) = serde_json::from_slice(&line) {
                    self.asked.ask(id.to_string());
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

    fn message(&mut self, line: &[u8]) -> Result<(), String> {
        let line = line.trim_ascii();
        if !line.starts_with(b"{") || memchr::memmem::find(line, b"\"jsonrpc\"").is_none() {
            return Ok(());
        }
        let broken = |error: serde_json::Error| format!("it sent a message that is not valid JSON ({error})");
        match serde_json::from_slice(line).map_err(broken)? {
            Envelope { id: Some(id), method: None, result, error }
                if (result.is_some() || error.is_some()) && !self.asked.answer(&id.to_string()) =>
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
    fn ids_are_forgotten_once_they_are_answered() {
        let ask = |lines: &mut Lines, id: usize| {
            lines.goes(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"x\"}}\n").as_bytes());
        };
        let answer = |lines: &mut Lines, id: usize| {
            comes(lines, &format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n"))
        };
        let unasked = |id: usize| Err(format!("it answered a request that was not made (id {id})"));
        let mut lines = Lines::default();
        for id in 0..1000 {
            ask(&mut lines, id);
            assert_eq!(answer(&mut lines, id), Ok(()), "{id}");
        }
        assert_eq!((lines.asked.open.len(), lines.asked.answered.len()), (0, MOST_ANSWERED));
        assert_eq!([answer(&mut lines, 999), answer(&mut lines, 5)], [Ok(()), unasked(5)]);
        // Answers that never come cost no more than so much, and nobody is blamed for what was forgotten.
        for id in 2000..2000 + MOST_OPEN {
            ask(&mut lines, id);
        }
        assert_eq!(answer(&mut lines, 1), unasked(1));
        ask(&mut lines, 9999);
        assert_eq!([2000, 9999].map(|id| answer(&mut lines, id)), [Ok(()), Ok(())]);
        assert_eq!(lines.asked.open.len(), MOST_OPEN - 1);
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
