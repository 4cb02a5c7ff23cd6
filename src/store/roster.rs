//! `team.json`: who is in a team.
//!
//! Owns making, reading, changing and removing a team's directory. Promises that a change is read,
//! made and replaced under one lock, that members we do not know survive it, and that removal never
//! leaves the directory. Only the leader calls what writes.

use super::atomic;
use super::error::StoreError;
use super::lock;
use super::paths::{Paths, TeamPaths};
use crate::wire::ids::TeamName;
use crate::wire::limits::LOCK_DEADLINE;
use crate::wire::open::Open;
use crate::wire::settings::Durability;
use crate::wire::team::TeamFile;
use std::io::ErrorKind;
use std::path::Path;
use uuid::Uuid;

/// How a directory that is being removed begins; no slug does.
const REMOVED_PREFIX: &str = ".removed-";

/// The roster files, by what can be done with them.
pub struct Roster;

impl Roster {
    /// Makes a team: its directories and its file. [`StoreError::Exists`] when there is one of that name.
    pub fn create(paths: &Paths, team: &TeamFile) -> Result<TeamPaths, StoreError> {
        let place = paths.team(&team.name);
        place.make()?;
        let path = place.team_file();
        let bytes = atomic::pretty(&path, &Open::new(team.clone()))?;
        if atomic::create_exclusive(&path, &bytes, Durability::Process)? {
            Ok(place)
        } else {
            Err(StoreError::Exists { path })
        }
    }

    /// Reads a team; `None` when there is none of that name.
    pub fn load(team: &TeamPaths) -> Result<Option<Open<TeamFile>>, StoreError> {
        team.check(&team.dir())?;
        atomic::read_json(&team.team_file())
    }

    /// Changes a team under its lock. What `f` gives comes back; an error of `f` changes nothing.
    pub fn update<T>(
        team: &TeamPaths,
        f: impl FnOnce(&mut Open<TeamFile>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let path = team.team_file();
        if Self::load(team)?.is_none() {
            return Err(StoreError::NotFound { path }); // and no lock file is made
        }
        lock::with_lock(&team.team_lock(), LOCK_DEADLINE, || {
            let mut file = Self::load(team)?.ok_or_else(|| StoreError::NotFound { path: path.clone() })?;
            let done = f(&mut file)?;
            atomic::write_json(&path, &file, Durability::Process)?;
            Ok(done)
        })
    }

    /// The names of all teams, sorted: of a place where something happened, also when its file is gone. One
    /// that is being made has neither file nor log.
    pub fn list(paths: &Paths) -> Result<Vec<TeamName>, StoreError> {
        let is_team = |name: &TeamName| {
            let team = paths.team(name);
            let is_there = |path: &Path| path.symlink_metadata().is_ok();
            is_there(&team.team_file()) || team.dir().is_symlink() || is_there(&team.events())
        };
        Ok(Self::places(paths)?.into_iter().filter(is_team).collect())
    }

    /// All names that something stands under where teams are, sorted, whatever that is.
    pub fn places(paths: &Paths) -> Result<Vec<TeamName>, StoreError> {
        let dir = paths.teams();
        paths.check_dirs(&dir)?;
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(StoreError::io("list", &dir, e)),
        };
        let mut names: Vec<TeamName> =
            entries.flatten().filter_map(|entry| TeamName::new(entry.file_name().to_str()?).ok()).collect();
        names.sort();
        Ok(names)
    }

    /// Removes a team with all its files; links in it are removed, not followed. A team that is not
    /// there is fine. The caller has made sure that nobody works in it.
    pub fn remove_team(team: &TeamPaths) -> Result<(), StoreError> {
        team.check(&team.dir())?;
        let teams = team.paths().teams();
        let grave = teams.join(format!("{REMOVED_PREFIX}{}", Uuid::new_v4().simple()));
        match std::fs::rename(team.dir(), &grave) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(StoreError::io("remove", &team.dir(), e)),
        }
        remove_tree(&grave)?;
        for entry in std::fs::read_dir(&teams).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(REMOVED_PREFIX) {
                drop(remove_tree(&entry.path())); // left by a killed process; the next removal tries again
            }
        }
        Ok(())
    }
}

fn remove_tree(dir: &Path) -> Result<(), StoreError> {
    match std::fs::remove_dir_all(dir) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) => Err(StoreError::io("remove", dir, e)),
    }
}
