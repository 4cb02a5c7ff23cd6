//! Going back to before a turn: its files, the conversation, or both (spec §22).
//!
//! Nothing is taken out of the transcript: a `rewind` line says from where on the conversation goes on
//! otherwise, and a later run reads it as this one does. What the files are is kept before they are put
//! back, under that line, so that a rewind can itself be undone. What commands or other processes have
//! changed is not covered.

use super::context_size;
use super::core::AgentCore;
use super::fork::seed::{Beginning, request_ends};
use super::restore;
use super::transcript::{NewLine, REWIND};
use super::turn::{Agent, OLD_ANCHORS};
use crate::os::file::{Dir, LockedDir, Opened};
use crate::store::checkpoints::to_undo;
use crate::store::error::StoreError;
use crate::store::transcript;
use crate::tools::context::Former;
use crate::wire::block::{BlockKind, Role};
use crate::wire::checkpoint::{Checkpoint, FormerFile};
use crate::wire::ids::LineId;
use crate::wire::limits::CHECKPOINT_FILE_BYTES;
use crate::wire::time::Timestamp;
use crate::wire::transcript::Line;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Files and conversation.
    Both,
    /// The files only; the model does not know.
    Files,
    /// What was said only.
    Conversation,
}

/// The data of a `rewind` line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RewindData {
    /// The line that began the turn.
    pub(super) before: LineId,
    /// Whether the conversation goes on from before that line.
    pub(super) conversation: bool,
    /// Whether files were put back.
    pub(super) files: bool,
}

impl RewindData {
    /// The data of a line, if it is a rewind.
    pub(super) fn of(line: &Line) -> Option<Self> {
        if line.subtype.as_deref() != Some(REWIND) {
            return None;
        }
        serde_json::from_str(line.data.as_ref()?.get()).ok()
    }
}

/// A place one can go back to: before a prompt, or before an earlier rewind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its line.
    pub line: LineId,
    /// When.
    pub at: Timestamp,
    /// What was said, or what was rewound.
    pub text: String,
    /// Files that were changed from there to the next place.
    pub files: usize,
}

/// All places of a transcript.
#[derive(Debug, Default)]
pub struct Places {
    all: Vec<(Place, Option<usize>)>,
    by_line: HashMap<LineId, usize>,
    /// The last place of the conversation as it goes on now.
    head: Option<usize>,
}

impl Places {
    /// Reads them from a transcript.
    pub fn read(path: &Path) -> Result<Self, StoreError> {
        let mut places = Self::default();
        let mut before: Option<Line> = None;
        transcript::read(path, |_, line| {
            let Ok(line) = line else { return };
            places.take(&line, before.as_ref());
            before = Some(line);
        })?;
        Ok(places)
    }

    fn take(&mut self, line: &Line, before: Option<&Line>) {
        if let Some(data) = RewindData::of(line) {
            if let Some(&to) = self.by_line.get(&data.before).filter(|_| data.conversation) {
                self.head = self.all[to].1;
            }
            self.add(line, line.text.clone().unwrap_or_default());
        } else if is_prompt(line, before) {
            let blocks = line.message.iter().flat_map(|m| m.content.iter());
            let text = blocks.filter_map(|b| b.0.as_text()).next_back();
            self.add(line, text.unwrap_or_default());
        }
    }

    fn add(&mut self, line: &Line, text: String) {
        let place = Place { line: line.uuid.clone(), at: line.timestamp.clone(), text, files: 0 };
        self.by_line.insert(line.uuid.clone(), self.all.len());
        self.all.push((place, self.head));
        self.head = Some(self.all.len() - 1);
    }

    /// Those that the conversation as it is now has, oldest first.
    pub fn live(&self) -> Vec<&Place> {
        let mut live = Vec::new();
        let mut next = self.head;
        while let Some((place, before)) = next.and_then(|at| self.all.get(at)) {
            live.push(place);
            next = *before;
        }
        live.reverse();
        live
    }

    /// Whether a turn began at or after `place`, also one that was taken back since.
    fn is_undone(&self, place: &LineId, turn: &LineId) -> bool {
        let at = |line| self.by_line.get(line).copied();
        at(turn).zip(at(place)).is_some_and(|(turn, place)| turn >= place)
    }
}

/// Whether a line is what a person said, and neither mail nor results nor a summary.
fn is_prompt(line: &Line, before: Option<&Line>) -> bool {
    let Some(message) = line.message.as_ref().filter(|m| m.role == Role::User) else { return false };
    let named =
        before.filter(|b| line.parent_uuid.as_ref() == Some(&b.uuid)).and_then(|b| b.subtype.as_deref());
    let is_ours =
        matches!(named, Some(super::transcript::MAIL_DELIVERED | super::transcript::COMPACT_BOUNDARY));
    !is_ours && !message.content.iter().any(|b| b.0.kind() == BlockKind::ToolResult)
}

/// What came of a rewind.
#[derive(Debug, Default)]
pub struct Rewound {
    /// Files that are as they were.
    pub restored: Vec<PathBuf>,
    /// Files that are gone, since they were not there.
    pub removed: Vec<PathBuf>,
    /// Files that could not be put back, and why.
    pub failed: Vec<(PathBuf, String)>,
    /// Why the conversation is not taken back here, though the transcript says so: it is when the session is
    /// resumed.
    pub not_read: Option<String>,
}

/// What became of one file.
enum Put {
    Restored,
    Removed,
    AsItWas,
}

impl Agent {
    /// The places one can go back to.
    pub async fn places(&self) -> Result<Vec<Place>, StoreError> {
        let places = self.read_places().await?;
        let mut live: Vec<Place> = places.live().into_iter().cloned().collect();
        let kept = self.kept().await?;
        for place in &mut live {
            place.files = kept.iter().filter(|k| k.turn == place.line).count();
        }
        Ok(live)
    }

    /// All that is kept of files.
    async fn kept(&self) -> Result<Vec<Checkpoint>, StoreError> {
        let core = Arc::clone(&self.core);
        self.core.runtime.disk.run(self.transcript.path(), move || core.runtime.checkpoints.all()).await
    }

    async fn read_places(&self) -> Result<Places, StoreError> {
        let path = self.transcript.path().to_owned();
        self.core.runtime.disk.run(self.transcript.path(), move || Places::read(&path)).await
    }

    /// Goes back to before `place`. Not while a turn runs.
    ///
    /// # Errors
    /// When transcript or checkpoints cannot be read, or the transcript cannot be written; nothing is changed
    /// then. What fails later is part of what came of it: each file for itself, and the conversation.
    pub async fn rewind(&mut self, place: &Place, what: What) -> Result<Rewound, StoreError> {
        let data = RewindData {
            before: place.line.clone(),
            conversation: what != What::Files,
            files: what != What::Conversation,
        };
        let places = self.read_places().await?;
        let all = if data.files { self.kept().await? } else { Vec::new() };
        let head: String = place.text.lines().next().unwrap_or_default().chars().take(60).collect();
        let text = match what {
            What::Both => format!("(rewound to before: {head})"),
            What::Files => format!("(files rewound to before: {head})"),
            What::Conversation => format!("(conversation rewound to before: {head})"),
        };
        let line = NewLine::system(REWIND, text).with_data(&data);
        let line = self.transcript.append(vec![line]).await?.into_iter().next();
        if let Some(line) = line {
            self.core.runtime.checkpoints.begin(line);
        }
        let mut rewound = Rewound::default();
        if data.files {
            let undo = to_undo(&all, |turn| places.is_undone(&place.line, turn));
            for (path, former) in undo {
                match self.put_back(path, former).await {
                    Ok(Put::Restored) => rewound.restored.push(path.to_owned()),
                    Ok(Put::Removed) => rewound.removed.push(path.to_owned()),
                    Ok(Put::AsItWas) => {}
                    Err(why) => rewound.failed.push((path.to_owned(), why)),
                }
                self.core.files.forget(path);
            }
        }
        if data.conversation {
            rewound.not_read = self.read_again().await.err().map(|error| error.to_string());
        }
        Ok(rewound)
    }

    /// Takes the conversation from the transcript, as a later run would.
    async fn read_again(&mut self) -> Result<(), StoreError> {
        let path = self.transcript.path().to_owned();
        let load = move || restore::load_onto(&path, Beginning::default());
        let restored = self.core.runtime.disk.run(self.transcript.path(), load).await?;
        self.anchors = request_ends(&restored.history, OLD_ANCHORS);
        let filled =
            restored.filled.unwrap_or_else(|| context_size::of_request(&self.prefix, &restored.history));
        self.history = Arc::new(restored.history);
        self.core.todos.set(restored.todos.list());
        self.compact_from = 0;
        self.set_filled(filled);
        Ok(())
    }

    async fn put_back(&self, path: &Path, former: &FormerFile) -> Result<Put, String> {
        let (core, file, former) = (Arc::clone(&self.core), path.to_owned(), former.clone());
        let put = move || Ok(put_back(&core, &file, &former).transpose());
        self.core.runtime.disk.attempt(path, put).await.map_err(|e| e.to_string())?
    }
}

/// Makes a file what it was, on the store thread; `None` while somebody else replaces files beside it.
fn put_back(core: &AgentCore, path: &Path, former: &FormerFile) -> Result<Option<Put>, String> {
    let checkpoints = &core.runtime.checkpoints;
    let wanted = match former {
        FormerFile::NotKept { why } => return Err(format!("what it was is not kept: {why}")),
        FormerFile::Absent => None,
        FormerFile::Content { sha256, mode } => {
            let content = checkpoints.content(sha256).map_err(|e| e.to_string())?;
            Some((content.ok_or("what it was is not there any more")?, *mode))
        }
    };
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err("it is no file".to_owned());
    };
    if wanted.is_some() {
        std::fs::create_dir_all(parent).map_err(|e| e.to_string())?;
    } else if !parent.exists() {
        return Ok(Some(Put::AsItWas));
    }
    let dir = Dir::open(parent).map_err(|e| e.to_string())?;
    if dir.path() != parent {
        return Err("its directory was moved or replaced by a link".to_owned());
    }
    let Ok(locked) = dir.try_lock() else { return Ok(None) };
    let opened = locked.open_file(name).map_err(|e| e.to_string())?;
    let now = now(opened.as_ref()).map_err(|e| e.to_string())?;
    if is_as_wanted(&now, wanted.as_ref()) {
        return Ok(Some(Put::AsItWas));
    }
    let kept = checkpoints.keep(path, &now, core.context.id().as_str());
    if let Some(why) = kept.map_err(|e| e.to_string())? {
        return Err(format!("what it is now could not be kept: {why}"));
    }
    put(&locked, name, wanted, opened.as_ref()).map(Some).map_err(|e| e.to_string())
}

/// What a file is now.
fn now(opened: Option<&Opened>) -> std::io::Result<Former> {
    let Some(opened) = opened else { return Ok(Former::Absent) };
    if opened.meta.len() > CHECKPOINT_FILE_BYTES {
        return Ok(Former::TooLarge(opened.meta.len()));
    }
    let mut bytes = Vec::new();
    (&opened.file).read_to_end(&mut bytes)?;
    Ok(Former::Content { bytes, mode: opened.meta.mode() & 0o7777 })
}

fn is_as_wanted(now: &Former, wanted: Option<&(Vec<u8>, u32)>) -> bool {
    match (now, wanted) {
        (Former::Absent, None) => true,
        (Former::Content { bytes, .. }, Some((content, _))) => bytes == content,
        _ => false,
    }
}

fn put(
    dir: &LockedDir,
    name: &std::ffi::OsStr,
    wanted: Option<(Vec<u8>, u32)>,
    opened: Option<&Opened>,
) -> Result<Put, crate::os::error::OsError> {
    let Some((content, mode)) = wanted else {
        dir.remove(name)?;
        return Ok(Put::Removed);
    };
    dir.replace(name, &content, opened.map(|o| &o.meta))?;
    if opened.is_none() {
        dir.set_mode(name, mode)?;
    }
    Ok(Put::Restored)
}
