//! Transcripts: JSON lines, append-only, one writer a file (spec §19).
//!
//! Owns the transcript files and their `.meta.json`. Promises that lines given together are written
//! by one call, after a torn line got its newline, and that reading streams, tells bad lines and a
//! torn tail from good ones, and goes on. The lock that makes its writer the only one is the
//! session's, not this file's. Never changes a line that was written.

use super::atomic;
use super::error::StoreError;
use super::jsonl::{self, Lines};
use super::own::{self, Open};
use super::paths::{Paths, ProjectPaths};
use super::seen::Seen;
use super::slug;
use crate::wire::ids::SessionId;
use crate::wire::open::Open as OpenObject;
use crate::wire::settings::Durability;
use crate::wire::transcript::{AgentMeta, Line};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// A transcript that is open for writing.
#[derive(Debug)]
pub struct TranscriptFile {
    file: File,
    path: PathBuf,
}

/// Opens a transcript to append to; makes it (0600) and its directory (0700).
pub fn open_append(path: &Path) -> Result<TranscriptFile, StoreError> {
    atomic::make_dir(own::dir_of(path))?;
    let file = own::open_or_make(path, Open::Append)?;
    Ok(TranscriptFile { file, path: path.to_owned() })
}

impl TranscriptFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends lines with one write. On an error none of them is there.
    pub fn append(&mut self, lines: &[Line]) -> Result<(), StoreError> {
        let encoded: Vec<Vec<u8>> =
            lines.iter().map(|line| jsonl::encode(&self.path, line)).collect::<Result<_, _>>()?;
        let lines: Vec<&[u8]> = encoded.iter().map(Vec::as_slice).collect();
        jsonl::append_to(&mut self.file, &self.path, &lines, Durability::Process)
    }
}

/// A line that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    /// The last one, without its newline: its writer died in it.
    #[error("cut off by the end of the file")]
    Torn,
    /// Any other.
    #[error("{0}")]
    Malformed(String),
}

/// Reads a transcript and gives each line with its number, from 1. [`StoreError::NotFound`] when
/// there is none.
pub fn read(path: &Path, mut each: impl FnMut(usize, Result<Line, BadLine>)) -> Result<(), StoreError> {
    read_while(path, |number, line| {
        each(number, line);
        true
    })
}

/// The same as long as `each` says so.
pub fn read_while(
    path: &Path,
    mut each: impl FnMut(usize, Result<Line, BadLine>) -> bool,
) -> Result<(), StoreError> {
    for line in raw(path)? {
        let line = line?;
        let parsed = serde_json::from_slice(&line.bytes)
            .map_err(|e| if line.complete { BadLine::Malformed(e.to_string()) } else { BadLine::Torn });
        if !each(line.number, parsed) {
            return Ok(());
        }
    }
    Ok(())
}

/// Steps in which the end of a transcript is read until a whole line is found.
const TAIL_STEPS: [u64; 4] = [64 << 10, 1 << 20, 16 << 20, u64::MAX];

/// The lines from byte `offset` on, and where to go on: behind the last that is complete. Lines that are none
/// are left out.
pub fn read_from(path: &Path, offset: u64) -> Result<(Vec<Line>, u64), StoreError> {
    let Some(file) = own::open(path, Open::Read)? else { return Ok((Vec::new(), offset)) };
    let length = file.metadata().map_err(|e| StoreError::io("inspect", path, e))?.len();
    let bytes = jsonl::read_range(&file, path, offset, length.max(offset))?;
    let complete = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let lines = bytes[..complete].split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    Ok((lines.collect(), offset + complete as u64))
}

/// The last lines, as far as they fit in some 64 KiB and at least one, and where to go on behind them. Reads
/// nothing before them.
pub fn read_tail(path: &Path) -> Result<(Vec<Line>, u64), StoreError> {
    let length = std::fs::metadata(path).map_err(|e| StoreError::io("inspect", path, e))?.len();
    for step in TAIL_STEPS {
        let from = length.saturating_sub(step);
        // The first of them is cut, and no JSON then.
        let (lines, end) = read_from(path, from)?;
        if !lines.is_empty() || from == 0 {
            return Ok((lines, end));
        }
    }
    Ok((Vec::new(), length))
}

/// The lines as they stand in the file, bad ones too, as long as `each` says so.
pub fn read_raw(path: &Path, mut each: impl FnMut(&[u8]) -> bool) -> Result<(), StoreError> {
    for line in raw(path)? {
        if !each(&line?.bytes) {
            return Ok(());
        }
    }
    Ok(())
}

fn raw(path: &Path) -> Result<Lines, StoreError> {
    Lines::open(path)?.ok_or_else(|| StoreError::NotFound { path: path.to_owned() })
}

/// Writes what an agent is; members we do not know survive.
pub fn write_meta(path: &Path, meta: &AgentMeta) -> Result<(), StoreError> {
    atomic::make_dir(own::dir_of(path))?;
    let mut written = OpenObject::new(meta.clone());
    match read_meta(path) {
        Ok(Some(old)) => written.unknown = old.unknown,
        Ok(None) | Err(StoreError::Corrupt { .. }) => {}
        Err(e) => return Err(e),
    }
    atomic::write_json(path, &written, Durability::Process)
}

/// Reads what an agent is; `None` when nothing was written.
pub fn read_meta(path: &Path) -> Result<Option<OpenObject<AgentMeta>>, StoreError> {
    atomic::read_json(path)
}

/// What agents are, by their file, for whoever looks at all of them again and again.
pub type SeenMetas = Seen<Option<Arc<AgentMeta>>>;

/// What an agent is as [`read_meta`] gives it, read only when its file looks different.
pub fn look_meta(path: &Path, seen: &mut SeenMetas) -> Result<Option<Arc<AgentMeta>>, StoreError> {
    seen.read(path, || Ok(read_meta(path)?.map(|meta| Arc::new(meta.known))))
}

/// The agents of a session that are not the main one, oldest first; a damaged file is left out.
pub fn sidechains(project: &ProjectPaths, session: &SessionId) -> Result<Vec<AgentMeta>, StoreError> {
    let all = look_sidechains(project, session, &mut SeenMetas::default())?;
    Ok(all.into_iter().map(Arc::unwrap_or_clone).collect())
}

/// The same for whoever looks again and again.
pub fn look_sidechains(
    project: &ProjectPaths,
    session: &SessionId,
    seen: &mut SeenMetas,
) -> Result<Vec<Arc<AgentMeta>>, StoreError> {
    let mut all = Vec::new();
    project.check(&project.sidechains(session))?;
    for (name, path, _) in files(&project.sidechains(session))? {
        if name.ends_with(".meta.json")
            && let Ok(Some(meta)) = look_meta(&path, seen)
        {
            all.push(meta);
        }
    }
    all.sort_by(|a, b| (&a.created_at, &a.agent_id).cmp(&(&b.created_at, &b.agent_id)));
    Ok(all)
}

/// The sessions of a directory with the time of their last line, newest first.
pub fn sessions(project: &ProjectPaths) -> Result<Vec<(SessionId, SystemTime)>, StoreError> {
    let mut all: Vec<(SessionId, SystemTime)> = files(project.dir())?
        .into_iter()
        .filter_map(|(name, path, time)| {
            Some((session_in(project, name.strip_suffix(".jsonl")?, &path)?, time))
        })
        .collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| b.0.cmp(&a.0)));
    Ok(all)
}

/// The session whose transcript has this name: what the name says, else (it is shortened) what the
/// first line says. `None` when no session has this file.
fn session_in(project: &ProjectPaths, stem: &str, path: &Path) -> Option<SessionId> {
    if let Some(id) = slug::id_of(stem) {
        return Some(SessionId::new(id));
    }
    let mut said = None;
    read_while(path, |_, line| {
        said = line.ok().map(|line| line.session_id);
        false
    })
    .ok()?;
    said.filter(|id| project.transcript(id) == path)
}

/// The directories that have sessions, sorted by name.
pub fn projects(paths: &Paths) -> Result<Vec<ProjectPaths>, StoreError> {
    let dir = paths.projects();
    paths.check_dirs(&dir)?;
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StoreError::io("list", &dir, e)),
    };
    let mut all: Vec<ProjectPaths> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| paths.project_named(entry.file_name().to_str()?))
        .collect();
    all.sort_by(|a, b| a.dir().cmp(b.dir()));
    Ok(all)
}

/// The transcripts of a session's other agents, oldest first, by the file's name for the agent.
pub fn sidechain_files(
    project: &ProjectPaths,
    session: &SessionId,
) -> Result<Vec<(String, PathBuf)>, StoreError> {
    let agent = |name: &str| Some(name.strip_prefix("agent-")?.strip_suffix(".jsonl")?.to_owned());
    let found = files(&project.sidechains(session))?;
    let mut all: Vec<(SystemTime, String, PathBuf)> = found
        .into_iter()
        .filter_map(|(name, path, time)| {
            let made = path.metadata().and_then(|m| m.created()).unwrap_or(time);
            Some((made, agent(&name)?, path))
        })
        .collect();
    all.sort();
    Ok(all.into_iter().map(|(_, name, path)| (name, path)).collect())
}

fn files(dir: &Path) -> Result<Vec<(String, PathBuf, SystemTime)>, StoreError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StoreError::io("list", dir, e)),
    };
    let mut all = Vec::new();
    for entry in entries.flatten() {
        let Ok(found) = entry.metadata() else { continue };
        if found.is_file() {
            let time = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            all.push((entry.file_name().to_string_lossy().into_owned(), entry.path(), time));
        }
    }
    Ok(all)
}
