//! Disks that refuse: a state root that cannot be written, one that is full.

use crate::support::model_server::{ModelServer, call_as, prompt, say};
use crate::support::world::World;
use crate::teammates::{send, start};
use serde_json::json;
use std::process::Command;

#[test]
fn a_state_root_that_cannot_be_is_a_sentence_with_its_path() {
    let server = ModelServer::start();
    let world = server.world();
    let file = world.file("a-file", "");
    let below = file.join("state");
    let dangling = world.project.join("dangling");
    std::os::unix::fs::symlink("/no/such/place", &dangling).expect("link");
    for home in
        [below.to_str().expect("UTF-8"), "/proc/state", "/dev/null", dangling.to_str().expect("UTF-8")]
    {
        let done = world.festoon(["-p", "hi"]).env("FESTOON_HOME", home).run();
        done.code(1);
        assert_eq!(done.stdout, "");
        assert!(done.stderr.starts_with("error: ") && done.stderr.contains(home), "{home}: {}", done.stderr);
        assert!(!done.stderr.contains("panicked"), "{}", done.stderr);
    }
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn state_that_others_could_have_written_is_refused() {
    let server = ModelServer::start();
    let world = server.world();
    // The closed part of the state root is a link to somewhere else.
    let elsewhere = world.outside().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("dir");
    std::os::unix::fs::symlink(&elsewhere, world.home.join("teams")).expect("link");
    let done = world.festoon(["-p", "hi"]).run();
    done.code(1);
    assert!(done.stderr.contains("teams"), "{}", done.stderr);
    assert_eq!(std::fs::read_dir(&elsewhere).expect("dir").count(), 0);
    assert_eq!(server.requests().len(), 0);
}

/// Whether this machine lets us mount in a namespace of our own.
fn can_mount(dir: &std::path::Path) -> bool {
    let script = "mount -t tmpfs -o mode=0700,size=64k tmpfs \"$0\" && touch \"$0/x\"";
    let tried = Command::new("unshare").args(["-m", "sh", "-c", script]).arg(dir).output();
    tried.is_ok_and(|o| o.status.success())
}

/// Runs the binary with a small disk as its state root; what is on it at the end is copied to `kept`.
fn on_a_small_disk(world: &World, size: &str, args: &[&str]) -> Option<std::process::Output> {
    std::fs::create_dir_all(&world.home).expect("state root");
    if !can_mount(&world.home) {
        return None;
    }
    let script = "cp -a \"$FESTOON_HOME\" settings && mount -t tmpfs -o mode=0700,size=$SIZE tmpfs \"$FESTOON_HOME\" && \
                  cp settings/* \"$FESTOON_HOME\"/ && \"$@\" </dev/null; code=$?; \
                  cp -a \"$FESTOON_HOME\" kept; exit $code";
    let mut env = world.env.clone();
    env.insert("SIZE".into(), size.into());
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_festoon")])
        .args(args)
        .current_dir(&world.project)
        .env_clear()
        .envs(&env)
        .output()
        .expect("runs");
    Some(output)
}

/// Runs the binary while the state root cannot be written.
fn on_a_read_only_root(world: &World, args: &[&str]) -> Option<std::process::Output> {
    let mount =
        "mount --bind \"$FESTOON_HOME\" \"$FESTOON_HOME\" && mount -o remount,ro,bind \"$FESTOON_HOME\"";
    let tried = Command::new("unshare")
        .args(["-m", "sh", "-c", &format!("{mount} && ! touch \"$FESTOON_HOME/x\"")])
        .env_clear()
        .envs(&world.env)
        .output();
    if !tried.is_ok_and(|o| o.status.success()) {
        return None;
    }
    let script = format!("{mount} && exec \"$@\" </dev/null");
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_festoon")])
        .args(args)
        .current_dir(&world.project)
        .env_clear()
        .envs(&world.env)
        .output()
        .expect("runs");
    Some(output)
}

#[test]
fn a_read_only_root_can_be_looked_at_and_says_what_to_do_when_it_must_be_written() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [[start("s", "anna", "ID:anna")].into(), say("Ok.").into()]);
    server.always(prompt("ID:lead"), say("Ok."));
    server.always(prompt("ID:anna"), say("Done."));
    world.festoon(["-p", "ID:lead", "--session-id", "s1"]).run().code(0);
    let team = world.team().file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
    let inbox = format!("{team}/team-lead");
    let looks: [&[&str]; 9] = [
        &["ps", "--all"],
        &["ps", "--json"],
        &["team", "list"],
        &["team", "show", &team],
        &["inbox", "list"],
        &["inbox", "show", &inbox],
        &["log", "list"],
        &["log", "show", "s1"],
        &["task", "list", "--team", &team],
    ];
    for args in looks {
        let Some(output) = on_a_read_only_root(&world, args) else {
            skip("nothing can be mounted here");
            return;
        };
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!((output.status.code(), err.as_ref()), (Some(0), ""), "{args:?}: {out}");
    }
    let writes: [&[&str]; 4] = [
        &["-p", "hi"],
        &["-p", "hi", "--resume", "s1"],
        &["team", "delete", &team],
        &["task", "add", "x", "--team", &team],
    ];
    for args in writes {
        let output = on_a_read_only_root(&world, args).expect("mounts");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {err}");
        let home = world.home.display();
        assert!(err.contains("annot write to ") && err.contains(&format!("{home}")), "{args:?}: {err}");
        assert!(err.contains("read-only file system"), "{args:?}: {err}");
        assert!(err.contains("set FESTOON_HOME to a directory that can be written"), "{args:?}: {err}");
    }
}

#[test]
fn a_full_disk_ends_the_run_with_a_sentence_and_whole_files() {
    let server = ModelServer::start();
    let world = server.world();
    let write = |id: &str| {
        call_as(
            id,
            "Bash",
            json!({ "command": "for i in $(seq 1 3000); do echo some longer line of text $i; done" }),
        )
    };
    let ids: Vec<String> = (0..40).map(|n| format!("w{n}")).collect();
    for id in &ids {
        server.on(prompt("ID:lead"), [[write(id)].into()]);
    }
    server.always(prompt("ID:lead"), say("It fitted."));
    let args = ["-p", "ID:lead", "--permission-mode", "bypassPermissions", "--output-format", "json"];
    let Some(output) = on_a_small_disk(&world, "600k", &args) else {
        skip("nothing can be mounted here");
        return;
    };
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{out}\n{err}");
    assert!(!err.contains("panicked"), "{err}");
    let result: serde_json::Value =
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out:?} {err}"));
    assert_eq!(result["is_error"], true);
    let message = result["error"]["message"].as_str().expect("a message");
    assert!(message.contains("/state/") && message.contains("No space left"), "{message}");
    // Nothing was sent on that is not on disk: the last whole line is the last thing the model was shown.
    let kept = world.project.join("kept/projects");
    let dir = std::fs::read_dir(&kept).expect("projects").next().expect("one").expect("entry").path();
    let file = std::fs::read_dir(&dir).expect("sessions").filter_map(Result::ok).map(|e| e.path());
    let file = file.into_iter().find(|p| p.extension().is_some_and(|e| e == "jsonl")).expect("a transcript");
    let text = std::fs::read_to_string(file).expect("UTF-8");
    let lines: Vec<&str> = text.split_inclusive('\n').filter(|l| l.ends_with('\n')).collect();
    assert!(lines.iter().all(|l| serde_json::from_str::<serde_json::Value>(l).is_ok()));
    let answers = lines.iter().filter(|l| l.contains("\"type\":\"assistant\"")).count();
    assert!(
        server.requests().len() <= answers + 1,
        "{} requests, {answers} answers",
        server.requests().len()
    );
}

#[test]
fn mail_that_does_not_fit_is_an_error_at_the_sender() {
    let server = ModelServer::start();
    let world = server.world();
    server
        .on(prompt("ID:lead"), [[start("a", "anna", "ID:anna")].into(), [send("m", "anna", "later")].into()]);
    server.always(prompt("ID:lead"), say("Ok."));
    let big = "x".repeat(900_000);
    server.on(prompt("ID:anna"), [[send("big", "team-lead", &big)].into()]);
    server.always(prompt("ID:anna"), say("Ok."));
    let Some(output) = on_a_small_disk(&world, "1400k", &["-p", "ID:lead", "--output-format", "json"]) else {
        skip("nothing can be mounted here");
        return;
    };
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!err.contains("panicked"), "{err}");
    let anna = server.of("ID:anna");
    if let Some((text, failed)) = anna
        .iter()
        .find_map(|r| r.results().into_iter().find(|(id, _, _)| id == "big"))
        .map(|(_, t, f)| (t, f))
    {
        assert!(failed && text.contains("No space left"), "{text}");
    } else {
        // Her transcript did not take the call either, and that was told.
        let told = server.last_of("ID:lead").mail().concat().join("\n");
        assert!(told.contains("No space left") || output.status.code() == Some(1), "{told}");
    }
}

fn skip(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}
