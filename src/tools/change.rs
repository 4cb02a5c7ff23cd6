//! Changing a file: what `Write`, `Edit` and `NotebookEdit` have in common.
//!
//! Promises that an existing file is changed only in the state in which the agent has read it, that
//! no two agents of ours change it at once, that a link leads to a change of what it points to, and
//! that nothing is written below a closed directory, also when links change meanwhile.

use super::context::{Former, ToolContext};
use super::file_cache::FileState;
use super::read::MAX_KNOWN;
use super::tool::ToolOutput;
use super::{path, work};
use crate::os::error::OsError;
use crate::os::file::{self, Dir, LockedDir, Opened};
use crate::wire::limits::{CHECKPOINT_FILE_BYTES, LOCK_DEADLINE};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What the file was before.
pub(super) enum Before {
    /// It did not exist.
    Absent,
    /// It had this content, which the agent knows.
    Content(Vec<u8>),
}

/// Whether directories that are missing are made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Parents {
    Make,
    Need,
}

/// New content and what to tell the model.
pub(super) struct Change {
    pub content: Vec<u8>,
    pub told: String,
}

/// Changes the file an input names. `make` is asked for the new content once the file is locked; its
/// error is told as it is. Once the writing has begun it is not cancelled.
pub(super) async fn change(
    ctx: &ToolContext,
    path: PathBuf,
    parents: Parents,
    make: impl FnOnce(Before) -> Result<Change, String> + Send + 'static,
) -> Result<ToolOutput, ToolOutput> {
    if ctx.cancel.is_cancelled() {
        return Err(ToolOutput::error(work::CANCELLED));
    }
    let owned = ctx.clone();
    let named = path.clone();
    let (dir, name) = work::reading(&ctx.cancel, move || open_dir(&owned, &named, parents)).await??;
    let locked = tokio::select! {
        locked = dir.lock(LOCK_DEADLINE) => locked.map_err(failed)?,
        () = ctx.cancel.cancelled() => return Err(ToolOutput::error(work::CANCELLED)),
    };
    let owned = ctx.clone();
    work::blocking(move || locked_change(&owned, &locked, &name, &path, make)).await?
}

/// What a change of the file would fail with: looks without a lock, and changes nothing.
pub(super) async fn check(
    ctx: &ToolContext,
    path: PathBuf,
    parents: Parents,
    make: impl FnOnce(Before) -> Result<Change, String> + Send + 'static,
) -> Result<(), ToolOutput> {
    let owned = ctx.clone();
    work::reading(&ctx.cancel, move || looked_at(&owned, &path, parents, make)).await?
}

fn looked_at(
    ctx: &ToolContext,
    path: &Path,
    parents: Parents,
    make: impl FnOnce(Before) -> Result<Change, String>,
) -> Result<(), ToolOutput> {
    let to_make = parents == Parents::Make && file::resolve(path).parent().is_some_and(|dir| !dir.exists());
    let before = if to_make {
        Before::Absent
    } else {
        let (dir, name) = open_dir(ctx, path, Parents::Need)?;
        match dir.open_file(&name).map_err(failed)? {
            None => Before::Absent,
            Some(opened) => Before::Content(known_content(ctx, &opened, path)?),
        }
    };
    make(before).map(drop).map_err(ToolOutput::error)
}

fn failed(error: OsError) -> ToolOutput {
    ToolOutput::error(format!("Nothing was changed: {error}."))
}

/// Opens the directory in which the file really lies.
fn open_dir(ctx: &ToolContext, path: &Path, parents: Parents) -> Result<(Dir, OsString), ToolOutput> {
    let real = file::resolve(path);
    path::refuse_closed(ctx, &real)?;
    path::refuse_other(ctx, &real)?;
    let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(ToolOutput::error(format!("{} is a directory.", real.display())));
    };
    if parents == Parents::Make {
        fs::create_dir_all(parent).map_err(|error| {
            ToolOutput::error(format!("Nothing was changed: make directory {}: {error}.", parent.display()))
        })?;
    }
    let dir = Dir::open(parent).map_err(|error| path::open_failed(ctx, path, &error))?;
    // Asked of the open directory: a link may have been put in its place since.
    path::refuse_closed(ctx, dir.path())?;
    if dir.path() != parent {
        return Err(ToolOutput::error(format!(
            "Nothing was changed: {} was moved or replaced by a link at this moment.",
            parent.display()
        )));
    }
    Ok((dir, name.to_owned()))
}

fn locked_change(
    ctx: &ToolContext,
    dir: &LockedDir,
    name: &OsStr,
    path: &Path,
    make: impl FnOnce(Before) -> Result<Change, String>,
) -> Result<ToolOutput, ToolOutput> {
    let real = dir.path().join(name);
    let opened = dir.open_file(name).map_err(failed)?;
    let before = match &opened {
        None => Before::Absent,
        Some(opened) => Before::Content(known_content(ctx, opened, path)?),
    };
    let former = ctx.checkpoints.wants(&real).then(|| former(&before, opened.as_ref()));
    let change = make(before).map_err(ToolOutput::error)?;
    if let Some(opened) = &opened {
        // An editor may have written while the change was made.
        let now = dir.open_file(name).map_err(failed)?;
        if now.is_none_or(|now| stamp(&now) != stamp(opened)) {
            return Err(changed(path));
        }
    }
    if let Some(former) = former {
        ctx.checkpoints.keep(&real, former);
    }
    let meta = opened.as_ref().map(|opened| &opened.meta);
    dir.replace(name, &change.content, meta).map_err(failed)?;
    let modified = fs::metadata(&real).and_then(|meta| meta.modified()).ok();
    ctx.files.record(&real, FileState::of(&change.content, modified));
    Ok(ToolOutput::ok(change.told))
}

/// What is kept of a file before it is changed.
fn former(before: &Before, opened: Option<&Opened>) -> Former {
    use std::os::unix::fs::MetadataExt;
    match before {
        Before::Absent => Former::Absent,
        Before::Content(bytes) if bytes.len() as u64 > CHECKPOINT_FILE_BYTES => {
            Former::TooLarge(bytes.len() as u64)
        }
        Before::Content(bytes) => {
            let mode = opened.map_or(0o644, |opened| opened.meta.mode() & 0o7777);
            Former::Content { bytes: bytes.clone(), mode }
        }
    }
}

/// Tells two states of a file apart that were looked at shortly after one another.
fn stamp(opened: &Opened) -> (u64, u64, i64, i64) {
    use std::os::unix::fs::MetadataExt;
    let meta = &opened.meta;
    (meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec())
}

fn known_content(ctx: &ToolContext, opened: &Opened, path: &Path) -> Result<Vec<u8>, ToolOutput> {
    let Some(known) = ctx.files.state(&opened.path) else {
        return Err(ToolOutput::error(format!(
            "{} exists and you have not read it (or long ago). Read it first; nothing was changed.",
            path.display()
        )));
    };
    if opened.meta.len() > MAX_KNOWN {
        return Err(ToolOutput::error(format!(
            "{} is too large for this tool ({} bytes). Change it with Bash.",
            path.display(),
            opened.meta.len()
        )));
    }
    let mut content = Vec::new();
    (&opened.file).read_to_end(&mut content).map_err(|error| {
        ToolOutput::error(format!("Nothing was changed: reading {} failed: {error}.", path.display()))
    })?;
    if !FileState::of(&content, None).same_content(&known) {
        return Err(changed(path));
    }
    Ok(content)
}

fn changed(path: &Path) -> ToolOutput {
    ToolOutput::error(format!(
        "{} has changed since you read it: somebody else wrote to it. Read it again before you change it; nothing was \
         changed.",
        path.display()
    ))
}
