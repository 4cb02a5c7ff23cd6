//! What the Messages API says when it fails, as our error.

use crate::model::http::{is_too_long, kind_of_failure, one_line, retry_after};
use crate::model::provider::{ModelError, ModelErrorKind};
use jiff::Timestamp;
use reqwest::header::HeaderMap;
use serde::Deserialize;

/// The API's error object.
#[derive(Debug, Deserialize)]
pub(super) struct ApiError {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct Envelope {
    error: ApiError,
}

/// An answer with an HTTP status that is no success.
pub(super) fn of_status(status: u16, headers: &HeaderMap, body: &str) -> ModelError {
    let said = serde_json::from_str::<Envelope>(body).map(|e| e.error);
    let (name, message) = match said {
        Ok(error) => (error.kind, one_line(&error.message)),
        Err(_) => (String::new(), one_line(body)),
    };
    let mut kind = kind_of_failure(status, &message);
    // The vendor's SDKs obey this header: a spent budget, for one, is a 429 that no waiting cures.
    let hopeless = headers.get("x-should-retry").is_some_and(|v| v == "false");
    if hopeless && kind.is_transient() {
        kind = ModelErrorKind::Refused;
    }
    let label = if name.is_empty() { String::new() } else { format!(" {name}") };
    let text = match (message.as_str(), headers.get("location")) {
        ("", Some(_)) => "the address answers with a redirect, which is not followed".to_owned(),
        ("", None) => "no explanation".to_owned(),
        _ => message,
    };
    let mut error = ModelError::new(kind, format!("the model provider answered {status}{label}: {text}"));
    error.retry_after = retry_after(headers, Timestamp::now());
    error
}

/// An `error` event inside a stream.
pub(super) fn of_event(error: &ApiError) -> ModelError {
    let kind = match error.kind.as_str() {
        "rate_limit_error" => ModelErrorKind::RateLimited,
        "authentication_error" | "permission_error" => ModelErrorKind::Credentials,
        "invalid_request_error" if is_too_long(&error.message) => ModelErrorKind::ContextExceeded,
        "invalid_request_error" | "not_found_error" | "request_too_large" | "billing_error" => {
            ModelErrorKind::Refused
        }
        // overloaded_error, api_error, timeout_error and what comes later
        _ => ModelErrorKind::Unavailable,
    };
    let name = if error.kind.is_empty() { "error" } else { &error.kind };
    ModelError::new(kind, format!("the model provider broke off with {name}: {}", one_line(&error.message)))
}
