//! One tiny request to a provider, to see whether it would answer.
//!
//! Owns where a provider is and what shows who asks, for people: an address without credentials, the name
//! of a variable and never its value. The request is real, a few tokens, made once and within
//! [`DEADLINE`]; whatever comes of it is an outcome and no error.

use super::connect::{ConnectOptions, client_for, connect};
use super::http::small_body;
use super::limiter::Limiters;
use super::ollama;
use super::openai;
use super::provider::{
    Anchor, Delta, DeltaSink, ModelError, ModelErrorKind, ModelRequest, PromptPrefix, RequestTag,
};
use super::registry::{ModelRef, ModelSetupError, Provider, openai_key, set};
use super::tuning::Tuning;
use super::{anthropic, registry};
use crate::wire::block::{Block, ChatMessage};
use crate::wire::settings::RetrySettings;
use reqwest::Url;
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// How long a provider may take. A model that is asked for one word needs a few seconds at most, one that
/// has to be loaded from disk first some more.
pub const DEADLINE: Duration = Duration::from_secs(20);
/// How long a server may take to list its models.
const LIST_DEADLINE: Duration = Duration::from_secs(5);
/// Bound of the answer, in tokens; some wires refuse fewer.
const ANSWER: u32 = 16;

/// Where a provider is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its address, without credentials and query.
    pub address: String,
    /// The variable that an address of one's own comes from, or the setting.
    pub address_from: Option<&'static str>,
    /// The variable that the key comes from; `None` when no key is sent.
    pub key_from: Option<&'static str>,
    /// The variable of the proxy that is used, with its address.
    pub proxy: Option<(&'static str, String)>,
}

/// What came of it.
#[derive(Debug)]
pub struct Probe {
    /// The model that was asked.
    pub model: ModelRef,
    /// Where.
    pub place: Place,
    /// Until the answer or the failure.
    pub took: Duration,
    /// The answer, or why there is none.
    pub outcome: Result<Answered, ModelError>,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// As a stream.
    Streaming,
    /// In one piece, although a stream was asked for.
    Whole,
}

/// Where the provider of a model is, by environment and settings; `None` for scripts.
pub fn place(provider: Provider, options: &ConnectOptions) -> Option<Place> {
    let env = &options.env;
    let setting = options.providers.get(provider.as_str()).and_then(|p| p.base_url.as_deref());
    let of = |variable: &'static str, setting_name: &'static str, vendor: &str| {
        let own = set(env, variable).map(|base| (base, Some(variable)));
        let own = own.or(setting.map(|base| (base, Some(setting_name))));
        own.map_or_else(|| (vendor.to_owned(), None), |(base, from)| (base.to_owned(), from))
    };
    let from = |names: &[&'static str]| names.iter().copied().find(|name| set(env, name).is_some());
    let (address, address_from, key_from) = match provider {
        Provider::Anthropic => {
            let (base, own) = of("ANTHROPIC_BASE_URL", "providers.anthropic.baseUrl", anthropic::BASE_URL);
            (base, own, from(&["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]))
        }
        Provider::OpenAi => {
            let (base, own) = of("OPENAI_BASE_URL", "providers.openai.baseUrl", openai::BASE_URL);
            (base, own, from(&["OPENAI_API_KEY"]))
        }
        Provider::Ollama => {
            let host = set(env, "OLLAMA_HOST");
            let from = setting.map(|_| "providers.ollama.baseUrl").or(host.map(|_| "OLLAMA_HOST"));
            (ollama::base(host, setting).unwrap_or_default(), from, None)
        }
        Provider::Scripted => return None,
    };
    Some(Place { proxy: proxy(&address, options), address: shown(&address), address_from, key_from })
}

/// An address without what only its owner should read.
fn shown(address: &str) -> String {
    let Ok(mut url) = Url::parse(address.trim()) else { return address.trim().to_owned() };
    // Both fail only for addresses that cannot hold credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.as_str().trim_end_matches('/').to_owned()
}

/// The proxy that the environment names for this address. Lower case comes first, as everywhere.
fn proxy(address: &str, options: &ConnectOptions) -> Option<(&'static str, String)> {
    let url = Url::parse(address).ok()?;
    let host = url.host_str()?;
    if super::connect::is_local(address) || spared(host, options) {
        return None;
    }
    let names: &[&'static str] = match url.scheme() {
        "https" => &["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
        _ => &["http_proxy", "all_proxy", "ALL_PROXY"],
    };
    names.iter().find_map(|name| set(&options.env, name).map(|proxy| (*name, shown(proxy))))
}

fn spared(host: &str, options: &ConnectOptions) -> bool {
    let list = set(&options.env, "no_proxy").or_else(|| set(&options.env, "NO_PROXY")).unwrap_or_default();
    list.split(',').map(|entry| entry.trim().trim_start_matches('.')).any(|entry| {
        entry == "*" || (!entry.is_empty() && (host == entry || host.ends_with(&format!(".{entry}"))))
    })
}

/// The providers that somebody has set up: by a key, an address or a setting. An Ollama on this machine is
/// looked for by [`ollama::running`].
pub fn configured(options: &ConnectOptions) -> Vec<Provider> {
    let has = |provider: Provider| {
        let own = options.providers.get(provider.as_str()).is_some_and(|p| p.base_url.is_some());
        let env = match provider {
            Provider::Anthropic => registry::credentials(&options.env).is_some(),
            Provider::OpenAi => {
                openai_key(&options.env).is_some() || set(&options.env, "OPENAI_BASE_URL").is_some()
            }
            Provider::Ollama => set(&options.env, "OLLAMA_HOST").is_some(),
            Provider::Scripted => false,
        };
        env || own
    };
    Provider::ALL.into_iter().filter(|provider| has(*provider)).collect()
}

/// The model to ask a provider for when nobody named one: its small one, else the first that the server lists.
pub async fn smallest(provider: Provider, options: &ConnectOptions) -> Option<ModelRef> {
    let own = place(provider, options)?;
    let vendor = match provider {
        Provider::Anthropic => true,
        Provider::OpenAi => openai::is_vendor(&own.address),
        Provider::Ollama | Provider::Scripted => false,
    };
    if vendor {
        return format!("{}:fast", provider.as_str()).parse().ok().map(registry::tiered);
    }
    let name = listed(provider, options).await.into_iter().next()?;
    Some(ModelRef { provider, name })
}

/// The models that a server says it has, those that only embed left out; empty when it does not say.
pub async fn listed(provider: Provider, options: &ConnectOptions) -> Vec<String> {
    #[derive(Deserialize)]
    struct List {
        data: Vec<Entry>,
    }
    #[derive(Deserialize)]
    struct Entry {
        id: String,
    }
    let Some(place) = place(provider, options) else { return Vec::new() };
    let base = match provider {
        Provider::OpenAi | Provider::Ollama => place.address.as_str(),
        Provider::Anthropic | Provider::Scripted => return Vec::new(),
    };
    let http = client_for(base, &options.http);
    let ask = async {
        let mut request = http.get().ok()?.get(format!("{base}/models"));
        if let Some(key) = openai_key(&options.env).filter(|_| provider == Provider::OpenAi) {
            let (name, value) = key.header(reqwest::header::AUTHORIZATION, "Bearer ").ok()?;
            request = request.header(name, value);
        }
        let body = small_body(request.send().await.ok()?.error_for_status().ok()?).await?;
        serde_json::from_slice::<List>(&body).ok()
    };
    let list = timeout(LIST_DEADLINE, ask).await.ok().flatten();
    let names = list.into_iter().flat_map(|list| list.data).map(|entry| entry.id);
    names.filter(|name| !name.contains("embed")).collect()
}

/// Asks a model for one word.
///
/// # Errors
/// When nothing can be asked: no key, an address that is none, a script.
pub async fn probe(model: &ModelRef, options: &ConnectOptions) -> Result<Probe, ModelSetupError> {
    let Some(place) = place(model.provider, options) else {
        return Err(ModelSetupError::Name(model.to_string(), String::new()));
    };
    let once = ConnectOptions {
        retry: RetrySettings {
            max_attempts: 1,
            stream_idle_timeout_ms: u64::try_from(DEADLINE.as_millis()).unwrap_or(u64::MAX),
            ..options.retry.clone()
        },
        limiters: Limiters::default(),
        ..options.clone()
    };
    let provider = connect(model, &once)?;
    let prefix = provider.freeze(&model.name, "Answer in one word.", &[], &Tuning::default());
    let prefix = PromptPrefix { max_output_tokens: ANSWER, thinking: None, effort: None, ..prefix };
    let request = ModelRequest {
        prefix: Arc::new(prefix),
        messages: Arc::new(vec![ChatMessage::user(vec![Block::text("Say hello.")])]),
        anchors: Vec::<Anchor>::new(),
        tag: RequestTag { agent: "doctor".to_owned(), round: 1 },
    };
    let heard = Heard::default();
    let begun = Instant::now();
    let outcome = match timeout(DEADLINE, provider.respond(&request, &heard)).await {
        Ok(answer) => answer.map(|_| heard.how()),
        Err(_) => {
            let what = format!("no answer within {} s", DEADLINE.as_secs());
            Err(ModelError::new(ModelErrorKind::Connection, what))
        }
    };
    Ok(Probe { model: model.clone(), place, took: begun.elapsed(), outcome })
}

/// Notes whether the answer came as a stream.
#[derive(Default)]
struct Heard {
    whole: AtomicBool,
}

impl Heard {
    fn how(&self) -> Answered {
        if self.whole.load(Ordering::Relaxed) { Answered::Whole } else { Answered::Streaming }
    }
}

impl DeltaSink for Heard {
    fn delta(&self, delta: Delta) {
        if delta == Delta::Whole {
            self.whole.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
