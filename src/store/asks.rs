//! Asks and their decisions: `asks/<id>.json` and `<id>.decision.json`.
//!
//! Owns these files. Promises that an ask is made once, that the first decision with a good
//! signature counts, that it is on disk before anybody acts on it, that a decision nobody of us signed
//! decides nothing, and that an ask is decided or closed, never both; one that was closed because its
//! process died can be opened again. Never sends anything.

use super::atomic;
use super::clock;
use super::error::StoreError;
use super::lock;
use super::paths::TeamPaths;
use super::seen::Seen;
use super::sign::Keys;
use crate::wire::ask::{Ask, AskStatus, Closed, DecisionRecord};
use crate::wire::ids::AskId;
use crate::wire::limits::LOCK_DEADLINE;
use crate::wire::open::Open;
use crate::wire::settings::Durability;
use serde_json::Value;
use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Puts an ask on disk; `false` when one with that id is there already, which then stays.
pub fn create(team: &TeamPaths, ask: &Ask) -> Result<bool, StoreError> {
    team.check(&team.asks_dir())?;
    let path = team.ask(&ask.id);
    atomic::create_exclusive(&path, &atomic::pretty(&path, ask)?, Durability::Process)
}

/// Reads an ask; `None` when there is none.
pub fn load(team: &TeamPaths, id: &AskId) -> Result<Option<Open<Ask>>, StoreError> {
    atomic::read_json(&team.ask(id))
}

/// An ask, where it stands, and its decision.
pub type Standing = (Ask, AskStatus, Option<DecisionRecord>);

/// All asks with where they stand, oldest first. Files that are no asks are left out, and a decision
/// that nobody of us signed is none.
pub fn list(team: &TeamPaths) -> Result<Vec<Standing>, StoreError> {
    let mut keys = LazyKeys::default();
    let mut asks: Vec<Standing> =
        files(team)?.iter().filter_map(|name| stands(team, &mut keys, &team.asks_dir().join(name))).collect();
    asks.sort_by(|(a, ..), (b, ..)| (&a.created_at, &a.id).cmp(&(&b.created_at, &b.id)));
    Ok(asks)
}

/// One ask with where it stands; `None` when there is none.
pub fn find(team: &TeamPaths, id: &AskId) -> Result<Option<Standing>, StoreError> {
    team.check(&team.asks_dir())?;
    Ok(stands(team, &mut LazyKeys::default(), &team.ask(id)).filter(|(ask, ..)| ask.id == *id))
}

/// The open asks of one team, for who looks often: what is decided stays so and is read once, what is closed
/// is read again when its file has changed.
#[derive(Debug, Default)]
pub struct OpenAsks {
    over: Mutex<Over>,
}

#[derive(Debug, Default)]
struct Over {
    decided: HashSet<String>,
    closed: Seen<()>,
}

impl OpenAsks {
    /// The asks that are open now, oldest first. Files that are no asks are left out.
    pub fn look(&self, team: &TeamPaths) -> Result<Vec<Ask>, StoreError> {
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let mut keys = LazyKeys::default();
        let mut open = Vec::new();
        for name in files(team)? {
            if over.decided.contains(&name) {
                continue;
            }
            let path = team.asks_dir().join(&name);
            let mut found = None;
            let closed = over.closed.read(&path, || {
                found = stands(team, &mut keys, &path);
                found.as_ref().filter(|(_, status, _)| *status == AskStatus::Closed).map(|_| ()).ok_or(())
            });
            match found.filter(|_| closed.is_err()) {
                Some((ask, AskStatus::Open, _)) => open.push(ask),
                Some((_, AskStatus::Decided, _)) => drop(over.decided.insert(name)),
                Some((_, AskStatus::Closed, _)) | None => {}
            }
        }
        open.sort_by(|a, b| (&a.created_at, &a.id).cmp(&(&b.created_at, &b.id)));
        Ok(open)
    }
}

/// The team's keys, read once and only when there is a decision to check.
#[derive(Default)]
struct LazyKeys(Option<Option<Keys>>);

impl LazyKeys {
    fn get(&mut self, team: &TeamPaths) -> Option<&Keys> {
        self.0.get_or_insert_with(|| Keys::load(team).ok()).as_ref()
    }
}

/// The names of the files that should be asks.
fn files(team: &TeamPaths) -> Result<Vec<String>, StoreError> {
    let dir = team.asks_dir();
    team.check(&dir)?;
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StoreError::io("list", &dir, e)),
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let is_ask = |name: &String| {
        name.ends_with(".json") && !name.ends_with(".decision.json") && !name.starts_with('.')
    };
    Ok(names.filter(is_ask).collect())
}

fn stands(team: &TeamPaths, keys: &mut LazyKeys, path: &Path) -> Option<Standing> {
    let ask = atomic::read_json::<Open<Ask>>(path).ok()??;
    let decision = match team.decision(&ask.id).symlink_metadata() {
        Err(_) => None,
        Ok(_) => keys.get(team).and_then(|keys| decision(team, keys, &ask.id).ok()?),
    };
    let status = match (&decision, &ask.closed) {
        (Some(_), _) => AskStatus::Decided,
        (None, Some(_)) => AskStatus::Closed,
        (None, None) => AskStatus::Open,
    };
    Some((ask.known, status, decision))
}

/// Says in the ask's file that nobody waits any more; one that is decided stays as it is. Only the
/// asking process calls it, or who takes its place.
pub fn close(team: &TeamPaths, id: &AskId, reason: &str) -> Result<(), StoreError> {
    outcome(team, || {
        let path = team.ask(id);
        let mut ask = load(team, id)?.ok_or_else(|| StoreError::NotFound { path: path.clone() })?;
        if ask.closed.is_some() {
            return Ok(());
        }
        let is_decided = team.decision(id).symlink_metadata().is_ok()
            && Keys::load(team).is_ok_and(|keys| matches!(decision(team, &keys, id), Ok(Some(_))));
        if is_decided {
            return Ok(());
        }
        ask.closed = Some(Closed { at: clock::now(), reason: reason.to_owned() });
        atomic::write_json(&path, &ask, Durability::Process)
    })
}

/// Opens an ask again that was closed without an answer; one that is decided or open stays as it is. Only
/// who asks for the same call again calls it.
pub fn reopen(team: &TeamPaths, id: &AskId) -> Result<(), StoreError> {
    change(team, id, |ask| ask.closed.take().is_some())
}

/// Says in the ask's file that its call may begin. On disk before it does.
pub fn begin(team: &TeamPaths, id: &AskId) -> Result<(), StoreError> {
    change(team, id, |ask| ask.begun.replace(clock::now()).is_none())
}

/// Changes the file of an ask, when `how` says that it did.
fn change(team: &TeamPaths, id: &AskId, how: impl FnOnce(&mut Ask) -> bool) -> Result<(), StoreError> {
    outcome(team, || {
        let path = team.ask(id);
        let mut ask = load(team, id)?.ok_or_else(|| StoreError::NotFound { path: path.clone() })?;
        if how(&mut ask.known) { atomic::write_json(&path, &ask, Durability::Process) } else { Ok(()) }
    })
}

/// Signs a decision and puts it on disk. `false` when the ask is decided already; an error when
/// there is no such ask ([`StoreError::NotFound`]) or nobody waits ([`StoreError::Closed`]). A file
/// in its place that nobody of us signed is moved aside.
pub fn decide(team: &TeamPaths, keys: &Keys, mut record: DecisionRecord) -> Result<bool, StoreError> {
    team.check(&team.asks_dir())?;
    if load(team, &record.ask_id)?.is_none() {
        return Err(StoreError::NotFound { path: team.ask(&record.ask_id) }); // and no lock file is made
    }
    keys.sign_decision(&mut record)?;
    outcome(team, || decide_locked(team, keys, &record))
}

/// Runs what settles an ask, one at a time: an answer that counts reaches somebody who still waits.
fn outcome<T>(team: &TeamPaths, settle: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    lock::with_lock(&team.asks_lock(), LOCK_DEADLINE, settle)
}

fn decide_locked(team: &TeamPaths, keys: &Keys, record: &DecisionRecord) -> Result<bool, StoreError> {
    let ask =
        load(team, &record.ask_id)?.ok_or_else(|| StoreError::NotFound { path: team.ask(&record.ask_id) })?;
    if let Some(closed) = &ask.closed {
        return Err(StoreError::Closed { ask: record.ask_id.clone(), reason: closed.reason.clone() });
    }
    let path = team.decision(&record.ask_id);
    let bytes = atomic::pretty(&path, record)?;
    loop {
        if atomic::create_exclusive(&path, &bytes, Durability::Process)? {
            return Ok(true);
        }
        match decision(team, keys, &record.ask_id) {
            Ok(Some(_)) => return Ok(false),
            Ok(None) => {}
            Err(StoreError::Invalid { .. } | StoreError::Corrupt { .. } | StoreError::NotOurs { .. }) => {
                let name = format!("{}.forged-{}", record.ask_id, clock::for_file_name());
                let aside = path.with_file_name(name);
                std::fs::rename(&path, aside).map_err(|e| StoreError::io("move aside", &path, e))?;
            }
            Err(e) => return Err(e),
        }
    }
}

/// The decision of an ask; `None` while there is none, [`StoreError::Invalid`] for one that is not
/// signed by us or is about another ask.
pub fn decision(team: &TeamPaths, keys: &Keys, id: &AskId) -> Result<Option<DecisionRecord>, StoreError> {
    let path = team.decision(id);
    let Some(bytes) = atomic::read_optional(&path)? else { return Ok(None) };
    let corrupt = |e: serde_json::Error| StoreError::Corrupt { path: path.clone(), why: e.to_string() };
    let value: Value = serde_json::from_slice(&bytes).map_err(corrupt)?;
    if !keys.verify_object(&value) {
        return Err(StoreError::invalid(&path, "it carries no good signature"));
    }
    // From the bytes: the value would change the numbers of `updatedInput`.
    let record: DecisionRecord = serde_json::from_slice(&bytes).map_err(corrupt)?;
    if record.ask_id != *id {
        return Err(StoreError::invalid(&path, "it decides another ask"));
    }
    Ok(Some(record))
}
