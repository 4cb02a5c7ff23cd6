//! Streams that end well.

use super::super::{Anthropic, Credentials, Secret};
use crate::model::http::{HttpClient, Proxies};
use crate::model::provider::{Delta, ModelError, ModelProvider, ModelRequest, ModelResponse, StopReason};
use crate::model::search::Bounds;
use crate::model::testing::{Answer, Heard, Server, request, user};
use crate::wire::block::{Block, BlockKind, ChatMessage};
use crate::wire::usage::Usage;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

pub(super) const KEY: &str = "sk-ant-very-secret";

/// A client of a test server; streams may be silent for `idle`.
pub(super) fn client(server: &Server, idle: Duration) -> Anthropic {
    let key = Credentials::ApiKey(Secret::new(KEY).expect("a key"));
    Anthropic::new(HttpClient::new(Proxies::Off), &server.url, key, idle)
}

/// Long enough for a loaded machine, short enough for a test that hangs.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn event(data: &str) -> String {
    let kind: serde_json::Value = serde_json::from_str(data).expect("JSON");
    format!("event: {}\ndata: {data}\n\n", kind["type"].as_str().expect("a type"))
}

/// A whole stream around the events of its blocks.
pub(super) fn stream(blocks: &[String], stop: &str) -> Bytes {
    let start = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-real","content":[],"stop_reason":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":null,"cache_read_input_tokens":7,"output_tokens":1}}}"#;
    let end = format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{stop}","stop_sequence":null}},"usage":{{"output_tokens":42,"cache_creation_input_tokens":3}}}}"#
    );
    let mut all = event(start);
    all.push_str(&event(r#"{"type":"ping"}"#));
    all.extend(blocks.iter().map(String::as_str));
    all.push_str(&event(&end));
    all.push_str(&event(r#"{"type":"message_stop"}"#));
    all.into()
}

/// The events of one block: its start and deltas.
pub(super) fn block(index: usize, start: &str, deltas: &[String]) -> String {
    let mut all =
        event(&format!(r#"{{"type":"content_block_start","index":{index},"content_block":{start}}}"#));
    for delta in deltas {
        let data = format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#);
        all.push_str(&event(&data));
    }
    all.push_str(&event(&format!(r#"{{"type":"content_block_stop","index":{index}}}"#)));
    all
}

pub(super) fn text_block(index: usize, pieces: &[&str]) -> String {
    let deltas: Vec<String> = pieces
        .iter()
        .map(|p| format!(r#"{{"type":"text_delta","text":{}}}"#, serde_json::Value::from(*p)))
        .collect();
    block(index, r#"{"type":"text","text":""}"#, &deltas)
}

fn call_block(index: usize, id: &str, input: &[&str]) -> String {
    let start = format!(r#"{{"type":"tool_use","id":"{id}","name":"Read","input":{{}}}}"#);
    let deltas: Vec<String> = input
        .iter()
        .map(|p| format!(r#"{{"type":"input_json_delta","partial_json":{}}}"#, serde_json::Value::from(*p)))
        .collect();
    block(index, &start, &deltas)
}

async fn respond(bytes: Bytes, chunk: usize) -> (Result<ModelResponse, ModelError>, Heard) {
    let server = Server::start([Answer::Stream { bytes, chunk }]).await;
    let heard = Heard::default();
    let answer = client(&server, PATIENCE).respond(&request("a", 1, &[user("hi")]), &heard).await;
    assert_eq!(server.refusals(), Vec::<String>::new());
    (answer, heard)
}

async fn blocks(events: &[String]) -> ModelResponse {
    respond(stream(events, "end_turn"), 1000).await.0.expect("a response")
}

#[tokio::test]
async fn a_response_is_put_together_from_its_pieces() {
    let events = [
        block(
            0,
            r#"{"type":"thinking","thinking":"","signature":""}"#,
            &[
                r#"{"type":"thinking_delta","thinking":"let me "}"#.to_owned(),
                r#"{"type":"thinking_delta","thinking":"see\u00e9"}"#.to_owned(),
                r#"{"type":"signature_delta","signature":"c2ln/+=="}"#.to_owned(),
            ],
        ),
        text_block(1, &["Hel", "lo\n", "w\u{f6}rld"]),
        call_block(2, "toolu_1", &["", "{\"file_path\"", ": \"/tmp/\\u00e9\",", " \"n\": 1e2}"]),
    ];
    for chunk in [1, 7, 100_000] {
        let (answer, heard) = respond(stream(&events, "tool_use"), chunk).await;
        let answer = answer.expect("a response");
        let raw: Vec<&str> = answer.blocks.iter().map(Block::raw).collect();
        assert_eq!(
            raw,
            [
                r#"{"type":"thinking","thinking":"let me seeé","signature":"c2ln/+=="}"#,
                r#"{"type":"text","text":"Hello\nwörld"}"#,
                r#"{"type":"tool_use","id":"toolu_1","name":"Read","input":{"file_path": "/tmp/\u00e9", "n": 1e2}}"#,
            ]
        );
        assert_eq!((answer.id.as_str(), answer.model.as_str()), ("msg_1", "claude-real"));
        assert_eq!(answer.stop, StopReason::ToolUse);
        assert_eq!(
            answer.usage,
            Usage {
                input_tokens: 10,
                output_tokens: 42,
                cache_creation_input_tokens: 3,
                cache_read_input_tokens: 7,
                web_search_requests: 0,
            }
        );
        assert!(answer.malformed.is_empty());
        assert_eq!(heard.text(), "Hello\nwörld");
        assert!(heard.all().contains(&Delta::ToolCall { name: "Read".to_owned() }));
        assert!(heard.all().contains(&Delta::Thinking("let me ".to_owned())));
    }
}

#[tokio::test]
async fn inputs_are_kept_byte_for_byte_whatever_the_pieces() {
    for input in [
        r#"{"n":1e2,"m":0.10,"big":123456789012345678901234567890}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"s":"\u00e9\/\ud83d\ude00"}"#,
        "{ \"spaced\" :\t[ 1 , 2 ] }",
        "{\n  \"lines\": \"x\"\n}",
    ] {
        let pieces: Vec<String> = input.chars().map(String::from).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let answer = blocks(&[call_block(0, "t", &pieces)]).await;
        let want = format!(r#"{{"type":"tool_use","id":"t","name":"Read","input":{input}}}"#);
        assert_eq!(answer.blocks[0].raw(), want);
        assert!(answer.malformed.is_empty());
    }
}

#[tokio::test]
async fn an_input_that_is_no_object_is_set_aside() {
    for (pieces, malformed) in [
        (vec![], None),
        (vec!["", "  "], None),
        (vec!["{\"a\":"], Some("{\"a\":")),
        (vec!["[1]"], Some("[1]")),
        (vec!["null"], Some("null")),
        (vec!["{}{}"], Some("{}{}")),
    ] {
        let answer = blocks(&[call_block(0, "t", &pieces)]).await;
        assert_eq!(answer.blocks[0].raw(), r#"{"type":"tool_use","id":"t","name":"Read","input":{}}"#);
        let want: Vec<(String, String)> =
            malformed.iter().map(|m| ("t".to_owned(), (*m).to_owned())).collect();
        assert_eq!(answer.malformed, want, "{pieces:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_said_again_is_dropped_and_what_is_unknown_is_kept() {
    let redacted = r#"{"type":"redacted_thinking","data":"AAA+/="}"#;
    let found = r#"{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"x":1e2}]}"#;
    let whole = r#"{"type":"tool_use","id":"w","name":"Read","input":{"at":"start"}}"#;
    let answer = blocks(&[
        text_block(0, &["", " \n"]),
        block(1, redacted, &[]),
        block(
            2,
            r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}"#,
            &[r#"{"type":"input_json_delta","partial_json":"{\"query\":\"q\"}"}"#.to_owned()],
        ),
        block(3, found, &[]),
        block(4, r#"{"type":"thinking","thinking":"","signature":""}"#, &[]),
        block(
            5,
            r#"{"type":"thinking","thinking":"","signature":""}"#,
            &[r#"{"type":"signature_delta","signature":"only"}"#.to_owned()],
        ),
        block(
            6,
            r#"{"type":"text","text":"ab"}"#,
            &[r#"{"type":"citations_delta","citation":{}}"#.to_owned()],
        ),
        block(7, whole, &[]),
        block(
            8,
            r#"{"type":"tool_use","id":"c","name":"Read","input":{},"caller":{"type":"direct"}}"#,
            &[r#"{"type":"input_json_delta","partial_json":"{\"k\":1}"}"#.to_owned()],
        ),
    ])
    .await;
    let raw: Vec<(BlockKind, &str)> = answer.blocks.iter().map(|b| (b.kind(), b.raw())).collect();
    assert_eq!(
        raw,
        [
            (BlockKind::Thinking, redacted),
            (
                BlockKind::Other,
                r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"q"}}"#
            ),
            (BlockKind::Other, found),
            (BlockKind::Thinking, r#"{"type":"thinking","thinking":"","signature":"only"}"#),
            (BlockKind::Text, r#"{"type":"text","text":"ab","citations":[{}]}"#),
            (BlockKind::ToolUse, whole),
            (
                BlockKind::ToolUse,
                r#"{"type":"tool_use","id":"c","name":"Read","caller":{"type":"direct"},"input":{"k":1}}"#
            ),
        ]
    );
}

#[tokio::test]
async fn stop_reasons_have_their_names() {
    for name in [
        "end_turn",
        "tool_use",
        "max_tokens",
        "refusal",
        "pause_turn",
        "model_context_window_exceeded",
        "stop_sequence",
    ] {
        let (answer, _) = respond(stream(&[text_block(0, &["x"])], name), 1000).await;
        let stop = answer.expect("a response").stop;
        assert_eq!(stop.as_str(), name);
        assert_eq!(matches!(stop, StopReason::Other(_)), name == "stop_sequence");
    }
}

#[tokio::test]
async fn events_may_use_any_line_end_and_unknown_ones_are_passed_over() {
    let text = String::from_utf8(stream(&[text_block(0, &["fine"])], "end_turn").to_vec()).expect("text");
    let odd =
        format!(": hello\n\n{}", text.replace("event: message_delta", ":\nid: 7\nevent: message_delta"));
    let odd = format!("event: brand_new\ndata: {{\"type\":\"brand_new\",\"x\":1}}\n\n{odd}");
    for text in [odd.clone(), odd.replace('\n', "\r\n"), odd.replace('\n', "\r")] {
        let (answer, _) = respond(text.into(), 5).await;
        assert_eq!(answer.expect("a response").blocks[0].raw(), r#"{"type":"text","text":"fine"}"#);
    }
}

#[tokio::test]
async fn the_request_is_sent_whole_with_its_key_and_over_one_connection() {
    let bytes = stream(&[text_block(0, &["ok"])], "end_turn");
    let answers = [(); 3].map(|()| Answer::Stream { bytes: bytes.clone(), chunk: 10 });
    let server = Server::start(answers).await;
    let client = client(&server, PATIENCE);
    // Larger than any socket buffer, so that it goes out in pieces.
    let big = "x".repeat(3_000_000);
    let messages = [user(&big), ChatMessage::assistant(vec![Block::text("ok")]), user("more")];
    let request = request("a", 2, &messages);
    for _ in 0..3 {
        client.respond(&request, &Heard::default()).await.expect("a response");
    }
    let seen = server.seen();
    assert_eq!(server.refusals(), Vec::<String>::new());
    let want = super::super::request::segments(&request).joined();
    for one in &seen {
        assert_eq!(one.line, "POST /v1/messages HTTP/1.1");
        assert!(one.body == want, "the body as it was put together");
        assert_eq!(one.headers["x-api-key"], KEY);
        assert_eq!(one.headers["anthropic-version"], "2023-06-01");
        assert_eq!(one.headers["content-length"], want.len().to_string());
        assert!(!one.headers.contains_key("authorization"));
    }
    assert_eq!(seen.len(), 3);
}

#[tokio::test]
async fn a_token_is_sent_as_bearer_and_a_base_may_end_in_v1() {
    let bytes = stream(&[text_block(0, &["ok"])], "end_turn");
    let server = Server::start([Answer::Stream { bytes, chunk: 1000 }]).await;
    let token = Credentials::Bearer(Secret::new(" tok-1\n").expect("a token"));
    let base = format!("{}/v1/", server.url);
    let client = Anthropic::new(HttpClient::new(Proxies::Off), &base, token, PATIENCE);
    client.respond(&request("a", 1, &[user("hi")]), &Heard::default()).await.expect("a response");
    let seen = server.seen();
    assert_eq!(seen[0].line, "POST /v1/messages HTTP/1.1");
    assert_eq!(seen[0].headers["authorization"], "Bearer tok-1");
    assert!(!seen[0].headers.contains_key("x-api-key"));
}

#[tokio::test]
async fn a_search_is_a_request_with_one_tool_and_its_sources_are_kept() {
    let cited = r#"{"type":"web_search_result_location","url":"https://a.test/","title":"A","encrypted_index":"x\/y","cited_text":"\u00e9"}"#;
    let delta = format!(r#"{{"type":"citations_delta","citation":{cited}}}"#);
    let text = r#"{"type":"text_delta","text":"so"}"#.to_owned();
    let events = [
        block(
            0,
            r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}"#,
            &[r#"{"type":"input_json_delta","partial_json":"{\"query\": \"q\"}"}"#.to_owned()],
        ),
        block(1, r#"{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"a":1e2}]}"#, &[]),
        block(2, r#"{"type":"text","text":"","citations":[]}"#, &[delta, text]),
    ];
    let usage = r#""usage":{"output_tokens":42,"#;
    let bytes = String::from_utf8(stream(&events, "end_turn").to_vec()).expect("text");
    let bytes =
        bytes.replace(usage, r#""usage":{"server_tool_use":{"web_search_requests":2},"output_tokens":42,"#);
    let server = Server::start([Answer::Stream { bytes: bytes.into(), chunk: 100 }]).await;
    let client = client(&server, PATIENCE);
    let bounds = Bounds { blocked: vec!["b.test".to_owned()], ..Bounds::default() };
    let prefix = client.freeze_search("claude-test", "search", &bounds).expect("it searches");
    let request = ModelRequest { prefix: prefix.into(), ..request("a", 1, &[user("q")]) };
    let answer = client.respond(&request, &Heard::default()).await.expect("a response");
    assert_eq!(server.refusals(), Vec::<String>::new());
    let body: serde_json::Value = serde_json::from_slice(&server.seen()[0].body).expect("JSON");
    let tools =
        r#"[{"type":"web_search_20250305","name":"web_search","max_uses":5,"blocked_domains":["b.test"]}]"#;
    assert_eq!(body["tools"], serde_json::from_str::<serde_json::Value>(tools).expect("JSON"));
    let raw: Vec<&str> = answer.blocks.iter().map(Block::raw).collect();
    assert_eq!(
        raw,
        [
            r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query": "q"}}"#,
            r#"{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"a":1e2}]}"#,
            &format!(r#"{{"type":"text","text":"so","citations":[{cited}]}}"#),
        ]
    );
    assert_eq!(answer.usage.web_search_requests, 2);
    // Going on with it sends the same bytes back.
    let messages = [user("q"), ChatMessage::assistant(answer.blocks.clone())];
    let again =
        super::super::request::segments(&ModelRequest { messages: Arc::new(messages.to_vec()), ..request });
    let again = String::from_utf8(again.joined().to_vec()).expect("text");
    assert!(raw.iter().all(|raw| again.contains(raw.strip_suffix('}').expect("an object"))), "{again}");
}
