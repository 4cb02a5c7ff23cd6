//! A session's team gets another name, or a fresh one takes its place (contract §16).
//!
//! Promises that every clone of the [`TeamPaths`] means the new place as soon as it is whole, and that
//! books, keys and run record of the leader come along. Never looks whether somebody is in the team: the
//! caller, its leader, has. A process that is killed in between leaves a team that nobody uses.

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

/// Gives `team` the name `name`, in its file and as its directory; `change` sets what else is new.
/// [`StoreError::Exists`] when another team is called so.
pub fn rename(
    team: &TeamPaths,
    name: &TeamName,
    change: impl FnOnce(&mut TeamFile),
) -> Result<(), StoreError> {
    let (here, there) = (team.dir(), team.paths().team(name).dir());
    let old_lead = AgentId::member(&AgentName::team_lead(), &team.name());
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
    note_lead(team, team, &old_lead)
}

/// Puts the fresh team `file` into the place of `team`, whose files are removed as with `team delete`.
pub fn replace(team: &TeamPaths, file: &TeamFile, durability: Durability) -> Result<(), StoreError> {
    let lead = AgentName::team_lead();
    let old = team.paths().team(&team.name());
    let fresh = Roster::create(team.paths(), file)?;
    let keys = [fresh.keys_dir(), old.keys_dir()].map(|dir| (dir.join("team.key"), worker_key(&dir, &lead)));
    let [(team_key, lead_key), (old_team_key, old_lead_key)] = keys;
    carry(&old_team_key, &team_key)?;
    carry(&old_lead_key, &lead_key)?;
    carry(&old.ledger(), &fresh.ledger())?;
    carry(&old.rate(), &fresh.rate())?;
    note_lead(&old, &fresh, &AgentId::member(&lead, &old.name()))?;
    Inbox::new(&fresh, &lead, &Keys::load(&fresh)?, durability).create()?;
    if !lock::hold_for_life(&fresh.leader_lock(), &format!("leader of {}", fresh.dir().display()))? {
        return Err(StoreError::Exists { path: fresh.leader_lock() });
    }
    team.move_to(&file.name);
    Roster::remove_team(&old)
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
/// books of `to`.
fn note_lead(from: &TeamPaths, to: &TeamPaths, old: &AgentId) -> Result<(), StoreError> {
    let lead = AgentName::team_lead();
    lock::with_locked_file(&to.ledger_lock(), Missing::Make, Patience::Once, |_| {
        let Some(mut books): Option<Open<LedgerFile>> = atomic::read_json(&to.ledger())? else {
            return Ok(());
        };
        for row in books.agents.iter_mut().filter(|row| row.agent_id == old.as_str()) {
            row.agent_id = AgentId::member(&lead, &to.name()).to_string();
        }
        atomic::write_json(&to.ledger(), &books, Durability::Process)
    })?;
    let Some(record) = run::load(from, &lead)? else { return Ok(()) };
    let mut record = record.known;
    record.agent_id = AgentId::member(&lead, &to.name());
    run::begin(to, &record)
}
