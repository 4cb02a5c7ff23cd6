//! OpenAI's wires: bytes on the way out, events on the way in, and everything that can go wrong.

mod bytes;
mod chat;
mod failures;
mod responses;

use super::{OpenAi, Server};
use crate::model::http::{HttpClient, Proxies};
use crate::model::provider::{ModelError, ModelProvider, ModelRequest, ModelResponse, ToolDeclaration};
use crate::model::secret::Secret;
use crate::model::testing::{Answer, Heard, Server as Local};
use crate::model::tuning::Tuning;
use crate::wire::block::{Block, ChatMessage};
use crate::wire::settings::OpenAiWire;
use ::bytes::Bytes;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

const KEY: &str = "sk-very-secret";
/// Long enough for a loaded machine, short enough for a test that hangs.
const PATIENCE: Duration = Duration::from_secs(20);

fn at(base: &str, wire: OpenAiWire, idle: Duration) -> OpenAi {
    let server =
        Server { provider: "openai", base: base.to_owned(), key: Secret::new(KEY), wire: Some(wire), idle };
    OpenAi::new(HttpClient::new(Proxies::Off), server)
}

fn client(server: &Local, wire: OpenAiWire) -> OpenAi {
    at(&format!("{}/v1", server.url), wire, PATIENCE)
}

fn tool(name: &str) -> ToolDeclaration {
    ToolDeclaration {
        name: name.to_owned(),
        description: format!("does {name}"),
        schema: r#"{"type":"object"}"#.into(),
    }
}

/// A request as a session would make it.
fn asking(client: &OpenAi, model: &str, messages: &[ChatMessage]) -> ModelRequest {
    let prefix = client.freeze(
        model,
        "be brief",
        &[tool("Read"), tool("mcp__some.server__a tool")],
        &Tuning::default(),
    );
    ModelRequest {
        prefix: Arc::new(prefix),
        messages: Arc::new(messages.to_vec()),
        anchors: Vec::new(),
        tag: crate::model::provider::RequestTag::default(),
    }
}

/// Each text as the data of one event.
fn events(data: &[String]) -> Bytes {
    data.iter().map(|text| format!("data: {text}\n\n")).collect::<String>().into()
}

/// One answer of a server to one question.
async fn answer(answer: Answer, wire: OpenAiWire) -> (Result<ModelResponse, ModelError>, Heard) {
    let server = Local::start([answer]).await;
    let client = client(&server, wire);
    let heard = Heard::default();
    let request = asking(&client, "some-model", &[crate::model::testing::user("hi")]);
    let got = client.respond(&request, &heard).await;
    assert_eq!(server.refusals(), Vec::<String>::new());
    (got, heard)
}

fn raws(blocks: &[Block]) -> Vec<&str> {
    blocks.iter().map(Block::raw).collect()
}

fn text(value: &str) -> Value {
    Value::from(value)
}

/// Inputs that a parser would change and that must come back to the model as it wrote them.
const ODD: [&str; 6] = [
    r#"{"n":1e2,"m":0.10,"big":123456789012345678901234567890}"#,
    r#"{"a":1,"a":2}"#,
    r#"{"s":"\u00e9\/\ud83d\ude00"}"#,
    "{ \"spaced\" :\t[ 1 , 2 ] }",
    "{\n  \"lines\": \"x\"\n}",
    "{}",
];

fn call(id: &str, name: &str, input: &str) -> Block {
    let raw = format!(r#"{{"type":"tool_use","id":"{id}","name":"{name}","input":{input}}}"#);
    Block::parse(&raw).expect("a block")
}
