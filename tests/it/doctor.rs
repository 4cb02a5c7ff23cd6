//! What `festoon doctor` finds out about the providers of models, and what it keeps to itself.

use crate::support::model_server::{ModelServer, Reply, prompt, say};
use crate::support::run::Done;
use crate::support::world::{KEY, World};
use serde_json::Value;

/// The line about the model.
fn model(done: &Done) -> Value {
    let checks: Vec<Value> = serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {done:?}"));
    let mut found = checks.into_iter().filter(|check| check["check"] == "model");
    let line = found.next().expect("a line about the model");
    assert!(found.next().is_none(), "{}", done.stdout);
    assert!(!done.stdout.contains(KEY) && !done.stderr.contains(KEY));
    line
}

fn text<'a>(check: &'a Value, key: &str) -> &'a str {
    check[key].as_str().expect("text")
}

#[test]
fn a_model_that_answers_is_shown_with_where_it_is_and_how_fast() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("Say hello."), [say("Hello.").into()]);
    let check = model(&world.festoon(["doctor", "--json"]).run());
    assert_eq!(check["status"], "ok", "{check}");
    let said = regex::Regex::new(
        r"\Aanthropic:test-model answered in \d+ ms \(http://127\.0\.0\.1:\d+ from ANTHROPIC_BASE_URL, key from ANTHROPIC_API_KEY\)\z",
    )
    .expect("a pattern");
    assert!(said.is_match(text(&check, "message")), "{check}");
    let requests = server.requests();
    assert_eq!((requests.len(), &requests[0].body["max_tokens"]), (1, &16.into()));

    let check = model(&world.festoon(["doctor", "--offline", "--json"]).run());
    assert_eq!(check["message"], "anthropic:test-model (not asked anything)");
    assert_eq!(server.requests().len(), 1);
    // Nothing of it stays.
    assert_eq!(world.sessions().len() + world.teams().len(), 0);
}

#[test]
fn what_is_wrong_comes_with_what_to_do() {
    let server = ModelServer::start();
    let world = server.world();
    let unused = std::net::TcpListener::bind("127.0.0.1:0").expect("binds").local_addr().expect("address");
    let doctor = |world: &World, name: &str, value: &str| {
        let done = world.festoon(["doctor", "--json"]).env(name, value).run();
        done.code(1);
        let check = model(&done);
        assert_eq!(check["status"], "problem", "{check}");
        check
    };
    let check = doctor(&world, "ANTHROPIC_API_KEY", "wrong-key");
    assert!(text(&check, "message").contains("401"), "{check}");
    assert!(
        text(&check, "hint").starts_with("the key in ANTHROPIC_API_KEY is not accepted there"),
        "{check}"
    );
    assert!(!check.to_string().contains("wrong-key"));

    let check = doctor(&world, "ANTHROPIC_BASE_URL", &format!("http://me:secret@{unused}"));
    assert!(text(&check, "hint").contains("nothing listens there"), "{check}");
    assert!(text(&check, "hint").contains("ANTHROPIC_BASE_URL"), "{check}");
    assert!(!check.to_string().contains("secret"), "{check}");

    server.on(prompt("Say hello."), [Reply::status(404, "not_found_error", "model: test-model")]);
    let check = doctor(&world, "NO_COLOR", "1");
    assert!(text(&check, "hint").contains("--model"), "{check}");
    server.on(prompt("Say hello."), [Reply::status(529, "overloaded_error", "Overloaded")]);
    let done = world.festoon(["doctor", "--json"]).run();
    assert_eq!(model(&done)["status"], "note", "it will pass, and is tried once: {done:?}");
    server.all_played();
}
