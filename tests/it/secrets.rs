//! Keys stay in memory: in no file, no argument, no tool's environment, no output.

use crate::support::model_server::{ModelServer, Part, Reply, call_as, gate, prompt, say};
use crate::support::world::{KEY, World, command_line};
use crate::teammates::start;
use serde_json::json;
use std::path::PathBuf;

const FREE: [&str; 2] = ["--permission-mode", "bypassPermissions"];
const TOKEN: &str = "tok-test-5b0c-never-on-disk";

/// Files of the world that hold a key.
pub fn files_with(world: &World, secrets: &[&str]) -> Vec<PathBuf> {
    let holds = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap_or_default();
        secrets.iter().any(|s| memchr::memmem::find(&bytes, s.as_bytes()).is_some())
    };
    world.files().into_iter().filter(holds).collect()
}

fn look(id: &str) -> Part {
    call_as(id, "Bash", json!({ "command": "env; tr '\\0' '\\n' < /proc/$PPID/environ; set" }))
}

#[test]
fn no_key_reaches_a_file_a_process_list_or_a_command() {
    let server = ModelServer::start();
    let world = server.world();
    let mut echo: Vec<Reply> =
        (0..3).map(|_| Reply::status(529, "overloaded_error", &format!("busy with {KEY}"))).collect();
    server.on(
        prompt("ID:lead"),
        [[start("a", "anna", "ID:anna"), look("lead")].into(), [gate("lead"), say("Ok.")].into()],
    );
    server.always(prompt("ID:lead"), say("Ok."));
    server.on(
        prompt("ID:anna"),
        [
            [look("anna"), call_as("s", "Agent", json!({ "description": "d", "prompt": "ID:sub" }))].into(),
            [
                gate("anna"),
                call_as(
                    "sleep",
                    "Bash",
                    json!({ "command": "echo up > up; while [ ! -e go ]; do sleep 0.02; done" }),
                ),
            ]
            .into(),
        ],
    );
    server.on(prompt("ID:anna"), std::mem::take(&mut echo));
    server.on(prompt("ID:anna"), [Reply::status(400, "invalid_request_error", &format!("bad key {KEY}"))]);
    server.on(prompt("ID:sub"), [[look("sub")].into(), say("Done.").into()]);
    let running = world
        .festoon(["-p", "ID:lead", "--output-format", "stream-json", "--verbose"])
        .args(FREE)
        .env("FESTOON_LOG", "trace")
        .env("OPENAI_API_KEY", TOKEN)
        .start();
    server.reached("lead");
    server.reached("anna");
    server.open("anna");
    crate::support::wait::until("a command runs", || world.project.join("up").exists());
    let processes: Vec<String> = world.living().into_iter().map(command_line).collect();
    assert!(processes.iter().any(|line| line.contains("while [")), "{processes:#?}");
    assert!(!processes.iter().any(|line| line.contains(KEY) || line.contains(TOKEN)), "{processes:#?}");
    world.file("go", "");
    server.open("lead");
    let done = running.wait();
    done.code(0);
    for text in [&done.stdout, &done.stderr] {
        assert!(!text.contains(KEY) && !text.contains(TOKEN), "{text}");
    }
    assert_eq!(files_with(&world, &[KEY, TOKEN]), Vec::<PathBuf>::new());
    for (id, conversation) in [("lead", "ID:lead"), ("anna", "ID:anna"), ("sub", "ID:sub")] {
        let (text, _) = server.last_of(conversation).result(id);
        assert!(text.contains("FESTOON_TEST_MARK="), "{text}");
        assert!(
            !text.contains(KEY) && !text.contains(TOKEN) && !text.contains("ANTHROPIC_API_KEY"),
            "{text}"
        );
    }
    // The failure that named the key is told without it.
    let told = server.last_of("ID:lead").mail().concat().join("\n");
    assert!(told.contains("anna failed") && told.contains("bad key"), "{told}");
    // The log is there; it is only for its owner.
    let logs: Vec<PathBuf> =
        world.files().into_iter().filter(|p| p.extension().is_some_and(|e| e == "log")).collect();
    assert!(!logs.is_empty());
}

#[test]
fn a_token_is_sent_instead_of_a_key_and_is_as_secret() {
    let server = ModelServer::start();
    let mut world = server.world();
    world.env.remove("ANTHROPIC_API_KEY");
    world.env.insert("ANTHROPIC_AUTH_TOKEN".into(), TOKEN.into());
    let done = world.festoon(["-p", "ID:lead", "--output-format", "json"]).env("FESTOON_LOG", "trace").run();
    // This server knows only keys.
    done.code(4);
    assert!(!done.stdout.contains(TOKEN) && !done.stderr.contains(TOKEN));
    assert_eq!(files_with(&world, &[TOKEN]), Vec::<PathBuf>::new());
}

#[test]
fn what_is_written_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [[start("a", "anna", "ID:anna")].into()]);
    server.always(prompt("ID:"), say("Ok."));
    world.festoon(["-p", "ID:lead"]).run().code(0);
    let mut wrong = Vec::new();
    let mut dirs = vec![world.home.join("teams"), world.home.join("projects")];
    while let Some(dir) = dirs.pop() {
        let mode = |path: &std::path::Path| {
            std::fs::symlink_metadata(path).expect("there").permissions().mode() & 0o777
        };
        if mode(&dir) != 0o700 {
            wrong.push(dir.clone());
        }
        for entry in std::fs::read_dir(&dir).expect("a directory") {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                dirs.push(path);
            } else if mode(&path) != 0o600 {
                wrong.push(path);
            }
        }
    }
    assert_eq!(wrong, Vec::<PathBuf>::new());
}

#[test]
fn a_key_that_a_tool_prints_or_the_model_repeats_is_written_nowhere() {
    let server = ModelServer::start();
    let world = server.world();
    let source = world.file("dotenv", &format!("ANTHROPIC_API_KEY={KEY}\nfine=1\n"));
    let (begin, end) = KEY.split_at(9);
    let slow = format!("printf %s {begin}; sleep 0.3; echo '{end}'; sleep 0.3; echo \"<{end}>\"");
    server.on(
        prompt("ID:keys"),
        [
            [
                say(&format!("The key is {KEY}.")),
                call_as("cat", "Bash", json!({ "command": "cat dotenv" })),
                call_as("read", "Read", json!({ "file_path": "dotenv" })),
                call_as("slow", "Bash", json!({ "command": slow })),
                call_as("later", "Bash", json!({ "command": "cat dotenv", "run_in_background": true })),
                call_as("proc", "Read", json!({ "file_path": "/proc/self/environ" })),
                call_as("grep", "Grep", json!({ "pattern": "ANTHROPIC", "path": "/proc/1/environ" })),
            ]
            .into(),
            say(&format!("Again: {KEY}")).into(),
        ],
    );
    server.always(prompt("ID:keys"), say("Ok."));
    let record = world.outside().join("record.toml");
    let done = world
        .festoon(["-p", "ID:keys", "--output-format", "stream-json", "--session-id", "s1", "--record"])
        .args([record.to_str().expect("UTF-8")])
        .args(FREE)
        .run();
    done.code(0);
    assert!(!done.stdout.contains(KEY) && !done.stderr.contains(KEY));
    assert_eq!(files_with(&world, &[KEY]), [source]);
    assert!(std::fs::read_to_string(&record).expect("recorded").contains("The key is [key]."));
    let request = server.of("ID:keys")[1].clone();
    assert!(
        request.result("cat").0.contains("ANTHROPIC_API_KEY=[key]\nfine=1"),
        "{:?}",
        request.result("cat")
    );
    assert!(request.result("read").0.contains("ANTHROPIC_API_KEY=[key]"), "{:?}", request.result("read"));
    assert_eq!(request.result("slow").0.trim(), format!("[key]\n<{end}>"));
    for id in ["proc", "grep"] {
        let (text, failed) = request.result(id);
        assert!(failed && text.contains("the environment of a process"), "{id}: {text}");
    }
    // What is sent after a restart is what was sent before.
    world.festoon(["-p", "And now?", "--resume", "s1"]).args(FREE).run().code(0);
    world.check_transcripts();
    assert_eq!(files_with(&world, &[KEY]).len(), 1);
}
