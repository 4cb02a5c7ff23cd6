//! `festoon inbox verify` and `repair`.

use super::Opened;
use crate::cli::args::Shared;
use crate::cli::error::CliError;
use crate::cli::out::{Out, warning};
use crate::cli::words;
use crate::store::error::StoreError;
use crate::store::inbox::{Inbox, InboxNotice};
use crate::wire::error::ExitKind;
use serde_json::json;

/// Looks for what should not be.
pub(super) fn verify(opened: &Opened, shared: &Shared) -> Result<Option<ExitKind>, CliError> {
    let found = each(opened, shared, "problems", "in order", Inbox::verify)?;
    if found > 0 && !shared.json {
        warning(format!("`festoon inbox repair {}` puts in order what can be", opened.view.name()));
    }
    Ok((found > 0).then_some(ExitKind::Failed))
}

/// Puts in order.
pub(super) fn repair(opened: &Opened, shared: &Shared) -> Result<Option<ExitKind>, CliError> {
    let mut failed = false;
    each(opened, shared, "repaired", "in order", |inbox| match inbox.repair() {
        Ok(notices) => Ok(notices.iter().map(InboxNotice::sentence).collect()),
        Err(error) => {
            failed = true;
            Err(error)
        }
    })?;
    Ok(failed.then_some(ExitKind::Failed))
}

/// Does something to each inbox that gives sentences, and prints them; how many there were, errors
/// included.
fn each(
    opened: &Opened,
    shared: &Shared,
    called: &str,
    nothing: &str,
    mut what: impl FnMut(&Inbox) -> Result<Vec<String>, StoreError>,
) -> Result<usize, CliError> {
    let mut out = Out::default();
    let (mut rows, mut found) = (Vec::new(), 0);
    for inbox in &opened.inboxes {
        let (sentences, error) = match what(inbox) {
            Ok(sentences) => (sentences, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        found += sentences.len() + usize::from(error.is_some());
        if shared.json {
            rows.push(json!({ "team": opened.view.name(), "agent": inbox.agent(),
                "file": inbox.path().display().to_string(), called: sentences, "error": error }));
            continue;
        }
        if sentences.is_empty() && error.is_none() {
            out.line(format!("{}: {nothing}", inbox.agent()))?;
        }
        for sentence in sentences.iter().chain(&error) {
            out.line(format!("{}: {}", inbox.agent(), words::line(sentence)))?;
        }
    }
    if shared.json {
        out.json(&rows)?;
    }
    Ok(found)
}
