//! Everything that can go wrong on the way.

use super::super::{Anthropic, Credentials, Secret};
use super::responses::{KEY, PATIENCE, block, client, event, stream, text_block};
use crate::model::http::{HttpClient, Proxies};
use crate::model::provider::{ModelError, ModelErrorKind, ModelProvider};
use crate::model::testing::{Answer, Heard, Server, request, tls, user};
use bytes::Bytes;
use std::time::Duration;

async fn failure(answer: Answer, idle: Duration) -> ModelError {
    let server = Server::start([answer]).await;
    let client = client(&server, idle);
    client.respond(&request("a", 1, &[user("hi")]), &Heard::default()).await.expect_err("a failure")
}

fn plain(status: u16, body: &str) -> Answer {
    Answer::Plain {
        status,
        headers: vec![("content-type", "application/json".to_owned())],
        body: body.into(),
    }
}

fn error(kind: &str, message: &str) -> String {
    format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"r"}}"#)
}

#[tokio::test]
async fn a_status_says_what_to_do_and_the_provider_says_why() {
    use ModelErrorKind::{Credentials, RateLimited, Refused, Unavailable};
    for (status, kind, name) in [
        (400, Refused, "invalid_request_error"),
        (401, Credentials, "authentication_error"),
        (403, Credentials, "permission_error"),
        (404, Refused, "not_found_error"),
        (413, Refused, "request_too_large"),
        (429, RateLimited, "rate_limit_error"),
        (500, Unavailable, "api_error"),
        (503, Unavailable, "api_error"),
        (529, Unavailable, "overloaded_error"),
    ] {
        let got = failure(plain(status, &error(name, "the very\\nreason")), PATIENCE).await;
        assert_eq!(got.kind, kind, "{status}");
        assert_eq!(got.what, format!("the model provider answered {status} {name}: the very reason"));
        assert_eq!(got.retry_after, None);
    }
}

#[tokio::test]
async fn errors_without_an_error_object_are_shown_as_they_are() {
    let got = failure(plain(502, "<html>\n  Bad  gateway</html>"), PATIENCE).await;
    assert_eq!(got.what, "the model provider answered 502: <html> Bad gateway</html>");
    let got = failure(plain(500, ""), PATIENCE).await;
    assert_eq!(got.what, "the model provider answered 500: no explanation");
}

#[tokio::test]
async fn headers_say_how_long_to_wait_and_whether_it_is_any_use() {
    let limited = |headers| Answer::Plain { status: 429, headers, body: error("rate_limit_error", "slow") };
    let got = failure(limited(vec![("retry-after", "7".to_owned())]), PATIENCE).await;
    assert_eq!((got.kind, got.retry_after), (ModelErrorKind::RateLimited, Some(Duration::from_secs(7))));
    let date = "Mon, 01 Jan 2035 00:00:00 GMT".to_owned();
    let got = failure(limited(vec![("retry-after", date)]), PATIENCE).await;
    assert!(got.retry_after.is_some_and(|d| d > Duration::from_secs(3600)), "{:?}", got.retry_after);
    let got = failure(limited(vec![("x-should-retry", "false".to_owned())]), PATIENCE).await;
    assert_eq!(got.kind, ModelErrorKind::Refused);
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_key() {
    let elsewhere = Server::start([]).await;
    let location = vec![("location", format!("{}/v1/messages", elsewhere.url))];
    let got = failure(Answer::Plain { status: 307, headers: location, body: String::new() }, PATIENCE).await;
    assert_eq!(got.kind, ModelErrorKind::Refused);
    assert!(got.what.contains("redirect"), "{}", got.what);
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn the_key_is_never_shown() {
    let got =
        failure(plain(401, &error("authentication_error", &format!("invalid key {KEY}"))), PATIENCE).await;
    assert_eq!(got.what, "the model provider answered 401 authentication_error: invalid key [key]");
    let server = Server::start([]).await;
    let debug = format!("{:?}", client(&server, PATIENCE));
    assert!(!debug.contains(KEY), "{debug}");
    let odd = Credentials::ApiKey(Secret::new("sk-\u{1}odd").expect("a key"));
    let odd = Anthropic::new(HttpClient::new(Proxies::Off), &server.url, odd, PATIENCE);
    let got = odd.respond(&request("a", 1, &[user("hi")]), &Heard::default()).await.expect_err("refused");
    assert_eq!(got.kind, ModelErrorKind::Credentials);
    assert!(!got.what.contains("sk-"), "{}", got.what);
}

#[tokio::test]
async fn an_address_without_a_server_is_a_connection_error_without_the_address() {
    let key = || Credentials::ApiKey(Secret::new(KEY).expect("a key"));
    let server = Server::start([]).await;
    let url = server.url.replace("http://", "http://user:hidden@");
    drop(server);
    let http = HttpClient::new(Proxies::Off);
    let dead = Anthropic::new(http.clone(), &url, key(), PATIENCE);
    let got = dead.respond(&request("a", 1, &[user("hi")]), &Heard::default()).await.expect_err("nobody");
    assert_eq!(got.kind, ModelErrorKind::Connection);
    assert!(!got.what.contains("hidden"), "{}", got.what);
    let odd = Anthropic::new(http, "not an address", key(), PATIENCE);
    let got = odd.respond(&request("a", 1, &[user("hi")]), &Heard::default()).await.expect_err("nowhere");
    assert_eq!(got.kind, ModelErrorKind::Refused);
}

#[tokio::test]
async fn a_server_that_hangs_up_or_speaks_something_else_is_told_apart() {
    assert_eq!(failure(Answer::HangUp, PATIENCE).await.kind, ModelErrorKind::Connection);
    let got = failure(plain(200, "{\"id\":\"msg\"}"), PATIENCE).await;
    assert_eq!(got.kind, ModelErrorKind::Protocol);
    assert!(got.what.contains("application/json"), "{}", got.what);
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_keeps_the_text_before_it() {
    use ModelErrorKind::{RateLimited, Refused, Unavailable};
    for (name, kind) in [
        ("overloaded_error", Unavailable),
        ("api_error", Unavailable),
        ("rate_limit_error", RateLimited),
        ("invalid_request_error", Refused),
        ("new_error", Unavailable),
    ] {
        let begin = stream(&[text_block(0, &["some ", "text"])], "end_turn");
        let begin = String::from_utf8(begin.to_vec()).expect("text");
        let (begin, _) = begin.split_once("event: message_delta").expect("the end");
        let bytes = format!("{begin}{}", event(&error(name, "Overloaded"))).into();
        let got = failure(Answer::Stream { bytes, chunk: 50 }, PATIENCE).await;
        assert_eq!(got.kind, kind, "{name}");
        assert_eq!(got.what, format!("the model provider broke off with {name}: Overloaded"));
        assert_eq!(got.partial, "some text");
    }
}

#[tokio::test]
async fn nonsense_in_a_stream_is_a_protocol_error() {
    let piece = r#"{"type":"content_block_delta","index":4,"delta":{"type":"text_delta","text":"x"}}"#;
    for bytes in [
        "data: {not json\n\n".to_owned(),
        "data: {\"no\":\"type\"}\n\n".to_owned(),
        event(piece),
        block(0, r#"{"no":"type"}"#, &[]),
    ] {
        let got = failure(Answer::Stream { bytes: Bytes::from(bytes.clone()), chunk: 9 }, PATIENCE).await;
        assert_eq!(got.kind, ModelErrorKind::Protocol, "{bytes}");
    }
    let got =
        failure(Answer::Stream { bytes: Bytes::from_static(b"data: \xff\n\n"), chunk: 9 }, PATIENCE).await;
    assert_eq!(got.kind, ModelErrorKind::Protocol);
}

/// Wherever the connection breaks, the answer is whole or the failure says so.
#[tokio::test]
async fn a_stream_may_be_cut_at_any_byte() {
    let call = block(
        1,
        r#"{"type":"tool_use","id":"t","name":"Read","input":{}}"#,
        &[r#"{"type":"input_json_delta","partial_json":"{\"a\":1}"}"#.to_owned()],
    );
    let bytes = stream(&[text_block(0, &["one ", "tw\u{f6}"]), call], "tool_use");
    let whole = bytes.len();
    let server = Server::start((0..=whole).map(|after| Answer::Cut { bytes: bytes.clone(), after })).await;
    let client = client(&server, PATIENCE);
    let mut complete = Vec::new();
    for after in 0..=whole {
        match client.respond(&request("a", 1, &[user("hi")]), &Heard::default()).await {
            Ok(answer) => {
                assert_eq!(answer.blocks.len(), 2);
                complete.push(after);
            }
            Err(error) => {
                assert_eq!(error.kind, ModelErrorKind::Connection, "{after}: {error}");
                assert!("one tw\u{f6}".starts_with(&error.partial), "{after}: {}", error.partial);
            }
        }
    }
    assert_eq!(complete, [whole], "only the whole stream is an answer");
}

#[tokio::test]
async fn a_stream_that_falls_silent_is_cut() {
    let bytes = stream(&[text_block(0, &["so far"])], "end_turn");
    let text = String::from_utf8(bytes.to_vec()).expect("text");
    let after = text.find("event: content_block_stop").expect("the middle");
    // Long enough that a loaded machine gets the first bytes across in time.
    let idle = Duration::from_secs(3);
    let stalled = |after| failure(Answer::Stall { bytes: bytes.clone(), after }, idle);
    let (nothing, middle, end) = tokio::join!(stalled(0), stalled(after), stalled(bytes.len() - 3));
    for (got, partial) in [(nothing, ""), (middle, "so far"), (end, "so far")] {
        assert_eq!(got.kind, ModelErrorKind::Connection);
        assert_eq!(got.what, "the stream was silent for 3 s and was cut");
        assert_eq!(got.partial, partial);
    }
}

/// Eight attempts would not make it trusted.
#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_no_passing_failure() {
    let key = Credentials::ApiKey(Secret::new(KEY).expect("a key"));
    let client = Anthropic::new(HttpClient::new(Proxies::Off), &tls::untrusted(1), key, PATIENCE);
    let got =
        client.respond(&request("a", 1, &[user("hi")]), &Heard::default()).await.expect_err("untrusted");
    assert_eq!(got.kind, ModelErrorKind::Refused, "{got}");
    assert!(got.what.contains("certificate"), "{got}");
}
