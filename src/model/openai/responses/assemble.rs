//! The events of one Responses API stream, put together to a response.
//!
//! Owns the state between `response.created` and the event that ends the response. What counts are
//! the finished items, whose bytes are kept; deltas are for display and for the partial text. Never does
//! I/O.

use super::super::failure;
use super::super::ids::CallIds;
use super::super::lenient;
use super::super::names::ToolNames;
use super::super::usage::Tokens;
use super::item::{Collected, Item};
use crate::model::bounds;
use crate::model::provider::{
    Delta, DeltaSink, ModelError, ModelErrorKind, ModelRequest, ModelResponse, StopReason,
};
use crate::model::stream::{self, Progress, nonsense};
use crate::wire::block::Block;
use crate::wire::usage::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Event {
    #[serde(rename = "type", deserialize_with = "lenient")]
    kind: Option<String>,
    #[serde(deserialize_with = "lenient")]
    output_index: Option<u64>,
    item: Option<Box<RawValue>>,
    #[serde(deserialize_with = "lenient")]
    delta: Option<String>,
    response: Option<Box<RawValue>>,
}

/// The response object: the last event's, or the whole answer of a server that does not stream.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    #[serde(deserialize_with = "lenient")]
    id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    model: Option<String>,
    #[serde(deserialize_with = "lenient")]
    status: Option<String>,
    #[serde(deserialize_with = "lenient")]
    output: Option<Vec<Box<RawValue>>>,
    #[serde(deserialize_with = "lenient")]
    usage: Option<Tokens>,
    #[serde(deserialize_with = "lenient")]
    incomplete_details: Option<Incomplete>,
    error: Option<Box<RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Incomplete {
    #[serde(deserialize_with = "lenient")]
    reason: Option<String>,
}

/// An item so far.
#[derive(Default)]
struct Growing {
    text: String,
    finished: Option<Box<RawValue>>,
}

/// The response so far.
pub(in super::super) struct Assembler<'a> {
    request: &'a ModelRequest,
    names: &'a ToolNames,
    started: Answer,
    ended: Option<Answer>,
    items: BTreeMap<u64, Growing>,
}

impl<'a> Assembler<'a> {
    /// For the answer to `request`.
    pub(in super::super) fn new(request: &'a ModelRequest, names: &'a ToolNames) -> Self {
        Self { request, names, started: Answer::default(), ended: None, items: BTreeMap::new() }
    }

    fn end(&mut self, raw: &str) -> Result<(), ModelError> {
        let answer: Answer = read(raw)?;
        let failed = answer.status.as_deref() == Some("failed");
        if failed || answer.error.as_ref().is_some_and(|error| error.get() != "null") {
            return Err(failed_with(raw));
        }
        self.ended = Some(answer);
        Ok(())
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        self.items.values().map(|item| item.text.as_str())
    }

    fn item(&mut self, event: &Event) -> &mut Growing {
        let next = self.items.last_key_value().map_or(0, |(last, _)| *last);
        self.items.entry(event.output_index.unwrap_or(next)).or_default()
    }

    /// The finished items: those of the stream, or those of the last event where the stream lacks some.
    fn output(&mut self, answer: &mut Answer) -> Vec<Box<RawValue>> {
        let listed = answer.output.take().unwrap_or_default();
        let items = std::mem::take(&mut self.items);
        let finished: Vec<_> = items.into_values().filter_map(|item| item.finished).collect();
        if finished.len() >= listed.len() { finished } else { listed }
    }
}

fn read<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, ModelError> {
    serde_json::from_str(data).map_err(|e| nonsense("an event that cannot be read", e))
}

fn failed_with(data: &str) -> ModelError {
    failure::of_object(&serde_json::from_str(data).unwrap_or_else(|_| data.into()))
}

impl stream::Assembler for Assembler<'_> {
    /// Types that are not known are passed over.
    fn event(&mut self, name: &str, data: &str, sink: &dyn DeltaSink) -> Result<Progress, ModelError> {
        if data.trim() == "[DONE]" {
            return Ok(if self.ended.is_some() { Progress::Complete } else { Progress::More(0) });
        }
        let event: Event = read(data)?;
        let mut size = 0;
        match (event.kind.as_deref().unwrap_or(name), event.delta.clone()) {
            ("response.created", _) => {
                self.started =
                    event.response.as_deref().map(|r| read(r.get())).transpose()?.unwrap_or_default();
            }
            ("response.output_item.added", _) => {
                let item: Item =
                    event.item.as_deref().map(|i| read(i.get())).transpose()?.unwrap_or_default();
                self.item(&event);
                size = 1 + event.item.as_deref().map_or(0, |item| item.get().len());
                if item.kind.as_deref() == Some("function_call") {
                    let name = self.names.meant(item.name.as_deref().unwrap_or_default());
                    sink.delta(Delta::ToolCall { name });
                }
            }
            ("response.output_text.delta" | "response.refusal.delta", Some(text)) if !text.is_empty() => {
                size = text.len();
                self.item(&event).text.push_str(&text);
                sink.delta(Delta::Text(text));
            }
            ("response.reasoning_summary_text.delta" | "response.reasoning_text.delta", Some(text))
                if !text.is_empty() =>
            {
                size = text.len();
                sink.delta(Delta::Thinking(text));
            }
            ("response.output_item.done", _) => {
                let item = event.item.clone();
                size = 1 + item.as_deref().map_or(0, |item| item.get().len());
                self.item(&event).finished = item;
            }
            ("response.completed" | "response.incomplete" | "response.failed", _) => {
                self.end(event.response.as_deref().map_or("{}", RawValue::get))?;
                return Ok(Progress::Complete);
            }
            ("error", _) => return Err(failed_with(data)),
            // The input of a call, which its item brings again: not kept, but a sign of life.
            (_, Some(text)) => size = text.len(),
            _ => {}
        }
        Ok(Progress::More(size))
    }

    fn whole(&mut self, body: &str, _: &dyn DeltaSink) -> Result<(), ModelError> {
        self.end(body)
    }

    fn is_whole(&self) -> bool {
        self.ended.is_some()
    }

    fn partial(&self) -> String {
        bounds::partial(self.texts())
    }

    fn finish(mut self) -> Result<ModelResponse, ModelError> {
        let Some(mut answer) = self.ended.take() else {
            let what = "the model provider's answer holds no response";
            return Err(ModelError::new(ModelErrorKind::Protocol, what));
        };
        let said = self.texts().filter(|text| !text.trim().is_empty()).collect::<Vec<_>>().join("\n");
        let mut all = Collected::default();
        let mut ids = CallIds::new(self.request);
        for raw in self.output(&mut answer) {
            all.add(&raw, &mut ids, self.names)
                .map_err(|e| nonsense("an output item that cannot be read", e))?;
        }
        if all.blocks.is_empty() && !said.is_empty() {
            // A server that sends deltas and never the item.
            all.blocks.push(Block::text(&said));
        }
        let reason = answer.incomplete_details.and_then(|details| details.reason);
        let stop = match (reason.as_deref(), answer.status.as_deref()) {
            _ if all.refused => StopReason::Refusal,
            (Some("max_output_tokens" | "max_tokens"), _) => StopReason::MaxTokens,
            (Some("content_filter"), _) => StopReason::Refusal,
            (Some(other), _) => StopReason::Other(other.to_owned()),
            (None, Some("incomplete")) => StopReason::MaxTokens,
            (None, _) if all.calls => StopReason::ToolUse,
            (None, _) => StopReason::EndTurn,
        };
        let model = answer.model.or(self.started.model).filter(|model| !model.is_empty());
        Ok(ModelResponse {
            id: answer.id.or(self.started.id).unwrap_or_default(),
            model: model.unwrap_or_else(|| self.request.prefix.model.clone()),
            blocks: all.blocks,
            stop,
            usage: Usage { web_search_requests: all.searches, ..answer.usage.unwrap_or_default().usage() },
            malformed: all.malformed,
        })
    }
}
