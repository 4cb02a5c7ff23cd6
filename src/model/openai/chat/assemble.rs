//! The chunks of one chat completions stream, put together to a response.
//!
//! Owns the state between the first chunk and `[DONE]`. A stream is whole when a reason for its end was
//! given; what comes after that (usage, the end mark) may be missing. Never does I/O.

use super::super::failure;
use super::super::ids::CallIds;
use super::super::names::ToolNames;
use super::super::usage::Tokens;
use super::calls::Calls;
use super::delta::{Choice, Chunk, Message, Said};
use crate::model::foreign::unsigned_thinking;
use crate::model::provider::{
    Delta, DeltaSink, ModelError, ModelErrorKind, ModelRequest, ModelResponse, StopReason,
};
use crate::model::stream::{self, Progress, nonsense};
use crate::model::{bounds, calls};
use crate::wire::block::Block;

/// The name of a call that came without one; no tool has it, so the model is told.
const NAMELESS: &str = "unnamed_tool";

/// The response so far.
pub(in super::super) struct Assembler<'a> {
    request: &'a ModelRequest,
    names: &'a ToolNames,
    id: String,
    model: String,
    text: String,
    thinking: String,
    refused: bool,
    calls: Calls,
    tokens: Option<Tokens>,
    stop: Option<String>,
    begun: bool,
}

impl<'a> Assembler<'a> {
    /// For the answer to `request`.
    pub(in super::super) fn new(request: &'a ModelRequest, names: &'a ToolNames) -> Self {
        Self {
            request,
            names,
            id: String::new(),
            model: String::new(),
            text: String::new(),
            thinking: String::new(),
            refused: false,
            calls: Calls::default(),
            tokens: None,
            stop: None,
            begun: false,
        }
    }

    /// Gives how many bytes of an answer came.
    fn chunk(&mut self, data: &str, sink: &dyn DeltaSink) -> Result<usize, ModelError> {
        let chunk: Chunk =
            serde_json::from_str(data).map_err(|e| nonsense("an event that cannot be read", e))?;
        if chunk.error.is_some_and(|error| error.get() != "null") {
            return Err(failed(data));
        }
        fill(&mut self.id, chunk.id);
        fill(&mut self.model, chunk.model);
        self.tokens = chunk.usage.or(self.tokens.take());
        let first = |choice: &Choice| choice.index.unwrap_or(0) == 0;
        let choices = chunk.choices.unwrap_or_default().into_iter().filter(first);
        Ok(choices.map(|choice| self.choice(choice, sink)).sum())
    }

    fn choice(&mut self, choice: Choice, sink: &dyn DeltaSink) -> usize {
        self.begun = true;
        self.tokens = choice.usage.or(self.tokens.take());
        let message = choice.delta.or(choice.message);
        let size = message.map_or(0, |message| self.message(&message, sink));
        let reason = choice.finish_reason.filter(|reason| !reason.is_empty() && reason != "null");
        self.stop = reason.or(self.stop.take());
        size
    }

    fn message(&mut self, message: &Message, sink: &dyn DeltaSink) -> usize {
        let mut size = 0;
        for said in message.said() {
            match said {
                Said::Thinking(text) if !text.is_empty() => {
                    size += text.len();
                    self.thinking.push_str(&text);
                    sink.delta(Delta::Thinking(text));
                }
                Said::Text(text) if !text.is_empty() => size += self.say(text, sink),
                Said::Thinking(_) | Said::Text(_) => {}
            }
        }
        if let Some(refusal) = message.refusal.as_ref().filter(|text| !text.is_empty()) {
            self.refused = true;
            size += self.say(refusal.clone(), sink);
        }
        for delta in message.tool_calls.iter().flatten() {
            let before = self.calls.size();
            if let Some(name) = self.calls.add(delta) {
                sink.delta(Delta::ToolCall { name: self.names.meant(name) });
            }
            size += self.calls.size().saturating_sub(before);
        }
        size
    }

    fn say(&mut self, text: String, sink: &dyn DeltaSink) -> usize {
        let size = text.len();
        self.text.push_str(&text);
        sink.delta(Delta::Text(text));
        size
    }

    fn stop_reason(&self) -> StopReason {
        match self.stop.as_deref() {
            _ if self.refused => StopReason::Refusal,
            // What calls tools waits for them, whatever the server calls it.
            None | Some("stop" | "tool_calls" | "function_call") if self.calls.is_empty() => {
                StopReason::EndTurn
            }
            None | Some("stop" | "tool_calls" | "function_call") => StopReason::ToolUse,
            Some("length") => StopReason::MaxTokens,
            Some("content_filter") => StopReason::Refusal,
            Some(other) => StopReason::Other(other.to_owned()),
        }
    }
}

/// Keeps the first that is not empty.
fn fill(field: &mut String, value: Option<String>) {
    if field.is_empty() {
        *field = value.unwrap_or_default();
    }
}

fn failed(data: &str) -> ModelError {
    failure::of_object(&serde_json::from_str(data).unwrap_or_else(|_| data.into()))
}

impl stream::Assembler for Assembler<'_> {
    fn event(&mut self, name: &str, data: &str, sink: &dyn DeltaSink) -> Result<Progress, ModelError> {
        let data = data.trim();
        if data == "[DONE]" {
            return Ok(Progress::Complete);
        }
        if name == "error" {
            return Err(failed(data));
        }
        Ok(Progress::More(self.chunk(data, sink)?))
    }

    fn whole(&mut self, body: &str, sink: &dyn DeltaSink) -> Result<(), ModelError> {
        self.chunk(body, sink).map(drop)
    }

    fn is_whole(&self) -> bool {
        self.stop.is_some()
    }

    fn partial(&self) -> String {
        bounds::partial(std::iter::once(self.text.as_str()))
    }

    fn finish(self) -> Result<ModelResponse, ModelError> {
        if !self.begun {
            let what = "the model provider's answer holds no message";
            return Err(ModelError::new(ModelErrorKind::Protocol, what));
        }
        let stop = self.stop_reason();
        let mut blocks: Vec<Block> = Vec::new();
        if !self.thinking.trim().is_empty() {
            blocks.extend(unsigned_thinking(&self.thinking));
        }
        if !self.text.trim().is_empty() {
            blocks.push(Block::text(&self.text));
        }
        let mut malformed = Vec::new();
        let mut ids = CallIds::new(self.request);
        for call in self.calls.into_list() {
            let name = match call.name.trim() {
                "" => NAMELESS.to_owned(),
                name => self.names.meant(name),
            };
            let (block, bad) = calls::call(&ids.unique(&call.id), &name, call.input);
            blocks.push(block);
            malformed.extend(bad);
        }
        Ok(ModelResponse {
            id: self.id,
            model: if self.model.is_empty() { self.request.prefix.model.clone() } else { self.model },
            blocks,
            stop,
            usage: self.tokens.unwrap_or_default().usage(),
            malformed,
        })
    }
}
