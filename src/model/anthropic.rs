//! The Messages API, streaming.
//!
//! Owns one address and one key, and turns requests into bytes and events into responses. Promises
//! that the bytes of prefix and blocks arrive as they are, and that the key appears in no message.
//! Never retries; see [`super::retry`].

mod assemble;
mod building;
mod failure;
pub(super) mod request;
#[cfg(test)]
mod tests;

use super::http::{self, HttpClient};
use super::idle::{IdleStream, StreamFailure, next};
use super::prices::facts;
use super::provider::{
    BoxFuture, DeltaSink, ModelError, ModelErrorKind, ModelProvider, ModelRequest, ModelResponse,
    PromptPrefix, ToolDeclaration,
};
pub use super::secret::Secret;
use assemble::{Assembler, Progress};
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use sse_stream::SseByteStream;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::timeout;

/// Where the vendor's API is.
pub const BASE_URL: &str = "https://api.anthropic.com";
/// The version of the API that this file speaks (its header of that name).
const VERSION: &str = "2023-06-01";
/// How long the end of a finished stream is waited for, so that its connection can be used again.
const DRAIN: Duration = Duration::from_millis(20);

/// How requests show who they are from.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// `x-api-key`, from `ANTHROPIC_API_KEY`.
    ApiKey(Secret),
    /// `Authorization: Bearer`, from `ANTHROPIC_AUTH_TOKEN`.
    Bearer(Secret),
}

impl Credentials {
    fn secret(&self) -> &Secret {
        match self {
            Self::ApiKey(secret) | Self::Bearer(secret) => secret,
        }
    }
    fn header(&self) -> Result<(&'static str, HeaderValue), ModelError> {
        let (name, text) = match self {
            Self::ApiKey(secret) => ("x-api-key", secret.expose().to_owned()),
            Self::Bearer(secret) => ("authorization", format!("Bearer {}", secret.expose())),
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| {
            ModelError::new(
                ModelErrorKind::Credentials,
                "the key holds characters that cannot be sent in a header",
            )
        })?;
        value.set_sensitive(true);
        Ok((name, value))
    }
}

/// A client of one address.
#[derive(Debug, Clone)]
pub struct Anthropic {
    http: HttpClient,
    url: String,
    credentials: Credentials,
    idle: Duration,
}

impl Anthropic {
    /// `base` is the address before `/v1/messages`; `idle` is how long a stream may be silent.
    pub fn new(http: HttpClient, base: &str, credentials: Credentials, idle: Duration) -> Self {
        let base = base.trim().trim_end_matches('/');
        let base = base.strip_suffix("/v1").unwrap_or(base);
        Self { http, url: format!("{base}/v1/messages"), credentials, idle }
    }

    async fn send(&self, request: &ModelRequest) -> Result<reqwest::Response, ModelError> {
        let (name, value) = self.credentials.header()?;
        let body = request::segments(request);
        let uploaded = body.progress();
        let sending = self
            .http
            .get()?
            .post(&self.url)
            .header(name, value)
            .header("anthropic-version", VERSION)
            .header(CONTENT_TYPE, "application/json")
            .header("accept", "text/event-stream")
            .body(reqwest::Body::wrap(body))
            .send();
        let mut sending = std::pin::pin!(sending);
        let mut seen = 0;
        loop {
            match timeout(self.idle, sending.as_mut()).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(error)) => return Err(self.http.failure(&error)),
                Err(_) => {
                    let now = uploaded.load(Ordering::Relaxed);
                    if now == seen {
                        let what = StreamFailure::Stalled(self.idle).to_string();
                        return Err(ModelError::new(ModelErrorKind::Connection, what));
                    }
                    seen = now;
                }
            }
        }
    }

    async fn exchange(
        &self,
        request: &ModelRequest,
        sink: &dyn DeltaSink,
    ) -> Result<ModelResponse, ModelError> {
        let response = self.send(request).await?;
        let status = response.status();
        if !status.is_success() {
            let headers = response.headers().clone();
            let body = http::error_body(response, self.idle).await;
            return Err(failure::of_status(status.as_u16(), &headers, &body));
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        if !kind.is_empty() && !kind.starts_with("text/event-stream") {
            let what = format!("the model provider answered with {kind} instead of a stream of events");
            let body = http::error_body(response, self.idle).await;
            let what = format!("{what}: {}", http::one_line(&body));
            return Err(ModelError::new(ModelErrorKind::Protocol, what));
        }
        let mut assembler = Assembler::default();
        match self.read(response, &mut assembler, sink).await {
            Ok(()) => assembler.finish(),
            Err(error) => Err(error.with_partial(assembler.partial())),
        }
    }

    async fn read(
        &self,
        response: reqwest::Response,
        assembler: &mut Assembler,
        sink: &dyn DeltaSink,
    ) -> Result<(), ModelError> {
        let mut events = SseByteStream::new(IdleStream::new(response.bytes_stream(), self.idle));
        while let Some(event) = next(&mut events).await {
            let event = event.map_err(|error| match error {
                sse_stream::Error::Body(cause) => {
                    ModelError::new(ModelErrorKind::Connection, cause.to_string())
                }
                other => ModelError::new(
                    ModelErrorKind::Protocol,
                    format!("the model provider's events cannot be read: {other}"),
                ),
            })?;
            let Some(data) = event.data else { continue };
            if assembler.event(&data, sink)? == Progress::Complete {
                // Only an optimization: an unread end would cost the next request a new connection.
                drop(timeout(DRAIN, next(&mut events)).await);
                return Ok(());
            }
        }
        Err(ModelError::new(ModelErrorKind::Connection, "the stream ended in the middle of the answer"))
    }
}

impl ModelProvider for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn freeze(&self, model: &str, system: &str, tools: &[ToolDeclaration]) -> PromptPrefix {
        let facts = facts(model);
        PromptPrefix {
            model: model.to_owned(),
            tools: request::tools(tools).into(),
            system: request::system(system).into(),
            max_output_tokens: facts.answer_tokens,
            thinking: facts.thinking.as_deref().map(Into::into),
        }
    }

    fn respond<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            self.exchange(request, sink).await.map_err(|mut error| {
                error.what = self.credentials.secret().scrub(&error.what);
                error
            })
        })
    }
}
