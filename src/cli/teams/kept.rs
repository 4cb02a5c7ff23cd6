//! What looks at agents without a place in the roster have read, for whoever looks again and again.
//!
//! Promises that a look costs what changed, not what ever was: agents that have ended and asks that are decided
//! are read once, and of a transcript only what was appended. Never decides anything by it.

use crate::store::asks::OpenAsks;
use crate::store::run::SeenRuns;
use crate::store::transcript::{self, SeenMetas};
use crate::wire::ids::TeamName;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shared by the looks of one who looks.
#[derive(Clone, Default)]
pub struct Kept(Arc<Mutex<Files>>);

/// The files.
#[derive(Default)]
pub struct Files {
    /// What each agent is.
    pub metas: SeenMetas,
    /// The records of those below which they work.
    pub runs: SeenRuns,
    said: HashMap<PathBuf, Said>,
    asks: HashMap<TeamName, Arc<OpenAsks>>,
}

/// A transcript that was read so far.
#[derive(Default)]
struct Said {
    inode: (u64, u64),
    offset: u64,
    tokens: u64,
}

impl Kept {
    /// For one look.
    pub fn files(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files {
    /// The open asks of a team, as they were looked at before.
    pub fn asks(&mut self, team: &TeamName) -> Arc<OpenAsks> {
        Arc::clone(self.asks.entry(team.clone()).or_default())
    }

    /// The tokens of all answers in a transcript; one that cannot be read has said nothing that could be
    /// counted.
    pub fn tokens_of(&mut self, transcript: &Path) -> u64 {
        let Ok(found) = std::fs::metadata(transcript) else { return 0 };
        let said = self.said.entry(transcript.to_owned()).or_default();
        let inode = (found.dev(), found.ino());
        if said.inode != inode || found.len() < said.offset {
            *said = Said { inode, ..Said::default() };
        }
        if found.len() > said.offset
            && let Ok((lines, offset)) = transcript::read_from(transcript, said.offset)
        {
            let usages = lines.into_iter().filter_map(|line| line.message?.usage);
            said.tokens += usages.map(|usage| usage.total()).sum::<u64>();
            said.offset = offset;
        }
        said.tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn line(tokens: u64) -> String {
        let line = serde_json::json!({
            "type": "assistant", "uuid": "u", "parentUuid": null, "sessionId": "s", "agentId": "a", "isSidechain": true,
            "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/", "version": "0",
            "message": { "id": "m", "role": "assistant", "model": "x", "content": [],
                         "usage": { "input_tokens": tokens, "output_tokens": 1 } },
        });
        format!("{line}\n")
    }

    #[test]
    fn of_a_transcript_only_what_was_appended_is_read() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("agent-a.jsonl");
        let mut files = Files::default();
        assert_eq!(files.tokens_of(&path), 0);
        std::fs::write(&path, line(10)).expect("writes");
        assert_eq!(files.tokens_of(&path), 11);
        // What was read is not looked at again: another text of the same length changes nothing.
        let mut file = std::fs::File::options().write(true).open(&path).expect("opens");
        file.write_all(line(99).as_bytes()).expect("writes");
        assert_eq!(files.tokens_of(&path), 11);
        // Half a line waits for its rest.
        let (more, rest) = (line(20), 7);
        file.write_all(&more.as_bytes()[..more.len() - rest]).expect("writes");
        assert_eq!(files.tokens_of(&path), 11);
        file.write_all(&more.as_bytes()[more.len() - rest..]).expect("writes");
        assert_eq!(files.tokens_of(&path), 32);
        // A shorter file, and another one in its place, are read from their start.
        std::fs::write(&path, line(5)).expect("writes");
        assert_eq!(files.tokens_of(&path), 6);
        let other = dir.path().join("other");
        std::fs::write(&other, line(7) + &line(8)).expect("writes");
        std::fs::rename(&other, &path).expect("renames");
        assert_eq!(files.tokens_of(&path), 17);
        std::fs::remove_file(&path).expect("removes");
        assert_eq!(files.tokens_of(&path), 0);
    }
}
