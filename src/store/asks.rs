//! Asks and their decisions: `asks/<id>.json` and `<id>.decision.json`.
//!
//! Owns these files. Promises that an ask is made once, that the first decision with a good
//! signature counts, that it is on disk before anybody acts on it, and that a decision nobody of us
//! signed decides nothing. Never sends anything.

use super::atomic;
use super::clock;
use super::error::StoreError;
use super::paths::TeamPaths;
use super::sign::Keys;
use crate::wire::ask::{Ask, AskStatus, Closed, DecisionRecord};
use crate::wire::ids::AskId;
use crate::wire::open::Open;
use crate::wire::settings::Durability;
use serde_json::Value;
use std::io::ErrorKind;

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

/// All asks with where they stand, oldest first. Files that are no asks are left out, and a decision
/// that nobody of us signed is none.
pub fn list(team: &TeamPaths) -> Result<Vec<(Ask, AskStatus, Option<DecisionRecord>)>, StoreError> {
    let dir = team.asks_dir();
    team.check(&dir)?;
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StoreError::io("list", &dir, e)),
    };
    let mut asks = Vec::new();
    let mut keys = None;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.ends_with(".json") || name.ends_with(".decision.json") || name.starts_with('.') {
            continue;
        }
        let Ok(Some(ask)) = atomic::read_json::<Open<Ask>>(&entry.path()) else { continue };
        let decision = match team.decision(&ask.id).symlink_metadata() {
            Err(_) => None,
            Ok(_) => {
                // Read once, and only when there is something to check.
                let keys = keys.get_or_insert_with(|| Keys::load(team).ok());
                keys.as_ref().and_then(|keys| decision(team, keys, &ask.id).ok()?)
            }
        };
        let status = match (&decision, &ask.closed) {
            (Some(_), _) => AskStatus::Decided,
            (None, Some(_)) => AskStatus::Closed,
            (None, None) => AskStatus::Open,
        };
        asks.push((ask.known, status, decision));
    }
    asks.sort_by(|(a, ..), (b, ..)| (&a.created_at, &a.id).cmp(&(&b.created_at, &b.id)));
    Ok(asks)
}

/// Says in the ask's file that nobody waits any more. Only the asking process calls it.
pub fn close(team: &TeamPaths, id: &AskId, reason: &str) -> Result<(), StoreError> {
    let path = team.ask(id);
    let mut ask = load(team, id)?.ok_or_else(|| StoreError::NotFound { path: path.clone() })?;
    if ask.closed.is_some() {
        return Ok(());
    }
    ask.closed = Some(Closed { at: clock::now(), reason: reason.to_owned() });
    atomic::write_json(&path, &ask, Durability::Process)
}

/// Signs a decision and puts it on disk. `false` when the ask is decided already; an error when
/// there is no such ask ([`StoreError::NotFound`]) or nobody waits ([`StoreError::Closed`]). A file
/// in its place that nobody of us signed is moved aside.
pub fn decide(team: &TeamPaths, keys: &Keys, mut record: DecisionRecord) -> Result<bool, StoreError> {
    team.check(&team.asks_dir())?;
    let ask =
        load(team, &record.ask_id)?.ok_or_else(|| StoreError::NotFound { path: team.ask(&record.ask_id) })?;
    if let Some(closed) = &ask.closed {
        return Err(StoreError::Closed { ask: record.ask_id, reason: closed.reason.clone() });
    }
    keys.sign_decision(&mut record)?;
    let path = team.decision(&record.ask_id);
    let bytes = atomic::pretty(&path, &record)?;
    loop {
        if atomic::create_exclusive(&path, &bytes, Durability::Process)? {
            return Ok(true);
        }
        match decision(team, keys, &record.ask_id) {
            Ok(Some(_)) => return Ok(false),
            Ok(None) => {}
            Err(StoreError::Invalid { .. } | StoreError::Corrupt { .. }) => {
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
