//! The Responses API in its stateless form.

use super::{ODD, answer, asking, client, events, raws, text};
use crate::model::provider::{Delta, ModelErrorKind, ModelProvider, ModelRequest, ModelResponse, StopReason};
use crate::model::search::Bounds;
use crate::model::testing::{Answer, Heard, Server as Local, user};
use crate::wire::block::{Block, ChatMessage};
use crate::wire::settings::OpenAiWire::Responses;
use crate::wire::usage::Usage;
use ::bytes::Bytes;
use serde_json::Value;

const REASONING: &str = r#"{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"gAAA\/+\u00e9=","x":1e2}"#;

fn event(kind: &str, rest: &str) -> String {
    format!(r#"{{"type":"{kind}","sequence_number":1{rest}}}"#)
}

fn item(index: usize, done: &str) -> [String; 2] {
    let added = done.replacen(r#""encrypted_content""#, r#""was""#, 1);
    [
        event("response.output_item.added", &format!(r#","output_index":{index},"item":{added}"#)),
        event("response.output_item.done", &format!(r#","output_index":{index},"item":{done}"#)),
    ]
}

fn message(text: &str, phase: &str) -> String {
    format!(
        r#"{{"id":"msg_1","type":"message","status":"completed","role":"assistant"{phase},"content":[{{"type":"output_text","text":{},"annotations":[]}}]}}"#,
        Value::from(text)
    )
}

fn function(id: &str, name: &str, arguments: &str) -> String {
    format!(
        r#"{{"id":"fc_1","type":"function_call","status":"completed","call_id":"{id}","name":"{name}","arguments":{}}}"#,
        Value::from(arguments)
    )
}

const USAGE: &str = r#""usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":60,"cache_write_tokens":30},"output_tokens":20,"output_tokens_details":{"reasoning_tokens":5},"total_tokens":120}"#;

fn end(kind: &str, rest: &str) -> String {
    event(kind, &format!(r#","response":{{"id":"resp_1","model":"real","error":null,{USAGE}{rest}}}"#))
}

pub(super) fn stream(events_between: Vec<String>) -> Bytes {
    let created = r#","response":{"id":"resp_1","model":"real","status":"in_progress"}"#;
    let mut all = vec![event("response.created", created), event("response.in_progress", "")];
    all.extend(events_between);
    all.push(end("response.completed", r#","status":"completed""#));
    events(&all)
}

async fn of(bytes: Bytes) -> (ModelResponse, Heard) {
    let (got, heard) = answer(Answer::Stream { bytes, chunk: 50 }, Responses).await;
    (got.expect("a response"), heard)
}

#[tokio::test]
async fn a_response_is_put_together_from_its_items() {
    let delta = |kind: &str, index: usize, text: &str| {
        event(kind, &format!(r#","output_index":{index},"content_index":0,"delta":{}"#, Value::from(text)))
    };
    let [added, done] = item(1, &message("Hello wörld", r#","phase":"commentary""#));
    let mut all = item(0, REASONING).to_vec();
    all.insert(1, delta("response.reasoning_summary_text.delta", 0, "hm"));
    all.push(added);
    all.push(delta("response.output_text.delta", 1, "Hello "));
    all.push(delta("response.output_text.delta", 1, "wörld"));
    all.push(done);
    all.push(event("response.brand_new", ""));
    all.extend(item(2, &function("call_a", "mcp__some_server__a_tool_ee456cc0", "{\"n\": 1e2}")));
    all.extend(item(3, &function("call_b", "Read", "{oops")));
    for chunk in [1, 100_000] {
        let bytes = stream(all.clone());
        let (got, heard) = answer(Answer::Stream { bytes, chunk }, Responses).await;
        let got = got.expect("a response");
        assert_eq!(
            raws(&got.blocks),
            [
                REASONING,
                r#"{"type":"message_phase","phase":"commentary"}"#,
                r#"{"type":"text","text":"Hello wörld"}"#,
                r#"{"type":"tool_use","id":"call_a","name":"mcp__some.server__a tool","input":{"n": 1e2}}"#,
                r#"{"type":"tool_use","id":"call_b","name":"Read","input":{}}"#,
            ]
        );
        assert_eq!(got.malformed, [("call_b".to_owned(), "{oops".to_owned())]);
        assert_eq!((got.id.as_str(), got.model.as_str()), ("resp_1", "real"));
        assert_eq!(got.stop, StopReason::ToolUse);
        assert_eq!(
            got.usage,
            Usage {
                input_tokens: 10,
                output_tokens: 20,
                cache_creation_input_tokens: 30,
                cache_read_input_tokens: 60,
                web_search_requests: 0,
            }
        );
        assert_eq!(heard.text(), "Hello wörld");
        assert!(heard.all().contains(&Delta::Thinking("hm".to_owned())));
        assert!(heard.all().contains(&Delta::ToolCall { name: "mcp__some.server__a tool".to_owned() }));
    }
}

#[tokio::test]
async fn an_answer_may_be_cut_refused_or_bare() {
    let ended = |kind: &str, rest: &str| {
        events(&[item(0, &message("so", "")).to_vec(), vec![end(kind, rest)]].concat())
    };
    for (rest, want) in [
        (
            r#","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}"#,
            StopReason::MaxTokens,
        ),
        (r#","status":"incomplete","incomplete_details":{"reason":"content_filter"}"#, StopReason::Refusal),
        (r#","status":"incomplete","incomplete_details":null"#, StopReason::MaxTokens),
        (r#","status":"completed""#, StopReason::EndTurn),
    ] {
        let (got, _) = of(ended("response.incomplete", rest)).await;
        assert_eq!(got.stop, want, "{rest}");
        assert_eq!(raws(&got.blocks), [r#"{"type":"text","text":"so"}"#]);
    }
    let refusal = r#"{"type":"message","content":[{"type":"refusal","refusal":"no"}],"phase":null}"#;
    let (got, _) = of(stream(item(0, refusal).to_vec())).await;
    assert_eq!((got.stop, raws(&got.blocks)), (StopReason::Refusal, vec![r#"{"type":"text","text":"no"}"#]));
    // Servers that list the items only at the end, or never.
    let listed = format!(r#","status":"completed","output":[{REASONING},{}]"#, message("so", ""));
    let (got, _) = of(events(&[end("response.completed", &listed)])).await;
    assert_eq!(raws(&got.blocks), [REASONING, r#"{"type":"text","text":"so"}"#]);
    let only = [event("response.output_text.delta", r#","delta":"so""#), end("response.completed", "")];
    assert_eq!(raws(&of(events(&only)).await.0.blocks), [r#"{"type":"text","text":"so"}"#]);
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let body = format!(
        r#"{{"id":"resp_1","model":"real","status":"completed","error":null,"output":[{REASONING},{}],{USAGE}}}"#,
        function("a", "Read", "{\"n\":1e2}")
    );
    let headers = vec![("content-type", "application/json".to_owned())];
    let (got, _) = answer(Answer::Plain { status: 200, headers, body }, Responses).await;
    let got = got.expect("a response");
    assert_eq!(
        raws(&got.blocks),
        [REASONING, r#"{"type":"tool_use","id":"a","name":"Read","input":{"n":1e2}}"#]
    );
    assert_eq!((got.stop, got.usage.cache_read_input_tokens), (StopReason::ToolUse, 60));
}

#[tokio::test]
async fn failures_inside_the_stream_say_what_to_do() {
    use ModelErrorKind::{ContextExceeded, RateLimited, Refused, Unavailable};
    for (code, kind) in [
        ("server_error", Unavailable),
        ("rate_limit_exceeded", RateLimited),
        ("insufficient_quota", Refused),
        ("context_length_exceeded", ContextExceeded),
    ] {
        let error = format!(r#"{{"code":"{code}","message":"the\nreason"}}"#).replace('\n', "\\n");
        let failed =
            event("response.failed", &format!(r#","response":{{"status":"failed","error":{error}}}"#));
        let plain = format!(r#"{{"type":"error","code":"{code}","message":"the reason","param":null}}"#);
        let delta = event("response.output_text.delta", r#","output_index":0,"delta":"so far""#);
        for last in [failed, plain] {
            let bytes = events(&[delta.clone(), last]);
            let got = answer(Answer::Stream { bytes, chunk: 30 }, Responses).await.0.expect_err("a failure");
            assert_eq!(got.kind, kind, "{code}");
            assert_eq!(got.what, format!("the model provider broke off with {code}: the reason"));
            assert_eq!(got.partial, "so far");
        }
    }
}

/// Reasoning, calls and results go back and forth; the provider stores nothing.
#[tokio::test]
async fn a_conversation_is_accepted_round_after_round() {
    let rounds = 12;
    let bytes = |round: usize| {
        let reasoning = REASONING.replace("rs_1", &format!("rs_{round}"));
        let mut all = item(0, &reasoning).to_vec();
        all.extend(item(1, &message("so", r#","phase":"commentary""#)));
        all.extend(item(2, &function(&format!("c{round}"), "Read", ODD[round % ODD.len()])));
        stream(all)
    };
    let server =
        Local::start((0..rounds).map(|round| Answer::Stream { bytes: bytes(round), chunk: 64 })).await;
    let client = client(&server, Responses);
    let mut messages = vec![user("begin")];
    for round in 0..rounds {
        let request = asking(&client, "m", &messages);
        let answer = client.respond(&request, &Heard::default()).await.expect("a response");
        messages.push(ChatMessage::assistant(answer.blocks));
        messages.push(ChatMessage::user(vec![
            Block::tool_result(&format!("c{round}"), "x", false),
            Block::text("go on"),
        ]));
    }
    assert_eq!(server.refusals(), Vec::<String>::new());
    let bodies: Vec<Vec<u8>> = server.seen().into_iter().map(|seen| seen.body).collect();
    for pair in bodies.windows(2) {
        assert!(pair[1].starts_with(&pair[0][..pair[0].len() - 2]), "an earlier prefix changed");
    }
    let last = String::from_utf8(bodies.last().expect("requests").clone()).expect("text");
    for round in 0..rounds - 1 {
        assert!(last.contains(&REASONING.replace("rs_1", &format!("rs_{round}"))), "{round}");
        assert!(last.contains(&format!(r#""arguments":{}"#, text(ODD[round % ODD.len()]))), "{round}");
    }
}

#[tokio::test]
async fn a_search_is_a_request_with_one_tool_and_its_sources_are_kept() {
    let called = r#"{"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"q"}}"#;
    let citation =
        r#"{"type":"url_citation","start_index":0,"end_index":2,"url":"https://a.test/","title":"A\/B"}"#;
    let said = message("So.", "").replace(r#""annotations":[]"#, &format!(r#""annotations":[{citation}]"#));
    let bytes = stream([item(0, called), item(1, &said)].concat());
    let server = Local::start([Answer::Stream { bytes, chunk: 50 }]).await;
    let client = client(&server, Responses);
    let bounds = Bounds { allowed: vec!["a.test".to_owned()], ..Bounds::default() };
    let prefix = client.freeze_search("some-model", "search", &bounds).expect("it searches");
    let request = ModelRequest { prefix: prefix.into(), ..asking(&client, "some-model", &[user("q")]) };
    let got = client.respond(&request, &Heard::default()).await.expect("a response");
    assert_eq!(server.refusals(), Vec::<String>::new());
    let body: Value = serde_json::from_slice(&server.seen()[0].body).expect("JSON");
    let tools = r#"[{"type":"web_search","filters":{"allowed_domains":["a.test"]}}]"#;
    assert_eq!(body["tools"], serde_json::from_str::<Value>(tools).expect("JSON"));
    let annotations = format!(r#"{{"type":"message_annotations","annotations":[{citation}]}}"#);
    assert_eq!(raws(&got.blocks), [called, annotations.as_str(), r#"{"type":"text","text":"So."}"#]);
    assert_eq!((got.usage.web_search_requests, got.stop), (1, StopReason::EndTurn));
}

#[tokio::test]
async fn only_the_wire_that_has_a_search_offers_one() {
    let server = Local::start([]).await;
    let searches = |wire| client(&server, wire).freeze_search("m", "", &Bounds::default()).is_some();
    assert_eq!((searches(Responses), searches(crate::wire::settings::OpenAiWire::Chat)), (true, false));
}
