//! The spec files that worker processes start from.
//!
//! Owns `specs/<agent>.<run>.json`. Promises that a file is 0600 and whole when its path is given
//! away, and that its secrets can be taken out without touching the rest. Never keeps one in memory.

use super::atomic;
use super::error::StoreError;
use super::paths::TeamPaths;
use crate::wire::ids::AgentName;
use crate::wire::open::RawMap;
use crate::wire::settings::Durability;
use crate::wire::worker::WorkerSpec;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Writes the spec of a run and gives its path.
pub fn write_spec(team: &TeamPaths, spec: &WorkerSpec) -> Result<PathBuf, StoreError> {
    team.paths().make_dirs(&team.specs_dir())?;
    let path = team.spec(&spec.name, &spec.run_id);
    atomic::write_json(&path, spec, Durability::Process)?;
    Ok(path)
}

/// Reads a spec.
pub fn read_spec(path: &Path) -> Result<WorkerSpec, StoreError> {
    atomic::read_json(path)?.ok_or_else(|| StoreError::NotFound { path: path.to_owned() })
}

/// What may hold keys.
const SECRETS: [&str; 2] = ["environment", "mcpServers"];

/// Takes the environment and the MCP servers out of a spec file.
pub fn strip_secrets(path: &Path) -> Result<(), StoreError> {
    let spec: Option<RawMap> = atomic::read_json(path)?;
    let mut spec = spec.ok_or_else(|| StoreError::NotFound { path: path.to_owned() })?;
    spec.0.retain(|(key, _)| !SECRETS.contains(&key.as_str()));
    atomic::write_json(path, &spec, Durability::Process)
}

/// Removes the specs of all runs of an agent.
pub fn remove_specs(team: &TeamPaths, agent: &AgentName) -> Result<(), StoreError> {
    let dir = team.specs_dir();
    team.check(&dir)?;
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(StoreError::io("list", &dir, e)),
    };
    let begin = format!("{agent}.");
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&begin) {
            match std::fs::remove_file(entry.path()) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(StoreError::io("remove", &entry.path(), e));
                }
                _ => {}
            }
        }
    }
    Ok(())
}
