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
