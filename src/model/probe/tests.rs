//! What a probe finds, against servers that are wrong in every way.

use super::*;
use crate::model::testing::tls::untrusted;
use crate::model::testing::{Answer, Server};

fn options(env: &[(&str, &str)]) -> ConnectOptions {
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ConnectOptions { env, ..ConnectOptions::default() }
}

#[test]
fn where_a_provider_is_shows_no_secret() {
    let found = place(
        Provider::Anthropic,
        &options(&[
            ("ANTHROPIC_API_KEY", "sk-hidden"),
            ("ANTHROPIC_BASE_URL", "https://me:secret@gateway.test/x/?key=hidden"),
            ("HTTPS_PROXY", "http://me:secret@proxy.test:3128"),
            ("NO_PROXY", "other.test"),
        ]),
    );
    let wanted = Place {
        address: "https://gateway.test/x".to_owned(),
        address_from: Some("ANTHROPIC_BASE_URL"),
        key_from: Some("ANTHROPIC_API_KEY"),
        proxy: Some(("HTTPS_PROXY", "http://proxy.test:3128".to_owned())),
    };
    assert_eq!(found, Some(wanted));
    let spared = options(&[("HTTPS_PROXY", "http://proxy.test"), ("NO_PROXY", "x.test, .anthropic.com")]);
    let vendor = place(Provider::Anthropic, &spared).expect("a place");
    assert_eq!(
        (vendor.address.as_str(), vendor.proxy, vendor.key_from),
        ("https://api.anthropic.com", None, None)
    );
    assert_eq!(place(Provider::Scripted, &options(&[])), None);
}

#[test]
fn what_is_set_up_is_told_by_keys_and_addresses() {
    assert_eq!(configured(&options(&[])), []);
    let all = options(&[
        ("ANTHROPIC_AUTH_TOKEN", "t"),
        ("OPENAI_BASE_URL", "http://127.0.0.1:1"),
        ("OLLAMA_HOST", "b"),
    ]);
    assert_eq!(configured(&all), [Provider::Anthropic, Provider::OpenAi, Provider::Ollama]);
}

async fn ask(model: &str, env: &[(&str, &str)]) -> Result<Answered, ModelError> {
    probe(&model.parse().expect("a model"), &options(env)).await.expect("asks").outcome
}

#[tokio::test]
async fn what_is_wrong_is_told_apart() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("binds").local_addr().expect("address");
    let untrusted = untrusted(1);
    for (base, kind, says) in [
        (format!("http://{free}"), ModelErrorKind::Connection, "refused"),
        (untrusted, ModelErrorKind::Refused, "certificate"),
    ] {
        let env = [("ANTHROPIC_API_KEY", "sk-hidden"), ("ANTHROPIC_BASE_URL", base.as_str())];
        let error = ask("anthropic:x", &env).await.expect_err("no answer");
        assert_eq!(error.kind, kind, "{base}: {error}");
        assert!(error.what.to_lowercase().contains(says), "{base}: {error}");
    }
}

fn plain(status: u16, kind: &str, body: &str) -> Answer {
    Answer::Plain { status, headers: vec![("content-type", kind.to_owned())], body: body.to_owned() }
}

fn chat(extra: &str) -> String {
    format!(
        r#"{{"id":"c","object":"chat.completion","model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":"Hello"}},"finish_reason":"stop"}}]{extra}}}"#
    )
}

#[tokio::test]
async fn an_answer_in_one_piece_is_told_from_a_stream() {
    let events = concat!(
        r#"data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"},"finish_reason":null}]}"#,
        "\n\n",
        r#"data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        "\n\ndata: [DONE]\n\n"
    );
    let answers = [
        Answer::Stream { bytes: events.into(), chunk: 40 },
        plain(200, "application/json", &chat("")),
        plain(404, "application/json", r#"{"error":{"message":"model \"m\" not found","code":404}}"#),
        plain(200, "text/html", "<html>a login page</html>"),
        plain(401, "application/json", r#"{"error":{"message":"bad key sk-hidden"}}"#),
    ];
    let server = Server::start(answers).await;
    let env = [("OPENAI_API_KEY", "sk-hidden"), ("OPENAI_BASE_URL", server.url.as_str())];
    assert_eq!(ask("openai:m", &env).await.expect("answers"), Answered::Streaming);
    assert_eq!(ask("openai:m", &env).await.expect("answers"), Answered::Whole);
    for kind in [ModelErrorKind::Refused, ModelErrorKind::Protocol, ModelErrorKind::Credentials] {
        let error = ask("openai:m", &env).await.expect_err("no answer");
        assert_eq!(error.kind, kind, "{error}");
        assert!(!error.what.contains("sk-hidden"), "{error}");
    }
    assert_eq!(server.refusals(), Vec::<String>::new());
    let sent = String::from_utf8(server.seen()[0].body.clone()).expect("text");
    assert!(sent.len() < 400, "a tiny request: {sent}");
}

#[tokio::test]
async fn a_server_says_which_models_it_has() {
    let list = r#"{"object":"list","data":[{"id":"nomic-embed-text"},{"id":"qwen3"},{"id":"llama"}]}"#;
    let server = Server::start([
        plain(200, "application/json", list),
        plain(200, "application/json", list),
        plain(500, "text/plain", "no"),
    ])
    .await;
    let own = options(&[("OPENAI_BASE_URL", server.url.as_str())]);
    assert_eq!(listed(Provider::OpenAi, &own).await, ["qwen3", "llama"]);
    assert_eq!(
        smallest(Provider::OpenAi, &own).await.map(|m| m.to_string()).as_deref(),
        Some("openai:qwen3")
    );
    assert_eq!(smallest(Provider::OpenAi, &own).await, None);
    let vendor =
        smallest(Provider::Anthropic, &options(&[("ANTHROPIC_API_KEY", "k")])).await.expect("a model");
    assert!(vendor.name.starts_with("claude-"), "{vendor}");
}
