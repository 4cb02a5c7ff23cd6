//! A model that plays a script: no network, no key, the same answers every time.
//!
//! Owns which rule answers which request, and the simulated stream and usage. Promises that the answers
//! to one agent do not depend on what others do at the same time. See [`super::script`] for the format.

mod cache;
pub(in crate::model) mod conversation;
pub mod gates;
#[cfg(test)]
mod tests;

use super::http::kind_of_failure;
use super::provider::{
    BoxFuture, Delta, DeltaSink, ModelError, ModelErrorKind, ModelProvider, ModelRequest, ModelResponse,
    PromptPrefix, StopReason, ToolDeclaration,
};
use super::script::template::{Rendered, Values};
use super::script::{Action, Input, Script, ScriptError, Shape, UsageOverride};
use super::search::Bounds;
use crate::model::tuning::Tuning;
use crate::wire::block::{Block, BlockKind};
use crate::wire::open::RawMap;
use crate::wire::usage::Usage;
use cache::PromptCache;
use conversation::{Conversations, REPEAT, View};
use gates::{Gates, Passed};
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use tokio::time::sleep;

/// Bound of an answer that is written into the prefix; a script has none.
const ANSWER_TOKENS: u32 = 32_000;

/// A script that is being played.
pub struct Scripted {
    script: Script,
    gates: Gates,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    conversations: Conversations,
    cache: PromptCache,
}

/// What was decided about a request before the answer begins.
struct Turn<'a> {
    view: View<'a>,
    rule: usize,
    /// Marks ids of this conversation.
    mark: String,
    usage: Usage,
}

/// The answer so far.
#[derive(Default)]
struct Answer {
    blocks: Vec<Block>,
    malformed: Vec<(String, String)>,
    ids: HashSet<String>,
    usage: UsageOverride,
    stop: Option<String>,
    said: Vec<String>,
}

impl Scripted {
    /// Plays a script that was read.
    pub fn new(script: Script, gates: Gates) -> Self {
        Self { script, gates, state: Mutex::default() }
    }

    /// Reads and plays a file.
    pub fn load(path: &Path, gates: Gates) -> Result<Self, ScriptError> {
        Ok(Self::new(Script::load(path)?, gates))
    }

    fn wrong(&self, line: usize, why: String) -> ModelError {
        let error = ScriptError::Wrong { path: self.script.path.clone(), line, why };
        ModelError::new(ModelErrorKind::Script, error.to_string())
    }

    /// Chooses the rule and counts its use.
    fn begin<'a>(&self, request: &'a ModelRequest) -> Result<Turn<'a>, ModelError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let usage = state.cache.take(request);
        let conversation = state.conversations.of(request, self.script.rules.len());
        let view = View::new(request, conversation.opening);
        let mut spent = Vec::new();
        for (index, rule) in self.script.rules.iter().enumerate().filter(|(_, rule)| view.fits(rule)) {
            if rule.times.is_none_or(|times| conversation.used[index] < times) {
                conversation.used[index] += 1;
                let mark = mark(&request.tag.agent, conversation.key);
                return Ok(Turn { view, rule: index, mark, usage });
            }
            spent.push(rule.line.to_string());
        }
        let input: String = view.input().chars().take(120).collect();
        let spent = match spent.len() {
            0 => String::new(),
            _ => format!("; used up: the rules at line {}", spent.join(", ")),
        };
        Err(ModelError::new(
            ModelErrorKind::Script,
            format!(
                "{}: no rule answers agent `{}` in round {}{spent}; it was given {input:?}",
                self.script.path.display(),
                request.tag.agent,
                request.tag.round,
            ),
        ))
    }

    async fn play(&self, turn: &Turn<'_>, sink: &dyn DeltaSink) -> Result<Answer, ModelError> {
        let mut answer = Answer { ids: turn.view.calls().collect(), ..Answer::default() };
        for part in &self.script.rules[turn.rule].reply {
            let wrong = |why| self.wrong(part.line, why);
            match &part.action {
                Action::Text(template) => {
                    let text = template.text(&turn.view).map_err(wrong)?;
                    self.say(&text, Delta::Text, sink).await;
                    if !text.trim().is_empty() {
                        answer.blocks.push(Block::text(&text));
                    }
                    answer.said.push(text);
                }
                Action::Thinking(template, signature) => {
                    let text = template.text(&turn.view).map_err(wrong)?;
                    self.say(&text, Delta::Thinking, sink).await;
                    answer.blocks.push(Block::thinking(&text, signature));
                }
                Action::Tool { name, input, id } => {
                    sink.delta(Delta::ToolCall { name: name.clone() });
                    let id = answer.call_id(id.as_deref(), &turn.mark);
                    let input = written(input, &turn.view).map_err(wrong)?;
                    answer.call(&id, name, input);
                }
                Action::Block(block) => {
                    if let Some(call) = block.as_tool_use() {
                        sink.delta(Delta::ToolCall { name: call.name });
                        answer.ids.insert(call.id);
                    }
                    answer.blocks.push(block.clone());
                }
                Action::Delay(time) => sleep(*time).await,
                Action::Gate(name) => {
                    let (directory, deadline) = (&self.script.gates, self.script.gate_deadline);
                    if self.gates.pass(name, directory, deadline).await == Passed::TooLate {
                        let why = format!("gate `{name}` was not opened within {} s", deadline.as_secs_f32());
                        return Err(wrong(why).with_partial(answer.said.join("\n")));
                    }
                }
                Action::Error { status, message, retry_after } => {
                    let (kind, what) = match status {
                        Some(status) => (kind_of_failure(*status, message), format!("answered {status}")),
                        None => (ModelErrorKind::Connection, "broke the connection".to_owned()),
                    };
                    let mut error = ModelError::new(kind, format!("the scripted model {what}: {message}"))
                        .with_partial(answer.said.join("\n"));
                    error.retry_after = *retry_after;
                    return Err(error);
                }
                Action::Usage(usage) => answer.usage = *usage,
                Action::Stop(reason) => answer.stop = Some(reason.clone()),
            }
        }
        Ok(answer)
    }

    /// Streams a text in small pieces, at the script's pace.
    async fn say(&self, text: &str, delta: fn(String) -> Delta, sink: &dyn DeltaSink) {
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.char_indices().nth(self.script.piece).map_or(rest.len(), |(at, _)| at);
            sink.delta(delta(rest[..end].to_owned()));
            rest = &rest[end..];
            if !self.script.pace.is_zero() {
                sleep(self.script.pace).await;
            }
        }
    }
}

/// Letters and digits of the agent's name, and six hex digits of how its conversation began.
fn mark(agent: &str, key: u64) -> String {
    let name: String = agent.chars().filter(char::is_ascii_alphanumeric).take(24).collect();
    format!("{name}_{:06x}", key & 0xff_ffff)
}

impl Answer {
    /// An id that the conversation does not have yet.
    fn call_id(&mut self, wanted: Option<&str>, mark: &str) -> String {
        let made = || (self.ids.len()..).map(|n| format!("toolu_{mark}_{}", n + 1));
        let repeated = |id: &str| {
            let id = id.to_owned();
            std::iter::once(id.clone()).chain((2u32..).map(move |n| format!("{id}{REPEAT}{n}")))
        };
        let free = |id: &String| !self.ids.contains(id);
        let id = match wanted {
            Some(id) => repeated(id).find(free),
            None => made().find(free),
        };
        // Both lists are endless, so there is one.
        let id = id.unwrap_or_default();
        self.ids.insert(id.clone());
        id
    }

    fn call(&mut self, id: &str, name: &str, input: String) {
        let object = RawValue::from_string(input.clone())
            .ok()
            .filter(|_| serde_json::from_str::<RawMap>(&input).is_ok());
        match object {
            Some(raw) => self.blocks.push(Block::tool_use(id, name, &raw)),
            None => {
                let empty = RawValue::from_string("{}".to_owned()).unwrap_or_default();
                self.blocks.push(Block::tool_use(id, name, &empty));
                self.malformed.push((id.to_owned(), input));
            }
        }
    }

    fn finish(self, turn: &Turn<'_>, round: u32) -> ModelResponse {
        let bytes = self.blocks.iter().map(|b| b.raw().len()).sum();
        let set = |own: Option<u64>, simulated: u64| own.unwrap_or(simulated);
        let usage = Usage {
            input_tokens: set(self.usage.input_tokens, turn.usage.input_tokens),
            output_tokens: set(self.usage.output_tokens, cache::tokens(bytes)),
            cache_creation_input_tokens: set(
                self.usage.cache_creation_input_tokens,
                turn.usage.cache_creation_input_tokens,
            ),
            cache_read_input_tokens: set(
                self.usage.cache_read_input_tokens,
                turn.usage.cache_read_input_tokens,
            ),
            web_search_requests: 0,
        };
        let calls = self.blocks.iter().any(|b| b.kind() == BlockKind::ToolUse);
        let stop = match self.stop {
            Some(name) => StopReason::from_wire(&name),
            None if calls => StopReason::ToolUse,
            None => StopReason::EndTurn,
        };
        ModelResponse {
            id: format!("msg_{}_{round}", turn.mark),
            model: "scripted".to_owned(),
            blocks: self.blocks,
            stop,
            usage,
            malformed: self.malformed,
        }
    }
}

fn written(input: &Input, values: &dyn Values) -> Result<String, String> {
    match input {
        Input::Raw(template) => template.text(values),
        Input::Object(members) => object(members, values),
    }
}

fn object(members: &[(String, Shape)], values: &dyn Values) -> Result<String, String> {
    let list: Vec<String> = members
        .iter()
        .map(|(key, value)| {
            Ok(format!("{}:{}", serde_json::Value::from(key.as_str()), shape(value, values)?))
        })
        .collect::<Result<_, String>>()?;
    Ok(format!("{{{}}}", list.join(",")))
}

fn shape(value: &Shape, values: &dyn Values) -> Result<String, String> {
    match value {
        Shape::Fixed(text) => Ok(text.clone()),
        Shape::Text(template) => Ok(match template.render(values)? {
            Rendered::Text(text) => serde_json::Value::from(text).to_string(),
            Rendered::Int(number) => number,
        }),
        Shape::List(list) => {
            let list: Vec<String> = list.iter().map(|v| shape(v, values)).collect::<Result<_, _>>()?;
            Ok(format!("[{}]", list.join(",")))
        }
        Shape::Object(members) => object(members, values),
    }
}

impl ModelProvider for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn freeze(&self, model: &str, system: &str, tools: &[ToolDeclaration], tuning: &Tuning) -> PromptPrefix {
        PromptPrefix {
            model: model.to_owned(),
            tools: super::anthropic::request::tools(tools).into(),
            system: super::anthropic::request::system(system).into(),
            max_output_tokens: tuning.max_output_tokens.unwrap_or(ANSWER_TOKENS),
            thinking: None,
            effort: None,
        }
    }

    fn freeze_search(&self, model: &str, system: &str, bounds: &Bounds) -> Option<PromptPrefix> {
        self.script.web_search.then(|| PromptPrefix {
            tools: super::anthropic::request::search_tools(bounds).into(),
            ..self.freeze(model, system, &[], &Tuning::default())
        })
    }

    fn respond<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let turn = self.begin(request)?;
            let answer = self.play(&turn, sink).await?;
            Ok(answer.finish(&turn, request.tag.round))
        })
    }
}
