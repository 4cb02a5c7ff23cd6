//! One agent in a listing: what it says of itself, what its leader says, and what the system sees.
//!
//! Owns the judgement between the three. A verdict of the leader stands; without one, a record whose
//! process is gone is *lost*, whatever it says; what cannot be seen from here is shown as it was said.

use crate::os::process;
use crate::store::error::StoreError;
use crate::store::paths::TeamPaths;
use crate::wire::ids::{AgentId, AgentName, TeamName};
use crate::wire::open::Open;
use crate::wire::run::{AgentState, ProcessId, RunRecord};
use crate::wire::team::{BackendType, Member};
use crate::wire::time::Timestamp;
use crate::wire::usage::Money;
use serde::Serialize;
use std::path::Path;

/// A line of `ps` (contract §15).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// `<name>@<team>`
    pub agent_id: AgentId,
    /// The slug.
    pub name: AgentName,
    /// Its team.
    pub team: TeamName,
    /// The definition it runs; `main` for a leader; `null` when the roster cannot be read.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Where it runs.
    pub backend: Option<&'static str>,
    /// A state of contract §6, or `unknown`.
    pub state: &'static str,
    /// What that rests on.
    pub evidence: String,
    /// `provider:name`
    pub model: Option<String>,
    /// The tool call that runs.
    pub task: Option<String>,
    /// Tokens of its life so far.
    pub tokens: u64,
    /// Dollars; `null` when a price is unknown.
    pub cost: Money,
    /// Since when it is in this state.
    pub since: Option<Timestamp>,
    /// Its process, while that lives.
    pub pid: Option<u32>,
    /// Its pane, while it is not over.
    pub pane_id: Option<String>,
    /// Of an agent that is no member: who started it.
    #[serde(rename = "parentAgentId", skip_serializing_if = "Option::is_none")]
    pub parent: Option<AgentId>,
    /// The name as given, for people.
    #[serde(skip)]
    pub display: String,
    /// For people.
    #[serde(skip)]
    pub color: Option<String>,
    /// Whether it still runs, as far as can be seen; what cannot be seen counts as running.
    #[serde(skip)]
    pub lives: bool,
}

/// What the system says of the process in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// It runs.
    Running,
    /// It is gone; a zombie is, too.
    Gone,
    /// It is on another machine, or behind a wall, and may well run.
    Elsewhere,
}

/// Looks for a process. `shared` says that the team's files may be used by several machines.
pub fn see(id: &ProcessId, shared: bool) -> Seen {
    if process::is_alive(id) {
        return Seen::Running;
    }
    let other_host = id.host != process::host();
    // Another host on this very kernel is a container; on another kernel it matters only when the
    // files are shared: else they were copied here, or the host was renamed.
    if other_host && (shared || id.boot_id == process::boot_id()) { Seen::Elsewhere } else { Seen::Gone }
}

/// The living workers of a team, found by their arguments: agent and process. For agents whose record says
/// nothing.
pub fn workers(team: &TeamPaths) -> Vec<(String, u32)> {
    let specs = team.specs_dir();
    let specs = specs.canonicalize().unwrap_or(specs);
    let worker = |pid: u32| {
        let words = process::arguments(pid);
        let at = words.iter().position(|word| word == "--spec")?;
        let named = at > 0 && words[at - 1] == "teammate";
        let file = Path::new(words.get(at + 1).filter(|_| named)?);
        let dir = file.parent()?;
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let (agent, _) = file.file_name()?.to_str()?.split_once('.').filter(|_| dir == specs)?;
        Some((agent.to_owned(), pid))
    };
    process::all().iter().filter(|stat| stat.alive).filter_map(|stat| worker(stat.pid)).collect()
}

/// What an agent says of itself, as far as it could be read.
pub type Said<'a> = Option<&'a Result<Open<RunRecord>, StoreError>>;

/// What is known of one agent beside the record it wrote.
pub struct Known<'a> {
    /// Its team.
    pub team: &'a TeamName,
    /// Its name.
    pub name: &'a AgentName,
    /// Its row in the roster; a leader has none.
    pub member: Option<&'a Member>,
    /// Whether the team's leader holds its lock.
    pub leader_holds: bool,
}

/// The judgement.
pub fn judge(known: &Known<'_>, said: Said<'_>, see: impl Fn(&ProcessId) -> Seen) -> Row {
    let record = said.and_then(|said| said.as_ref().ok()).map(|record| &record.known);
    let record = record.filter(|r| known.member.is_none_or(|m| m.incarnation == r.incarnation));
    let mut row = blank(known);
    if let Some(ended) = known.member.and_then(|m| m.ended.as_ref()) {
        // Stands when the record is gone to another of its name.
        (row.tokens, row.cost) = (ended.usage.total(), ended.cost);
    }
    let seen = record.map(|record| see(&record.process()));
    if let Some(record) = record {
        row.tokens = record.usage.total();
        row.cost = record.cost;
        row.since = Some(record.since.clone());
        row.model = row.model.or_else(|| record.model.clone());
        row.pid = (seen == Some(Seen::Running)).then_some(record.pid);
    }
    let in_leader = known.member.is_some_and(|m| m.backend_type == BackendType::InProcess);
    if let Some(ended) = known.member.and_then(|m| m.ended.as_ref()) {
        row.state = ended.state.as_str();
        row.since = Some(ended.at.clone());
        row.evidence = format!("{}: {}", ended.exit, ended.reason);
        row.lives = !in_leader && row.pid.is_some();
        match row.pid.filter(|_| row.lives) {
            Some(pid) => row.evidence = format!("pid {pid} still runs; {}", row.evidence),
            None => row.pid = None,
        }
    } else {
        match (record, said) {
            (Some(record), _) => from_record(&mut row, known, record, seen.unwrap_or(Seen::Gone), in_leader),
            (None, Some(Err(error))) => {
                row.state = "unknown";
                row.evidence = error.to_string();
                row.lives = known.leader_holds;
            }
            (None, _) => from_silence(&mut row, known),
        }
    }
    if !row.lives {
        (row.pid, row.pane_id) = (None, None);
    }
    row
}

fn blank(known: &Known<'_>) -> Row {
    let member = known.member;
    let (kind, backend) = match member {
        Some(member) => (Some(member.agent_type.clone()), Some(member.backend_type.as_str())),
        None if known.name.is_lead() => (Some("main".to_owned()), Some(BackendType::InProcess.as_str())),
        None => (None, None),
    };
    Row {
        agent_id: AgentId::member(known.name, known.team),
        name: known.name.clone(),
        team: known.team.clone(),
        kind,
        backend,
        state: AgentState::Starting.as_str(),
        evidence: String::new(),
        model: member.map(|m| m.model.clone()),
        task: None,
        tokens: 0,
        cost: Money::default(),
        since: member.map(|m| m.joined_at.clone()),
        pid: None,
        pane_id: member.and_then(|m| m.pane_id.clone()),
        parent: None,
        display: member.map_or_else(|| known.name.to_string(), |m| m.display_name.clone()),
        color: member.map(|m| m.color.clone()),
        lives: false,
    }
}

fn from_record(row: &mut Row, known: &Known<'_>, record: &RunRecord, seen: Seen, in_leader: bool) {
    let pid = record.pid;
    row.state = record.state.as_str();
    if record.state.is_over() {
        // Its own last word; a worker of its own process may still be on its way out.
        row.lives = seen == Seen::Running && !in_leader && !known.name.is_lead();
        row.evidence =
            if row.lives { format!("it said so; pid {pid} is ending") } else { "it said so".to_owned() };
        return;
    }
    row.lives = seen != Seen::Gone;
    match seen {
        Seen::Running => {
            row.evidence = format!("pid {pid} running");
            if matches!(record.state, AgentState::Working | AgentState::Waiting) {
                row.task.clone_from(&record.current_tool);
            }
        }
        Seen::Elsewhere => {
            row.evidence = format!("said so on host {}, which cannot be seen from here", record.host);
        }
        Seen::Gone => {
            row.state = AgentState::Lost.as_str();
            row.evidence = format!("pid {pid} gone");
        }
    }
}

/// An agent that has written nothing yet.
fn from_silence(row: &mut Row, known: &Known<'_>) {
    if known.leader_holds {
        row.evidence = "it has not said a word yet".to_owned();
        row.lives = true;
        return;
    }
    row.state = AgentState::Lost.as_str();
    row.evidence = "it never said that it was ready".to_owned();
}

#[cfg(test)]
mod tests;
