//! Limits and budgets of the whole tree: who is refused, who waits, how a run ends at a budget, and that
//! every process of a team goes by one ledger.

use crate::support::model_server::{ModelServer, Part, Reply, call, call_as, fork, gate, prompt, say};
use crate::support::panes::{Tmux, worker};
use crate::support::run::Done;
use crate::support::state::json_file;
use crate::support::wait;
use crate::support::world::World;
use crate::teammates::start;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn agent(id: &str, prompt: &str) -> Part {
    call_as(id, "Agent", json!({ "description": "a job", "prompt": prompt }))
}

fn look(id: &str) -> Part {
    call_as(id, "Glob", json!({ "pattern": "*" }))
}

/// Tokens that the first request of a run takes.
fn one_request(server: &ModelServer, world: &World) -> u64 {
    server.on(prompt("ID:dry"), [say("dry").into()]);
    let done = world.festoon(["-p", "ID:dry", "--output-format", "json"]).run();
    tokens(&done.code(0).result()["usage"])
}

fn tokens(usage: &Value) -> u64 {
    usage.as_object().expect("usage").values().filter_map(Value::as_u64).sum()
}

/// What a result says of a limit.
fn limited(done: &Done, kind: &str) -> (String, String) {
    done.code(3);
    let result = done.result();
    let seen = ["subtype", "is_error"].map(|key| result[key].clone());
    assert_eq!(json!(seen), json!(["error_limit", true]), "{result}");
    assert_eq!(result["error"]["kind"], "limit");
    assert_eq!(done.error(), result["error"]);
    let text = |key: &str| result["error"][key].as_str().expect("text").to_owned();
    assert!(text("hint").contains(kind), "{result}");
    (text("message"), text("hint"))
}

#[test]
fn a_budget_of_tokens_ends_the_run_and_counts_on_when_it_is_resumed() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [[say("I look."), look("g")].into()]);
    let json = ["--output-format", "json", "--max-tokens-total"];
    let done = world.festoon(["-p", "ID:lead", "--session-id", "s1"]).args(json).args(["1"]).run();
    let (message, _) = limited(&done, "--max-tokens-total");
    assert!(message.starts_with("the session's budget of 1 tokens is used up: "), "{message}");
    assert!(message.contains("(team-lead "), "{message}");
    assert_eq!(done.result()["result"], "I look.");
    assert_eq!(server.requests().len(), 1, "the one in flight was finished, none was begun");
    assert_eq!(world.check_transcripts(), 1);

    // The team that nobody needed is gone; what it used is not forgotten.
    assert_eq!(world.teams().len(), 0);
    let done = world.festoon(["-p", "ID:more", "--resume", "s1"]).args(json).args(["1"]).run();
    limited(&done, "--max-tokens-total");
    assert_eq!(tokens(&done.result()["usage"]), 0, "this run has used nothing");
    assert_eq!(server.requests().len(), 1);

    server.on(prompt("ID:lead"), [say("There.").into()]);
    let done = world.festoon(["-p", "ID:more", "--resume", "s1"]).args(json).args(["1000000"]).run();
    done.code(0);
    assert_eq!(done.result()["result"], "There.");
    assert_eq!(world.check_transcripts(), 1);
}

#[test]
fn requests_in_flight_at_a_budget_are_finished_and_none_is_begun() {
    let server = ModelServer::start();
    let world = server.world();
    let budget = one_request(&server, &world) + 1000;
    server.on(prompt("ID:lead"), [[agent("a", "ID:one"), agent("b", "ID:two")].into()]);
    for id in ["ID:one", "ID:two"] {
        server.on(prompt(id), [[gate(id), say(id), look(id)].into()]);
    }
    let running = world
        .festoon(["-p", "ID:lead", "--output-format", "stream-json", "--max-tokens-total"])
        .args([budget.to_string()])
        .start();
    server.reached("ID:one");
    server.reached("ID:two");
    server.open("ID:one");
    running.line("the first has reached the budget", |l| l["subtype"] == "limit");
    server.open("ID:two");
    let done = running.wait();
    let (message, _) = limited(&done, "--max-tokens-total");
    assert!(message.contains("general-purpose ×2"), "{message}");
    let used: u64 = tokens(&done.result()["usage"]);
    assert!(message.contains(&format!("{used} were used")), "{message}: {used}");
    assert_eq!(server.requests().len(), 4, "the dry one, the leader's, one of each");
    server.all_played();
    assert_eq!(world.check_transcripts(), 4);
    // Both agents were told which limit ended them, and their last words are kept.
    let lead = world.sessions().into_iter().flat_map(|path| crate::support::state::jsonl(&path));
    let results = lead.filter(|l| l["message"]["content"][0]["type"] == "tool_result");
    let text = results.map(|l| l["message"]["content"].to_string()).collect::<String>();
    for words in ["budget of", "ID:one", "ID:two"] {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn money_is_bounded_where_prices_are_known_and_refused_where_not() {
    let server = ModelServer::start();
    let world = server.world();
    let done = world.festoon(["-p", "ID:lead", "--max-cost", "1", "--json"]).run();
    done.code(2);
    let error = done.error();
    let said = error["message"].as_str().expect("text");
    assert!(said.contains("--max-cost") && said.contains("anthropic:test-model"), "{error}");
    assert!(error["hint"].as_str().is_some_and(|h| h.contains("prices")), "{error}");
    assert_eq!(server.requests().len(), 0);

    let settings = json!({ "prices": { "test-model": { "input": 1000, "output": 1000 } } }).to_string();
    let call =
        call_as("a", "Agent", json!({ "description": "d", "prompt": "ID:odd", "model": "anthropic:odd" }));
    server.on(prompt("ID:lead"), [[call].into()]);
    let done = world
        .festoon(["-p", "ID:lead", "--max-cost", "0.5", "--output-format", "json", "--settings", &settings])
        .run();
    let (message, _) = limited(&done, "--max-cost");
    let cost = done.result()["total_cost_usd"].as_f64().expect("known");
    assert!(cost > 0.5 && message.contains(&format!("${cost:.2} were spent (team-lead $")), "{message}");
    assert_eq!(server.requests().len(), 1, "a model of unknown price was not asked");
}

#[test]
fn a_tree_that_grows_without_end_stops_at_its_limits() {
    let server = ModelServer::start();
    let world = server.world();
    let three = |id: &str| {
        let child = call("Agent", json!({ "description": "a job", "prompt": id }));
        vec![child.clone(), child.clone(), child]
    };
    // These see reason when they are refused.
    server.always(prompt("ID:grow").input("no agent may be started"), say("I do it myself."));
    server.always(prompt("ID:grow").input("tool_result"), say("They have done it."));
    server.always(prompt("ID:grow"), three("ID:grow"));
    let done = world
        .festoon([
            "-p",
            "ID:grow",
            "--max-agents-total",
            "20",
            "--max-agents",
            "3",
            "--output-format",
            "json",
        ])
        .run();
    done.code(0);
    assert_eq!(world.sidechains().len(), 20);
    world.all_gone();
    assert_eq!(world.check_transcripts(), 21);

    // These never do. Each is refused three times and ends, in the foreground and in the background, and so
    // does the one above it.
    for (n, beside) in [false, true].into_iter().enumerate() {
        let id = format!("ID:mad-{n}");
        let child =
            call("Agent", json!({ "description": "a job", "prompt": &id, "run_in_background": beside }));
        server.always(prompt(&id), vec![child.clone(), child.clone(), child]);
        let mad = ["-p", &id, "--max-agents-total", "30", "--output-format", "json"];
        let done = world.festoon(mad).run();
        let (message, _) = limited(&done, "--max-agents-total");
        assert!(message.contains("this session has started 30, and the limit is 30"), "{message}");
        world.all_gone();
        assert_eq!(world.check_transcripts(), 21 + (n + 1) * (1 + 30));
    }

    // Nor do forks, which start no agents at all.
    let child = call("Agent", json!({ "description": "a job", "prompt": "ID:none" }));
    server.always(fork("ID:mad-fork"), vec![child.clone(), child]);
    let forks = json!({ "description": "a job", "prompt": "ID:mad-fork", "subagent_type": "fork" });
    server.always(prompt("ID:forks").input("<task-notification>"), say("So be it."));
    server.on(prompt("ID:forks"), [call("Agent", forks).into(), say("On.").into()]);
    world.festoon(["-p", "ID:forks"]).run();
    assert_eq!(server.of_fork("ID:mad-fork").len(), 3);
    let told = server.last_of("ID:forks").input();
    assert!(told.contains("<status>failed</status>") && told.contains("A fork starts no agents"), "{told}");

    // A budget ends them earlier.
    server.always(prompt("ID:poor"), three("ID:poor"));
    let done = world
        .festoon(["-p", "ID:poor", "--max-agents-total", "30", "--max-tokens-total", "20000"])
        .args(["--output-format", "json"])
        .run();
    let (message, _) = limited(&done, "--max-tokens-total");
    assert!(message.contains("general-purpose ×"), "{message}");
    world.all_gone();
}

#[test]
fn a_limit_of_a_teammate_ends_the_run_and_its_mail_waits() {
    let server = ModelServer::start();
    let world = server.world();
    let budget = one_request(&server, &world) * 2 + 1000;
    server.on(prompt("ID:lead"), [[start("a", "anna", "ID:anna")].into(), say("Waiting.").into()]);
    server.on(prompt("ID:anna"), [[gate("anna"), say("I look."), look("g")].into()]);
    let running = world
        .festoon(["-p", "ID:lead", "--output-format", "json", "--max-tokens-total"])
        .args([budget.to_string()])
        .start();
    server.wait_for("ID:lead", 2);
    server.open("anna");
    let done = running.wait();
    let (message, _) = limited(&done, "--max-tokens-total");
    assert!(message.contains("anna "), "{message}");
    assert_eq!(done.result()["result"], "Waiting.");
    assert_eq!(server.requests().len(), 4);
    let limits = world.events_of("limit");
    assert_eq!(limits.iter().map(|l| l["agent"].clone()).collect::<Vec<_>>(), ["anna", "team-lead"]);
    assert_eq!(limits[0]["limit"], "maxTokensTotal");
    let notice = world.mail("team-lead").into_iter().find(|m| m["from"] == "anna").expect("a notice");
    assert_eq!((&notice["read"], &notice["payload"]["reason"]), (&json!(false), &json!("blocked")));
    assert_eq!(world.members()[0]["ended"]["state"], "stopped");
    let listed = world.festoon(["ps", "--all"]).run().code(0).stdout.clone();
    let sums = regex::Regex::new(r"stopped · [0-9.]+k of [0-9.]+k tokens · \$\?").expect("a pattern");
    assert!(sums.is_match(&listed), "{listed}");
}

#[test]
fn all_processes_of_a_team_share_places_and_budget() {
    let server = ModelServer::start();
    let world = server.world();
    let tmux = Tmux::start(&world);
    server.on(
        prompt("ID:lead"),
        [
            [start("a", "anna", "ID:anna")].into(),
            [gate("works"), agent("s", "ID:child")].into(),
            say("Waiting.").into(),
        ],
    );
    server.on(prompt("ID:anna"), [[gate("anna"), say("Anna is done.")].into()]);
    server.on(prompt("ID:child"), [[gate("child"), say("The child is done.")].into()]);
    server.always(prompt("ID:lead"), say("All is done."));
    let args = ["-p", "ID:lead", "--teammate-mode", "tmux", "--output-format", "json", "--max-agents", "1"];
    let leader = tmux.leader(&world.env, &args);
    server.reached("anna");
    server.open("works");
    let waits = || {
        let started = json_file(&world.team().join("ledger.json"))["started"].clone();
        (started == json!(2)).then_some(())
    };
    wait::find("the child is counted", wait::PATIENCE, waits);
    let ledger = || json_file(&world.team().join("ledger.json"));
    let holders = ledger()["holders"].clone();
    assert_eq!(holders.as_array().map(Vec::len), Some(1), "{holders}");
    assert_eq!(holders[0]["process"]["pid"], json!(worker(&world, "anna")));
    assert_eq!(server.of("ID:child").len(), 0, "the only place is in another process");
    server.open("anna");
    // Told by the file, well before anybody would look again by the slowest net.
    server.reached("child");
    server.open("child");
    assert_eq!(leader.wait(), 0, "{}", leader.stderr());
    let book = ledger();
    let labels: Vec<&str> =
        book["agents"].as_array().expect("rows").iter().filter_map(|r| r["label"].as_str()).collect();
    assert_eq!(labels.len(), 3);
    assert!(["team-lead", "anna", "general-purpose"].iter().all(|l| labels.contains(l)), "{labels:?}");
    let result: Value = serde_json::from_str(leader.stdout().lines().last().expect("a line")).expect("JSON");
    // The worker's tokens are in the leader's result: all that stand in any transcript.
    let transcripts = world.sessions().into_iter().chain(world.sidechains());
    let lines = transcripts.flat_map(|path| crate::support::state::jsonl(&path));
    let all: u64 = lines.filter(|l| l["type"] == "assistant").map(|l| tokens(&l["message"]["usage"])).sum();
    let said = [&result["usage"], &result["model_usage"]["anthropic:test-model"]].map(tokens);
    assert_eq!(said, [all, all]);
    assert_eq!(ledger()["holders"], json!([]));
}

#[test]
fn a_budget_that_a_worker_uses_up_ends_its_leader_too() {
    let server = ModelServer::start();
    let world = server.world();
    let budget = one_request(&server, &world) * 2 + 1000;
    let tmux = Tmux::start(&world);
    server.on(prompt("ID:lead"), [[start("a", "anna", "ID:anna")].into(), say("Waiting.").into()]);
    server.on(prompt("ID:anna"), [[gate("anna"), say("I look."), look("g")].into()]);
    let budget = budget.to_string();
    let args = [
        "-p",
        "ID:lead",
        "--teammate-mode",
        "tmux",
        "--output-format",
        "json",
        "--max-tokens-total",
        &budget,
    ];
    let leader = tmux.leader(&world.env, &args);
    server.wait_for("ID:lead", 2);
    server.reached("anna");
    server.open("anna");
    // `xargs` says 123 for any failure of what it runs.
    assert_eq!(leader.wait(), 123, "{}", leader.stderr());
    let result: Value = serde_json::from_str(leader.stdout().lines().last().expect("a line")).expect("JSON");
    assert_eq!(result["subtype"], "error_limit", "{result}");
    assert!(result["error"]["message"].as_str().is_some_and(|m| m.contains("anna ")), "{result}");
    assert_eq!(server.requests().len(), 4);
    assert_eq!(world.members()[0]["ended"]["state"], "stopped");
}

#[test]
fn a_teammate_at_a_budget_goes_on_when_a_new_leader_raises_it() {
    let server = ModelServer::start();
    let world = server.world();
    let budget = one_request(&server, &world) * 2 + 1000;
    let tmux = Tmux::start(&world);
    server.on(prompt("ID:lead"), [[start("a", "anna", "ID:anna")].into(), say("Waiting.").into()]);
    server.on(
        prompt("ID:anna"),
        [[gate("anna"), say("I look."), look("g")].into(), [gate("again"), say("Anna has seen it.")].into()],
    );
    let budget = budget.to_string();
    let common = ["--teammate-mode", "tmux", "--output-format", "json", "--keep-team"];
    let first = ["-p", "ID:lead", "--session-id", "s1", "--max-tokens-total", &budget];
    let leader = tmux.leader(&world.env, &[&first[..], &common[..]].concat());
    server.wait_for("ID:lead", 2);
    server.open("anna");
    assert_eq!(leader.wait(), 123, "{}", leader.stderr());
    assert_eq!(server.of("ID:anna").len(), 1);
    server.always(prompt("ID:lead"), say("Ok."));
    let second = ["-p", "Go on.", "--resume", "s1", "--max-tokens-total", "10000000"];
    let leader = tmux.leader(&world.env, &[&second[..], &common[..4]].concat());
    server.reached("again");
    server.open("again");
    assert_eq!(leader.wait(), 0, "{}", leader.stderr());
    let said: Vec<String> = server.last_of("ID:lead").mail().concat();
    assert!(said.iter().any(|m| m.contains("Anna has seen it.")), "{said:?}");
}

#[test]
fn what_a_provider_tells_one_process_holds_the_others() {
    let server = ModelServer::start();
    let world = server.world();
    let settings = r#"{"retry":{"baseDelayMs":1,"maxDelayMs":2000,"maxAttempts":4}}"#;
    std::fs::write(world.home.join("settings.json"), settings).expect("settings");
    let tmux = Tmux::start(&world);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let timed = |name: &'static str, reply: fn() -> Reply| {
        let asked = Arc::clone(&asked);
        Reply::with(move |_| {
            asked.lock().expect("times").push((name, Instant::now()));
            reply()
        })
    };
    let refused = || Reply::Status {
        status: 429,
        kind: "rate_limit_error",
        message: "slow down".into(),
        headers: vec![("retry-after", "2".into())],
    };
    server.on(prompt("ID:anna"), [[gate("anna"), look("g")].into(), timed("anna", || say("Seen.").into())]);
    server.on(
        prompt("ID:lead"),
        [
            [start("a", "anna", "ID:anna")].into(),
            [gate("works"), look("g")].into(),
            timed("refused", refused),
            timed("lead", || say("Waiting.").into()),
        ],
    );
    server.always(prompt("ID:lead"), say("Ok."));
    let args = ["-p", "ID:lead", "--teammate-mode", "tmux", "--output-format", "stream-json"];
    let leader = tmux.leader(&world.env, &args);
    server.reached("anna");
    server.open("works");
    let stamp = || world.team().join("rate.json").exists();
    wait::until("the pause is written", stamp);
    server.open("anna");
    assert_eq!(leader.wait(), 0, "{}", leader.stderr());
    let asked = asked.lock().expect("times").clone();
    let at = |name: &str| asked.iter().find(|(who, _)| *who == name).expect("asked").1;
    for name in ["anna", "lead"] {
        let waited = at(name) - at("refused");
        // The clock of the stamp counts milliseconds.
        assert!(waited >= Duration::from_millis(1998), "{name}: {waited:?}");
        assert!(waited < Duration::from_secs(20), "{name}: {waited:?}");
    }
    let out = leader.stdout();
    let told = out.lines().filter(|l| l.contains(r#""subtype":"retry""#)).count();
    assert_eq!(told, 1, "{out}");
}

/// A run that is held in the middle of its first answer.
fn held(server: &ModelServer, world: &World, id: &str, args: &[&str]) -> crate::support::run::Running {
    server.on(prompt(id), [[gate(id), say("I look."), look("g")].into(), say("There.").into()]);
    let running = world.festoon(["-p", id, "--output-format", "json"]).args(args).start();
    server.reached(id);
    running
}

#[test]
fn a_budget_whose_ledger_cannot_be_written_begins_nothing_more() {
    let server = ModelServer::start();
    let world = server.world();
    let budget = ["--max-tokens-total", "1000000", "--session-id", "s1"];
    let running = held(&server, &world, "ID:bound", &budget);
    let file = world.team().join("ledger.json");
    // The ledger can be read still, and not be replaced.
    let blocker = world.team().join(".ledger.tmp");
    std::fs::create_dir_all(blocker.join("x")).expect("dir");
    server.open("ID:bound");
    let done = running.wait();
    done.code(1);
    let result = done.result();
    assert_eq!(result["subtype"], "error_during_execution");
    let error = &result["error"];
    assert_eq!(error["kind"], "disk", "{error}");
    let message = error["message"].as_str().expect("text");
    assert!(message.starts_with(&format!("cannot write {}: ", file.display())), "{message}");
    assert!(error["hint"].as_str().expect("text").contains("budgets are kept in this file"), "{error}");
    assert_eq!(server.of("ID:bound").len(), 1, "none was begun");
    // Nothing was forgotten: what could not be written into the team's ledger is kept with the session.
    let again = world
        .festoon(["-p", "ID:again", "--resume", "s1", "--max-tokens-total", "1", "--output-format", "json"])
        .run();
    limited(&again, "--max-tokens-total");
    assert_eq!(server.of("ID:bound").len(), 1);
}

#[test]
fn a_last_answer_that_could_not_be_counted_is_no_success() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:last"), [[gate("last"), say("Done.")].into()]);
    let running =
        world.festoon(["-p", "ID:last", "--output-format", "json", "--max-tokens-total", "99999"]).start();
    server.reached("last");
    std::fs::create_dir_all(world.team().join(".ledger.tmp/x")).expect("dir");
    server.open("last");
    let done = running.wait();
    done.code(1);
    let result = done.result();
    assert_eq!((&result["result"], &result["is_error"]), (&json!("Done."), &json!(true)));
    assert!(result["error"]["message"].as_str().is_some_and(|m| m.contains("ledger.json")), "{result}");
}

#[test]
fn without_a_budget_a_ledger_that_cannot_be_written_stops_nobody() {
    let server = ModelServer::start();
    let world = server.world();
    let running = held(&server, &world, "ID:free", &[]);
    let blocker = world.team().join(".ledger.tmp");
    std::fs::create_dir_all(blocker.join("x")).expect("dir");
    server.open("ID:free");
    let done = running.wait();
    done.code(0);
    assert_eq!(done.result()["result"], "There.");
    assert!(done.stderr.contains("was not counted"), "{}", done.stderr);
}

#[test]
fn a_ledger_that_cannot_be_read_is_never_zero() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [say("One.").into()]);
    let budget = ["--max-tokens-total", "1000000", "--output-format", "json"];
    world.festoon(["-p", "ID:lead", "--session-id", "s1"]).args(budget).run().code(0);
    let session = world.sessions()[0].with_extension("");
    let ledger = session.join("ledger.json");
    let good = std::fs::read(&ledger).expect("kept");
    let spoil: [(&str, &dyn Fn()); 3] = [
        ("damaged", &|| std::fs::write(&ledger, "{\"version\":1").expect("writes")),
        ("version 9", &|| {
            std::fs::write(&ledger, r#"{"version":9,"limits":{"maxAgents":1,"maxAgentsTotal":1}}"#)
                .expect("writes")
        }),
        ("directory", &|| {
            std::fs::remove_file(&ledger).expect("removes");
            std::fs::create_dir(&ledger).expect("dir");
        }),
    ];
    for (word, spoil) in spoil {
        spoil();
        let done = world.festoon(["-p", "ID:more", "--resume", "s1"]).args(budget).run();
        done.code(1);
        let error = done.error();
        let message = error["message"].as_str().expect("text");
        assert!(message.contains(ledger.to_str().expect("UTF-8")) && message.contains(word), "{error}");
        assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("move it away")), "{error}");
    }
    assert_eq!(server.requests().len(), 1);
    std::fs::remove_dir(&ledger).expect("removes");
    std::fs::write(&ledger, good).expect("writes");
    server.on(prompt("ID:lead"), [say("Two.").into()]);
    world.festoon(["-p", "ID:more", "--resume", "s1"]).args(budget).run().code(0);
}
