//! A model provider that fails: what is tried again, what is said, and that the history stays whole.

use crate::support::model_server::{ModelServer, Part, Reply, call, prompt, say, think};
use crate::support::run::Done;
use crate::support::world::World;
use serde_json::{Value, json};
use std::time::Instant;

fn overloaded() -> Reply {
    Reply::status(529, "overloaded_error", "Overloaded")
}

fn run(world: &World) -> Done {
    world.festoon(["-p", "ID:lead", "--output-format", "stream-json"]).run()
}

fn retries(done: &Done) -> Vec<Value> {
    done.lines().into_iter().filter(|l| l["subtype"] == "retry").collect()
}

#[test]
fn a_refused_key_ends_at_once_with_four() {
    let server = ModelServer::start();
    let world = server.world();
    let done = world
        .festoon(["-p", "ID:lead", "--output-format", "json"])
        .env("ANTHROPIC_API_KEY", "wrong-key")
        .run();
    done.code(4);
    assert_eq!(done.result()["subtype"], "error_during_execution");
    assert_eq!(done.result()["is_error"], true);
    let error = done.error();
    assert_eq!(error["kind"], "credentials");
    assert!(
        error["message"].as_str().is_some_and(|m| m.contains("401") && m.contains("invalid x-api-key")),
        "{error}"
    );
    assert!(!done.stderr.contains("wrong-key") && !done.stdout.contains("wrong-key"));
    assert_eq!(world.check_transcripts(), 1);

    server.on(prompt("ID:lead"), [Reply::status(403, "permission_error", "not for you")]);
    let done = world.festoon(["-p", "ID:lead"]).run();
    done.code(4);
    assert!(done.stderr.contains("not for you") && done.stderr.contains("hint:"), "{}", done.stderr);
    assert_eq!(server.requests().len(), 1, "it is not tried again");
}

#[test]
fn what_may_pass_is_tried_again() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            Reply::status(500, "api_error", "Internal server error"),
            overloaded(),
            [say("Half"), Part::Error { kind: "overloaded_error", message: "Overloaded".into() }].into(),
            say("Whole.").into(),
        ],
    );
    let done = run(&world);
    done.code(0);
    assert_eq!(done.result()["result"], "Whole.");
    let attempts: Vec<Value> = retries(&done).iter().map(|r| json!([r["attempt"], r["of"]])).collect();
    assert_eq!(attempts, [json!([2, 4]), json!([3, 4]), json!([4, 4])]);
    assert!(retries(&done)[0]["why"].as_str().is_some_and(|w| w.contains("500")), "{:?}", retries(&done));
    assert!(!done.stdout.contains("\"Half\""), "what was taken back is in no message");
    let bodies: Vec<Vec<u8>> = server.requests().iter().map(|r| r.raw.clone()).collect();
    assert!(bodies.windows(2).all(|w| w[0] == w[1]), "the same bytes each time");
    assert_eq!(world.check_transcripts(), 1);
}

#[test]
fn what_the_provider_asks_to_wait_is_waited_for() {
    let server = ModelServer::start();
    let world = server.world();
    let limited = |value: &str| Reply::Status {
        status: 429,
        kind: "rate_limit_error",
        message: "slow down".into(),
        headers: vec![("retry-after", value.into())],
    };
    server.on(prompt("ID:lead"), [limited("1"), say("Later.").into()]);
    let settings = r#"{"retry":{"baseDelayMs":1,"maxDelayMs":2000,"maxAttempts":4}}"#;
    let started = Instant::now();
    world.festoon(["-p", "ID:lead", "--settings", settings]).run().code(0);
    assert!(started.elapsed().as_secs_f64() >= 1.0);
    // Nobody waits an hour.
    server.on(prompt("ID:hour"), [limited("3600")]);
    let done = world.festoon(["-p", "ID:hour", "--settings", settings]).run();
    done.code(1);
    assert!(done.stderr.contains("slow down"), "{}", done.stderr);
}

#[test]
fn a_stream_cut_anywhere_is_asked_for_again_and_leaves_no_trace() {
    let server = ModelServer::start();
    let world = server.world();
    world.file("a.txt", "one\n");
    let parts =
        || vec![think("Let me see."), say("I look at it."), call("Read", json!({ "file_path": "a.txt" }))];
    let cut = |how: Part| {
        let mut all = parts();
        all.extend([how, Part::Chunk(50)]);
        Reply::Message(all)
    };
    let mut replies: Vec<Reply> = Vec::new();
    // Every round is cut three times, at points that are spread over the whole stream.
    let points: Vec<usize> = (0..60).map(|n| n * 1000 / 60 + 3).collect();
    for points in points.chunks(3) {
        replies.push(cut(Part::Cut(points[0])));
        replies.push(cut(Part::End(points[1])));
        replies.push(cut(Part::Cut(points[2])));
        replies.push(parts().into());
    }
    replies.push(say("Done.").into());
    server.on(prompt("ID:lead"), replies);
    let done = run(&world);
    done.code(0);
    server.all_played();
    let result = done.result();
    assert_eq!((&result["result"], &result["num_turns"]), (&json!("Done."), &json!(21)));
    assert_eq!(retries(&done).len(), 60);
    assert_eq!(world.check_transcripts(), 1);
    let assistants = world.transcript().iter().filter(|l| l["type"] == "assistant").count();
    assert_eq!(assistants, 21);
}

#[test]
fn a_connection_that_closes_or_stays_silent_is_tried_again() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            Reply::HangUp,
            [say("never seen"), Part::Stall(400)].into(),
            [say("never seen"), Part::Stall(0)].into(),
            say("There.").into(),
        ],
    );
    let settings = r#"{"retry":{"baseDelayMs":1,"maxDelayMs":20,"maxAttempts":4,"streamIdleTimeoutMs":300}}"#;
    let done = world.festoon(["-p", "ID:lead", "--settings", settings]).run();
    done.code(0);
    assert_eq!(done.stdout, "There.\n");
    server.all_played();
}

#[test]
fn giving_up_carries_the_providers_words() {
    let server = ModelServer::start();
    let world = server.world();
    world.file("a.txt", "one\n");
    server.on(
        prompt("ID:lead"),
        [
            [say("First I look."), call("Read", json!({ "file_path": "a.txt" }))].into(),
            overloaded(),
            Reply::status(503, "api_error", "upstream"),
            overloaded(),
            overloaded(),
        ],
    );
    let done = run(&world);
    done.code(1);
    server.all_played();
    let result = done.result();
    let seen = ["subtype", "is_error", "num_turns"].map(|key| result[key].clone());
    assert_eq!(json!(seen), json!(["error_during_execution", true, 2]));
    let text = result["result"].as_str().expect("text");
    assert!(
        text.contains("529") && text.contains("Overloaded") && text.contains("gave up after 4 attempts"),
        "{text}"
    );
    assert_eq!(result["error"]["kind"], "unavailable");
    assert_eq!(done.error(), result["error"]);
    assert_eq!(world.check_transcripts(), 1);
    let last = world.transcript().pop().expect("a line");
    assert_eq!(last["subtype"], "warning", "the transcript says why it ends: {last}");
}

#[test]
fn the_partial_answer_is_not_lost_when_it_gives_up() {
    let server = ModelServer::start();
    let world = server.world();
    let half = || Reply::from([say("The answer begins like this and goes on for a while"), Part::Cut(700)]);
    server.on(prompt("ID:lead"), [half(), half(), half(), half()]);
    let done = world.festoon(["-p", "ID:lead", "--output-format", "json"]).run();
    done.code(1);
    assert!(done.stdout.contains("The answer begins like this"), "{}", done.stdout);
}

#[test]
fn what_will_not_pass_is_not_tried_again() {
    let server = ModelServer::start();
    let world = server.world();
    let cases = [
        (
            Reply::status(400, "invalid_request_error", "prompt is too long: 300000 tokens"),
            "prompt is too long",
        ),
        (Reply::status(404, "not_found_error", "model: test-model"), "model: test-model"),
        (Reply::status(413, "request_too_large", "too large"), "too large"),
        (
            Reply::from([
                say("x"),
                Part::Error { kind: "invalid_request_error", message: "bad image".into() },
            ]),
            "bad image",
        ),
    ];
    for (n, (reply, says)) in cases.into_iter().enumerate() {
        let id = format!("ID:case-{n}");
        server.on(prompt(&id), [reply]);
        let done = world.festoon(["-p", &id]).run();
        done.code(1);
        assert!(done.stderr.contains(says), "{}", done.stderr);
        assert_eq!(server.of(&id).len(), 1);
    }
}

#[test]
fn an_address_where_no_model_answers_is_said_so() {
    let world = World::new();
    let unused = std::net::TcpListener::bind("127.0.0.1:0").expect("binds").local_addr().expect("address");
    let settings = r#"{"retry":{"baseDelayMs":1,"maxDelayMs":5,"maxAttempts":2}}"#;
    let run = |base: &str| {
        let args = ["-p", "hi", "--model", "anthropic:x", "--settings", settings, "--output-format", "json"];
        world.festoon(args).env("ANTHROPIC_API_KEY", "k").env("ANTHROPIC_BASE_URL", base).run()
    };
    let done = run(&format!("http://{unused}"));
    done.code(1);
    assert_eq!(done.error()["kind"], "connection");
    let done = run("not an address");
    assert!(matches!(done.code, Some(1 | 2)), "{done:?}");
    assert!(done.stderr.contains("not an address") || done.error()["message"].is_string(), "{done:?}");
}

#[test]
fn a_refusal_and_a_full_context_are_failures() {
    let server = ModelServer::start();
    let world = server.world();
    for (id, stop, kind) in [
        ("ID:refusal", "refusal", "stopped"),
        ("ID:full", "model_context_window_exceeded", "context_exceeded"),
    ] {
        server.on(prompt(id), [[say("I"), Part::Stop(stop)].into()]);
        let done = world.festoon(["-p", id, "--output-format", "json"]).run();
        done.code(1);
        assert_eq!(done.result()["error"]["kind"], kind);
    }
}

#[test]
fn thinking_goes_back_as_it_came() {
    let server = ModelServer::start();
    let world = server.world();
    world.file("a.txt", "one\n");
    let odd = "It says \"x\" \u{1F41D}\n\ttab \\ end";
    server.on(
        prompt("ID:lead"),
        [
            [
                think(odd),
                Part::Redacted("opaque+/==".into()),
                Part::Call {
                    name: "Read".into(),
                    input: "{ \"file_path\" :\"a.txt\",\"limit\":1e1 }".into(),
                    id: None,
                },
            ]
            .into(),
            [think("alone")].into(),
        ],
    );
    server.on(prompt("ID:lead"), [say("never").into()]);
    world.festoon(["-p", "ID:lead"]).run().code(0);
    let second = &server.of("ID:lead")[1];
    // The server has checked signature and data; here, that the input kept the bytes it was written in.
    assert!(String::from_utf8_lossy(&second.raw).contains("{ \"file_path\" :\"a.txt\",\"limit\":1e1 }"));
    assert_eq!(world.check_transcripts(), 1);
}

#[test]
fn blank_text_of_a_model_is_never_sent_back() {
    let server = ModelServer::start();
    let world = server.world();
    world.file("a.txt", "one\n");
    let read = || call("Read", json!({ "file_path": "a.txt" }));
    server.on(
        prompt("ID:lead"),
        [
            [say(""), read()].into(),
            [say(" \n\t"), read(), say("")].into(),
            [think("Hm."), say(""), read()].into(),
            [crate::teammates::start("a", "anna", "ID:anna")].into(),
            [say(" \n")].into(),
        ],
    );
    server.always(prompt("ID:lead"), say("Ok."));
    server.on(
        prompt("ID:anna"),
        [
            [say(""), crate::teammates::send("m", "team-lead", "one"), say("\n")].into(),
            [crate::support::model_server::gate("anna"), say("")].into(),
        ],
    );
    let running = world.festoon(["-p", "ID:lead"]).start();
    server.wait_for("ID:lead", 5);
    server.reached("anna");
    server.open("anna");
    running.wait().code(0);
    // The server refuses blank text; here, that nothing was made of it.
    assert_eq!(world.check_transcripts(), 2);
}
