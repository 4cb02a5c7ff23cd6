//! What the person does, between the keyboard and the session: one happening at a time.
//!
//! Decides what a line, a key or a signal means; carries out what needs no turn; and says what the
//! session's loop has to do. Text for an agent that works is mail like any other, from `user`.

mod modes;

use super::asks::Asks;
use super::console::{Console, Kind};
use super::editor::Input;
use super::leave::{By, Leave, Question, Teammates};
use super::panes;
use super::printer::Printer;
use super::slash::{self, Parsed, Slash};
use super::tasks::Tasks;
use crate::agent::core::AgentCore;
use crate::agent::runtime::Runtime;
use crate::cli::compose::Session;
use crate::cli::error::CliError;
use crate::cli::mcp;
use crate::cli::signals::Signalled;
use crate::cli::spent;
use crate::cli::status::{self, AgentStatus, SeenAgents, money, tokens};
use crate::cli::text;
use crate::cli::view::{LineSink, style_of_warning};
use crate::os::terminal;
use crate::store::slug;
use crate::team::context::Team;
use crate::team::mailbox::{FileMailbox, Sender};
use crate::team::supervisor::Supervisor;
use crate::team::wake::{Signal, Topic};
use crate::wire::ids::{AgentId, AgentName, is_subagent};
use crate::wire::mail::Draft;
use crate::wire::run::AgentState;
use crate::wire::usage::Money;
use anstyle::Style;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Two interrupts within this time ask to leave.
const TWICE: Duration = Duration::from_secs(2);

/// Something from outside.
#[derive(Debug)]
pub enum Happening {
    /// The person did something.
    Input(Input),
    /// The process was signalled.
    Signal(Signalled),
    /// An ask may have come or gone.
    Asks,
}

/// Whether the main agent is in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lead {
    /// It waits.
    Idle,
    /// It works.
    Working,
}

/// What the loop has to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Go,
    /// Start a turn with this.
    Turn(String),
    /// Go on from a summary; what is to be kept above all.
    Compact(Option<String>),
    /// Go back, or show to where; what was written behind the command.
    Rewind(String),
    /// Begin a new conversation.
    Clear,
    /// Go on with another session, or show them; what was written behind the command.
    Resume(String),
    /// End the running turn.
    Interrupt,
    /// End the session.
    Leave(Leave),
}

/// The desk.
pub struct Desk {
    console: Console,
    signals: mpsc::UnboundedReceiver<Signalled>,
    changes: Signal,
    asks: Asks,
    team: Team,
    seen: SeenAgents,
    runtime: Arc<Runtime>,
    core: Arc<AgentCore>,
    supervisor: Supervisor,
    user: FileMailbox,
    /// For what the leader says to its teammates' processes.
    leader: FileMailbox,
    tasks: Tasks,
    unusable_servers: Vec<String>,
    question: Option<Question>,
    interrupted: Option<Instant>,
}

impl Desk {
    /// A desk for a session.
    pub fn new(console: Console, signals: mpsc::UnboundedReceiver<Signalled>, session: &Session) -> Self {
        let team = session.team.clone();
        let core = Arc::clone(session.lead.agent.core());
        Self {
            tasks: Tasks::new(Arc::clone(&core), console.printer.clone()),
            core,
            console,
            signals,
            changes: team.hub.signal(Topic::Asks),
            asks: Asks::new(team.clone(), Arc::clone(&session.ask_hooks)),
            runtime: Arc::clone(&session.runtime),
            supervisor: session.lead.supervisor.clone(),
            user: FileMailbox::new(team.clone(), AgentName::user(), 1, None),
            leader: FileMailbox::new(team.clone(), AgentName::team_lead(), 1, None),
            team,
            seen: SeenAgents::default(),
            unusable_servers: session.unusable_servers.clone(),
            question: None,
            interrupted: None,
        }
    }

    /// Serves this session from now on.
    pub fn serve(&mut self, session: &Session) {
        let team = session.team.clone();
        self.changes = team.hub.signal(Topic::Asks);
        self.asks = Asks::new(team.clone(), Arc::clone(&session.ask_hooks));
        self.runtime = Arc::clone(&session.runtime);
        self.core = Arc::clone(session.lead.agent.core());
        self.supervisor = session.lead.supervisor.clone();
        self.user = FileMailbox::new(team.clone(), AgentName::user(), 1, None);
        self.leader = FileMailbox::new(team.clone(), AgentName::team_lead(), 1, None);
        self.team = team;
        self.unusable_servers.clone_from(&session.unusable_servers);
        self.question = None;
    }

    /// What is shown.
    pub fn printer(&self) -> &Printer {
        &self.console.printer
    }

    /// Who is at the other end.
    pub fn kind(&self) -> Kind {
        self.console.kind
    }

    /// Gives the terminal back.
    pub async fn close(self) {
        self.console.close().await;
    }

    /// Says whether the main agent works.
    pub fn set_lead(&self, lead: Lead) {
        self.console.shared.working.store(lead == Lead::Working, Ordering::Release);
    }

    /// Waits for the next happening. A pipe is read only while the agent waits, so that its lines are
    /// worked on in order.
    pub async fn next(&mut self, lead: Lead) -> Happening {
        let reads = lead == Lead::Idle || self.console.kind != Kind::Piped;
        tokio::select! {
            biased;
            Some(signal) = self.signals.recv() => Happening::Signal(signal),
            Some(input) = self.console.input.recv(), if reads => Happening::Input(input),
            () = self.changes.changed() => Happening::Asks,
        }
    }

    /// Deals with it. An error is shown by the caller; the session goes on.
    pub async fn take(&mut self, happening: Happening, lead: Lead) -> Result<Step, CliError> {
        match happening {
            Happening::Asks => {
                if self.console.kind != Kind::Piped {
                    let typed = self.console.shared.typed();
                    self.asks.look(&self.console.printer, &typed).await?;
                }
                Ok(Step::Go)
            }
            Happening::Signal(Signalled::End) | Happening::Input(Input::Broken(_)) => {
                Ok(Step::Leave(Leave { teammates: Teammates::Stop, by: By::Signal }))
            }
            Happening::Signal(Signalled::Interrupt) if self.console.kind == Kind::Piped => {
                Ok(Step::Leave(Leave { teammates: Teammates::Stop, by: By::Signal }))
            }
            Happening::Signal(Signalled::Interrupt) => self.interrupt(lead, false).await,
            Happening::Input(Input::Interrupt { typed }) => self.interrupt(lead, typed).await,
            Happening::Input(Input::Escape) => {
                Ok(if lead == Lead::Working { Step::Interrupt } else { Step::Go })
            }
            Happening::Input(Input::NextMode) => {
                self.next_mode();
                Ok(Step::Go)
            }
            Happening::Input(Input::End) if self.console.kind == Kind::Piped => Ok(leave()),
            Happening::Input(Input::End) => self.leave().await,
            Happening::Input(Input::Line(line)) => self.line(line, lead).await,
        }
    }

    async fn interrupt(&mut self, lead: Lead, typed: bool) -> Result<Step, CliError> {
        if self.question.take().is_some() {
            return Ok(leave());
        }
        let twice = self.interrupted.replace(Instant::now()).is_some_and(|at| at.elapsed() < TWICE);
        match lead {
            _ if twice => self.ask_to_leave().await,
            Lead::Working => Ok(Step::Interrupt),
            Lead::Idle if typed => Ok(Step::Go),
            Lead::Idle => self.ask_to_leave().await,
        }
    }

    /// Ctrl-D and `/quit`: asks only when somebody would be stopped.
    async fn leave(&mut self) -> Result<Step, CliError> {
        let alone = self.supervisor.living().await.is_empty() && self.runtime.background.all_at_work() == 0;
        if self.question.take().is_some() || alone {
            return Ok(leave());
        }
        self.ask_to_leave().await
    }

    async fn ask_to_leave(&mut self) -> Result<Step, CliError> {
        let living = self.supervisor.living().await;
        let bound = self.team.bound_to_leader(&living).await?;
        let (question, lines) = Question::ask(&living, &bound, self.runtime.background.all_at_work());
        self.question = Some(question);
        self.console.printer.lines(&lines);
        Ok(Step::Go)
    }

    async fn line(&mut self, line: String, lead: Lead) -> Result<Step, CliError> {
        if let Some(question) = self.question {
            if let Some(answer) = question.answer(&line) {
                self.question = None;
                return Ok(match answer {
                    Some(teammates) => Step::Leave(Leave { teammates, by: By::Person }),
                    None => Step::Go,
                });
            }
            self.question = None;
            self.say("(staying)");
        }
        if line.trim().is_empty() {
            return Ok(Step::Go);
        }
        match slash::parse(&line) {
            Parsed::Command(command, rest) => return self.command(command, rest, lead).await,
            Parsed::Unknown(word, near) => {
                let near = near.map_or_else(|| "see /help".to_owned(), |n| format!("did you mean {n}?"));
                self.warn(&format!("{word} is no command; {near}"));
                return Ok(Step::Go);
            }
            Parsed::Text => {}
        }
        let mail = addressed(&line);
        if mail.is_none() && self.asks.take(&line, &self.console.printer).await? {
            return Ok(Step::Go);
        }
        if let Some(hint) = self.asks.hint() {
            self.say(&format!("(sent as a message; the ask is still open: {hint}, /asks shows it)"));
        }
        if let Some((to, text)) = mail {
            self.mail(&to, text).await;
            return Ok(Step::Go);
        }
        if lead == Lead::Idle {
            return Ok(Step::Turn(line));
        }
        self.mail(&AgentName::team_lead(), &line).await;
        Ok(Step::Go)
    }

    /// Mail from the person, by the same way as all mail. What could not be sent is said, with the text
    /// still in the history.
    async fn mail(&self, to: &AgentName, text: &str) {
        if is_subagent(to.as_str()) {
            return self.tasks.write(&AgentId::new(to.as_str()), text, &self.user).await;
        }
        if let Err(error) = self.user.post(to, Draft::text(text), Sender::Trusted).await {
            self.warn(&error.what);
        }
    }

    async fn command(&mut self, command: Slash, rest: String, lead: Lead) -> Result<Step, CliError> {
        let printer = self.console.printer.clone();
        if lead == Lead::Working && command.needs_rest() {
            self.warn("not while the agent works: wait, or interrupt it with Esc");
            return Ok(Step::Go);
        }
        match command {
            Slash::Help => printer.lines(&slash::help()),
            Slash::Asks => self.asks.list(&printer),
            Slash::Team if rest.is_empty() => printer.lines(&self.agents().await?),
            Slash::Team => match panes::obey(&rest, &self.supervisor).await {
                Ok(done) => printer.line(done),
                Err(why) => self.warn(&why),
            },
            Slash::Tasks => self.tasks.obey(&rest, &self.user).await,
            Slash::Model => {
                printer
                    .line(format!("{} — another one: festoon --model PROVIDER:NAME", self.core.model.full));
            }
            Slash::Mcp => printer.lines(&mcp::listing(&self.runtime.mcp, &self.unusable_servers)),
            Slash::Mode => self.mode(&rest).await?,
            Slash::Permissions => self.permissions(&rest).await?,
            Slash::Cost => printer.lines(&self.cost().await?),
            Slash::Compact => return Ok(Step::Compact(Some(rest).filter(|focus| !focus.is_empty()))),
            Slash::Rewind => return Ok(Step::Rewind(rest)),
            Slash::Clear => return Ok(Step::Clear),
            Slash::Resume => return Ok(Step::Resume(rest)),
            Slash::Quit => return self.leave().await,
        }
        Ok(Step::Go)
    }

    async fn agents(&self) -> Result<Vec<String>, CliError> {
        let mut agents = status::look(&self.team, &self.seen).await?;
        agents.extend(status::background(&self.runtime.background));
        agents.extend(status::others(&self.team, &self.runtime.background).await?);
        let columns = terminal::size().map_or(text::DEFAULT_COLUMNS, |s| s.columns).min(120);
        let names = status::name_columns(&agents);
        Ok(agents.iter().map(|a| status::line(a, ' ', names, columns)).collect())
    }

    async fn cost(&self) -> Result<Vec<String>, CliError> {
        let (spent, _) = spent::so_far(&self.runtime).await?;
        let row = |name: &str, used: &crate::agent::tally::ModelUse| {
            let usage = &used.usage;
            format!(
                "{:<28} {:>8} in {:>8} cached {:>8} out {:>9}",
                text::fit(name, 28),
                tokens(usage.input_tokens + usage.cache_creation_input_tokens),
                tokens(usage.cache_read_input_tokens),
                tokens(usage.output_tokens),
                money(used.cost_usd)
            )
        };
        let models = spent.by_model.iter().map(|(name, used)| row(name, used));
        Ok(models.chain([row("all", &spent.total)]).collect())
    }

    /// The line after a turn: model, mode, tokens, cost, agents.
    pub async fn status(&self) -> Result<(), CliError> {
        let (spent, limits) = spent::so_far(&self.runtime).await?;
        let agents = status::look(&self.team, &self.seen).await?;
        self.learn_names(&agents);
        let living: Vec<_> = agents.iter().skip(1).filter(|a| !a.state.is_over()).collect();
        let mut parts = vec![
            short(&self.core.model.name).to_owned(),
            self.core.permissions.mode().as_str().to_owned(),
            format!("{} tokens", of(tokens(spent.total.usage.total()), limits.max_tokens_total.map(tokens))),
            of(money(spent.total.cost_usd), limits.max_cost.map(|most| money(Money(Some(most))))),
            format!("{}% context left", self.core.context_left()),
        ];
        if !living.is_empty() {
            let working = living.iter().filter(|a| a.state == AgentState::Working).count();
            let noun = if living.len() == 1 { "teammate" } else { "teammates" };
            parts.push(format!("{} {noun}, {working} at work", living.len()));
        }
        match self.runtime.background.all_at_work() {
            0 => {}
            1 => parts.push("1 background agent".to_owned()),
            count => parts.push(format!("{count} background agents")),
        }
        let columns = terminal::size().map_or(text::DEFAULT_COLUMNS, |s| s.columns);
        let line = parts.join(" · ");
        let dim = Style::new().dimmed();
        self.console.printer.line(format!("{dim}{}{dim:#}", text::fit(&text::clean(&line), columns - 1)));
        Ok(())
    }

    fn learn_names(&self, agents: &[AgentStatus]) {
        let living = agents.iter().filter(|a| !a.state.is_over()).map(|a| a.name.clone());
        if let Ok(mut names) = self.console.shared.names.lock() {
            *names = living.collect();
        }
    }

    /// A line of our own.
    pub fn say(&self, line: &str) {
        let dim = Style::new().dimmed();
        self.console.printer.line(format!("{dim}{line}{dim:#}"));
    }

    /// A line that needs attention.
    pub fn warn(&self, line: &str) {
        let warn = style_of_warning();
        self.console.printer.line(format!("{warn}{line}{warn:#}"));
    }

    /// An error that does not end the session.
    pub fn fail(&self, error: &CliError) {
        let red = Style::new().bold().fg_color(Some(anstyle::AnsiColor::Red.into()));
        let dim = Style::new().dimmed();
        let mut lines = vec![format!("{red}error:{red:#} {}", text::clean(&error.report.message))];
        if !error.report.hint.is_empty() {
            lines.push(format!("{dim} hint: {}{dim:#}", error.report.hint));
        }
        self.console.printer.lines(&lines);
    }
}

/// `used of bound`, or what was used alone.
fn of(used: String, bound: Option<String>) -> String {
    bound.map_or_else(|| used.clone(), |bound| format!("{used} of {bound}"))
}

/// A model's name without the path or owner before it.
fn short(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model)
}

fn leave() -> Step {
    Step::Leave(Leave { teammates: Teammates::Stop, by: By::Person })
}

/// `@name text`: to whom, and what. An `@` before something that is no name is text.
fn addressed(line: &str) -> Option<(AgentName, &str)> {
    let (name, text) = line.trim_start().strip_prefix('@')?.split_once(char::is_whitespace)?;
    if name.contains(['.', '/', '\\', '@']) || text.trim().is_empty() {
        return None;
    }
    Some((slug::agent_name(name).ok().or_else(|| lead(name))?, text.trim()))
}

/// The leader's name is reserved, yet mail can be addressed to it.
fn lead(name: &str) -> Option<AgentName> {
    AgentName::new(name).ok().filter(AgentName::is_lead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_is_addressed_by_name_and_files_are_not_names() {
        let to = |line| addressed(line).map(|(name, text)| (name.to_string(), text.to_owned()));
        assert_eq!(to("@anna look again"), Some(("anna".into(), "look again".into())));
        assert_eq!(to("@Anna \n  two lines\nof it"), Some(("anna".into(), "two lines\nof it".into())));
        assert_eq!(to("@team-lead hello"), Some(("team-lead".into(), "hello".into())));
        for text in ["@src/main.rs explain", "@Cargo.toml what is this", "@anna", "mail @anna", "a@b.c d"] {
            assert_eq!(to(text), None, "{text}");
        }
    }
}
