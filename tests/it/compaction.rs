//! Compaction: a conversation that is near the end of its context goes on from a summary.

use crate::support::model_server::{ModelServer, Part, Reply, call, prompt, say, think};
use crate::support::state::jsonl;
use crate::support::world::World;
use crate::teammates::start;
use serde_json::{Value, json};

const SESSION: &str = "c0c9f6f0-1111-4222-8333-444455556666";
/// How the request for a summary is known.
const ASK: &str = "Write the summary that takes its place";

/// A world whose model has so many tokens of context.
fn small(server: &ModelServer, context: u64) -> World {
    let world = server.world();
    let path = world.home.join("settings.json");
    let mut settings: Value =
        serde_json::from_str(&std::fs::read_to_string(&path).expect("settings")).expect("JSON");
    settings["providers"] =
        json!({ "anthropic": { "models": { "test-model": { "contextWindow": context } } } });
    std::fs::write(&path, settings.to_string()).expect("settings");
    world
}

/// A round that reads about 2,000 tokens of a file.
fn reading(n: usize) -> Reply {
    [
        think(&format!("round {n}")),
        say("On."),
        call("Read", json!({ "file_path": format!("f{}.txt", n % 3) })),
    ]
    .into()
}

fn files(world: &World) {
    for n in 0..3 {
        world
            .file(&format!("f{n}.txt"), &format!("file {n}: a line of text as there are many\n").repeat(180));
    }
}

fn boundaries(world: &World) -> Vec<Value> {
    world.transcript().into_iter().filter(|line| line["subtype"] == "compact_boundary").collect()
}

fn texts(message: &Value) -> Vec<String> {
    let blocks = message["content"].as_array().expect("blocks");
    blocks.iter().filter_map(|b| b["text"].as_str().map(str::to_owned)).collect()
}

#[test]
fn a_long_turn_is_compacted_before_its_context_is_full_and_goes_on_after_a_restart() {
    let server = ModelServer::start();
    let world = small(&server, 40_000);
    files(&world);
    world.file("AGENTS.md", "Always whistle.");
    server.on(
        prompt("ID:lead").input(ASK),
        [say("ID:lead SUMMARY: f0 to f2 are read again and again.").into()],
    );
    let mut replies: Vec<Reply> = (0..17).map(reading).collect();
    replies.push(say("Done.").into());
    server.on(prompt("ID:lead"), replies);
    let run = ["-p", "ID:lead", "--session-id", SESSION, "--output-format", "stream-json"];
    let done = world.festoon(run).run();
    done.code(0);
    server.all_played();

    let lines = boundaries(&world);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    let data = &lines[0]["data"];
    let number = |key: &str| data[key].as_u64().expect(key);
    assert_eq!(data["trigger"], "auto");
    assert!((34_000..40_000).contains(&number("preTokens")), "{data}");
    assert!(number("postTokens") < 25_000, "{data}");
    let told = done.lines().into_iter().find(|l| l["subtype"] == "compact_boundary").expect("told");
    assert_eq!(
        told["compact_metadata"],
        json!({ "trigger": "auto", "pre_tokens": number("preTokens"), "post_tokens": number("postTokens"),
                "kept_messages": number("keptMessages") })
    );
    assert_eq!((&told["uuid"], &told["session_id"]), (&lines[0]["uuid"], &json!(SESSION)));

    // The summary was asked for in the same conversation, and its tokens count.
    let requests = server.requests();
    let at = requests.iter().position(|r| r.input().contains(ASK)).expect("asked");
    let (before, ask, after) = (&requests[at - 1], &requests[at], &requests[at + 1]);
    let parts = |raw: &[u8]| -> Vec<Vec<u8>> {
        crate::support::model_server::cache::parts(raw).into_iter().map(|p| p.bytes).collect()
    };
    assert!(parts(&ask.raw).starts_with(&parts(&before.raw)));
    let found = server.cached();
    assert!(found[at].read >= found[at - 1].total() * 99 / 100, "{:?}", &found[at - 1..=at]);
    let result = done.result();
    assert_eq!(result["usage"], server.usage(None));

    // What stays: surroundings, instructions, summary, files, and the last rounds as they were.
    let first = texts(&after.messages()[0]);
    assert!(first[0].starts_with("# Environment"), "{first:#?}");
    assert!(first[1].contains("Always whistle."), "{first:#?}");
    assert!(first[2].contains("SUMMARY: f0 to f2"), "{first:#?}");
    assert!(first.iter().any(|t| t.starts_with("# Files") && t.contains("f1.txt (read)")), "{first:#?}");
    // Each request before was a round that read a file; the last one is read again.
    let last = (at - 1) % 3;
    let again = (format!("f{last}.txt, as it is now"), format!("file {last}: a line"));
    assert!(first.iter().any(|t| t.contains(&again.0) && t.contains(&again.1)), "{again:?}: {first:#?}");
    let kept = usize::try_from(number("keptMessages")).expect("a number");
    assert!(kept >= 2);
    assert_eq!(after.messages().len(), kept + 1);
    let tail = |messages: &[Value], end: usize| -> Vec<Value> {
        messages[messages.len() - end - kept..messages.len() - end].iter().map(without_marker).collect()
    };
    assert_eq!(tail(after.messages(), 0), tail(ask.messages(), 1));

    // Later rounds read what they repeat; so does another run, which begins where this one ended.
    let shares: Vec<(usize, usize)> = found[at + 1..].windows(2).map(|w| (w[1].read, w[0].total())).collect();
    assert!(shares.iter().all(|(read, again)| read * 100 >= again * 99), "{shares:?}");
    server.on(prompt("ID:lead"), [say("Still here.").into()]);
    world.festoon(["-p", "and now?", "--resume", SESSION]).run().code(0);
    let requests = server.requests();
    let (last, resumed) = (&requests[requests.len() - 2], &requests[requests.len() - 1]);
    assert!(parts(&resumed.raw).starts_with(&parts(&last.raw)));
    let found = server.cached();
    let (was, is) = (found[found.len() - 2], found[found.len() - 1]);
    assert!(is.read * 100 >= was.total() * 99, "{was:?} {is:?}");
    world.check_transcripts();
}

fn without_marker(message: &Value) -> Value {
    let mut message = message.clone();
    for block in message["content"].as_array_mut().expect("blocks") {
        block.as_object_mut().expect("a block").remove("cache_control");
    }
    message
}

#[test]
fn a_boundary_without_its_summary_changes_nothing() {
    let server = ModelServer::start();
    let world = small(&server, 40_000);
    files(&world);
    server.on(prompt("ID:lead").input(ASK), [say("SUMMARY ID:lead").into()]);
    let mut replies: Vec<Reply> = (0..17).map(reading).collect();
    replies.push(say("Done.").into());
    server.on(prompt("ID:lead"), replies);
    world.festoon(["-p", "ID:lead", "--session-id", SESSION]).run().code(0);
    let path = world.sessions()[0].clone();
    let text = std::fs::read_to_string(&path).expect("transcript");
    let boundary = text.find(r#""subtype":"compact_boundary""#).expect("a boundary");
    let end = boundary + text[boundary..].find('\n').expect("its end") + 1;
    let asked = server.requests().iter().position(|r| r.input().contains(ASK)).expect("asked");
    let before: Vec<Value> = server.requests()[asked - 1].messages().iter().map(without_marker).collect();
    // Killed between both lines, and in the middle of the second.
    for cut in [end, end + 500] {
        std::fs::write(&path, &text[..cut]).expect("cuts");
        server.on(prompt("ID:lead"), [say("Going on.").into()]);
        // With room enough, nothing is compacted now.
        let run = ["-p", "go on", "--resume", SESSION];
        world
            .festoon(run)
            .args([
                "--settings",
                r#"{"providers":{"anthropic":{"models":{"test-model":{"contextWindow":200000}}}}}"#,
            ])
            .run()
            .code(0);
        let resumed: Vec<Value> =
            server.requests().last().expect("a request").messages().iter().map(without_marker).collect();
        assert_eq!(resumed[..before.len()], before);
        assert_eq!(texts(resumed.last().expect("the prompt")), ["go on"]);
    }
}

#[test]
fn what_the_provider_has_no_room_for_is_compacted_once_and_sent_again() {
    let server = ModelServer::start();
    let world = small(&server, 200_000);
    files(&world);
    let too_long = || Reply::status(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum");
    server.on(prompt("ID:lead").input(ASK), [say("SUMMARY ID:lead").into()]);
    let mut replies: Vec<Reply> = (0..8).map(reading).collect();
    replies.push(too_long());
    replies.push(say("Done.").into());
    server.on(prompt("ID:lead"), replies);
    let done = world.festoon(["-p", "ID:lead", "--session-id", SESSION]).run();
    done.code(0);
    assert_eq!(done.stdout, "Done.\n");
    assert_eq!(boundaries(&world).len(), 1);
    // What the provider cannot take is not sent along to ask for its summary.
    let requests = server.requests();
    let at = requests.iter().position(|r| r.input().contains(ASK)).expect("asked");
    assert!(requests[at].raw.len() < requests[at - 1].raw.len());

    // The same when the answer breaks off because the context is full.
    server.on(prompt("ID:lead").input(ASK), [say("SUMMARY ID:lead").into()]);
    let mut replies: Vec<Reply> = (0..6).map(reading).collect();
    replies.push([say("I begin to"), Part::Stop("model_context_window_exceeded")].into());
    replies.push(say("Whole.").into());
    server.on(prompt("ID:lead"), replies);
    let done = world.festoon(["-p", "more", "--resume", SESSION]).run();
    done.code(0);
    assert_eq!(done.stdout, "Whole.\n");
    assert_eq!(boundaries(&world).len(), 2);
    server.all_played();

    // And when that does not help: an error, and no circles.
    server.on(prompt("ID:lead").input(ASK), [say("SUMMARY ID:lead").into()]);
    server.on(prompt("ID:lead"), [reading(0), reading(1), reading(2), too_long(), too_long()]);
    let done = world.festoon(["-p", "more", "--resume", SESSION, "--output-format", "json"]).run();
    done.code(1);
    assert_eq!(done.result()["error"]["kind"], "context_exceeded");
    server.all_played();
    world.check_transcripts();
}

#[test]
fn one_message_that_is_too_large_is_a_clear_error() {
    let server = ModelServer::start();
    let world = small(&server, 20_000);
    let too_long =
        Reply::status(400, "invalid_request_error", "prompt is too long: 90000 tokens > 20000 maximum");
    server.on(prompt("ID:lead"), [too_long]);
    let long = format!("ID:lead {}", "word ".repeat(25_000));
    let done = world.festoon(["-p", "", "--output-format", "json"]).stdin(long).run();
    done.code(1);
    let error = &done.result()["error"];
    assert_eq!(error["kind"], "context_exceeded");
    let message = error["message"].as_str().expect("a message");
    assert!(
        message.contains("nothing left to compact") && message.contains("test-model takes 20000"),
        "{message}"
    );
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_summary_that_fails_leaves_the_history_as_it_was() {
    let server = ModelServer::start();
    let world = small(&server, 40_000);
    files(&world);
    server.always(prompt("ID:lead").input(ASK), Reply::status(400, "invalid_request_error", "not today"));
    let mut replies: Vec<Reply> = (0..17).map(reading).collect();
    replies.push(say("Done.").into());
    server.on(prompt("ID:lead"), replies);
    let done = world.festoon(["-p", "ID:lead"]).run();
    done.code(0);
    let said = "the conversation was not compacted and stays as it is: the model provider answered 400";
    assert!(done.stderr.contains(said), "{}", done.stderr);
    assert_eq!(boundaries(&world), Vec::<Value>::new());
    // Not before every round, but again when it has become clearly fuller.
    let asked = server.requests().iter().filter(|r| r.input().contains(ASK)).count();
    assert!((1..=3).contains(&asked), "{asked}");
    let last = server.last_of("ID:lead");
    assert_eq!(last.messages().len(), 1 + 2 * 17);
}

#[test]
fn a_model_that_calls_tools_instead_is_asked_once_more() {
    let server = ModelServer::start();
    let world = small(&server, 40_000);
    files(&world);
    server.on(
        prompt("ID:lead").input(ASK),
        [call("Bash", json!({ "command": "touch made" })).into(), say("SUMMARY ID:lead").into()],
    );
    let mut replies: Vec<Reply> = (0..17).map(reading).collect();
    replies.push(say("Done.").into());
    server.on(prompt("ID:lead"), replies);
    let done = world.festoon(["-p", "ID:lead", "--permission-mode", "bypassPermissions"]).run();
    done.code(0);
    assert!(!world.project.join("made").exists());
    assert_eq!(boundaries(&world).len(), 1);
    server.all_played();
}

#[test]
fn on_demand_with_a_focus_from_the_prompt() {
    let server = ModelServer::start();
    let world = server.world();
    files(&world);
    server.on(prompt("ID:lead").input("above all: the whistling"), [say("SUMMARY ID:lead").into()]);
    server
        .on(prompt("ID:lead"), (0..12).map(reading).chain([say("Done.").into(), say("Hello again.").into()]));
    let lines = "/compact\nID:lead\n/compact the whistling\nhello\n";
    let done = world.festoon([] as [&str; 0]).stdin(lines).run();
    done.code(0);
    assert!(done.stdout.contains("there is nothing to compact yet"), "{}", done.stdout);
    assert!(done.stdout.contains("compacted: about"), "{}", done.stdout);
    let lines = boundaries(&world);
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["data"]["trigger"], "manual");
    let last = server.last_of("ID:lead");
    assert!(last.prompt().contains("SUMMARY"));
    server.all_played();
    world.check_transcripts();
}

#[test]
fn a_leader_that_was_compacted_knows_its_team_and_its_mail_goes_on() {
    let server = ModelServer::start();
    let world = small(&server, 40_000);
    files(&world);
    server.on(prompt("ID:lead").input(ASK), [say("SUMMARY ID:lead").into()]);
    let todo = json!({ "todos": [{ "content": "Whistle", "status": "in_progress" }] });
    let begin: Reply = [start("a", "anna", "ID:anna"), call("TodoWrite", todo)].into();
    let mut replies = vec![begin];
    replies.extend((0..17).map(reading));
    replies.push([crate::teammates::send("m", "anna", "Are you there?")].into());
    server.on(prompt("ID:lead"), replies);
    server.always(prompt("ID:lead"), say("Ok."));
    server.always(prompt("ID:anna"), say("Here I am."));
    let done = world.festoon(["-p", "ID:lead"]).run();
    done.code(0);
    let last = server.last_of("ID:lead");
    let first = texts(&last.messages()[0]);
    let team = first.iter().find(|t| t.starts_with("# Your team")).expect("the team");
    assert!(team.contains("- anna (general-purpose): idle since "), "{team}");
    let list = first.iter().find(|t| t.starts_with("# Your list of things to do")).expect("the list");
    assert!(list.contains("- in progress: Whistle"), "{list}");
    // Her first report came before the compaction or was said in it; the second one is there once.
    let mail: Vec<String> = last.mail().concat().into_iter().filter(|t| t.contains("Here I am.")).collect();
    assert_eq!(mail.len(), 1, "{mail:#?}");
    world.check_transcripts();
}

#[test]
fn a_subagent_compacts_its_own_conversation() {
    let server = ModelServer::start();
    let world = small(&server, 40_000);
    files(&world);
    server.on(prompt("ID:sub").input(ASK), [say("SUMMARY ID:sub").into()]);
    let run = json!({ "description": "d", "prompt": "ID:sub" });
    server.on(prompt("ID:lead"), [[call("Agent", run)].into(), say("Done.").into()]);
    server.on(prompt("ID:sub"), (0..17).map(reading).chain([say("Read it all.").into()]));
    world.festoon(["-p", "ID:lead"]).run().code(0);
    server.all_played();
    let chain = jsonl(&world.sidechains()[0]);
    assert_eq!(chain.iter().filter(|l| l["subtype"] == "compact_boundary").count(), 1);
    assert_eq!(boundaries(&world), Vec::<Value>::new());
    world.check_transcripts();
}

#[test]
fn a_compaction_that_would_gain_nothing_leaves_the_conversation_alone() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead").input(ASK), [say(&"A long summary. ".repeat(2000)).into()]);
    server.always(prompt("ID:lead"), say("Fine."));
    // With two rounds nothing is asked; with six the summary comes out longer than what it would replace.
    let said = |n: usize| "go on\n".repeat(n);
    let lines = format!("ID:lead\n{}/compact\n{}/compact\nlast\n", said(1), said(4));
    // Hooks hear of a compaction only when there is one.
    let heard = world.outside().join("heard");
    let hook = json!({ "command": format!("cat >>'{}'", heard.display()) });
    let settings = json!({ "hooks": { "SessionStart": [{ "hooks": [hook] }] } }).to_string();
    let done = world.festoon(["--settings", &settings]).stdin(lines).run();
    done.code(0);
    let heard = std::fs::read_to_string(heard).expect("the hook ran");
    let of = |source: &str| heard.matches(&format!("\"source\":\"{source}\"")).count();
    assert_eq!((of("startup"), of("compact")), (1, 0), "{heard}");
    assert!(done.stdout.contains("there is nothing to compact yet"), "{}", done.stdout);
    let stays = "the conversation stays as it is: with its summary it would be no shorter";
    assert!(done.stdout.contains(stays), "{}", done.stdout);
    let requests = server.requests();
    let asked: Vec<usize> = (0..requests.len()).filter(|n| requests[*n].input().contains(ASK)).collect();
    assert_eq!(asked, [6]);
    assert_eq!(server.last_of("ID:lead").messages().len(), 13, "all rounds are still there");
    assert_eq!(boundaries(&world), Vec::<Value>::new());
    let kept = world.sessions()[0].with_extension("").join("ledger.json");
    let ledger = crate::support::state::json_file(&kept);
    let used = ledger["models"].as_object().expect("models").values().next().expect("one")["usage"].clone();
    assert_eq!(used, server.usage(None), "the summary counts");
}
