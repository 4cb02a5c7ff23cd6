//! Hooks end to end: real commands at every event, and what becomes of their answers.

use crate::support::model_server::{ModelServer, Part, Reply, call_as, gate, prompt, say};
use crate::support::panes::Tmux;
use crate::support::run::Done;
use crate::support::state::json_file;
use crate::support::wait;
use crate::support::world::{KEY, World};
use crate::teammates::start;
use crate::worktrees::{isolated, repository, trees};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

/// A child that shields itself against everything but KILL.
const STUBBORN: &str = "( setsid sh -c 'trap \"\" TERM HUP INT; echo > stubborn; while :; do sleep 600; done' \
                        </dev/null >/dev/null 2>&1 & ) & wait; sleep 600";

/// The user's settings: these hooks.
fn hooks(world: &World, hooks: &Value) {
    fs::create_dir_all(&world.home).expect("dir");
    let path = world.home.join("settings.json");
    let text = fs::read_to_string(&path).unwrap_or_else(|_| "{}".to_owned());
    let mut settings: Value = serde_json::from_str(&text).expect("JSON");
    settings["hooks"] = hooks.clone();
    fs::write(path, settings.to_string()).expect("settings");
}

/// One command at an event.
fn runs(command: &str) -> Value {
    json!([{ "hooks": [{ "type": "command", "command": command }] }])
}

/// A hook that says this about a tool.
fn says(tool: &str, output: &Value) -> Value {
    json!([{ "matcher": tool, "hooks": [{ "command": format!("cat >/dev/null; printf %s '{output}'") }] }])
}

fn decides(tool: &str, decision: &str) -> Value {
    let output = json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse", "permissionDecision": decision,
                         "permissionDecisionReason": "the hook says so" } });
    says(tool, &output)
}

fn touch(id: &str) -> Part {
    call_as(id, "Bash", json!({ "command": format!("touch {id}") }))
}

/// A world in which every event is written down.
struct Log {
    file: PathBuf,
}

impl Log {
    fn of(world: &World) -> Self {
        Self { file: world.outside().join("events.jsonl") }
    }

    fn command(&self) -> String {
        format!("cat >>'{}'", self.file.display())
    }

    fn events(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// The members of the events of one kind and one type of agent.
    fn of_kind(&self, kind: &str, agent: &str, members: &[&str]) -> Vec<Value> {
        let fits = |e: &&Value| e["hook_event_name"] == kind && e["agent_type"] == agent;
        let events = self.events();
        events.iter().filter(fits).map(|e| members.iter().map(|m| e[*m].clone()).collect()).collect()
    }
}

#[test]
fn every_event_says_what_happens_to_whom() {
    let server = ModelServer::start();
    let world = server.world();
    let log = Log::of(&world);
    let all = [
        "SessionStart",
        "SessionEnd",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PermissionRequest",
        "Notification",
        "Stop",
        "SubagentStart",
        "SubagentStop",
        "TeammateIdle",
        "TaskCreated",
        "TaskCompleted",
        "PreCompact",
        "WorktreeCreate",
        "WorktreeRemove",
    ];
    let every: serde_json::Map<String, Value> =
        all.iter().map(|event| ((*event).to_owned(), runs(&log.command()))).collect();
    hooks(&world, &Value::Object(every));
    let child = call_as(
        "sub",
        "Agent",
        json!({ "description": "d", "prompt": "ID:child", "subagent_type": "Explore" }),
    );
    server.on(
        prompt("ID:lead"),
        [
            [touch("made"), child].into(),
            [start("mate", "anna", "ID:anna")].into(),
            say("Waiting.").into(),
            say("All done.").into(),
        ],
    );
    server.on(prompt("ID:child"), [say("Child is done.").into()]);
    server.on(prompt("ID:anna"), [[gate("anna"), say("Anna is done.")].into()]);
    let running = world.festoon(["-p", "ID:lead", "--allowed-tools", "Bash(touch:*),Agent"]).start();
    server.wait_for("ID:lead", 3);
    server.open("anna");
    let done = running.wait();
    done.code(0);
    assert_eq!(done.stderr, "");
    server.all_played();

    let session = world.sessions().pop().expect("a session");
    let id = session.file_stem().and_then(|s| s.to_str()).expect("a name").to_owned();
    let lead = log.of_kind(
        "SessionStart",
        "main",
        &["session_id", "transcript_path", "cwd", "permission_mode", "source"],
    );
    assert_eq!(lead, [json!([id, session, world.project, "default", "startup"])]);
    assert_eq!(log.of_kind("SessionEnd", "main", &["reason"]), [json!(["done"])]);
    assert_eq!(log.of_kind("UserPromptSubmit", "main", &["prompt"]), [json!(["ID:lead"])]);
    let before = log.of_kind("PreToolUse", "main", &["tool_name", "tool_use_id", "tool_input"]);
    assert_eq!(before[0], json!(["Bash", "made", { "command": "touch made" }]));
    assert_eq!(before.len(), 3);
    let after = log.of_kind("PostToolUse", "main", &["tool_name", "tool_use_id", "tool_response"]);
    assert_eq!(after[0], json!(["Bash", "made", { "content": "", "is_error": false }]));
    assert_eq!(after.len(), 3);
    let stops = log.of_kind("Stop", "main", &["last_assistant_message", "stop_hook_active"]);
    assert_eq!(stops, [json!(["Waiting.", false]), json!(["All done.", false])]);
    let began = log.of_kind("SubagentStart", "Explore", &["agent_id", "permission_mode"]);
    assert_eq!((began.len(), &began[0][1]), (1, &json!("plan")));
    let ended =
        log.of_kind("SubagentStop", "Explore", &["agent_id", "last_assistant_message", "transcript_path"]);
    assert_eq!((&ended[0][0], &ended[0][1]), (&began[0][0], &json!("Child is done.")));
    assert!(PathBuf::from(ended[0][2].as_str().expect("a path")).is_file());
    let idle = log.of_kind("TeammateIdle", "general-purpose", &["teammate_name", "last_assistant_message"]);
    assert_eq!(idle, [json!(["anna", "Anna is done."])]);
    for never in ["PermissionRequest", "Notification", "PreCompact", "TaskCreated", "TaskCompleted"] {
        assert!(!log.events().iter().any(|e| e["hook_event_name"] == never), "{never}");
    }
    assert_eq!(world.check_transcripts(), 3);
}

/// A run in which the model tries to touch files, with these hooks before each call.
fn tried(ids: &[&str], before: &Value, args: &[&str]) -> (Done, ModelServer, World) {
    let server = ModelServer::start();
    let world = server.world();
    hooks(&world, &json!({ "PreToolUse": before }));
    let calls: Vec<Part> = ids.iter().map(|id| touch(id)).collect();
    server.on(prompt("ID:try"), [Reply::from(calls), say("done").into()]);
    let done = world.festoon(["-p", "ID:try", "--output-format", "json"]).args(args).run();
    world.check_transcripts();
    (done, server, world)
}

const FREE: [&str; 2] = ["--permission-mode", "bypassPermissions"];

#[test]
fn a_hook_refuses_by_its_status_or_in_words() {
    let by_status = runs("grep -q 'touch no' && { echo 'not this one' >&2; exit 2; }; exit 0");
    let (done, server, world) = tried(&["no", "yes"], &by_status, &FREE);
    done.code(0);
    let last = server.last_of("ID:try");
    assert_eq!(last.result("no"), ("A hook refused this call: not this one".to_owned(), true));
    assert!(
        !last.result("yes").1 && world.project.join("yes").exists() && !world.project.join("no").exists()
    );
    let denials = done.result()["permission_denials"].clone();
    assert_eq!((denials.as_array().map(Vec::len), &denials[0]["tool_use_id"]), (Some(1), &json!("no")));
    assert_eq!(denials[0]["reason"], "a hook refused it: not this one");

    let (done, server, world) = tried(&["no"], &decides("Bash", "deny"), &FREE);
    done.code(0);
    assert_eq!(
        server.last_of("ID:try").result("no"),
        ("A hook refused this call: the hook says so".to_owned(), true)
    );
    assert!(!world.project.join("no").exists());

    let (_, server, _) = tried(&["yes"], &decides("Edit|Write", "deny"), &FREE);
    assert!(!server.last_of("ID:try").result("yes").1, "the matcher names other tools");
}

#[test]
fn an_allowing_hook_skips_a_question_and_never_a_refusal() {
    let (done, _, world) = tried(&["made"], &decides("Bash", "allow"), &[]);
    done.code(0);
    assert!(world.project.join("made").exists());
    for args in [&["--disallowed-tools", "Bash(touch:*)"][..], &["--permission-mode", "dontAsk"]] {
        let (done, server, world) = tried(&["made"], &decides("Bash", "allow"), args);
        done.code(0);
        assert!(
            server.last_of("ID:try").result("made").1 && !world.project.join("made").exists(),
            "{args:?}"
        );
    }
    // And one that wants a question has it asked, where all is allowed.
    let (done, server, world) = tried(&["made"], &decides("Bash", "ask"), &FREE);
    done.code(5);
    assert!(server.last_of("ID:try").result("made").0.contains("needs a person's yes"));
    assert!(!world.project.join("made").exists());
    // Of several the strictest counts.
    let mut both = decides("Bash", "allow");
    both.as_array_mut().expect("a list").extend(decides("Bash", "deny").as_array().cloned().expect("a list"));
    let (_, server, _) = tried(&["made"], &both, &FREE);
    assert!(server.last_of("ID:try").result("made").1);
}

#[test]
fn a_changed_input_is_checked_and_decided_about_again() {
    let changed = |input: Value| {
        says(
            "Bash",
            &json!({ "hookSpecificOutput": { "permissionDecision": "allow", "updatedInput": input } }),
        )
    };
    let (done, server, world) = tried(&["old"], &changed(json!({ "command": "touch new" })), &[]);
    done.code(0);
    assert!(!server.last_of("ID:try").result("old").1);
    assert!(world.project.join("new").exists() && !world.project.join("old").exists());

    let denied = ["--disallowed-tools", "Bash(touch new:*)"];
    let (_, server, world) = tried(&["old"], &changed(json!({ "command": "touch new" })), &denied);
    let (text, failed) = server.last_of("ID:try").result("old");
    assert!(failed && text.contains("Permission denied"), "{text}");
    assert!(!world.project.join("new").exists());

    for wrong in [json!({ "command": 5 }), json!({}), json!("touch new")] {
        let (done, server, world) = tried(&["old"], &changed(wrong), &FREE);
        done.code(0);
        let (text, failed) = server.last_of("ID:try").result("old");
        assert!(failed && text.starts_with("Nothing was run: a hook changed the input"), "{text}");
        assert!(!world.project.join("old").exists());
    }
    // Without a decision the changed call is asked about, as any other.
    let silent =
        says("Bash", &json!({ "hookSpecificOutput": { "updatedInput": { "command": "touch new" } } }));
    let (done, _, world) = tried(&["old"], &silent, &["--allowed-tools", "Bash(touch old)"]);
    done.code(5);
    assert!(!world.project.join("new").exists());
}

#[test]
fn what_fails_is_a_warning_and_the_work_goes_on() {
    let server = ModelServer::start();
    let world = server.world();
    let before = json!([
        { "hooks": [{ "command": "echo broken >&2; exit 1" }, { "command": "no-such-program-here" }] },
        { "hooks": [{ "command": "echo '{' " }, { "command": "kill -9 $$" }] },
        { "hooks": [{ "command": "sh -c 'yes | head -c 5000000'" }, { "command": "exec <&-; exit 0" }] },
    ]);
    hooks(&world, &json!({ "PreToolUse": before }));
    server.on(prompt("ID:go"), [[touch("made")].into(), say("done").into()]);
    let done = world.festoon(["-p", "ID:go"]).args(FREE).run();
    done.code(0);
    assert!(world.project.join("made").exists());
    let said: Vec<&str> = done.stderr.lines().collect();
    assert_eq!(said.len(), 4, "{said:#?}");
    for (line, wanted) in said.iter().zip([
        "it ended with exit status 1: broken (`echo broken >&2; exit 1`)",
        "it ended with exit status 127: ",
        "its output cannot be used: ",
        "it was killed by signal 9 (KILL) (`kill -9 $$`)",
    ]) {
        assert!(line.contains("PreToolUse hook: ") && line.contains(wanted), "{wanted}: {line}");
    }
}

#[test]
fn a_hook_that_takes_too_long_is_ended_with_all_it_started() {
    let server = ModelServer::start();
    let world = server.world();
    let slow = json!([{ "hooks": [{ "command": STUBBORN, "timeout": 1 }] }]);
    hooks(&world, &json!({ "PreToolUse": slow }));
    let look = call_as("look", "Bash", json!({ "command": "pgrep -f 'trap \"\" TERM' | wc -l; ls" }));
    server.on(prompt("ID:slow"), [[look].into(), [gate("after"), say("done")].into()]);
    let running = world.festoon(["-p", "ID:slow"]).args(FREE).start();
    server.reached("after");
    assert!(world.project.join("stubborn").exists(), "the grandchild was there");
    let living: Vec<u32> = world.living();
    assert_eq!(living, [running.pid()], "only the program runs");
    server.open("after");
    let done = running.wait();
    done.code(0);
    assert!(done.stderr.contains("it took longer than 1 s and was ended"), "{}", done.stderr);
    assert!(!server.last_of("ID:slow").result("look").1);
}

#[test]
fn an_interrupt_or_a_kill_leaves_no_hook_behind() {
    let interrupted = ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"];
    let killed = ["SessionStart", "PreToolUse"];
    for (signal, events) in [(Signal::SIGINT, &interrupted[..]), (Signal::SIGKILL, &killed)] {
        for event in events {
            let server = ModelServer::start();
            let world = server.world();
            hooks(&world, &json!({ *event: runs(STUBBORN) }));
            server.on(prompt("ID:long"), [[touch("made")].into(), say("done").into()]);
            let running = world.festoon(["-p", "ID:long"]).args(FREE).start();
            wait::until("the hook runs", || world.project.join("stubborn").exists());
            running.signal(signal);
            let done = running.wait();
            if signal == Signal::SIGINT {
                done.code(130);
                assert_eq!(world.living(), Vec::<u32>::new(), "{event}");
            }
            world.all_gone();
        }
    }
}

#[test]
fn a_prompt_gets_context_or_is_refused() {
    let server = ModelServer::start();
    let world = server.world();
    let at_start = "grep -o '\"source\":\"[a-z]*\"'";
    let at_prompt = "input=$(cat); case \"$input\" in *secret*) echo 'no secrets' >&2; exit 2;; esac; echo 'Mind the gap.'";
    hooks(&world, &json!({ "SessionStart": runs(at_start), "UserPromptSubmit": runs(at_prompt) }));
    server.on(prompt("ID:one"), [say("done").into()]);
    world.festoon(["-p", "ID:one"]).run().code(0);
    let first = server.last_of("ID:one").prompt();
    let wanted = "A SessionStart hook adds:\n\"source\":\"startup\"\nA UserPromptSubmit hook adds:\nMind the gap.\nID:one";
    assert!(first.ends_with(wanted), "{first}");

    let refused = world.festoon(["-p", "my secret", "--output-format", "json"]).run();
    refused.code(1);
    assert_eq!(refused.error()["kind"], "hook");
    assert_eq!(refused.error()["message"], "a hook refused it: no secrets");
    assert_eq!(server.requests().len(), 1, "nothing was sent");
    let transcripts =
        world.sessions().iter().map(|s| fs::read_to_string(s).expect("text")).collect::<String>();
    assert!(!transcripts.contains("my secret"));

    server.on(prompt("ID:one").input("ID:two"), [say("again").into()]);
    let id = world
        .sessions()
        .iter()
        .map(|s| s.file_stem().and_then(|s| s.to_str()).expect("a name").to_owned())
        .find(|id| {
            fs::read_to_string(world.sessions()[0].with_file_name(format!("{id}.jsonl")))
                .expect("text")
                .contains("ID:one")
        })
        .expect("the session");
    world.festoon(["-p", "ID:two", "--resume", &id]).run().code(0);
    let input = server.last_of("ID:one").input();
    assert!(input.contains("\"source\":\"resume\""), "{input}");
}

#[test]
fn a_hook_sends_the_agent_on_but_not_for_ever() {
    let server = ModelServer::start();
    let world = server.world();
    hooks(
        &world,
        &json!({ "Stop": runs("grep -q '\"stop_hook_active\":true' || { echo 'run the tests' >&2; exit 2; }") }),
    );
    server.on(prompt("ID:once"), [say("Done, I think.").into(), say("Now it is.").into()]);
    let done = world.festoon(["-p", "ID:once"]).run();
    done.code(0);
    assert_eq!(done.stdout, "Now it is.\n");
    server.all_played();
    assert_eq!(server.last_of("ID:once").mail(), [["A Stop hook does not let you end yet: run the tests"]]);

    hooks(&world, &json!({ "Stop": runs(r#"echo '{"decision":"block","reason":"more"}'"#) }));
    server.always(prompt("ID:ever"), say("Done."));
    let done = world.festoon(["-p", "ID:ever"]).run();
    done.code(0);
    assert_eq!(server.of("ID:ever").len(), 9);
    assert!(
        done.stderr.contains("Stop hooks have sent the agent on 8 times in this turn; it ends"),
        "{}",
        done.stderr
    );
    world.check_transcripts();
}

#[test]
fn subagents_and_teammates_are_sent_on_by_their_own_events() {
    let server = ModelServer::start();
    let world = server.world();
    let once =
        |what: &str| runs(&format!("grep -q 'hook_active\":true' || {{ echo '{what}' >&2; exit 2; }}"));
    hooks(
        &world,
        &json!({ "SubagentStop": once("sub goes on"), "TeammateIdle": once("mate goes on"),
                           "SubagentStart": runs(r#"echo '{"hookSpecificOutput":{"additionalContext":"Be kind."}}'"#) }),
    );
    let child = call_as("sub", "Agent", json!({ "description": "d", "prompt": "ID:child" }));
    server.on(prompt("ID:lead"), [[child].into(), [start("mate", "anna", "ID:anna")].into()]);
    server.always(prompt("ID:lead"), say("Ok."));
    server.on(prompt("ID:child"), [say("First.").into(), say("Second.").into()]);
    server.on(prompt("ID:anna"), [say("One.").into(), say("Two.").into()]);
    world.festoon(["-p", "ID:lead"]).run().code(0);
    server.all_played();
    assert!(server.last_of("ID:lead").result("sub").0.starts_with("Second.\n"));
    assert!(server.last_of("ID:child").prompt().ends_with("A SubagentStart hook adds:\nBe kind.\nID:child"));
    assert_eq!(
        server.last_of("ID:child").mail(),
        [["A SubagentStop hook does not let you end yet: sub goes on"]]
    );
    assert_eq!(
        server.last_of("ID:anna").mail(),
        [["A TeammateIdle hook does not let you end yet: mate goes on"]]
    );

    hooks(&world, &json!({ "SubagentStart": runs("echo 'none today' >&2; exit 2") }));
    let child = call_as("sub", "Agent", json!({ "description": "d", "prompt": "ID:never" }));
    server.on(prompt("ID:second"), [[child].into(), say("ok").into()]);
    world.festoon(["-p", "ID:second"]).run().code(0);
    let (text, failed) = server.last_of("ID:second").result("sub");
    assert!(failed && text.contains("a hook refused it: none today"), "{text}");
    assert_eq!(server.of("ID:never").len(), 0);
}

#[test]
fn a_result_gets_what_hooks_add_and_a_hook_can_end_the_work() {
    let server = ModelServer::start();
    let world = server.world();
    let adds = json!({ "hookSpecificOutput": { "hookEventName": "PostToolUse", "additionalContext": "Formatted it." } });
    let mut after = says("Bash", &adds);
    after
        .as_array_mut()
        .expect("a list")
        .push(json!({ "hooks": [{ "command": "echo 'lint fails' >&2; exit 2" }] }));
    hooks(&world, &json!({ "PostToolUse": after }));
    server.on(prompt("ID:post"), [[touch("made")].into(), say("done").into()]);
    world.festoon(["-p", "ID:post"]).args(FREE).run().code(0);
    let wanted = "\n\nFormatted it.\n\nA hook objects to what this call did: lint fails";
    assert_eq!(server.last_of("ID:post").result("made"), (wanted.to_owned(), false));

    let ends = json!({ "continue": false, "stopReason": "the budget is spent" });
    hooks(&world, &json!({ "PreToolUse": says("Bash", &ends) }));
    server.on(prompt("ID:end"), [[touch("first"), touch("second")].into()]);
    let done = world.festoon(["-p", "ID:end", "--output-format", "json"]).args(FREE).run();
    done.code(1);
    assert_eq!(done.error()["message"], "a hook stopped the work: the budget is spent");
    assert!(!world.project.join("first").exists() && !world.project.join("second").exists());
    assert_eq!(server.of("ID:end").len(), 1);
    world.check_transcripts();
}

#[test]
fn a_question_is_answered_by_a_hook_and_recorded_as_its_answer() {
    let server = ModelServer::start();
    let world = server.world();
    let log = Log::of(&world);
    let answer = |behavior: &str| {
        let said = json!({ "hookSpecificOutput": { "hookEventName": "PermissionRequest",
                           "decision": { "behavior": behavior, "message": "as the hook likes" } } });
        json!([{ "matcher": "Bash", "hooks": [{ "command": format!("{}; printf %s '{said}'", log.command()) }] }])
    };
    for (behavior, args) in [("allow", &["--ask-timeout", "600"][..]), ("deny", &[]), ("allow", &[])] {
        hooks(
            &world,
            &json!({ "PermissionRequest": answer(behavior), "Notification": runs(&log.command()) }),
        );
        let id = format!("ID:{behavior}{}", args.len());
        let _ = fs::remove_file(world.project.join("made"));
        server.on(prompt(&id), [[touch("made")].into(), say("done").into()]);
        let done = world.festoon(["-p", &id]).args(args).run();
        done.code(0);
        let (text, failed) = server.last_of(&id).result("made");
        assert_eq!(
            (failed, world.project.join("made").exists()),
            (behavior == "deny", behavior == "allow"),
            "{text}"
        );
        if behavior == "deny" {
            assert!(text.contains("denied by hook") && text.contains("as the hook likes"), "{text}");
        }
    }
    let asked = log.of_kind("PermissionRequest", "main", &["tool_name", "tool_input"]);
    assert_eq!(asked, vec![json!(["Bash", { "command": "touch made" }]); 3]);
    assert_eq!(log.of_kind("Notification", "main", &["message"]), Vec::<Value>::new(), "nobody was asked");
    let mut decided = Vec::new();
    for team in world.teams() {
        for file in fs::read_dir(team.join("asks")).expect("asks").flatten() {
            if file.file_name().to_string_lossy().ends_with(".decision.json") {
                let record = json_file(&file.path());
                decided.push((record["by"].clone(), record["decision"].clone()));
            }
        }
    }
    decided.sort_by_key(|(_, decision)| decision.to_string());
    assert_eq!(decided, ["allow", "allow", "deny"].map(|d| (json!("hook"), json!(d))));
}

#[test]
fn a_person_is_notified_of_what_no_hook_answers() {
    let server = ModelServer::start();
    let world = server.world();
    let log = Log::of(&world);
    let notify = json!([{ "matcher": "permission_prompt", "hooks": [{ "command": log.command() }] }]);
    hooks(&world, &json!({ "Notification": notify, "PermissionRequest": runs("exit 0") }));
    server.on(prompt("ID:ask"), [[touch("made")].into(), say("done").into()]);
    let running = world.festoon(["-p", "ID:ask", "--ask-timeout", "600"]).start();
    wait::until("the notice", || !log.events().is_empty());
    let open: Vec<Value> =
        serde_json::from_str(&world.festoon(["ask", "list", "--json"]).run().stdout).expect("a list");
    let event = &log.events()[0];
    assert_eq!(event["notification_type"], "permission_prompt");
    let message =
        format!("{} needs your permission: touch made", open[0]["agentId"].as_str().expect("an id"));
    assert_eq!(event["message"], message);
    world.festoon(["ask", "approve", open[0]["id"].as_str().expect("an id")]).run().code(0);
    running.wait().code(0);
    assert_eq!(log.events().len(), 1);
}

#[test]
fn questions_of_workers_are_answered_by_the_leaders_hooks() {
    let server = ModelServer::start();
    let world = server.world();
    let log = Log::of(&world);
    let said = json!({ "hookSpecificOutput": { "permissionDecision": "allow" } });
    // The worker's own environment names it; the leader's names nobody.
    let command = format!("{}; test -z \"$FESTOON_AGENT_NAME\" && printf %s '{said}'", log.command());
    hooks(
        &world,
        &json!({ "PermissionRequest": runs(&command), "PreToolUse": runs("printenv FESTOON_AGENT_NAME >>names; exit 0") }),
    );
    let tmux = Tmux::start(&world);
    server.on(prompt("ID:lead"), [[start("a", "anna", "ID:anna")].into()]);
    server.always(prompt("ID:lead"), say("Ok."));
    server.on(prompt("ID:anna"), [[touch("made")].into(), say("Anna is done.").into()]);
    let args = ["-p", "ID:lead", "--teammate-mode", "tmux", "--ask-timeout", "600"];
    let leader = tmux.leader(&world.env, &args);
    wait::until("the call ran", || world.project.join("made").exists());
    assert_eq!(leader.wait(), 0, "{}", leader.stderr());
    server.all_played();
    let asked: Vec<Value> =
        log.events().iter().map(|e| json!([e["agent_id"], e["agent_type"], e["tool_use_id"]])).collect();
    let team = world.team().file_name().and_then(|n| n.to_str()).expect("a team").to_owned();
    assert_eq!(asked, [json!([format!("anna@{team}"), "general-purpose", "made"])]);
    // Its other hooks run in its own process, with the same settings.
    assert_eq!(world.read("names"), "anna\n");
    let decisions = world.events_of("decision");
    assert_eq!((decisions.len(), &decisions[0]["by"]), (1, &json!("hook")));
}

#[test]
fn a_repository_runs_nothing_before_it_is_trusted() {
    let server = ModelServer::start();
    let world = server.world();
    let canary = |name: &str| format!("touch '{}'", world.outside().join(name).display());
    let events = ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"];
    let all: serde_json::Map<String, Value> =
        events.iter().map(|event| ((*event).to_owned(), runs(&canary("canary")))).collect();
    world.file(".festoon/settings.json", &json!({ "hooks": all }).to_string());
    world.file(
        ".festoon/settings.local.json",
        &json!({ "hooks": { "Stop": runs(&canary("local")) } }).to_string(),
    );
    let front = json!({ "SubagentStart": runs(&canary("definition")) });
    world.file(
        ".claude/agents/evil.md",
        &format!("---\nname: evil\ndescription: d\nhooks: {front}\n---\nYou are evil.\n"),
    );
    world.file(".festoon/agents/good.md", "---\nname: good\ndescription: d\n---\nYou are good.\n");
    let there = |name: &str| world.outside().join(name).exists();
    let child = |kind: &str| {
        call_as(kind, "Agent", json!({ "description": "d", "prompt": "ID:child", "subagent_type": kind }))
    };
    server.always(prompt("ID:child"), say("fine"));
    for (id, args) in [("ID:stranger", &[][..]), ("ID:friend", &["--trust"])] {
        server.on(prompt(id), [[touch("made"), child("evil"), child("good")].into(), say("done").into()]);
        let done = world.festoon(["-p", id]).args(FREE).args(args).run();
        done.code(0);
        let last = server.last_of(id);
        assert!(!last.result("good").1);
        if args.is_empty() {
            assert!(!there("canary") && !there("local") && !there("definition"));
            assert!(last.result("evil").1, "the definition is not there");
            let project = world.project.display();
            let wanted = format!(
                "warning: {project} is not trusted, so this was skipped: {project}/.festoon/settings.json: hooks; \
                 {project}/.festoon/settings.local.json: hooks; {project}/.claude/agents/evil.md: the definition `evil` \
                 with hooks; --trust takes it for one run, `festoon` at a terminal asks once\n"
            );
            assert_eq!(done.stderr, wanted);
        } else {
            assert!(there("canary") && there("local") && there("definition"));
            assert_eq!(done.stderr, "");
        }
    }
}

#[test]
fn hooks_of_a_definition_run_while_its_agent_does() {
    let server = ModelServer::start();
    let world = server.world();
    fs::create_dir_all(world.home.join("agents")).expect("dir");
    let hooks = "hooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks:\n        - type: command\n          command: echo own >>log\n  \
                 Stop:\n    - hooks:\n        - command: echo end >>log\n  Odd: []\n";
    let text = format!("---\nname: careful\ndescription: d\n{hooks}---\nBe careful.\n");
    fs::write(world.home.join("agents/careful.md"), text).expect("file");
    let child = call_as(
        "sub",
        "Agent",
        json!({ "description": "d", "prompt": "ID:child", "subagent_type": "careful" }),
    );
    server.on(
        prompt("ID:lead"),
        [[touch("before"), child].into(), [touch("after")].into(), say("done").into()],
    );
    server.on(prompt("ID:child"), [[touch("inside")].into(), say("ok").into()]);
    let done = world.festoon(["-p", "ID:lead"]).args(FREE).run();
    done.code(0);
    assert_eq!(world.read("log"), "own\nend\n");
    assert!(done.stderr.contains("careful.md:4: unknown key `hooks.Odd`"), "{}", done.stderr);
}

#[test]
fn hooks_see_no_key_and_know_the_project() {
    let server = ModelServer::start();
    let world = server.world();
    fs::create_dir_all(&world.home).expect("dir");
    let settings = json!({ "hooks": { "UserPromptSubmit": runs("env >seen") }, "env": { "MINE": "yes" } });
    fs::write(world.home.join("settings.json"), settings.to_string()).expect("settings");
    server.on(prompt("ID:env"), [say("done").into()]);
    world.festoon(["-p", "ID:env"]).run().code(0);
    let seen = world.read("seen");
    assert!(seen.contains("\nMINE=yes\n") || seen.starts_with("MINE=yes\n"), "{seen}");
    assert!(seen.contains(&format!("FESTOON_PROJECT_DIR={}\n", world.project.display())), "{seen}");
    assert!(!seen.contains(KEY) && !seen.contains("ANTHROPIC_API_KEY"), "{seen}");
}

#[test]
fn wrong_settings_are_named_and_unknown_ones_passed_over() {
    let world = World::new();
    let load = |hooks: Value| {
        let settings = json!({ "hooks": hooks }).to_string();
        world.festoon(["doctor", "--json", "--settings", &settings]).run().stdout
    };
    for (wrong, said) in [
        (json!({ "PreToolUse": {} }), "hooks.PreToolUse: invalid type: map, expected a sequence"),
        (json!({ "PreToolUse": [[]] }), "hooks.PreToolUse[0]: it must be a JSON object"),
        (
            json!({ "Stop": [{ "hooks": [{ "command": 5 }] }] }),
            "hooks.Stop[0].hooks[0].command: invalid type",
        ),
        (
            json!({ "Stop": [{ "hooks": [{ "type": "prompt", "command": "x" }] }] }),
            "unknown variant `prompt`",
        ),
        (
            json!({ "Stop": [{ "hooks": [{ "timeout": 5 }] }] }),
            "hooks.Stop[0].hooks[0]: missing field `command`",
        ),
        (json!({ "Stop": [{ "matcher": "(" }] }), "is no regular expression"),
    ] {
        let text = load(wrong.clone());
        assert!(text.contains("problem") && text.contains(said), "{wrong}: {text}");
    }
    let odd = json!({ "NoSuchEvent": [], "TaskCreated": runs("true"), "Stop": [{ "odd": 1, "hooks": [] }] });
    let text = load(odd);
    assert!(text.contains("--settings: unknown key hooks.NoSuchEvent is ignored"), "{text}");
    assert!(text.contains("--settings: unknown key hooks.Stop.0.odd is ignored"), "{text}");
    assert!(!text.contains("TaskCreated is ignored"), "{text}");
    hooks(&world, &json!({ "PreToolUse": decides("Bash", "deny"), "Stop": runs("true") }));
    let text = world
        .festoon(["doctor", "--json", "--settings", r#"{"hooks":{"Stop":[{"hooks":[{"command":"x"}]}]}}"#])
        .run()
        .stdout;
    assert!(text.contains("3 in the settings (PreToolUse 1, Stop 2)"), "{text}");
}

#[test]
fn what_the_user_says_to_a_working_agent_passes_the_same_hooks() {
    let server = ModelServer::start();
    let world = server.world();
    let at_prompt = "input=$(cat); case \"$input\" in *secret*) echo 'no secrets' >&2; exit 2;; *aside*) echo 'Heard.';; esac";
    hooks(&world, &json!({ "UserPromptSubmit": runs(at_prompt) }));
    let look = call_as("look", "Glob", json!({ "pattern": "*" }));
    server.on(prompt("ID:lead"), [[gate("lead"), look].into(), say("done").into()]);
    let running = world.festoon(["-p", "ID:lead"]).start();
    server.reached("lead");
    world.festoon(["send", "team-lead", "a secret word"]).run().code(0);
    world.festoon(["send", "team-lead", "by the way, an aside"]).run().code(0);
    server.open("lead");
    let done = running.wait();
    done.code(0);
    assert!(done.stderr.contains("a hook refused your message: no secrets"), "{}", done.stderr);
    let mail = server.last_of("ID:lead").mail().concat();
    assert_eq!(mail.len(), 3, "{mail:#?}");
    assert!(mail[0].contains("[a hook of the user refused this message, so it is not shown]"), "{mail:#?}");
    assert!(mail[1].contains("by the way, an aside"), "{mail:#?}");
    assert_eq!(mail[2], "A UserPromptSubmit hook adds:\nHeard.");
    assert!(!String::from_utf8_lossy(&server.last_of("ID:lead").raw).contains("a secret word"));
}

#[test]
fn a_compaction_is_allowed_by_hooks_and_begins_with_what_they_add() {
    let server = ModelServer::start();
    let world = server.world();
    let log = Log::of(&world);
    let before = format!("{}; test -e allowed || {{ echo 'not now' >&2; exit 2; }}", log.command());
    let after = json!([{ "matcher": "compact", "hooks": [{ "command": "echo 'Remember the milk.'" }] },
                       { "matcher": "startup", "hooks": [{ "command": "echo 'Good morning.'" }] }]);
    world.file("big.txt", &"a line of text as there are many\n".repeat(300));
    let read = || call_as("r", "Read", json!({ "file_path": "big.txt" }));
    let rounds =
        (0..6).map(|n| [call_as(&format!("r{n}"), "Read", json!({ "file_path": "big.txt" }))].into());
    server.on(
        prompt("ID:lead").input("Write the summary that takes its place"),
        [say("SUMMARY ID:lead").into()],
    );
    server.on(
        prompt("ID:lead"),
        rounds.chain([say("Done.").into(), [say("Hello."), read()].into(), say("Bye.").into()]),
    );
    hooks(&world, &json!({ "PreCompact": runs(&before), "SessionStart": after }));
    let lines = "ID:lead\n/compact the milk\n";
    let done = world.festoon([] as [&str; 0]).stdin(lines).run();
    assert!(done.stdout.contains("a hook refused it: not now"), "{}{}", done.stdout, done.stderr);
    let asked = log.of_kind("PreCompact", "main", &["trigger", "custom_instructions"]);
    assert_eq!(asked, [json!(["manual", "the milk"])]);
    assert!(!world.transcript().iter().any(|line| line["subtype"] == "compact_boundary"));

    world.file("allowed", "");
    let id = world.sessions()[0].file_stem().and_then(|s| s.to_str()).expect("a name").to_owned();
    let done = world.festoon(["--resume", &id]).stdin("/compact\nhello\n").run();
    done.code(0);
    assert!(done.stdout.contains("compacted: about"), "{}", done.stdout);
    let last = server.last_of("ID:lead").prompt();
    assert!(last.contains("SUMMARY"), "{last}");
    assert!(last.ends_with("A SessionStart hook adds:\nRemember the milk."), "{last}");
    world.check_transcripts();
}

#[test]
fn tasks_are_made_and_completed_with_the_leave_of_hooks() {
    let server = ModelServer::start();
    let world = server.world();
    let log = Log::of(&world);
    let refuse = |word: &str| {
        format!(
            "{}; tail -n 1 '{}' | grep -q '{word}' && {{ echo 'not that' >&2; exit 2; }}; exit 0",
            log.command(),
            log.file.display()
        )
    };
    hooks(&world, &json!({ "TaskCreated": runs(&refuse("dance")), "TaskCompleted": runs(&refuse("build")) }));
    let create = |id: &str, subject: &str| {
        call_as(id, "TaskCreate", json!({ "subject": subject, "description": "all of it" }))
    };
    let complete =
        |id: &str, task: &str| call_as(id, "TaskUpdate", json!({ "taskId": task, "status": "completed" }));
    server.on(
        prompt("ID:lead"),
        [
            [create("c1", "dance"), create("c2", "build"), create("c3", "test")].into(),
            [complete("u1", "1"), complete("u2", "2")].into(),
            say("done").into(),
        ],
    );
    world.festoon(["-p", "ID:lead"]).run().code(0);
    let last = server.last_of("ID:lead");
    let refused: Vec<String> =
        last.results().into_iter().filter(|(_, _, e)| *e).map(|(id, _, _)| id).collect();
    assert_eq!(refused, ["c1", "u1"], "{:#?}", last.results());
    assert_eq!(last.result("c1").0, "Nothing was changed: a hook refused it: not that");
    let made =
        log.of_kind("TaskCreated", "main", &["task_id", "task_subject", "task_description", "teammate_name"]);
    let wanted = ["dance", "build", "test"].map(|subject| json!([null, subject, "all of it", "team-lead"]));
    assert_eq!(made, wanted);
    let done = log.of_kind("TaskCompleted", "main", &["task_id", "task_subject"]);
    assert_eq!(done, [json!(["1", "build"]), json!(["2", "test"])]);
}

#[test]
fn worktrees_are_told_when_they_are_made_and_when_they_are_gone() {
    let server = ModelServer::start();
    let world = repository(&server);
    let log = Log::of(&world);
    let stands = world.outside().join("stands");
    let made = format!("{}; pwd >>'{}'", log.command(), stands.display());
    hooks(&world, &json!({ "WorktreeCreate": runs(&made), "WorktreeRemove": runs(&log.command()) }));
    server.on(
        prompt("ID:lead"),
        [
            isolated("a", "ID:sub", json!({})).into(),
            isolated("b", "ID:mate", json!({ "name": "anna" })).into(),
        ],
    );
    server.always(prompt("ID:lead"), say("Ok."));
    server.on(prompt("ID:sub"), [say("Looked.").into()]);
    server.on(prompt("ID:mate"), [say("Looked too.").into()]);
    let free = ["--permission-mode", "bypassPermissions"];
    world.festoon(["-p", "ID:lead"]).args(free).run().code(0);
    server.all_played();
    let members = ["agent_id", "worktree_path", "worktree_branch"];
    let events = |kind: &str| log.of_kind(kind, "general-purpose", &members);
    let (created, removed) = (events("WorktreeCreate"), events("WorktreeRemove"));
    assert_eq!(created.len(), 2, "{created:#?}");
    assert_eq!(created, removed);
    let places: Vec<&str> = created.iter().filter_map(|tree| tree[1].as_str()).collect();
    let seen = fs::read_to_string(&stands).expect("text");
    assert_eq!(seen.lines().collect::<Vec<_>>(), places, "hooks run in the worktree");
    assert_eq!(trees(&world), 0);

    // Refused, nothing of either is left.
    hooks(
        &world,
        &json!({ "WorktreeCreate": runs("echo 'no room' >&2; exit 2"), "WorktreeRemove": runs("exit 2") }),
    );
    server.on(
        prompt("ID:second"),
        [
            [
                isolated("c", "ID:never", json!({})),
                isolated("d", "ID:never", json!({ "name": "ben" })),
                isolated("e", "ID:never", json!({ "run_in_background": true })),
            ]
            .into(),
            say("Ok.").into(),
        ],
    );
    world.festoon(["-p", "ID:second"]).args(free).run().code(0);
    for id in ["c", "d", "e"] {
        let (text, failed) = server.last_of("ID:second").result(id);
        assert!(failed && text.contains("a hook refused its worktree: no room"), "{id}: {text}");
    }
    assert_eq!((server.of("ID:never").len(), trees(&world)), (0, 0));
    assert!(!world.members().iter().any(|member| member["agentName"] == "ben"));
}
