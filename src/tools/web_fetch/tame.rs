//! HTML made harmless before it is parsed: what has no text is gone, and what would blow a parser up is cut.
//!
//! A parser of HTML repairs whatever it gets, as browsers do, and a page can make that cost time and memory
//! without measure: elements nested a million deep, formatting that is opened anew in every paragraph,
//! a tag with a million attributes. This goes once through the bytes, in time and memory of their number,
//! and lets through what Markdown needs, within bounds. Text is never lost, only mark-up.

use std::collections::HashMap;

/// Elements that may be open at once. Pages have some 30; the converter copies a text once for each.
const MAX_OPEN: usize = 128;
/// Formatting that may be open at once; a parser opens all of it again in each block.
const MAX_FORMATS: usize = 16;
/// Lists and quotations that may be open at once: each indents all lines in it.
const MAX_INDENTS: usize = 12;
/// Formatting elements of one page; neighbours are joined one by one.
const MAX_ALL_FORMATS: usize = 30_000;
/// Elements of one page, those that a parser adds included.
const MAX_ELEMENTS: usize = 1_000_000;
/// Bytes of a name that means something.
const MAX_NAME: usize = 16;

/// Never have an end tag.
const VOID: [&str; 9] = ["area", "br", "col", "embed", "hr", "img", "input", "meta", "wbr"];
/// End when the next of their kind begins, so they do not nest by themselves.
const SELF_ENDING: [&str; 12] =
    ["p", "li", "dd", "dt", "td", "th", "tr", "tbody", "thead", "tfoot", "option", "colgroup"];
/// What a parser opens again behind the end of a block.
const FORMATTING: [&str; 14] =
    ["a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"];
/// Indent what is in them.
const INDENTING: [&str; 5] = ["ul", "ol", "menu", "dir", "blockquote"];
/// Hold nothing for a reader, with all that is in them.
const DROPPED: [&str; 11] = [
    "script", "style", "template", "svg", "math", "iframe", "canvas", "object", "noframes", "noembed", "head",
];
/// Hold text only, whatever looks like a tag in it.
const RAW_TEXT: [&str; 8] = ["script", "style", "title", "textarea", "xmp", "iframe", "noframes", "noembed"];
/// What Markdown needs of a tag.
const ATTRIBUTES: [&str; 6] = ["href", "src", "alt", "title", "start", "class"];

/// A page that can be parsed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tame {
    /// The HTML.
    pub html: String,
    /// The text of its title as it is written, references to characters in it.
    pub title: Option<String>,
    /// Whether mark-up was left out because of a bound.
    pub cut: bool,
}

/// Goes through a page.
pub(super) fn tame(html: &str) -> Tame {
    let mut tamer = Tamer { out: Tame::default(), ..Tamer::default() };
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        tamer.text(&rest[..at]);
        rest = tamer.markup(&rest[at..]);
    }
    tamer.text(rest);
    tamer.out
}

#[derive(Default)]
struct Tamer {
    out: Tame,
    /// Elements that are open, by name.
    open: HashMap<String, usize>,
    /// Start tags that were left out and whose end tags are to come.
    left_out: HashMap<String, usize>,
    depth: usize,
    formats: usize,
    indents: usize,
    all_formats: usize,
    elements: usize,
    /// What is dropped until its end tag, and how often it is open.
    dropping: Option<(String, usize)>,
}

/// A tag.
struct Tag<'a> {
    name: String,
    ends: bool,
    attributes: &'a str,
}

impl Tamer {
    fn text(&mut self, text: &str) {
        if self.dropping.is_none() {
            self.out.html.push_str(text);
        }
    }

    /// Takes what begins with `<`; returns what is behind it.
    fn markup<'a>(&mut self, text: &'a str) -> &'a str {
        if let Some(comment) = text.strip_prefix("<!--") {
            return comment.find("-->").map_or("", |end| &comment[end + 3..]);
        }
        if text.starts_with("<!") || text.starts_with("<?") {
            return text.find('>').map_or("", |end| &text[end + 1..]);
        }
        let Some((tag, rest)) = read_tag(text) else {
            self.text("&lt;");
            return &text[1..];
        };
        if tag.ends {
            self.end(&tag.name);
            return rest;
        }
        let raw = RAW_TEXT.contains(&tag.name.as_str());
        if !raw {
            self.start(&tag);
            return rest;
        }
        let (inner, rest) = raw_text(&tag.name, rest);
        match tag.name.as_str() {
            "title" if self.out.title.is_none() => self.out.title = Some(inner.to_owned()),
            "textarea" | "xmp" => self.text(&inner.replace('<', "&lt;")),
            _ => {}
        }
        rest
    }

    fn start(&mut self, tag: &Tag<'_>) {
        let name = tag.name.as_str();
        if let Some((dropped, depth)) = &mut self.dropping {
            *depth += usize::from(dropped == name);
            // A page that never closes its head still has a body.
            if dropped == "head" && name == "body" {
                self.dropping = None;
            }
            return;
        }
        if DROPPED.contains(&name) {
            self.dropping = Some((tag.name.clone(), 1));
            return;
        }
        let formatting = FORMATTING.contains(&name);
        let indenting = INDENTING.contains(&name);
        let counted = !VOID.contains(&name) && !SELF_ENDING.contains(&name);
        let full = self.elements >= MAX_ELEMENTS
            || (counted && self.depth >= MAX_OPEN)
            || (indenting && self.indents >= MAX_INDENTS)
            || (formatting && (self.formats >= MAX_FORMATS || self.all_formats >= MAX_ALL_FORMATS));
        if full {
            self.out.cut = true;
            if counted {
                *self.left_out.entry(tag.name.clone()).or_default() += 1;
            }
            // Words that a tag kept apart stay apart.
            if !self.out.html.ends_with(' ') {
                self.text(" ");
            }
            return;
        }
        self.elements += 1 + if formatting { 0 } else { self.formats };
        if counted {
            *self.open.entry(tag.name.clone()).or_default() += 1;
            self.depth += 1;
            self.formats += usize::from(formatting);
            self.indents += usize::from(indenting);
            self.all_formats += usize::from(formatting);
        }
        self.out.html.push('<');
        self.out.html.push_str(name);
        attributes(tag.attributes, &mut self.out.html);
        self.out.html.push('>');
    }

    fn end(&mut self, name: &str) {
        if let Some((dropped, depth)) = &mut self.dropping {
            if dropped == name {
                *depth -= 1;
                if *depth == 0 {
                    self.dropping = None;
                }
            }
            return;
        }
        if let Some(count) = self.left_out.get_mut(name).filter(|count| **count > 0) {
            *count -= 1;
            return;
        }
        let counted = match self.open.get_mut(name).filter(|count| **count > 0) {
            Some(count) => {
                *count -= 1;
                true
            }
            None => false,
        };
        if counted {
            self.depth -= 1;
            self.formats -= usize::from(FORMATTING.contains(&name));
            self.indents -= usize::from(INDENTING.contains(&name));
        }
        if counted || SELF_ENDING.contains(&name) {
            self.out.html.push_str("</");
            self.out.html.push_str(name);
            self.out.html.push('>');
        }
    }
}

/// The tag with which a text begins, and what is behind it; `None` when it is no tag.
fn read_tag(text: &str) -> Option<(Tag<'_>, &str)> {
    let inner = &text[1..];
    let (ends, inner) = inner.strip_prefix('/').map_or((false, inner), |inner| (true, inner));
    if !inner.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let name_end =
        inner.find(|c: char| c.is_ascii_whitespace() || c == '/' || c == '>').unwrap_or(inner.len());
    let close = tag_end(inner);
    let attributes = &inner[name_end..close];
    // A longer name is no element of HTML; its end matters not.
    let name: String = inner[..name_end].chars().take(MAX_NAME).collect::<String>().to_ascii_lowercase();
    let known = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let name = if known { name } else { "span".to_owned() };
    Some((Tag { name, ends, attributes }, inner.get(close + 1..).unwrap_or_default()))
}

/// Where the `>` of a tag is: not the one in a quoted value.
fn tag_end(text: &str) -> usize {
    let mut quote = None;
    // A quote opens a value only behind `=`; elsewhere it is a stray one.
    let mut may_open = false;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return at,
            (None, b'"' | b'\'') if may_open => quote = Some(byte),
            (Some(open), byte) if byte == open => quote = None,
            _ => {}
        }
        may_open = byte == b'=' || (may_open && byte.is_ascii_whitespace());
    }
    text.len()
}

/// What is inside an element of raw text, and what is behind its end tag.
fn raw_text<'a>(name: &str, text: &'a str) -> (&'a str, &'a str) {
    let mut from = 0;
    while let Some(at) = text[from..].find("</") {
        let start = from + at;
        let behind = &text.as_bytes()[start + 2..];
        let same = behind.len() >= name.len() && behind[..name.len()].eq_ignore_ascii_case(name.as_bytes());
        let next = behind.get(name.len());
        if same && next.is_none_or(|b| b.is_ascii_whitespace() || matches!(b, b'/' | b'>')) {
            let end = text[start..].find('>').map_or(text.len(), |end| start + end + 1);
            return (&text[..start], &text[end..]);
        }
        from = start + 2;
    }
    (text, "")
}

/// The attributes that count, each once.
fn attributes(mut text: &str, out: &mut String) {
    let mut seen = [false; ATTRIBUTES.len()];
    loop {
        text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        if text.is_empty() {
            return;
        }
        // A name has one character at least, whatever it is.
        let first = text.chars().next().map_or(1, char::len_utf8);
        let end = text[first..].find(|c: char| c.is_ascii_whitespace() || matches!(c, '=' | '/'));
        let (name, rest) = text.split_at(end.map_or(text.len(), |end| first + end));
        let behind = rest.trim_ascii_start();
        let value = behind.strip_prefix('=').map(str::trim_ascii_start);
        let (value, rest) = value.map_or(("", rest), read_value);
        let known = ATTRIBUTES.iter().position(|known| name.eq_ignore_ascii_case(known));
        if let Some(known) = known.filter(|known| !std::mem::replace(&mut seen[*known], true)) {
            out.push_str(&format!(" {}=\"{}\"", ATTRIBUTES[known], value.replace('"', "&quot;")));
        }
        text = rest;
    }
}

/// The value of an attribute, and what is behind it.
fn read_value(text: &str) -> (&str, &str) {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote) {
            return inner.split_once(quote).unwrap_or((inner, ""));
        }
    }
    let end = text.find(|c: char| c.is_ascii_whitespace()).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_markdown_needs_stays() {
        for (given, wanted) in [
            ("<P ID=x Class='a b' data-x=\"1>2\">a &lt; b</P>", "<p class=\"a b\">a &lt; b</p>"),
            (
                "<a href=/x?a=1&b title=\"q &quot;q&quot;\" href=y>t</a>",
                "<a href=\"/x?a=1&b\" title=\"q &quot;q&quot;\">t</a>",
            ),
            ("<img src='a\"b' alt=''/>x", "<img src=\"a&quot;b\" alt=\"\">x"),
            ("a<!-- <p> -->b<!doctype html>c<?x y>d", "abcd"),
            ("1 < 2 <3 </ a", "1 &lt; 2 &lt;3 &lt;/ a"),
            ("a<script>if (a</b) '<p>'</SCRIPT >b<style>x", "ab"),
            ("a<svg><path><svg></svg>x</path></svg>b", "ab"),
            ("<textarea><p></textarea>", "&lt;p>"),
            ("</div></p></b>x", "</p>x"),
            ("<my-element>x</my-element>", "<my-element>x</my-element>"),
            ("<head><meta charset=x><link><body>x", "x"),
            ("<p class=", "<p class=\"\">"),
            ("<p x\"y>z</p>", "<p>z</p>"),
        ] {
            assert_eq!(tame(given).html, wanted, "{given}");
        }
        let titled = tame("<head><title>A &amp; <b></title></head>x<title>other</title>");
        assert_eq!((titled.title.as_deref(), titled.html.as_str()), (Some("A &amp; <b>"), "x"));
    }

    #[test]
    fn what_would_blow_up_is_cut_and_the_text_stays() {
        let deep = tame(&format!("{}text{}after", "<div>".repeat(100_000), "</div>".repeat(100_000)));
        assert!(deep.cut && deep.html.matches("<div>").count() == MAX_OPEN);
        assert!(deep.html.matches("</div>").count() == MAX_OPEN && deep.html.contains("text"));
        let formats = tame(&format!("<p>{}</p>{}", "<b><i>".repeat(1_000), "<p>x".repeat(1_000)));
        assert!(formats.cut && formats.html.matches("<b>").count() == MAX_FORMATS / 2);
        assert!(!tame(&"<p>x<ul><li><b>y</b></ul>".repeat(1_000)).cut);
        let many = tame(&format!("<p {}>x", "a=1 ".repeat(1_000_000)));
        assert_eq!(many.html, "<p>x");
    }

    proptest! {
        #[test]
        fn anything_is_gone_through(html in "(<[a-z/!?<>='\" -]{0,8}|[a-zü<>&\"' =/-]{0,6}){0,40}") {
            let once = tame(&html);
            prop_assert!(once.html.len() <= 6 * html.len() + 10);
        }
    }
}
