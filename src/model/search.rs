//! A provider's own search of the web: how it is declared, and what its answers hold.
//!
//! A search is one request of its own whose only tool is the provider's; its answer's blocks are read here
//! and nowhere else. Knows the shapes of both vendors: `web_search_tool_result` and citations of the
//! Messages API, `web_search_call` and annotations of the Responses API.

use super::foreign::{ANNOTATIONS, WEB_SEARCH_CALL, type_of};
use crate::wire::block::{Block, BlockKind};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Searches that one request may make.
pub(super) const MAX_SEARCHES: u32 = 5;
/// Longest answer that is asked for, in tokens.
pub(super) const ANSWER_TOKENS: u32 = 8_192;

/// Which pages count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Only these domains, and those below them; all when empty.
    pub allowed: Vec<String>,
    /// None of these.
    pub blocked: Vec<String>,
}

impl Bounds {
    /// Whether an address is of an allowed domain.
    fn take(&self, url: &str) -> bool {
        let host = reqwest::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned));
        let host = host.unwrap_or_default();
        let of = |domain: &String| {
            let domain = domain.split('/').next().unwrap_or_default();
            host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        (self.allowed.is_empty() || self.allowed.iter().any(of)) && !self.blocked.iter().any(of)
    }
}

/// A page that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its title; empty when the provider names none.
    pub title: String,
    /// Its address.
    pub url: String,
}

/// What the blocks of an answer hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// What the model says.
    pub text: String,
    /// Each page once, in the order in which it came.
    pub sources: Vec<Source>,
    /// What went wrong, in the provider's words.
    pub failures: Vec<String>,
}

/// Reads an answer. Pages that `bounds` leave out are left out, whatever the provider did with them.
pub fn found(blocks: &[Block], bounds: &Bounds) -> Found {
    let mut found = Found::default();
    for block in blocks {
        if let Some(text) = block.as_text() {
            // A citation ends a block in the middle of a sentence.
            found.text.push_str(&text);
            found.cited(block, bounds);
        } else if block.kind() == BlockKind::Other {
            match type_of(block).as_str() {
                "web_search_tool_result" => found.results(block, bounds),
                ANNOTATIONS => found.annotated(block, bounds),
                WEB_SEARCH_CALL => found.called(block, bounds),
                _ => {}
            }
        }
    }
    found
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    title: Option<String>,
    url: String,
}

/// The entries of a list that are pages.
fn pages(list: &[Box<RawValue>]) -> Vec<Page> {
    list.iter().filter_map(|entry| serde_json::from_str(entry.get()).ok()).collect()
}

impl Found {
    fn add(&mut self, pages: Vec<Page>, bounds: &Bounds) {
        for Page { title, url } in pages {
            let title = title.unwrap_or_default();
            match self.sources.iter_mut().find(|known| known.url == url) {
                Some(known) if known.title.is_empty() => known.title = title,
                Some(_) => {}
                None if bounds.take(&url) => self.sources.push(Source { title, url }),
                None => {}
            }
        }
    }

    fn results(&mut self, block: &Block, bounds: &Bounds) {
        #[derive(Deserialize)]
        struct Results {
            content: Box<RawValue>,
        }
        #[derive(Deserialize)]
        struct Failure {
            error_code: String,
        }
        let content = serde_json::from_str::<Results>(block.raw()).map(|results| results.content);
        let content = content.as_deref().map_or("null", RawValue::get);
        if let Ok(list) = serde_json::from_str::<Vec<Box<RawValue>>>(content) {
            self.add(pages(&list), bounds);
        } else {
            let failure = serde_json::from_str::<Failure>(content).map(|failure| failure.error_code);
            self.failures.push(failure.unwrap_or_else(|_| "the results cannot be read".to_owned()));
        }
    }

    fn cited(&mut self, block: &Block, bounds: &Bounds) {
        #[derive(Deserialize)]
        struct Cited {
            citations: Option<Vec<Box<RawValue>>>,
        }
        if let Ok(Cited { citations: Some(list) }) = serde_json::from_str(block.raw()) {
            self.add(pages(&list), bounds);
        }
    }

    fn annotated(&mut self, block: &Block, bounds: &Bounds) {
        #[derive(Deserialize)]
        struct Annotated {
            annotations: Vec<Box<RawValue>>,
        }
        if let Ok(Annotated { annotations }) = serde_json::from_str(block.raw()) {
            self.add(pages(&annotations), bounds);
        }
    }

    fn called(&mut self, block: &Block, bounds: &Bounds) {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Action {
            sources: Vec<Box<RawValue>>,
        }
        #[derive(Deserialize)]
        struct Called {
            #[serde(default)]
            status: String,
            #[serde(default)]
            action: Action,
        }
        let Ok(Called { status, action }) = serde_json::from_str(block.raw()) else { return };
        if status == "failed" {
            self.failures.push("a search failed".to_owned());
        }
        self.add(pages(&action.sources), bounds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(raw: &str) -> Block {
        Block::parse(raw).expect("a block")
    }

    fn source(title: &str, url: &str) -> Source {
        Source { title: title.to_owned(), url: url.to_owned() }
    }

    #[test]
    fn answers_of_the_messages_api_are_read() {
        let blocks = [
            Block::text("I look. "),
            block(r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"q"}}"#),
            block(
                r#"{"type":"web_search_tool_result","tool_use_id":"s","content":[
                {"type":"web_search_result","url":"https://a.test/1","title":"A","encrypted_content":"x","page_age":null},
                {"type":"web_search_result","url":"https://bad.a.test/2","title":"B","encrypted_content":"x"}]}"#,
            ),
            block(
                r#"{"type":"web_search_tool_result","tool_use_id":"t","content":{"type":"web_search_tool_result_error","error_code":"max_uses_exceeded"}}"#,
            ),
            block(
                r#"{"type":"text","text":"It is","citations":[{"type":"web_search_result_location","url":"https://c.test/","title":null,"cited_text":"c"}]}"#,
            ),
            Block::text(" so."),
        ];
        let bounds = Bounds { blocked: vec!["bad.a.test".to_owned()], ..Bounds::default() };
        let wanted = Found {
            text: "I look. It is so.".to_owned(),
            sources: vec![source("A", "https://a.test/1"), source("", "https://c.test/")],
            failures: vec!["max_uses_exceeded".to_owned()],
        };
        assert_eq!(found(&blocks, &bounds), wanted);
    }

    #[test]
    fn answers_of_the_responses_api_are_read() {
        let blocks = [
            block(
                r#"{"type":"web_search_call","id":"ws","status":"completed","action":{"type":"search","query":"q","sources":[{"type":"url","url":"https://a.test/1"}]}}"#,
            ),
            block(
                r#"{"type":"message_annotations","annotations":[{"type":"url_citation","start_index":0,"end_index":2,"url":"https://a.test/1","title":"A"},{"type":"file_citation","file_id":"f"}]}"#,
            ),
            Block::text("So."),
            block(r#"{"type":"web_search_call","id":"x","status":"failed"}"#),
        ];
        let wanted = Found {
            text: "So.".to_owned(),
            sources: vec![source("A", "https://a.test/1")],
            failures: vec!["a search failed".to_owned()],
        };
        assert_eq!(found(&blocks, &Bounds::default()), wanted);
        let only = Bounds { allowed: vec!["b.test".to_owned()], ..Bounds::default() };
        assert_eq!(found(&blocks, &only).sources, Vec::new());
    }
}
