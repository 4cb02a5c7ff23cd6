//! Writes down what a model answers, as a script that plays it back.
//!
//! Owns one script file, which is complete after every answer. Promises that the same agents, asking in
//! the same rounds, get the same blocks again. Never holds a key; it does hold the conversation.

use super::provider::{
    BoxFuture, DeltaSink, ModelError, ModelErrorKind, ModelProvider, ModelRequest, ModelResponse,
    PromptPrefix, ToolDeclaration,
};
use super::scripted::conversation::{Conversations, View};
use super::search::Bounds;
use crate::model::tuning::Tuning;
use crate::wire::block::{Block, BlockKind};
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A provider whose answers are recorded.
pub struct Recording {
    inner: Arc<dyn ModelProvider>,
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether an agent was told that it can search.
    searches: bool,
    conversations: Conversations,
    answers: Vec<Answer>,
}

/// One answer, and whose it is.
struct Answer {
    agent: String,
    conversation: u64,
    prompt: String,
    reply: Vec<Part>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Script<'a> {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    web_search: bool,
    rule: Vec<Rule<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Rule<'a> {
    agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_is: Option<&'a str>,
    reply: &'a [Part],
}

#[derive(Default, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Part {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    literal: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Usage {
    input_tokens: u64,
    output_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Failure {
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<f64>,
}

impl Recording {
    /// Records into `path`, which is replaced by the first answer.
    pub fn new(inner: Arc<dyn ModelProvider>, path: &Path) -> Self {
        Self { inner, path: path.to_owned(), state: Mutex::default() }
    }

    fn record(&self, request: &ModelRequest, reply: Vec<Part>) -> Result<(), ModelError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let conversation = state.conversations.of(request, 0);
        let (opening, key) = (conversation.opening, conversation.key);
        let prompt = View::new(request, opening).prompt().to_owned();
        let agent = request.tag.agent.clone();
        state.answers.push(Answer { agent, conversation: key, prompt, reply });
        let failed = |why: String| {
            let what = format!("cannot write the recording {}: {why}", self.path.display());
            ModelError::new(ModelErrorKind::Script, what)
        };
        let text = state.script().map_err(|e| failed(e.to_string()))?;
        replace(&self.path, &text).map_err(|e| failed(e.to_string()))
    }
}

impl State {
    /// The whole script. What a conversation began with is written only for agents that had several,
    /// so that a recording with one agent plays for any prompt.
    fn script(&self) -> Result<String, toml::ser::Error> {
        let several = |answer: &Answer| {
            self.answers
                .iter()
                .any(|other| other.agent == answer.agent && other.conversation != answer.conversation)
        };
        let rules = self.answers.iter().map(|answer| Rule {
            agent: globset::escape(&answer.agent),
            prompt_is: several(answer).then_some(answer.prompt.as_str()),
            reply: &answer.reply,
        });
        toml::to_string(&Script { web_search: self.searches, rule: rules.collect() })
    }
}

/// Readable by its owner alone; readers see the old text or the new one.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&new, path)
}

fn answered(response: &ModelResponse) -> Vec<Part> {
    let mut parts: Vec<Part> = response.blocks.iter().map(|b| part(b, &response.malformed)).collect();
    let usage = response.usage;
    parts.push(Part {
        usage: Some(Usage {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_creation_input_tokens: usage.cache_creation_input_tokens,
            cache_read_input_tokens: usage.cache_read_input_tokens,
        }),
        ..Part::default()
    });
    parts.push(Part { stop: Some(response.stop.as_str().to_owned()), ..Part::default() });
    parts
}

/// A block in a form one can read, when that form plays back to the same bytes; else the block itself.
fn part(block: &Block, malformed: &[(String, String)]) -> Part {
    #[derive(Deserialize)]
    struct Thinking {
        thinking: String,
        signature: String,
    }
    let literal = block.raw().contains("{{");
    if let Some(text) = block.as_text()
        && Block::text(&text) == *block
    {
        return Part { text: Some(text), literal, ..Part::default() };
    }
    if block.kind() == BlockKind::Thinking
        && let Ok(Thinking { thinking, signature }) = serde_json::from_str(block.raw())
        && Block::thinking(&thinking, &signature) == *block
    {
        let (thinking, signature) = (Some(thinking), Some(signature));
        return Part { thinking, signature, literal, ..Part::default() };
    }
    if let Some(call) = block.as_tool_use()
        && Block::tool_use(&call.id, &call.name, &call.input) == *block
    {
        let written = malformed.iter().find(|(id, _)| *id == call.id).map(|(_, text)| text.clone());
        let raw = written.unwrap_or_else(|| call.input.get().to_owned());
        let literal = raw.contains("{{");
        return Part { tool: Some(call.name), raw: Some(raw), id: Some(call.id), literal, ..Part::default() };
    }
    Part { block: Some(block.raw().to_owned()), ..Part::default() }
}

fn failed(error: &ModelError) -> Vec<Part> {
    let status = match error.kind {
        ModelErrorKind::Credentials => Some(401),
        ModelErrorKind::Refused
        | ModelErrorKind::ContextExceeded
        | ModelErrorKind::Protocol
        | ModelErrorKind::Script => Some(400),
        ModelErrorKind::RateLimited => Some(429),
        ModelErrorKind::Unavailable => Some(529),
        ModelErrorKind::Connection => None,
    };
    let retry_after = error.retry_after.map(|d| d.as_secs_f64());
    let failure = Failure { status, message: error.what.clone(), retry_after };
    let mut parts = Vec::new();
    if !error.partial.is_empty() {
        let text = error.partial.clone();
        parts.push(Part { literal: text.contains("{{"), text: Some(text), ..Part::default() });
    }
    parts.push(Part { error: Some(failure), ..Part::default() });
    parts
}

impl ModelProvider for Recording {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn freeze(&self, model: &str, system: &str, tools: &[ToolDeclaration], tuning: &Tuning) -> PromptPrefix {
        self.inner.freeze(model, system, tools, tuning)
    }

    fn freeze_search(&self, model: &str, system: &str, bounds: &Bounds) -> Option<PromptPrefix> {
        let prefix = self.inner.freeze_search(model, system, bounds)?;
        self.state.lock().unwrap_or_else(PoisonError::into_inner).searches = true;
        Some(prefix)
    }

    fn respond<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let outcome = self.inner.respond(request, sink).await;
            let parts = outcome.as_ref().map_or_else(failed, answered);
            self.record(request, parts)?;
            outcome
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::provider::Delta;
    use crate::model::scripted::Scripted;
    use crate::model::scripted::gates::Gates;
    use crate::model::testing::{Heard, request, user};
    use crate::wire::block::ChatMessage;

    const SOURCE: &str = r##"
[[rule]]
agent = "lead"
times = "always"
anywhere = "broken"
reply = [{ text = "half" }, { error = { status = 529, message = "busy", retry-after = 2 } }]

[[rule]]
agent = "lead"
reply = [
  { thinking = "hm \"{{agent}}\"", signature = "s+/=" },
  { text = "a {{ brace }} and\n\ttabs \u0001 é", literal = true },
  { tool = "Read", raw = '{"n":1e2,"n":{{round}}, "s":"\u00e9"}', id = "r1" },
  { tool = "Bad", raw = "{oops", id = "r2" },
  { block = '{"type":"server_tool_use","id":"x","name":"web_search","input":{"q" : 1}}' },
  { usage = { input-tokens = 7, cache-read-input-tokens = 9 } },
  { stop = "pause_turn" },
]

[[rule]]
agent = "Explore"
prompt = "one"
reply = [{ text = "first" }]

[[rule]]
agent = "Explore"
prompt = "two"
reply = [{ text = "second" }]
"##;

    type Outcome = Result<(Vec<String>, String, crate::wire::usage::Usage, Vec<(String, String)>), String>;

    /// What an agent gets, in a form that can be compared.
    async fn ask(
        provider: &dyn ModelProvider,
        agent: &str,
        messages: &[ChatMessage],
    ) -> (Outcome, Vec<Delta>) {
        let heard = Heard::default();
        let outcome = match provider.respond(&request(agent, 1, messages), &heard).await {
            Ok(r) => {
                let blocks = r.blocks.iter().map(|b| b.raw().to_owned()).collect();
                Ok((blocks, r.stop.as_str().to_owned(), r.usage, r.malformed))
            }
            Err(e) => Err(format!("{:?} {:?} {}", e.kind, e.retry_after, e.partial)),
        };
        (outcome, heard.all())
    }

    #[tokio::test]
    async fn a_recording_plays_back_what_was_recorded() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("record.toml");
        let play = |text: &str| {
            let script = crate::model::script::Script::parse(&path, text).expect("a script");
            Arc::new(Scripted::new(script, Gates::default()))
        };
        let recording = Recording::new(play(SOURCE), &path);
        let broken = [user("broken")];
        let questions = [
            ("lead", vec![user("hello")]),
            ("lead", broken.to_vec()),
            ("Explore", vec![user("do two, not one")]),
            ("Explore", vec![user("do one")]),
            ("Explore", vec![user("do two")]),
        ];
        let mut recorded = Vec::new();
        for (agent, messages) in &questions {
            recorded.push(ask(&recording, agent, messages).await);
        }
        let text = fs::read_to_string(&path).expect("the recording");
        let played = play(&text);
        // In another order: agents do not depend on each other.
        for index in [4, 2, 0, 3, 1] {
            let (agent, messages) = &questions[index];
            assert_eq!(ask(&*played, agent, messages).await, recorded[index], "{index}\n{text}");
        }
        let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(&path).expect("metadata"));
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).expect("lists").count(), 1);
    }

    #[tokio::test]
    async fn a_recording_that_cannot_be_written_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("no/record.toml");
        let script = crate::model::script::Script::parse(&path, SOURCE).expect("a script");
        let recording = Recording::new(Arc::new(Scripted::new(script, Gates::default())), &path);
        let messages = [user("hello")];
        let error = recording.respond(&request("lead", 1, &messages), &Heard::default()).await;
        let error = error.expect_err("no directory");
        assert_eq!(error.kind, ModelErrorKind::Script);
        assert!(error.what.starts_with("cannot write the recording "), "{}", error.what);
    }
}
