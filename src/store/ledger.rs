//! `ledger.json`: limits and budgets of the whole tree, shared by all its processes (spec §17).
//!
//! Owns the file and its lock. Promises that places and counts are taken under the lock, so that two
//! processes never both get the last one; that the places of a dead process are free again when
//! somebody needs them; and that an operation costs the same however much was ever used. A damaged file
//! is an error and never an empty one: a budget that starts anew by itself is none. Never waits for the
//! lock: `None` means that it is held, come again.

use super::atomic;
use super::error::StoreError;
use super::lock::{self, Missing, Patience};
use super::paths::TeamPaths;
use crate::wire::ledger::{Bounds, Holder, LEDGER_VERSION, LedgerFile};
use crate::wire::open::Open;
use crate::wire::run::ProcessId;
use crate::wire::settings::Durability;
use std::path::{Path, PathBuf};

/// The ledger of a team, as one of its processes uses it.
#[derive(Clone)]
pub struct Ledger {
    team: TeamPaths,
    me: ProcessId,
    is_alive: fn(&ProcessId) -> bool,
}

/// The answer to a request for one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granted {
    /// It is counted.
    Yes,
    /// There are so many already, and no more are allowed.
    No {
        /// How many there are.
        taken: usize,
        /// How many there may be.
        limit: usize,
    },
}

impl Ledger {
    /// The ledger of `team`, for the process `me`; `is_alive` says whether another one still runs.
    pub fn new(team: &TeamPaths, me: ProcessId, is_alive: fn(&ProcessId) -> bool) -> Self {
        Self { team: team.clone(), me, is_alive }
    }

    /// The file.
    pub fn file(&self) -> PathBuf {
        self.team.ledger()
    }

    fn lock(&self) -> PathBuf {
        self.team.ledger_lock()
    }

    /// What it says. No lock: the file is replaced whole.
    pub fn read(&self) -> Result<LedgerFile, StoreError> {
        let found: Option<Open<LedgerFile>> = atomic::read_json(&self.file())?;
        let found = found.ok_or_else(|| StoreError::NotFound { path: self.file() })?;
        check(&self.file(), &found)?;
        Ok(found.known)
    }

    /// Sets the bounds, for the leader that begins. A file that is missing is made from `earlier`, which is
    /// what the session's earlier runs left, or from nothing; says whether it was made from nothing.
    pub fn begin(&self, bounds: Bounds, earlier: Option<LedgerFile>) -> Result<Option<bool>, StoreError> {
        lock::with_locked_file(&self.lock(), Missing::Make, Patience::Once, |_| {
            let found: Option<Open<LedgerFile>> = atomic::read_json(&self.file())?;
            let is_new = found.is_none() && earlier.is_none();
            let earlier = || earlier.unwrap_or_else(|| LedgerFile::new(bounds.clone()));
            let mut file = found.unwrap_or_else(|| Open::new(earlier()));
            check(&self.file(), &file)?;
            file.limits = bounds;
            file.holders.retain(|holder| (self.is_alive)(&holder.process));
            self.write(&file)?;
            Ok(is_new)
        })
    }

    /// Changes the file under its lock.
    pub fn update<T>(&self, change: impl FnOnce(&mut LedgerFile) -> T) -> Result<Option<T>, StoreError> {
        lock::with_locked_file(&self.lock(), Missing::Make, Patience::Once, |_| {
            let found: Option<Open<LedgerFile>> = atomic::read_json(&self.file())?;
            let mut file = found.ok_or_else(|| StoreError::NotFound { path: self.file() })?;
            check(&self.file(), &file)?;
            let before = file.known.clone();
            let done = change(&mut file.known);
            if file.known != before {
                self.write(&file)?;
            }
            Ok(done)
        })
    }

    /// Counts one more agent that is started.
    pub fn start(&self) -> Result<Option<Granted>, StoreError> {
        self.update(|file| {
            let limit = file.limits.max_agents_total;
            if file.started >= limit {
                return Granted::No { taken: file.started, limit };
            }
            file.started += 1;
            Granted::Yes
        })
    }

    /// Takes back the count of an agent that did not come to be.
    pub fn undo_start(&self) -> Result<Option<()>, StoreError> {
        self.update(|file| file.started = file.started.saturating_sub(1))
    }

    /// Says how many agents run in this process; more than before only while there are places.
    pub fn run(&self, running: usize) -> Result<Option<Granted>, StoreError> {
        self.update(|file| {
            let mine = |holder: &&Holder| holder.process == self.me;
            let before = file.holders.iter().find(mine).map_or(0, |holder| holder.running);
            let limit = file.limits.max_agents;
            let others = |file: &LedgerFile| {
                let others = file.holders.iter().filter(|holder| holder.process != self.me);
                others.map(|holder| holder.running).sum::<usize>()
            };
            if running > before && others(file) + running > limit {
                file.holders.retain(|holder| holder.process == self.me || (self.is_alive)(&holder.process));
                let taken = others(file) + before;
                if taken + (running - before) > limit {
                    return Granted::No { taken, limit };
                }
            }
            file.holders.retain(|holder| holder.process != self.me);
            if running > 0 {
                file.holders.push(Holder { process: self.me.clone(), running });
            }
            Granted::Yes
        })
    }

    fn write(&self, file: &Open<LedgerFile>) -> Result<(), StoreError> {
        let (path, temp) = (self.file(), self.team.dir().join(".ledger.tmp"));
        let bytes = atomic::pretty(&path, file)?;
        let written = atomic::replace_locked(&path, &temp, &bytes, Durability::Process);
        // Its temporary file is nobody's business.
        written.map(drop).map_err(|error| match error {
            StoreError::Io { source, .. } => StoreError::io("write", &path, source),
            other => other,
        })
    }
}

/// A ledger that was kept after its team was gone; `None` when none was.
pub fn kept(path: &Path) -> Result<Option<LedgerFile>, StoreError> {
    let Some(file) = atomic::read_json(path)? else { return Ok(None) };
    check(path, &file)?;
    Ok(Some(file))
}

/// Keeps a ledger beside its session's transcripts, for a later run that makes a new team.
pub fn keep(path: &Path, file: &LedgerFile) -> Result<(), StoreError> {
    let kept = LedgerFile { holders: Vec::new(), ..file.clone() };
    atomic::write_json(path, &kept, Durability::Process)
}

fn check(path: &Path, file: &LedgerFile) -> Result<(), StoreError> {
    if file.version == LEDGER_VERSION {
        return Ok(());
    }
    let why = format!("it has version {}, and this program knows {LEDGER_VERSION}", file.version);
    Err(StoreError::invalid(path, why))
}

#[cfg(test)]
mod tests;
