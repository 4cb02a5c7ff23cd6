//! `festoon ask list` and `show`.

use super::Found;
use crate::cli::args::Shared;
use crate::cli::ask_dialog::question::plain;
use crate::cli::ask_dialog::who;
use crate::cli::ask_group::{groups, together};
use crate::cli::commands::ps::state_style;
use crate::cli::error::CliError;
use crate::cli::out::Out;
use crate::cli::table::{self, Cell, Column, Table};
use crate::cli::{text, words};
use crate::wire::ask::{Ask, AskKind, AskStatus};
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
    team: TeamName,
    agent_id: &'a AgentId,
    kind: AskKind,
    tool: &'a str,
    input: &'a RawValue,
    description: &'a str,
    cwd: &'a str,
    rule: &'a str,
    status: AskStatus,
    created_at: &'a Timestamp,
    /// Other open asks that the same answer would serve; left out when there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    same: Vec<&'a AskId>,
}

fn row<'a>(found: &'a Found, all: &'a [Found]) -> Row<'a> {
    let ask = &found.ask;
    let is_open = |found: &Found| found.status == AskStatus::Open;
    let same = all.iter().filter(|other| {
        let apart = other.ask.id != ask.id && other.team.name() == found.team.name();
        apart && is_open(found) && is_open(other) && other.ask.is_same(ask)
    });
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
        same: same.map(|other| &other.ask.id).collect(),
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
        return out.json(&found.iter().map(|one| row(one, found)).collect::<Vec<_>>());
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
    let mut grouped = false;
    for group in rows(&shown, all) {
        let found = group[0];
        let status = status_name(found.status);
        grouped |= group.len() > 1;
        let agent = if group.len() > 1 {
            together(&group.iter().map(|found| who(&found.ask)).collect::<Vec<_>>())
        } else {
            found.ask.agent_id.to_string()
        };
        table.row([
            Cell::from(found.ask.id.as_str()),
            Cell::from(&agent),
            Cell::from(words::age(&found.ask.created_at)),
            Cell::styled(if all { status } else { "" }, state_style(status)),
            Cell::from(&found.ask.description),
        ]);
    }
    for line in table.render(table::columns()) {
        out.line(line)?;
    }
    let dim = anstyle::Style::new().dimmed();
    let is_question = |found: &&Found| found.ask.kind == AskKind::Question && found.status == AskStatus::Open;
    if grouped {
        out.line(format!("{dim}with --same an answer is for all agents of a line{dim:#}"))?;
    }
    if shown.iter().any(is_question) {
        out.line(format!("{dim}questions: `festoon ask answer ID TEXT`{dim:#}"))?;
    }
    out.line(format!(
        "{dim}`festoon ask show ID`, `festoon ask approve ID`, `festoon ask deny ID --note '…'`{dim:#}"
    ))
}

/// What stands in a line together: open asks that one answer may serve.
fn rows<'a>(shown: &[&'a Found], all: bool) -> Vec<Vec<&'a Found>> {
    if all {
        return shown.iter().map(|found| vec![*found]).collect();
    }
    let asks: Vec<&Ask> = shown.iter().map(|found| &found.ask).collect();
    let mut rows: Vec<Vec<&Found>> = Vec::new();
    for group in groups(&asks) {
        // Agents of two teams are answered apart.
        let mut teams: Vec<Vec<&Found>> = Vec::new();
        for index in group {
            match teams.iter_mut().find(|team| team[0].team.name() == shown[index].team.name()) {
                Some(team) => team.push(shown[index]),
                None => teams.push(vec![shown[index]]),
            }
        }
        rows.extend(teams);
    }
    rows
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
            "suggestions": ask.suggestions, "modes": ask.modes, "closed": ask.closed, "decision": null });
        if let Some(decision) = &found.decision {
            value["decision"] = json!({ "decision": decision.decision, "scope": decision.scope,
                "mode": decision.permission_mode, "answers": decision.answers,
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
    let questions = ask.questions();
    if ask.kind != AskKind::Question {
        field("wants to", &ask.description)?;
    }
    field("tool", &ask.tool)?;
    for question in &questions {
        field("asks", &plain(question).join("\n"))?;
    }
    let input: Value = serde_json::from_str(ask.input.get()).unwrap_or(Value::Null);
    match input.as_object() {
        Some(_) if !questions.is_empty() => {}
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
    if !ask.modes.is_empty() {
        let modes: Vec<&str> = ask.modes.iter().map(|mode| mode.as_str()).collect();
        field("then", &format!("{} mode (--mode)", modes.join(" or ")))?;
    }
    for suggestion in &ask.suggestions {
        field("always", &format!("{} (--scope session or project)", suggestion.rule))?;
    }
    field("asked", &format!("{when} ({age})"))?;
    if let Some(decision) = &found.decision {
        let note = decision.note.as_ref().map(|note| format!(", {note:?}")).unwrap_or_default();
        let (what, scope) = (decision.decision.verb(), decision.scope.as_str());
        let how = match decision.permission_mode {
            Some(mode) => format!("{} mode", mode.as_str()),
            None => scope.to_owned(),
        };
        field("decided", &format!("{what} ({how}) by {} at {}{note}", decision.by, decision.at))?;
        for answer in &decision.answers {
            field("answer", &answer.words())?;
        }
    }
    if let Some(closed) = &ask.closed {
        field("closed", &format!("{} at {}", closed.reason, closed.at))?;
    }
    out.line(format!("{dim}{:<9}{dim:#} {style}{status}{style:#}", "status"))?;
    Ok(None)
}
