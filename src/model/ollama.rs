//! Where a local Ollama is, and whether one is running.
//!
//! Owns how `OLLAMA_HOST` is read. Asks a server only when [`running`] is called, which is when nobody
//! named a model and no key is set, so that a start with a key does not pay for it.

use super::connect::{ConnectOptions, client_for};
use super::http::small_body;
use super::registry::{ModelRef, Provider, set};
use reqwest::Url;
use serde::Deserialize;
use std::time::Duration;

/// Where Ollama listens when nobody says otherwise.
const DEFAULT: &str = "http://127.0.0.1:11434/v1";
/// Ollama's port.
const PORT: &str = "11434";
/// How long a server may take to say what it has. One on this machine needs milliseconds.
const DEADLINE: Duration = Duration::from_millis(700);

/// The address of the server, with the path of its OpenAI wire: the setting, else `OLLAMA_HOST` in all
/// forms that Ollama itself takes (`host`, `host:port`, `:port`, an address), else this machine. `None`
/// when it is no address.
pub fn base(host: Option<&str>, setting: Option<&str>) -> Option<String> {
    let text = match (setting, host) {
        (Some(own), _) => own.trim().to_owned(),
        (None, Some(host)) => with_scheme(host.trim()),
        (None, None) => return Some(DEFAULT.to_owned()),
    };
    let mut url = Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    // Where a server listens on every address, a client asks on this machine's own.
    match url.host_str()? {
        "0.0.0.0" => url.set_host(Some("127.0.0.1")).ok()?,
        "[::]" => url.set_host(Some("[::1]")).ok()?,
        _ => {}
    }
    let base = url.as_str().trim_end_matches('/');
    Some(if base.ends_with("/v1") { base.to_owned() } else { format!("{base}/v1") })
}

/// Ollama's rules: no scheme is plain HTTP on its own port, no host is this machine.
fn with_scheme(host: &str) -> String {
    if host.contains("://") {
        return host.to_owned();
    }
    let (name, path) = host.split_once('/').unwrap_or((host, ""));
    let (name, port) = match name.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) && !name.ends_with(':') => {
            (name, port)
        }
        _ => (name, PORT),
    };
    let bare_v6 = name.contains(':') && !name.starts_with('[');
    let name = match name {
        "" => "127.0.0.1".to_owned(),
        name if bare_v6 => format!("[{name}]"),
        name => name.to_owned(),
    };
    format!("http://{name}:{port}/{path}")
}

/// The model of a running Ollama that was changed last, leaving out those that only embed; `None` when
/// no server answers in time or has none.
pub async fn running(options: &ConnectOptions) -> Option<ModelRef> {
    #[derive(Deserialize)]
    struct Listed {
        models: Vec<Model>,
    }
    #[derive(Deserialize)]
    struct Model {
        name: String,
    }
    let setting = options.providers.get(Provider::Ollama.as_str()).and_then(|p| p.base_url.as_deref());
    let base = base(set(&options.env, "OLLAMA_HOST"), setting)?;
    let client = client_for(&base, &options.http);
    let url = format!("{}/api/tags", base.trim_end_matches("/v1"));
    let ask = async {
        let answer = client.get().ok()?.get(url).send().await.ok()?;
        let body = small_body(answer.error_for_status().ok()?).await?;
        serde_json::from_slice::<Listed>(&body).ok()
    };
    let listed = tokio::time::timeout(DEADLINE, ask).await.ok()??;
    let model = listed.models.into_iter().find(|model| !model.name.contains("embed"))?;
    Some(ModelRef { provider: Provider::Ollama, name: model.name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::{Answer, Server};
    use crate::wire::settings::ProviderSettings;

    #[test]
    fn the_host_is_read_as_ollama_reads_it() {
        for (host, want) in [
            ("127.0.0.1", "http://127.0.0.1:11434/v1"),
            ("0.0.0.0", "http://127.0.0.1:11434/v1"),
            ("0.0.0.0:8080", "http://127.0.0.1:8080/v1"),
            (":8080", "http://127.0.0.1:8080/v1"),
            ("box", "http://box:11434/v1"),
            ("box:1", "http://box:1/v1"),
            ("box:1/ollama", "http://box:1/ollama/v1"),
            ("::1", "http://[::1]:11434/v1"),
            ("[::]:7", "http://[::1]:7/v1"),
            ("http://box", "http://box/v1"),
            ("https://box.test:8443/", "https://box.test:8443/v1"),
            (" box ", "http://box:11434/v1"),
        ] {
            assert_eq!(base(Some(host), None).as_deref(), Some(want), "{host}");
        }
        assert_eq!(base(None, None).as_deref(), Some("http://127.0.0.1:11434/v1"));
        assert_eq!(base(Some("box"), Some("http://own:1/v1/")).as_deref(), Some("http://own:1/v1"));
        assert_eq!(base(None, Some("http://own:1")).as_deref(), Some("http://own:1/v1"));
        assert_eq!(base(None, Some("own:1")), None);
        assert_eq!(base(Some("ftp://box"), None), None);
    }

    fn options(url: &str) -> ConnectOptions {
        let own = ProviderSettings { base_url: Some(url.to_owned()), ..Default::default() };
        ConnectOptions { providers: [("ollama".to_owned(), own)].into(), ..ConnectOptions::default() }
    }

    #[tokio::test]
    async fn a_running_server_is_found_and_another_is_not() {
        let tags = |body: &str| Answer::Plain { status: 200, headers: Vec::new(), body: body.to_owned() };
        let answers = [
            tags(
                r#"{"models":[{"name":"nomic-embed-text:latest","size":1},{"name":"qwen3:8b"},{"name":"x"}]}"#,
            ),
            tags(r#"{"models":[]}"#),
            tags("<html>"),
            Answer::Plain { status: 404, headers: Vec::new(), body: "{}".to_owned() },
        ];
        let server = Server::start(answers).await;
        let found = running(&options(&server.url)).await.map(|model| model.to_string());
        assert_eq!(found.as_deref(), Some("ollama:qwen3:8b"));
        assert_eq!(server.seen()[0].line, "GET /api/tags HTTP/1.1");
        for _ in 0..3 {
            assert_eq!(running(&options(&server.url)).await, None);
        }
        let gone = server.url.clone();
        drop(server);
        assert_eq!(running(&options(&gone)).await, None);
    }
}
