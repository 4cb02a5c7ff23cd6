//! Odd surroundings: directories, standard streams and variables as they also occur.

use crate::support::model_server::{ModelServer, call_as, prompt, say};
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
        ("exec \"$0\" -p ID:full --output-format json </dev/null >/dev/full", 0, ""),
        ("exec \"$0\" -p hi --model nobody:x 2>&- </dev/null", 2, ""),
    ] {
        let output = shell(&world, script);
        assert_eq!(output.status.code(), Some(code), "{script}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), out, "{script}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{script}: {output:?}");
    }
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
    let done = world.festoon(["-p", "ID:odd"]).run();
    assert!(!done.stderr.contains("panicked"), "{}", done.stderr);
    assert!(matches!(done.code, Some(0 | 1)), "{done:?}");
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
    assert!(!last.tools().contains(&"SendMessage"), "{:?}", last.tools());
    assert!(last.tools().contains(&"Agent") && last.tools().contains(&"Bash"), "{:?}", last.tools());
    assert!(last.result("t").1);
    assert_eq!(last.result("s"), ("sub".to_owned(), false));
}
