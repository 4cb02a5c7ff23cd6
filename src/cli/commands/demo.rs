//! `festoon demo`: a real team on the current directory, offline.
//!
//! Plays the blueprint `demo`: everything goes the way it goes with a model of flesh and blood, only
//! the answers come from a script. Owns the show around it: what is said before, the ask that waits
//! for a person, the page at the end. Never changes the directory it looks at; the team stays in the
//! state directory as evidence.

mod asks;
mod page;

use crate::agent::context::AgentContext;
use crate::agent::events::{AgentEvent, Observer};
use crate::agent::first::first_message;
use crate::agent::turn::{TurnInput, TurnStatus};
use crate::cli::args::Shared;
use crate::cli::blueprint;
use crate::cli::compose::{LeadPlan, Session, lead};
use crate::cli::error::CliError;
use crate::cli::headless::turn_error;
use crate::cli::insist::{self, Insisting};
use crate::cli::out;
use crate::cli::screen::{Prepared, Screen};
use crate::cli::setup::Setup;
use crate::cli::signals::{self, Signalled};
use crate::cli::text;
use crate::model::registry::{ModelRef, Provider};
use crate::store::atomic;
use crate::team::lead::Settled;
use crate::team::session::TeamTitle;
use crate::wire::block::{Block, Role};
use crate::wire::error::ExitKind;
use crate::wire::permission::PermissionMode;
use crate::wire::settings::Durability;
use crate::wire::worker::AskPolicy;
use anstyle::Style;
use asks::{Keeper, Keyboard};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How long the ask is open where nobody sits at a terminal (contract §16).
const UNWATCHED: Duration = Duration::from_secs(5);
/// What the leader is told when all is quiet and reports are missing; the script knows these words.
const NUDGE: &str = "Nobody works any more, and not every report has come. Report what there is.";
/// A message of the leader with more lines than this is the report, which has a page of its own.
const SHORT: usize = 4;

/// The arguments: the shared ones alone.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs it.
pub async fn run(_: Args, shared: Shared) -> Result<Option<ExitKind>, CliError> {
    if shared.model.is_some() {
        return Err(CliError::usage(
            "the demo plays its own script and takes no --model",
            "to give a team of your own to a model: festoon up BLUEPRINT --model MODEL",
        ));
    }
    say_what_comes();
    let setup = setup(shared)?;
    let team = blueprint::shipped("demo")?;
    let watched = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let script = write_script(&setup, team.script.as_deref().unwrap_or_default(), watched).await?;
    let mut signals = signals::listen()?;
    insist::watch(Insisting::All, &setup)?;
    let limit = setup.shared.ask_timeout.map(Duration::from_secs).or((!watched).then_some(UNWATCHED));
    let mut keyboard = if watched { Keyboard::open() } else { None };
    let prepared = Prepared::start()?;
    let name = format!("demo-{}", &Uuid::new_v4().simple().to_string()[..6]);
    let plan = LeadPlan {
        model: ModelRef { provider: Provider::Scripted, name: script.display().to_string() },
        title: TeamTitle::Named { name: &name, description: &team.blueprint.description },
        resume: None,
        asks: AskPolicy::Wait,
        definitions: team.roles.clone(),
        observers: vec![Arc::new(Stage(prepared.observer()))],
        default_mode: PermissionMode::Default,
        rules: Vec::new(),
    };
    let mut session = match lead(&setup, plan).await {
        Ok(session) => session,
        Err(error) => {
            prepared.cancel();
            return Err(error);
        }
    };
    let screen = Screen::start(prepared, &session);
    say_who_works(&session, &screen);
    let task = team.blueprint.default_task.clone().unwrap_or_default();
    let keeper = Keeper::start(&session, screen.lines(), keyboard.as_mut(), limit);
    let outcome = play(&mut session, &team.lead_prompt(&task), &mut signals).await;
    let dir = session.team.paths.dir();
    let troubles = session.finish(setup.shared.keep_team).await;
    let unanswered = keeper.finish().await;
    screen.finish().await;
    drop(keyboard);
    for trouble in troubles {
        out::warning(trouble);
    }
    let Some(report) = outcome? else {
        return Err(CliError::new(
            ExitKind::Interrupted,
            "interrupted",
            "the demo was interrupted; everyone has been sent home",
            "",
        ));
    };
    page::show(&format!("What is in {}", setup.cwd.display()), &report);
    say_what_remains(&name, &dir, unanswered);
    Ok(None)
}

/// Settings in force, and what the demo needs of them: a team, and tools that speak one language.
fn setup(shared: Shared) -> Result<Setup, CliError> {
    let mut setup = Setup::for_agents(shared)?;
    let settings = &mut setup.loaded.settings;
    settings.teams = Some(true);
    settings.permissions.default_mode = None;
    settings.env.insert("LC_ALL".to_owned(), "C".to_owned());
    // The leader is the one that the script knows.
    setup.shared.agent = None;
    Ok(setup)
}

/// The script as a file that workers of their own process can read too. Nobody reads along without a
/// terminal, so there it is played without pauses.
async fn write_script(setup: &Setup, script: &str, watched: bool) -> Result<PathBuf, CliError> {
    let dir = setup.paths.state_root().join("demo");
    let version = env!("CARGO_PKG_VERSION");
    let (name, text) = match watched {
        true => (format!("{version}.toml"), script.to_owned()),
        false => {
            let text = script.lines().map(|l| if l.starts_with("pace-ms") { "pace-ms = 0" } else { l });
            (format!("{version}-unpaced.toml"), text.collect::<Vec<_>>().join("\n"))
        }
    };
    let path = dir.join(name);
    let (paths, file) = (setup.paths.clone(), path.clone());
    setup
        .disk
        .run(&path, move || {
            paths.ensure_root()?;
            paths.make_dirs(&dir)?;
            atomic::replace(&file, text.as_bytes(), Durability::Process)
        })
        .await?;
    Ok(path)
}

fn say_what_comes() {
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    let here = std::env::current_dir().map(|d| d.display().to_string()).unwrap_or_default();
    out::line(format_args!("{bold}festoon demo{bold:#}: a leader and three teammates look at"));
    out::line(format_args!("  {}", text::clean(&here)));
    out::line(format_args!(
        "{dim}Real: the tools, the mail between them, permissions, files, processes. Scripted: what the\n\
         model says. No network, no key, and nothing in the directory is changed.{dim:#}"
    ));
}

fn say_who_works(session: &Session, screen: &Screen) {
    let dim = Style::new().dimmed();
    let (team, backend) = (session.team.name(), session.backend.as_str());
    session.warnings.iter().for_each(|warning| screen.note(format!("warning: {}", text::clean(warning))));
    screen.note(format!("{dim}team {team}, teammates run {backend}: {}{dim:#}", session.backend_reason));
    screen.note("");
}

/// How this program was called, so that what is shown can be typed.
fn program() -> String {
    let called = std::env::args_os().next().and_then(|word| word.into_string().ok());
    let called = called.unwrap_or_else(|| "festoon".to_owned());
    let home = std::env::var("FESTOON_HOME").ok().filter(|home| !home.is_empty());
    match home {
        Some(home) => format!("FESTOON_HOME={} {}", quoted(&home), quoted(&called)),
        None => quoted(&called),
    }
}

/// A word for a shell.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn say_what_remains(name: &str, dir: &std::path::Path, unanswered: usize) {
    let dim = Style::new().dimmed();
    let program = program();
    if unanswered > 0 {
        out::line(
            "Nobody answered the ask for a permission in time, so the demo said no to it. At a terminal",
        );
        out::line(format_args!(
            "it waits for you; in time, any terminal can answer: {program} ask approve ID"
        ));
    }
    out::line(format_args!("{dim}All four have ended. What they wrote stays in{dim:#}"));
    out::line(format_args!("  {}", text::clean(&dir.display().to_string())));
    out::line(format_args!("{dim}Look with{dim:#}    {program} team show {name}"));
    out::line(format_args!("{dim}Remove with{dim:#}  {program} team delete {name}"));
}

/// The leader's turns until its team has ended. `None`: interrupted.
async fn play(
    session: &mut Session,
    prompt: &str,
    signals: &mut mpsc::UnboundedReceiver<Signalled>,
) -> Result<Option<String>, CliError> {
    let mut input = TurnInput::Prompt(first_message(&session.lead.agent, prompt).await);
    let mut report = String::new();
    let mut nudged = false;
    loop {
        let cancel = CancellationToken::new();
        let end = {
            let turn = session.lead.turn(input, &cancel);
            tokio::pin!(turn);
            let mut interrupted = false;
            loop {
                tokio::select! {
                    biased;
                    end = &mut turn => break (!interrupted).then_some(end?),
                    Some(_) = signals.recv() => {
                        interrupted = true;
                        cancel.cancel();
                    }
                }
            }
        };
        let Some(end) = end else { return Ok(None) };
        match end.status {
            TurnStatus::Failed(error) => return Err(turn_error(&error)),
            TurnStatus::Cancelled => return Ok(None),
            TurnStatus::MaxRounds => {
                let why = "the limit of rounds (--max-turns) ended the demo";
                return Err(CliError::new(ExitKind::Limit, "max_turns", why, "it needs about ten a turn"));
            }
            TurnStatus::Completed => {}
        }
        // A remark after the report does not take its place.
        if is_report(&end.text) || !is_report(&report) && !end.text.trim().is_empty() {
            report = end.text;
        }
        let settled = tokio::select! {
            biased;
            Some(_) = signals.recv() => return Ok(None),
            settled = session.lead.settle() => settled?,
        };
        input = match settled {
            Settled::Mail => TurnInput::Mail,
            Settled::Quiet if nudged || session.lead.supervisor.living().await.is_empty() => {
                return Ok(Some(report));
            }
            Settled::Quiet => {
                nudged = true;
                TurnInput::Prompt(vec![Block::text(NUDGE)])
            }
        };
    }
}

/// Whether this is the report, and no remark by the way.
fn is_report(text: &str) -> bool {
    text.trim().lines().count() > SHORT
}

/// Shows what agents do, but not the leader's report, which has a page of its own; of commands first what
/// they are for.
struct Stage(Arc<dyn Observer>);

impl Observer for Stage {
    fn event(&self, agent: &AgentContext, event: &AgentEvent) {
        match event {
            AgentEvent::Message { message, .. }
                if agent.depth == 0 && message.role == Role::Assistant && is_report(&message.text()) => {}
            AgentEvent::ToolStarted { id, tool, summary } if tool == "Bash" => {
                let summary = match summary.rsplit_once(" — ") {
                    Some((command, purpose)) => format!("{purpose}: {command}"),
                    None => summary.clone(),
                };
                let (id, tool) = (id.clone(), tool.clone());
                self.0.event(agent, &AgentEvent::ToolStarted { id, tool, summary });
            }
            event => self.0.event(agent, event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_typed() {
        assert_eq!(quoted("target/debug/festoon"), "target/debug/festoon");
        assert_eq!(quoted("/my dir/it's"), r"'/my dir/it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
