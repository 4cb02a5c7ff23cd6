//! Which session to go on with: `--continue` and `--resume`.

use super::error::CliError;
use super::setup::Setup;
use crate::store::{clock, transcript};
use crate::wire::ids::SessionId;
use std::fmt::Write as _;
use std::path::Path;

/// Sessions that a list shows.
const SHOWN: usize = 20;

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
    let sessions = transcript::sessions(&setup.paths.project(&setup.cwd))?;
    let here = format!("no session of {} was found", setup.cwd.display());
    if sessions.is_empty() {
        return Err(CliError::usage(here, "start one with festoon, in this directory"));
    }
    let wanted = match resume {
        None => {
            let project = setup.paths.project(&setup.cwd);
            let latest = sessions.into_iter().map(|(id, _)| id).find(|id| !is_demo(&project.transcript(id)));
            return latest
                .map(Some)
                .ok_or_else(|| CliError::usage(here, "start one with festoon, in this directory"));
        }
        Some("") => {
            let mut list = String::from("which session?");
            for (id, time) in sessions.iter().take(SHOWN) {
                let _ = write!(list, "\n  {id}  {}", clock::of(*time));
            }
            return Err(CliError::usage(
                list,
                "festoon --resume ID; festoon log list shows what they were about",
            ));
        }
        Some(wanted) => wanted,
    };
    let mut fitting = sessions.iter().filter(|(id, _)| id.as_str().starts_with(wanted));
    match (fitting.next(), fitting.next()) {
        (Some((id, _)), None) => Ok(Some(id.clone())),
        (Some(_), Some(_)) => {
            let exact = sessions.iter().find(|(id, _)| id.as_str() == wanted);
            let message = format!("several sessions begin with {wanted}");
            exact
                .map(|(id, _)| Some(id.clone()))
                .ok_or_else(|| CliError::usage(message, "write more of the id"))
        }
        (None, _) => Err(CliError::usage(
            format!("there is no session {wanted} of {}", setup.cwd.display()),
            "festoon --resume lists them",
        )),
    }
}
