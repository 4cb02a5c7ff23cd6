//! The loop between the person and one agent: what it does appears, what is typed is mail or an answer.

use super::follow::Follow;
use super::lines::Shower;
use super::target::{Target, Watch, is_over};
use crate::cli::error::CliError;
use crate::cli::repl::asks::{Asks, Whose};
use crate::cli::repl::console::Console;
use crate::cli::repl::editor::Input;
use crate::cli::repl::slash::{self, Parsed, Slash};
use crate::cli::setup::Setup;
use crate::cli::signals::Signalled;
use crate::cli::view::{LineSink, style_of, style_of_warning};
use crate::cli::{status, text, words};
use crate::team::context::Team;
use crate::team::mailbox::{FileMailbox, Sender};
use crate::team::session as teams;
use crate::team::wake::{Signal, Topic};
use crate::wire::error::ExitKind;
use crate::wire::ids::AgentName;
use crate::wire::mail::Draft;
use anstyle::Style;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// What can be typed here.
const HELP: [&str; 4] = [
    "  text         mail to the agent, as from festoon send",
    "  y s p n …    answers the ask that is shown, as at the leader's prompt",
    "  /asks        what it waits for",
    "  /quit        leaves (also Ctrl-C, Ctrl-D); nothing ends by it",
];

/// Between two looks at how the agent is: any record of its team may have changed, and often does.
const AT_MOST_EVERY: Duration = Duration::from_secs(1);

/// One agent and one person.
pub struct Attached {
    watch: Watch,
    team: Team,
    target: Target,
    console: Console,
    shower: Shower,
    follow: Option<Follow>,
    asks: Asks,
    asked: Signal,
    runs: Signal,
    user: FileMailbox,
    /// The state that was said last.
    said: Option<&'static str>,
}

/// What a moment came to.
#[derive(PartialEq, Eq)]
enum Step {
    Go,
    Leave,
}

impl Attached {
    /// Takes the terminal.
    pub async fn open(setup: &Setup, target: Target) -> Result<Self, CliError> {
        let row = &target.row;
        let team = teams::open(&setup.paths, &setup.disk, &row.team, setup.durability()).await?;
        let whose =
            Whose::Of { agent: row.agent_id.clone(), name: target.is_member.then(|| row.name.clone()) };
        Ok(Self {
            asks: Asks::of(team.clone(), whose),
            asked: team.hub.signal(Topic::Asks),
            runs: team.hub.signal(Topic::Runs),
            user: FileMailbox::new(team.clone(), AgentName::user(), 1, None),
            console: Console::open(&setup.paths)?,
            shower: Shower::default(),
            follow: None,
            watch: Watch::new(setup.paths.clone()),
            said: None,
            team,
            target,
        })
    }

    /// Until the person leaves, or the agent has ended; 130 when a signal ended it.
    pub async fn run(
        mut self,
        notes: &[String],
        signals: &mut mpsc::UnboundedReceiver<Signalled>,
    ) -> Result<Option<ExitKind>, CliError> {
        self.catch_up()?;
        notes.iter().for_each(|note| self.say(note));
        self.tell_state();
        self.asks.look(&self.console.printer, "").await?;
        let mut exit = None;
        let (mut looked, mut due) = (None::<Instant>, false);
        loop {
            let next = looked.map_or_else(Instant::now, |looked| looked + AT_MOST_EVERY);
            let step = tokio::select! {
                biased;
                signal = signals.recv() => {
                    exit = matches!(signal, Some(Signalled::End)).then_some(ExitKind::Interrupted);
                    Ok(Step::Leave)
                }
                input = self.console.input.recv() => self.typed(input).await,
                () = self.asked.changed() => self.look_at_asks().await,
                // Gathered until the second is over.
                () = self.runs.changed(), if !due => {
                    due = true;
                    Ok(Step::Go)
                }
                () = tokio::time::sleep_until(next), if due => {
                    (looked, due) = (Some(Instant::now()), false);
                    self.look_at_agent().await
                }
                () = changed(&mut self.follow) => self.catch_up().map(|()| Step::Go),
            };
            match step {
                Ok(Step::Go) => {}
                Ok(Step::Leave) => break,
                Err(error) => self.warn(&error.report.message),
            }
        }
        if !is_over(&self.target.row) {
            self.say(&format!(
                "{} goes on; festoon attach {} looks again",
                self.name(),
                self.target.row.name
            ));
        }
        self.console.close().await;
        Ok(exit)
    }

    fn name(&self) -> String {
        words::line(&self.target.row.display)
    }

    /// Shows what is new in its transcript.
    fn catch_up(&mut self) -> Result<(), CliError> {
        // A leader that began another conversation writes elsewhere now.
        let is_other =
            |follow: &Follow| self.target.transcript.as_deref().is_some_and(|p| p != follow.path());
        if self.follow.as_ref().is_some_and(is_other) {
            self.follow = None;
        }
        let new = match (&mut self.follow, &self.target.transcript) {
            (Some(follow), _) => follow.more()?,
            (None, Some(path)) if path.exists() => {
                let (follow, lines) = Follow::start(path)?;
                self.follow = Some(follow);
                lines
            }
            (None, _) => Vec::new(),
        };
        for line in &new {
            let shown = self.shower.lines(line);
            if !shown.is_empty() {
                self.console.printer.lines(&shown);
            }
        }
        Ok(())
    }

    async fn look_at_asks(&mut self) -> Result<Step, CliError> {
        let typed = self.console.shared.typed();
        self.asks.look(&self.console.printer, &typed).await?;
        Ok(Step::Go)
    }

    /// Its state may be another one.
    async fn look_at_agent(&mut self) -> Result<Step, CliError> {
        let (mut watch, target) = (self.watch.clone(), self.target.clone());
        let look = move || Ok((watch.look(&target), watch));
        let (now, watch) = self.team.disk.run(&self.team.paths.dir(), look).await?;
        self.watch = watch;
        match now {
            Some(now) => self.target = now,
            // Its team was removed.
            None => {
                self.say(&format!("{} is gone", self.name()));
                return Ok(Step::Leave);
            }
        }
        // What it said last comes before what became of it.
        self.catch_up()?;
        self.tell_state();
        Ok(if is_over(&self.target.row) { Step::Leave } else { Step::Go })
    }

    /// Says how it is, when that is news.
    fn tell_state(&mut self) {
        let row = &self.target.row;
        if self.said == Some(row.state) {
            return;
        }
        self.said = Some(row.state);
        self.console.printer.line(state_line(row));
    }

    async fn typed(&mut self, input: Option<Input>) -> Result<Step, CliError> {
        let line = match input {
            Some(Input::Line(line)) => line,
            Some(Input::Escape | Input::NextMode) => return Ok(Step::Go),
            // What had been begun is taken away first.
            Some(Input::Interrupt { typed: true }) => return Ok(Step::Go),
            Some(Input::Interrupt { typed: false } | Input::End | Input::Broken(_)) | None => {
                return Ok(Step::Leave);
            }
        };
        if line.trim().is_empty() {
            return Ok(Step::Go);
        }
        match slash::parse(&line) {
            Parsed::Command(Slash::Quit, _) => return Ok(Step::Leave),
            Parsed::Command(Slash::Asks, _) => {
                self.asks.list(&self.console.printer);
                return Ok(Step::Go);
            }
            Parsed::Command(Slash::Help, _) => {
                self.console.printer.lines(&HELP.map(str::to_owned));
                return Ok(Step::Go);
            }
            Parsed::Command(..) | Parsed::Unknown(..) => {
                self.warn("here are /asks, /help and /quit; the rest is for the leader's own prompt");
                return Ok(Step::Go);
            }
            Parsed::Text => {}
        }
        if self.asks.take(&line, &self.console.printer).await? {
            return Ok(Step::Go);
        }
        if let Some(hint) = self.asks.hint() {
            self.say(&format!("(sent as a message; the ask is still open: {hint}, /asks shows it)"));
        }
        self.send(&line).await;
        Ok(Step::Go)
    }

    /// Mail from the person, by the same way as `festoon send`.
    async fn send(&self, line: &str) {
        let inbox = &self.target.inbox;
        if !self.team.paths.inbox(inbox).exists() {
            let parent = self.target.row.parent.as_ref().map_or("team-lead", |parent| parent.as_str());
            let parent = parent.split('@').next().unwrap_or(parent);
            return self.warn(&format!(
                "{} has no inbox, so it can only be looked at; {parent}, which started it, reaches it with \
                 SendMessage: festoon send {parent} 'tell {inbox} …'",
                self.name()
            ));
        }
        match self.user.post(inbox, Draft::text(line), Sender::Trusted).await {
            Ok(receipt) => {
                self.say(&format!("stored in the inbox of {} (position {})", self.name(), receipt.seq))
            }
            Err(error) => self.warn(&format!("not sent: {}", error.what)),
        }
    }

    fn say(&self, line: &str) {
        let dim = Style::new().dimmed();
        self.console.printer.line(format!("{dim}{line}{dim:#}"));
    }

    fn warn(&self, line: &str) {
        let warn = style_of_warning();
        self.console.printer.line(format!("{warn}{}{warn:#}", text::sentence(line)));
    }
}

/// Never, for an agent without a transcript.
async fn changed(follow: &mut Option<Follow>) {
    match follow {
        Some(follow) => follow.changed().await,
        None => std::future::pending().await,
    }
}

/// How an agent is, in a line.
pub fn state_line(row: &crate::cli::teams::row::Row) -> String {
    let dim = Style::new().dimmed();
    let (name, state) = (style_of(row.color.as_deref()), crate::cli::commands::ps::state_style(row.state));
    let mut parts = vec![format!("{state}{}{state:#}", row.state)];
    let doing = if row.lives { row.task.as_deref() } else { Some(row.evidence.as_str()) };
    parts.extend(doing.filter(|doing| !doing.is_empty()).map(words::line));
    parts.extend(row.since.as_ref().map(words::age));
    if row.tokens > 0 {
        parts.push(format!("{} tokens", status::tokens(row.tokens)));
        parts.push(status::money(row.cost));
    }
    parts.extend(row.model.as_deref().map(crate::cli::commands::ps::short_model));
    let joined = parts.join(&format!(" {dim}·{dim:#} "));
    format!("{name}{}{name:#} {dim}of {}{dim:#} {dim}·{dim:#} {joined}", words::line(&row.display), row.team)
}
