//! `festoon inbox watch`: messages as they arrive.
//!
//! Told by the file system, and by a look from time to time where that says nothing. A message is
//! shown once; one that was read and archived between two looks is found in the archive.

use super::show::message;
use super::{Opened, inboxes};
use crate::cli::args::Shared;
use crate::cli::error::CliError;
use crate::cli::out::{Out, warning};
use crate::cli::signals;
use crate::store::error::StoreError;
use crate::store::inbox::{Inbox, owners};
use crate::store::watch::{Watcher, is_network_fs};
use crate::wire::error::ExitKind;
use crate::wire::ids::AgentName;
use crate::wire::limits::{POLL_NET, POLL_NET_NETWORK};
use crate::wire::mail::Entry;
use anstyle::Style;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use tokio::sync::mpsc;

/// Runs until it is interrupted, the team is removed, or nobody reads.
pub(super) async fn watch(opened: &Opened, shared: &Shared) -> Result<Option<ExitKind>, CliError> {
    let paths = &opened.view.paths;
    let mut signals = signals::listen()?;
    let (told, mut changes) = mpsc::channel(1);
    // A full channel already says what one more word would.
    let tell = move |_: &OsStr| _ = told.try_send(());
    let watching = Watcher::start().and_then(|watcher| Ok((watcher.watch(&paths.inboxes(), tell)?, watcher)));
    let net = match &watching {
        Ok(_) if !is_network_fs(&paths.dir()) => POLL_NET,
        Ok(_) | Err(_) => POLL_NET_NETWORK,
    };
    let mut screen = Screen { out: Out::default(), json: shared.json, shown: BTreeMap::new() };
    loop {
        let mut looked = opened.inboxes.clone();
        if opened.everybody {
            let known: Vec<AgentName> = looked.iter().map(|inbox| inbox.agent().clone()).collect();
            let new = owners(paths)?.into_iter().filter(|name| !known.contains(name)).collect();
            looked.extend(inboxes(&opened.view, new)?);
        }
        for inbox in &looked {
            match screen.look(inbox) {
                Err(Trouble::Store(StoreError::NoSuchMember { .. })) if !paths.dir().exists() => {
                    return Ok(None);
                }
                // It may be in the middle of somebody's write; the next look tells.
                Err(Trouble::Store(error)) => warning(error),
                Err(Trouble::Print(error)) => return Err(error),
                Ok(()) => {}
            }
        }
        if screen.out.is_closed() || !paths.dir().exists() {
            return Ok(None);
        }
        tokio::select! {
            _ = signals.recv() => return Ok(None),
            Some(()) = changes.recv() => {}
            () = tokio::time::sleep(net) => {}
        }
    }
}

enum Trouble {
    Store(StoreError),
    Print(CliError),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
impl From<CliError> for Trouble {
    fn from(error: CliError) -> Self {
        Self::Print(error)
    }
}

/// What has been shown, by inbox: the last position.
struct Screen {
    out: Out,
    json: bool,
    shown: BTreeMap<AgentName, u64>,
}

impl Screen {
    fn look(&mut self, inbox: &Inbox) -> Result<(), Trouble> {
        let entries = inbox.messages()?;
        let Some(&last) = self.shown.get(inbox.agent()) else {
            // The first look shows what waits; what was read before is history.
            let newest = entries.iter().map(|entry| entry.seq).max().unwrap_or(inbox.counts()?.last_seq);
            for entry in entries.iter().filter(|entry| !entry.read && entry.seq > 0) {
                self.print(inbox, entry)?;
            }
            self.shown.insert(inbox.agent().clone(), newest);
            return Ok(());
        };
        let newest = entries.iter().map(|entry| entry.seq).max().unwrap_or(last);
        let first = entries.iter().map(|entry| entry.seq).filter(|seq| *seq > last).min();
        let missed = first.is_some_and(|first| first > last + 1);
        if missed {
            let gap = inbox.archive()?.filter(|e| e.seq > last && Some(e.seq) < first);
            for entry in gap {
                self.print(inbox, &entry)?;
            }
        }
        // One without a position was written by another program; its reader gives it one.
        for entry in entries.iter().filter(|entry| entry.seq > last) {
            self.print(inbox, entry)?;
        }
        self.shown.insert(inbox.agent().clone(), newest.max(last));
        Ok(())
    }

    fn print(&mut self, inbox: &Inbox, entry: &Entry) -> Result<(), CliError> {
        if self.json {
            return self.out.json(entry);
        }
        let bold = Style::new().bold();
        for (n, line) in message(entry).into_iter().enumerate() {
            let to = if n == 0 { format!("{bold}→ {}{bold:#} ", inbox.agent()) } else { String::new() };
            self.out.line(format!("{to}{line}"))?;
        }
        Ok(())
    }
}
