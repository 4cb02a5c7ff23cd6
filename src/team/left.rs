//! Which team a session left behind: found by what the teams say, and by what the session says.
//!
//! Promises that a team which cannot be read is never taken for one that is not there: when it is the
//! session's own, or may be, that is an error with the file and what to do. Changes nothing.

use crate::os::process;
use crate::store::error::StoreError;
use crate::store::paths::{Paths, TeamPaths};
use crate::store::roster::Roster;
use crate::store::{lock, run, transcript};
use crate::wire::ids::{AgentName, SessionId, TeamName};
use crate::wire::time::Timestamp;
use std::path::Path;

/// The newest team that `session` led, if it left one. `transcript` is the session's.
///
/// # Errors
/// [`StoreError::Team`] when a team cannot be read that is this session's by its transcript, or that nothing
/// says is another's.
pub fn find(paths: &Paths, transcript: &Path, session: &SessionId) -> Result<Option<TeamName>, StoreError> {
    let said = team_in(transcript)?;
    let mut newest: Option<(Timestamp, TeamName)> = None;
    let mut doubtful = None;
    for name in Roster::places(paths)? {
        let team = paths.team(&name);
        let why = match Roster::load(&team) {
            Ok(Some(file)) => {
                let newer = newest.as_ref().is_none_or(|(at, _)| at < &file.created_at);
                if file.lead_session_id == *session && newer {
                    newest = Some((file.known.created_at, name));
                }
                continue;
            }
            Ok(None) if team.dir().symlink_metadata().is_err() => continue, // removed since it was listed
            Ok(None) => StoreError::NotFound { path: team.team_file() },
            Err(error) => error,
        };
        match &said {
            Some(own) if *own == name => return Err(unreadable(name, "belongs to this session", why)),
            Some(_) => {}
            None if is_led(&team) => {}
            None => drop(doubtful.get_or_insert((name, why))),
        }
    }
    match (newest, doubtful) {
        (Some((_, name)), _) => Ok(Some(name)),
        (None, Some((name, why))) => Err(unreadable(name, "may belong to this session", why)),
        (None, None) => Ok(None),
    }
}

fn unreadable(team: TeamName, whose: &'static str, why: StoreError) -> StoreError {
    StoreError::Team { team, whose, source: Box::new(why) }
}

/// The team that the last line of a transcript names: a team may be given another name on the way.
fn team_in(file: &Path) -> Result<Option<TeamName>, StoreError> {
    if file.symlink_metadata().is_err() {
        return Ok(None);
    }
    let (lines, _) = transcript::read_tail(file)?;
    if let Some(name) = lines.into_iter().rev().find_map(|line| line.team_name) {
        return Ok(Some(name));
    }
    let mut last = None;
    transcript::read(file, |_, line| {
        last = line.ok().and_then(|line| line.team_name).or_else(|| last.take());
    })?;
    Ok(last)
}

/// Whether another process leads it: the session's own leader is gone, since its lock is ours.
fn is_led(team: &TeamPaths) -> bool {
    let lives = |record: run::Loaded| record.is_ok_and(|record| process::is_alive(&record.process()));
    let lead = run::load(team, &AgentName::team_lead()).transpose();
    lock::is_held(&team.leader_lock()).unwrap_or(false) || lead.is_some_and(lives)
}
