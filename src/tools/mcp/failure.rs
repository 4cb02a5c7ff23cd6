//! Why a server cannot be reached or used, in words for people.
//!
//! Promises that no word holds an address or header (they may hold credentials) or steers a terminal.

use rmcp::model::ErrorCode;
use rmcp::service::ClientInitializeError;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use std::error::Error;
use std::time::Duration;
use tokio::time::timeout;

/// How long a server that gave no answer has for another one.
const PROBE: Duration = Duration::from_secs(3);
/// Characters of what a server or the way to it says of a failure.
const WORDS: usize = 400;
/// What a server that is reached and refuses wants.
const WANTS_TOKEN: &str =
    "it wants authorization (401); give it a token: \"headers\": {\"Authorization\": \"Bearer ${TOKEN}\"}";

/// Why there is no connection.
pub(super) struct Refusal {
    /// A sentence.
    pub why: String,
    /// It understood us and does not know how we began.
    pub knows_no_handshake: bool,
}

impl Refusal {
    /// Because of this.
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), knows_no_handshake: false }
    }

    /// Because the greeting failed.
    pub fn of(error: &ClientInitializeError) -> Self {
        match error {
            ClientInitializeError::JsonRpcError(error) => {
                let codes = [ErrorCode::METHOD_NOT_FOUND, ErrorCode::UNSUPPORTED_PROTOCOL_VERSION];
                Self {
                    why: format!("it refused the greeting: {}", said(&error.message)),
                    knows_no_handshake: codes.contains(&error.code),
                }
            }
            ClientInitializeError::TransportError { error, .. } => {
                let words = transport_words(error);
                Self::new(if words.contains("HTTP 401") { WANTS_TOKEN.to_owned() } else { words })
            }
            ClientInitializeError::ConnectionClosed(_) => Self::new("it closed the connection"),
            _ => Self::new("its answer to the greeting makes no sense"),
        }
    }
}

/// What went wrong on the way, without addresses (which may hold credentials).
pub(super) fn transport_words(error: &DynamicTransportError) -> String {
    let error: &(dyn Error + 'static) = error.error.as_ref();
    let words = match error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(error)) => reason(error),
        Some(StreamableHttpError::AuthRequired(_)) => "HTTP 401".to_owned(),
        Some(other) => other.to_string(),
        None => error.to_string(),
    };
    let line: Vec<&str> = words.split_whitespace().filter(|word| !word.contains("://")).collect();
    super::shortened(&super::plain(line.join(" ").trim_end_matches(':')), WORDS)
}

/// A server's own words about a failure, for people.
pub(super) fn said(words: &str) -> String {
    super::shortened(&super::plain(words), WORDS)
}

/// Why there was no answer over HTTP. The protocol's client keeps that to itself, so it is tried again.
pub(super) async fn unreachable(client: &reqwest::Client, url: &str) -> String {
    match timeout(PROBE, client.get(url).send()).await {
        Ok(Ok(answer)) => {
            format!("it closed the connection (a plain request is answered with {})", answer.status())
        }
        Ok(Err(error)) => reason(&error),
        Err(_) => "it cannot be reached in time".to_owned(),
    }
}

/// A failed request in one line: what its causes say, which hold no address.
fn reason(error: &reqwest::Error) -> String {
    let mut words = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        words.push(cause.to_string());
        next = cause.source();
    }
    match words.pop() {
        Some(last) => format!("it cannot be reached: {last}"),
        None if error.is_timeout() => "it cannot be reached in time".to_owned(),
        None => "it cannot be reached".to_owned(),
    }
}
