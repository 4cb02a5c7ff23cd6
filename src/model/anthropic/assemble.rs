//! The events of one Messages API stream, put together to a response.
//!
//! Owns the state between `message_start` and `message_stop`. Never does I/O. A stream is complete
//! only with `message_stop`; until then there is nothing but partial text.

use super::building::{Building, Piece};
use super::failure::{self, ApiError};
use crate::model::bounds;
use crate::model::calls::Malformed;
use crate::model::provider::{Delta, DeltaSink, ModelError, ModelResponse, StopReason};
use crate::model::stream::{self, Progress, nonsense, not_events};
use crate::wire::block::{Block, BlockKind};
use crate::wire::usage::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Named {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct MessageStart {
    message: Started,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Started {
    id: String,
    model: String,
    usage: Tokens,
}

#[derive(Deserialize)]
struct BlockStart {
    index: u64,
    content_block: Box<RawValue>,
}

#[derive(Deserialize)]
struct BlockDelta {
    index: u64,
    delta: Box<RawValue>,
}

#[derive(Deserialize)]
struct MessageDelta {
    delta: Option<Ending>,
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Ending {
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct Failed {
    error: ApiError,
}

/// Counts as they are named on the wire; what is absent or null leaves the earlier value.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Tokens {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    server_tool_use: Option<ServerTools>,
}

/// What the vendor did and bills beside the tokens.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ServerTools {
    web_search_requests: Option<u64>,
}

impl Tokens {
    fn update(&self, usage: &mut Usage) {
        let set = |field: &mut u64, value: Option<u64>| *field = value.unwrap_or(*field);
        set(&mut usage.input_tokens, self.input_tokens);
        set(&mut usage.output_tokens, self.output_tokens);
        set(&mut usage.cache_creation_input_tokens, self.cache_creation_input_tokens);
        set(&mut usage.cache_read_input_tokens, self.cache_read_input_tokens);
        let searches = self.server_tool_use.as_ref().and_then(|tools| tools.web_search_requests);
        set(&mut usage.web_search_requests, searches);
    }
}

/// The response so far.
#[derive(Default)]
pub(super) struct Assembler {
    started: Started,
    blocks: Vec<(u64, Building)>,
    usage: Usage,
    stop: Option<String>,
}

fn read<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, ModelError> {
    serde_json::from_str(data).map_err(|e| nonsense("an event that cannot be read", e))
}

impl Assembler {
    fn begin(&mut self, event: BlockStart, sink: &dyn DeltaSink) -> Result<usize, ModelError> {
        let size = event.content_block.get().len();
        let block =
            Building::begin(event.content_block).map_err(|e| nonsense("a block that cannot be read", e))?;
        if let Some(name) = block.tool() {
            sink.delta(Delta::ToolCall { name });
        }
        if !block.text().is_empty() {
            sink.delta(Delta::Text(block.text().to_owned()));
        }
        self.blocks.push((event.index, block));
        Ok(size)
    }

    fn add(&mut self, event: &BlockDelta, sink: &dyn DeltaSink) -> Result<usize, ModelError> {
        let Some((_, block)) = self.blocks.iter_mut().rev().find(|(index, _)| *index == event.index) else {
            return Err(nonsense("a piece of a block that never began", event.index));
        };
        let (piece, size) =
            block.add(&event.delta).map_err(|e| nonsense("a piece that cannot be read", e))?;
        match piece {
            Piece::Text(text) => sink.delta(Delta::Text(text)),
            Piece::Thinking(text) => sink.delta(Delta::Thinking(text)),
            Piece::None => {}
        }
        Ok(size)
    }
}

impl stream::Assembler for Assembler {
    /// Types that are not known (and `ping`) are passed over.
    fn event(&mut self, _: &str, data: &str, sink: &dyn DeltaSink) -> Result<Progress, ModelError> {
        match read::<Named>(data)?.kind.as_str() {
            "message_start" => {
                self.started = read::<MessageStart>(data)?.message;
                self.started.usage.update(&mut self.usage);
            }
            "content_block_start" => return Ok(Progress::More(self.begin(read(data)?, sink)?)),
            "content_block_delta" => return Ok(Progress::More(self.add(&read(data)?, sink)?)),
            "message_delta" => {
                let event: MessageDelta = read(data)?;
                self.stop = event.delta.and_then(|d| d.stop_reason).or(self.stop.take());
                event.usage.unwrap_or_default().update(&mut self.usage);
            }
            "message_stop" => return Ok(Progress::Complete),
            "error" => return Err(failure::of_event(&read::<Failed>(data)?.error)),
            _ => {}
        }
        Ok(Progress::More(0))
    }

    fn whole(&mut self, body: &str, _: &dyn DeltaSink) -> Result<(), ModelError> {
        Err(not_events("application/json", body))
    }

    fn is_whole(&self) -> bool {
        false
    }

    fn partial(&self) -> String {
        bounds::partial(self.blocks.iter().map(|(_, block)| block.text()))
    }

    fn finish(self) -> Result<ModelResponse, ModelError> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut malformed: Vec<Malformed> = Vec::new();
        for (_, building) in self.blocks {
            let (block, bad) = building.finish().map_err(|e| nonsense("a block that cannot be read", e))?;
            blocks.extend(block);
            malformed.extend(bad);
        }
        let calls = blocks.iter().any(|b| b.kind() == BlockKind::ToolUse);
        Ok(ModelResponse {
            id: self.started.id,
            model: self.started.model,
            stop: stop_reason(self.stop.as_deref(), calls),
            blocks,
            usage: self.usage,
            malformed,
        })
    }
}

fn stop_reason(name: Option<&str>, calls: bool) -> StopReason {
    match name {
        Some(name) => StopReason::from_wire(name),
        None if calls => StopReason::ToolUse,
        None => StopReason::EndTurn,
    }
}
