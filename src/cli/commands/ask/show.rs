//! `festoon ask list` and `show`.

use super::Found;
use crate::cli::args::Shared;
use crate::cli::commands::ps::state_style;
use crate::cli::error::CliError;
use crate::cli::out::Out;
use crate::cli::table::{self, Cell, Column, Table};
use crate::cli::{text, words};
use crate::wire::ask::{AskKind, AskStatus};
use crate::wire::error::ExitKind;
use crate::wire::ids::{AgentId, AskId, TeamName};
use crate::wire::time::Timestamp;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

/// A line of the listing (contract §15).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    id: &'a AskId,
    team: &'a TeamName,
    agent_id: &'a AgentId,
    kind: AskKind,
    tool: &'a str,
    input: &'a RawValue,
    description: &'a str,
    cwd: &'a str,
    rule: &'a str,
    status: AskStatus,
    created_at: &'a Timestamp,
}

fn row(found: &Found) -> Row<'_> {
    let ask = &found.ask;
    Row {
        id: &ask.id,
        team: found.team.name(),
        agent_id: &ask.agent_id,
        kind: ask.kind,
        tool: &ask.tool,
        input: &ask.input,
        description: &ask.description,
        cwd: &ask.cwd,
        rule: &ask.rule,
        status: found.status,
        created_at: &ask.created_at,
    }
}

fn status_name(status: AskStatus) -> &'static str {
    match status {
        AskStatus::Open => "open",
        AskStatus::Decided => "decided",
        AskStatus::Closed => "closed",
    }
}

/// Lists asks.
pub(super) fn list(found: &[Found], shared: &Shared, all: bool) -> Result<(), CliError> {
    let mut out = Out::default();
    if shared.json {
        return out.json(&found.iter().map(row).collect::<Vec<_>>());
    }
    let shown: Vec<&Found> = found.iter().filter(|f| all || f.status == AskStatus::Open).collect();
    if shown.is_empty() {
        return out.line(match found.len() {
            0 => "nothing is asked".to_owned(),
            n => format!("nothing is open; {} decided or closed (--all)", words::number(n, "ask")),
        });
    }
    let mut table = Table::new(&[
        Column::Fixed("ID"),
        Column::Cut("AGENT", 12),
        Column::Right("AGE"),
        Column::Fixed("STATUS"),
        Column::Cut("WANTS TO", 20),
    ]);
    for found in shown {
        let status = status_name(found.status);
        table.row([
            Cell::from(found.ask.id.as_str()),
            Cell::from(found.ask.agent_id.as_str()),
            Cell::from(words::age(&found.ask.created_at)),
            Cell::styled(if all { status } else { "" }, state_style(status)),
            Cell::from(&found.ask.description),
        ]);
    }
    for line in table.render(table::columns()) {
        out.line(line)?;
    }
    let dim = anstyle::Style::new().dimmed();
    out.line(format!(
        "{dim}`festoon ask show ID`, `festoon ask approve ID`, `festoon ask deny ID --note '…'`{dim:#}"
    ))
}

/// Shows one ask, with its decision.
pub(super) fn show(found: &Found, shared: &Shared) -> Result<Option<ExitKind>, CliError> {
    let mut out = Out::default();
    let ask = &found.ask;
    if shared.json {
        #[derive(Serialize)]
        struct Whole<'a> {
            #[serde(flatten)]
            ask: Value,
            input: &'a RawValue,
        }
        // The input is passed through as it was written: a value would change its numbers.
        let mut value = json!({ "id": ask.id, "team": found.team.name(), "agentId": ask.agent_id, "kind": ask.kind,
            "tool": ask.tool, "toolUseId": ask.tool_use_id, "description": ask.description, "cwd": ask.cwd,
            "rule": ask.rule, "status": found.status, "createdAt": ask.created_at,
            "suggestions": ask.suggestions, "closed": ask.closed, "decision": null });
        if let Some(decision) = &found.decision {
            value["decision"] = json!({ "decision": decision.decision, "scope": decision.scope,
                "note": decision.note, "by": decision.by, "at": decision.at });
        }
        out.json(&Whole { ask: value, input: &ask.input })?;
        return Ok(None);
    }
    let dim = anstyle::Style::new().dimmed();
    let status = status_name(found.status);
    let style = state_style(status);
    let when = words::local(&ask.created_at, "%F %T");
    let age = words::age(&ask.created_at);
    let mut field = |name: &str, value: &str| {
        out.line(format!(
            "{dim}{name:<9}{dim:#} {}",
            text::clean(value).trim_end().replace('\n', "\n          ")
        ))
    };
    field("ask", ask.id.as_str())?;
    field("agent", ask.agent_id.as_str())?;
    field("wants to", &ask.description)?;
    field("tool", &ask.tool)?;
    let input: Value = serde_json::from_str(ask.input.get()).unwrap_or(Value::Null);
    match input.as_object() {
        // Text is shown as it is, with its line breaks; the exact JSON is what --json prints.
        Some(members) => {
            for (name, value) in members {
                let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                field(&format!("  {}", words::line(name)), &shown)?;
            }
        }
        None => field("input", ask.input.get())?,
    }
    field("in", &ask.cwd)?;
    field("because", &ask.rule)?;
    for suggestion in &ask.suggestions {
        field("always", &format!("{} (--scope session or project)", suggestion.rule))?;
    }
    field("asked", &format!("{when} ({age})"))?;
    if let Some(decision) = &found.decision {
        let note = decision.note.as_ref().map(|note| format!(", {note:?}")).unwrap_or_default();
        let (what, scope) = (decision.decision.verb(), decision.scope.as_str());
        field("decided", &format!("{what} ({scope}) by {} at {}{note}", decision.by, decision.at))?;
    }
    if let Some(closed) = &ask.closed {
        field("closed", &format!("{} at {}", closed.reason, closed.at))?;
    }
    out.line(format!("{dim}{:<9}{dim:#} {style}{status}{style:#}", "status"))?;
    Ok(None)
}
