//! `festoon log`: transcripts, found and read.

mod export;
mod show;
mod tree;

use crate::cli::args::Shared;
use crate::cli::error::CliError;
use crate::cli::out::{Out, warning};
use crate::cli::table::{self, Cell, Column, Table};
use crate::cli::teams::Desk;
use crate::cli::words;
use crate::store::error::StoreError;
use crate::store::paths::ProjectPaths;
use crate::store::{clock, transcript};
use crate::wire::error::ExitKind;
use crate::wire::ids::SessionId;
use crate::wire::time::Timestamp;
use crate::wire::transcript::{Line, LineType};
use clap::Subcommand;
use serde::Serialize;
use std::path::PathBuf;

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What can be done with transcripts.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Lists the sessions of this directory, newest first.
    List {
        /// Those of every directory.
        #[arg(long, short)]
        all: bool,
    },
    /// Shows a transcript; --json prints its lines as they are.
    Show {
        /// A session, or the beginning of its id, and one of its agents; without it, the latest one here.
        #[arg(value_name = "SESSION[/AGENT]")]
        which: Option<String>,
        /// Tool results and long texts as a whole.
        #[arg(long)]
        full: bool,
    },
    /// Shows who started whom in a session, with what each has used.
    Tree {
        /// A session, or the beginning of its id; without it, the latest one here.
        session: Option<String>,
    },
    /// Writes a transcript as a document, or as messages for another program.
    Export {
        /// A session, or the beginning of its id, and one of its agents; without it, the latest one here.
        #[arg(value_name = "SESSION[/AGENT]")]
        which: Option<String>,
        /// The file; its name says the format.
        #[arg(long, short, value_name = "FILE", default_value = "-")]
        output: PathBuf,
        /// The format, whatever the file is called.
        #[arg(long)]
        format: Option<export::Format>,
    },
}

/// Runs it.
pub fn run(args: &Args, shared: &Shared) -> Result<Option<ExitKind>, CliError> {
    let desk = Desk::new()?;
    match &args.verb {
        Verb::List { all } => list(&desk, shared, *all),
        Verb::Show { which, full } => show::show(&chosen(&desk, which.as_deref())?, shared, *full),
        Verb::Tree { session } => {
            let (project, session) = find(&desk, session.as_deref().unwrap_or_default())?;
            tree::show(&project, &session, shared)
        }
        Verb::Export { which, output, format } => {
            export::export(&chosen(&desk, which.as_deref())?, output, *format)
        }
    }
}

/// The transcript that is meant.
fn chosen(desk: &Desk, which: Option<&str>) -> Result<PathBuf, CliError> {
    let which = which.unwrap_or_default();
    // An old session's id may hold a slash itself.
    let ((project, session), agent) = match (find(desk, which), which.split_once('/')) {
        (Err(_), Some((session, agent))) => (find(desk, session)?, agent),
        (found, _) => (found?, ""),
    };
    match agent {
        "" | "main" | "team-lead" => Ok(project.transcript(&session)),
        agent => agent_file(&project, &session, agent),
    }
}

fn here(desk: &Desk) -> Result<ProjectPaths, CliError> {
    let cwd = std::env::current_dir().and_then(|dir| dir.canonicalize())?;
    Ok(desk.paths.project(&cwd))
}

/// A session in the listing.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    session: SessionId,
    cwd: Option<String>,
    team: Option<String>,
    started_at: Option<Timestamp>,
    updated_at: Timestamp,
    prompt: Option<String>,
    agents: Vec<String>,
    file: PathBuf,
}

fn list(desk: &Desk, shared: &Shared, all: bool) -> Result<Option<ExitKind>, CliError> {
    let projects = if all { transcript::projects(&desk.paths)? } else { vec![here(desk)?] };
    let (mut rows, mut exit) = (Vec::new(), None);
    for project in &projects {
        for (session, time) in transcript::sessions(project)? {
            match row(project, session, clock::of(time)) {
                Ok(row) => rows.push(row),
                Err(error) => {
                    warning(error);
                    exit = Some(ExitKind::Failed);
                }
            }
        }
    }
    rows.sort_by(|a, b| (&b.updated_at, &b.session).cmp(&(&a.updated_at, &a.session)));
    let mut out = Out::default();
    if shared.json {
        out.json(&rows)?;
        return Ok(exit);
    }
    if rows.is_empty() {
        let what = if all {
            "there is no session yet; `festoon demo` makes one"
        } else {
            "no session here (--all for other directories)"
        };
        out.line(what)?;
        return Ok(exit);
    }
    let mut table = Table::new(&[
        Column::Fixed("SESSION"),
        Column::Right("AGE"),
        Column::Cut("AGENTS", 10),
        Column::Cut("DIRECTORY", 12),
        Column::Cut("PROMPT", 16),
    ]);
    let ids: Vec<&str> = rows.iter().map(|row| row.session.as_str()).collect();
    for row in &rows {
        table.row([
            Cell::from(short(row.session.as_str(), &ids)),
            Cell::from(words::age(&row.updated_at)),
            Cell::from(row.agents.join(", ")),
            Cell::from(if all { row.cwd.as_deref().unwrap_or("?") } else { "" }),
            Cell::from(row.prompt.as_deref().unwrap_or_default()),
        ]);
    }
    for line in table.render(table::columns()) {
        out.line(line)?;
    }
    Ok(exit)
}

/// As much of an id as tells it from the others, eight characters at least.
fn short<'a>(id: &'a str, all: &[&str]) -> &'a str {
    let common = |other: &str| id.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let needed = all.iter().filter(|other| **other != id).map(|other| common(other) + 1).max().unwrap_or(0);
    let length = needed.max(8).min(id.len());
    id.get(..length).unwrap_or(id)
}

fn row(project: &ProjectPaths, session: SessionId, updated_at: Timestamp) -> Result<Row, StoreError> {
    let file = project.transcript(&session);
    let agents = transcript::sidechain_files(project, &session)?;
    let mut row = Row {
        session,
        cwd: None,
        team: None,
        started_at: None,
        updated_at,
        prompt: None,
        agents: agents.into_iter().map(|(name, _)| name).collect(),
        file: file.clone(),
    };
    // As far as the first prompt and no further: a transcript may be long.
    transcript::read_while(&file, |_, line| {
        let Ok(line) = line else { return true };
        row.cwd.get_or_insert_with(|| line.cwd.clone());
        row.started_at.get_or_insert_with(|| line.timestamp.clone());
        row.team = row.team.take().or_else(|| line.team_name.as_ref().map(ToString::to_string));
        row.prompt = prompt(&line);
        row.prompt.is_none()
    })?;
    Ok(row)
}

/// What the person wrote: the last text of the first user message, after its surroundings.
fn prompt(line: &Line) -> Option<String> {
    let message = line.message.as_ref().filter(|_| line.kind == LineType::User)?;
    message.content.iter().rev().find_map(|block| block.0.as_text())
}

/// The session whose id begins so, here or anywhere; without an id, the latest here.
fn find(desk: &Desk, typed: &str) -> Result<(ProjectPaths, SessionId), CliError> {
    let mine = here(desk)?;
    if typed.is_empty() {
        let latest = transcript::sessions(&mine)?.into_iter().next();
        let none = || {
            CliError::new(
                ExitKind::Failed,
                "not_found",
                "there is no session in this directory",
                "`festoon log list --all` lists those of others",
            )
        };
        return latest.map(|(session, _)| (mine, session)).ok_or_else(none);
    }
    let mut fitting = Vec::new();
    let mut projects = vec![mine.clone()];
    projects
        .extend(transcript::projects(&desk.paths)?.into_iter().filter(|project| project.dir() != mine.dir()));
    for project in projects {
        for (session, _) in transcript::sessions(&project)? {
            if session.as_str() == typed {
                return Ok((project, session));
            }
            if session.as_str().starts_with(typed) {
                fitting.push((project.clone(), session));
            }
        }
    }
    match fitting.len() {
        1 => Ok(fitting.remove(0)),
        0 => Err(CliError::new(
            ExitKind::Failed,
            "not_found",
            format!("there is no session {typed:?}"),
            "`festoon log list --all` lists them",
        )),
        _ => {
            let ids: Vec<&str> = fitting.iter().map(|(_, session)| session.as_str()).collect();
            Err(CliError::usage(format!("{typed:?} may be {}", ids.join(" or ")), "write more of the id"))
        }
    }
}

/// The transcript of an agent by its name, its id, or the beginning of the id.
fn agent_file(project: &ProjectPaths, session: &SessionId, typed: &str) -> Result<PathBuf, CliError> {
    let all = transcript::sidechain_files(project, session)?;
    let names = |id: &str| id == typed || id.split_once('@').is_some_and(|(name, _)| name == typed);
    if let Some((_, path)) = all.iter().find(|(id, _)| names(id)) {
        return Ok(path.clone());
    }
    let fitting: Vec<_> = all.iter().filter(|(id, _)| id.starts_with(typed)).collect();
    let listed = |ids: Vec<&str>| if ids.is_empty() { "none".to_owned() } else { ids.join(", ") };
    match fitting.as_slice() {
        [(_, path)] => Ok(path.clone()),
        [] => Err(CliError::new(
            ExitKind::Failed,
            "not_found",
            format!("session {session} has no agent {typed:?}"),
            format!("its agents: {}", listed(all.iter().map(|(id, _)| id.as_str()).collect())),
        )),
        several => Err(CliError::usage(
            format!("{typed:?} may be {}", listed(several.iter().map(|(id, _)| id.as_str()).collect())),
            "write more of the id",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_shown_as_short_as_they_are_unique() {
        let all = ["0199aaaa-1", "0199aaaa-2", "bbbb", "mine-and-long"];
        assert_eq!(all.map(|id| short(id, &all)), ["0199aaaa-1", "0199aaaa-2", "bbbb", "mine-and"]);
    }
}
