//! Servers without measure, on every wire.

use crate::model::anthropic::{Anthropic, Credentials, Secret};
use crate::model::bounds::{EVENT_BYTES, PARTIAL_BYTES};
use crate::model::http::{HttpClient, Proxies};
use crate::model::openai::{OpenAi, Server as Address};
use crate::model::provider::{
    Delta, DeltaSink, ModelError, ModelErrorKind, ModelProvider, ModelResponse, StopReason,
};
use crate::model::testing::{Answer, Server, request, user};
use crate::model::tuning::Tuning;
use crate::wire::settings::OpenAiWire;
use bytes::Bytes;
use std::time::Duration;

/// Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);
const EVENTS: &str = "text/event-stream";

/// Keeps nothing.
struct Deaf;

impl DeltaSink for Deaf {
    fn delta(&self, _: Delta) {}
}

#[derive(Debug, Clone, Copy)]
enum Wire {
    Messages,
    Chat,
    Responses,
}

const WIRES: [Wire; 3] = [Wire::Messages, Wire::Chat, Wire::Responses];

async fn ask(wire: Wire, answer: Answer, idle: Duration) -> Result<ModelResponse, ModelError> {
    let server = Server::start([answer]).await;
    let http = HttpClient::new(Proxies::Off);
    let open = |wire| {
        let base = format!("{}/v1", server.url);
        OpenAi::new(http.clone(), Address { provider: "openai", base, key: None, wire: Some(wire), idle })
    };
    let client: Box<dyn ModelProvider> = match wire {
        Wire::Messages => {
            let key = Credentials::ApiKey(Secret::new("k").expect("a key"));
            Box::new(Anthropic::new(http.clone(), &server.url, key, idle))
        }
        Wire::Chat => Box::new(open(OpenAiWire::Chat)),
        Wire::Responses => Box::new(open(OpenAiWire::Responses)),
    };
    let mut asked = request("a", 1, &[user("hi")]);
    asked.prefix = client.freeze("some-model", "be brief", &[], &Tuning::default()).into();
    let got = client.respond(&asked, &Deaf).await;
    assert_eq!(server.refusals(), Vec::<String>::new());
    got
}

fn endless(first: &str, again: &str) -> Answer {
    Answer::Endless {
        status: 200,
        kind: EVENTS,
        first: Bytes::from(first.to_owned()),
        again: Bytes::from(again.to_owned()),
        every: None,
    }
}

async fn failure(wire: Wire, answer: Answer) -> (ModelErrorKind, String, usize) {
    let error = ask(wire, answer, PATIENCE).await.expect_err("a failure");
    (error.kind, error.what, error.partial.len())
}

fn data(json: &str) -> String {
    format!("data: {json}\n\n")
}

/// What comes before a piece of text.
fn begin(wire: Wire) -> String {
    match wire {
        Wire::Messages => {
            data(r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#)
        }
        Wire::Chat | Wire::Responses => String::new(),
    }
}

fn text(wire: Wire, text: &str) -> String {
    data(&match wire {
        Wire::Messages => format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#
        ),
        Wire::Chat => format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#),
        Wire::Responses => {
            format!(r#"{{"type":"response.output_text.delta","output_index":0,"delta":"{text}"}}"#)
        }
    })
}

fn thought(wire: Wire, text: &str) -> String {
    data(&match wire {
        Wire::Messages => format!(
            r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"thinking","thinking":"{text}"}}}}"#
        ),
        Wire::Chat => format!(r#"{{"choices":[{{"index":0,"delta":{{"reasoning":"{text}"}}}}]}}"#),
        Wire::Responses => {
            format!(r#"{{"type":"response.reasoning_text.delta","output_index":0,"delta":"{text}"}}"#)
        }
    })
}

fn call(wire: Wire, text: &str) -> String {
    data(&match wire {
        Wire::Messages => format!(
            r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"tool_use","id":"t","name":"x","input":{{"a":"{text}"}}}}}}"#
        ),
        Wire::Chat => format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{{"id":"t","function":{{"name":"x","arguments":"{text}"}}}}]}}}}]}}"#
        ),
        Wire::Responses => {
            format!(
                r#"{{"type":"response.output_item.done","item":{{"type":"function_call","arguments":"{text}"}}}}"#
            )
        }
    })
}

#[tokio::test]
async fn an_event_without_an_end_is_no_answer() {
    let what = "the model provider sent an event of more than 8 MiB".to_owned();
    let much = "x".repeat(EVENT_BYTES / 64);
    for wire in WIRES {
        for (first, again) in [
            (format!("{}{}data: ", begin(wire), text(wire, "so far")), much.clone()),
            (format!("{}{}", begin(wire), text(wire, "so far")), format!("data: {much}\n")),
            (format!("{}{}", begin(wire), text(wire, "so far")), format!("{much}\r\n")),
        ] {
            let got = failure(wire, endless(&first, &again)).await;
            assert_eq!(got, (ModelErrorKind::Protocol, what.clone(), "so far".len()), "{wire:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_without_an_end_is_no_answer() {
    let what = "the model provider sent an answer of more than 32 MiB".to_owned();
    let much = "x".repeat(512 * 1024);
    for wire in WIRES {
        let got = failure(wire, endless(&begin(wire), &text(wire, &much))).await;
        assert_eq!(got, (ModelErrorKind::Protocol, what.clone(), PARTIAL_BYTES), "{wire:?}");
        for again in [thought(wire, &much), call(wire, &much)] {
            let got = failure(wire, endless(&begin(wire), &again)).await;
            assert_eq!(got, (ModelErrorKind::Protocol, what.clone(), 0), "{wire:?}");
        }
    }
}

#[tokio::test]
async fn a_body_without_an_end_is_no_answer() {
    let body = |status, kind, again: &str| Answer::Endless {
        status,
        kind,
        first: Bytes::new(),
        again: Bytes::from(again.repeat(64 * 1024)),
        every: None,
    };
    for wire in WIRES {
        let got = failure(wire, body(200, "application/json", "[")).await;
        let what = "the model provider sent an answer in one piece of more than 8 MiB".to_owned();
        assert_eq!(got, (ModelErrorKind::Protocol, what, 0), "{wire:?}");
        let (kind, what, _) = failure(wire, body(200, "text/html", "<p>")).await;
        assert_eq!(kind, ModelErrorKind::Protocol, "{wire:?}");
        assert!(what.contains("text/html") && what.len() < 1000, "{what}");
        let (kind, what, _) = failure(wire, body(503, "application/json", "busy ")).await;
        assert_eq!(kind, ModelErrorKind::Unavailable, "{wire:?}");
        assert!(what.contains("busy busy") && what.len() < 1000, "{what}");
    }
}

/// Each of them comes often enough that the connection is never silent.
#[tokio::test]
async fn signs_of_life_alone_keep_no_connection() {
    let idle = Duration::from_millis(1500);
    let every = Some(Duration::from_millis(20));
    let named = |name: &str, json: &str| format!("event: {name}\n{}", data(json));
    let mut asked = tokio::task::JoinSet::new();
    for wire in WIRES {
        let first = Bytes::from(format!("{}{}", begin(wire), text(wire, "so far")));
        let ping = match wire {
            Wire::Messages => named("ping", r#"{"type":"ping"}"#),
            Wire::Chat => data(r#"{"choices":[]}"#),
            Wire::Responses => data(r#"{"type":"response.in_progress"}"#),
        };
        for again in [ping, ":\n\n".to_owned(), ": still there\n".to_owned(), text(wire, "")] {
            let (kind, again) = (EVENTS, Bytes::from(again));
            let answer = Answer::Endless { status: 200, kind, first: first.clone(), again, every };
            asked.spawn(async move { ask(wire, answer, idle).await.expect_err("a failure") });
        }
        if matches!(wire, Wire::Messages) {
            continue;
        }
        let kind = "application/json";
        let (first, again) = (Bytes::from_static(b"{"), Bytes::from_static(b"\n"));
        let answer = Answer::Endless { status: 200, kind, first, again, every };
        asked.spawn(
            async move { ask(wire, answer, idle).await.expect_err("a failure").with_partial("so far") },
        );
    }
    let mut count = 0;
    while let Some(error) = asked.join_next().await {
        let error = error.expect("no panic");
        let got = (error.kind, error.what.as_str(), error.partial.as_str());
        let what = "the stream brought nothing of an answer for 6 s and was cut";
        assert_eq!(got, (ModelErrorKind::Connection, what, "so far"));
        assert!(error.kind.is_transient());
        count += 1;
    }
    assert_eq!(count, 14);
}

/// A server that has said everything is not waited for, however lively it stays.
#[tokio::test]
async fn a_whole_answer_is_taken_while_its_server_babbles() {
    let end = data(r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#);
    let first = format!("{}{end}", text(Wire::Chat, "all"));
    for again in [data(r#"{"choices":[]}"#), ":\n\n".to_owned()] {
        let (first, again) = (Bytes::from(first.clone()), Bytes::from(again));
        let every = Some(Duration::from_millis(20));
        let answer = Answer::Endless { status: 200, kind: EVENTS, first, again, every };
        let got = ask(Wire::Chat, answer, PATIENCE).await.expect("an answer");
        assert_eq!((got.blocks[0].as_text().as_deref(), got.stop), (Some("all"), StopReason::EndTurn));
    }
}

#[tokio::test]
async fn tiny_pieces_count_for_what_they_take() {
    // Each is a few bytes of content, and would be millions of pieces within a bound on content alone.
    let empty_call = |n| data(&format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{n}]}}}}]}}"#));
    let many = vec![r#"{"function":{"name":"x","arguments":"{}"}}"#; 10_000].join(",");
    let what = "the model provider sent an answer of more than 32 MiB".to_owned();
    let got = failure(Wire::Chat, endless("", &empty_call(many))).await;
    assert_eq!(got, (ModelErrorKind::Protocol, what, 0));
}
