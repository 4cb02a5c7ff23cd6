//! Everything that can go wrong on the way.

use super::{KEY, PATIENCE, answer, asking, at, client, events, responses};
use crate::model::provider::{ModelError, ModelErrorKind, ModelProvider};
use crate::model::testing::{Answer, Heard, Server as Local, user};
use crate::wire::settings::OpenAiWire::{self, Chat, Responses};
use std::time::Duration;

async fn failure(given: Answer) -> ModelError {
    answer(given, Chat).await.0.expect_err("a failure")
}

fn plain(status: u16, body: &str) -> Answer {
    let headers = vec![("content-type", "application/json".to_owned())];
    Answer::Plain { status, headers, body: body.into() }
}

#[tokio::test]
async fn a_status_says_what_to_do_and_the_provider_says_why() {
    use ModelErrorKind::{ContextExceeded, Credentials, RateLimited, Refused, Unavailable};
    let object = |kind: &str, code: &str| {
        format!(r#"{{"error":{{"message":"the very\nreason","type":"{kind}","param":null,"code":{code}}}}}"#)
            .replace("very\n", "very\\n")
    };
    for (status, body, kind, label) in [
        (400, object("invalid_request_error", "null"), Refused, " invalid_request_error"),
        (
            400,
            object("invalid_request_error", "\"context_length_exceeded\""),
            ContextExceeded,
            " context_length_exceeded",
        ),
        (401, object("invalid_request_error", "\"invalid_api_key\""), Credentials, " invalid_api_key"),
        (404, object("invalid_request_error", "\"model_not_found\""), Refused, " model_not_found"),
        (429, object("requests", "\"rate_limit_exceeded\""), RateLimited, " rate_limit_exceeded"),
        (429, object("insufficient_quota", "\"insufficient_quota\""), Refused, " insufficient_quota"),
        (429, object("insufficient_quota", "null"), Refused, " insufficient_quota"),
        (500, object("server_error", "500"), Unavailable, " server_error"),
        (503, object("", "503"), Unavailable, ""),
    ] {
        let got = failure(plain(status, &body)).await;
        assert_eq!(got.kind, kind, "{status} {body}");
        assert_eq!(got.what, format!("the model provider answered {status}{label}: the very reason"));
    }
}

#[tokio::test]
async fn errors_of_other_shapes_are_shown_too() {
    for (body, want) in [
        (r#"{"error":"model \"x\" not found"}"#, r#"model "x" not found"#),
        (r#"{"object":"error","message":"too long","type":"BadRequestError","code":400}"#, "too long"),
        (r#"{"detail":[{"msg":"field required"}]}"#, r#"[{"msg":"field required"}]"#),
        (r#"{"error":{"odd":1}}"#, r#"{"odd":1}"#),
        ("<html>\n Bad  request</html>", "<html> Bad request</html>"),
        ("", "no explanation"),
    ] {
        let got = failure(plain(400, body)).await;
        assert_eq!(got.kind, ModelErrorKind::Refused);
        assert!(got.what.ends_with(&format!(": {want}")), "{}", got.what);
    }
    let headers = vec![("retry-after", "7".to_owned())];
    let got = failure(Answer::Plain { status: 429, headers, body: "{}".to_owned() }).await;
    assert_eq!((got.kind, got.retry_after), (ModelErrorKind::RateLimited, Some(Duration::from_secs(7))));
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_keeps_the_text_before_it() {
    use ModelErrorKind::{RateLimited, Refused, Unavailable};
    let said = r#"{"choices":[{"index":0,"delta":{"content":"some text"}}]}"#.to_owned();
    for (error, kind, want) in [
        (
            r#"{"error":{"message":"Overloaded","type":"overloaded_error"}}"#,
            Unavailable,
            "overloaded_error: Overloaded",
        ),
        (r#"{"error":{"message":"Slow","code":429},"choices":[]}"#, RateLimited, "429: Slow"),
        (
            r#"{"error":{"message":"No","code":"invalid_request_error"}}"#,
            Refused,
            "invalid_request_error: No",
        ),
        (r#"{"error":{"message":"Pay","type":"insufficient_quota"}}"#, Refused, "insufficient_quota: Pay"),
        (r#"{"error":"broken"}"#, Unavailable, "error: broken"),
    ] {
        let bytes = events(&[said.clone(), error.to_owned()]);
        let got = failure(Answer::Stream { bytes, chunk: 50 }).await;
        assert_eq!((got.kind, got.partial.as_str()), (kind, "some text"), "{error}");
        assert_eq!(got.what, format!("the model provider broke off with {want}"));
    }
    let bytes = format!("data: {said}\n\nevent: error\ndata: {{\"message\":\"lost\"}}\n\n").into();
    let got = failure(Answer::Stream { bytes, chunk: 50 }).await;
    assert_eq!(got.what, "the model provider broke off with error: lost");
    let got = failure(plain(200, r#"{"error":{"message":"busy"}}"#)).await;
    assert_eq!(got.what, "the model provider broke off with error: busy");
}

#[tokio::test]
async fn nonsense_is_a_protocol_error() {
    for bytes in ["data: {not json\n\n", "data: 7\n\n", "data: [DONE]\n\n", "data: \u{0}\n\n"] {
        let got = failure(Answer::Stream { bytes: bytes.into(), chunk: 9 }).await;
        assert_eq!(got.kind, ModelErrorKind::Protocol, "{bytes}: {got}");
    }
    for body in ["", "{}", "[]", r#"{"choices":[]}"#] {
        let got = failure(plain(200, body)).await;
        assert_eq!(got.kind, ModelErrorKind::Protocol, "{body}: {got}");
    }
    let headers = vec![("content-type", "text/html".to_owned())];
    let got = failure(Answer::Plain { status: 200, headers, body: "<html>".to_owned() }).await;
    assert_eq!(got.kind, ModelErrorKind::Protocol);
    assert!(got.what.contains("text/html"), "{got}");
    let bytes = events(&[r#"{"type":"response.completed"}"#.to_owned()]);
    let (got, _) = answer(Answer::Stream { bytes, chunk: 9 }, Responses).await;
    assert!(got.is_ok_and(|answer| answer.blocks.is_empty()));
}

/// Wherever the connection breaks, the answer is whole or the failure says so.
#[tokio::test]
async fn a_stream_may_be_cut_at_any_byte() {
    let call = r#"{"tool_calls":[{"index":0,"id":"t","function":{"name":"Read","arguments":"{\"a\":1}"}}]}"#;
    let chat = super::chat::stream(&[r#"{"content":"one "}"#, r#"{"content":"twö"}"#, call], "tool_calls");
    let end = String::from_utf8(chat.to_vec()).expect("text").find(r#""finish_reason":"tool_calls""#);
    let end = end.expect("the reason") + r#""finish_reason":"tool_calls"}]}"#.len() + "\n\n".len();
    let item = r#"{"type":"message","content":[{"type":"output_text","text":"one twö"}]}"#;
    let delta = r#"{"type":"response.output_text.delta","output_index":0,"delta":"one twö"}"#.to_owned();
    let done = format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{item}}}"#);
    let whole = responses::stream(vec![delta, done]);
    let last = whole.len();
    for (wire, bytes, end, blocks) in [(Chat, chat, end, 2), (Responses, whole, last, 1)] {
        let length = bytes.len();
        let server =
            Local::start((0..=length).map(|after| Answer::Cut { bytes: bytes.clone(), after })).await;
        let client = client(&server, wire);
        let request = asking(&client, "m", &[user("hi")]);
        for after in 0..=length {
            match client.respond(&request, &Heard::default()).await {
                Ok(answer) => {
                    assert!(after >= end, "{wire:?}: an answer after {after} of {length} bytes");
                    assert_eq!(answer.blocks.len(), blocks);
                }
                Err(error) => {
                    assert!(after < end, "{wire:?} {after}: {error}");
                    assert_eq!(error.kind, ModelErrorKind::Connection, "{wire:?} {after}: {error}");
                    assert!("one twö".starts_with(&error.partial), "{after}: {}", error.partial);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_stream_that_falls_silent_is_cut() {
    let bytes = super::chat::stream(&[r#"{"content":"so far"}"#, r#"{"content":"!"}"#], "stop");
    let after = String::from_utf8(bytes.to_vec()).expect("text").find('!').expect("the middle");
    let server = Local::start([Answer::Stall { bytes, after }]).await;
    // Long enough that a loaded machine gets the first bytes across in time.
    let idle = Duration::from_secs(3);
    let client = at(&server.url, Chat, idle);
    let got = client.respond(&asking(&client, "m", &[user("hi")]), &Heard::default()).await;
    let got = got.expect_err("a stall");
    assert_eq!((got.kind, got.partial.as_str()), (ModelErrorKind::Connection, "so far"));
    assert_eq!(got.what, "the stream was silent for 3 s and was cut");
}

async fn headers(wire: OpenAiWire, key: Option<&str>) -> (String, Option<String>) {
    let bytes = super::chat::stream(&[r#"{"content":"x"}"#], "stop");
    let server = Local::start([Answer::Stream { bytes, chunk: 100 }]).await;
    let mut client = client(&server, wire);
    client.server.key = key.and_then(crate::model::secret::Secret::new);
    drop(client.respond(&asking(&client, "m", &[user("hi")]), &Heard::default()).await);
    let seen = server.seen().remove(0);
    (seen.line, seen.headers.get("authorization").cloned())
}

#[tokio::test]
async fn the_key_is_sent_as_bearer_and_never_shown() {
    let bearer = Some(format!("Bearer {KEY}"));
    assert_eq!(
        headers(Chat, Some(KEY)).await,
        ("POST /v1/chat/completions HTTP/1.1".to_owned(), bearer.clone())
    );
    assert_eq!(headers(Responses, Some(KEY)).await, ("POST /v1/responses HTTP/1.1".to_owned(), bearer));
    assert_eq!(headers(Chat, None).await.1, None);
    let got = failure(plain(401, &format!(r#"{{"error":{{"message":"bad key {KEY}"}}}}"#))).await;
    assert_eq!(got.what, "the model provider answered 401: bad key [key]");
    let nobody = at("http://127.0.0.1:1/v1", Chat, PATIENCE);
    let got =
        nobody.respond(&asking(&nobody, "m", &[user("hi")]), &Heard::default()).await.expect_err("nobody");
    assert_eq!(got.kind, ModelErrorKind::Connection);
    assert!(!format!("{:?}", nobody.server).contains(KEY));
}
