//! What OpenAI's wires and the servers that imitate them say when they fail, as our error.

use crate::model::http::{is_too_long, kind_of_failure, kind_of_status, one_line, retry_after};
use crate::model::provider::{ModelError, ModelErrorKind};
use jiff::Timestamp;
use reqwest::header::HeaderMap;
use serde_json::Value;

/// Codes of a 429 that no waiting cures: there is nothing left to pay with.
const SPENT: [&str; 4] =
    ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "access_terminated"];

/// An error object, in any of the shapes it comes in.
#[derive(Debug, Default)]
struct Said {
    /// The most telling of code and type; may be empty.
    label: String,
    /// Code and type.
    names: [String; 2],
    message: String,
}

impl Said {
    /// `error` as an object or a text; else the members of the object itself.
    fn of(value: &Value) -> Self {
        let error = match value.get("error") {
            None | Some(Value::Null) => value,
            Some(error) => error,
        };
        if let Value::String(message) = error {
            return Self { message: one_line(message), ..Self::default() };
        }
        let text = |name: &str| match error.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let names = [text("code"), text("type")];
        let label = names.iter().find(|name| !name.is_empty()).cloned().unwrap_or_default();
        let message = match error.get("message").or(error.get("detail")) {
            Some(Value::String(text)) => one_line(text),
            Some(other) => one_line(&other.to_string()),
            None => one_line(&error.to_string()),
        };
        Self { label, names, message }
    }

    fn is_spent(&self) -> bool {
        self.names.iter().any(|name| SPENT.contains(&name.as_str()))
    }
}

/// An answer with an HTTP status that is no success.
pub(super) fn of_status(status: u16, headers: &HeaderMap, body: &str) -> ModelError {
    let said = match serde_json::from_str::<Value>(body) {
        Ok(value) => Said::of(&value),
        Err(_) => Said { message: one_line(body), ..Said::default() },
    };
    let mut kind = kind_of_failure(status, &format!("{} {}", said.names.join(" "), said.message));
    let hopeless = headers.get("x-should-retry").is_some_and(|v| v == "false");
    if kind.is_transient() && (hopeless || said.is_spent()) {
        kind = ModelErrorKind::Refused;
    }
    // A code that only repeats the status says nothing.
    let label = if said.label == status.to_string() { &said.names[1] } else { &said.label };
    let label = if label.is_empty() { String::new() } else { format!(" {label}") };
    let text = match (said.message.as_str(), headers.get("location")) {
        ("", Some(_)) => "the address answers with a redirect, which is not followed".to_owned(),
        ("", None) => "no explanation".to_owned(),
        _ => said.message,
    };
    let mut error = ModelError::new(kind, format!("the model provider answered {status}{label}: {text}"));
    error.retry_after = retry_after(headers, Timestamp::now());
    error
}

/// An error object inside a stream or an answer.
pub(super) fn of_object(value: &Value) -> ModelError {
    let said = Said::of(value);
    let kind = if said.is_spent() {
        ModelErrorKind::Refused
    } else if is_too_long(&said.message) {
        ModelErrorKind::ContextExceeded
    } else {
        said.names.iter().find_map(|name| kind_of_name(name)).unwrap_or(ModelErrorKind::Unavailable)
    };
    let label = if said.label.is_empty() { "error" } else { &said.label };
    ModelError::new(kind, format!("the model provider broke off with {label}: {}", said.message))
}

/// What a code or type means; `None` for those that say nothing but that something went wrong.
fn kind_of_name(name: &str) -> Option<ModelErrorKind> {
    if let Ok(status) = name.parse::<u16>() {
        return (400..600).contains(&status).then(|| kind_of_status(status));
    }
    match name {
        "rate_limit_exceeded" | "rate_limit_error" | "too_many_requests" => Some(ModelErrorKind::RateLimited),
        "invalid_api_key" | "authentication_error" | "permission_error" => Some(ModelErrorKind::Credentials),
        "context_length_exceeded" => Some(ModelErrorKind::ContextExceeded),
        "model_not_found" | "not_found_error" | "invalid_prompt" => Some(ModelErrorKind::Refused),
        other => other.starts_with("invalid_request").then_some(ModelErrorKind::Refused),
    }
}
