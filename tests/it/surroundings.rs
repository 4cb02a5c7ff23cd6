//! Odd surroundings: directories, standard streams and variables as they also occur.

use crate::support::model_server::{ModelServer, Reply, call_as, prompt, say};
use crate::support::world::World;
use crate::teammates::start;
use serde_json::json;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output};

/// The binary below `sh`, for what only a shell can arrange.
fn shell(world: &World, script: &str) -> Output {
    Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_festoon")])
        .current_dir(&world.project)
        .env_clear()
        .envs(&world.env)
        .output()
        .expect("runs")
}

#[test]
fn closed_streams_are_no_panic() {
    let server = ModelServer::start();
    let world = server.world();
    server.always(prompt("ID:"), say("ok"));
    for (script, code, out) in [
        ("exec \"$0\" -p ID:in <&-", 0, "ok\n"),
        ("exec \"$0\" -p ID:out >&- </dev/null", 0, ""),
        ("exec \"$0\" -p ID:err 2>&- </dev/null", 0, "ok\n"),
        ("exec \"$0\" -p ID:all <&- >&- 2>&-", 0, ""),
        ("exec \"$0\" -p hi --model nobody:x 2>&- </dev/null", 2, ""),
    ] {
        let output = shell(&world, script);
        assert_eq!(output.status.code(), Some(code), "{script}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), out, "{script}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{script}: {output:?}");
    }
}

#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    let server = ModelServer::start();
    let world = server.world();
    server.always(prompt("ID:"), say("ok"));
    let (full, closed) = ("No space left on device (os error 28)", "Bad file descriptor (os error 9)");
    for (what, why) in [
        ("-p ID:a >/dev/full", full),
        ("-p ID:b --output-format json >/dev/full", full),
        ("-p ID:c --output-format stream-json >/dev/full", full),
        ("-p ID:d 1</dev/null", closed),
        ("-p ID:e --output-format stream-json 1</dev/null", closed),
        ("--help >/dev/full", full),
        ("--version 1</dev/null", closed),
        ("paths >/dev/full", full),
        ("demo >/dev/full", full),
    ] {
        let output = shell(&world, &format!("exec \"$0\" {what} </dev/null"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{what}: {said}");
        let sentence = format!("standard output cannot be written: {why}");
        assert_eq!(said.matches(&sentence).count(), 1, "{what}: {said}");
    }
    let output = shell(&world, "\"$0\" -p ID:gone </dev/null | true; exec \"$0\" -p ID:gone </dev/null");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn a_full_disk_for_the_log_is_not_told_on_the_screen() {
    let server = ModelServer::start();
    let world = server.world();
    server.always(prompt("ID:"), say("ok"));
    // Where the log's directory should be, nothing can be opened.
    let day = "mkdir -p \"$FESTOON_HOME\" && chmod 700 \"$FESTOON_HOME\" && mkdir -m 700 \"$FESTOON_HOME/logs\" && ";
    let blocked = "d=$(date -u +%F) && mkdir \"$FESTOON_HOME/logs/$d-$$.log\" && ";
    let output = shell(&world, &format!("{day}{blocked}FESTOON_LOG=trace exec \"$0\" -p ID:a </dev/null"));
    let said = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), said.0.as_ref(), said.1.as_ref()), (Some(0), "ok\n", ""));
}

#[test]
fn arguments_and_variables_that_are_not_text_are_said_so() {
    let server = ModelServer::start();
    let world = server.world();
    server.always(prompt("ID:"), say("ok"));
    for (script, said) in [
        ("exec \"$0\" -p \"$(printf 'a\\351')\"", "the argument \"a\\xE9\" is not UTF-8 text"),
        ("exec \"$0\" team show \"$(printf '\\377')\"", "the argument \"\\xFF\" is not UTF-8 text"),
        (
            "export ANTHROPIC_API_KEY=\"$(printf 'k\\351')\"; exec \"$0\" -p ID:a",
            "the environment variable ANTHROPIC_API_KEY is not UTF-8 text",
        ),
        (
            "export FESTOON_MODEL=\"$(printf 'k\\351')\"; exec \"$0\" -p ID:a",
            "the environment variable FESTOON_MODEL is not UTF-8 text",
        ),
        (
            "export FESTOON_HOME=\"$(printf '/tmp/\\351')\"; exec \"$0\" ps",
            "the environment variable FESTOON_HOME is not UTF-8 text",
        ),
        ("exec \"$0\" -p ID:a --add-dir \"$(printf '/\\351')\"", "--add-dir \"/\\xE9\" is not UTF-8 text"),
    ] {
        let output = shell(&world, &format!("exec </dev/null; {script}"));
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{script}: {told}");
        assert!(told.starts_with(&format!("error: {said}")), "{script}: {told}");
        let json = shell(&world, &format!("exec </dev/null; {script} --json"));
        let error: serde_json::Value = serde_json::from_slice(&json.stderr).expect("an error object");
        assert_eq!(error["error"]["kind"], "usage", "{error}");
        assert!(error["error"]["message"].as_str().is_some_and(|m| m.starts_with(said)), "{error}");
    }
    assert_eq!(server.requests().len(), 0);
    world.festoon(["-p", "ID:flag", "--model", "anthropic:test-model"]).run().code(0);
}

#[test]
fn a_session_id_is_a_file_name_and_old_ones_are_found_by_what_they_are() {
    let server = ModelServer::start();
    let world = server.world();
    server.always(prompt("ID:"), say("ok"));
    for bad in ["../x", "", ".x", "a b", "ä", "a=2e", &"x".repeat(101)] {
        let done = world.festoon(["-p", "ID:a", &format!("--session-id={bad}")]).run();
        assert!(done.code(2).stderr.contains("--session-id"), "{bad:?}: {}", done.stderr);
    }
    assert_eq!(server.requests().len(), 0);
    world.festoon(["-p", "ID:a", "--session-id", "plain"]).run().code(0);
    // As a session was called when its id could be anything.
    let file = world.sessions().pop().expect("one");
    let text = std::fs::read_to_string(&file).expect("reads");
    let long = "ü".repeat(200);
    let odd = |id: &str, name: &str| {
        let text = text.replace("\"sessionId\":\"plain\"", &format!("\"sessionId\":\"{id}\""));
        std::fs::write(file.with_file_name(format!("{name}.jsonl")), text).expect("writes");
    };
    odd("../odd", "=2e.=2fodd");
    let list = || {
        let rows: serde_json::Value =
            serde_json::from_str(&world.festoon(["log", "list", "--json"]).run().stdout).expect("JSON");
        let ids =
            rows.as_array().expect("rows").iter().map(|r| r["session"].as_str().expect("id").to_owned());
        ids.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(list(), ["../odd".to_owned(), "plain".to_owned()].into());
    assert!(world.festoon(["log", "show", "../odd"]).run().code(0).stdout.contains("ok"));
    let resumed = world.festoon(["-p", "ID:more", "--resume", "../odd", "--output-format", "json"]).run();
    assert_eq!(resumed.code(0).result()["session_id"], "../odd");
    assert_eq!(list(), ["../odd".to_owned(), "plain".to_owned()].into());
    let short = {
        let sessions = festoon::store::paths::Paths::from_home(&world.home).project(&world.project);
        sessions.transcript(&festoon::wire::ids::SessionId::new(long.as_str()))
    };
    odd(&long, short.file_stem().and_then(OsStr::to_str).expect("UTF-8"));
    assert!(list().contains(&long));
}

#[test]
fn what_a_model_is_waited_for_is_told_beside_the_answer() {
    let server = ModelServer::start();
    let world = server.world();
    for (id, format) in [("ID:text", "text"), ("ID:json", "json")] {
        server.on(prompt(id), [Reply::status(529, "overloaded_error", "busy"), say("ok").into()]);
        let done = world.festoon(["-p", id, "--output-format", format]).run();
        let lines: Vec<&str> = done.code(0).stderr.lines().collect();
        assert!(
            lines.len() == 1
                && lines[0].starts_with("team-lead: ")
                && lines[0].contains("; attempt 2 of 4 in "),
            "{lines:?}"
        );
    }
    server.on(prompt("ID:lines"), [Reply::status(529, "overloaded_error", "busy"), say("ok").into()]);
    let done = world.festoon(["-p", "ID:lines", "--output-format", "stream-json"]).run();
    assert_eq!(done.code(0).stderr, "");
    assert!(done.lines().iter().any(|l| l["subtype"] == "retry" && l["attempt"] == 2));
}

#[test]
fn an_answer_is_harmless_at_a_terminal_and_whole_in_a_file() {
    let server = ModelServer::start();
    let world = server.world();
    let odd = "a\u{9b}2Jb\u{202e}c\u{85}d";
    server.always(prompt("ID:"), say(odd));
    assert_eq!(world.festoon(["-p", "ID:a"]).run().code(0).stdout, format!("{odd}\n"));
    let command = format!("{} -p ID:tty", env!("CARGO_BIN_EXE_festoon"));
    let output = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .current_dir(&world.project)
        .env_clear()
        .envs(&world.env)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("runs");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("a\\u{9b}2Jb\\u{202e}c\\u{85}d"), "{shown:?}");
}

#[test]
fn a_directory_cannot_write_into_an_error() {
    let mut world = World::new();
    let odd = world.outside().join("line\nbreak\u{202e}x");
    std::fs::create_dir(&odd).expect("dir");
    world.project = odd;
    let done = world.festoon(["-p", "hi", "--continue"]).run();
    let first = done.code(2).stderr.lines().next().expect("a sentence");
    let shown = format!("{}/line\\u{{a}}break\\u{{202e}}x", world.outside().display());
    assert_eq!(first, format!("error: no session of {shown} was found"));
}

#[test]
fn directories_of_any_name_have_sessions_of_their_own() {
    let server = ModelServer::start();
    let mut world = server.world();
    let outside = world.outside();
    for name in [
        "with space",
        "käse \u{1F41D}",
        "line\nbreak",
        "-dash",
        "a.b",
        "a-b",
        "a_b",
        &"x".repeat(200),
        "quote\"'`$",
    ] {
        world.project = outside.join(name);
        std::fs::create_dir(&world.project).expect("dir");
        world.file("here.txt", name);
        let id = format!("ID:{}", uuid::Uuid::new_v4());
        server.on(
            prompt(&id),
            [[
                call_as("r", "Read", json!({ "file_path": "here.txt" })),
                call_as("b", "Bash", json!({ "command": "cat here.txt" })),
                start("t", "anna", &format!("{id} anna")),
            ]
            .into()],
        );
        server.always(prompt(&id), say("ok"));
        world.festoon(["-p", &id]).run().code(0);
        let last = server.of(&id).into_iter().find(|r| r.round() == 2).expect("a second round");
        assert!(!last.result("r").1 && !last.result("t").1, "{name:?}: {:#?}", last.results());
        assert_eq!(last.result("b").0.trim_end(), name.trim_end());
    }
    assert_eq!(world.sessions().len(), 9);
    let dirs: std::collections::BTreeSet<_> =
        world.sessions().iter().map(|s| s.parent().expect("dir").to_owned()).collect();
    assert_eq!(dirs.len(), 9, "no two directories share one");
    world.check_transcripts();
}

#[test]
fn a_directory_that_is_not_text_or_not_there_is_said_so() {
    let server = ModelServer::start();
    let mut world = server.world();
    server.always(prompt("ID:"), say("ok"));
    let odd = world.outside().join(OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&odd).expect("dir");
    world.project = odd;
    for start in [&["-p", "ID:odd"][..], &["-p", "ID:odd", "--output-format", "stream-json"], &["demo"]] {
        let done = world.festoon(start).run();
        let said = "is not UTF-8 text, and agents cannot work there";
        let told = &done.code(2).stderr;
        assert!(told.contains(said) && told.contains(r"xE9"), "{start:?}: {told}");
    }
    for look in [&["ps"][..], &["log", "list"], &["agents", "list"], &["paths"], &["team", "list", "--json"]]
    {
        world.festoon(look).run().code(0);
    }
    assert_eq!(server.requests().len(), 0);
    let world = server.world();
    let output = shell(&world, "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" -p ID:gone </dev/null");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("error: the working directory cannot be used"), "{said}");
}

#[test]
fn a_relative_state_root_and_a_missing_home_work_alike() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:relative"), [[start("t", "anna", "ID:anna")].into()]);
    server.always(prompt("ID:"), say("ok"));
    let done = world.festoon(["-p", "ID:relative"]).env("FESTOON_HOME", "../elsewhere").run();
    // A relative place means another one in each directory: it is resolved at once, or refused.
    assert!(matches!(done.code, Some(0..=2)), "{done:?}");
    if done.code == Some(0) {
        assert!(world.outside().join("elsewhere/projects").is_dir());
    } else {
        assert!(done.stderr.contains("FESTOON_HOME"), "{}", done.stderr);
    }
    let mut world = server.world();
    world.env.remove("HOME");
    world.festoon(["-p", "ID:no home"]).run().code(0);
}

#[test]
fn without_teams_there_are_no_team_tools_and_all_else_is_there() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            [
                start("t", "anna", "ID:never"),
                call_as(
                    "s",
                    "Agent",
                    json!({ "description": "d", "prompt": "ID:sub", "subagent_type": "Explore" }),
                ),
            ]
            .into(),
            say("ok").into(),
        ],
    );
    server.on(prompt("ID:sub"), [say("sub").into()]);
    world.festoon(["-p", "ID:lead", "--settings", "{\"teams\":false}"]).run().code(0);
    let last = server.last_of("ID:lead");
    for tool in ["TaskCreate", "TaskList", "TaskUpdate"] {
        assert!(!last.tools().contains(&tool), "{:?}", last.tools());
    }
    // Subagents are written to without a team.
    assert!(last.tools().contains(&"SendMessage"), "{:?}", last.tools());
    assert!(last.tools().contains(&"Agent") && last.tools().contains(&"Bash"), "{:?}", last.tools());
    assert!(last.result("t").1);
    assert_eq!(last.result("s"), ("sub".to_owned(), false));
}
