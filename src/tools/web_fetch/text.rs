//! From the bytes of a page to text: what kind it is, its encoding, HTML to Markdown.
//!
//! A page is hostile until proved otherwise: its HTML is tamed before anything parses it, and a conversion
//! that takes too long is not waited for.

use super::fetch::Raw;
use super::pages::Page;
use super::tame::{Tame, tame};
use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use htmd::HtmlToMarkdown;
use regex::Regex;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long a conversion is waited for. A page of 10 MB takes about a second.
const CONVERSION: Duration = Duration::from_secs(20);
/// Characters of a title that are read.
const MAX_TITLE: usize = 1_000;
/// Stack of the thread that converts: the converter recurses, a few kB a level.
const STACK: usize = 64 * 1024 * 1024;
/// Bytes in which a page may say how it is encoded (HTML standard, prescan: 1024).
const PRESCAN: usize = 1024;
/// Bytes that decide whether something is text.
const SNIFF: usize = 8_000;

/// What a page is.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Html,
    Text,
    Other(String),
}

/// The page as text. The error is the end of a sentence.
pub(super) async fn page(raw: Raw) -> Result<Page, String> {
    let url = raw.url.to_string();
    let kind = kind(&raw.content_type, &raw.body);
    if let Kind::Other(what) = kind {
        let size = raw.body.len();
        let size = if raw.cut { format!("more than {size}") } else { size.to_string() };
        return Err(format!(
            "{url} is {what} ({size} bytes), which WebFetch does not show; download it with Bash (curl -o FILE URL) \
             and use a program that understands it"
        ));
    }
    let mut notes = Vec::new();
    if raw.cut {
        notes.push(format!("only the first {} bytes of the page were read", raw.body.len()));
    }
    let (text, invalid) = decoded(&raw.content_type, &raw.body, kind == Kind::Html);
    if invalid {
        notes.push("some bytes are no text in the page's encoding and are shown as \u{fffd}".to_owned());
    }
    if kind == Kind::Text {
        return Ok(Page { url, title: None, text, notes });
    }
    let Tame { html, title, cut } = tame(&text);
    if cut {
        notes.push("the page has more mark-up than can be read; some of it is missing here".to_owned());
    }
    let title = title.and_then(|title| plain(&title));
    let text = converted(html).await?;
    Ok(Page { url, title, text, notes })
}

fn kind(content_type: &str, body: &[u8]) -> Kind {
    let mime = content_type.split(';').next().unwrap_or_default().trim();
    let head = &body[..body.len().min(SNIFF)];
    if head.starts_with(b"%PDF") || mime == "application/pdf" {
        return Kind::Other("a PDF file".to_owned());
    }
    // UTF-16 is full of zero bytes; its mark or the header tells.
    let wide = Encoding::for_bom(head).map(|(encoding, _)| encoding).or_else(|| charset(content_type));
    let wide = wide.filter(|encoding| !encoding.is_ascii_compatible());
    let binary = head.contains(&0) && wide.is_none();
    if binary {
        let named = if mime.is_empty() { String::new() } else { format!(" of type {mime}") };
        return Kind::Other(format!("a binary file{named}"));
    }
    let unnamed = wide.map(|encoding| encoding.decode(head).0.into_owned());
    let head = unnamed.as_ref().map_or(head, |text| text.as_bytes());
    match mime {
        "text/html" | "application/xhtml+xml" => Kind::Html,
        "" | "application/octet-stream" if looks_like_html(head) => Kind::Html,
        "" | "application/octet-stream" if wide.is_some() || std::str::from_utf8(body).is_ok() => Kind::Text,
        "application/json"
        | "application/xml"
        | "application/javascript"
        | "application/ecmascript"
        | "application/x-javascript"
        | "application/x-ndjson"
        | "application/jsonl"
        | "application/yaml"
        | "application/x-yaml"
        | "application/toml"
        | "application/x-sh"
        | "application/sql"
        | "application/graphql"
        | "application/rtf"
        | "application/x-www-form-urlencoded" => Kind::Text,
        mime if mime.starts_with("text/") => Kind::Text,
        // An image in text.
        "image/svg+xml" => Kind::Text,
        mime if mime.ends_with("+json") || mime.ends_with("+xml") || mime.ends_with("+yaml") => Kind::Text,
        mime => {
            Kind::Other(if mime.is_empty() { "a binary file".to_owned() } else { format!("of type {mime}") })
        }
    }
}

fn looks_like_html(head: &[u8]) -> bool {
    let start = head.trim_ascii_start();
    let begins =
        |with: &str| start.len() >= with.len() && start[..with.len()].eq_ignore_ascii_case(with.as_bytes());
    begins("<!doctype html") || begins("<html")
}

/// The text, and whether some of it is none. In this order: the byte order mark, the header, what the page
/// says of itself, UTF-8 where it is valid, and the web's old default.
fn decoded(content_type: &str, body: &[u8], html: bool) -> (String, bool) {
    let named = Encoding::for_bom(body)
        .map(|(encoding, _)| encoding)
        .or_else(|| charset(content_type))
        .or_else(|| if html { declared(body) } else { None });
    // A page that was cut may end in half a character.
    let whole = std::str::from_utf8(body).map_or_else(|error| error.error_len().is_none(), |_| true);
    let encoding = named.unwrap_or(if whole { UTF_8 } else { WINDOWS_1252 });
    let (text, _, invalid) = encoding.decode(body);
    (text.into_owned(), invalid && !whole)
}

fn charset(content_type: &str) -> Option<&'static Encoding> {
    let (_, rest) = content_type.split_once("charset=")?;
    Encoding::for_label(rest.split(';').next()?.trim().trim_matches('"').as_bytes())
}

/// What a `<meta>` at the beginning says.
fn declared(body: &[u8]) -> Option<&'static Encoding> {
    static META: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"(?i)<meta[^>]*charset\s*=\s*["']?\s*([a-z0-9_:.\-]+)"#).ok());
    let head = String::from_utf8_lossy(&body[..body.len().min(PRESCAN)]);
    let found = META.as_ref()?.captures(&head)?.get(1)?.as_str();
    let encoding = Encoding::for_label(found.as_bytes())?;
    // A page whose mark-up could be read is not in UTF-16, whatever it says (HTML standard).
    Some(if encoding.is_ascii_compatible() { encoding } else { UTF_8 })
}

/// A title without references to characters and Markdown's own escapes.
fn plain(title: &str) -> Option<String> {
    static ESCAPED: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\\([[:punct:]])").ok());
    let written: String = title.chars().take(MAX_TITLE).collect();
    // Tags in a title are text.
    let text = HtmlToMarkdown::new().convert(&written.replace('<', "&lt;")).ok()?;
    let text = ESCAPED.as_ref()?.replace_all(&text, "$1");
    let title = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!title.is_empty()).then_some(title)
}

/// HTML as Markdown.
async fn converted(html: String) -> Result<String, String> {
    let (done, result) = oneshot::channel();
    let work = move || {
        // Fails only when nobody waits any more.
        let _ = done.send(convert(&html));
    };
    let thread = std::thread::Builder::new().name("markdown".to_owned()).stack_size(STACK).spawn(work);
    thread.map_err(|error| format!("the page could not be converted: {error}"))?;
    match timeout(CONVERSION, result).await {
        Ok(Ok(converted)) => converted,
        Ok(Err(_)) => Err("the page could not be converted: its HTML is beyond repair".to_owned()),
        Err(_) => Err(format!("converting the page took more than {} s", CONVERSION.as_secs())),
    }
}

fn convert(html: &str) -> Result<String, String> {
    static DATA: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\(data:([a-z]+/[a-z0-9.+-]+)?[^)\s]*").ok());
    let converter = HtmlToMarkdown::builder().scripting_enabled(false).build();
    let text = converter.convert(html).map_err(|error| format!("the page could not be read: {error}"))?;
    // An image within the page is long and says nothing.
    Ok(match &*DATA {
        Some(data) => data.replace_all(&text, "(data:$1…").into_owned(),
        None => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(content_type: &str, body: &[u8]) -> Raw {
        let url = super::super::fetch::address("https://x.test/a").expect("an address");
        Raw { url, content_type: content_type.to_owned(), body: body.to_vec(), cut: false }
    }

    async fn text(content_type: &str, body: &[u8]) -> Result<String, String> {
        page(raw(content_type, body)).await.map(|page| page.text)
    }

    #[tokio::test]
    async fn html_becomes_markdown_with_its_title() {
        let html = b"<!doctype html><html><head><title>A &amp; <b>\n</title><style>x</style></head><body>\
                     <h1>One</h1><script>bad()</script><p>Some <em>text</em> and <a href='/b'>a link</a>.</p>\
                     <img alt='i' src='data:image/png;base64,AAAABBBB'><noscript>plain</noscript>\
                     <pre><code>let a;\n</code></pre></body></html>";
        let page = page(raw("text/html; charset=utf-8", html)).await.expect("a page");
        assert_eq!(page.title.as_deref(), Some("A & <b>"));
        assert_eq!(
            page.text,
            "# One\n\nSome *text* and [a link](/b).\n\n![i](data:image/png…)plain\n\n```\nlet a;\n```"
        );
        assert_eq!((page.url.as_str(), page.notes), ("https://x.test/a", Vec::new()));
    }

    #[tokio::test]
    async fn every_encoding_is_read() {
        for (kind, body, wanted) in [
            ("text/plain; charset=iso-8859-1", &b"gr\xfc\xdfe"[..], "grüße"),
            ("text/plain", b"gr\xfc\xdfe \x80", "grüße €"),
            ("text/plain", "grüße".as_bytes(), "grüße"),
            ("text/html; charset=\"Shift_JIS\"", b"\x93\xfa\x96{", "日本"),
            (
                "text/html",
                b"<html><meta http-equiv=x content='text/html; charset=euc-jp'><p>\xc6\xfc\xcb\xdc",
                "日本",
            ),
            ("text/html", b"<meta charset=utf-16><p>\xc3\xbc", "ü"),
            ("text/plain", b"\xff\xfea\0\xfc\0", "aü"),
            ("application/json", b"\xef\xbb\xbf{\"a\":1}", "{\"a\":1}"),
            ("", b"plain", "plain"),
            ("", b" <HTML><p>x", "x"),
            ("application/vnd.api+json; charset=utf-8", b"[1]", "[1]"),
        ] {
            assert_eq!(text(kind, body).await.as_deref(), Ok(wanted), "{kind} {body:?}");
        }
        let page = page(raw("text/plain; charset=utf-8", b"a\xffb")).await.expect("a page");
        assert_eq!((page.text.as_str(), page.notes.len()), ("a\u{fffd}b", 1));
    }

    #[tokio::test]
    async fn what_is_no_text_is_refused_by_name() {
        for (kind, body, what) in [
            ("application/pdf", &b"%PDF-1.7"[..], "is a PDF file (8 bytes), which WebFetch does not show"),
            ("text/html", b"%PDF-1.7", "is a PDF file"),
            ("image/png", b"\x89PNG\r\n\x1a\n\0", "is a binary file of type image/png (9 bytes)"),
            ("text/plain", b"a\0b", "is a binary file of type text/plain"),
            ("video/mp4", b"abc", "is of type video/mp4"),
            ("", b"\xfe\xedb", "is a binary file"),
        ] {
            let why = text(kind, body).await.expect_err("refused");
            assert!(why.contains(what) && why.contains("curl -o"), "{why}");
        }
    }

    #[tokio::test]
    async fn hostile_pages_cost_little_and_keep_their_text() {
        let nested =
            |tag: &str, levels: usize| format!("<p>begins</p>{}deep", format!("<{tag}>").repeat(levels));
        let formats: String = (0..1_000).map(|n| format!("<font class={n}>")).collect();
        let pages = [
            nested("div", 300_000),
            nested("b", 300_000),
            nested("ul><li", 200_000),
            nested("blockquote", 100_000),
            nested("table><tr><td", 50_000),
            nested("x-y", 200_000),
            format!("<p>begins {formats}</p>{}deep", "<p>x".repeat(200_000)),
            format!("begins {} deep", "<b>x</b>".repeat(100_000)),
            format!("begins <p {}>deep", "a1=b ".repeat(300_000)),
        ];
        for html in pages {
            let page = page(raw("text/html", html.as_bytes())).await.expect("a page");
            assert!(page.text.contains("begins") && page.text.contains("deep"), "{}", &html[..40]);
        }
    }
}
