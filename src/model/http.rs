//! The HTTP client that all network providers of a process share, and what they have in common:
//! how long to wait, what an error says.
//!
//! Owns the choice of TLS and proxies. The client is built on first use (it reads the system's
//! certificates, 4–31 ms). Never follows a redirect, because a key would travel with it.

use super::bounds::{BODY_BYTES, ERROR_BODY_BYTES};
use super::provider::{ModelError, ModelErrorKind};
use jiff::Timestamp;
use reqwest::header::HeaderMap;
use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long a connection may take to open.
const CONNECT_DEADLINE: Duration = Duration::from_secs(15);
/// What is shown of a text that is not the provider's error object, in characters.
const ERROR_TEXT: usize = 400;

/// Whether the proxies of the environment (`HTTPS_PROXY`, `NO_PROXY` …) are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxies {
    /// As the environment says.
    FromEnvironment,
    /// Straight to the server.
    Off,
}

/// A handle on the shared client. Cloning shares it. Root certificates are the system's, or those of
/// `SSL_CERT_FILE` and `SSL_CERT_DIR` when they are set.
#[derive(Debug, Clone)]
pub struct HttpClient {
    proxies: Proxies,
    built: Arc<OnceLock<Result<Built, String>>>,
}

#[derive(Debug)]
struct Built {
    client: reqwest::Client,
    /// Why there are no root certificates, if there are none.
    rootless: Option<String>,
}

impl Default for HttpClient {
    fn default() -> Self {
        Self::new(Proxies::FromEnvironment)
    }
}

impl HttpClient {
    /// Builds nothing yet.
    pub fn new(proxies: Proxies) -> Self {
        Self { proxies, built: Arc::default() }
    }

    /// The client, built by the first caller. The error is one sentence.
    pub fn get(&self) -> Result<&reqwest::Client, ModelError> {
        self.built().map(|built| &built.client)
    }

    fn built(&self) -> Result<&Built, ModelError> {
        self.built.get_or_init(|| build(self.proxies)).as_ref().map_err(|why| {
            ModelError::new(ModelErrorKind::Refused, format!("cannot set up a connection: {why}"))
        })
    }

    /// Why a request got no answer: it was never made, the server's certificate is not trusted (which
    /// no repetition changes), or there is no connection.
    pub(super) fn failure(&self, error: &reqwest::Error) -> ModelError {
        let why = reason(error);
        if error.is_builder() {
            let what = format!("the model provider's address is no good: {why}");
            return ModelError::new(ModelErrorKind::Refused, what);
        }
        let what = format!("cannot reach the model provider: {why}");
        if !distrusted(error) {
            return ModelError::new(ModelErrorKind::Connection, what);
        }
        let rootless = self.built().ok().and_then(|built| built.rootless.as_deref());
        let hint = rootless.unwrap_or("SSL_CERT_FILE can name a file with the root certificates to trust");
        ModelError::new(ModelErrorKind::Refused, format!("{what} ({hint})"))
    }
}

/// Whether the TLS certificate is at fault. An I/O error hides what it wraps from `source`.
fn distrusted(error: &(dyn Error + 'static)) -> bool {
    if let Some(rustls::Error::InvalidCertificate(_)) = error.downcast_ref() {
        return true;
    }
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(|io| io.get_ref());
    match wrapped {
        Some(inner) => distrusted(inner),
        None => error.source().is_some_and(distrusted),
    }
}

fn build(proxies: Proxies) -> Result<Built, String> {
    // Another part of the process may have chosen a TLS implementation already; that one serves as well.
    drop(rustls::crypto::ring::default_provider().install_default());
    let builder = || {
        let builder = reqwest::Client::builder()
            .user_agent(concat!("festoon/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_DEADLINE)
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none());
        match proxies {
            Proxies::FromEnvironment => builder,
            Proxies::Off => builder.no_proxy(),
        }
    };
    match builder().build() {
        Ok(client) => Ok(Built { client, rootless: None }),
        Err(first) => {
            // A system without root certificates (a bare container) can still reach plain-HTTP servers.
            let why = reason(&first);
            let client = builder().tls_certs_only([]).build().map_err(|_| why.clone())?;
            Ok(Built { client, rootless: Some(why) })
        }
    }
}

/// An error and its causes in one line, without the address (which may hold credentials).
pub fn reason(error: &reqwest::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next: Option<&dyn Error> = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if parts.last().is_none_or(|last| !last.contains(&text)) {
            parts.push(text);
        }
        next = cause.source();
    }
    if parts.is_empty() {
        let what = match error {
            e if e.is_timeout() => "timed out",
            e if e.is_connect() => "cannot connect",
            e if e.is_body() || e.is_decode() => "the body could not be read",
            _ => "the request could not be made",
        };
        parts.push(what.to_owned());
    }
    one_line(&parts.join(": "))
}

/// A text on one line, cut to a length one can read.
pub(super) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(ERROR_TEXT) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// The beginning of a body as text: [`ERROR_BODY_BYTES`], and what comes within `limit` in all.
pub(super) async fn error_body(mut response: reqwest::Response, limit: Duration) -> String {
    let end = Instant::now() + limit;
    let mut body = Vec::new();
    while body.len() < ERROR_BODY_BYTES {
        match timeout_at(end, response.chunk()).await {
            Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
            _ => break,
        }
    }
    body.truncate(ERROR_BODY_BYTES);
    String::from_utf8_lossy(&body).into_owned()
}

/// A whole body; `None` when it breaks or is larger than [`BODY_BYTES`].
pub(super) async fn small_body(mut response: reqwest::Response) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        body.extend_from_slice(&chunk);
        if body.len() > BODY_BYTES {
            return None;
        }
    }
    Some(body)
}

/// What a failing HTTP status means for the one who asked.
pub(super) fn kind_of_status(status: u16) -> ModelErrorKind {
    match status {
        401 | 403 => ModelErrorKind::Credentials,
        429 => ModelErrorKind::RateLimited,
        408 | 409 | 425 | 500.. => ModelErrorKind::Unavailable,
        _ => ModelErrorKind::Refused,
    }
}

/// The same for a request that was refused with these words.
pub(super) fn kind_of_failure(status: u16, message: &str) -> ModelErrorKind {
    match kind_of_status(status) {
        // OpenAI-like servers answer 400 or 413, some 500, to what they have no room for.
        ModelErrorKind::Refused | ModelErrorKind::Unavailable if is_too_long(message) => {
            ModelErrorKind::ContextExceeded
        }
        kind => kind,
    }
}

/// Whether a provider's words say that the conversation is too long for the model.
///
/// The vendors' own: `prompt is too long: N tokens > M maximum` and `input length and max_tokens exceed
/// context limit` (Anthropic), `context_length_exceeded` with `maximum context length` (OpenAI, vLLM) or
/// `exceeds the context window` (Responses), `exceeds the available context size` (llama.cpp).
pub(super) fn is_too_long(message: &str) -> bool {
    let message = message.to_lowercase();
    let signs = [
        "prompt is too long",
        "exceed context limit",
        "context_length_exceeded",
        "maximum context length",
        "exceeds the context window",
        "exceeds the available context",
        "exceed the context window",
        "context window is full",
    ];
    signs.iter().any(|sign| message.contains(sign))
}

/// How long the provider asks to wait: `retry-after-ms`, or `retry-after` in seconds or as an HTTP date
/// (RFC 9110 §10.2.3). A date in the past is no wait.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
    if let Some(ms) = number("retry-after-ms") {
        return Duration::try_from_secs_f64(ms / 1000.0).ok();
    }
    if let Some(seconds) = number("retry-after") {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(text("retry-after")?).ok()?.timestamp();
    Some(Duration::try_from(date.duration_since(now)).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        let mut map = HeaderMap::new();
        map.insert(name, value.parse().expect("header"));
        map
    }

    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().expect("time");
        let read = |name, value| retry_after(&headers(name, value), now);
        assert_eq!(read("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(read("retry-after", "1.5"), Some(Duration::from_millis(1500)));
        assert_eq!(read("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(read("retry-after", "Mon, 30 Nov 2026 12:00:30 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(read("retry-after", "Mon, 30 Nov 2026 11:00:00 GMT"), Some(Duration::ZERO));
        for odd in ["soon", "-1", "NaN", "inf", ""] {
            assert_eq!(read("retry-after", odd), None, "{odd}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn what_has_no_room_is_told_from_what_is_refused() {
        use ModelErrorKind::{ContextExceeded, Credentials, RateLimited, Refused, Unavailable};
        for (status, message, kind) in [
            (400, "prompt is too long: 210000 tokens > 200000 maximum", ContextExceeded),
            (400, "This model's maximum context length is 8192 tokens.", ContextExceeded),
            (413, "Your input exceeds the context window of this model.", ContextExceeded),
            (500, "the request exceeds the available context size", ContextExceeded),
            (400, "messages: roles must alternate", Refused),
            (413, "request_too_large", Refused),
            (500, "internal", Unavailable),
            (429, "prompt is too long for your tier", RateLimited),
            (403, "prompt is too long", Credentials),
        ] {
            assert_eq!(kind_of_failure(status, message), kind, "{status} {message}");
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let cut = one_line(&"é\n".repeat(1000));
        assert_eq!(cut.chars().count(), ERROR_TEXT + 1);
        assert!(cut.ends_with('…'));
    }
}
