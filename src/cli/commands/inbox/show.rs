//! `festoon inbox list` and `show`.

use super::{Opened, inboxes};
use crate::cli::args::Shared;
use crate::cli::error::CliError;
use crate::cli::out::{Out, warning};
use crate::cli::table::{self, Cell, Column, Table};
use crate::cli::teams::{self, Desk, Target, inbox_owner};
use crate::cli::{text, view, words};
use crate::store::error::StoreError;
use crate::store::inbox::{Inbox, owners};
use crate::wire::error::ExitKind;
use crate::wire::frame::FrameType;
use crate::wire::ids::{MessageId, TeamName};
use crate::wire::mail::{Entry, Message};
use anstyle::{AnsiColor, Style};
use serde::Serialize;
use std::collections::HashSet;

/// A line of the listing (contract §15).
#[derive(Debug, Serialize)]
struct Row {
    team: TeamName,
    agent: String,
    waiting: usize,
    delivered: usize,
    file: String,
}

fn row(team: &TeamName, inbox: &Inbox) -> Result<Row, StoreError> {
    let (mut waiting, mut delivered) = (0, HashSet::<MessageId>::new());
    let mut nameless = 0;
    for entry in inbox.messages()? {
        match (entry.read, entry.known.id) {
            (false, _) => waiting += 1,
            (true, Some(id)) => drop(delivered.insert(id)),
            (true, None) => nameless += 1,
        }
    }
    // A message that is in both places was on its way when a process died: it is one message.
    let archived = inbox.archive()?.filter(|entry| entry.unknown.get("undeliverable").is_none());
    delivered.extend(archived.filter_map(|entry| entry.known.id));
    Ok(Row {
        team: team.clone(),
        agent: inbox.agent().to_string(),
        waiting,
        delivered: delivered.len() + nameless,
        file: inbox.path().display().to_string(),
    })
}

/// Lists inboxes.
pub(super) fn list(desk: &Desk, shared: &Shared, which: Option<&str>) -> Result<Option<ExitKind>, CliError> {
    let target = Target::parse(which);
    let views = match &target.team {
        Some(team) => vec![teams::choose(&desk.paths, Some(team))?],
        None => teams::all(&desk.paths)?,
    };
    let (mut rows, mut exit) = (Vec::new(), None);
    let mut failed = |error: CliError| {
        warning(&error.report.message);
        exit = Some(ExitKind::Failed);
    };
    for view in &views {
        let names = match &target.agent {
            Some(agent) => vec![inbox_owner(view, agent)?],
            None => owners(&view.paths)?,
        };
        match inboxes(view, names) {
            Ok(inboxes) => {
                for inbox in &inboxes {
                    match row(view.name(), inbox) {
                        Ok(row) => rows.push(row),
                        Err(error) => failed(error.into()),
                    }
                }
            }
            Err(error) => failed(error),
        }
    }
    let mut out = Out::default();
    if shared.json {
        out.json(&rows)?;
        return Ok(exit);
    }
    if rows.is_empty() && exit.is_none() {
        out.line("there is no inbox; `festoon demo` shows a team at work")?;
        return Ok(exit);
    }
    let mut table = Table::new(&[
        Column::Cut("TEAM", 10),
        Column::Cut("AGENT", 10),
        Column::Right("WAITING"),
        Column::Right("DELIVERED"),
        Column::Cut("FILE", 16),
    ]);
    for row in &rows {
        let attention = Style::new().fg_color((row.waiting > 0).then_some(AnsiColor::Yellow.into()));
        table.row([
            Cell::from(row.team.as_str()),
            Cell::from(&row.agent),
            Cell::styled(row.waiting.to_string(), attention),
            Cell::from(row.delivered.to_string()),
            Cell::from(&row.file),
        ]);
    }
    for line in table.render(table::columns()) {
        out.line(line)?;
    }
    Ok(exit)
}

/// Shows messages.
pub(super) fn show(opened: &Opened, shared: &Shared, archive: bool) -> Result<Option<ExitKind>, CliError> {
    let mut out = Out::default();
    let mut exit = None;
    let mut all: Vec<Entry> = Vec::new();
    for inbox in &opened.inboxes {
        match entries(inbox, archive) {
            Ok(entries) if shared.json => all.extend(entries),
            Ok(entries) => {
                let unread = entries.iter().filter(|entry| !entry.read).count();
                let bold = Style::new().bold();
                let count = words::number(entries.len(), "message");
                out.line(format!("{bold}{}{bold:#}: {count}, {unread} unread", inbox.agent()))?;
                for entry in &entries {
                    for line in message(entry) {
                        out.line(line)?;
                    }
                }
            }
            Err(error) => {
                warning(&error);
                exit = Some(ExitKind::Failed);
            }
        }
        for wrong in inbox.verify().unwrap_or_default() {
            if wrong.contains(" is no message: ") {
                warning(format!("{}: {wrong}", inbox.path().display()));
                exit = Some(ExitKind::Failed);
            }
        }
    }
    if shared.json {
        out.json(&all)?;
    }
    Ok(exit)
}

fn entries(inbox: &Inbox, archive: bool) -> Result<Vec<Entry>, StoreError> {
    let mut entries: Vec<Entry> = if archive { inbox.archive()?.collect() } else { Vec::new() };
    let archived: HashSet<MessageId> = entries.iter().filter_map(|entry| entry.id.clone()).collect();
    let current = inbox.messages()?;
    entries.extend(current.into_iter().filter(|e| e.id.as_ref().is_none_or(|id| !archived.contains(id))));
    Ok(entries)
}

/// A message as lines: who, when and what kind, then the text.
pub(super) fn message(message: &Message) -> Vec<String> {
    let dim = Style::new().dimmed();
    let from = view::style_of(message.color.as_deref());
    let mark = if message.read { " " } else { "•" };
    // Plain text is the rule; anything else says what it is.
    let kind = match &message.kind {
        FrameType::PeerDm => String::new(),
        other => format!(" {}", words::line(other.as_str())),
    };
    let state = if message.read { "read" } else { "unread" };
    let time = words::local(&message.timestamp, "%F %T");
    let name = words::line(&message.from);
    let head = format!(
        "{mark} {dim}{:>4}{dim:#} {from}{name}{from:#} {dim}{time}{kind} {state}{dim:#}",
        message.seq
    );
    let body = text::clean(&message.text);
    let mut lines = vec![head];
    lines.extend(body.trim_end().lines().map(|line| format!("       {line}")));
    lines
}
