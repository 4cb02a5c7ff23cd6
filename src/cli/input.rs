//! `--input-format stream-json`: what the user says comes as lines of JSON on standard input.
//!
//! A line is `{"type":"user","message":{"role":"user","content":…}}`, its content a text or a list of
//! text blocks (contract §16). The end of the input means that no more is said. Each line is read when
//! it comes, so a program can wait for an answer before it goes on.

use super::error::CliError;
use serde::Deserialize;
use serde_json::Value;
use std::io::{BufRead, Read};
use tokio::sync::mpsc;

/// Lines that are read before they are asked for.
const AHEAD: usize = 16;
/// The longest line that is taken, in bytes.
const LONGEST: u64 = 32 * 1024 * 1024;

/// What a run is told.
pub struct Prompts {
    first: Option<String>,
    more: Option<mpsc::Receiver<Result<String, CliError>>>,
}

impl Prompts {
    /// One prompt.
    pub fn one(prompt: &str) -> Self {
        Self { first: Some(prompt.to_owned()), more: None }
    }

    /// A first one, if any, and then what comes on standard input.
    pub fn streamed(first: Option<String>) -> Result<Self, CliError> {
        let (sender, more) = mpsc::channel(AHEAD);
        std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
            let mut stdin = std::io::stdin().lock();
            for number in 1.. {
                let mut line = read_line(&mut stdin);
                if let (1, Ok(Some(first))) = (number, &mut line) {
                    unmark(first);
                }
                let said = match line {
                    Ok(None) => return,
                    Ok(Some(line)) if line.trim().is_empty() => continue,
                    Ok(Some(line)) => said(&line).map_err(|why| wrong(number, &why)),
                    Err(why) => Err(wrong(number, &why)),
                };
                let failed = said.is_err();
                if sender.blocking_send(said).is_err() || failed {
                    return;
                }
            }
        })?;
        Ok(Self { first, more: Some(more) })
    }

    /// The next one; `None` when no more comes.
    ///
    /// # Errors
    /// A line that is none of ours; nothing is read behind it.
    pub async fn next(&mut self) -> Result<Option<String>, CliError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        match &mut self.more {
            None => Ok(None),
            Some(more) => more.recv().await.transpose(),
        }
    }
}

/// The next line, without its end; `None` at the end of the input.
fn read_line(from: &mut impl BufRead) -> Result<Option<String>, String> {
    let mut bytes = Vec::new();
    from.take(LONGEST + 1).read_until(b'\n', &mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > LONGEST {
        return Err(format!("it is longer than {} MiB", LONGEST >> 20));
    }
    if bytes.is_empty() {
        return Ok(None);
    }
    String::from_utf8(bytes).map(Some).map_err(|_| "it is not UTF-8 text".to_owned())
}

/// Takes a byte order mark away, which some programs write first.
fn unmark(line: &mut String) {
    if line.starts_with('\u{feff}') {
        line.remove(0);
    }
}

fn wrong(number: usize, why: &str) -> CliError {
    CliError::usage(
        format!("line {number} of standard input: {why}"),
        r#"a line is {"type":"user","message":{"role":"user","content":"…"}}"#,
    )
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    content: Value,
}

/// What a line says.
fn said(line: &str) -> Result<String, String> {
    let line: Line = serde_json::from_str(line).map_err(|e| format!("it is no message: {e}"))?;
    if line.kind != "user" {
        return Err(format!("its type is {:?}; only \"user\" is taken", line.kind));
    }
    let message = line.message.ok_or("it has no `message`")?;
    if message.role != "user" {
        return Err(format!("its role is {:?}, not \"user\"", message.role));
    }
    let text = match &message.content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(text_of).collect::<Result<Vec<_>, _>>()?.join("\n\n"),
        _ => return Err("its content is neither a text nor a list of blocks".to_owned()),
    };
    if text.trim().is_empty() { Err("it says nothing".to_owned()) } else { Ok(text) }
}

fn text_of(block: &Value) -> Result<String, String> {
    match (block.get("type").and_then(Value::as_str), block.get("text").and_then(Value::as_str)) {
        (Some("text"), Some(text)) => Ok(text.to_owned()),
        (kind, _) => Err(format!("a block of type {:?}; only text blocks are taken", kind.unwrap_or("?"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_text_or_says_what_is_wrong_with_it() {
        let line =
            |content: &str| format!(r#"{{"type":"user","message":{{"role":"user","content":{content}}}}}"#);
        assert_eq!(said(&line(r#""hi\nyou""#)), Ok("hi\nyou".to_owned()));
        assert_eq!(
            said(&line(r#"[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#)),
            Ok("a\n\nb".into())
        );
        for (wrong, why) in [
            ("{", "it is no message: EOF"),
            (r#"{"type":"control_request"}"#, "its type is \"control_request\""),
            (r#"{"type":"user"}"#, "it has no `message`"),
            (r#"{"type":"user","message":{"role":"assistant","content":"x"}}"#, "its role is \"assistant\""),
            (&line("7"), "its content is neither"),
            (&line("\" \""), "it says nothing"),
            (&line(r#"[{"type":"image"}]"#), "a block of type \"image\""),
        ] {
            let said = said(wrong).expect_err("wrong");
            assert!(said.starts_with(why), "{wrong}: {said}");
        }
    }
}
