//! Questions to a person: asked by the agent, answered from any terminal.

use crate::asks::{OPEN, id, open_asks};
use crate::support::model_server::{ModelServer, Part, call_as, gate, prompt, say};
use crate::support::world::World;
use crate::teammates::start;
use serde_json::{Value, json};

fn ask(id: &str, questions: &Value) -> Part {
    call_as(id, "AskUserQuestion", json!({ "questions": questions }))
}

fn two() -> Value {
    json!([
        { "question": "Which store?", "header": "Store", "multiSelect": true,
          "options": [{ "label": "Postgres", "description": "runs already" }, { "label": "SQLite" }] },
        { "question": "What name?", "header": "Name", "options": [] },
    ])
}

#[test]
fn questions_are_answered_by_numbers_labels_words_and_json() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(
        prompt("ID:lead"),
        [
            [ask("q1", &two())].into(),
            [ask("q2", &two())].into(),
            [ask("q3", &two())].into(),
            say("done").into(),
        ],
    );
    let running = world.festoon(OPEN).args(["--output-format", "stream-json"]).start();
    let first = open_asks(&world, 1).remove(0);
    assert_eq!((&first["kind"], &first["input"]["questions"]), (&json!("question"), &two()));
    let shown = world.festoon(["ask", "show", &id(&first)]).run();
    for text in ["[Store] Which store?", "1  Postgres — runs already", "2  SQLite", "[Name] What name?"] {
        assert!(shown.stdout.contains(text), "{text}: {}", shown.stdout);
    }
    // A yes is no answer, nor is one for two; a mistake changes nothing.
    for wrong in [
        vec!["approve", &id(&first)],
        vec!["answer", &id(&first), "1"],
        vec!["answer", &id(&first), "7", "x"],
        vec!["answer", &id(&first), "--answers", "[1]"],
    ] {
        world.festoon([vec!["ask"], wrong].concat()).run().code(2);
    }
    world.festoon(["ask", "answer", &id(&first), "1,2", "main db"]).run().code(0);
    let second = open_asks(&world, 1).remove(0);
    let json = r#"{"Store": ["sqlite", "and a cache"], "What name?": "x"}"#;
    let done = world.festoon(["ask", "answer", &id(&second), "--answers", json, "--json"]).run();
    done.code(0);
    let told: Value = serde_json::from_str(&done.stdout).expect("JSON");
    assert_eq!(
        told["answers"],
        json!([{ "question": "Which store?", "selected": ["SQLite"], "text": "and a cache" },
               { "question": "What name?", "selected": [], "text": "x" }])
    );
    let third = open_asks(&world, 1).remove(0);
    world.festoon(["ask", "deny", &id(&third), "--note", "Your choice."]).run().code(0);
    let done = running.wait();
    done.code(0);
    let last = server.last_of("ID:lead");
    let results = [
        "The person answered.\n\nQuestion: Which store?\nChosen: Postgres; SQLite\n\nQuestion: What name?\nIn their own words: main db",
        "The person answered.\n\nQuestion: Which store?\nChosen: SQLite\nIn their own words: and a cache\n\nQuestion: What name?\nIn their own words: x",
    ];
    assert_eq!(last.result("q1"), (results[0].to_owned(), false));
    assert_eq!(last.result("q2"), (results[1].to_owned(), false));
    let (skipped, failed) = last.result("q3");
    assert!(failed && skipped.contains("user does not want to answer. They say: Your choice."), "{skipped}");
    let asked = done.lines().into_iter().find(|l| l["subtype"] == "ask").expect("a line");
    assert_eq!((&asked["kind"], &asked["questions"]), (&json!("question"), &two()));
    let shown = world.festoon(["ask", "show", &id(&first)]).run();
    assert!(
        shown.stdout.contains("Postgres; SQLite") && shown.stdout.contains("main db"),
        "{}",
        shown.stdout
    );
    assert_eq!(world.check_transcripts(), 1);
}

#[test]
fn where_nobody_is_a_question_is_refused_and_the_status_says_so() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:lead"), [[ask("q", &two())].into(), say("I chose.").into()]);
    let done = world.festoon(["-p", "ID:lead", "--output-format", "json"]).run();
    done.code(5);
    let (refused, failed) = server.last_of("ID:lead").result("q");
    assert!(
        failed && refused.contains("nobody is there to answer") && refused.contains("Choose what fits"),
        "{refused}"
    );
    // Who wants no asks gets none, and that is no failure.
    server.on(prompt("ID-quiet"), [[ask("q", &two())].into(), say("I chose.").into()]);
    world.festoon(["-p", "ID-quiet", "--permission-mode", "dontAsk"]).run().code(0);
    assert!(server.last_of("ID-quiet").result("q").0.contains("dontAsk mode"));
}

/// Three teammates in this process that want to read the same file outside of the project.
fn three_readers(server: &ModelServer, world: &World) -> String {
    let file = world.outside().join("shared.txt");
    std::fs::write(&file, "shared text").expect("file");
    let path = file.to_str().expect("UTF-8").to_owned();
    let names = ["anna", "ben", "cleo"];
    let starts: Vec<Part> = names.map(|name| start(name, name, &format!("ID:{name}"))).into();
    server.on(prompt("ID:lead"), [starts.into(), [gate("lead"), say("Waiting.")].into()]);
    server.always(prompt("ID:lead"), say("Ok."));
    for name in names {
        let read = call_as("r", "Read", json!({ "file_path": path }));
        server.on(prompt(&format!("ID:{name}")), [[read].into(), say("read it").into()]);
    }
    path
}

#[test]
fn the_same_call_of_several_agents_is_one_line_and_takes_one_answer() {
    let server = ModelServer::start();
    let world = server.world();
    three_readers(&server, &world);
    let running = world.festoon(OPEN).start();
    let asks = open_asks(&world, 3);
    for ask in &asks {
        let mut others: Vec<Value> =
            asks.iter().map(|a| a["id"].clone()).filter(|i| *i != ask["id"]).collect();
        let mut same = ask["same"].as_array().expect("a list").clone();
        others.sort_by_key(Value::to_string);
        same.sort_by_key(Value::to_string);
        assert_eq!(same, others);
    }
    let listed = world.festoon(["ask", "list"]).run();
    let line = listed.stdout.lines().find(|l| l.contains("shared.txt")).expect("a line").to_owned();
    assert_eq!(listed.stdout.matches("shared.txt").count(), 1, "{}", listed.stdout);
    assert!(["anna", "ben", "cleo"].iter().all(|name| line.contains(name)), "{line}");
    world.festoon(["ask", "approve", &id(&asks[1]), "--same"]).run().code(0);
    server.open("lead");
    running.wait().code(0);
    for name in ["anna", "ben", "cleo"] {
        let (text, failed) = server.last_of(&format!("ID:{name}")).result("r");
        assert!(!failed && text.contains("shared text"), "{text}");
    }
}
