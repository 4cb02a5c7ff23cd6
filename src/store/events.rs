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
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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

/// Reads a log piece by piece, and another one that comes to stand at its place from its beginning.
#[derive(Debug, Default)]
pub struct Reader {
    /// Kept open, so that its number is no other file's.
    log: Option<File>,
    offset: u64,
}

impl Reader {
    /// The events since the last look; lines that are not complete are left for the next. Costs what is
    /// new, however long the log is.
    pub fn read(&mut self, team: &TeamPaths) -> Result<Vec<Event>, StoreError> {
        let path = team.events();
        let Some(found) = own::open(&path, Open::Read)? else { return self.rest(&path) };
        let number = |file: &File| {
            let found = file.metadata().map_err(|e| StoreError::io("look at", &path, e))?;
            Ok::<_, StoreError>((found.dev(), found.ino()))
        };
        let is_other = match &self.log {
            Some(log) => number(log)? != number(&found)?,
            None => true,
        };
        if !is_other {
            return self.rest(&path);
        }
        // What was written into the one before it was removed comes first.
        let mut events = self.rest(&path)?;
        (self.log, self.offset) = (Some(found), 0);
        events.extend(self.rest(&path)?);
        Ok(events)
    }

    fn rest(&mut self, path: &Path) -> Result<Vec<Event>, StoreError> {
        let Some(log) = &self.log else { return Ok(Vec::new()) };
        let length = log.metadata().map_err(|e| StoreError::io("look at", path, e))?.len();
        if length <= self.offset {
            return Ok(Vec::new());
        }
        let bytes = jsonl::read_range(log, path, self.offset, length)?;
        let complete = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        self.offset += complete as u64;
        let lines = bytes[..complete].split(|b| *b == b'\n');
        Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::clock;
    use crate::store::roster::Roster;
    use crate::store::tests::team::{Team, team_file};
    use crate::wire::event::EventKind;
    use crate::wire::ids::AgentName;

    #[test]
    fn a_log_in_the_place_of_another_is_read_from_its_beginning() {
        let it = Team::new();
        let write = |run: &str| {
            let event = Event {
                ts: clock::now(),
                event: EventKind::Notice,
                team: it.team.name(),
                agent: AgentName::team_lead(),
                incarnation: 1,
                fields: serde_json::Map::from_iter([("reason".to_owned(), run.into())]),
            };
            append(&it.team, &event).expect("appends");
        };
        let mut reader = Reader::default();
        let mut read = || -> Vec<String> {
            let events = reader.read(&it.team).expect("reads");
            events
                .iter()
                .map(|event| event.fields["reason"].as_str().unwrap_or_default().to_owned())
                .collect()
        };
        assert!(read().is_empty());
        write("a");
        write("b");
        assert_eq!(read(), ["a", "b"]);
        assert!(read().is_empty());
        write("the last word");
        for fresh in ["c", "a much longer first line than all that was there before it was removed, by far"] {
            Roster::remove_team(&it.team).expect("removes");
            Roster::create(&it.paths, &team_file("review")).expect("makes");
            write(fresh);
            let before = if fresh == "c" { vec!["the last word"] } else { Vec::new() };
            assert_eq!(read(), [before, vec![fresh]].concat());
            assert!(read().is_empty());
        }
    }
}
