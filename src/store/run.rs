//! `run/<agent>.json`: what each agent says of itself.
//!
//! Owns reading and replacing these files. Promises that a run which another one has followed
//! cannot write over it, and that members we do not know survive. Never judges whether the agent
//! lives.

use super::atomic;
use super::error::StoreError;
use super::paths::TeamPaths;
use super::seen::Seen;
use crate::wire::ids::AgentName;
use crate::wire::open::Open;
use crate::wire::run::{AgentState, RunRecord};
use crate::wire::settings::Durability;
use std::io::ErrorKind;
use std::sync::Arc;

/// The first record of a run: it takes the file over from whatever run had it.
pub fn begin(team: &TeamPaths, record: &RunRecord) -> Result<(), StoreError> {
    store(team, record, Fence::TakeOver)
}

/// A later record. Refused as [`StoreError::Fenced`] when the file belongs to another run that is
/// not over; a record in the state `starting` takes over like [`begin`].
pub fn write(team: &TeamPaths, record: &RunRecord) -> Result<(), StoreError> {
    let fence = if record.state == AgentState::Starting { Fence::TakeOver } else { Fence::Check };
    store(team, record, fence)
}

#[derive(PartialEq)]
enum Fence {
    TakeOver,
    Check,
}

fn store(team: &TeamPaths, record: &RunRecord, fence: Fence) -> Result<(), StoreError> {
    let (name, _) = record.agent_id.as_str().split_once('@').unwrap_or((record.agent_id.as_str(), ""));
    let agent = AgentName::new(name).map_err(|e| StoreError::invalid(&team.run_dir(), e))?;
    let path = team.run(&agent);
    team.check(&team.run_dir())?;
    let mut written = Open::new(record.clone());
    match load(team, &agent) {
        Ok(Some(old)) => {
            if fence == Fence::Check && old.run_id != record.run_id && !old.state.is_over() {
                return Err(StoreError::Fenced { path, by: old.known.run_id });
            }
            written.unknown = old.unknown;
        }
        Ok(None) | Err(StoreError::Corrupt { .. }) => {} // it is ours alone: written anew
        Err(e) => return Err(e),
    }
    atomic::write_json(&path, &written, Durability::Process)
}

/// One agent's record; `None` when it has written none.
pub fn load(team: &TeamPaths, agent: &AgentName) -> Result<Option<Open<RunRecord>>, StoreError> {
    atomic::read_json(&team.run(agent))
}

/// The record of this incarnation of an agent; `None` when it is another's, or cannot be read.
pub fn of_incarnation(team: &TeamPaths, agent: &AgentName, incarnation: u32) -> Option<RunRecord> {
    let record = load(team, agent).ok().flatten()?;
    (record.incarnation == incarnation).then_some(record.known)
}

/// A record, or why it cannot be used.
pub type Loaded = Result<Open<RunRecord>, StoreError>;

/// All records, by name; a damaged one comes as its error.
pub fn load_all(team: &TeamPaths) -> Result<Vec<(AgentName, Loaded)>, StoreError> {
    let dir = team.run_dir();
    let mut all = Vec::new();
    for agent in agents_in(&dir)? {
        match load(team, &agent) {
            Ok(Some(record)) => all.push((agent, Ok(record))),
            Ok(None) => {}
            Err(e) => all.push((agent, Err(e))),
        }
    }
    Ok(all)
}

/// Records by their file, for whoever looks at all of them again and again.
pub type SeenRuns = Seen<Option<Arc<RunRecord>>>;

/// One agent's record as [`load`] gives it, read only when it looks different.
pub fn look(
    team: &TeamPaths,
    agent: &AgentName,
    seen: &mut SeenRuns,
) -> Result<Option<Arc<RunRecord>>, StoreError> {
    seen.read(&team.run(agent), || Ok(load(team, agent)?.map(|record| Arc::new(record.known))))
}

/// The agents that have a file `<agent>.json` in `dir`, sorted.
pub(super) fn agents_in(dir: &std::path::Path) -> Result<Vec<AgentName>, StoreError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StoreError::io("list", dir, e)),
    };
    let mut agents: Vec<AgentName> = entries
        .flatten()
        .filter_map(|entry| AgentName::new(entry.file_name().to_str()?.strip_suffix(".json")?).ok())
        .collect();
    agents.sort();
    Ok(agents)
}
