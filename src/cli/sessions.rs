//! Which session to go on with: `--continue` and `--resume`.

use super::error::CliError;
use super::setup::Setup;
use super::{out, text, words};
use crate::store::paths::ProjectPaths;
use crate::store::{clock, transcript};
use crate::wire::ids::SessionId;
use crate::wire::transcript::LineType;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::Path;
use std::time::SystemTime;

/// Sessions that a list shows.
const SHOWN: usize = 20;
/// Columns of what was said first.
const PROMPT_COLUMNS: usize = 60;

/// Whether a transcript is one of `festoon demo`: nobody means that when they want to go on.
fn is_demo(transcript: &Path) -> bool {
    let mut demo = false;
    // A file that cannot be read is reported when it is resumed.
    let _ = transcript::read_while(transcript, |_, line| {
        demo = line.is_ok_and(|line| {
            let team = line.team_name.is_some_and(|team| team.as_str().starts_with("demo-"));
            let scripted = line.data.is_some_and(|data| data.get().contains(r#""model":"scripted:"#));
            team && scripted
        });
        false
    });
    demo
}

/// The session that the flags mean; `None` when they mean a new one.
pub fn chosen(setup: &Setup, go_on: bool, resume: Option<&str>) -> Result<Option<SessionId>, CliError> {
    if !go_on && resume.is_none() {
        return Ok(None);
    }
    if setup.shared.session_id.is_some() {
        return Err(CliError::usage(
            "--session-id names a new session",
            "leave it out to go on with an old one",
        ));
    }
    if setup.shared.worktree {
        return Err(CliError::usage(
            "--worktree begins a new session",
            "to go on with one that had a worktree, go there and use --resume",
        ));
    }
    let sessions = transcript::sessions(&setup.paths.project(&setup.cwd))?;
    let here = format!("no session of {} was found", setup.cwd.display());
    if sessions.is_empty() {
        return Err(CliError::usage(here, "start one with festoon, in this directory"));
    }
    let wanted = match resume {
        None => {
            let project = setup.paths.project(&setup.cwd);
            // One in which nobody has said anything is not what is meant either.
            let is_meant = |file: &Path| !is_demo(file) && first_prompt(file).is_some();
            let latest = sessions.into_iter().map(|(id, _)| id).find(|id| is_meant(&project.transcript(id)));
            return latest
                .map(Some)
                .ok_or_else(|| CliError::usage(here, "start one with festoon, in this directory"));
        }
        Some("") => {
            if let Some(chosen) = offered(setup)? {
                return Ok(Some(chosen));
            }
            let mut list = String::from("which session?");
            for line in listed(setup)? {
                let _ = write!(list, "\n  {line}");
            }
            return Err(CliError::usage(list, "festoon --resume ID"));
        }
        Some(wanted) => wanted,
    };
    find(setup, wanted).map(Some)
}

/// The session of this directory whose id begins so.
pub fn find(setup: &Setup, wanted: &str) -> Result<SessionId, CliError> {
    let sessions = transcript::sessions(&setup.paths.project(&setup.cwd))?;
    let mut fitting = sessions.iter().filter(|(id, _)| id.as_str().starts_with(wanted));
    match (fitting.next(), fitting.next()) {
        (Some((id, _)), None) => Ok(id.clone()),
        (Some(_), Some(_)) => {
            let exact = sessions.iter().find(|(id, _)| id.as_str() == wanted);
            let message = format!("several sessions begin with {wanted}");
            exact.map(|(id, _)| id.clone()).ok_or_else(|| CliError::usage(message, "write more of the id"))
        }
        (None, _) => Err(CliError::usage(
            format!("there is no session {wanted} of {}", setup.cwd.display()),
            "festoon --resume lists them",
        )),
    }
}

/// The latest sessions of this directory, a line each: id, age, and what the person said first.
pub fn listed(setup: &Setup) -> Result<Vec<String>, CliError> {
    let project = setup.paths.project(&setup.cwd);
    let sessions = transcript::sessions(&project)?;
    let line = |(id, time): &(SessionId, SystemTime)| {
        let Card { age, title, .. } = Card::of(&project, id, *time);
        format!("{id}  {age:>6}  {title}")
    };
    Ok(sessions.iter().take(SHOWN).map(line).collect())
}

/// What tells a session from others.
pub struct Card {
    /// Its id.
    pub id: SessionId,
    /// Since its last line.
    pub age: String,
    /// What the person said first in it, short; empty when they said nothing.
    pub title: String,
}

impl Card {
    fn of(project: &ProjectPaths, id: &SessionId, time: SystemTime) -> Self {
        // A file that cannot be read is reported when it is resumed.
        let said = first_prompt(&project.transcript(id)).unwrap_or_default();
        let (age, title) = (words::age(&clock::of(time)), text::head(&said, PROMPT_COLUMNS));
        Self { id: id.clone(), age, title }
    }

    /// The card of a session of this directory, as it is now.
    pub fn find(setup: &Setup, id: &SessionId) -> Self {
        let project = setup.paths.project(&setup.cwd);
        let time = project.transcript(id).metadata().and_then(|meta| meta.modified());
        Self::of(&project, id, time.unwrap_or_else(|_| SystemTime::now()))
    }
}

/// What the person said first in a session: the last text of the first user message, behind its
/// surroundings.
fn first_prompt(file: &Path) -> Option<String> {
    let mut said = None;
    transcript::read_while(file, |_, line| {
        let message = line.ok().filter(|line| line.kind == LineType::User).and_then(|line| line.message);
        said = message.and_then(|m| m.content.iter().rev().find_map(|block| block.0.as_text()));
        said.is_none()
    })
    .ok()?;
    said
}

/// Lets the person choose by number; `None` where nobody can, or nobody does.
fn offered(setup: &Setup) -> Result<Option<SessionId>, CliError> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(None);
    }
    let sessions = transcript::sessions(&setup.paths.project(&setup.cwd))?;
    for (number, line) in listed(setup)?.iter().enumerate() {
        out::error(format_args!("{:>3}  {line}", number + 1));
    }
    out::error("which one? its number, or nothing to leave it");
    let mut typed = String::new();
    std::io::stdin().read_line(&mut typed)?;
    let number = typed.trim().parse::<usize>().ok().filter(|n| (1..=SHOWN).contains(n));
    Ok(number.and_then(|n| sessions.get(n - 1)).map(|(id, _)| id.clone()))
}
