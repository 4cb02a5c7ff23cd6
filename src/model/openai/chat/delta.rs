//! The chunks of a chat completions stream, read leniently: a member of an odd type is as good as absent.

use super::super::lenient;
use super::super::usage::Tokens;
use serde::Deserialize;
use serde_json::value::RawValue;

/// One chunk, or a whole answer of a server that does not stream.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk {
    #[serde(deserialize_with = "lenient")]
    pub(super) id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) model: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) choices: Option<Vec<Choice>>,
    #[serde(deserialize_with = "lenient")]
    pub(super) usage: Option<Tokens>,
    pub(super) error: Option<Box<RawValue>>,
}

/// One of the answers; only the first was asked for.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice {
    #[serde(deserialize_with = "lenient")]
    pub(super) index: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    pub(super) delta: Option<Message>,
    /// Instead of `delta`, when all of it comes at once.
    #[serde(deserialize_with = "lenient")]
    pub(super) message: Option<Message>,
    #[serde(deserialize_with = "lenient")]
    pub(super) finish_reason: Option<String>,
    /// Where some servers put it.
    #[serde(deserialize_with = "lenient")]
    pub(super) usage: Option<Tokens>,
}

/// A piece of the answer.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Message {
    pub(super) content: Option<Box<RawValue>>,
    #[serde(deserialize_with = "lenient")]
    pub(super) refusal: Option<String>,
    /// The name that most servers use for reasoning …
    #[serde(deserialize_with = "lenient")]
    pub(super) reasoning_content: Option<String>,
    /// … and the other one; servers that send both say the same in them.
    #[serde(deserialize_with = "lenient")]
    pub(super) reasoning: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) tool_calls: Option<Vec<CallDelta>>,
}

/// A piece of a tool call.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct CallDelta {
    #[serde(deserialize_with = "lenient")]
    pub(super) index: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    pub(super) id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) function: Option<Function>,
}

/// What is called with what.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Function {
    #[serde(deserialize_with = "lenient")]
    pub(super) name: Option<String>,
    pub(super) arguments: Option<Box<RawValue>>,
}

/// A text, or a list of parts some of which may be reasoning.
pub(super) enum Said {
    Text(String),
    Thinking(String),
}

impl Message {
    /// What is said and thought in this piece.
    pub(super) fn said(&self) -> Vec<Said> {
        let mut said = Vec::new();
        let thought = self.reasoning_content.as_ref().filter(|t| !t.is_empty()).or(self.reasoning.as_ref());
        said.extend(thought.cloned().map(Said::Thinking));
        if let Some(content) = &self.content {
            read_content(content, &mut said);
        }
        said
    }
}

fn read_content(content: &RawValue, said: &mut Vec<Said>) {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Part {
        #[serde(deserialize_with = "lenient")]
        text: Option<String>,
        thinking: Option<Box<RawValue>>,
    }
    if let Ok(text) = serde_json::from_str::<String>(content.get()) {
        said.push(Said::Text(text));
        return;
    }
    for part in serde_json::from_str::<Vec<Part>>(content.get()).unwrap_or_default() {
        said.extend(part.text.map(Said::Text));
        let mut inner = Vec::new();
        if let Some(thinking) = part.thinking {
            read_content(&thinking, &mut inner);
        }
        said.extend(inner.into_iter().map(|piece| match piece {
            Said::Text(text) | Said::Thinking(text) => Said::Thinking(text),
        }));
    }
}

impl Function {
    /// The piece of the input: a text as the wire has it, or the value itself where a server sends that.
    pub(super) fn written(&self) -> String {
        match self.arguments.as_deref().map(RawValue::get) {
            None | Some("null") => String::new(),
            Some(raw) => serde_json::from_str(raw).unwrap_or_else(|_| raw.to_owned()),
        }
    }
}
