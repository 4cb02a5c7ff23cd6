//! What the web tools are given beside a call's surroundings: implemented in `agent`.

use super::tool::BoxFuture;
use super::web_fetch::fetch::{Client, HttpError};
use super::web_fetch::pages::Pages;

/// The web as one agent may use it.
pub trait Web: Send + Sync {
    /// The process's HTTP client for an address: one that follows no redirect, with the proxies of the
    /// environment, or without them where the address is on this machine.
    ///
    /// # Errors
    /// Why there is none, in one sentence.
    fn client(&self, url: &str) -> Result<Client, String>;
    /// Why a request failed, in one line without the address.
    fn reason(&self, error: &HttpError) -> String;
    /// The pages that the session has read.
    fn pages(&self) -> &Pages;
    /// Has a small model answer a question from the text of a page, which is fenced already. Tokens and
    /// money are counted as the agent's.
    ///
    /// # Errors
    /// Why there is no answer, as the end of a sentence.
    fn ask_page<'a>(&'a self, page: &'a str, question: &'a str) -> BoxFuture<'a, Result<String, String>>;
    /// Searches the web by the means of the agent's provider. Tokens, money and searches are counted as
    /// the agent's.
    ///
    /// # Errors
    /// Why nothing was found out, in one sentence.
    fn search<'a>(&'a self, wanted: &'a Wanted) -> BoxFuture<'a, Result<Found, String>>;
}

/// What is searched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The words.
    pub query: String,
    /// Only results from these domains and those below them; all when empty.
    pub allowed: Vec<String>,
    /// No results from these.
    pub blocked: Vec<String>,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// What the provider's model says of it.
    pub text: String,
    /// The pages: title and address.
    pub sources: Vec<(String, String)>,
    /// What went wrong on the way, in the provider's words.
    pub failures: Vec<String>,
    /// Searches that were made.
    pub searches: u64,
}
