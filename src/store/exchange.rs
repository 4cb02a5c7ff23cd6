//! A session's team gets another name, or a fresh one takes its place (contract §16).
//!
//! Promises that every clone of the [`TeamPaths`] means the new place as soon as it is whole, and that
//! books, keys and run record of the leader come along. Never looks whether somebody is in the team: the
//! caller, its leader, has. A fresh team is one only when everything is in it: a process that is killed
//! before leaves the old team whole beside a directory that is none, and one that is killed after it two
//! teams, of which the session goes on with the fresh one. What fails after the team has moved undoes
//! nothing.

use super::error::StoreError;
use super::inbox::Inbox;
use super::lock::{self, Missing, Patience};
use super::paths::TeamPaths;
use super::roster::Roster;
use super::sign::{Keys, worker_key};
use super::{atomic, run};
use crate::wire::ids::{AgentId, AgentName, TeamName};
use crate::wire::ledger::LedgerFile;
use crate::wire::open::Open;
use crate::wire::settings::Durability;
use crate::wire::team::TeamFile;
use std::path::Path;
use std::time::Duration;

/// Gives `team` the name `name`, in its file and as its directory; `change` sets what else is new.
/// The leader's books and run record are noted by [`note_lead`]. [`StoreError::Exists`] when another team is
/// called so; after an error nothing has changed.
pub fn rename(
    team: &TeamPaths,
    name: &TeamName,
    change: impl FnOnce(&mut TeamFile),
) -> Result<(), StoreError> {
    let (here, there) = (team.dir(), team.paths().team(name).dir());
    let moves = here != there;
    if moves && there.symlink_metadata().is_ok() {
        return Err(StoreError::Exists { path: there });
    }
    let before = Roster::update(team, |file| {
        let before = file.known.clone();
        change(&mut file.known);
        file.name = name.clone();
        file.lead_agent_id = AgentId::member(&AgentName::team_lead(), name);
        Ok(before)
    })?;
    if moves {
        if let Err(error) = std::fs::rename(&here, &there) {
            Roster::update(team, |file| {
                file.known = before;
                Ok(())
            })?;
            return Err(StoreError::io("move", &here, error));
        }
        team.move_to(name);
    }
    Ok(())
}

/// Notes the leader of a renamed team, whose id was `old`, under its new id. `None` when the ledger is
/// locked: come again.
pub fn note_lead(team: &TeamPaths, old: &AgentId) -> Result<Option<()>, StoreError> {
    note_lead_of(team, team, old)
}

/// Puts the fresh team `file` into the place of `team`, whose files the caller removes: it is at the
/// returned place. After an error nothing has changed.
pub fn replace(team: &TeamPaths, file: &TeamFile, durability: Durability) -> Result<TeamPaths, StoreError> {
    let old = team.paths().team(&team.name());
    let fresh = team.paths().team(&file.name);
    if fresh.dir().symlink_metadata().is_ok() {
        return Err(StoreError::Exists { path: fresh.dir() });
    }
    if let Err(error) = furnish(&old, &fresh, file, durability) {
        lock::release(&fresh.leader_lock());
        // Without its file it is no team; what cannot be removed is only in the way of nobody.
        drop(Roster::remove_team(&fresh));
        return Err(error);
    }
    team.move_to(&file.name);
    Ok(old)
}

/// Makes the fresh team with all that comes along from the old one, its file last.
fn furnish(
    old: &TeamPaths,
    fresh: &TeamPaths,
    file: &TeamFile,
    durability: Durability,
) -> Result<(), StoreError> {
    let lead = AgentName::team_lead();
    fresh.make()?;
    let keys = [fresh.keys_dir(), old.keys_dir()].map(|dir| (dir.join("team.key"), worker_key(&dir, &lead)));
    let [(team_key, lead_key), (old_team_key, old_lead_key)] = keys;
    carry(&old_team_key, &team_key)?;
    carry(&old_lead_key, &lead_key)?;
    carry(&old.ledger(), &fresh.ledger())?;
    carry(&old.rate(), &fresh.rate())?;
    let busy = StoreError::LockTimeout { path: fresh.ledger_lock(), waited: Duration::ZERO };
    // Nobody else knows the place.
    note_lead_of(old, fresh, &AgentId::member(&lead, &old.name()))?.ok_or(busy)?;
    Inbox::new(fresh, &lead, &Keys::load(fresh)?, durability).create()?;
    if !lock::hold_for_life(&fresh.leader_lock(), &format!("leader of {}", fresh.dir().display()))? {
        return Err(StoreError::Exists { path: fresh.leader_lock() });
    }
    Roster::create(fresh.paths(), file).map(drop)
}

/// Copies a file with its mode; one that is not there needs no copy.
fn carry(from: &Path, to: &Path) -> Result<(), StoreError> {
    match std::fs::copy(from, to) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::io("copy", from, error))
        }
        _ => Ok(()),
    }
}

/// Writes the leader's run record of `from` into `to`, under the id that it has there, and its row in the
/// books of `to`. `None` when these are locked.
fn note_lead_of(from: &TeamPaths, to: &TeamPaths, old: &AgentId) -> Result<Option<()>, StoreError> {
    let lead = AgentName::team_lead();
    let noted = lock::with_locked_file(&to.ledger_lock(), Missing::Make, Patience::Once, |_| {
        let Some(mut books): Option<Open<LedgerFile>> = atomic::read_json(&to.ledger())? else {
            return Ok(());
        };
        for row in books.agents.iter_mut().filter(|row| row.agent_id == old.as_str()) {
            row.agent_id = AgentId::member(&lead, &to.name()).to_string();
        }
        atomic::write_json(&to.ledger(), &books, Durability::Process)
    })?;
    if noted.is_none() {
        return Ok(None);
    }
    let Some(record) = run::load(from, &lead)? else { return Ok(Some(())) };
    let mut record = record.known;
    record.agent_id = AgentId::member(&lead, &to.name());
    run::begin(to, &record).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::team::{Team, run_record, team_file};
    use crate::wire::ledger::Bounds;
    use crate::wire::run::AgentState;
    use crate::wire::settings::LimitSettings;

    fn ledger(team: &TeamPaths, agent: &AgentId) {
        let mut file = LedgerFile::new(Bounds::new(&LimitSettings::default()));
        file.count(agent.as_str(), "team-lead", "m", crate::wire::ledger::Used::default());
        atomic::write_json(&team.ledger(), &Open::new(file), Durability::Process).expect("writes");
    }

    fn rows(team: &TeamPaths) -> Vec<String> {
        let file: Option<Open<LedgerFile>> = atomic::read_json(&team.ledger()).expect("reads");
        file.expect("a ledger").agents.iter().map(|row| row.agent_id.clone()).collect()
    }

    #[test]
    fn a_fresh_team_that_cannot_be_furnished_leaves_the_old_one_and_nothing_else() {
        let it = Team::new();
        // No file to be copied.
        std::fs::create_dir(it.team.ledger()).expect("dir");
        let fresh = team_file("fresh");
        replace(&it.team, &fresh, Durability::Process).expect_err("it cannot be carried");
        assert_eq!(it.team.name().as_str(), "review");
        assert!(!it.paths.team(&fresh.name).dir().exists());
        assert_eq!(Roster::list(&it.paths).expect("lists"), [it.team.name()]);

        std::fs::remove_dir(it.team.ledger()).expect("removes");
        ledger(&it.team, &AgentId::new("team-lead@review"));
        let old = replace(&it.team, &fresh, Durability::Process).expect("replaces");
        assert_eq!((it.team.name().as_str(), old.name().as_str()), ("fresh", "review"));
        assert_eq!(rows(&it.team), ["team-lead@fresh"]);
        assert_eq!(Roster::list(&it.paths).expect("lists"), [it.team.name(), old.name()]);
        assert!(lock::is_held(&it.team.leader_lock()).expect("looks"));
        lock::release(&it.team.leader_lock());
        // One that is there is never built upon.
        let taken = replace(&it.team, &team_file("review"), Durability::Process);
        assert!(matches!(taken, Err(StoreError::Exists { .. })), "{taken:?}");
    }

    #[test]
    fn the_leader_is_noted_when_the_ledger_is_free() {
        let it = Team::new();
        let old = AgentId::new("team-lead@review");
        ledger(&it.team, &old);
        run::begin(&it.team, &run_record("team-lead", "r", AgentState::Idle)).expect("begins");
        rename(&it.team, &TeamName::new("first").expect("slug"), |_| ()).expect("renames");
        let patience = Duration::from_secs(1);
        let busy = lock::with_lock(&it.team.ledger_lock(), patience, || note_lead(&it.team, &old));
        assert_eq!((busy.expect("looks"), rows(&it.team)), (None, vec![old.to_string()]));
        assert_eq!(note_lead(&it.team, &old).expect("notes"), Some(()));
        assert_eq!(rows(&it.team), ["team-lead@first"]);
        let record = run::load(&it.team, &AgentName::team_lead()).expect("reads").expect("there");
        assert_eq!(record.agent_id.as_str(), "team-lead@first");
    }
}
