//! A look at an inbox for everything that should not be.
//!
//! Owns what `festoon inbox verify` says. Reads without a lock and changes nothing.

use super::super::error::StoreError;
use super::super::jsonl::Lines;
use super::super::own;
use super::super::{atomic, run};
use super::Inbox;
use super::claim::origin;
use super::entries;
use crate::wire::ids::MessageId;
use crate::wire::mail::{Entry, Origin};
use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;

pub(super) fn verify(inbox: &Inbox) -> Result<Vec<String>, StoreError> {
    let mut wrong = Vec::new();
    let waiting = check_file(inbox, &mut wrong)?;
    check_archive(inbox, &waiting, &mut wrong)?;
    check_surroundings(inbox, &mut wrong)?;
    Ok(wrong)
}

/// Checks the inbox file and gives the ids of what waits in it.
fn check_file(inbox: &Inbox, wrong: &mut Vec<String>) -> Result<HashSet<MessageId>, StoreError> {
    let Some(bytes) = atomic::read_optional(&inbox.0.file)? else { return Err(inbox.no_such_member()) };
    let items = match entries::parse(&bytes) {
        Ok(items) => items,
        Err(why) => {
            wrong.push(format!("it is not a JSON array: {why}"));
            return Ok(HashSet::new());
        }
    };
    if bytes != entries::render(items.iter().map(|item| item.line.as_str())) {
        wrong.push("another program wrote it last: it is not in our layout".to_owned());
    }
    let (mut ids, mut waiting, mut last) = (HashSet::new(), HashSet::new(), 0);
    for (i, item) in items.iter().enumerate() {
        let place = format!("entry {}", i + 1);
        let message = match &item.message {
            Ok(message) => message,
            Err(why) => {
                wrong.push(format!("{place} is no message: {why}"));
                continue;
            }
        };
        match &message.id {
            None => wrong.push(format!("{place} has no id yet")),
            Some(id) if !ids.insert(id.clone()) => wrong.push(format!("{place} has the id {id} of another")),
            Some(id) if !message.read => drop(waiting.insert(id.clone())),
            Some(_) => {}
        }
        match item.seq() {
            0 => wrong.push(format!("{place} has no position yet")),
            seq if seq <= last => wrong.push(format!("{place} has position {seq} after {last}")),
            seq => last = seq,
        }
        if origin(inbox, message) == Origin::Outside {
            wrong.push(format!("{place} is from outside: it carries no good signature"));
        }
    }
    Ok(waiting)
}

fn check_archive(
    inbox: &Inbox,
    waiting: &HashSet<MessageId>,
    wrong: &mut Vec<String>,
) -> Result<(), StoreError> {
    let mut ids = HashSet::new();
    for line in Lines::open(&inbox.0.archive)?.into_iter().flatten() {
        let line = line?;
        let place = format!("archive line {}", line.number);
        let entry: Entry = match serde_json::from_slice(&line.bytes) {
            Ok(entry) => entry,
            Err(e) => {
                wrong.push(format!("{place} is no message: {e}"));
                continue;
            }
        };
        let Some(id) = &entry.id else { continue };
        if waiting.contains(id) {
            wrong.push(format!("{place} is a message that still waits ({id})"));
        }
        if !ids.insert(id.clone()) {
            wrong.push(format!("{place} has the id {id} of another"));
        }
    }
    Ok(())
}

fn check_surroundings(inbox: &Inbox, wrong: &mut Vec<String>) -> Result<(), StoreError> {
    if std::fs::symlink_metadata(&inbox.0.lock).is_err() {
        wrong.push("its lock file is missing".to_owned());
    }
    for path in [&inbox.0.file, &inbox.0.lock, &inbox.0.archive] {
        let mode = std::fs::symlink_metadata(path).map_or(own::FILE_MODE, |found| found.permissions().mode());
        if mode & 0o077 != 0 {
            wrong.push(format!("{} is open to other users (mode {:o})", path.display(), mode & 0o777));
        }
    }
    let begin = format!("{}.", inbox.0.agent);
    let entries = std::fs::read_dir(&inbox.0.dir).map_err(|e| StoreError::io("list", &inbox.0.dir, e))?;
    let mut aside: Vec<String> = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| {
            let kind = name.strip_prefix(&begin).unwrap_or_default();
            kind.starts_with("corrupt-") || kind.starts_with("malformed-")
        })
        .collect();
    aside.sort();
    wrong.extend(aside.into_iter().map(|name| format!("{name} was set aside")));
    if let Err(e) = run::load(&inbox.0.team, &inbox.0.agent) {
        wrong.push(e.to_string());
    }
    Ok(())
}
