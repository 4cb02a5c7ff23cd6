//! Only what is ours is opened: no links, no pipes, nobody else's files.
//!
//! Owns the opening of files and the making of directories below the state root. Promises that a
//! symlink, a directory, a pipe or a foreign owner is an error that names the path, before a byte
//! is read or written. Never follows a link in the last component; directories above it are
//! checked by [`check_dirs`].

use super::error::StoreError;
use rustix::fs::OFlags;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The mode of our files.
pub const FILE_MODE: u32 = 0o600;
/// The mode of our directories.
pub const DIR_MODE: u32 = 0o700;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// To read; `None` when it is not there.
    Read,
    /// To append and read; made when it is not there.
    Append,
    /// To read and write in place; made when it is not there.
    Update,
    /// To read and write in place; `None` when it is not there.
    UpdateExisting,
}

/// Opens a regular file of ours. Only "not found" gives `None`.
pub fn open(path: &Path, how: Open) -> Result<Option<File>, StoreError> {
    let mut options = OpenOptions::new();
    options.read(true).mode(FILE_MODE);
    match how {
        Open::Read => {}
        Open::Append => drop(options.append(true).create(true)),
        Open::Update => drop(options.write(true).create(true).truncate(false)),
        Open::UpdateExisting => drop(options.write(true)),
    }
    // NONBLOCK: opening a pipe to read must not wait for a writer.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.custom_flags(flags.bits().cast_signed());
    let file = match options.open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound && matches!(how, Open::Read | Open::UpdateExisting) => {
            return Ok(None);
        }
        Err(e) => {
            // What is in the way says more than the system's error for it.
            if let Ok(found) = std::fs::symlink_metadata(path) {
                check_file(path, &found)?;
            }
            return Err(StoreError::io("open", path, e));
        }
    };
    let found = file.metadata().map_err(|e| StoreError::io("inspect", path, e))?;
    check_file(path, &found)?;
    Ok(Some(file))
}

/// Opens to append or update, where a missing file is made.
pub fn open_or_make(path: &Path, how: Open) -> Result<File, StoreError> {
    open(path, how)?.ok_or_else(|| StoreError::NotFound { path: path.to_owned() })
}

/// Refuses what is not a regular file of ours.
pub fn check_file(path: &Path, found: &Metadata) -> Result<(), StoreError> {
    let kind = found.file_type();
    if kind.is_symlink() {
        return Err(not_ours(path, "it is a symbolic link"));
    }
    if kind.is_dir() {
        return Err(not_ours(path, "it is a directory"));
    }
    if !kind.is_file() {
        return Err(not_ours(path, "it is not a regular file"));
    }
    check_owner(path, found)
}

/// Refuses to replace what is not a regular file of ours; nothing there is fine.
pub fn check_target(path: &Path) -> Result<(), StoreError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) => check_file(path, &found),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) => Err(StoreError::io("inspect", path, e)),
    }
}

fn check_owner(path: &Path, found: &Metadata) -> Result<(), StoreError> {
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(not_ours(path, "it belongs to another user"));
    }
    Ok(())
}

fn check_dir(path: &Path, found: &Metadata) -> Result<(), StoreError> {
    if found.file_type().is_symlink() {
        return Err(not_ours(path, "it is a symbolic link"));
    }
    if !found.is_dir() {
        return Err(not_ours(path, "it is not a directory"));
    }
    check_owner(path, found)
}

fn not_ours(path: &Path, why: &'static str) -> StoreError {
    StoreError::NotOurs { path: path.to_owned(), why }
}

/// Checks `root` and every directory from there down to `dir`. One that is not there is fine, and
/// ends the check.
pub fn check_dirs(root: &Path, dir: &Path) -> Result<(), StoreError> {
    for path in chain(root, dir) {
        match std::fs::symlink_metadata(&path) {
            Ok(found) => check_dir(&path, &found)?,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(StoreError::io("inspect", &path, e)),
        }
    }
    Ok(())
}

/// Makes `root` (with whatever is missing above it) and every directory from there down to `dir`,
/// 0700. One of ours that others could enter is closed to them; `root` itself only while it is
/// empty, because a root that was there before may be somebody's home.
pub fn make_dirs(root: &Path, dir: &Path) -> Result<(), StoreError> {
    if let Some(above) = root.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(DIR_MODE)
            .create(above)
            .map_err(|e| StoreError::io("create", above, e))?;
    }
    for path in chain(root, dir) {
        match DirBuilder::new().mode(DIR_MODE).create(&path) {
            Ok(()) => continue,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(StoreError::io("create", &path, e)),
        }
        let found = std::fs::symlink_metadata(&path).map_err(|e| StoreError::io("inspect", &path, e))?;
        check_dir(&path, &found)?;
        let mode = found.permissions().mode();
        if path == root && mode & 0o002 != 0 {
            return Err(not_ours(&path, "everybody may write to it"));
        }
        if mode & 0o077 != 0 && (path != root || is_empty(root)) {
            std::fs::set_permissions(&path, Permissions::from_mode(DIR_MODE))
                .map_err(|e| StoreError::io("close", &path, e))?;
        }
    }
    Ok(())
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

fn chain(root: &Path, dir: &Path) -> Vec<PathBuf> {
    let mut paths = vec![root.to_owned()];
    let mut path = root.to_owned();
    for part in dir.strip_prefix(root).into_iter().flat_map(Path::components) {
        path.push(part);
        paths.push(path.clone());
    }
    paths
}

/// Makes renames and new names in `dir` survive a power cut.
pub fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|d| d.sync_all()).map_err(|e| StoreError::io("sync", dir, e))
}

/// The directory a file is in.
pub fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
