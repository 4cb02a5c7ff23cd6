//! Calls that must fail are not worth a question: they fail before a person is asked.

use crate::support::model_server::{ModelServer, call_as, gate, prompt, say};
use serde_json::{Value, json};

fn edit(id: &str, file: &str, old: &str) -> crate::support::model_server::Part {
    call_as(id, "Edit", json!({ "file_path": file, "old_string": old, "new_string": "two" }))
}

#[test]
fn an_edit_that_must_fail_is_not_asked_for() {
    let server = ModelServer::start();
    let world = server.world();
    for file in ["a.txt", "b.txt", "c.txt"] {
        world.file(file, "one\n");
    }
    let notebook = json!({ "notebook_path": "none.ipynb", "new_source": "x", "cell_id": "c" });
    server.on(
        prompt("ID:lead"),
        [
            [
                edit("unread", "a.txt", "one"),
                call_as("over", "Write", json!({ "file_path": "a.txt", "content": "x" })),
                edit("none", "none.txt", "one"),
                call_as("book", "NotebookEdit", notebook),
                call_as("r1", "Read", json!({ "file_path": "b.txt" })),
                call_as("r2", "Read", json!({ "file_path": "c.txt" })),
            ]
            .into(),
            [gate("changed"), edit("nowhere", "b.txt", "three"), edit("stale", "c.txt", "one")].into(),
            say("ok").into(),
        ],
    );
    let running = world.festoon(["-p", "ID:lead", "--output-format", "json"]).start();
    server.reached("changed");
    world.file("c.txt", "another\n");
    server.open("changed");
    let done = running.wait();
    done.code(0);
    assert_eq!(done.result()["permission_denials"], json!([]));
    let last = server.last_of("ID:lead");
    for (id, says) in [
        ("unread", "you have not read it"),
        ("over", "you have not read it"),
        ("none", "There is no file"),
        ("book", "There is no notebook"),
        ("nowhere", "Nothing was changed"),
        ("stale", "has changed since you read it"),
    ] {
        let (text, failed) = last.result(id);
        assert!(failed && text.contains(says), "{id}: {text}");
    }
    assert_eq!(world.read("b.txt"), "one\n");
}

#[test]
fn what_may_succeed_is_asked_for_and_what_may_not_be_read_is_not_looked_at() {
    let server = ModelServer::start();
    let world = server.world();
    world.file("a.txt", "one\n");
    world.file("secret.txt", "key\n");
    std::fs::write(world.outside().join("there.txt"), "x").expect("file");
    let outside = |id: &str, name: &str| edit(id, world.outside().join(name).to_str().expect("UTF-8"), "one");
    server.on(
        prompt("ID:lead"),
        [
            [call_as("r", "Read", json!({ "file_path": "a.txt" }))].into(),
            [
                edit("good", "a.txt", "one"),
                call_as("new", "Write", json!({ "file_path": "deep/er/new.txt", "content": "x" })),
                edit("secret", "secret.txt", "nothing"),
                edit("hidden", "hidden.txt", "nothing"),
                outside("there", "there.txt"),
                outside("gone", "gone.txt"),
            ]
            .into(),
            say("ok").into(),
        ],
    );
    let args = [
        "-p",
        "ID:lead",
        "--output-format",
        "json",
        "--disallowed-tools",
        "Read(secret.txt),Read(hidden.txt)",
    ];
    let done = world.festoon(args).run();
    done.code(5);
    let last = server.last_of("ID:lead");
    let plain =
        |id: &str| last.result(id).0.replace("secret", "X").replace("hidden", "X").replace("gone", "there");
    // Whether they are there cannot be told from the answers.
    assert_eq!(plain("secret"), plain("hidden"));
    assert_eq!(plain("there"), plain("gone"));
    let denied = done.result()["permission_denials"].clone();
    let asked: Vec<&Value> = denied.as_array().expect("a list").iter().map(|d| &d["tool_use_id"]).collect();
    for id in ["good", "new", "there", "gone"] {
        assert!(asked.contains(&&json!(id)), "{id}: {denied:#}");
    }
    assert!(!world.project.join("deep").exists());
}
