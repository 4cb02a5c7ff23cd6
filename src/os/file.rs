//! Opening and replacing files so that nobody can change what is meant between look and use.
//!
//! Promises: what was opened is a regular file and its real path is known from the open file, not
//! from the name; a replaced file is whole at every moment and keeps mode and owner; while a
//! [`Dir`] is locked no other process of ours replaces a file in it. Never waits for a FIFO, never
//! follows a link in the last component of a replacement.

use super::error::{OsError, on_file};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileType, Metadata};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// Pause between two tries for a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(5);
/// As many links as the kernel follows (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// An open regular file.
#[derive(Debug)]
pub struct Opened {
    /// The file, for reading.
    pub file: File,
    /// Its path, absolute, without links.
    pub path: PathBuf,
    /// Its metadata when it was opened.
    pub meta: Metadata,
}

/// Opens a regular file for reading.
///
/// # Errors
/// [`OsError::NotAFile`] for everything else, [`OsError::File`] with the system's reason.
pub fn open(path: &Path) -> Result<Opened, OsError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| on_file("open", path)(e.into()))?;
    opened(fd, path)
}

fn opened(fd: OwnedFd, path: &Path) -> Result<Opened, OsError> {
    let file = File::from(fd);
    let meta = file.metadata().map_err(on_file("look at", path))?;
    if !meta.is_file() {
        return Err(OsError::NotAFile { path: path.to_owned(), what: kind_name(meta.file_type()) });
    }
    let path = real_path(&file, path)?;
    Ok(Opened { file, path, meta })
}

/// A word for a file type, with its article.
pub fn kind_name(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_fifo() => "a FIFO",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "a file",
    }
}

/// Where an open file really is.
fn real_path(fd: &impl AsRawFd, name: &Path) -> Result<PathBuf, OsError> {
    fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
        .or_else(|_| fs::canonicalize(name))
        .map_err(on_file("resolve", name))
}

/// Takes `.` and `..` out of an absolute path without looking at the disk. `..` below a link is thus
/// taken as people read it, not as the kernel does.
pub fn normalize(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => clean.push(part),
        }
    }
    clean
}

/// An absolute path without links, `.` and `..`, taken apart as the kernel does it. Parts that do not
/// exist are kept as written: where a file would come to lie that is written to `path`. So is a link
/// that leads round in circles; what is opened by such a path is refused by the kernel.
pub fn resolve(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| resolve_parts(path))
}

fn resolve_parts(path: &Path) -> PathBuf {
    let mut todo = parts(path);
    todo.reverse();
    let mut done = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = todo.pop() {
        if part == ".." {
            done.pop();
            continue;
        }
        let next = done.join(&part);
        match fs::read_link(&next) {
            Ok(target) if links < MAX_LINKS => {
                links += 1;
                if target.is_absolute() {
                    done = PathBuf::from("/");
                }
                todo.extend(parts(&target).into_iter().rev());
            }
            _ => done = next,
        }
    }
    done
}

fn parts(path: &Path) -> Vec<OsString> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

/// An open directory whose files can be replaced, addressed by the open directory and not by name.
#[derive(Debug)]
pub struct Dir {
    file: File,
    path: PathBuf,
}

impl Dir {
    /// Opens a directory.
    ///
    /// # Errors
    /// When it does not exist or may not be entered.
    pub fn open(path: &Path) -> Result<Self, OsError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECTORY;
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|e| on_file("open directory", path)(e.into()))?;
        let file = File::from(fd);
        let path = real_path(&file, path)?;
        Ok(Self { file, path })
    }

    /// Its path, absolute, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a regular file in it for reading; `None` when there is none of that name.
    ///
    /// # Errors
    /// As [`open`]; also when the name is a link.
    pub fn open_file(&self, name: &OsStr) -> Result<Option<Opened>, OsError> {
        let path = self.path.join(name);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
        match rustix::fs::openat(&self.file, name, flags, Mode::empty()) {
            Ok(fd) => opened(fd, &path).map(Some),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(errno) => Err(on_file("open", &path)(errno.into())),
        }
    }

    /// Locks it against other replacers (`flock` on the directory itself: no lock file is left
    /// behind). Unlocked when dropped. File systems that cannot lock directories are used without.
    ///
    /// # Errors
    /// [`OsError::Locked`] when it stays locked for `deadline`.
    pub async fn lock(self, deadline: Duration) -> Result<LockedDir, OsError> {
        let until = Instant::now() + deadline;
        let mut dir = self;
        loop {
            dir = match dir.try_lock() {
                Ok(locked) => return Ok(locked),
                Err(held) => held,
            };
            if Instant::now() >= until {
                return Err(OsError::Locked { path: dir.path });
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
    }

    /// One try of the same; it comes back when somebody else holds the lock.
    pub fn try_lock(self) -> Result<LockedDir, Self> {
        match rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => Err(self),
            Ok(()) | Err(_) => Ok(LockedDir { dir: self }),
        }
    }
}

/// A locked [`Dir`].
#[derive(Debug)]
pub struct LockedDir {
    dir: Dir,
}

impl Drop for LockedDir {
    fn drop(&mut self) {
        // Closing would do, were it not for children that are just being forked and still hold it.
        let _ = rustix::fs::flock(&self.dir.file, FlockOperation::Unlock);
    }
}

impl LockedDir {
    /// Its path, absolute, without links.
    pub fn path(&self) -> &Path {
        &self.dir.path
    }

    fn join(&self, name: &OsStr) -> PathBuf {
        self.dir.path.join(name)
    }

    /// See [`Dir::open_file`].
    ///
    /// # Errors
    /// As there.
    pub fn open_file(&self, name: &OsStr) -> Result<Option<Opened>, OsError> {
        self.dir.open_file(name)
    }

    /// Puts a file of this content in the place of `name`: readers see the old one or the new one. A
    /// new file gets the default mode, one that replaces `old` keeps mode and, where permitted,
    /// owner. Where the directory or mount forbids replacing but the file may be written, it is
    /// written in place. Survives the death of every process, not a power cut.
    ///
    /// # Errors
    /// With the system's reason; the old file is then unharmed (unless written in place).
    pub fn replace(&self, name: &OsStr, content: &[u8], old: Option<&Metadata>) -> Result<(), OsError> {
        let path = self.join(name);
        let temporary = format!(".festoon-{}.tmp", Uuid::new_v4().simple());
        let result = self.write_new(&temporary, content, old).and_then(|()| {
            rustix::fs::renameat(&self.dir.file, temporary.as_str(), &self.dir.file, name)
                .map_err(io::Error::from)
        });
        let Err(error) = result else { return Ok(()) };
        let _ = rustix::fs::unlinkat(&self.dir.file, temporary.as_str(), AtFlags::empty());
        if old.is_some() && forbids_replacing(&error) {
            return self.write_in_place(name, content).map_err(on_file("write", &path));
        }
        Err(on_file("write", &path)(error))
    }

    /// Removes a file in it; a link is removed, not followed.
    ///
    /// # Errors
    /// With the system's reason.
    pub fn remove(&self, name: &OsStr) -> Result<(), OsError> {
        rustix::fs::unlinkat(&self.dir.file, name, AtFlags::empty())
            .map_err(|e| on_file("remove", &self.join(name))(e.into()))
    }

    /// Gives a file in it these mode bits.
    ///
    /// # Errors
    /// With the system's reason; also when the name is a link.
    pub fn set_mode(&self, name: &OsStr, mode: u32) -> Result<(), OsError> {
        let Some(opened) = self.open_file(name)? else { return Ok(()) };
        rustix::fs::fchmod(&opened.file, Mode::from_raw_mode(mode & 0o7777))
            .map_err(|e| on_file("set the mode of", &self.join(name))(e.into()))
    }

    fn write_new(&self, name: &str, content: &[u8], old: Option<&Metadata>) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        // Without an old file the kernel applies the umask; with one nobody may peek until its mode is set.
        let mode = if old.is_some() { 0o600 } else { 0o666 };
        let fd = rustix::fs::openat(&self.dir.file, name, flags, Mode::from_raw_mode(mode))?;
        let mut file = File::from(fd);
        file.write_all(content)?;
        if let Some(old) = old {
            let now = file.metadata()?;
            if (now.uid(), now.gid()) != (old.uid(), old.gid()) {
                // Only root may; for others the file becomes theirs.
                let _ = std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()));
            }
            rustix::fs::fchmod(&file, Mode::from_raw_mode(old.mode() & 0o7777))?;
        }
        Ok(())
    }

    fn write_in_place(&self, name: &OsStr, content: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let fd = rustix::fs::openat(&self.dir.file, name, flags, Mode::empty())?;
        File::from(fd).write_all(content)
    }
}

/// A directory that may not be written, a sticky directory of others, a file that is a mount point.
fn forbids_replacing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ResourceBusy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const SOON: Duration = Duration::from_secs(10);

    fn temp() -> (tempfile::TempDir, PathBuf) {
        let temp = tempfile::tempdir().expect("temp");
        let path = fs::canonicalize(temp.path()).expect("real");
        (temp, path)
    }

    #[test]
    fn only_regular_files_are_opened_and_their_real_path_is_told() {
        let (_keep, dir) = temp();
        fs::write(dir.join("real"), "x").expect("write");
        symlink(dir.join("real"), dir.join("link")).expect("link");
        assert_eq!(open(&dir.join("link")).expect("opens").path, dir.join("real"));
        assert!(open(&dir.join("none")).expect_err("absent").is_not_found());
        let made = std::process::Command::new("mkfifo").arg(dir.join("fifo")).status().expect("mkfifo");
        assert!(made.success());
        for (name, what) in [("fifo", "a FIFO"), (".", "a directory")] {
            let error = open(&dir.join(name)).expect_err("refused");
            assert!(matches!(error, OsError::NotAFile { what: found, .. } if found == what), "{error}");
        }
    }

    #[test]
    fn a_path_that_is_not_there_yet_is_resolved_through_its_links() {
        let (_keep, dir) = temp();
        fs::create_dir(dir.join("real")).expect("dir");
        symlink("real", dir.join("link")).expect("link");
        symlink("../else/where", dir.join("real/dangling")).expect("link");
        symlink("round", dir.join("round")).expect("link");
        symlink(dir.join("gone/deep"), dir.join("far")).expect("link");
        let resolved = |name: &str| resolve(&dir.join(name));
        assert_eq!(resolved("link"), dir.join("real"));
        assert_eq!(resolved("link/../link/./new/file"), dir.join("real/new/file"));
        assert_eq!(resolved("link/dangling"), dir.join("else/where"));
        assert_eq!(resolved("far/x"), dir.join("gone/deep/x"));
        assert_eq!(resolved("link/../../etc"), dir.parent().expect("parent").join("etc"));
        assert_eq!(resolved("round"), dir.join("round"));
        assert!(open(&resolved("round")).is_err());
        assert_eq!(normalize(Path::new("/a/./b/../../../c")), Path::new("/c"));
    }

    #[tokio::test]
    async fn replacing_keeps_the_mode_and_leaves_nothing_behind() {
        let (_keep, dir) = temp();
        let name = OsStr::new("a b\nc.sh");
        let path = dir.join(name);
        let locked = Dir::open(&dir).expect("dir").lock(SOON).await.expect("lock");
        locked.replace(name, b"one", None).expect("new");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).expect("mode");
        let old = locked.open_file(name).expect("opens").expect("is there");
        locked.replace(name, b"two", Some(&old.meta)).expect("replaced");
        assert_eq!(fs::read(&path).expect("read"), b"two");
        assert_eq!(fs::metadata(&path).expect("meta").mode() & 0o7777, 0o750);
        assert_ne!(fs::metadata(&path).expect("meta").ino(), old.meta.ino(), "not written in place");
        assert_eq!(fs::read_dir(&dir).expect("list").count(), 1);
    }

    #[tokio::test]
    async fn one_locks_at_a_time() {
        let (_keep, dir) = temp();
        let first = Dir::open(&dir).expect("dir").lock(SOON).await.expect("lock");
        let second = Dir::open(&dir).expect("dir").lock(Duration::from_millis(20)).await;
        assert!(matches!(second, Err(OsError::Locked { .. })));
        drop(first);
        Dir::open(&dir).expect("dir").lock(SOON).await.expect("free again");
    }

    #[tokio::test]
    async fn a_link_in_the_last_place_is_not_followed() {
        let (_keep, dir) = temp();
        fs::write(dir.join("target"), "t").expect("write");
        symlink("target", dir.join("link")).expect("link");
        let locked = Dir::open(&dir).expect("dir").lock(SOON).await.expect("lock");
        assert!(locked.open_file(OsStr::new("link")).is_err());
        assert!(locked.open_file(OsStr::new("none")).expect("looked").is_none());
        assert!(locked.set_mode(OsStr::new("link"), 0o600).is_err());
        locked.set_mode(OsStr::new("target"), 0o640).expect("mode");
        assert_eq!(fs::metadata(dir.join("target")).expect("meta").permissions().mode() & 0o7777, 0o640);
        locked.remove(OsStr::new("link")).expect("removed");
        assert!(dir.join("target").exists() && fs::symlink_metadata(dir.join("link")).is_err());
    }
}
