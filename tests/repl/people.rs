//! Plans, questions, modes and grouped asks at the prompt.

use super::{Place, Terminal};
use std::fs;

#[test]
fn a_plan_is_shown_rejected_with_a_word_and_approved_into_a_mode() {
    let place = Place::new(
        r##"
        [[rule]]
        contains = "begin"
        reply = [{ tool = "EnterPlanMode", input = {} }]
        [[rule]]
        contains = "plan-mode"
        reply = [{ tool = "ExitPlanMode", input = { plan = "# Make it\n\n1. write `made`\n2. look" } }]
        [[rule]]
        contains = "not approved by user"
        reply = [{ tool = "ExitPlanMode", input = { plan = "Only write it." } }]
        [[rule]]
        contains = "approved by user"
        reply = [{ tool = "Write", input = { file_path = "made", content = "x" } }]
        [[rule]]
        reply = [{ text = "Made it." }]
        "##,
    );
    let terminal = Terminal::repl(&place, &["begin"], (110, 50), &[]);
    terminal.shows("mode: plan");
    let screen =
        terminal.until("a plan", |s| s.contains("what follows goes to the agent") && s.ends_with('>'));
    for line in ["team-lead presents a plan", "│ # Make it", "│ 1. write `made`", "│ 2. look"] {
        assert!(screen.contains(line), "{line}: {screen}");
    }
    assert!(
        screen.contains("└ y yes, go on in default mode · a yes, go on in acceptEdits mode · n no"),
        "{screen}"
    );
    // What is no answer is a message, and the plan waits on.
    terminal.line("s");
    terminal.shows("the ask is still open: y or n answers it");
    terminal.line("n smaller steps");
    terminal.shows("team-lead: plan not approved");
    terminal.shows("│ Only write it.");
    terminal.line("a go on");
    terminal.shows("team-lead: plan approved, to go on in acceptEdits mode");
    terminal.shows("mode: acceptEdits");
    terminal.shows("Made it.");
    terminal.shows("· acceptEdits ·");
    assert!(place.path("project/made").exists());
    // Shift+Tab goes round, /mode goes where it is told.
    terminal.key("BTab");
    terminal.until("plan again", |s| s.matches("mode: plan").count() == 2);
    terminal.key("BTab");
    terminal.shows("mode: default");
    terminal.line("/mode bypass");
    terminal.shows("/mode takes one of default, acceptEdits, plan");
    terminal.line("/mode dontAsk");
    terminal.shows("mode: dontAsk");
    terminal.line("/permissions deny Bash(rm:*)");
    terminal.shows("deny Bash(rm:*) for this session: team-lead");
    terminal.line("/permissions");
    terminal.shows("deny  Bash(rm:*) (session)");
    terminal.line("/quit");
    terminal.ended(0);
}

#[test]
fn questions_come_one_by_one_and_a_line_begun_before_is_no_answer() {
    let place = Place::new(
        r#"
        [[rule]]
        contains = "begin"
        reply = [{ gate = "ask" }, { tool = "AskUserQuestion", id = "one", input = { questions = [
          { question = "Which store?", header = "Store", multiSelect = true, options = [
            { label = "Postgres", description = "runs already" }, { label = "SQLite" }, { label = "Files" } ] },
          { question = "What name?", options = [] },
        ] } }]
        [[rule]]
        contains = "Which store?"
        reply = [
          { text = "So: {{result:one | replace '\n' ' '}}" },
          { tool = "AskUserQuestion", id = "two", input = { questions = [
            { question = "Now?", options = [{ label = "Yes" }, { label = "No" }] } ] } },
        ]
        [[rule]]
        contains = "Now?"
        reply = [
          { text = "Then: {{result:two | replace '\n' ' '}}" },
          { tool = "AskUserQuestion", id = "three", input = { questions = [{ question = "Sure?", options = [] }] } },
        ]
        [[rule]]
        reply = [{ text = "Last: {{result:three}}" }]
        "#,
    );
    let terminal = Terminal::repl(&place, &["begin"], (150, 50), &[]);
    terminal.until("a session", |s| s.contains("teammates run") && s.ends_with('>'));
    terminal.text("half a");
    terminal.until("half a line", |s| s.ends_with("> half a"));
    place.open("ask");
    let screen = terminal.until("a question", |s| s.contains("or your own words") && s.ends_with("> half a"));
    for line in [
        "team-lead asks you, question 1 of 2",
        "│ [Store] Which store?",
        "│   1  Postgres — runs already",
        "│   2  SQLite",
    ] {
        assert!(screen.contains(line), "{line}: {screen}");
    }
    terminal.line(" thought");
    terminal.shows("user → team-lead: half a thought");
    terminal.line("7");
    terminal.shows("there is no option 7 (1 to 3)");
    terminal.line("1, 3");
    terminal.shows("team-lead asks you, question 2 of 2");
    terminal.line("main db");
    terminal.shows("team-lead: answered: Postgres; Files · main db");
    terminal.shows(
        "Question: Which store? Chosen: Postgres; Files  Question: What name? In their own words: main db",
    );
    terminal.shows("│ Now?");
    terminal.line("no");
    terminal.shows("Question: Now? Chosen: No");
    terminal.shows("│ Sure?");
    terminal.line("skip ask later");
    terminal.shows("Last: user does not want to answer. They say: ask later");
    terminal.line("/quit");
    terminal.ended(0);
}

#[test]
fn one_answer_serves_all_who_ask_the_same_and_a_teammates_mode_is_set() {
    let place = Place::new("");
    let shared = place.path("shared.txt");
    fs::write(&shared, "shared text").expect("file");
    let path = shared.to_str().expect("UTF-8");
    let script = format!(
        r#"
        gates = "gates"
        [[rule]]
        agent = "team-lead"
        contains = "begin"
        reply = [
          {{ tool = "Agent", input = {{ name = "anna", description = "read", prompt = "Read." }} }},
          {{ tool = "Agent", input = {{ name = "ben", description = "read", prompt = "Read." }} }},
          {{ tool = "Agent", input = {{ name = "cleo", description = "read", prompt = "Read." }} }},
        ]
        [[rule]]
        agent = "team-lead"
        times = "always"
        reply = [{{ text = "Noted." }}]
        [[rule]]
        prompt = "Read."
        round = 1
        reply = [{{ tool = "Read", input = {{ file_path = "{path}" }} }}]
        [[rule]]
        agent = "anna"
        round = 2
        reply = [{{ gate = "write" }}, {{ tool = "Write", input = {{ file_path = "made", content = "x" }} }}]
        [[rule]]
        agent = "anna"
        contains = "plan mode only reads"
        reply = [{{ tool = "Bash", input = {{ command = "rm shared.txt" }} }}]
        [[rule]]
        times = "always"
        reply = [{{ text = "{{{{agent}}}} has {{{{result | line 1}}}}" }}]
        "#
    );
    fs::write(place.path("script.toml"), script).expect("script");
    let terminal = Terminal::repl(&place, &["begin"], (110, 60), &[]);
    terminal.until("three asks", |s| s.contains("asks for Read") || s.contains("ask for the same Read"));
    let all_three = |s: &str| {
        s.lines()
            .any(|l| ["anna", "ben", "cleo", "ask for the same Read"].iter().all(|word| l.contains(word)))
    };
    super::until(
        "all three in one dialog",
        || {
            terminal.line("/asks");
            Some(()).filter(|()| all_three(&terminal.screen()))
        },
        || terminal.screen(),
    );
    terminal.line("y");
    terminal.until("three answers", |s| {
        ["anna: allowed once", "ben: allowed once", "cleo: allowed once"].iter().all(|line| s.contains(line))
    });
    terminal.shows("ben has");
    // A teammate's mode, never wider than the leader's; rules reach everyone.
    terminal.line("/mode acceptEdits anna");
    terminal.shows("anna cannot have acceptEdits: it is wider than the leader's mode, default");
    terminal.line("/mode plan nobody");
    terminal.shows("nobody is no living teammate");
    terminal.line("/mode plan anna");
    terminal.shows("anna: mode plan");
    terminal.line("/permissions deny Bash(rm:*)");
    terminal.until("the rule for all", |s| {
        s.lines().any(|l| {
            l.contains("deny Bash(rm:*) for this session") && l.contains("anna") && l.contains("cleo")
        })
    });
    let record = place.path("home/teams").read_dir().expect("teams").flatten().next().expect("one").path();
    super::until(
        "anna's record says it",
        || {
            fs::read_to_string(record.join("run/anna.json"))
                .ok()
                .filter(|text| text.contains("\"permissionMode\": \"plan\""))
        },
        || terminal.screen(),
    );
    terminal.line("/mode");
    terminal.shows("anna: plan");
    place.open("write");
    terminal.until("both refusals", |s| s.contains("the rule Bash(rm:*) (team) denies it"));
    assert!(!place.path("project/made").exists());
    terminal.line("/quit");
    terminal.shows("Stop them and leave?");
    terminal.line("y");
    terminal.ended(0);
}
