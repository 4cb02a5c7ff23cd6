//! One process, several sessions: `/clear` and `/resume` at the prompt, `--resume` without an id.

use crate::support::model_server::{ModelServer, gate, prompt, say};
use crate::support::wait;
use crate::teammates::{send, start};
use std::io::Write;

#[test]
fn clear_begins_a_new_conversation_with_the_same_team_and_mail() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:first"), [[start("a", "anna", "ID:anna")].into(), say("She works.").into()]);
    server.on(prompt("ID:anna"), [[gate("anna"), say("Three of them.")].into(), say("Four.").into()]);
    server.on(prompt("ID:second"), [[send("m", "anna", "And now?")].into()]);
    server.always(prompt("ID:second"), say("Heard."));
    // On a pipe all mail is dealt with before the next line, so she reports once the new one has begun.
    let mut running = world.festoon(["--ask-timeout", "1"]).silent_stdin().start();
    let mut stdin = running.stdin.take().expect("a pipe");
    writeln!(stdin, "ID:first").expect("writes");
    server.wait_for("ID:first", 2);
    server.reached("anna");
    server.open("anna");
    wait::until("her report was heard", || server.of("ID:first").len() >= 2);
    server.always(prompt("ID:first"), say("Good."));
    writeln!(stdin, "/clear\nID:second").expect("writes");
    server.wait_for("ID:second", 2);
    drop(stdin);
    let done = running.wait();
    done.code(0);
    assert!(done.stdout.contains("a new conversation; the old one: /resume "), "{}", done.stdout);
    assert!(done.stdout.contains("no mail was waiting"), "{}", done.stdout);
    let second = server.of("ID:second");
    assert!(!second[0].prompt().contains("ID:first"));
    assert_eq!(second[0].messages().len(), 1);
    // The same anna answers the new conversation.
    assert_eq!(server.of("ID:anna").len(), 2);
    assert_eq!(world.sessions().len(), 2);
    assert_eq!(world.members().len(), 1);
    world.check_transcripts();
    world.all_gone();
}

#[test]
fn mail_that_waits_is_kept_for_the_new_conversation() {
    let server = ModelServer::start();
    let world = server.world();
    server.on(prompt("ID:first"), [[gate("first"), say("One.")].into()]);
    server.always(prompt("ID:second"), say("Two."));
    // Queue-only mail starts no turn: it waits until somebody speaks.
    let running = world.festoon([] as [&str; 0]).stdin("ID:first\n/clear\nID:second\n").start();
    server.reached("first");
    let inbox = world.team().join("inboxes/team-lead.json");
    let letter =
        r#"{"from":"ben","text":"Kept.","timestamp":"2026-01-01T00:00:00.000Z","read":false,"wake":"queue"}"#;
    std::fs::write(&inbox, format!("[\n{letter}\n]\n")).expect("mail");
    server.open("first");
    let done = running.wait();
    done.code(0);
    assert!(done.stdout.contains("the message that waits is kept for it"), "{}", done.stdout);
    let second = server.of("ID:second");
    assert!(second[0].mail().concat().iter().any(|t| t.contains("Kept.")), "{:?}", second[0].mail());
}

#[test]
fn resume_goes_to_another_session_and_back() {
    let server = ModelServer::start();
    let world = server.world();
    let (one, two) = ("00000001-1111-4222-8333-444455556666", "00000002-1111-4222-8333-444455556666");
    server.always(prompt("ID:one"), say("One."));
    server.always(prompt("ID:two"), say("Two."));
    world.festoon(["-p", "ID:one", "--session-id", one]).run().code(0);
    let lines = format!(
        "ID:two\n/resume\n/resume nothing\n/resume {one}\nmore of one\n/resume {two}\nmore of two\n/cost\n"
    );
    let done = world.festoon(["--session-id", two]).stdin(lines).run();
    // The one that is not there counts as a failure of a script.
    done.code(2);
    assert!(done.stdout.lines().any(|l| l.starts_with(one) && l.ends_with("ID:one")), "{}", done.stdout);
    assert!(done.stdout.contains("there is no session nothing of "), "{}", done.stdout);
    let said = |id: &str| server.last_of(id).messages().len();
    assert_eq!((said("ID:one"), said("ID:two")), (3, 3));
    assert!(done.stdout.lines().any(|l| l.starts_with("all ")), "{}", done.stdout);
    assert_eq!(world.sessions().len(), 2);
    world.check_transcripts();
}

#[test]
fn resume_without_an_id_lists_what_there_is() {
    let server = ModelServer::start();
    let world = server.world();
    server.always(prompt("ID:one"), say("One."));
    let id = "00000001-1111-4222-8333-444455556666";
    world.festoon(["-p", "ID:one", "--session-id", id]).run().code(0);
    // Which one that is, is said on demand.
    let done = world.festoon(["-p", "more", "--continue", "--verbose"]).run();
    assert_eq!(
        (done.code(0).stdout.as_str(), &done.stderr),
        ("One.\n", &format!("goes on with session {id}\n"))
    );
    assert_eq!(world.festoon(["-p", "more", "--continue"]).run().code(0).stderr, "");
    let done = world.festoon(["-p", "x", "--resume"]).run();
    done.code(2);
    let list: Vec<&str> = done.stderr.lines().collect();
    assert_eq!(list[0], "error: which session?");
    assert!(list[1].trim().starts_with(id) && list[1].ends_with("ID:one"), "{list:?}");
}
