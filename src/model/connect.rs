//! From a model to a connection.
//!
//! Owns what all connections of a process share: the HTTP client, the brake, the gates of scripts.
//! Promises one connection for each provider or script, so that agents that play a script share its
//! state. Nothing is sent before the first request.

use super::anthropic::{self, Anthropic};
use super::http::{HttpClient, Proxies};
use super::limiter::Limiters;
use super::ollama;
use super::openai::{self, OpenAi, Server};
use super::provider::ModelProvider;
use super::registry::{ModelRef, ModelSetupError, Provider, credentials, openai_key, set};
use super::retry::Retrying;
use super::scripted::Scripted;
use super::scripted::gates::Gates;
use crate::wire::settings::{ProviderSettings, RetrySettings};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What a connection needs beside its model.
#[derive(Clone, Default)]
pub struct ConnectOptions {
    /// The environment: keys and addresses.
    pub env: BTreeMap<String, String>,
    /// The setting `providers`.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// The setting `retry`.
    pub retry: RetrySettings,
    /// Shared by all connections of the process.
    pub limiters: Limiters,
    /// Shared by all connections of the process.
    pub http: HttpClient,
    /// Where this process opens the gates of scripts.
    pub gates: Gates,
}

impl fmt::Debug for ConnectOptions {
    /// The environment holds keys and is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions")
            .field("providers", &self.providers)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

/// A provider for `model`, retries included. Two connections to one script are two players with their
/// own counts; see [`Connections`].
pub fn connect(
    model: &ModelRef,
    options: &ConnectOptions,
) -> Result<Arc<dyn ModelProvider>, ModelSetupError> {
    let no_key = || ModelSetupError::NoKey(model.to_string(), model.provider);
    let idle = Duration::from_millis(options.retry.stream_idle_timeout_ms);
    let provider = model.provider.as_str();
    let own = options.providers.get(provider);
    let own_base = own.and_then(|p| p.base_url.as_deref());
    let inner: Arc<dyn ModelProvider> = match model.provider {
        Provider::Anthropic => {
            let credentials = credentials(&options.env).ok_or_else(no_key)?;
            let base = set(&options.env, "ANTHROPIC_BASE_URL").or(own_base).unwrap_or(anthropic::BASE_URL);
            Arc::new(Anthropic::new(client_for(base, &options.http), base, credentials, idle))
        }
        Provider::OpenAi => {
            let base = set(&options.env, "OPENAI_BASE_URL").or(own_base).unwrap_or(openai::BASE_URL);
            let key = openai_key(&options.env);
            if key.is_none() && openai::is_vendor(base) {
                return Err(no_key());
            }
            let wire = own.and_then(|p| p.wire);
            let server = Server { provider, base: base.to_owned(), key, wire, idle };
            Arc::new(OpenAi::new(client_for(base, &options.http), server))
        }
        Provider::Ollama => {
            let host = set(&options.env, "OLLAMA_HOST");
            let base = ollama::base(host, own_base).ok_or_else(|| {
                let given = own_base.or(host).unwrap_or_default();
                ModelSetupError::Address(model.to_string(), given.to_owned())
            })?;
            let http = client_for(&base, &options.http);
            let server = Server { provider, base, key: None, wire: own.and_then(|p| p.wire), idle };
            Arc::new(OpenAi::new(http, server))
        }
        Provider::Scripted => Arc::new(Scripted::load(Path::new(&model.name), options.gates.clone())?),
    };
    Ok(Arc::new(Retrying::new(inner, options.retry.clone(), options.limiters.of(provider))))
}

/// A proxy of the environment is for the network; a server on this machine is reached without it.
pub fn client_for(base: &str, shared: &HttpClient) -> HttpClient {
    if is_local(base) { HttpClient::new(Proxies::Off) } else { shared.clone() }
}

/// Whether an address is one of this machine.
pub(super) fn is_local(base: &str) -> bool {
    let url = reqwest::Url::parse(base).ok();
    let host = url.as_ref().and_then(reqwest::Url::host_str).unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// The connections of a process, each made when it is first asked for.
#[derive(Default)]
pub struct Connections {
    options: ConnectOptions,
    open: Mutex<BTreeMap<String, Arc<dyn ModelProvider>>>,
}

impl Connections {
    /// Connects nothing yet.
    pub fn new(options: ConnectOptions) -> Self {
        Self { options, open: Mutex::default() }
    }

    /// The connection that serves `model`.
    pub fn get(&self, model: &ModelRef) -> Result<Arc<dyn ModelProvider>, ModelSetupError> {
        let key = match model.provider {
            Provider::Anthropic | Provider::OpenAi | Provider::Ollama => model.provider.as_str().to_owned(),
            Provider::Scripted => model.to_string(),
        };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = open.get(&key) {
            return Ok(Arc::clone(connection));
        }
        let connection = connect(model, &self.options)?;
        open.insert(key, Arc::clone(&connection));
        Ok(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(text: &str) -> ModelRef {
        text.parse().expect("a model")
    }

    fn with_key() -> ConnectOptions {
        let env = [("ANTHROPIC_API_KEY".to_owned(), "sk-hidden".to_owned())].into();
        ConnectOptions { env, ..ConnectOptions::default() }
    }

    #[test]
    fn a_connection_needs_a_key_and_a_script() {
        let options = ConnectOptions::default();
        let error = connect(&model("anthropic:x"), &options).err().expect("no key");
        assert_eq!(error, ModelSetupError::NoKey("anthropic:x".to_owned(), Provider::Anthropic));
        let error = connect(&model("scripted:/no/such.toml"), &options).err().expect("no file");
        assert!(error.to_string().starts_with("cannot read the script /no/such.toml: "), "{error}");
        assert_eq!(connect(&model("anthropic:x"), &with_key()).expect("connects").name(), "anthropic");
    }

    #[test]
    fn a_server_of_ones_own_needs_no_key_and_the_vendor_does() {
        let own = |name: &str, base: &str| ConnectOptions {
            providers: [(
                name.to_owned(),
                ProviderSettings { base_url: Some(base.to_owned()), ..Default::default() },
            )]
            .into(),
            ..ConnectOptions::default()
        };
        let name = |text: &str, options: &ConnectOptions| {
            connect(&model(text), options).map(|p| p.name()).map_err(|e| e.to_string())
        };
        let none = ConnectOptions::default();
        let no_key = "`openai:x` needs OPENAI_API_KEY, which is not set (a server of your own may need none: \
                      set OPENAI_BASE_URL)";
        assert_eq!(name("openai:x", &none), Err(no_key.to_owned()));
        assert_eq!(name("openai:x", &own("openai", "https://api.openai.com/v1")), Err(no_key.to_owned()));
        assert_eq!(name("openai:x", &own("openai", "http://127.0.0.1:1/v1")), Ok("openai"));
        assert_eq!(name("ollama:x:7b", &none), Ok("ollama"));
        assert_eq!(
            name("ollama:x", &own("ollama", "nowhere")),
            Err("`ollama:x`: the address \"nowhere\" of its server cannot be read".to_owned())
        );
        let env = [("OPENAI_API_KEY".to_owned(), "sk-hidden".to_owned())].into();
        assert_eq!(name("openai:x", &ConnectOptions { env, ..none }), Ok("openai"));
    }

    #[test]
    fn models_of_one_provider_share_a_connection() {
        let connections = Connections::new(with_key());
        let get = |text: &str| connections.get(&model(text)).expect("connects");
        assert!(Arc::ptr_eq(&get("anthropic:a"), &get("anthropic:b")));
        let directory = tempfile::tempdir().expect("a directory");
        let script = |name: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, "").expect("writes");
            format!("scripted:{}", path.display())
        };
        let (a, b) = (script("a.toml"), script("b.toml"));
        assert!(Arc::ptr_eq(&get(&a), &get(&a)));
        assert!(!Arc::ptr_eq(&get(&a), &get(&b)));
    }

    #[test]
    fn keys_are_not_in_what_can_be_printed() {
        assert!(!format!("{:?}", with_key()).contains("sk-hidden"));
    }
}
