//! The team's task list: through the tools of a model, and from another terminal.

use crate::support::model_server::{ModelServer, Part, call_as, gate, prompt, say};
use crate::support::state::json_file;
use crate::support::wait;
use crate::support::world::World;
use crate::teammates::start;
use serde_json::{Value, json};

fn create(id: &str, subject: &str, blocked_by: &[&str]) -> Part {
    call_as(
        id,
        "TaskCreate",
        json!({ "subject": subject, "description": "all of it", "blockedBy": blocked_by }),
    )
}

fn update(id: &str, task: &str, change: Value) -> Part {
    let mut input = json!({ "taskId": task });
    for (key, value) in change.as_object().expect("an object") {
        input[key] = value.clone();
    }
    call_as(id, "TaskUpdate", input)
}

fn task_events(world: &World) -> Vec<Value> {
    let events = world.events_of("task");
    events.iter().map(|e| json!([e["agent"], e["action"], e["taskId"]])).collect()
}

#[test]
fn a_team_works_through_its_list() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            [create("c1", "build", &[]), create("c2", "test", &["1"])].into(),
            [start("a", "anna", "ID:anna"), start("b", "bo", "ID:bo")].into(),
        ],
    );
    server.always(prompt("ID:lead"), say("Noted."));
    server.on(
        prompt("ID:anna"),
        [
            [call_as("l", "TaskList", json!({})), update("u1", "2", json!({ "status": "in_progress" }))]
                .into(),
            update("u2", "1", json!({ "status": "in_progress" })).into(),
            [gate("anna"), update("u3", "1", json!({ "status": "completed" }))].into(),
            say("It is built.").into(),
        ],
    );
    server.on(
        prompt("ID:bo"),
        [
            [gate("bo"), update("u4", "1", json!({ "status": "in_progress" }))].into(),
            say("Nothing for me.").into(),
            // Woken by the offer of what anna's work has freed.
            update("u5", "2", json!({ "status": "in_progress" })).into(),
            update("u6", "2", json!({ "status": "completed" })).into(),
            say("It is tested.").into(),
        ],
    );
    let running = world.festoon(["-p", "ID:lead", "--output-format", "stream-json"]).start();
    server.reached("anna");
    server.open("bo");
    server.wait_for("ID:bo", 2);
    server.open("anna");
    running.wait().code(0);

    let anna = server.last_of("ID:anna");
    assert_eq!(anna.result("l").0, "1. [pending] build\n2. [pending] test (blocked by 1)");
    assert_eq!(
        anna.result("u1"),
        ("Nothing was changed: task 2 is blocked by 1. Take one that waits for nothing.".into(), true)
    );
    assert_eq!(anna.result("u2"), ("1. [in_progress] build (owner: anna)".into(), false));
    let bo = server.last_of("ID:bo");
    assert_eq!(
        bo.result("u4"),
        ("Nothing was changed: task 1 is anna's. Take another, or write to its owner.".into(), true)
    );
    assert_eq!(bo.result("u6"), ("2. [completed] test (owner: bo)".into(), false));
    let offer = bo.mail().concat().concat();
    assert!(offer.starts_with("<task-offer task_id=\"2\">\ntest\n"), "{offer}");

    let task = json_file(&world.team().join("tasks/2.json"));
    assert_eq!(json!([task["status"], task["owner"], task["blockedBy"]]), json!(["completed", "bo", [1]]));
    assert_eq!(
        task_events(&world),
        [
            json!(["team-lead", "created", 1]),
            json!(["team-lead", "created", 2]),
            json!(["anna", "claimed", 1]),
            json!(["anna", "completed", 1]),
            json!(["bo", "offered", 2]),
            json!(["bo", "claimed", 2]),
            json!(["bo", "completed", 2]),
        ]
    );
    let done: Vec<Value> =
        world.mail("team-lead").into_iter().filter(|m| m["type"] == "task_completed").collect();
    assert_eq!(
        done.iter().map(|m| m["payload"].clone()).collect::<Vec<_>>(),
        [
            json!({ "taskId": 1, "subject": "build", "by": "anna" }),
            json!({ "taskId": 2, "subject": "test", "by": "bo" })
        ]
    );
}

#[test]
fn who_goes_idle_with_an_open_task_says_so_and_who_ends_frees_it() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [create("c1", "build", &[]).into(), start("a", "anna", "ID:anna").into(), say("She works.").into()],
    );
    server.always(prompt("ID:lead"), say("Noted."));
    server.on(
        prompt("ID:anna"),
        [update("u1", "1", json!({ "status": "in_progress" })).into(), say("Half of it.").into()],
    );
    world.festoon(["-p", "ID:lead"]).run().code(0);
    let mail = world.mail("team-lead");
    let idle = mail.iter().find(|m| m["type"] == "idle_notification").expect("a notice");
    assert_eq!(
        json!([idle["text"], idle["payload"]["taskId"]]),
        json!(["anna is idle. Task 1 is still its own.", 1])
    );
    let task = json_file(&world.team().join("tasks/1.json"));
    assert_eq!(
        json!([task["status"], task["owner"], task["note"]]),
        json!(["pending", null, "anna worked on it and is stopped: stopped by team-lead: the leader ends"])
    );
    assert_eq!(task_events(&world).last(), Some(&json!(["anna", "released", 1])));
}

#[test]
fn a_person_sees_and_changes_the_list_from_another_terminal() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [start("a", "Anna", "ID:anna").into(), [gate("lead"), say("Done.")].into()]);
    server.always(prompt("ID:lead"), say("Noted."));
    server.always(prompt("ID:anna"), say("Ready."));
    let running = world.festoon(["-p", "ID:lead"]).start();
    server.reached("lead");
    wait::until("anna is idle", || world.mail("team-lead").iter().any(|m| m["type"] == "idle_notification"));
    let task = |args: &[&str]| world.festoon([&["task"], args, &["--json"]].concat()).run();
    assert_eq!(task(&["list"]).code(0).json(), json!([]));
    assert_eq!(task(&["add", "write it down"]).code(0).json()["id"], 1);
    // It is offered to anna, who is idle and says that she begins, but claims nothing.
    server.wait_for("ID:anna", 2);
    let given = task(&["add", "check it", "--add-blocked-by", "1", "--owner", "Anna"]);
    assert_eq!(json!([given.code(0).json()["id"], given.json()["owner"]]), json!([2, "anna"]));
    assert_eq!(
        task(&["list"]).json(),
        json!([
            { "id": 1, "subject": "write it down", "status": "pending", "owner": null, "blocks": [2], "blockedBy": [] },
            { "id": 2, "subject": "check it", "status": "pending", "owner": "anna", "blocks": [], "blockedBy": [1] },
        ])
    );
    for (args, kind) in [
        (&["update", "1", "--blocked-by", "2"][..], "cycle"),
        (&["update", "2", "--status", "in_progress", "--owner", "anna"], "blocked"),
        (&["update", "7", "--subject", "x"], "no_such_task"),
        (&["show", "7"], "no_such_task"),
    ] {
        let refused = task(args);
        assert_eq!((refused.code(1).error()["kind"].clone(), args), (json!(kind), args));
    }
    task(&["update", "2", "--status", "nearly"]).code(2);
    task(&["update", "2"]).code(2);
    task(&["show", "x"]).code(2);
    assert_eq!(task(&["update", "1", "--status", "completed"]).json()["owner"], "user");
    assert_eq!(task(&["show", "2"]).json()["blockedBy"], json!([]));
    assert_eq!(task(&["update", "1", "--status", "deleted"]).json(), json!({ "id": 1, "deleted": true }));
    assert_eq!(task(&["show", "2"]).json()["description"], "");
    server.open("lead");
    running.wait().code(0);
    let mail: Vec<Value> =
        world.mail("anna").into_iter().filter(|m| m["type"] == "task_assignment").collect();
    assert_eq!(
        mail.iter().map(|m| m["payload"].clone()).collect::<Vec<_>>(),
        [
            json!({ "taskId": 1, "subject": "write it down", "by": "system", "offer": true }),
            json!({ "taskId": 2, "subject": "check it", "by": "user" }),
        ]
    );
}
