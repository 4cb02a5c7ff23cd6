//! What a repository brings runs only where a person has said so.

use crate::support::model_server::{ModelServer, call_as, prompt, say};
use crate::support::world::World;
use festoon::store::paths::Paths;
use festoon::store::trust;
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;

/// A project that wants more than a stranger may have: a variable for commands, and servers.
fn greedy(world: &World) {
    fs::create_dir(world.project.join(".git")).expect("dir");
    world.file(".festoon/settings.json", r#"{"env":{"FROM_PROJECT":"yes"}}"#);
    world.file(".mcp.json", r#"{"mcpServers":{"odd":{"command":"false"}}}"#);
}

/// What the commands of a session see of the variable, and what is said on standard error.
fn seen(server: &ModelServer, world: &World, id: &str, args: &[&str]) -> (String, String) {
    let look = call_as("look", "Bash", json!({ "command": "echo \"<$FROM_PROJECT>\"" }));
    server.on(prompt(id), [look.into(), say("done").into()]);
    let done = world.festoon(["-p", id, "--allowed-tools", "Bash"]).args(args).run();
    done.code(0);
    (server.last_of(id).result("look").0.trim().to_owned(), done.stderr)
}

#[test]
fn a_headless_run_skips_it_with_one_warning_and_takes_it_where_it_is_trusted() {
    let server = ModelServer::start();
    let world = server.world();
    greedy(&world);
    let (variable, said) = seen(&server, &world, "ID:stranger", &[]);
    assert_eq!(variable, "<>");
    let project = world.project.display();
    let warning = format!(
        "warning: {project} is not trusted, so this was skipped: {project}/.festoon/settings.json: env; \
         {project}/.mcp.json: MCP servers; --trust takes it for one run, `festoon` at a terminal asks once\n"
    );
    assert_eq!(said, warning);
    let (variable, said) = seen(&server, &world, "ID:flag", &["--trust"]);
    assert_eq!((variable.as_str(), said.contains("not trusted")), ("<yes>", false));
    assert_eq!(seen(&server, &world, "ID:again", &[]).0, "<>", "the flag holds for one run");

    let paths = Paths::from_home(&world.home);
    assert_eq!(trust::remember(&paths, &world.project.join(".festoon")).expect("remembers"), world.project);
    let (variable, said) = seen(&server, &world, "ID:known", &[]);
    assert_eq!((variable.as_str(), said.contains("not trusted")), ("<yes>", false));
    world.file(".festoon/settings.json", r#"{"env":{"FROM_PROJECT":"changed"}}"#);
    assert_eq!(seen(&server, &world, "ID:later", &[]).0, "<changed>", "a file that changes stays trusted");
}

#[test]
fn a_link_to_a_trusted_directory_is_trusted_and_one_that_moves_is_not() {
    let server = ModelServer::start();
    let mut world = server.world();
    greedy(&world);
    trust::remember(&Paths::from_home(&world.home), &world.project).expect("remembers");
    let link = world.outside().join("link");
    symlink(&world.project, &link).expect("links");
    let evil = world.outside().join("evil");
    fs::create_dir_all(evil.join(".festoon")).expect("dir");
    fs::write(evil.join(".festoon/settings.json"), r#"{"env":{"FROM_PROJECT":"evil"}}"#).expect("file");
    world.project = link.clone();
    assert_eq!(seen(&server, &world, "ID:good", &[]).0, "<yes>");
    fs::remove_file(&link).expect("removes");
    symlink(&evil, &link).expect("links");
    assert_eq!(seen(&server, &world, "ID:evil", &[]).0, "<>");
}

#[test]
fn doctor_says_what_is_skipped() {
    let world = World::new();
    greedy(&world);
    let checks = || -> Vec<String> {
        let done = world.festoon(["doctor", "--json"]).run();
        let checks: Vec<serde_json::Value> = serde_json::from_str(&done.stdout).expect("JSON");
        let trust = checks.iter().filter(|c| c["check"] == "trust");
        trust
            .map(|c| {
                format!("{}: {}", c["status"].as_str().expect("text"), c["message"].as_str().expect("text"))
            })
            .collect()
    };
    let project = world.project.display().to_string();
    let skipped = format!(
        "note: {project} is not trusted, so this is skipped: {project}/.festoon/settings.json: env; \
         {project}/.mcp.json: MCP servers"
    );
    assert_eq!(checks(), [skipped]);
    trust::remember(&Paths::from_home(&world.home), &world.project).expect("remembers");
    assert_eq!(checks(), [format!("ok: {project} is trusted")]);
}

#[test]
fn a_file_of_trust_that_cannot_be_read_trusts_nobody() {
    let server = ModelServer::start();
    let world = server.world();
    greedy(&world);
    fs::create_dir_all(&world.home).expect("dir");
    fs::write(world.home.join("trust.json"), "{").expect("file");
    let (variable, said) = seen(&server, &world, "ID:torn", &[]);
    assert_eq!(variable, "<>");
    assert!(said.contains("warning: no directory is trusted: "), "{said}");
}

#[test]
fn agents_cannot_write_it() {
    let server = ModelServer::start();
    let world = server.world();
    let file = world.home.join("trust.json");
    let write = call_as("write", "Write", json!({ "file_path": file, "content": "{}" }));
    server.on(prompt("ID:self"), [write.into(), say("done").into()]);
    world.festoon(["-p", "ID:self", "--permission-mode", "bypassPermissions"]).run().code(0);
    assert!(server.last_of("ID:self").result("write").1);
    assert!(!file.exists());
}

#[test]
fn what_widens_counts_without_a_terminal_and_is_named_in_one_warning() {
    let server = ModelServer::start();
    let world = server.world();
    world.file(
        ".festoon/settings.json",
        r#"{"permissions":{"allow":["Bash(touch:*)"],"deny":["Read(.env)"]},"limits":{"maxDepth":9,"maxAgents":1},
            "model":"scripted:evil.toml"}"#,
    );
    let touch = call_as("touch", "Bash", json!({ "command": "touch made" }));
    server.on(prompt("ID:wide"), [touch.into(), say("done").into()]);
    let done = world.festoon(["-p", "ID:wide"]).run();
    done.code(0);
    assert!(world.project.join("made").exists());
    let project = world.project.display();
    let file = format!("{project}/.festoon/settings.json");
    let warnings = format!(
        "warning: {project} is not trusted, so this was skipped: {file}: model; --trust takes it for one run, `festoon` \
         at a terminal asks once\n\
         warning: {project} is not trusted, and its settings widen what may be done here: {file}: permissions.allow \
         (Bash(touch:*)), limits.maxDepth (9); say with --trust that you know them, or once to `festoon` at a \
         terminal\n"
    );
    assert_eq!(done.stderr, warnings);
}
