//! `festoon -p`: what it reads, what it prints, how it ends.

use crate::support::model_server::{ModelServer, Reply, call, call_as, gate, prompt, say, think};
use crate::support::run::Done;
use crate::support::world::World;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Instant;

/// A session of two rounds with a tool call.
fn session(server: &ModelServer) -> World {
    let world = server.world();
    world.file("hello.txt", "one\ntwo\n");
    server.on(
        prompt("ID:lead"),
        [
            [
                think("First I look."),
                say("I look."),
                call_as("r1", "Read", json!({ "file_path": "hello.txt" })),
            ]
            .into(),
            say("Two lines,\nas I see.").into(),
        ],
    );
    world
}

fn success(server: &ModelServer) -> Value {
    let mut by_model = server.usage(None);
    by_model["cost_usd"] = Value::Null;
    json!({
        "type": "result", "subtype": "success", "is_error": false, "result": "Two lines,\nas I see.",
        "session_id": "SESSION", "num_turns": 2, "duration_ms": "DURATION", "total_cost_usd": null,
        "usage": server.usage(None), "model_usage": { "anthropic:test-model": by_model },
        "permission_denials": [],
    })
}

#[test]
fn text_is_the_final_answer_and_nothing_else() {
    let server = ModelServer::start();
    let world = session(&server);
    let done = world.festoon(["-p", "ID:lead count"]).run();
    done.code(0);
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("Two lines,\nas I see.\n", ""));
    server.all_played();
    assert_eq!(world.check_transcripts(), 1);
    // Nobody needed the team, so it is gone.
    assert_eq!(world.teams(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn json_is_the_result_object() {
    let server = ModelServer::start();
    let world = session(&server);
    let done = world.festoon(["-p", "ID:lead count", "--output-format", "json"]).run();
    done.code(0);
    assert_eq!(done.stderr, "");
    assert_eq!(done.lines().len(), 1);
    assert_eq!(done.plain_result(), success(&server));
    let usage = server.usage(None);
    assert!(usage["cache_read_input_tokens"].as_u64() > Some(1000), "the prompt is cached: {usage}");
}

#[test]
fn a_stream_is_one_object_a_line_in_order() {
    let server = ModelServer::start();
    let world = session(&server);
    let done = world.festoon(["-p", "ID:lead count", "--output-format", "stream-json"]).run();
    done.code(0);
    assert_eq!(done.stderr, "");
    let lines = done.lines();
    let kinds: Vec<&str> = lines.iter().map(|l| l["type"].as_str().expect("type")).collect();
    assert_eq!(kinds, ["system", "user", "assistant", "user", "assistant", "result"]);

    let init = &lines[0];
    assert_eq!(init["subtype"], "init");
    assert_eq!(init["cwd"], world.project.to_str().expect("UTF-8"));
    assert_eq!(init["model"], "anthropic:test-model");
    assert_eq!(init["permission_mode"], "default");
    assert_eq!(init["agents"], json!(["general-purpose", "Explore", "Plan"]));
    assert_eq!(init["tools"], json!(server.requests()[0].tools()));

    let session = &init["session_id"];
    assert!(lines.iter().all(|l| l["session_id"] == *session), "one session");
    let transcript = world.transcript();
    let written: Vec<&Value> =
        transcript.iter().filter(|l| l["type"] != "system").map(|l| &l["uuid"]).collect();
    assert_eq!(lines[1..5].iter().map(|l| &l["uuid"]).collect::<Vec<_>>(), written);
    assert!(lines[1..5].iter().all(|l| l["parent_tool_use_id"].is_null()));

    assert_eq!(
        lines[2]["message"]["content"],
        json!([
            { "type": "thinking", "thinking": "First I look.",
              "signature": crate::support::model_server::refuse::signature("First I look.") },
            { "type": "text", "text": "I look." },
            { "type": "tool_use", "id": "r1", "name": "Read", "input": { "file_path": "hello.txt" } },
        ])
    );
    assert_eq!(lines[2]["message"]["stop_reason"], "tool_use");
    assert_eq!(lines[2]["message"]["model"], "test-model");
    assert_eq!(
        lines[3]["message"]["content"],
        json!([{ "type": "tool_result", "tool_use_id": "r1", "content": "     1\tone\n     2\ttwo" }])
    );
    assert_eq!(lines[4]["message"]["content"], json!([{ "type": "text", "text": "Two lines,\nas I see." }]));
    assert_eq!(done.plain_result(), success(&server));
}

#[test]
fn every_line_of_a_stream_is_out_before_the_next_thing_happens() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:slow"), [[call_as("g1", "Glob", json!({ "pattern": "*" }))].into()]);
    server.on(prompt("ID:slow"), [[gate("go"), say("done")].into()]);
    let running = world.festoon(["-p", "ID:slow", "--output-format", "stream-json"]).start();
    server.reached("go");
    let result = running.line("the tool result", |l| l["message"]["content"][0]["type"] == "tool_result");
    assert_eq!(result["message"]["content"][0]["tool_use_id"], "g1");
    server.open("go");
    running.wait().code(0);
}

#[test]
fn content_of_every_kind_stays_on_its_line() {
    let server = ModelServer::start();
    let world = server.world();
    let text = "line\nbreak \u{2028} and \u{1F41D} \"quoted\" \\ back\u{7}";
    server.on(prompt("ID:odd"), [say(text).into()]);
    let done = world.festoon(["-p", "ID:odd \u{2029} \t \"x\"", "--output-format", "stream-json"]).run();
    done.code(0);
    let lines = done.lines();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[2]["message"]["content"][0]["text"], text);
    assert_eq!(done.result()["result"], text);
}

#[test]
fn the_prompt_comes_from_the_flag_from_a_pipe_or_from_both() {
    let server = ModelServer::start();
    let world = server.world();
    server.always(prompt("ID:"), say("ok"));
    let asked = |done: &Done| {
        done.code(0);
        assert_eq!(done.stdout, "ok\n");
        let request = server.requests().pop().expect("a request");
        request.messages()[0]["content"][1]["text"].as_str().expect("the prompt").to_owned()
    };
    assert_eq!(asked(&world.festoon(["-p", "ID: flag"]).run()), "ID: flag");
    assert_eq!(asked(&world.festoon(["-p"]).stdin("ID: pipe\n").run()), "ID: pipe\n");
    assert_eq!(asked(&world.festoon(["-p", "ID: both"]).stdin("more\n").run()), "ID: both\n\nmore\n");
    assert_eq!(asked(&world.festoon(["-p", "ID: empty pipe"]).stdin("").run()), "ID: empty pipe");
    let long = format!("ID: {}", "long ".repeat(50_000));
    assert_eq!(asked(&world.festoon(["-p"]).stdin(long.clone()).run()), long);
}

#[test]
fn a_prompt_that_cannot_be_used_is_wrong_use() {
    let server = ModelServer::start();
    let world = server.world();
    for (args, stdin) in [(vec!["-p"], ""), (vec!["-p"], " \n\t"), (vec!["-p", " "], "")] {
        let done = world.festoon(&args).stdin(stdin).run();
        done.code(2);
        assert!(done.stderr.contains("there is no prompt"), "{}", done.stderr);
    }
    let done = world.festoon(["-p"]).stdin(b"caf\xe9".as_slice()).run();
    done.code(2);
    assert!(done.stderr.contains("not UTF-8"), "{}", done.stderr);
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_silent_pipe_is_left_alone_after_three_seconds() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:pipe"), [say("ok").into()]);
    let started = Instant::now();
    let mut running = world.festoon(["-p", "ID:pipe"]).silent_stdin().start();
    let held = running.stdin.take();
    let done = running.wait();
    done.code(0);
    assert!(started.elapsed().as_secs_f64() >= 3.0);
    assert_eq!(done.stdout, "ok\n");
    assert!(done.stderr.starts_with("warning: standard input is a pipe"), "{}", done.stderr);
    drop(held);
}

#[test]
fn without_a_key_it_names_the_choices_and_the_demo() {
    let world = World::new();
    for args in [&["-p", "hi"][..], &["-p", "hi", "--model", "anthropic:some"]] {
        let done = world.festoon(args).run();
        done.code(4);
        assert_eq!(done.stdout, "");
        assert!(done.stderr.contains("ANTHROPIC_API_KEY"), "{}", done.stderr);
        assert!(done.stderr.contains("festoon demo"), "{}", done.stderr);
    }
    let done = world.festoon(["-p", "hi", "--output-format", "json"]).run();
    done.code(4);
    let error = done.error();
    assert_eq!(error["kind"], "no_model");
    assert!(error["hint"].as_str().is_some_and(|h| h.contains("festoon demo")), "{error}");
    assert_eq!(world.teams().len() + world.sessions().len(), 0, "nothing was made");
}

#[test]
fn an_empty_key_counts_as_none() {
    let world = World::new();
    world.festoon(["-p", "hi"]).env("ANTHROPIC_API_KEY", "").run().code(4);
}

#[test]
fn wrong_use_is_two_and_says_what_to_write() {
    let server = ModelServer::start();
    let world = server.world();
    let cases: [(&[&str], &str); 9] = [
        (&["-p", "hi", "--no-such-flag"], "--no-such-flag"),
        (&["-p", "hi", "--output-format", "xml"], "stream-json"),
        (&["-p", "hi", "--permission-mode", "yolo"], "bypassPermissions"),
        (&["-p", "hi", "--teammate-mode", "screen"], "in-process"),
        (&["-p", "hi", "--model", "nobody:x"], "nobody"),
        (&["-p", "hi", "--model", "scripted:/no/such/script"], "/no/such/script"),
        (&["-p", "hi", "--settings", "{\"limits\":{\"maxDepth\":\"x\"}}"], "maxDepth"),
        (&["-p", "hi", "--settings", "/no/such/settings.json"], "/no/such/settings.json"),
        (&["-p", "hi", "--allowed-tools", "Bash("], "Bash("),
    ];
    for (args, says) in cases {
        let done = world.festoon(args).run();
        done.code(2);
        assert_eq!(done.stdout, "", "{args:?}");
        assert!(done.stderr.contains(says), "{args:?}: {}", done.stderr);
    }
    assert_eq!(world.teams().len() + world.sessions().len(), 0, "nothing was made");
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_mistake_in_a_script_names_its_line() {
    let world = World::new();
    let cases = [
        ("[[rule]]\nreply = [{ text = \"a\" }]\n\n[[rule]]\nreplies = []\n", 5, "replies"),
        ("[[rule]]\nreply = [{ text = \"{{result:x | nonsense}}\" }]\n", 2, "nonsense"),
        ("[[rule]]\nround = \"x\"\nreply = []\n", 2, "expected u32"),
        ("[[rule]\n", 1, ""),
    ];
    for (script, line, word) in cases {
        let model = world.script(script);
        let file = model.strip_prefix("scripted:").expect("a script");
        let done = world.festoon(["-p", "hi", "--model", &model]).run();
        done.code(2);
        assert!(done.stderr.contains(&format!("{file}:{line}")), "{script}: {}", done.stderr);
        assert!(done.stderr.contains(word), "{script}: {}", done.stderr);
    }
    assert_eq!(world.teams().len() + world.sessions().len(), 0, "nothing was made");
}

#[test]
fn a_script_that_runs_out_is_a_failure_with_its_words() {
    let world = World::new();
    let model = world.script("[[rule]]\nreply = [{ tool = \"Glob\", input = { pattern = \"*\" } }]\n");
    let done = world.festoon(["-p", "hi", "--model", &model, "--output-format", "json"]).run();
    done.code(1);
    let result = done.result();
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("error_during_execution"), &json!(true)));
    assert_eq!(result["error"]["kind"], "script");
    assert_eq!(world.check_transcripts(), 1);
}

#[test]
fn two_runs_in_one_directory_do_not_meet() {
    let server = ModelServer::start();
    let world = server.world();
    for id in ["ID:a", "ID:b"] {
        server.on(prompt(id), [[gate(id), say(id)].into()]);
    }
    let start = |id: &str| world.festoon(["-p", id, "--output-format", "json"]).start();
    let (a, b) = (start("ID:a"), start("ID:b"));
    server.reached("ID:a");
    server.reached("ID:b");
    server.open("ID:a");
    server.open("ID:b");
    let (a, b) = (a.wait(), b.wait());
    assert_eq!(
        (&a.code(0).result()["result"], &b.code(0).result()["result"]),
        (&json!("ID:a"), &json!("ID:b"))
    );
    let ids: BTreeSet<String> = [a, b].iter().map(|d| d.result()["session_id"].to_string()).collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(world.check_transcripts(), 2);
}

#[test]
fn a_session_has_one_writer() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:first"), [[gate("go"), say("ok")].into()]);
    let first = world.festoon(["-p", "ID:first", "--session-id", "mine"]).start();
    server.reached("go");
    let second = world.festoon(["-p", "ID:second", "--session-id", "mine", "--output-format", "json"]).run();
    second.code(1);
    assert_eq!(second.error()["kind"], "session_in_use");
    server.open("go");
    first.wait().code(0);
    world.festoon(["-p", "ID:third", "--session-id", "mine"]).run().code(2);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn the_limit_of_turns_is_three() {
    let server = ModelServer::start();
    let world = server.world();
    server.always(prompt("ID:loop"), [say("Again."), call("Glob", json!({ "pattern": "*" }))]);
    let done = world.festoon(["-p", "ID:loop", "--max-turns", "3", "--output-format", "json"]).run();
    done.code(3);
    let result = done.result();
    let seen = ["subtype", "is_error", "num_turns", "result"].map(|key| &result[key]);
    assert_eq!(seen, [&json!("error_max_turns"), &json!(true), &json!(3), &json!("Again.")]);
    assert_eq!(server.requests().len(), 3);
    assert_eq!(world.check_transcripts(), 1);
    assert_eq!(done.error()["kind"], "max_turns");
    // In text the partial answer is still the output, and the reason stands beside it.
    let done = world.festoon(["-p", "ID:loop", "--max-turns", "1"]).run();
    done.code(3);
    assert_eq!(done.stdout, "Again.\n");
    assert!(
        done.stderr.contains("limit of 1 round") && done.stderr.contains("--max-turns"),
        "{}",
        done.stderr
    );
}

#[test]
fn words_of_a_prompt_need_no_quotes() {
    let server = ModelServer::start();
    let world = server.world();
    for args in
        [&["-p", "ID:words", "of", "it"][..], &["ID:words of it", "-p"], &["ID:words", "of", "it", "-p"]]
    {
        server.on(prompt("ID:words of it"), [say("One prompt.").into()]);
        assert_eq!(world.festoon(args).run().code(0).stdout, "One prompt.\n", "{args:?}");
    }
    server.all_played();
}

#[test]
fn a_word_near_a_command_is_no_prompt() {
    let world = World::new();
    for words in [&["teamm"][..], &["inbxo"], &["pss"], &["main"], &["inbxo", "list"]] {
        let done = world.festoon(words).run();
        done.code(2);
        assert!(done.stderr.contains("did you mean"), "{}", done.stderr);
    }
    // Other words are a prompt, and that needs a terminal.
    for words in [
        "nonsense command",
        "as a test",
        "can you look",
        "stop the server",
        "end this",
        "main is broken",
        "sent it",
        "tap it",
    ] {
        let words = words.split(' ').collect::<Vec<_>>();
        let done = world.festoon(words).args(["--json"]).run();
        done.code(2);
        let error = done.error();
        assert_eq!(error["message"], "a prompt begins a session at a terminal, and standard input is none");
        assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("festoon -p")), "{error}");
    }
}

#[test]
fn a_prompt_is_not_dropped_for_a_command_among_its_words() {
    let server = ModelServer::start();
    let world = server.world();
    for line in [
        "-p please send anna hello",
        "-p now ps",
        "-p fix up tests",
        "-p please help me",
        "-p list top files",
        "please --verbose send anna hello",
    ] {
        let done = world.festoon(line.split(' ')).run();
        done.code(2);
        assert!(done.stderr.contains("put the prompt in quotes"), "{line}: {}", done.stderr);
        assert_eq!(done.stdout, "", "{line}");
    }
    let error = world.festoon(["-p", "now", "ps", "--json"]).run().code(2).error();
    assert_eq!(error["message"], "\"ps\" is a command, and a prompt stands before it");
    server.on(prompt("ID:fix up tests"), [say("Fixed.").into()]);
    assert_eq!(world.festoon(["-p", "--", "ID:fix", "up", "tests"]).run().code(0).stdout, "Fixed.\n");
    server.all_played();
}

#[test]
fn a_run_without_an_answer_says_so() {
    let server = ModelServer::start();
    let note = "the model ended its turn without an answer: its last message holds no text";
    for (id, reply) in [("ID:thinks", vec![think("Hm.")]), ("ID:nothing", Vec::new())] {
        let world = server.world();
        server.on(prompt(id), [Reply::Message(reply.clone()), Reply::Message(reply.clone())]);
        let done = world.festoon(["-p", id]).run();
        done.code(0);
        assert_eq!((done.stdout.as_str(), done.stderr), ("", format!("warning: {note}\n")));
        let done = world.festoon(["-p", id, "--output-format", "json"]).run();
        let result = done.code(0).result();
        assert_eq!((&result["result"], &result["note"]), (&"".into(), &note.into()), "{result}");
        assert!(done.stderr.contains(note), "{}", done.stderr);
        world.check_transcripts();
    }
    // What was said on the way is no answer either; one that was given needs no note.
    let world = server.world();
    world.file("a", "x");
    let look = call_as("l", "Read", serde_json::json!({ "file_path": "a" }));
    server.on(prompt("ID:way"), [[say("I look."), look].into(), Reply::Message(Vec::new())]);
    let result = world.festoon(["-p", "ID:way", "--output-format", "json"]).run().code(0).result();
    assert_eq!((&result["result"], &result["note"]), (&"I look.".into(), &note.into()), "{result}");
    server.on(prompt("ID:said"), [say("Yes.").into()]);
    let result = world.festoon(["-p", "ID:said", "--output-format", "json"]).run().code(0).result();
    assert!(result.get("note").is_none(), "{result}");
}

#[test]
fn numbers_and_directories_that_mean_nothing_are_wrong_use() {
    let server = ModelServer::start();
    let world = server.world();
    let file = world.file("a-file", "");
    let wrong: [(&str, &str, &str); 15] = [
        ("--max-cost", "-1", "an amount like 2.50 is wanted"),
        ("--max-cost", "nan", "an amount like 2.50 is wanted"),
        ("--max-turns", "0", "a whole number from 1 is wanted"),
        ("--max-turns", "-1", "a whole number from 1 is wanted"),
        ("--max-agents", "0", "at least 1; --max-agents-total 0 forbids agents"),
        ("--max-agents", "-1", "a whole number from 1 is wanted"),
        ("--max-turns", "4294967296", "a smaller number is wanted"),
        ("--max-agents-total", "-1", "a whole number from 0 is wanted"),
        ("--max-tokens-total", "1.5", "a whole number from 0 is wanted"),
        ("--max-depth", "-1", "a whole number from 0 is wanted"),
        ("--wait", "-1", "a number of whole seconds from 0 is wanted"),
        ("--ask-timeout", "-1", "a number of whole seconds from 0 is wanted"),
        ("--ask-timeout", "soon", "a number of whole seconds from 0 is wanted"),
        ("--add-dir", "no/such", "--add-dir: no/such does not exist"),
        ("--add-dir", file.to_str().expect("UTF-8"), "is no directory"),
    ];
    for (flag, value, why) in wrong {
        let done = world.festoon(["-p", "hi", flag, value, "--json"]).run();
        done.code(2);
        let error = done.error();
        let said = error["message"].as_str().expect("text");
        assert!(said.contains(why) && said.contains(flag) && !said.contains('\n'), "{flag} {value}: {said}");
    }
    assert_eq!(server.requests().len(), 0);
    // 0 forbids agents, and is no error.
    server.on(prompt("ID:alone"), [say("Alone.").into()]);
    world
        .festoon(["-p", "ID:alone", "--max-agents-total", "0", "--max-depth", "0", "--wait", "0"])
        .run()
        .code(0);
}

#[test]
fn lines_may_begin_with_a_mark_and_end_as_on_windows() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:first"), [say("One.").into(), say("Two.").into()]);
    let line =
        |text: &str| json!({ "type": "user", "message": { "role": "user", "content": text } }).to_string();
    let input = format!("\u{feff}{}\r\n\r\n{}\r\n", line("ID:first"), line("more"));
    let done = world.festoon(["-p", "--input-format", "stream-json"]).stdin(input).run();
    assert_eq!(done.code(0).stdout, "Two.\n");
    assert_eq!(server.of("ID:first").len(), 2);
    server.all_played();
}
