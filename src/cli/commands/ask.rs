//! `festoon ask`: what agents ask a person, and the answers.
//!
//! The first answer counts; who comes later is told who was first.

mod reply;
mod show;

use super::for_people;
use crate::cli::args::Shared;
use crate::cli::environment::Environment;
use crate::cli::error::CliError;
use crate::cli::out::{Out, warning};
use crate::cli::setup::Setup;
use crate::cli::teams::Desk;
use crate::cli::words;
use crate::store::asks;
use crate::store::paths::{Paths, TeamPaths};
use crate::store::roster::Roster;
use crate::store::sign::Keys;
use crate::team::answer::{Answered, Word, answer};
use crate::team::context::Team;
use crate::team::session;
use crate::wire::ask::{Ask, AskKind, AskStatus, DecisionRecord};
use crate::wire::error::ExitKind;
use crate::wire::ids::{AskId, USER};
use crate::wire::permission::{Decision, PermissionMode, Scope};
use clap::{Subcommand, ValueEnum};
use serde_json::json;

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What can be done with asks.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Lists what waits for an answer.
    List {
        /// Also what is decided or closed; --json always has them.
        #[arg(long, short)]
        all: bool,
    },
    /// Shows one ask with its exact input.
    Show {
        /// Its id, or the beginning of it.
        id: String,
    },
    /// Says yes.
    Approve(Answer),
    /// Says no.
    Deny(Answer),
    /// Answers a question.
    Answer(reply::Args),
}

/// An answer.
#[derive(Debug, clap::Args)]
pub struct Answer {
    /// The asks, or the beginnings of their ids.
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
    /// A word to the asking agent.
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// For how long the answer holds.
    #[arg(long, value_enum, default_value_t = ScopeArg::Once)]
    pub scope: ScopeArg,
    /// For a plan that is approved: the mode to go on in, one that `ask show` names.
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub mode: Option<PermissionMode>,
    /// Gives the same answer to all open asks of the team that want the same call in the same directory.
    #[arg(long)]
    pub same: bool,
}

fn mode(name: &str) -> Result<PermissionMode, String> {
    PermissionMode::from_name(name).ok_or_else(|| {
        let names = PermissionMode::NAMES.map(|(name, _)| name);
        format!("one of {}", names.join(", "))
    })
}

/// For how long an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScopeArg {
    /// This call.
    Once,
    /// As long as the asking agent runs.
    Session,
    /// Written to the project's .festoon/settings.local.json.
    Project,
}

impl From<ScopeArg> for Scope {
    fn from(scope: ScopeArg) -> Self {
        match scope {
            ScopeArg::Once => Self::Once,
            ScopeArg::Session => Self::Session,
            ScopeArg::Project => Self::Project,
        }
    }
}

/// An ask and where it stands.
struct Found {
    team: TeamPaths,
    ask: Ask,
    status: AskStatus,
    decision: Option<DecisionRecord>,
}

/// Runs it.
pub async fn run(args: Args, shared: Shared) -> Result<Option<ExitKind>, CliError> {
    for_people(&Environment::snapshot(), "ask")?;
    match args.verb {
        Verb::List { all } => {
            let (found, troubled) = all_asks(&Desk::new()?.paths)?;
            show::list(&found, &shared, all)?;
            Ok(troubled.then_some(ExitKind::Failed))
        }
        Verb::Show { id } => show::show(&find(&Desk::new()?.paths, &id)?, &shared),
        Verb::Approve(word) => say(&Setup::new(shared)?, Decision::Allow, &word).await,
        Verb::Deny(word) => say(&Setup::new(shared)?, Decision::Deny, &word).await,
        Verb::Answer(args) => reply::run(&Setup::new(shared)?, &args).await,
    }
}

/// The asks of all teams, oldest first, and whether a team could not be read.
fn all_asks(paths: &Paths) -> Result<(Vec<Found>, bool), CliError> {
    let (mut all, mut troubled) = (Vec::new(), false);
    for name in Roster::list(paths)? {
        let team = paths.team(&name);
        match asks::list(&team) {
            Ok(found) => all.extend(found.into_iter().map(|(ask, status, decision)| Found {
                team: team.clone(),
                ask,
                status,
                decision,
            })),
            Err(error) => {
                warning(error);
                troubled = true;
            }
        }
    }
    all.sort_by(|a, b| (&a.ask.created_at, &a.ask.id).cmp(&(&b.ask.created_at, &b.ask.id)));
    Ok((all, troubled))
}

/// The one ask whose id begins so; `ask-` may be left out.
fn find(paths: &Paths, typed: &str) -> Result<Found, CliError> {
    let (all, _) = all_asks(paths)?;
    let typed = typed.trim();
    let whole = all.iter().any(|found| found.ask.id.as_str() == typed);
    let fits = |id: &AskId| {
        let id = id.as_str();
        let begins = id.starts_with(typed) || id.strip_prefix("ask-").is_some_and(|id| id.starts_with(typed));
        if whole { id == typed } else { begins && !typed.is_empty() }
    };
    let open: Vec<String> = all
        .iter()
        .filter(|found| found.status == AskStatus::Open)
        .map(|found| found.ask.id.to_string())
        .collect();
    let mut fitting: Vec<Found> = all.into_iter().filter(|found| fits(&found.ask.id)).collect();
    match fitting.len() {
        1 => Ok(fitting.remove(0)),
        0 => {
            let hint = if open.is_empty() {
                "nothing is asked now".to_owned()
            } else {
                format!("open: {}", open.join(", "))
            };
            Err(CliError::new(ExitKind::Failed, "not_found", format!("there is no ask {typed:?}"), hint))
        }
        _ => {
            let ids: Vec<String> = fitting.iter().map(|found| found.ask.id.to_string()).collect();
            Err(CliError::usage(format!("{typed:?} may be {}", ids.join(" or ")), "write more of the id"))
        }
    }
}

/// Answers one after the other.
async fn say(setup: &Setup, decision: Decision, word: &Answer) -> Result<Option<ExitKind>, CliError> {
    // All are looked up before the first is answered: a mistyped one changes nothing.
    let mut found = word.ids.iter().map(|id| find(&setup.paths, id)).collect::<Result<Vec<_>, _>>()?;
    if word.same {
        add_same(&setup.paths, &mut found)?;
    }
    let alone = found.len() == 1;
    let mut out = Out::default();
    let mut exit = None;
    for found in found {
        match say_one(setup, decision, word, &found, &mut out).await {
            Ok(()) => {}
            Err(error) if alone => return Err(error),
            Err(error) => {
                error.show(setup.shared.json);
                exit = Some(ExitKind::Failed);
            }
        }
    }
    Ok(exit)
}

/// Adds the open asks that want the same as one of `found`.
fn add_same(paths: &Paths, found: &mut Vec<Found>) -> Result<(), CliError> {
    let (all, _) = all_asks(paths)?;
    for other in all.into_iter().filter(|other| other.status == AskStatus::Open) {
        let same = |known: &Found| known.team.name() == other.team.name() && known.ask.is_same(&other.ask);
        if found.iter().any(same) && found.iter().all(|known| known.ask.id != other.ask.id) {
            found.push(other);
        }
    }
    Ok(())
}

async fn say_one(
    setup: &Setup,
    decision: Decision,
    word: &Answer,
    found: &Found,
    out: &mut Out,
) -> Result<(), CliError> {
    let id = &found.ask.id;
    let team = session::open_unwatched(&setup.paths, &setup.disk, &found.team.name(), setup.durability())?;
    let scope = Scope::from(word.scope);
    if found.ask.kind == AskKind::Question && decision == Decision::Allow {
        return Err(CliError::usage(
            format!("{id} is a question, which a yes does not answer"),
            format!("festoon ask show {id}, then festoon ask answer {id} TEXT"),
        ));
    }
    let said = Word { scope, mode: word.mode, ..Word::once(decision, word.note.clone(), USER) };
    let ask = counted(&team, id, answer(&team, id, said).await?)?;
    let rules: Vec<&str> = match (decision, scope) {
        (Decision::Allow, Scope::Session | Scope::Project) => {
            ask.suggestions.iter().map(|suggestion| suggestion.rule.as_str()).collect()
        }
        _ => Vec::new(),
    };
    if setup.shared.json {
        let mut said = json!({ "id": id, "team": team.name(), "agentId": ask.agent_id, "decision": decision,
            "scope": scope, "note": word.note, "by": USER, "rules": rules });
        if ask.kind == AskKind::Plan {
            said["kind"] = json!(ask.kind);
            said["mode"] = json!(word.mode);
        }
        return out.json(&said);
    }
    let verb = match decision {
        Decision::Allow => "allowed",
        Decision::Deny => "denied",
    };
    let agent = words::line(ask.agent_id.as_str());
    out.line(format!("{verb} {id} of {agent}: {}", words::line(&ask.description)))?;
    if !rules.is_empty() {
        out.line(format!("allowed for the {} as well: {}", scope.as_str(), words::line(&rules.join(", "))))?;
    }
    Ok(())
}

/// The ask whose answer counts, its warnings told; else why it does not.
fn counted(team: &Team, id: &AskId, answered: Answered) -> Result<Box<Ask>, CliError> {
    match answered {
        Answered::Counts { ask, warnings } => {
            warnings.iter().for_each(warning);
            Ok(ask)
        }
        Answered::Unfit(why) => {
            Err(CliError::usage(why, format!("`festoon ask show {id}` shows what is asked")))
        }
        Answered::TooLate(_) | Answered::Unknown => Err(too_late(&team.paths, &team.keys, id)),
    }
}

/// Who was first, or why nobody waits any more.
fn too_late(team: &TeamPaths, keys: &Keys, id: &AskId) -> CliError {
    let kind = |kind, message| {
        CliError::new(ExitKind::Failed, kind, message, "`festoon ask list` shows what is open")
    };
    match (asks::decision(team, keys, id), asks::load(team, id)) {
        (Ok(Some(first)), _) => {
            let what = match first.decision {
                Decision::Allow => "allowed",
                Decision::Deny => "denied",
            };
            let ago = words::age(&first.at);
            kind(
                "decided",
                format!("{id} was {what} by {} at {} ({ago} ago)", words::line(&first.by), first.at),
            )
        }
        (_, Ok(Some(ask))) => {
            let why = ask
                .closed
                .as_ref()
                .map_or("nobody waits for it".to_owned(), |closed| words::line(&closed.reason));
            kind("closed", format!("{id} is closed: {why}"))
        }
        _ => kind("not_found", format!("there is no ask {id}")),
    }
}
