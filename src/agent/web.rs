//! The web as an agent has it: the process's HTTP client and pages, a small model, the provider's search.

use super::core::AgentCore;
use super::runtime::Model;
use super::side;
use crate::model::connect::client_for;
use crate::model::http::{self, HttpClient};
use crate::model::provider::StopReason;
use crate::model::search::{self, Bounds};
use crate::tools::tool::{BoxFuture, Tool};
use crate::tools::web::{Found, Wanted, Web};
use crate::tools::web_fetch::fetch::{Client, HttpError};
use crate::tools::web_fetch::pages::Pages;
use crate::tools::web_search;
use crate::wire::block::{Block, ChatMessage};
use std::sync::Arc;

/// The model that reads pages, by the alias of the agent's provider.
const READER: &str = "fast";
/// What requests for a page are tagged with.
const FETCHES: &str = "WebFetch";
/// What requests for a search are tagged with.
const SEARCHES: &str = "WebSearch";
/// How often a paused search is gone on with.
const MAX_PAUSES: usize = 3;

/// What all agents of a session share of the web.
#[derive(Debug, Default)]
pub struct SharedWeb {
    http: HttpClient,
    pages: Pages,
}

impl SharedWeb {
    /// With the HTTP client that models are reached by; nothing is fetched yet.
    pub fn new(http: HttpClient) -> Self {
        Self { http, pages: Pages::default() }
    }
}

/// Whether an agent can have this tool: one that searches needs a provider that does.
pub(super) fn offers(core: &AgentCore, tool: &dyn Tool) -> bool {
    tool.spec().name != web_search::NAME
        || core.model.provider.freeze_search(&core.model.name, "", &Bounds::default()).is_some()
}

/// The web of one agent.
pub(super) struct OwnWeb(pub(super) Arc<AgentCore>);

impl OwnWeb {
    async fn read(&self, page: &str, question: &str) -> Result<String, String> {
        let core = &self.0;
        let model = core.runtime.models.find(READER, &core.model.full).map_err(|error| error.to_string())?;
        let prefix = model.provider.freeze(
            &model.name,
            include_str!("prompts/web_page.md").trim(),
            &[],
            &model.tuning,
        );
        let asked = ChatMessage::user(vec![
            Block::text(page),
            Block::text(&format!("The question to answer from the page:\n{question}")),
        ]);
        let response = side::ask(core, FETCHES, &model, &Arc::new(prefix), &[asked]).await?;
        let text = ChatMessage::assistant(response.blocks).text();
        match response.stop {
            StopReason::Refusal => Err("it refused to answer".to_owned()),
            _ if text.trim().is_empty() => Err("it gave no answer".to_owned()),
            StopReason::MaxTokens => Ok(format!("{text}\n[the answer was cut at its limit of tokens]")),
            _ => Ok(text),
        }
    }

    async fn searched(&self, wanted: &Wanted) -> Result<Found, String> {
        let core = &self.0;
        let model: &Model = &core.model;
        let bounds = Bounds { allowed: wanted.allowed.clone(), blocked: wanted.blocked.clone() };
        let system = include_str!("prompts/web_search.md").trim();
        let prefix = model.provider.freeze_search(&model.name, system, &bounds).map(Arc::new);
        let prefix = prefix.ok_or_else(|| format!("{} cannot search the web", model.full))?;
        let mut messages = vec![ChatMessage::user(vec![Block::text(&question(wanted))])];
        let mut blocks: Vec<Block> = Vec::new();
        let mut searches = 0;
        for _ in 0..=MAX_PAUSES {
            let response = side::ask(core, SEARCHES, model, &prefix, &messages).await?;
            searches += response.usage.web_search_requests;
            blocks.extend(response.blocks);
            if response.stop != StopReason::PauseTurn {
                break;
            }
            // What came so far goes back as it is, and the provider goes on.
            messages.truncate(1);
            messages.push(ChatMessage::assistant(blocks.clone()));
        }
        let found = search::found(&blocks, &bounds);
        let sources = found.sources.into_iter().map(|source| (source.title, source.url)).collect();
        Ok(Found { text: found.text, sources, failures: found.failures, searches })
    }
}

fn question(wanted: &Wanted) -> String {
    let mut text = format!("Search the web for: {}", wanted.query);
    if !wanted.blocked.is_empty() {
        text.push_str(&format!("\nLeave out results from {}.", wanted.blocked.join(", ")));
    }
    text
}

impl Web for OwnWeb {
    fn client(&self, url: &str) -> Result<Client, String> {
        let client = client_for(url, &self.0.runtime.web.http);
        client.get().cloned().map_err(|error| error.to_string())
    }

    fn reason(&self, error: &HttpError) -> String {
        http::reason(error)
    }

    fn pages(&self) -> &Pages {
        &self.0.runtime.web.pages
    }

    fn ask_page<'a>(&'a self, page: &'a str, question: &'a str) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(self.read(page, question))
    }

    fn search<'a>(&'a self, wanted: &'a Wanted) -> BoxFuture<'a, Result<Found, String>> {
        Box::pin(self.searched(wanted))
    }
}
