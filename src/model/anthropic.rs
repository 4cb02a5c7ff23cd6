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

use super::http::HttpClient;
use super::prices::facts;
use super::provider::{
    BoxFuture, DeltaSink, ModelError, ModelProvider, ModelRequest, ModelResponse, PromptPrefix,
    ToolDeclaration,
};
use super::search::{self, Bounds};
pub use super::secret::Secret;
use super::stream::Exchange;
use super::tuning::Tuning;
use assemble::Assembler;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use std::time::Duration;

/// Where the vendor's API is.
pub const BASE_URL: &str = "https://api.anthropic.com";
/// The version of the API that this file speaks (its header of that name).
const VERSION: &str = "2023-06-01";

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
    fn header(&self) -> Result<(HeaderName, HeaderValue), ModelError> {
        match self {
            Self::ApiKey(secret) => secret.header(HeaderName::from_static("x-api-key"), ""),
            Self::Bearer(secret) => secret.header(AUTHORIZATION, "Bearer "),
        }
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

    async fn exchange(
        &self,
        request: &ModelRequest,
        sink: &dyn DeltaSink,
    ) -> Result<ModelResponse, ModelError> {
        let version = (HeaderName::from_static("anthropic-version"), HeaderValue::from_static(VERSION));
        let exchange = Exchange {
            http: &self.http,
            url: &self.url,
            headers: vec![self.credentials.header()?, version],
            idle: self.idle,
            refused: failure::of_status,
        };
        exchange.run(request::segments(request), Assembler::default(), sink).await
    }
}

impl ModelProvider for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn freeze(&self, model: &str, system: &str, tools: &[ToolDeclaration], tuning: &Tuning) -> PromptPrefix {
        let facts = facts(model);
        PromptPrefix {
            model: model.to_owned(),
            tools: request::tools(tools).into(),
            system: request::system(system).into(),
            max_output_tokens: facts.answer(tuning.max_output_tokens),
            thinking: facts.thinking.as_deref().map(Into::into),
            effort: tuning
                .effort
                .filter(|_| facts.takes_effort)
                .map(|effort| format!(r#"{{"effort":"{}"}}"#, effort.as_str()).into()),
        }
    }

    fn freeze_search(&self, model: &str, system: &str, bounds: &Bounds) -> Option<PromptPrefix> {
        let tuning = Tuning { max_output_tokens: Some(search::ANSWER_TOKENS), ..Tuning::default() };
        Some(PromptPrefix {
            tools: request::search_tools(bounds).into(),
            // A bound on thinking may be larger than that of the answer.
            thinking: None,
            ..self.freeze(model, system, &[], &tuning)
        })
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
