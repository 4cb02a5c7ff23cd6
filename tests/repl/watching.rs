//! Agents looked at from other terminals than their leader's.

use super::{PROGRAM, Place, Terminal};

const ANNA: &str = r#"
    [[rule]]
    agent = "team-lead"
    contains = "begin"
    reply = [{ tool = "Agent", input = { name = "anna", description = "count", prompt = "Count." } }]
    [[rule]]
    agent = "anna"
    contains = "louder"
    reply = [{ text = "Now louder: {{mail:user}}" }]
    [[rule]]
    agent = "anna"
    contains = "Count."
    reply = [{ text = "I begin." }, { tool = "Glob", input = { pattern = "*" } }]
    [[rule]]
    agent = "anna"
    reply = [{ gate = "go" }, { tool = "Bash", input = { command = "touch made", description = "make it" } }]
    [[rule]]
    agent = "anna"
    times = "always"
    reply = [{ text = "Made." }]
    [[rule]]
    times = "always"
    reply = [{ text = "Fine." }]
"#;

fn terminal(place: &Place, args: &[&str], size: (u32, u32)) -> Terminal {
    let command: Vec<String> = [PROGRAM].iter().chain(args).map(|word| (*word).to_owned()).collect();
    Terminal::run(place, &command, size, &[])
}

#[test]
fn an_agent_is_looked_at_talked_to_and_answered_from_another_terminal() {
    let place = Place::new(ANNA);
    let leader = Terminal::repl(&place, &["begin"], (100, 30), &[]);
    leader.shows("Fine.");
    let other = terminal(&place, &["attach", "anna"], (80, 24));
    other.shows("attached to anna");
    other.until("what she did, her state, a prompt", |s| {
        s.contains("I begin.") && s.contains("· working · ") && s.ends_with('>')
    });
    other.line("louder please");
    other.shows("stored in the inbox of anna");
    place.open("go");
    other.until("her ask", |s| s.contains("anna asks for Bash") && s.ends_with('>'));
    other.line("y go");
    other.shows("mail from user: louder please");
    other.shows("Now louder: louder please");
    other.until("her rest", |s| s.contains("· idle · "));
    assert!(place.path("project/made").exists());
    other.line("/help me");
    other.shows("leaves (also Ctrl-C, Ctrl-D); nothing ends by it");
    other.key("C-c");
    other.shows("anna goes on; festoon attach anna looks again");
    other.ended(0);
    // When she ends, so does the looking.
    let again = terminal(&place, &["attach", "anna"], (80, 24));
    again.until("her state", |s| s.contains("· idle · ") && s.ends_with('>'));
    leader.key("C-d");
    leader.shows("Stop them and leave?");
    leader.line("y");
    leader.ended(0);
    again.shows("· stopped · ");
    again.ended(0);
}

#[test]
fn all_teams_are_shown_live_and_an_agent_is_chosen() {
    let place = Place::new(ANNA);
    let leader = Terminal::repl(&place, &["begin"], (100, 30), &[]);
    leader.shows("Fine.");
    let top = terminal(&place, &["top"], (90, 20));
    top.until("both agents", |s| {
        s.contains("1 team · 2 agents, 1 at work") && s.contains("> team-lead") && s.contains("working")
    });
    place.open("go");
    // Drawn anew without a key, as the files change.
    top.until("her ask", |s| s.contains("1 open ask") && s.contains("? anna, ") && s.contains("waiting"));
    top.key("Down");
    top.shows("> anna");
    top.tmux(&["resize-window", "-x", "60", "-y", "12"]);
    top.until("a smaller picture", |s| s.contains("> anna") && s.lines().count() <= 12);
    top.key("Enter");
    let screen = top.shows("festoon attach anna@");
    assert!(!screen.contains("festoon top "), "the other screen is gone: {screen}");
    top.ended(0);
    let again = terminal(&place, &["top"], (90, 20));
    again.shows("> team-lead");
    again.key("q");
    again.ended(0);
    leader.line("y");
    leader.shows("anna");
    leader.key("C-d");
    leader.shows("Stop them and leave?");
    leader.line("y");
    leader.ended(0);
}
