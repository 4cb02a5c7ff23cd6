//! `festoon team list` and `show`.

use crate::cli::args::Shared;
use crate::cli::commands::ps::{agents, heading, state_style};
use crate::cli::error::CliError;
use crate::cli::out::Out;
use crate::cli::table::{self, Cell, Column, Table};
use crate::cli::teams::children::{Places, Wanted};
use crate::cli::teams::{self, Desk, TeamView};
use crate::cli::words;
use crate::store::inbox::{Inbox, owners};
use crate::store::sign::Keys;
use crate::store::{asks, tasks};
use crate::wire::ask::AskStatus;
use crate::wire::error::ExitKind;
use crate::wire::settings::Durability;
use crate::wire::task::TaskStatus;
use serde_json::{Value, json};

/// A team in contract §15's shape.
fn summary(team: &TeamView) -> Value {
    let leader = team.leader();
    let session = team.roster.as_ref().map(|roster| roster.lead_session_id.clone());
    json!({
        "name": team.name(),
        "displayName": team.display(),
        "state": team.state(),
        "leader": { "agentId": leader.agent_id, "state": leader.state, "pid": leader.pid, "sessionId": session },
        "members": team.members().iter().map(|row| &row.name).collect::<Vec<_>>(),
    })
}

/// Lists all teams.
pub fn list(desk: &Desk, shared: &Shared) -> Result<Option<ExitKind>, CliError> {
    let all = teams::all(&desk.paths)?;
    let mut out = Out::default();
    let troubles = all.iter().filter(|team| team.warn()).count();
    let exit = (troubles > 0).then_some(ExitKind::Failed);
    if shared.json {
        out.json(&all.iter().map(summary).collect::<Vec<_>>())?;
        return Ok(exit);
    }
    if all.is_empty() {
        out.line("there is no team; `festoon demo` shows one at work")?;
        return Ok(exit);
    }
    let mut table = Table::new(&[
        Column::Cut("TEAM", 12),
        Column::Cut("CALLED", 8),
        Column::Fixed("STATE"),
        Column::Right("AGE"),
        Column::Fixed("LEADER"),
        Column::Cut("MEMBERS", 12),
    ]);
    for team in &all {
        let called = if team.display() == team.name().as_str() { "" } else { team.display() };
        let members: Vec<&str> = team.members().iter().map(|row| row.display.as_str()).collect();
        let leader = team.leader();
        table.row([
            Cell::from(team.name().as_str()),
            Cell::from(called),
            Cell::styled(team.state(), state_style(team.state())),
            Cell::from(team.roster.as_ref().map(|r| words::age(&r.created_at)).unwrap_or_default()),
            Cell::from(leader.pid.map_or("gone".to_owned(), |pid| format!("pid {pid}"))),
            Cell::from(members.join(", ")),
        ]);
    }
    for line in table.render(table::columns()) {
        out.line(line)?;
    }
    Ok(exit)
}

/// Unread messages of each inbox; one that cannot be read has no number.
fn waiting(team: &TeamView) -> Vec<(String, Option<usize>)> {
    let Ok(keys) = Keys::load(&team.paths) else { return Vec::new() };
    let all = owners(&team.paths).unwrap_or_default().into_iter();
    all.map(|name| {
        let inbox = Inbox::new(&team.paths, &name, &keys, Durability::Process);
        (name.to_string(), inbox.counts().ok().map(|counts| counts.waiting))
    })
    .collect()
}

/// The ids of the open asks.
fn open_asks(team: &TeamView) -> Result<Vec<String>, CliError> {
    let all = asks::list(&team.paths)?.into_iter();
    Ok(all.filter(|(_, status, _)| *status == AskStatus::Open).map(|(ask, ..)| ask.id.to_string()).collect())
}

/// Inboxes with unread mail, and how much.
fn unread(waiting: &[(String, Option<usize>)]) -> Vec<String> {
    waiting
        .iter()
        .filter(|(_, count)| *count != Some(0))
        .map(|(name, count)| format!("{name} {}", count.map_or("?".to_owned(), |n| n.to_string())))
        .collect()
}

/// What would be lost with a team in which nothing lives: open asks, unread mail, tasks that are not done.
pub fn held(team: &TeamView) -> Result<Vec<String>, CliError> {
    let (all, _) = tasks::list(&team.paths)?;
    let open = all.iter().filter(|task| task.status != TaskStatus::Completed).map(|task| task.id.to_string());
    let parts = [
        ("open asks", open_asks(team)?),
        ("unread mail", unread(&waiting(team))),
        ("tasks that are not done", open.collect()),
    ];
    let parts = parts.into_iter().filter(|(_, found)| !found.is_empty());
    Ok(parts.map(|(what, found)| format!("{what}: {}", found.join(", "))).collect())
}

/// Shows one team.
pub fn show(desk: &Desk, shared: &Shared, wanted: Option<&str>) -> Result<Option<ExitKind>, CliError> {
    let team = teams::choose(&desk.paths, wanted)?;
    let exit = team.warn().then_some(ExitKind::Failed);
    let children = Places::find(&desk.paths, std::slice::from_ref(&team))?.children(&team, Wanted::AtWork);
    let open = open_asks(&team)?;
    let waiting = waiting(&team);
    let mut out = Out::default();
    if shared.json {
        let mut value = summary(&team);
        value["description"] = team.roster.as_ref().map(|r| r.description.clone()).into();
        value["createdAt"] = team.roster.as_ref().map(|r| r.created_at.as_str()).into();
        value["directory"] = team.paths.dir().display().to_string().into();
        value["agents"] = team.rows.iter().chain(children.iter().map(|c| &c.row)).map(|r| json!(r)).collect();
        value["waiting"] = waiting.into_iter().collect();
        value["openAsks"] = open.into();
        out.json(&value)?;
        return Ok(exit);
    }
    out.line(heading(&team))?;
    if let Some(roster) = &team.roster {
        if !roster.description.is_empty() {
            out.line(format!("  {}", words::line(&roster.description)))?;
        }
        let session = words::line(roster.lead_session_id.as_str());
        out.line(format!("  session {session}, made {}", words::local(&roster.created_at, "%F %R")))?;
    }
    out.line(format!("  {}", words::line(&team.paths.dir().display().to_string())))?;
    for line in agents(&team.rows, &children).render(table::columns()) {
        out.line(line)?;
    }
    let unread = unread(&waiting);
    if !unread.is_empty() {
        out.line(format!("  unread mail: {}", unread.join(", ")))?;
    }
    if !open.is_empty() {
        out.line(format!("  open asks: {} (`festoon ask list`)", open.join(", ")))?;
    }
    Ok(exit)
}
