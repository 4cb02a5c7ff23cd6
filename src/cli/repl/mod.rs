//! The REPL: a line editor above which agents print, and the loop between the person and the leader.
//!
//! This is the line-based form. Its seams for a richer one: [`printer::Sink`] is the only way to the
//! screen, [`editor::Input`] all that comes from the person, and [`desk::Desk`] decides without
//! knowing how either is drawn.

pub mod asks;
pub mod console;
pub mod desk;
pub mod editor;
pub mod leave;
pub mod panes;
pub mod printer;
pub mod recap;
pub mod render;
pub mod rewind;
pub mod slash;
pub mod tasks;
pub mod trust;

use super::compose::{LeadPlan, Session, lead};
use super::error::CliError;
use super::feed;
use super::headless::{ask_policy, turn_error};
use super::insist::{self, Insisting};
use super::output::result::{NO_ANSWER, worst};
use super::refused;
use super::sessions::{self, Card};
use super::setup::Setup;
use super::signals;
use super::todos;
use super::view::LineSink;
use crate::agent::compact::Compacted;
use crate::agent::context::spawn_in;
use crate::agent::events::Observer;
use crate::agent::gates::{SessionEnding, SessionSource};
use crate::agent::turn::{TurnEnd, TurnInput, TurnStatus};
use crate::cli::text;
use crate::cli::trust::{Trust, Withheld};
use crate::os::guard;
use crate::os::terminal;
use crate::store::{self, clock, lock};
use crate::team::lead::Settled;
use crate::wire::error::ExitKind;
use crate::wire::event::{Event, EventKind};
use crate::wire::ids::SessionId;
use crate::wire::permission::PermissionMode;
use crate::wire::time::Timestamp;
use crate::wire::worker::AskPolicy;
use console::{Console, Kind};
use desk::{Desk, Lead, Step};
use leave::{By, Leave, Teammates};
use printer::Printer;
use render::Render;
use rewind::Wanted;
use std::future::Future;
use std::io::IsTerminal;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use trust::Said;

/// Runs a session until the person leaves, or the input ends. `resume` names one to go on with.
pub async fn run(
    setup: &Setup,
    prompt: Option<String>,
    resume: Option<SessionId>,
) -> Result<Option<ExitKind>, CliError> {
    let since = clock::now();
    // Before the line editor, which puts its own handler above ours while it reads.
    let mut signals = signals::listen()?;
    insist::watch(Insisting::End, setup)?;
    let wants = || setup.withheld().into_iter().chain(setup.loaded.widens.iter().cloned()).collect();
    let withheld: Vec<Withheld> = if guard::is_below_guard() { Vec::new() } else { wants() };
    let mut opened = None;
    let mut answered = None;
    if std::io::stdin().is_terminal() && !withheld.is_empty() {
        let console = opened.insert(Console::open(&setup.paths)?);
        match trust::ask(console, &mut signals, &setup.cwd, &withheld).await {
            Said::Yes => answered = Some(remembered(setup, console)?),
            Said::No => answered = Some(setup.with_trust(Trust::Refused)?),
            Said::Leave(by) => return Ok((by == By::Signal).then_some(ExitKind::Interrupted)),
        }
    }
    let setup = answered.as_ref().unwrap_or(setup);
    let model = setup.model().await?;
    let console = match opened {
        Some(console) => console,
        None => Console::open(&setup.paths)?,
    };
    let asks = if console.kind == Kind::Piped { ask_policy(setup) } else { AskPolicy::Wait };
    let printer = console.printer.clone();
    let render: Arc<dyn Observer> = Arc::new(Render::new(printer.clone(), setup.shared.verbose));
    let source = if resume.is_some() { SessionSource::Resume } else { SessionSource::Startup };
    let plan = |resume| LeadPlan {
        model: model.clone(),
        title: setup.title(),
        resume,
        asks,
        definitions: setup.roles(),
        observers: vec![Arc::clone(&render)],
        default_mode: PermissionMode::Default,
        rules: Vec::new(),
    };
    // As it was before this run adds to it.
    let mut card = resume.as_ref().map(|id| Card::find(setup, id));
    let mut session = lead(setup, plan(resume)).await?;
    let mut over = CancellationToken::new();
    let mut feeding = follow(&session, since.clone(), &printer, &over);
    let mut repl = Repl { desk: Desk::new(console, signals, &session), failures: Vec::new(), since };
    let (mut source, mut prompt) = (source, prompt);
    loop {
        repl.greet(&session, card.take().as_ref());
        let left = match repl.begin(&mut session, source).await {
            Some(leave) => Left::Process(leave),
            None => repl.until_left(setup, &mut session, prompt.take()).await,
        };
        match left {
            Left::Process(leave) => return repl.end(setup, session, leave, feeding, &over).await,
            Left::For(other) => {
                let own = session.id.clone();
                repl.end_session(session, SessionEnding::Exit, false, feeding, &over).await;
                lock::release(&setup.paths.project(&setup.cwd).session_lock(&own));
                let since = clock::now();
                card = Some(Card::find(setup, &other));
                session = lead(setup, plan(Some(other))).await?;
                over = CancellationToken::new();
                feeding = follow(&session, since, &printer, &over);
                repl.desk.serve(&session);
                source = SessionSource::Resume;
            }
        }
    }
}

/// The setup in a directory that is trusted from now on.
fn remembered(setup: &Setup, console: &Console) -> Result<Setup, CliError> {
    let setup = setup.with_trust(Trust::Full)?;
    if let Err(error) = store::trust::remember(&setup.paths, &setup.cwd) {
        console.printer.line(format!("trusted for this session only: {error}"));
    }
    Ok(setup)
}

/// Shows what happens in all processes of the team.
fn follow(
    session: &Session,
    since: Timestamp,
    printer: &Printer,
    over: &CancellationToken,
) -> tokio::task::JoinHandle<()> {
    let (team, over, printer) = (session.team.clone(), over.clone(), printer.clone());
    spawn_in(&session.lead.agent.core().context, async move {
        if let Err(error) = feed::follow_lines(team, since, over, is_news, |line| printer.line(line)).await {
            printer.line(format!("the feed ended: {error}"));
        }
    })
}

/// Asks and decisions have their dialog.
fn is_news(event: &Event) -> bool {
    match event.event {
        EventKind::Ask => event.fields.get("closed").is_some_and(|closed| !closed.is_null()),
        EventKind::Decision => false,
        _ => true,
    }
}

struct Repl {
    desk: Desk,
    /// Statuses of turns that failed; they count when nobody watches.
    failures: Vec<ExitKind>,
    /// When this process began.
    since: Timestamp,
}

impl Repl {
    fn greet(&self, session: &Session, goes_on: Option<&Card>) {
        if self.desk.kind() != Kind::Piped {
            let core = session.lead.agent.core();
            self.desk.say(&format!("festoon {} · {} · /help", env!("CARGO_PKG_VERSION"), core.model.full));
            self.desk.say(&core.context.cwd.display().to_string());
            self.desk.say(&format!("teammates run {}: {}", session.backend.as_str(), session.backend_reason));
        }
        if let Some(Card { id, age, title }) = goes_on.filter(|_| self.desk.kind() != Kind::Piped) {
            let title = if title.is_empty() { String::new() } else { format!(": {title}") };
            self.desk.say(&format!("goes on with session {id}, last used {age} ago{title}"));
            let columns = terminal::size().map_or(text::DEFAULT_COLUMNS, |s| s.columns).saturating_sub(1);
            recap::lines(session.lead.agent.history(), columns).iter().for_each(|line| self.desk.say(line));
        }
        let todos = session.lead.agent.core().todos.current();
        if !todos.is_empty() {
            self.desk.printer().lines(&todos::lines(&todos));
        }
        session.warnings.iter().chain(&session.taken_over).for_each(|line| self.desk.warn(line));
    }

    /// Turns and waiting, in turn.
    async fn until_left(&mut self, setup: &Setup, session: &mut Session, prompt: Option<String>) -> Left {
        let mut next = match prompt {
            Some(text) => Some(TurnInput::Said(text)),
            // What a dead process left unanswered is answered first.
            None => session.unanswered.then_some(TurnInput::Continue),
        };
        loop {
            if let Some(input) = next.take() {
                self.desk.set_lead(Lead::Working);
                let leave = self.turn(session, input).await;
                self.desk.set_lead(Lead::Idle);
                if let Some(leave) = leave {
                    return Left::Process(leave);
                }
                continue;
            }
            match self.wait(session).await {
                Waited::Turn(input) => next = Some(input),
                Waited::Compact(focus) => {
                    if let Some(leave) = self.compact(session, focus.as_deref()).await {
                        return Left::Process(leave);
                    }
                }
                Waited::Rewind(rest) => {
                    if let Err(error) = self.rewind(session, &rest).await {
                        self.failed(&error);
                    }
                }
                Waited::Clear => {
                    if let Some(leave) = self.clear(setup, session).await {
                        return Left::Process(leave);
                    }
                }
                Waited::Resume(rest) => {
                    if let Some(other) = self.other(setup, session, &rest).await {
                        return Left::For(other);
                    }
                }
                Waited::Leave(leave) => return Left::Process(leave),
            }
        }
    }

    /// One turn, while the person goes on typing; says whether to leave.
    async fn turn(&mut self, session: &mut Session, input: TurnInput) -> Option<Leave> {
        let cancel = CancellationToken::new();
        let (end, leave) = self.meanwhile(session.lead.turn(input, &cancel), &cancel).await;
        match end {
            Ok(end) => self.ended(&end),
            Err(error) => self.failed(&error.into()),
        }
        if self.desk.kind() != Kind::Piped
            && let Err(error) = self.desk.status().await
        {
            self.desk.fail(&error);
        }
        leave
    }

    /// Goes on from a summary of the conversation; says whether to leave.
    async fn compact(&mut self, session: &mut Session, focus: Option<&str>) -> Option<Leave> {
        let cancel = CancellationToken::new();
        self.desk.set_lead(Lead::Working);
        let (outcome, leave) = self.meanwhile(session.lead.compact(focus, &cancel), &cancel).await;
        self.desk.set_lead(Lead::Idle);
        match outcome {
            // Shown as they happened.
            Ok(Compacted::Done(_) | Compacted::NoShorter) => {}
            Ok(Compacted::Failed(_)) => self.failures.push(ExitKind::Failed),
            Ok(Compacted::Nothing) => {
                self.desk.warn("there is nothing to compact yet: the last rounds stay anyway")
            }
            Ok(Compacted::Cancelled) => self.desk.warn("interrupted; the conversation is as it was"),
            Err(error) => self.failed(&error.into()),
        }
        leave
    }

    /// Shows where one can go back to, or goes back.
    async fn rewind(&self, session: &mut Session, rest: &str) -> Result<(), CliError> {
        let agent = &mut session.lead.agent;
        let places = agent.places().await?;
        let (number, what) = match rewind::wanted(rest) {
            Wanted::List => {
                let columns = terminal::size().map_or(text::DEFAULT_COLUMNS, |s| s.columns);
                self.desk.printer().lines(&rewind::list(&places, columns));
                return Ok(());
            }
            Wanted::Unclear => {
                self.desk.warn(&rewind::usage());
                return Ok(());
            }
            Wanted::To(number, what) => (number, what),
        };
        let Some(place) = places.get(number - 1) else {
            self.desk.warn(&format!("there is no place {number}; /rewind shows them"));
            return Ok(());
        };
        let rewound = agent.rewind(place, what).await?;
        let (lines, warnings) = rewind::told(place, what, &rewound, &agent.core().context.cwd);
        self.desk.printer().lines(&lines);
        warnings.iter().for_each(|line| self.desk.warn(line));
        Ok(())
    }

    /// Does something that takes a while, while the person goes on typing; says whether to leave.
    async fn meanwhile<T>(
        &mut self,
        work: impl Future<Output = T>,
        cancel: &CancellationToken,
    ) -> (T, Option<Leave>) {
        let mut leave = None;
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return (done, leave),
                happening = self.desk.next(Lead::Working) => {
                    match self.desk.take(happening, Lead::Working).await {
                        Ok(Step::Interrupt) => cancel.cancel(),
                        Ok(Step::Leave(how)) => {
                            cancel.cancel();
                            leave = Some(how);
                        }
                        Ok(
                            Step::Go
                            | Step::Turn(_)
                            | Step::Compact(_)
                            | Step::Rewind(_)
                            | Step::Clear
                            | Step::Resume(_),
                        ) => {}
                        Err(error) => self.desk.fail(&error),
                    }
                }
            }
        }
    }

    /// The hooks at the start of the session.
    async fn begin(&mut self, session: &mut Session, source: SessionSource) -> Option<Leave> {
        let cancel = CancellationToken::new();
        self.desk.set_lead(Lead::Working);
        let begins = session.lead.agent.session_starts(source, &cancel);
        let ((), leave) = self.meanwhile(begins, &cancel).await;
        self.desk.set_lead(Lead::Idle);
        leave
    }

    fn ended(&mut self, end: &TurnEnd) {
        match &end.status {
            TurnStatus::Completed if end.cut => {
                self.desk.warn("the answer is cut: it reached the model's limit of output tokens");
            }
            TurnStatus::Completed if end.silent => self.desk.warn(NO_ANSWER),
            TurnStatus::Completed => {}
            TurnStatus::Cancelled => self.desk.warn("interrupted"),
            TurnStatus::MaxRounds => {
                self.failures.push(ExitKind::Limit);
                self.desk.warn(&format!("stopped after {} rounds, the limit of a turn", end.rounds));
            }
            TurnStatus::Failed(error) => self.failed(&turn_error(error)),
        }
    }

    fn failed(&mut self, error: &CliError) {
        self.failures.push(error.exit);
        self.desk.fail(error);
    }

    /// Waits for the person or for mail. From a pipe, all mail is dealt with before the next line.
    async fn wait(&mut self, session: &Session) -> Waited {
        if self.desk.kind() == Kind::Piped {
            loop {
                tokio::select! {
                    settled = session.lead.settle() => match settled {
                        Ok(Settled::Mail) => return Waited::Turn(TurnInput::Mail),
                        Ok(Settled::Quiet) => break,
                        Err(error) => {
                            self.failed(&error.into());
                            break;
                        }
                    },
                    happening = self.desk.next(Lead::Working) => {
                        if let Ok(Step::Leave(leave)) = self.desk.take(happening, Lead::Working).await {
                            return Waited::Leave(leave);
                        }
                    }
                }
            }
        }
        loop {
            let happening = tokio::select! {
                () = session.lead.mail() => return Waited::Turn(TurnInput::Mail),
                happening = self.desk.next(Lead::Idle) => happening,
            };
            match self.desk.take(happening, Lead::Idle).await {
                Ok(Step::Turn(text)) => return Waited::Turn(TurnInput::Said(text)),
                Ok(Step::Leave(leave)) => return Waited::Leave(leave),
                Ok(Step::Compact(focus)) => return Waited::Compact(focus),
                Ok(Step::Rewind(rest)) => return Waited::Rewind(rest),
                Ok(Step::Clear) => return Waited::Clear,
                Ok(Step::Resume(rest)) => return Waited::Resume(rest),
                Ok(Step::Go | Step::Interrupt) => {}
                Err(error) => self.desk.fail(&error),
            }
        }
    }

    /// Ends a session in order, with its feed.
    async fn end_session(
        &mut self,
        session: Session,
        ending: SessionEnding,
        keep: bool,
        feeding: tokio::task::JoinHandle<()>,
        over: &CancellationToken,
    ) {
        let last = CancellationToken::new();
        // Whatever the person types now, they are leaving.
        let _ = self.meanwhile(session.lead.agent.session_ends(ending, &last), &last).await;
        let leader = session.team.paths.leader_lock();
        let troubles = session.finish(keep).await;
        lock::release(&leader);
        over.cancel();
        // A feed that panicked has said so.
        let _ = feeding.await;
        troubles.iter().for_each(|trouble| self.desk.warn(trouble));
    }

    /// A new conversation in the place of this one.
    async fn clear(&mut self, setup: &Setup, session: &mut Session) -> Option<Leave> {
        let cancel = CancellationToken::new();
        self.desk.set_lead(Lead::Working);
        let (cleared, leave) = self.meanwhile(session.clear(setup, &cancel), &cancel).await;
        self.desk.set_lead(Lead::Idle);
        match cleared {
            Ok(cleared) => {
                self.desk.serve(session);
                self.desk.say(&format!("a new conversation; the old one: /resume {}", cleared.before));
                self.desk.say(&match cleared.waiting {
                    0 => "no mail was waiting".to_owned(),
                    1 => "the message that waits is kept for it".to_owned(),
                    n => format!("the {n} messages that wait are kept for it"),
                });
                cleared.notices.iter().for_each(|notice| self.desk.warn(notice));
            }
            Err(error) => self.failed(&error),
        }
        leave
    }

    /// Which session to go on with, when one is named and nothing of this one would be lost by it.
    async fn other(&mut self, setup: &Setup, session: &Session, rest: &str) -> Option<SessionId> {
        let wanted = if rest.is_empty() {
            sessions::listed(setup).map(|lines| {
                self.desk.printer().lines(&lines);
                None
            })
        } else {
            sessions::find(setup, rest).map(Some)
        };
        let wanted = match wanted {
            Ok(wanted) => wanted?,
            Err(error) => {
                self.failed(&error);
                return None;
            }
        };
        let lock_file = setup.paths.project(&setup.cwd).session_lock(&wanted);
        if wanted == session.id {
            self.desk.warn("this is that session");
        } else if lock::is_held(&lock_file).unwrap_or(false) && !session.has_left(&wanted) {
            self.desk.warn(&format!("the session {wanted} is open in another process"));
        } else if !session.lead.supervisor.living().await.is_empty()
            || session.runtime.background.all_at_work() > 0
        {
            self.desk.warn("teammates or background work are still alive, and would be stopped: end them, or leave with /quit");
        } else {
            lock::release(&lock_file);
            return Some(wanted);
        }
        None
    }

    /// Ends in order: teammates, session, feed, terminal.
    async fn end(
        mut self,
        setup: &Setup,
        session: Session,
        leave: Leave,
        feeding: tokio::task::JoinHandle<()>,
        over: &CancellationToken,
    ) -> Result<Option<ExitKind>, CliError> {
        let ending = if leave.by == By::Signal { SessionEnding::Signal } else { SessionEnding::Exit };
        let (refused, _) = refused::of_run(&session, &self.since).await;
        let keep = leave.teammates == Teammates::Keep || setup.shared.keep_team;
        if !keep && !session.lead.supervisor.living().await.is_empty() {
            self.desk.say("stopping the teammates …");
        }
        let again = format!("go on later with: festoon --resume {}", session.id);
        let spoke = !session.lead.agent.is_fresh();
        self.end_session(session, ending, keep, feeding, over).await;
        let kind = self.desk.kind();
        if spoke && kind != Kind::Piped {
            self.desk.say(&again);
        }
        self.desk.close().await;
        let interrupted = (leave.by == By::Signal).then_some(ExitKind::Interrupted);
        if kind != Kind::Piped {
            return Ok(interrupted);
        }
        let denied = refused.nobody.then_some(ExitKind::Denied);
        Ok(worst(self.failures.into_iter().chain(interrupted).chain(denied)))
    }
}

enum Waited {
    Turn(TurnInput),
    Compact(Option<String>),
    Rewind(String),
    Clear,
    Resume(String),
    Leave(Leave),
}

/// What a session is left for.
enum Left {
    /// The end of the process.
    Process(Leave),
    /// Another session.
    For(SessionId),
}
