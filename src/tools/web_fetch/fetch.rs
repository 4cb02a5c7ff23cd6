//! One page over HTTP: the address, the redirects that may be followed, and bounds on time and bytes.
//!
//! Follows redirects to the same host only. Reads no further than its bound, however much a server sends,
//! and nothing at all of where machines get their credentials.

use super::closed;
use super::unpack::unpack;
use crate::tools::web::Web;
use crate::wire::limits::{WEB_FETCH_BYTES, WEB_FETCH_DEADLINE};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, LOCATION};
pub use reqwest::{Client, Error as HttpError};
use reqwest::{Response, StatusCode, Url};
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::timeout;

/// Redirects that are followed: as many as browsers do (Fetch standard, HTTP-redirect fetch: 20) is more
/// than an honest page needs.
const MAX_REDIRECTS: usize = 10;
/// Text first; a page that has Markdown is asked for it.
const ACCEPTED: &str = "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, \
                        application/json;q=0.8, */*;q=0.5";

/// How much one fetch may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// In all, redirects included.
    pub time: Duration,
    /// Of the body; the rest is not read.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: WEB_FETCH_DEADLINE, bytes: WEB_FETCH_BYTES }
    }
}

/// What a server has.
#[derive(Debug)]
pub(super) enum Got {
    /// A page.
    Page(Raw),
    /// A redirect to another host.
    Elsewhere { status: u16, to: String },
}

/// A page as it came.
#[derive(Debug)]
pub(super) struct Raw {
    /// Where it was found, behind redirects.
    pub url: Url,
    /// The header, in lower case; empty without one.
    pub content_type: String,
    /// As much as was read.
    pub body: Vec<u8>,
    /// Whether there was more.
    pub cut: bool,
}

/// An address as it is fetched: `http:` has become `https:`, except where no certificate can be expected.
/// The error says what is wrong with it, as the end of a sentence.
pub(super) fn address(text: &str) -> Result<Url, String> {
    let text = text.trim();
    let url = Url::parse(text);
    let mut url =
        url.map_err(|error| format!("{text:?} is no address ({error}); write https://HOST/PATH"))?;
    match url.scheme() {
        "http" | "https" => {}
        "file" => return Err("addresses of files are not fetched; use Read".to_owned()),
        other => return Err(format!("{other:?} addresses are not fetched; write https://HOST/PATH")),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the address holds a user name or password, which is not sent anywhere".to_owned());
    }
    url.set_fragment(None);
    let host = url.host_str().unwrap_or_default().to_owned();
    if url.scheme() == "http" && url.port().is_none() && !is_bare(&host) {
        url.set_scheme("https").map_err(|()| format!("{text:?} cannot be fetched by https"))?;
    }
    Ok(url)
}

/// Hosts that rarely have a certificate: this machine, and addresses in numbers.
fn is_bare(host: &str) -> bool {
    let number = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    number.is_ok() || host == "localhost" || host.ends_with(".localhost")
}

/// Fetches a page. The error is the end of a sentence.
pub(super) async fn get(web: &dyn Web, url: Url, limits: Limits) -> Result<Got, String> {
    let host = url.host_str().unwrap_or_default().to_owned();
    let fetched = timeout(limits.time, follow(web, url, limits.bytes)).await;
    fetched.unwrap_or_else(|_| {
        Err(format!("{host} did not send the page within {} s", limits.time.as_secs_f32()))
    })
}

async fn follow(web: &dyn Web, mut url: Url, bytes: usize) -> Result<Got, String> {
    for _ in 0..=MAX_REDIRECTS {
        let host = url.host_str().unwrap_or_default().to_owned();
        closed::check(&url).await?;
        let request = web.client(url.as_str())?.get(url.clone());
        let request = request.header(ACCEPT, ACCEPTED).header(ACCEPT_ENCODING, "identity");
        let response = request.send().await;
        let response =
            response.map_err(|error| format!("{host} cannot be reached: {}", web.reason(&error)))?;
        if response.remote_addr().is_some_and(|from| closed::is_closed(from.ip())) {
            return Err(closed::refusal(&host));
        }
        let Some(location) = redirect(&response) else { return page(web, url, response, bytes).await };
        let next =
            url.join(&location).map_err(|_| format!("{host} redirects to {location:?}, no address"))?;
        let status = response.status().as_u16();
        if next.host_str() != url.host_str() {
            return Ok(Got::Elsewhere { status, to: next.to_string() });
        }
        let next = address(next.as_str()).map_err(|why| format!("{host} redirects, and {why}"))?;
        if next == url {
            return Err(format!("{host} redirects the page to itself"));
        }
        url = next;
    }
    Err(format!("there were more than {MAX_REDIRECTS} redirects"))
}

/// Where a response sends us.
fn redirect(response: &Response) -> Option<String> {
    let redirects = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let header = header(response, &LOCATION);
    (redirects && !header.is_empty()).then_some(header)
}

fn header(response: &Response, name: &HeaderName) -> String {
    let bytes = response.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    bytes.map(|text| text.trim().to_owned()).unwrap_or_default()
}

async fn page(web: &dyn Web, url: Url, mut response: Response, bytes: usize) -> Result<Got, String> {
    let status = response.status();
    let host = url.host_str().unwrap_or_default();
    if !status.is_success() {
        return Err(format!("{host} answered {status}"));
    }
    let encoding = header(&response, &CONTENT_ENCODING).to_ascii_lowercase();
    let content_type = header(&response, &CONTENT_TYPE).to_ascii_lowercase();
    let mut body = Vec::new();
    let mut cut = false;
    while !cut {
        let chunk = response.chunk().await;
        let chunk = chunk.map_err(|error| format!("the page broke off: {}", web.reason(&error)))?;
        let Some(chunk) = chunk else { break };
        let room = bytes - body.len();
        cut = chunk.len() > room;
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }
    let (body, cut) = unpack(&encoding, body, cut, bytes).map_err(|why| format!("{host} {why}"))?;
    Ok(Got::Page(Raw { url, content_type, body, cut }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_as_they_are_fetched() {
        for (given, wanted) in [
            ("http://example.org/a?b#c", "https://example.org/a?b"),
            (" HTTPS://Example.ORG ", "https://example.org/"),
            ("http://example.org:8080/", "http://example.org:8080/"),
            ("http://example.org:80/", "https://example.org/"),
            ("http://localhost/x", "http://localhost/x"),
            ("http://a.localhost/x", "http://a.localhost/x"),
            ("http://127.0.0.1/x", "http://127.0.0.1/x"),
            ("http://10.0.0.1/x", "http://10.0.0.1/x"),
            ("http://[::1]/x", "http://[::1]/x"),
            ("http://localhost.example.org/", "https://localhost.example.org/"),
            ("https:\\\\evil.com\\@example.org", "https://evil.com/@example.org"),
        ] {
            assert_eq!(address(given).map(String::from), Ok(wanted.to_owned()), "{given}");
        }
        for (given, why) in [
            (
                "example.org/x",
                "\"example.org/x\" is no address (relative URL without a base); write https://HOST/PATH",
            ),
            ("file:///etc/passwd", "addresses of files are not fetched; use Read"),
            ("ftp://example.org", "\"ftp\" addresses are not fetched; write https://HOST/PATH"),
            (
                "https://me:secret@example.org/",
                "the address holds a user name or password, which is not sent anywhere",
            ),
        ] {
            assert_eq!(address(given), Err(why.to_owned()));
        }
    }
}
