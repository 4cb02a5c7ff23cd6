//! OpenAI's two wires, spoken by the vendor, by Ollama, and by any server that is like them.
//!
//! Owns one address, and turns requests into bytes and events into responses. Conversations stay in the
//! shape of the Messages API: what a wire sends is a pure function of each message, made once.
//! Promises that the key appears in no message. Never retries; see [`super::retry`].
//!
//! `chat/` and `responses/` are the wires; the other files are what they have in common.

mod chat;
mod encoded;
mod failure;
mod ids;
mod names;
mod responses;
#[cfg(test)]
mod tests;
mod usage;
mod view;

use super::http::HttpClient;
use super::prices::{facts, never_reasons, returns_reasoning};
use super::provider::{
    BoxFuture, DeltaSink, ModelError, ModelProvider, ModelRequest, ModelResponse, PromptPrefix,
    ToolDeclaration,
};
use super::search::Bounds;
use super::secret::Secret;
use super::stream::Exchange;
use super::tuning::Tuning;
use crate::wire::settings::{Effort, OpenAiWire};
use encoded::Encoded;
use names::ToolNames;
use reqwest::Url;
use reqwest::header::AUTHORIZATION;
use serde::de::{DeserializeOwned, Deserializer};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::time::Duration;

/// Where the vendor's API is.
pub const BASE_URL: &str = "https://api.openai.com/v1";
/// The vendor's host; others are below it (`eu.…`).
const VENDOR: &str = "api.openai.com";
/// Bytes of a hash that make a cache key.
const KEY_BYTES: usize = 16;

/// Where a server is and how it is spoken to.
#[derive(Debug, Clone)]
pub struct Server {
    /// The provider's name in `provider:name`.
    pub provider: &'static str,
    /// The address before `/chat/completions` or `/responses`.
    pub base: String,
    /// Sent as `Authorization: Bearer`; servers of one's own mostly need none.
    pub key: Option<Secret>,
    /// `None` is the vendor's own choice of today: Responses at its own address, since its models call
    /// tools while reasoning only there (its model pages, e.g. `/api/docs/models/gpt-6-luna`); chat
    /// completions, which every server knows, at any other.
    pub wire: Option<OpenAiWire>,
    /// How long a stream may be silent.
    pub idle: Duration,
}

/// Whether an address is the vendor's own.
pub fn is_vendor(base: &str) -> bool {
    let url = Url::parse(base.trim()).ok();
    let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
    host == VENDOR || host.strip_suffix(VENDOR).is_some_and(|before| before.ends_with('.'))
}

/// A client of one address.
pub struct OpenAi {
    http: HttpClient,
    server: Server,
    wire: OpenAiWire,
    url: String,
    vendor: bool,
    names: ToolNames,
    encoded: Encoded,
}

/// What a request needs to know beside itself.
struct Sending<'a> {
    /// Whether reasoning goes back to the server.
    reasoning: bool,
    /// Brings requests with the same beginning to the same cache.
    cache_key: Option<String>,
    encoded: &'a Encoded,
}

impl OpenAi {
    /// Nothing is sent yet.
    pub fn new(http: HttpClient, server: Server) -> Self {
        let vendor = is_vendor(&server.base);
        let own = if vendor { OpenAiWire::Responses } else { OpenAiWire::Chat };
        let wire = server.wire.unwrap_or(own);
        let mut base = server.base.trim().trim_end_matches('/');
        for end in ["/chat/completions", "/responses"] {
            base = base.strip_suffix(end).unwrap_or(base);
        }
        let version = if vendor && !base.ends_with("/v1") { "/v1" } else { "" };
        let path = match wire {
            OpenAiWire::Chat => "chat/completions",
            OpenAiWire::Responses => "responses",
        };
        let url = format!("{base}{version}/{path}");
        Self { http, wire, url, vendor, server, names: ToolNames::default(), encoded: Encoded::default() }
    }

    async fn exchange(
        &self,
        request: &ModelRequest,
        sink: &dyn DeltaSink,
    ) -> Result<ModelResponse, ModelError> {
        let key = self.server.key.as_ref();
        let exchange = Exchange {
            http: &self.http,
            url: &self.url,
            headers: key.map(|key| key.header(AUTHORIZATION, "Bearer ")).transpose()?.into_iter().collect(),
            idle: self.server.idle,
            refused: failure::of_status,
        };
        let model = &request.prefix.model;
        let sending = |reasoning| Sending {
            reasoning,
            // Other servers may refuse a field they do not know.
            cache_key: self.vendor.then(|| cache_key(request)),
            encoded: &self.encoded,
        };
        match self.wire {
            OpenAiWire::Chat => {
                let body = chat::segments(request, &sending(returns_reasoning(model)));
                exchange.run(body, chat::assemble::Assembler::new(request, &self.names), sink).await
            }
            OpenAiWire::Responses => {
                let body = responses::segments(request, &sending(!never_reasons(model)));
                exchange.run(body, responses::assemble::Assembler::new(request, &self.names), sink).await
            }
        }
    }
}

/// The same for all rounds of a conversation and its forks: they share prefix and first message.
fn cache_key(request: &ModelRequest) -> String {
    let mut hash = Sha256::new();
    let prefix = &request.prefix;
    for part in [prefix.model.as_str(), &*prefix.system, &*prefix.tools] {
        hash.update(part.as_bytes());
    }
    for block in request.messages.first().iter().flat_map(|message| message.blocks.iter()) {
        hash.update(block.raw().as_bytes());
    }
    let mut key = String::new();
    for byte in hash.finalize().iter().take(KEY_BYTES) {
        // Writing into a String cannot fail.
        let _ = write!(key, "{byte:02x}");
    }
    key
}

impl ModelProvider for OpenAi {
    fn name(&self) -> &'static str {
        self.server.provider
    }

    fn freeze(&self, model: &str, system: &str, tools: &[ToolDeclaration], tuning: &Tuning) -> PromptPrefix {
        self.names.learn(tools);
        let facts = facts(model);
        let effort = tuning.effort.filter(|_| !never_reasons(model)).map(Effort::as_str);
        let (tools, system) = match self.wire {
            OpenAiWire::Chat => (chat::tools(tools), chat::system(system)),
            OpenAiWire::Responses => (responses::tools(tools), responses::system(system)),
        };
        PromptPrefix {
            model: model.to_owned(),
            tools: tools.into(),
            system: system.into(),
            // A bound that a small server cannot meet is refused; it knows its own better.
            max_output_tokens: match tuning.max_output_tokens {
                None if !facts.known => 0,
                wanted => facts.answer(wanted),
            },
            // The model's own: what the list holds is for the Messages API.
            thinking: match self.wire {
                OpenAiWire::Responses => effort.map(|e| format!(r#"{{"effort":"{e}"}}"#).into()),
                OpenAiWire::Chat => None,
            },
            effort: match self.wire {
                OpenAiWire::Responses => None,
                OpenAiWire::Chat => effort.map(|e| format!(r#""{e}""#).into()),
            },
        }
    }

    fn freeze_search(&self, model: &str, system: &str, bounds: &Bounds) -> Option<PromptPrefix> {
        // Ollama and servers that speak only the chat wire have none.
        let searches = self.wire == OpenAiWire::Responses && self.server.provider != "ollama";
        searches.then(|| PromptPrefix {
            tools: responses::search_tools(bounds).into(),
            ..self.freeze(model, system, &[], &Tuning::default())
        })
    }

    fn respond<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            self.exchange(request, sink).await.map_err(|mut error| {
                if let Some(key) = &self.server.key {
                    error.what = key.scrub(&error.what);
                }
                error
            })
        })
    }
}

/// A member that is read when it is of the right type, and absent otherwise.
fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<T>, D::Error> {
    use serde::Deserialize;
    let raw = Option::<Box<RawValue>>::deserialize(from)?;
    Ok(raw.and_then(|raw| serde_json::from_str(raw.get()).ok()))
}
