//! The pages that a session has read: kept for a while, so that a second question costs no fetch.

use crate::wire::limits::{WEB_CACHE, WEB_CACHE_BYTES};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A page as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Where it was found.
    pub url: String,
    /// Its title, when it has one.
    pub title: Option<String>,
    /// Markdown or plain text.
    pub text: String,
    /// What its reader should know of the text.
    pub notes: Vec<String>,
}

/// All pages of a session, by the address that was asked for. Bounded by the bytes of their texts; the
/// oldest goes first.
#[derive(Debug, Default)]
pub struct Pages(Mutex<HashMap<String, (Instant, Arc<Page>)>>);

impl Pages {
    /// A page that is not too old.
    pub(super) fn get(&self, url: &str, now: Instant) -> Option<Arc<Page>> {
        let pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, page) = pages.get(url)?;
        (now.saturating_duration_since(*since) < WEB_CACHE).then(|| Arc::clone(page))
    }

    /// Keeps a page; one that fills the whole bound is not kept.
    pub(super) fn keep(&self, url: &str, page: Arc<Page>, now: Instant) {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|_, (since, _)| now.saturating_duration_since(*since) < WEB_CACHE);
        pages.insert(url.to_owned(), (now, page));
        while pages.values().map(|(_, page)| page.text.len()).sum::<usize>() > WEB_CACHE_BYTES {
            let Some(oldest) = pages.iter().min_by_key(|(_, (since, _))| *since).map(|(url, _)| url.clone())
            else {
                return;
            };
            pages.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn page(bytes: usize) -> Arc<Page> {
        Arc::new(Page { url: "u".to_owned(), title: None, text: "x".repeat(bytes), notes: Vec::new() })
    }

    #[test]
    fn pages_are_kept_for_a_while_and_in_bounds() {
        let pages = Pages::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        pages.keep("a", page(1), at(0));
        pages.keep("b", page(WEB_CACHE_BYTES - 1), at(1));
        let has = |now| ["a", "b", "c"].map(|url| pages.get(url, now).is_some());
        assert_eq!(has(at(2)), [true, true, false]);
        pages.keep("c", page(1), at(3));
        assert_eq!(has(at(4)), [false, true, true], "the oldest had to go");
        let last = WEB_CACHE.as_secs();
        assert_eq!(has(at(last)), [false, true, true]);
        assert_eq!(has(at(last + 1)), [false, false, true]);
        pages.keep("a", page(WEB_CACHE_BYTES + 1), at(last + 2));
        assert_eq!(has(at(last + 2)), [false, false, false]);
    }
}
