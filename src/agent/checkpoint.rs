//! File checkpoints: what files were before the agents of this process changed them, kept by turn.
//!
//! One for all agents of a process, since they work on the same files; a turn is the main agent's, and
//! what others change meanwhile belongs to it. A process that has no session of its own (a worker in a
//! pane) keeps nothing. That something could not be kept is said and stops no change. Everything here that
//! touches files is for the store thread.

use super::core::AgentCore;
use super::events::AgentEvent;
use crate::store::checkpoints::Checkpoints as Kept;
use crate::store::clock;
use crate::store::error::StoreError;
use crate::tools::context::{BeforeChange, Former};
use crate::wire::checkpoint::{Checkpoint, FormerFile};
use crate::wire::ids::LineId;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The checkpoints of a process's session.
#[derive(Default)]
pub struct Checkpoints(Mutex<Option<Open>>);

struct Open {
    kept: Kept,
    /// The line that began the turn; `None` before the first.
    turn: Option<LineId>,
}

impl Checkpoints {
    fn open(&self) -> MutexGuard<'_, Option<Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps from now on in `dir`, for the turn that this line began.
    pub fn keep_in(&self, dir: PathBuf, turn: Option<LineId>) {
        *self.open() = Some(Open { kept: Kept::new(dir), turn });
    }

    /// A turn begins, or a rewind.
    pub fn begin(&self, turn: LineId) {
        if let Some(open) = self.open().as_mut() {
            open.turn = Some(turn);
        }
    }

    /// All that is kept, oldest first.
    pub fn all(&self) -> Result<Vec<Checkpoint>, StoreError> {
        self.open().as_ref().map_or(Ok(Vec::new()), |open| open.kept.all())
    }

    /// A content that is kept.
    pub fn content(&self, sha256: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.open().as_ref().map_or(Ok(None), |open| open.kept.content(sha256))
    }

    fn wants(&self, path: &Path) -> bool {
        let mut open = self.open();
        let Some(Open { kept, turn: Some(turn) }) = open.as_mut() else { return false };
        // Where the disk cannot be looked at, the attempt says so.
        path.to_str().is_some_and(|path| kept.is_new(turn, path).unwrap_or(true))
    }

    /// Keeps a file's former state for the turn. The text says why it is not kept.
    pub(super) fn keep(
        &self,
        path: &Path,
        former: &Former,
        agent: &str,
    ) -> Result<Option<String>, StoreError> {
        let mut open = self.open();
        let Some(Open { kept, turn: Some(turn) }) = open.as_mut() else { return Ok(None) };
        let Some(name) = path.to_str() else { return Ok(Some("its name is not UTF-8 text".to_owned())) };
        if !kept.is_new(turn, name)? {
            return Ok(None);
        }
        let (before, why) = match former {
            Former::Absent => (FormerFile::Absent, None),
            Former::Content { bytes, mode } => match kept.keep(bytes)? {
                Ok(sha256) => (FormerFile::Content { sha256, mode: *mode }, None),
                Err(why) => (FormerFile::NotKept { why: why.clone() }, Some(why)),
            },
            Former::TooLarge(size) => {
                let why = format!("it has {size} bytes");
                (FormerFile::NotKept { why: why.clone() }, Some(why))
            }
        };
        let (path, agent) = (name.to_owned(), agent.to_owned());
        kept.note(Checkpoint { turn: turn.clone(), path, before, agent, at: clock::now() })?;
        Ok(why)
    }
}

/// The checkpoints as the tools of one agent see them.
pub(super) struct Keeper(pub(super) Arc<AgentCore>);

impl BeforeChange for Keeper {
    fn wants(&self, path: &Path) -> bool {
        let (core, file) = (Arc::clone(&self.0), path.to_owned());
        let wants = move || Ok(core.runtime.checkpoints.wants(&file));
        // Where it cannot be asked, the attempt says so.
        self.0.runtime.disk.wait(path, wants).unwrap_or(true)
    }

    fn keep(&self, path: &Path, former: Former) {
        let core = &self.0;
        let (own, file) = (Arc::clone(core), path.to_owned());
        let keep = move || own.runtime.checkpoints.keep(&file, &former, own.context.id().as_str());
        let why = match core.runtime.disk.wait(path, keep) {
            Ok(None) => return,
            Ok(Some(why)) => why,
            Err(error) => error.to_string(),
        };
        let what = format!("/rewind cannot bring back what {} was: {why}", path.display());
        core.runtime.observer.event(&core.context, &AgentEvent::Notice(what));
    }
}
