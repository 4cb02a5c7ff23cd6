//! One request and the stream of events that answers it, for every wire.
//!
//! Owns how long is waited for what, and when a stream counts as broken. Promises that no server can
//! send more, or keep a request for longer, than [`super::bounds`] says. Knows no wire: an [`Assembler`]
//! makes sense of the events. Never retries; see [`super::retry`].

#[cfg(test)]
mod tests;

use super::body::Segments;
use super::bounds::{ANSWER_BYTES, BODY_BYTES, BoundedEvents, EVENT_BYTES, PIECE_BYTES, too_large};
use super::http::{self, HttpClient};
use super::idle::{Brought, IdleStream, StreamFailure, next};
use super::provider::{Delta, DeltaSink, ModelError, ModelErrorKind, ModelResponse};
use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use sse_stream::SseByteStream;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// How long the end of a finished stream is waited for, so that its connection can be used again.
const DRAIN: Duration = Duration::from_millis(20);
/// How long a stream whose answer is whole may take to end without bringing more of it: servers that leave out their end mark and
/// keep the connection open are not waited for as if they had more to say.
const LINGER: Duration = Duration::from_secs(3);

/// Whether more is to come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Read on. The event brought so many bytes of the answer; 0 is an event that may as well not have
    /// come, and whatever an assembler keeps counts.
    More(usize),
    /// The stream said that it is over.
    Complete,
}

/// Puts the events of one stream together.
pub(super) trait Assembler: Send {
    /// Takes the name and data of one event.
    fn event(&mut self, name: &str, data: &str, sink: &dyn DeltaSink) -> Result<Progress, ModelError>;
    /// Takes an answer that came as one JSON text although a stream was asked for.
    fn whole(&mut self, body: &str, sink: &dyn DeltaSink) -> Result<(), ModelError>;
    /// Whether nothing of the answer is missing if the stream ends here.
    fn is_whole(&self) -> bool;
    /// The text that came so far, as far as [`super::bounds::partial`] keeps it.
    fn partial(&self) -> String;
    /// The whole response, once the stream is over.
    fn finish(self) -> Result<ModelResponse, ModelError>;
}

/// What a wire needs to make one request.
pub(super) struct Exchange<'a> {
    /// The client.
    pub(super) http: &'a HttpClient,
    /// Where to.
    pub(super) url: &'a str,
    /// What the wire sends beside the content type.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// How long the other side may be silent.
    pub(super) idle: Duration,
    /// What an HTTP status that is no success means.
    pub(super) refused: fn(u16, &HeaderMap, &str) -> ModelError,
}

impl Exchange<'_> {
    /// Sends the body and puts the answer together.
    pub(super) async fn run<A: Assembler>(
        self,
        body: Segments,
        mut assembler: A,
        sink: &dyn DeltaSink,
    ) -> Result<ModelResponse, ModelError> {
        let response = self.send(body).await?;
        let status = response.status();
        if !status.is_success() {
            let headers = response.headers().clone();
            let body = http::error_body(response, self.idle).await;
            return Err((self.refused)(status.as_u16(), &headers, &body));
        }
        match self.take(response, &mut assembler, sink).await {
            Ok(()) => assembler.finish(),
            Err(error) => Err(error.with_partial(assembler.partial())),
        }
    }

    async fn send(&self, body: Segments) -> Result<reqwest::Response, ModelError> {
        let uploaded = body.progress();
        let mut request = self
            .http
            .get()?
            .post(self.url)
            .header(CONTENT_TYPE, "application/json")
            .header("accept", "text/event-stream");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let mut sending = std::pin::pin!(request.body(reqwest::Body::wrap(body)).send());
        let mut seen = 0;
        loop {
            match timeout(self.idle, sending.as_mut()).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(error)) => return Err(self.http.failure(&error)),
                Err(_) => {
                    let now = uploaded.load(Ordering::Relaxed);
                    if now == seen {
                        return Err(broken(&StreamFailure::Stalled(self.idle)));
                    }
                    seen = now;
                }
            }
        }
    }

    async fn take<A: Assembler>(
        &self,
        response: reqwest::Response,
        assembler: &mut A,
        sink: &dyn DeltaSink,
    ) -> Result<(), ModelError> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_owned();
        match kind.as_str() {
            // A server that names no type, or plain text, may still send events.
            "text/event-stream" | "text/plain" | "" => self.read(response, assembler, sink).await,
            "application/json" => {
                let body = self.collect(response).await?;
                sink.delta(Delta::Whole);
                assembler.whole(&String::from_utf8_lossy(&body), sink)
            }
            _ => {
                let body = http::error_body(response, self.idle).await;
                Err(not_events(&kind, &body))
            }
        }
    }

    async fn collect(&self, response: reqwest::Response) -> Result<Vec<u8>, ModelError> {
        let brought = Brought::default();
        let mut bytes = IdleStream::new(response.bytes_stream(), self.idle, brought.clone());
        let mut body = Vec::new();
        while let Some(chunk) = next(&mut bytes).await {
            let chunk: Bytes = chunk.map_err(|e| broken(&e))?;
            // Some servers keep the connection with blanks.
            brought.add(chunk.trim_ascii().len());
            body.extend_from_slice(&chunk);
            if body.len() > BODY_BYTES {
                return Err(too_large("an answer in one piece", BODY_BYTES));
            }
        }
        Ok(body)
    }

    async fn read<A: Assembler>(
        &self,
        response: reqwest::Response,
        assembler: &mut A,
        sink: &dyn DeltaSink,
    ) -> Result<(), ModelError> {
        let brought = Brought::default();
        let bytes = IdleStream::new(response.bytes_stream(), self.idle, brought.clone());
        let mut events = SseByteStream::new(BoundedEvents::new(bytes));
        // Once the answer is whole: until when more is waited for.
        let mut end = None;
        loop {
            let event = if assembler.is_whole() {
                let end = *end.get_or_insert_with(|| Instant::now() + LINGER);
                match timeout_at(end, next(&mut events)).await {
                    Ok(Some(Ok(event))) if Instant::now() < end => event,
                    // Silence, the end, or a break: nothing of the answer is missing.
                    _ => return Ok(()),
                }
            } else {
                match next(&mut events).await {
                    Some(event) => event.map_err(unreadable)?,
                    None => return Err(cut_short()),
                }
            };
            let Some(data) = event.data else { continue };
            match assembler.event(event.event.as_deref().unwrap_or_default(), &data, sink)? {
                Progress::More(0) => {}
                Progress::More(bytes) => {
                    if brought.add(bytes.saturating_add(PIECE_BYTES)) > ANSWER_BYTES {
                        return Err(too_large("an answer", ANSWER_BYTES));
                    }
                    end = None;
                }
                Progress::Complete => {
                    // Only an optimization: an unread end would cost the next request a new connection.
                    drop(timeout(DRAIN, next(&mut events)).await);
                    return Ok(());
                }
            }
        }
    }
}

fn broken(failure: &StreamFailure) -> ModelError {
    match failure {
        StreamFailure::EventTooLarge => too_large("an event", EVENT_BYTES),
        _ => ModelError::new(ModelErrorKind::Connection, failure.to_string()),
    }
}

fn unreadable(error: sse_stream::Error) -> ModelError {
    match error {
        sse_stream::Error::Body(cause) => match cause.downcast_ref() {
            Some(failure) => broken(failure),
            None => ModelError::new(ModelErrorKind::Connection, cause.to_string()),
        },
        other => nonsense("events that cannot be read", other),
    }
}

fn cut_short() -> ModelError {
    ModelError::new(ModelErrorKind::Connection, "the stream ended in the middle of the answer")
}

/// An answer of a type that no wire reads.
pub(super) fn not_events(kind: &str, body: &str) -> ModelError {
    let what = format!(
        "the model provider answered with {kind} instead of a stream of events: {}",
        http::one_line(body)
    );
    ModelError::new(ModelErrorKind::Protocol, what)
}

/// Something that no server should send.
pub(super) fn nonsense(what: &str, error: impl std::fmt::Display) -> ModelError {
    ModelError::new(ModelErrorKind::Protocol, format!("the model provider sent {what}: {error}"))
}
