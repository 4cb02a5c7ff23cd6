//! The files of one member beside the roster: taken back when it did not come to be.

use super::error::StoreError;
use super::paths::TeamPaths;
use super::sign::worker_key;
use super::spec;
use crate::wire::ids::AgentName;
use std::path::Path;

/// Removes what a failed start of `agent` has left. A later incarnation shares inbox, archive and key
/// with the one before it, whose they stay; only its spec and run record go.
pub fn remove_traces(team: &TeamPaths, agent: &AgentName, incarnation: u32) -> Result<(), StoreError> {
    spec::remove_specs(team, agent)?;
    remove(&team.run(agent))?;
    if incarnation == 1 {
        for path in [
            team.inbox(agent),
            team.inbox_lock(agent),
            team.archive(agent),
            worker_key(&team.keys_dir(), agent),
        ] {
            remove(&path)?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::io("remove", path, error))
        }
        _ => Ok(()),
    }
}
