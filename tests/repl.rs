//! The prompt in real terminals: tmux on private sockets, the real program, scripted models.

#![expect(clippy::expect_used, reason = "a test says what it expected by failing")]

#[path = "repl/people.rs"]
mod people;
#[path = "repl/watching.rs"]
mod watching;

use clap::Parser;
use festoon::agent::disk::Disk;
use festoon::agent::first::user_message;
use festoon::agent::turn::TurnInput;
use festoon::cli::args::Cli;
use festoon::cli::compose::{LeadPlan, lead};
use festoon::cli::screen::{Prepared, Screen};
use festoon::cli::setup::Setup;
use festoon::os::process;
use festoon::store::asks;
use festoon::store::paths::Paths;
use festoon::store::roster::Roster;
use festoon::team::answer::{Answered, Word, answer};
use festoon::team::context::Team;
use festoon::team::lead::Settled;
use festoon::team::mailbox::{FileMailbox, Sender};
use festoon::team::session::{self, TeamTitle};
use festoon::wire::ask::AskStatus;
use festoon::wire::ids::{AgentName, TeamName};
use festoon::wire::mail::Draft;
use festoon::wire::permission::{Decision, PermissionMode};
use festoon::wire::run::AgentState;
use festoon::wire::settings::Durability;
use festoon::wire::worker::AskPolicy;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// How long anything here may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);
const PROGRAM: &str = env!("CARGO_BIN_EXE_festoon");

/// A project, a state root and a script.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new(script: &str) -> Self {
        let dir = TempDir::new().expect("temp dir");
        fs::create_dir(dir.path().join("project")).expect("dir");
        fs::create_dir(dir.path().join("gates")).expect("dir");
        let place = Self { dir };
        fs::write(place.path("script.toml"), format!("gates = \"gates\"\n{script}")).expect("script");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn open(&self, gate: &str) {
        fs::write(self.path("gates").join(gate), "").expect("gate");
    }

    fn model(&self) -> String {
        format!("scripted:{}", self.path("script.toml").display())
    }

    /// The one team of this place.
    async fn team(&self) -> Team {
        let paths = Paths::from_home(&self.path("home"));
        let name = self.team_names().pop().expect("a team");
        let disk = Disk::start().expect("starts");
        session::open(&paths, &disk, &name, Durability::Process).await.expect("opens")
    }

    fn team_names(&self) -> Vec<TeamName> {
        let teams = Paths::from_home(&self.path("home")).teams();
        let found = fs::read_dir(teams).map(|dir| dir.flatten().collect::<Vec<_>>()).unwrap_or_default();
        let names = found.iter().filter_map(|e| TeamName::new(e.file_name().to_str()?).ok());
        names.collect()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(PROGRAM);
        command.current_dir(self.path("project")).env_clear().envs(self.env());
        command
    }

    fn env(&self) -> Vec<(&'static str, String)> {
        let text = |path: PathBuf| path.to_str().expect("UTF-8").to_owned();
        vec![
            ("PATH", std::env::var("PATH").expect("PATH")),
            ("HOME", text(self.dir.path().to_owned())),
            ("FESTOON_HOME", text(self.path("home"))),
            ("TERM", "xterm-256color".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
        ]
    }
}

/// A terminal in which something runs; the screen stays when it has ended.
struct Terminal {
    socket: String,
    dir: TempDir,
}

impl Terminal {
    /// Runs the program at the prompt.
    fn repl(place: &Place, args: &[&str], size: (u32, u32), env: &[(&str, &str)]) -> Self {
        let mut command = vec![PROGRAM.to_owned(), "--model".to_owned(), place.model()];
        command.extend(["--teammate-mode", "in-process"].map(str::to_owned));
        command.extend(args.iter().map(|a| (*a).to_owned()));
        Self::run(place, &command, size, env)
    }

    fn run(place: &Place, command: &[String], size: (u32, u32), env: &[(&str, &str)]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = TempDir::new().expect("temp dir");
        let terminal = Self { socket: format!("festoon-repl-test-{}-{n}", std::process::id()), dir };
        // What ran says how it ended and what it did to the terminal, then keeps the screen.
        let script = "cd \"$1\" && shift && \"$@\"; echo \"status=$?\"; \
                      stty -a | tr ' ;' '\\n\\n' | grep -xE -- '-?(echo|icanon|isig)' | xargs echo modes:; exec cat";
        let project = place.path("project").to_str().expect("UTF-8").to_owned();
        let mut args = vec!["new-session", "-d", "-x"];
        let (columns, rows) = (size.0.to_string(), size.1.to_string());
        args.extend([columns.as_str(), "-y", &rows, "sh", "-c", script, "sh", &project]);
        args.extend(command.iter().map(String::as_str));
        let mut tmux = Command::new("tmux");
        tmux.args(["-L", &terminal.socket, "-f", "/dev/null"]).args(&args).env_clear().envs(place.env());
        tmux.env("TMUX_TMPDIR", terminal.dir.path()).envs(env.iter().copied());
        let output = tmux.output().expect("tmux runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        terminal
    }

    fn tmux(&self, args: &[&str]) -> Output {
        Command::new("tmux")
            .args(["-L", &self.socket, "-f", "/dev/null"])
            .args(args)
            .env("TMUX_TMPDIR", self.dir.path())
            .output()
            .expect("tmux runs")
    }

    /// Types text, without Enter.
    fn text(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    fn key(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    fn line(&self, text: &str) {
        self.text(text);
        self.key("Enter");
    }

    /// All that is and was on the screen, lines that are only wrapped joined.
    fn screen(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p", "-J", "-S", "-"]);
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    fn until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        until(what, || Some(self.screen()).filter(|s| holds(s)), || self.screen())
    }

    fn shows(&self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }

    /// Waits for the end; the status and the terminal's modes must be as they should.
    fn ended(&self, status: u8) {
        let screen = self.shows("modes:");
        assert!(screen.contains(&format!("status={status}\n")), "{screen}");
        assert!(screen.ends_with("modes: isig icanon echo"), "the terminal was not given back: {screen}");
    }

    fn pid_of_program(&self) -> process::Stat {
        let output = self.tmux(&["list-panes", "-F", "#{pane_pid}"]);
        let shell: u32 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a pid");
        let is_it = |s: &process::Stat| {
            s.parent == shell && process::arguments(s.pid).first().is_some_and(|a| a == PROGRAM)
        };
        process::all().into_iter().find(is_it).expect("the program runs")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// Waits until `look` gives something.
fn until<T>(what: &str, look: impl Fn() -> Option<T>, seen: impl Fn() -> String) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}; there is:\n{}", seen());
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "a look at a terminal every so often is all one can do")]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

/// A command of its own: a number of seconds that nobody else sleeps.
fn sleep() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("sleep {}.{}", 100_000 + std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn runs(command: &str) -> bool {
    process::all().iter().any(|p| process::arguments(p.pid).join(" ") == command)
}

#[test]
fn the_line_being_typed_survives_all_output_and_is_delivered_at_the_next_round() {
    let place = Place::new(
        r#"
        [[rule]]
        contains = "begin"
        reply = [
          { text = "first row\n" }, { gate = "more" }, { text = "second row\nthird row\n" }, { gate = "call" },
          { tool = "Glob", input = { pattern = "*" } },
        ]
        [[rule]]
        contains = "teammate-message"
        reply = [{ text = "You say: {{mail:user}}" }]
        "#,
    );
    let terminal = Terminal::repl(&place, &["begin"], (60, 20), &[]);
    terminal.shows("first row");
    terminal.text("half a li");
    terminal.until("the half line", |s| s.ends_with("> half a li"));
    place.open("more");
    terminal.until("rows above it", |s| s.ends_with("first row\nsecond row\nthird row\n> half a li"));
    terminal.line("ne");
    terminal.shows("user → team-lead: half a line");
    place.open("call");
    terminal.shows("You say: half a line");
    terminal.until("an empty prompt", |s| s.ends_with('>'));
    terminal.key("Up");
    terminal.until("the history", |s| s.ends_with("> half a line"));
    terminal.key("C-u");
    terminal.key("C-d");
    terminal.ended(0);
    assert_eq!(fs::read_to_string(place.path("home/history.jsonl")).expect("history"), "\"half a line\"\n");
}

#[test]
fn a_line_over_several_rows_survives_output_and_is_joined_by_backslashes() {
    let place = Place::new(
        r#"
        [[rule]]
        contains = "begin"
        reply = [{ text = "first row\n" }, { gate = "more" }, { text = "second row\nthird row\n" }, { gate = "end" }]
        [[rule]]
        contains = "teammate-message"
        reply = [{ text = "Your last line: {{mail:user | last 1}}" }]
        "#,
    );
    let terminal = Terminal::repl(&place, &["begin"], (40, 20), &[]);
    terminal.shows("first row");
    let long = "0123456789 ".repeat(5);
    terminal.text(&long);
    terminal.line("\\");
    terminal.text("the second line");
    let typed = format!("> {}\\ the second line", long);
    let joined = |s: &str| s.split_whitespace().collect::<Vec<_>>().join(" ");
    terminal.until("two lines", |s| joined(s).ends_with(&joined(&typed)));
    place.open("more");
    let above = format!("first row second row third row {typed}");
    terminal.until("rows above them", |s| joined(s).ends_with(&joined(&above)));
    terminal.key("Enter");
    terminal.shows("user → team-lead: 0123456789");
    place.open("end");
    terminal.shows("Your last line: the second line");
    terminal.key("C-d");
    terminal.ended(0);
}

const TWO_ASKS: &str = r#"
    [[rule]]
    contains = "begin"
    reply = [{ tool = "Bash", input = { command = "touch yes && echo made" }, id = "one" }]
    [[rule]]
    contains = "made"
    reply = [
      { text = "First: {{result:one | last 1}}" },
      { tool = "Bash", input = { command = "touch no" }, id = "two" },
    ]
    [[rule]]
    reply = [{ text = "Second: {{result}}" }]
    "#;

#[test]
fn asks_are_answered_with_a_letter_and_a_note() {
    let place = Place::new(TWO_ASKS);
    let terminal = Terminal::repl(&place, &["begin"], (100, 40), &[]);
    let screen = terminal.until("a dialog", |s| s.contains("a note may follow") && s.ends_with('>'));
    assert!(screen.contains("team-lead asks for Bash"), "{screen}");
    assert!(screen.contains("│ $ touch yes && echo made"), "{screen}");
    assert!(
        screen.contains(&format!("│ in: {}", place.path("project").canonicalize().expect("path").display()))
    );
    terminal.line("y gently");
    terminal.shows("First: The person who allowed this call adds: gently");
    terminal.shows("│ $ touch no");
    terminal.line("n look first");
    terminal.shows("Second: The call was denied by user. They say: look first");
    terminal.line("/asks");
    terminal.shows("nothing waits for your answer");
    terminal.line("/quit");
    terminal.ended(0);
    let made = ["yes", "no"].map(|name| place.path("project").join(name).exists());
    assert_eq!(made, [true, false]);
}

#[tokio::test]
async fn an_ask_answered_elsewhere_leaves_with_a_line() {
    let place = Place::new(TWO_ASKS);
    let terminal = Terminal::repl(&place, &["begin"], (100, 40), &[]);
    terminal.shows("│ $ touch yes");
    let team = place.team().await;
    let open = || asks::list(&team.paths).expect("asks").into_iter().find(|(_, s, _)| *s == AskStatus::Open);
    let (ask, _, _) = open().expect("an ask");
    let word = Word::once(Decision::Deny, None, "somebody");
    assert!(matches!(answer(&team, &ask.id, word).await, Ok(Answered::Counts { .. })));
    terminal.shows("touch yes && echo made — denied elsewhere by somebody");
    terminal.shows("Second:");
    terminal.key("C-d");
    terminal.ended(0);
}

#[test]
fn an_interrupt_ends_a_command_and_nothing_else() {
    let sleep = sleep();
    let place = Place::new(&format!(
        r#"
        [[rule]]
        contains = "begin"
        reply = [{{ tool = "Bash", input = {{ command = "{sleep}" }} }}]
        [[rule]]
        contains = "again"
        reply = [{{ text = "I am still here." }}]
        "#
    ));
    let mode = ["--permission-mode", "bypassPermissions", "begin"];
    let terminal = Terminal::repl(&place, &mode, (80, 20), &[]);
    until("the command", || runs(&sleep).then_some(()), || terminal.screen());
    terminal.text("again");
    terminal.key("C-c");
    terminal.shows("interrupted");
    until("its end", || (!runs(&sleep)).then_some(()), || terminal.screen());
    terminal.until("the line that was begun", |s| s.ends_with("> again"));
    terminal.key("Enter");
    terminal.shows("I am still here.");
    // At an idle prompt it asks, and once more is a yes.
    terminal.until("an idle prompt", |s| s.ends_with('>'));
    terminal.key("C-c");
    terminal.shows("Leave? y leaves");
    terminal.key("C-c");
    terminal.ended(0);
}

#[tokio::test]
async fn mail_to_an_idle_leader_starts_a_turn() {
    let place = Place::new(
        r#"
        [[rule]]
        contains = "teammate-message"
        reply = [{ text = "There is mail: {{mail:user}}" }]
        "#,
    );
    let terminal = Terminal::repl(&place, &[], (80, 20), &[]);
    terminal.until("a session", |s| s.contains("teammates run") && s.ends_with('>'));
    terminal.text("draft");
    terminal.until("a draft", |s| s.ends_with("> draft"));
    let user = FileMailbox::new(place.team().await, AgentName::user(), 1, None);
    user.post(&AgentName::team_lead(), Draft::text("come and look"), Sender::Trusted).await.expect("sent");
    terminal.shows("There is mail: come and look");
    terminal.until("the draft below it", |s| s.ends_with("> draft"));
    terminal.key("C-u");
    terminal.line("/taem");
    terminal.shows("/taem is no command; did you mean /team?");
    terminal.line("/quit");
    terminal.ended(0);
}

fn script_of_anna(sleep: &str) -> String {
    format!(
        r#"
        [[rule]]
        agent = "team-lead"
        contains = "begin"
        reply = [
          {{ tool = "Agent", input = {{ name = "anna", description = "sleep", prompt = "Sleep." }} }},
        ]
        [[rule]]
        agent = "anna"
        reply = [{{ tool = "Bash", input = {{ command = "{sleep}" }} }}]
        [[rule]]
        times = "always"
        reply = [{{ text = "{{{{agent}}}} is done." }}]
        "#
    )
}

#[tokio::test]
async fn leaving_asks_for_living_teammates_and_leaves_nothing_behind() {
    let sleep = sleep();
    let place = Place::new(&script_of_anna(&sleep));
    let mode = ["--permission-mode", "bypassPermissions", "begin"];
    let terminal = Terminal::repl(&place, &mode, (80, 30), &[]);
    until("the command", || runs(&sleep).then_some(()), || terminal.screen());
    terminal.shows("team-lead is done.");
    let team = place.team().await;
    let record = team.paths.run(&AgentName::new("anna").expect("a name"));
    let says = || fs::read_to_string(&record).ok().filter(|text| text.contains(&sleep));
    until("the record of the command", says, || terminal.screen());
    terminal.line("/team");
    let screen = terminal.until("a line for anna", |s| s.contains("anna      working"));
    assert!(screen.lines().any(|l| l.starts_with("  anna") && l.contains(&sleep)), "{screen}");
    terminal.key("C-d");
    terminal.shows("anna is still alive, in this process, and cannot live on without it.");
    terminal.line("n");
    terminal.line("@bob hello");
    terminal.shows("there is no agent \"bob\"");
    assert!(runs(&sleep), "a no changes nothing");
    terminal.key("C-d");
    terminal.until("the question again", |s| s.matches("Stop them and leave?").count() == 2);
    terminal.line("y");
    terminal.ended(0);
    assert!(!runs(&sleep), "the teammate's command outlived it");
    let roster = Roster::load(&team.paths).expect("loads").expect("there");
    let ends: Vec<_> = roster.members.iter().map(|m| m.ended.as_ref().map(|e| e.state)).collect();
    assert_eq!(ends, [Some(AgentState::Stopped)]);
}

#[test]
fn background_agents_outlive_an_interrupt_and_are_the_persons_to_stop_and_to_bring_back() {
    let place = Place::new(
        r#"
        [[rule]]
        agent = "general-purpose"
        contains = "dig deeper"
        reply = [{ text = "I dug deeper." }]
        [[rule]]
        agent = "general-purpose"
        contains = "once more"
        reply = [{ gate = "never" }]
        [[rule]]
        agent = "general-purpose"
        reply = [{ gate = "never" }]
        [[rule]]
        contains = "begin"
        reply = [{ tool = "Agent", input = { description = "a dig", prompt = "dig", run_in_background = true } }]
        [[rule]]
        contains = "async_launched"
        reply = [{ text = "It digs." }]
        [[rule]]
        contains = "work"
        reply = [{ text = "I work.\n" }, { gate = "never" }]
        [[rule]]
        contains = "stopped by the user"
        reply = [{ tool = "SendMessage", input = { to = "{{input | match 'a[0-9a-f]{16}'}}", message = "go on" } }]
        [[rule]]
        contains = "Not sent"
        reply = [{ text = "I may not: {{result}}" }]
        [[rule]]
        contains = "I dug deeper."
        reply = [{ text = "Heard of it." }]
        "#,
    );
    let terminal = Terminal::repl(&place, &["begin"], (120, 40), &[]);
    terminal.shows("It digs.");
    terminal.shows("· 1 background agent");
    terminal.line("work");
    terminal.shows("I work.");
    terminal.key("Escape");
    terminal.shows("interrupted");
    terminal.line("/tasks");
    let screen = terminal.until("its line", |s| s.contains("working") && s.contains("a dig"));
    let id = regex::Regex::new("a[0-9a-f]{16}")
        .expect("a pattern")
        .find(&screen)
        .expect("an id")
        .as_str()
        .to_owned();
    terminal.line(&format!("/tasks stop {id}"));
    terminal.shows(&format!("{id} is stopped; /tasks resume {id} brings it back"));
    // Its leader's model is told, and may not undo it.
    terminal.shows(&format!("I may not: Not sent: the user stopped {id}"));
    terminal.line(&format!("/tasks resume {id} dig deeper"));
    terminal.shows(&format!("{id} goes on in the background"));
    terminal.shows("Heard of it.");
    terminal.line(&format!("@{id} once more"));
    terminal.until("it goes on again", |s| s.matches("goes on in the background").count() == 2);
    terminal.line("/quit");
    terminal.shows("1 background agent is at work and ends with this process");
    terminal.line("y");
    terminal.ended(0);
}

#[test]
fn a_session_goes_on_where_it_was_and_tells_only_what_is_new() {
    let place = Place::new(
        r#"
        [[rule]]
        contains = "begin"
        reply = [{ tool = "Agent", input = { name = "anna", description = "d", prompt = "p" } }]
        [[rule]]
        agent = "anna"
        reply = [{ text = "anna was here" }]
        [[rule]]
        contains = "remember"
        anywhere = "anna was here"
        reply = [{ text = "I remember." }]
        [[rule]]
        times = "always"
        reply = [{ text = "well" }]
        "#,
    );
    let first = Terminal::repl(&place, &["begin"], (80, 30), &[]);
    first.shows("anna is idle: anna was here");
    first.until("a turn", |s| s.contains("tokens"));
    first.key("C-d");
    first.shows("anna is still alive");
    first.line("y");
    first.shows("go on later with: festoon --resume ");
    first.ended(0);
    let second = Terminal::repl(&place, &["--continue", "remember"], (80, 30), &[]);
    let screen = second.shows("I remember.");
    assert!(!screen.contains("joins") && !screen.contains("anna is idle"), "old events are told: {screen}");
    second.key("C-d");
    second.ended(0);
}

/// At a terminal a call without a type forks when the setting says so, and what it cost is a line.
#[test]
fn a_call_without_a_type_forks_where_that_is_set_and_its_receipt_is_shown() {
    let place = Place::new(
        r#"
        [[rule]]
        agent = "fork"
        prompt = "Look once more."
        reply = [{ text = "Scope: looked" }]
        [[rule]]
        contains = "begin"
        reply = [{ tool = "Agent", input = { description = "a look", prompt = "Look once more." } }]
        [[rule]]
        contains = "Scope: looked"
        reply = [{ text = "It has looked." }]
        [[rule]]
        times = "always"
        reply = [{ text = "well" }]
        "#,
    );
    let terminal = Terminal::repl(&place, &["--fork", "implicit", "begin"], (160, 30), &[]);
    let screen = terminal.shows("It has looked.");
    assert!(screen.contains(" % of ") && screen.contains(" input tokens from the cache, "), "{screen}");
    terminal.key("C-d");
    terminal.ended(0);
}

#[test]
fn a_signal_ends_the_session_in_order() {
    let sleep = sleep();
    let place = Place::new(&script_of_anna(&sleep));
    let mode = ["--permission-mode", "bypassPermissions", "begin"];
    let terminal = Terminal::repl(&place, &mode, (80, 30), &[]);
    until("the command", || runs(&sleep).then_some(()), || terminal.screen());
    terminal.text("never sent");
    terminal.until("a draft", |s| s.ends_with("> never sent"));
    let program = process::of(terminal.pid_of_program().pid).expect("it runs");
    process::signal(&program, process::Signal::Terminate).expect("signalled");
    terminal.ended(130);
    assert!(!runs(&sleep), "the teammate's command outlived it");
    assert!(!terminal.screen().contains("never sent"), "the prompt was not wiped: {}", terminal.screen());
}

#[test]
fn a_terminal_that_goes_away_ends_the_session_in_order() {
    let sleep = sleep();
    let place = Place::new(&script_of_anna(&sleep));
    let mode = ["--permission-mode", "bypassPermissions", "begin"];
    let terminal = Terminal::repl(&place, &mode, (80, 30), &[]);
    until("the command", || runs(&sleep).then_some(()), || terminal.screen());
    let program = process::of(terminal.pid_of_program().pid).expect("it runs");
    terminal.tmux(&["kill-server"]);
    until("its end", || (!process::is_alive(&program)).then_some(()), String::new);
    assert!(!runs(&sleep), "the teammate's command outlived it");
}

#[test]
fn a_retry_is_shown_with_its_reason_and_escape_interrupts() {
    let place = Place::new(
        r#"
        [[rule]]
        reply = [{ text = "half an ans" }, { error = { status = 529, message = "overloaded, says the server" } }]
        [[rule]]
        reply = [{ text = "a whole answer\n" }, { gate = "never" }]
        [[rule]]
        reply = [{ text = "and on" }]
        "#,
    );
    let terminal = Terminal::repl(&place, &["begin"], (80, 20), &[]);
    let screen = terminal.shows("a whole answer");
    let rows: Vec<&str> = screen.lines().collect();
    let at =
        |text: &str| rows.iter().position(|row| row.contains(text)).unwrap_or_else(|| panic!("{screen}"));
    assert!(at("half an ans") < at("broke off") && at("broke off") < at("a whole answer"), "{screen}");
    assert!(screen.contains("overloaded, says the server") && screen.contains("attempt 2 of "), "{screen}");
    terminal.key("Escape");
    terminal.shows("interrupted");
    terminal.line("go on");
    terminal.shows("and on");
    terminal.key("C-d");
    terminal.ended(0);
}

#[test]
fn colours_and_wide_names_keep_to_the_rules() {
    let place = Place::new(
        r#"
        [[rule]]
        contains = "begin"
        reply = [{ tool = "Agent", input = { name = "漢字の名前", description = "d", prompt = "p" } }]
        [[rule]]
        times = "always"
        reply = [{ text = "fertig" }]
        "#,
    );
    let terminal = Terminal::repl(&place, &["begin"], (80, 30), &[("NO_COLOR", "1")]);
    terminal.shows("漢字の名前 is idle: fertig");
    terminal.line("/team");
    let screen = terminal.until("the table", |s| s.contains("漢字の名前 idle"));
    assert!(screen.lines().all(|l| festoon::cli::text::width(l) <= 80), "{screen}");
    let coloured = terminal.tmux(&["capture-pane", "-p", "-e"]);
    assert!(!coloured.stdout.contains(&0x1b), "{}", String::from_utf8_lossy(&coloured.stdout));
    let plain = Terminal::repl(&place, &["begin"], (80, 30), &[]);
    plain.shows("is idle: fertig");
    let coloured = plain.tmux(&["capture-pane", "-p", "-e"]);
    assert!(coloured.stdout.contains(&0x1b), "colours where nothing speaks against them");
}

fn piped(place: &Place, args: &[&str], input: &str) -> Output {
    let mut child = place
        .command()
        .args(["--model", &place.model()])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("written");
    child.wait_with_output().expect("ends")
}

#[test]
fn lines_from_a_pipe_are_worked_on_in_order() {
    let place = Place::new(
        r#"
        [[rule]]
        contains = "one\ntwo"
        reply = [
          { tool = "Agent", input = { name = "anna", description = "d", prompt = "p" } },
        ]
        [[rule]]
        agent = "anna"
        reply = [{ delay-ms = 300 }, { text = "the report" }]
        [[rule]]
        contains = "the report"
        reply = [{ text = "anna reports" }]
        [[rule]]
        contains = "three"
        reply = [{ text = "three is last" }]
        [[rule]]
        reply = [{ text = "waiting" }]
        "#,
    );
    let output = piped(&place, &[], "one\\\ntwo\nthree\n");
    let text = String::from_utf8_lossy(&output.stdout);
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} is missing: {text}"));
    assert!(at("waiting") < at("anna reports") && at("anna reports") < at("three is last"), "{text}");
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_pipe_has_nobody_to_ask_and_says_what_failed() {
    let place = Place::new(TWO_ASKS);
    let output = piped(&place, &[], "begin\nnobody answers this\n");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("nobody is there to answer"), "{text}");
    assert!(text.contains("error: "), "{text}");
    assert_eq!(output.status.code(), Some(1), "{text}");
}

#[test]
fn without_a_model_there_is_no_session() {
    let place = Place::new("");
    let output = place.command().stdin(Stdio::null()).output().expect("runs");
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("festoon demo"));
}

#[test]
fn a_reader_that_goes_away_ends_nothing_with_a_panic() {
    let place = Place::new("[[rule]]\ntimes = \"always\"\nreply = [{ text = \"a\\nb\\nc\" }]\n");
    let mut child = place
        .command()
        .args(["--model", &place.model()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    drop(child.stdout.take());
    child.stdin.take().expect("a pipe").write_all(b"one\ntwo\n").expect("written");
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs in a terminal, started by the test below.
#[tokio::test]
#[ignore = "is the child of another test"]
async fn child_that_is_watched() {
    let model = std::env::var("SCRIPT").expect("a script");
    let args = ["festoon", "--model", &model, "--teammate-mode", "in-process"];
    let cli = Cli::try_parse_from(args).expect("parses");
    let setup = Setup::new(cli.shared).expect("a setup");
    let prepared = Prepared::start().expect("starts");
    let plan = LeadPlan {
        model: setup.model().await.expect("a model"),
        title: TeamTitle::Session,
        resume: None,
        asks: AskPolicy::Deny,
        definitions: Vec::new(),
        observers: vec![prepared.observer()],
        default_mode: PermissionMode::BypassPermissions,
        rules: Vec::new(),
    };
    let mut session = lead(&setup, plan).await.expect("a leader");
    let screen = Screen::start(prepared, &session);
    screen.note("the curtain rises");
    let mut input = TurnInput::Prompt(user_message(&session.lead.agent, "begin").await);
    loop {
        session.lead.turn(input, &CancellationToken::new()).await.expect("a turn");
        match session.lead.settle().await.expect("settles") {
            Settled::Mail => input = TurnInput::Mail,
            Settled::Quiet => break,
        }
    }
    assert_eq!(session.finish(false).await, Vec::<String>::new());
    screen.finish().await;
}

fn watched(place: &Place, size: (u32, u32)) -> Terminal {
    let program = std::env::current_exe().expect("a program");
    let program = program.to_str().expect("UTF-8").to_owned();
    let args = ["--exact", "child_that_is_watched", "--ignored", "--nocapture", "--quiet"];
    let command: Vec<String> = std::iter::once(program).chain(args.map(str::to_owned)).collect();
    Terminal::run(place, &command, size, &[("SCRIPT", &place.model())])
}

#[test]
fn a_watched_run_has_a_line_an_agent_below_its_feed_and_leaves_only_the_feed() {
    let place = Place::new(
        r#"
        [[rule]]
        contains = "begin"
        reply = [{ tool = "Agent", input = { name = "anna", description = "look", prompt = "p" } }]
        [[rule]]
        agent = "anna"
        reply = [{ gate = "go" }, { text = "seen" }]
        [[rule]]
        times = "always"
        reply = [{ text = "all done" }]
        "#,
    );
    let terminal = watched(&place, (80, 24));
    let working = |s: &str| {
        let rows: Vec<&str> = s.lines().collect();
        let from = rows.len().saturating_sub(3);
        let block = &rows[from..];
        block.len() == 3
            && block[0].starts_with("────")
            && block[1].contains("team-lead")
            && block[2].contains("anna")
            && block[2].contains("working")
    };
    let screen = terminal.until("a block below the feed", working);
    assert!(screen.contains("the curtain rises\n"), "{screen}");
    assert!(screen.contains("anna joins (in-process): look\n"), "{screen}");
    terminal.text("typed into it");
    place.open("go");
    let screen = terminal.shows("modes:");
    assert!(screen.contains("status=0") && screen.contains("modes: isig icanon echo"), "{screen}");
    assert!(screen.contains("anna is idle: seen\n") && screen.contains("team-lead all done\n"), "{screen}");
    let rules = screen.lines().filter(|l| l.starts_with("────")).count();
    assert_eq!((rules, screen.matches("working").count()), (0, 0), "the block is still there: {screen}");
}

#[test]
fn a_low_terminal_gets_lines_alone() {
    let place = Place::new("[[rule]]\ntimes = \"always\"\nreply = [{ text = \"all done\" }]\n");
    let terminal = watched(&place, (80, 6));
    let screen = terminal.shows("modes:");
    assert!(screen.contains("the curtain rises\n") && screen.contains("team-lead all done\n"), "{screen}");
    assert!(!screen.contains("────"), "{screen}");
}

#[test]
fn what_a_project_brings_is_shown_and_asked_about_once() {
    let place = Place::new(
        r#"
        [[rule]]
        times = "always"
        reply = [{ text = "Hello." }]
        "#,
    );
    fs::create_dir_all(place.path("project/.festoon")).expect("dir");
    let settings = r#"{"env":{"FROM_PROJECT":"yes"},"permissions":{"allow":["Bash(make:*)"],"deny":["Read(.env)"],
        "defaultMode":"bypassPermissions"},"limits":{"maxDepth":9,"maxAgents":2}}"#;
    fs::write(place.path("project/.festoon/settings.json"), settings).expect("settings");
    let root = place.path("project").canonicalize().expect("path").display().to_string();

    let stranger = Terminal::repl(&place, &["hello"], (200, 40), &[]);
    let asked = stranger.shows("y yes, n not now");
    assert!(asked.contains(&format!("You have not said yet whether you trust {root}.")), "{asked}");
    assert!(asked.contains("      FROM_PROJECT = yes"), "{asked}");
    assert!(asked.contains("permissions.allow") && asked.contains("limits.maxDepth"), "{asked}");
    assert!(!asked.contains("maxAgents") && !asked.contains(".env"), "{asked}");
    assert!(!asked.contains("Hello."), "nothing runs before the answer: {asked}");
    stranger.line("maybe");
    stranger.shows("y or n?");
    stranger.line("n");
    let screen =
        stranger.until("an answer in mode default", |s| s.contains("Hello.") && s.contains("· default ·"));
    assert!(screen.contains("is not trusted, so this was skipped"), "{screen}");
    stranger.line("/permissions");
    let rules = stranger.shows("Read(.env)");
    assert!(!rules.contains("allow Bash(make:*)"), "what widens does not count after a no: {rules}");
    stranger.line("/quit");
    stranger.ended(0);

    let friend = Terminal::repl(&place, &["hello"], (200, 40), &[]);
    friend.shows("y yes, n not now");
    friend.line("y");
    friend.shows("· bypassPermissions ·");
    friend.line("/quit");
    friend.ended(0);

    let later = Terminal::repl(&place, &["hello"], (200, 40), &[]);
    let screen = later.shows("· bypassPermissions ·");
    assert!(!screen.contains("whether you trust"), "{screen}");
    later.line("/quit");
    later.ended(0);

    let leaver = Place::new("");
    fs::create_dir_all(leaver.path("project/.festoon")).expect("dir");
    fs::write(leaver.path("project/.festoon/settings.json"), settings).expect("settings");
    let left = Terminal::repl(&leaver, &["hello"], (200, 40), &[]);
    left.shows("y yes, n not now");
    left.key("C-c");
    left.ended(0);
    assert_eq!(leaver.team_names(), []);
}

#[test]
fn a_worker_s_question_is_shown_when_the_hooks_have_nothing_to_say_about_it() {
    let place = Place::new(
        r#"
        [[rule]]
        agent = "anna"
        reply = [{ tool = "Bash", input = { command = "touch made" } }]
        [[rule]]
        contains = "begin"
        reply = [{ tool = "Agent", input = { name = "anna", description = "d", prompt = "Make it." } }]
        [[rule]]
        times = "always"
        reply = [{ text = "Ok." }]
        "#,
    );
    let (asked, go) = (place.path("asked"), place.path("go"));
    let hook =
        format!("touch '{}'; while ! test -e '{}'; do sleep 0.01; done", asked.display(), go.display());
    let settings =
        serde_json::json!({ "hooks": { "PermissionRequest": [{ "hooks": [{ "command": hook }] }] } });
    fs::create_dir_all(place.path("home")).expect("dir");
    fs::write(place.path("home/settings.json"), settings.to_string()).expect("settings");
    let command =
        [PROGRAM, "--model", &place.model(), "--teammate-mode", "process", "begin"].map(str::to_owned);
    let terminal = Terminal::run(&place, &command, (100, 40), &[]);
    until("the hook runs", || asked.exists().then_some(()), || terminal.screen());
    // The ask is there for all to see, and the dialog is not.
    terminal.line("/asks");
    let screen = terminal.shows("nothing waits for your answer");
    assert!(!screen.contains("touch made"), "{screen}");
    let listed = place.command().args(["ask", "list"]).output().expect("runs");
    assert!(String::from_utf8_lossy(&listed.stdout).contains("touch made"), "{listed:?}");
    fs::write(&go, "").expect("file");
    terminal.shows("touch made");
    terminal.line("y");
    until("the call ran", || place.path("project/made").exists().then_some(()), || terminal.screen());
    terminal.line("/quit");
    terminal.until("the question or the end", |s| s.contains("Leave?") || s.contains("modes:"));
    terminal.line("y");
    terminal.ended(0);
}

#[test]
fn a_resumed_session_shows_where_it_goes_on() {
    let place = Place::new(
        r#"
        [[rule]]
        contains = "the first question"
        reply = [{ text = "The first answer." }]
        [[rule]]
        contains = "and the second"
        reply = [{ text = "One.\nTwo.\nThree.\nFour." }]
        "#,
    );
    let terminal = Terminal::repl(&place, &["the first question"], (80, 24), &[]);
    terminal.shows("The first answer.");
    terminal.line("and the second");
    terminal.shows("Four.");
    terminal.key("C-d");
    let id = terminal
        .until("how to go on", |s| s.contains("go on later with: festoon --resume "))
        .split("--resume ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next().map(str::to_owned))
        .expect("an id");
    terminal.ended(0);

    let terminal = Terminal::repl(&place, &["--continue"], (80, 24), &[]);
    let screen = terminal.until("a prompt", |s| s.contains("One.") && s.ends_with('>'));
    let at = screen.find("goes on with session").expect("says so");
    let shown: Vec<&str> = screen[at..].lines().map(str::trim_end).collect();
    let joined = shown.join("\n");
    let head = format!("goes on with session {id}, last used ");
    assert!(joined.starts_with(&head), "{screen}");
    assert!(joined.replace('\n', " ").contains("s ago: the first question"), "{screen}");
    let from = shown.iter().position(|line| line.starts_with("> ")).expect("an exchange");
    assert_eq!(
        shown[from..],
        [
            "> the first question",
            "  The first answer.",
            "> and the second",
            "  One.",
            "  Two.",
            "  Three.",
            "  … 1 line more",
            ">"
        ]
    );
    terminal.key("C-d");
    terminal.ended(0);
}

#[test]
fn lines_of_the_prompt_are_broken_by_words_whatever_the_width() {
    let place = Place::new("");
    for columns in [80_usize, 40] {
        let terminal = Terminal::repl(&place, &[], (u32::try_from(columns).expect("small"), 50), &[]);
        terminal.shows("/help");
        terminal.line("/help");
        terminal.shows("before its next step.");
        // As the terminal has them, each row for itself.
        let rows = terminal.tmux(&["capture-pane", "-p", "-S", "-"]);
        let rows = String::from_utf8_lossy(&rows.stdout).into_owned();
        let words: Vec<&str> = rows.split_whitespace().collect();
        for whole in ["Shift+Tab", "conversation;", "background", "interrupts"] {
            assert!(words.iter().any(|word| word.contains(whole)), "{whole}: {rows}");
        }
        let compact = rows.lines().position(|row| row.contains("/compact")).expect("the command");
        let column = rows.lines().nth(compact).and_then(|row| row.find("goes on")).expect("its help");
        if columns == 40 {
            let below = rows.lines().nth(compact + 1).expect("goes on");
            assert_eq!(below.len() - below.trim_start().len(), column, "{rows}");
        }
        terminal.key("C-d");
        terminal.ended(0);
    }
}

#[test]
fn lines_typed_ahead_of_the_prompt_are_not_lost() {
    let place = Place::new("[[rule]]\ncontains = \"the last line\"\nreply = [{ text = \"Heard it.\" }]\n");
    let terminal = Terminal::repl(&place, &[], (100, 40), &[]);
    terminal.until("a prompt", |s| s.contains("/help") && s.ends_with('>'));
    // All in one write, as a terminal that is behind has it.
    terminal.text("/model\r/asks\r/mcp\rthe last line\r");
    terminal.shows("Heard it.");
    let screen = terminal.screen();
    for said in
        ["another one: festoon --model", "nothing waits for your answer", "no MCP servers are configured"]
    {
        assert!(screen.contains(said), "{said}: {screen}");
    }
    terminal.key("C-d");
    terminal.ended(0);
}
