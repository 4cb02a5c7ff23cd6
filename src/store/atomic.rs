//! Files that are replaced whole, or created once.
//!
//! Owns the temporary files beside their targets. Promises that a reader without a lock sees the
//! old content or the new, never a mixture, whatever dies in between; files are 0600. Never writes
//! through a link and never follows one.

use super::error::StoreError;
use super::own::{self, Open};
use crate::wire::settings::Durability;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{DirBuilder, Metadata, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};
use tempfile::NamedTempFile;

/// How temporary files begin; their names end in `.tmp`.
const TEMP_PREFIX: &str = ".new-";
/// Age from which a temporary file has lost its writer.
const TEMP_LIFE: Duration = Duration::from_secs(60);

/// Replaces `path`, or makes it, with `bytes`.
pub fn replace(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), StoreError> {
    own::check_target(path)?;
    let temp = written(path, bytes, durability)?;
    temp.persist(path).map_err(|e| StoreError::io("replace", path, e.error))?;
    settle(path, durability)
}

/// Makes `path` with `bytes` unless it is there: `false` then, and nothing has changed. Nobody
/// sees a part of it.
pub fn create_exclusive(path: &Path, bytes: &[u8], durability: Durability) -> Result<bool, StoreError> {
    let temp = written(path, bytes, durability)?;
    match temp.persist_noclobber(path) {
        Ok(_) => {}
        Err(e) if e.error.kind() == ErrorKind::AlreadyExists => return Ok(false),
        Err(e) => return Err(StoreError::io("create", path, e.error)),
    }
    settle(path, durability)?;
    Ok(true)
}

/// Replaces `path` by way of the one temporary file `temp`, which a killed writer may have left.
/// Only for writers that hold a lock. Gives what the system says of the new file.
pub(super) fn replace_locked(
    path: &Path,
    temp: &Path,
    bytes: &[u8],
    durability: Durability,
) -> Result<Metadata, StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(own::FILE_MODE);
    let mut file = match options.open(temp) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            std::fs::remove_file(temp).map_err(|e| StoreError::io("remove", temp, e))?;
            options.open(temp)
        }
        opened => opened,
    }
    .map_err(|e| StoreError::io("create", temp, e))?;
    let stored = (|| {
        file.write_all(bytes)?;
        if durability == Durability::Disk {
            file.sync_data()?;
        }
        let found = file.metadata()?;
        std::fs::rename(temp, path)?;
        Ok(found)
    })();
    let found = stored.map_err(|e| {
        drop(std::fs::remove_file(temp)); // the next writer would do it
        StoreError::io("replace", path, e)
    })?;
    settle(path, durability)?;
    Ok(found)
}

/// Reads a file of ours; `None` only when it is not there.
pub fn read_optional(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(mut file) = own::open(path, Open::Read)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|e| StoreError::io("read", path, e))?;
    Ok(Some(bytes))
}

/// Reads a JSON file; `None` only when it is not there.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StoreError> {
    let Some(bytes) = read_optional(path)? else { return Ok(None) };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|e| StoreError::Corrupt { path: path.to_owned(), why: e.to_string() })
}

/// A value as the content of a JSON file: indented, for people.
pub fn pretty<T: Serialize>(path: &Path, value: &T) -> Result<Vec<u8>, StoreError> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|e| StoreError::invalid(path, e))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Replaces a JSON file.
pub fn write_json<T: Serialize>(path: &Path, value: &T, durability: Durability) -> Result<(), StoreError> {
    replace(path, &pretty(path, value)?, durability)
}

/// Removes temporary files in `dir` whose writers died.
pub fn sweep(dir: &Path) -> Result<(), StoreError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(StoreError::io("list", dir, e)),
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let old = |time: SystemTime| time.elapsed().is_ok_and(|age| age > TEMP_LIFE);
        let lost = name.to_string_lossy().starts_with(TEMP_PREFIX)
            && entry.metadata().and_then(|m| m.modified()).is_ok_and(old);
        if lost {
            drop(std::fs::remove_file(entry.path())); // another sweeper may have been faster
        }
    }
    Ok(())
}

/// Makes a directory and what is missing above it, 0700, below a directory that is ours already. Refuses a link
/// in its place, which would lead elsewhere what is written there.
pub fn make_dir(dir: &Path) -> Result<(), StoreError> {
    own::check_dirs(dir, dir)?;
    DirBuilder::new()
        .recursive(true)
        .mode(own::DIR_MODE)
        .create(dir)
        .map_err(|e| StoreError::io("create", dir, e))
}

fn written(path: &Path, bytes: &[u8], durability: Durability) -> Result<NamedTempFile, StoreError> {
    let dir = own::dir_of(path);
    let mut temp = tempfile::Builder::new()
        .prefix(TEMP_PREFIX)
        .suffix(".tmp")
        .tempfile_in(dir)
        .map_err(|e| StoreError::io("create a file in", dir, e))?;
    let stored = temp.write_all(bytes).and_then(|()| match durability {
        Durability::Process => Ok(()),
        Durability::Disk => temp.as_file().sync_data(),
    });
    stored.map_err(|e| StoreError::io("write", path, e))?;
    Ok(temp)
}

fn settle(path: &Path, durability: Durability) -> Result<(), StoreError> {
    match durability {
        Durability::Process => Ok(()),
        Durability::Disk => own::sync_dir(own::dir_of(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::team::make_pipe;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    fn names(dir: &Path) -> Vec<PathBuf> {
        let mut names: Vec<PathBuf> =
            std::fs::read_dir(dir).expect("lists").map(|e| e.expect("entry").path()).collect();
        names.sort();
        names
    }

    #[test]
    fn replacing_leaves_nothing_but_the_file_and_closes_it_to_others() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("a.json");
        for (bytes, durability) in [(&b"1"[..], Durability::Process), (b"22", Durability::Disk)] {
            replace(&path, bytes, durability).expect("replaces");
            assert_eq!(read_optional(&path).expect("reads").as_deref(), Some(bytes));
        }
        assert_eq!(std::fs::metadata(&path).expect("stat").permissions().mode() & 0o777, 0o600);
        assert_eq!(names(dir.path()), [path]);
    }

    #[test]
    fn only_the_first_creates() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("d.json");
        let wins: Vec<bool> = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..8)
                .map(|i| {
                    let path = &path;
                    scope.spawn(move || {
                        create_exclusive(path, format!("{i}{i}").as_bytes(), Durability::Process)
                            .expect("creates or not")
                    })
                })
                .collect();
            tries.into_iter().map(|t| t.join().expect("joins")).collect()
        });
        let winner = wins.iter().position(|w| *w).expect("one wins");
        assert_eq!(wins.iter().filter(|w| **w).count(), 1);
        let content = read_optional(&path).expect("reads").expect("is there");
        assert_eq!(content, format!("{winner}{winner}").as_bytes());
        assert_eq!(names(dir.path()), [path]);
    }

    #[test]
    fn what_is_not_a_file_of_ours_is_refused_and_only_absence_is_none() {
        let dir = tempfile::tempdir().expect("temp dir");
        let real = dir.path().join("real");
        std::fs::write(&real, "x").expect("writes");
        let link = dir.path().join("link");
        symlink(&real, &link).expect("links");
        let dangling = dir.path().join("dangling");
        symlink(dir.path().join("nothing"), &dangling).expect("links");
        let folder = dir.path().join("folder");
        std::fs::create_dir(&folder).expect("makes");
        let pipe = dir.path().join("pipe");
        make_pipe(&pipe);
        for path in [&link, &dangling, &folder, &pipe] {
            let read = read_optional(path);
            assert!(matches!(&read, Err(StoreError::NotOurs { path: p, .. }) if p == path), "{read:?}");
            let write = replace(path, b"y", Durability::Process);
            assert!(matches!(&write, Err(StoreError::NotOurs { path: p, .. }) if p == path), "{write:?}");
        }
        assert_eq!(std::fs::read(&real).expect("reads"), b"x");
        assert_eq!(read_optional(&dir.path().join("nothing")).expect("absent"), None);
        let below_a_file = read_optional(&real.join("x"));
        assert!(matches!(below_a_file, Err(StoreError::Io { .. })), "{below_a_file:?}");
    }

    #[test]
    fn a_file_of_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return; // only root can make one
        }
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("a");
        std::fs::write(&path, "x").expect("writes");
        std::os::unix::fs::chown(&path, Some(65534), None).expect("gives away");
        let read = read_optional(&path);
        assert!(
            matches!(read, Err(StoreError::NotOurs { why: "it belongs to another user", .. })),
            "{read:?}"
        );
    }

    #[test]
    fn a_left_over_temporary_file_is_in_nobodys_way() {
        let dir = tempfile::tempdir().expect("temp dir");
        let (path, temp) = (dir.path().join("a"), dir.path().join(".a.tmp"));
        let elsewhere = dir.path().join("elsewhere");
        symlink(&elsewhere, &temp).expect("links");
        replace_locked(&path, &temp, b"1", Durability::Disk).expect("replaces");
        assert_eq!(std::fs::read(&path).expect("reads"), b"1");
        assert_eq!(names(dir.path()), [path]);
        let young = dir.path().join(".new-x.tmp");
        std::fs::write(&young, "").expect("writes");
        sweep(dir.path()).expect("sweeps");
        assert!(young.exists());
        let long_ago = SystemTime::now() - Duration::from_secs(120);
        std::fs::File::open(&young).and_then(|f| f.set_modified(long_ago)).expect("ages");
        sweep(dir.path()).expect("sweeps");
        assert!(!young.exists());
    }
}
