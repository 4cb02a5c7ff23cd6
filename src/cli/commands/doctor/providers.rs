//! The providers of models, each asked for one word: where they are, how fast they answer, what is wrong.
//!
//! Owns the advice. A provider that somebody has set up and that does not answer is a problem; one that
//! answers, but not as well as it could, is a note.

use super::Check;
use crate::cli::setup::no_model;
use crate::model::connect::ConnectOptions;
use crate::model::ollama;
use crate::model::probe::{self, Answered, Place, Probe};
use crate::model::provider::{ModelError, ModelErrorKind};
use crate::model::registry::{ModelRef, Provider};
use futures_util::future::join_all;
use std::time::Duration;

/// Models of a server that are named when the wanted one is not there.
const NAMED: usize = 6;
/// An answer that takes longer is worth a word.
const SLOW: Duration = Duration::from_secs(10);

/// Asks the chosen model and the other providers that are set up, all at once.
pub(super) async fn check(chosen: Option<&ModelRef>, options: &ConnectOptions) -> Vec<Check> {
    let mut asked: Vec<(&'static str, ModelRef)> = Vec::new();
    let mut checks = Vec::new();
    if let Some(model) = chosen.filter(|model| model.provider != Provider::Scripted) {
        asked.push(("model", model.clone()));
    }
    for provider in probe::configured(options) {
        if chosen.is_some_and(|model| model.provider == provider) {
            continue;
        }
        match probe::smallest(provider, options).await {
            Some(model) => asked.push((provider.as_str(), model)),
            None => checks.push(unlisted(provider, options)),
        }
    }
    let is_asked = asked.iter().any(|(_, model)| model.provider == Provider::Ollama);
    let is_set_up = probe::configured(options).contains(&Provider::Ollama);
    if !is_asked
        && !is_set_up
        && let Some(model) = ollama::running(options).await
    {
        checks.push(Check::ok("ollama", format!("it runs; its latest model is {model}")));
    }
    let asking = asked.iter().map(|(name, model)| one(name, model, options));
    let mut all = join_all(asking).await;
    all.append(&mut checks);
    all
}

/// A server that says nothing of its models, and nobody named one.
fn unlisted(provider: Provider, options: &ConnectOptions) -> Check {
    let address = probe::place(provider, options).map(|place| place.address).unwrap_or_default();
    Check::note(
        provider.as_str(),
        format!("{address} does not list its models, so none was asked"),
        format!("start it, or name a model: festoon doctor --model {}:NAME", provider.as_str()),
    )
}

async fn one(name: &'static str, model: &ModelRef, options: &ConnectOptions) -> Check {
    let probe = match probe::probe(model, options).await {
        Ok(probe) => probe,
        Err(error) => {
            let report = no_model(error).report;
            return Check::problem(name, report.message, report.hint);
        }
    };
    let place = said(&probe.place);
    match &probe.outcome {
        Ok(answered) => answer(name, &probe, *answered, &place),
        Err(error) => {
            let listed = if is_unknown_model(error) {
                probe::listed(model.provider, options).await
            } else {
                Vec::new()
            };
            let message = format!("{model} at {place}: {error}");
            let hint = advice(error, &probe, &listed);
            match error.kind {
                ModelErrorKind::RateLimited | ModelErrorKind::Unavailable => Check::note(name, message, hint),
                _ => Check::problem(name, message, hint),
            }
        }
    }
}

fn answer(name: &'static str, probe: &Probe, answered: Answered, place: &str) -> Check {
    let message = format!("{} answered in {} ms ({place})", probe.model, probe.took.as_millis());
    match answered {
        Answered::Whole => Check::note(
            name,
            format!("{message}, in one piece although a stream was asked for"),
            "let the server or gateway stream: answers are shown only when they are whole, and long ones may be cut",
        ),
        Answered::Streaming if probe.took > SLOW => Check::note(
            name,
            message,
            "that is slow for one word; look at the network, or at what the server is loading",
        ),
        Answered::Streaming => Check::ok(name, message),
    }
}

/// Where it is and what shows who asks.
fn said(place: &Place) -> String {
    let from = place.address_from.map_or_else(String::new, |from| format!(" from {from}"));
    let key = place.key_from.map_or_else(|| "no key".to_owned(), |name| format!("key from {name}"));
    let proxy = place
        .proxy
        .as_ref()
        .map_or_else(String::new, |(name, at)| format!(", through the proxy {at} of {name}"));
    format!("{}{from}, {key}{proxy}", place.address)
}

fn is_unknown_model(error: &ModelError) -> bool {
    let what = error.what.to_lowercase();
    error.kind == ModelErrorKind::Refused
        && what.contains("model")
        && (what.contains("404") || what.contains("not found") || what.contains("not exist"))
}

/// What to do about it.
fn advice(error: &ModelError, probe: &Probe, listed: &[String]) -> String {
    let (place, model) = (&probe.place, &probe.model);
    let address = place.address_from.unwrap_or("--model, which names the provider");
    match error.kind {
        ModelErrorKind::Credentials => match place.key_from {
            Some(name) => format!("the key in {name} is not accepted there: look whether it is whole, still valid, and for this address"),
            None => "the server wants a key: set the variable of its provider".to_owned(),
        },
        ModelErrorKind::Connection | ModelErrorKind::Refused if error.what.to_lowercase().contains("certificate") => {
            "when a company's proxy opens connections, name its root certificate: SSL_CERT_FILE=/path/to/ca.pem; else \
             the server is not who it says it is"
                .to_owned()
        }
        ModelErrorKind::Refused if is_unknown_model(error) => {
            let have: Vec<&str> = listed.iter().take(NAMED).map(String::as_str).collect();
            match (have.is_empty(), model.provider) {
                (false, _) => format!("it has {}; name one with --model {}:NAME", have.join(", "), model.provider.as_str()),
                (true, Provider::Ollama) => format!("`ollama pull {}` fetches it", model.name),
                (true, _) => "name another with --model, or correct the setting `model` or the alias".to_owned(),
            }
        }
        ModelErrorKind::Connection => connection(&error.what.to_lowercase(), place, address, model.provider),
        ModelErrorKind::RateLimited => "it answers, and wants fewer requests now; wait a little".to_owned(),
        ModelErrorKind::Unavailable => "it is overloaded or broken, and the key was not the reason; try again later".to_owned(),
        ModelErrorKind::Protocol => format!(
            "something else answers there: correct {address} (the address before /v1/messages or /chat/completions), or \
             set providers.{}.wire",
            model.provider.as_str()
        ),
        _ => "the provider's words say what it did not like".to_owned(),
    }
}

fn connection(what: &str, place: &Place, address: &str, provider: Provider) -> String {
    if let Some((name, at)) = &place.proxy {
        return format!(
            "requests go through the proxy {at}: look whether it runs, or spare this host with NO_PROXY, or unset {name}"
        );
    }
    if what.contains("dns") || what.contains("lookup") {
        return format!(
            "the name of the host is not known: look at the network, the DNS server, and {address}"
        );
    }
    if what.contains("refused") {
        return match provider {
            Provider::Ollama => {
                "nothing listens there: `ollama serve` starts it; OLLAMA_HOST names another place".to_owned()
            }
            _ => format!("nothing listens there: start the server, or correct {address}"),
        };
    }
    "look at the network and the firewall; behind a proxy, set HTTPS_PROXY".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_what_to_change() {
        let model: ModelRef = "openai:m".parse().expect("a model");
        let place = Place {
            address: "https://gateway.test/v1".to_owned(),
            address_from: Some("OPENAI_BASE_URL"),
            key_from: Some("OPENAI_API_KEY"),
            proxy: None,
        };
        let says = |kind, what: &str, proxy: Option<(&'static str, String)>, listed: &[&str]| {
            let error = ModelError::new(kind, what);
            let place = Place { proxy, ..place.clone() };
            let took = Duration::ZERO;
            let probe = Probe { model: model.clone(), place, took, outcome: Err(error.clone()) };
            let listed: Vec<String> = listed.iter().map(|name| (*name).to_owned()).collect();
            advice(&error, &probe, &listed)
        };
        use ModelErrorKind::{Connection, Credentials, Protocol, Refused};
        let proxy = Some(("HTTPS_PROXY", "http://proxy.test".to_owned()));
        for (kind, what, proxy, listed, wanted) in [
            (
                Connection,
                "dns error: failed to lookup address information",
                None,
                &[][..],
                "name of the host",
            ),
            (Connection, "tcp connect error: Connection refused", None, &[], "OPENAI_BASE_URL"),
            (Connection, "tunnel error", proxy, &[], "proxy http://proxy.test"),
            (Connection, "no answer within 20 s", None, &[], "firewall"),
            (Refused, "invalid peer certificate: UnknownIssuer", None, &[], "SSL_CERT_FILE"),
            (Refused, "answered 404: model \"m\" not found", None, &["a", "b"], "it has a, b"),
            (Credentials, "answered 401", None, &[], "OPENAI_API_KEY"),
            (Protocol, "answered with text/html", None, &[], "providers.openai.wire"),
        ] {
            let hint = says(kind, what, proxy, listed);
            assert!(hint.contains(wanted), "{what}: {hint}");
        }
    }
}
