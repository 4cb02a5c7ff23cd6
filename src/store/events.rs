//! `events.jsonl`: what happened in a team, for people and scripts.
//!
//! Owns appending to and reading of the log. Promises whole lines from any number of writers: the
//! file is locked itself, which is sound because it is never replaced. Never read by the runtime to
//! decide anything.

use super::error::StoreError;
use super::jsonl::{self, Lines};
use super::lock;
use super::own::{self, Open};
use super::paths::TeamPaths;
use crate::wire::event::Event;
use crate::wire::limits::LOCK_DEADLINE;
use crate::wire::settings::Durability;

/// Appends an event.
pub fn append(team: &TeamPaths, event: &Event) -> Result<(), StoreError> {
    team.check(&team.dir())?;
    let path = team.events();
    let line = jsonl::encode(&path, event)?;
    let mut file = own::open_or_make(&path, Open::Append)?;
    lock::with_own_lock(&mut file, &path, LOCK_DEADLINE, |file| {
        jsonl::append_to(file, &path, &[&line], Durability::Process)
    })
}

/// All events, oldest first; lines that are none are left out. Nothing when there is no log.
pub fn read(team: &TeamPaths) -> Result<impl Iterator<Item = Event> + use<>, StoreError> {
    let lines = Lines::open(&team.events())?;
    Ok(lines
        .into_iter()
        .flatten()
        .map_while(Result::ok)
        .filter_map(|line| serde_json::from_slice(&line.bytes).ok()))
}

/// The events from byte `offset` on, and where to go on: after the last line that is complete. Costs
/// what is new, however long the log is.
pub fn read_from(team: &TeamPaths, offset: u64) -> Result<(Vec<Event>, u64), StoreError> {
    let path = team.events();
    let Some(file) = own::open(&path, Open::Read)? else { return Ok((Vec::new(), offset)) };
    let length = file.metadata().map_err(|e| StoreError::io("look at", &path, e))?.len();
    if length <= offset {
        return Ok((Vec::new(), offset));
    }
    let bytes = jsonl::read_range(&file, &path, offset, length)?;
    let complete = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let events =
        bytes[..complete].split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    Ok((events.collect(), offset + complete as u64))
}
