//! Locks between processes: `flock` on a file that stays.
//!
//! Owns how a lock is taken: by trying, a short random wait between tries, a deadline. The lock
//! file is made once and never removed, because a lock on a file that another process has unlinked
//! excludes nobody; that the path still names the locked file is checked after each try. Promises
//! that a lock is given back when the closure ends, by an unlock and not by the close, which a
//! forked child could delay. Never blocks in the kernel, so that every wait can end.

use super::error::StoreError;
use super::own::{self, Open};
use fd_lock::RwLock;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Tries that only yield the processor: most holders are done within 100 µs.
const QUICK_TRIES: u32 = 3;
/// How long [`hold_for_life`] tries: longer than somebody needs to look whether it is held.
const LIFE_PATIENCE: Duration = Duration::from_millis(250);

/// How long to try for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// One try; the caller comes again later.
    Once,
    /// Until so long has passed, then it is an error.
    For(Duration),
}

/// Whether a missing lock file is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// Make it.
    Make,
    /// It is an error: what it guards is not there.
    Refuse,
}

/// Runs `f` while holding the lock; waits at most `deadline` for it.
pub fn with_lock<T>(
    path: &Path,
    deadline: Duration,
    f: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    with_locked_file(path, Missing::Make, Patience::For(deadline), |_| f())?
        .ok_or_else(|| StoreError::LockTimeout { path: path.to_owned(), waited: deadline })
}

/// The same with as much patience as wanted and the lock file in hand. `None` only with [`Patience::Once`].
pub(super) fn with_locked_file<T>(
    path: &Path,
    missing: Missing,
    patience: Patience,
    f: impl FnOnce(&File) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    let begun = Instant::now();
    let mut tries = 0;
    'open: loop {
        let mut lock = RwLock::new(open(path, missing)?);
        loop {
            match lock.try_write() {
                Ok(guard) => {
                    if !still_named(&guard, path)? {
                        continue 'open;
                    }
                    let done = f(&guard);
                    drop(guard); // unlocks
                    return done.map(Some);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(StoreError::io("lock", path, e)),
            }
            match patience {
                Patience::Once => return Ok(None),
                Patience::For(deadline) if begun.elapsed() >= deadline => {
                    return Err(StoreError::LockTimeout { path: path.to_owned(), waited: begun.elapsed() });
                }
                Patience::For(_) => {}
            }
            tries += 1;
            if tries <= QUICK_TRIES { std::thread::yield_now() } else { pause() }
        }
    }
}

/// Runs `f` while holding a lock on the file itself: only for files that are appended to and
/// never replaced or removed.
pub(super) fn with_own_lock<T>(
    file: &mut File,
    path: &Path,
    deadline: Duration,
    f: impl FnOnce(&mut File) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let begun = Instant::now();
    let mut lock = RwLock::new(file);
    let mut tries = 0;
    loop {
        match lock.try_write() {
            Ok(mut guard) => return f(&mut guard),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return Err(StoreError::io("lock", path, e)),
        }
        if begun.elapsed() >= deadline {
            return Err(StoreError::LockTimeout { path: path.to_owned(), waited: begun.elapsed() });
        }
        tries += 1;
        if tries <= QUICK_TRIES { std::thread::yield_now() } else { pause() }
    }
}

/// The locks of [`hold_for_life`], by their path.
static HELD: Mutex<Vec<(PathBuf, File)>> = Mutex::new(Vec::new());

/// Takes a lock that the end of this process gives back, or [`release`], and writes `note` into the file,
/// for people. `false` when another process, or this one, holds it.
pub fn hold_for_life(path: &Path, note: &str) -> Result<bool, StoreError> {
    let begun = Instant::now();
    'open: loop {
        let mut lock = RwLock::new(open(path, Missing::Make)?);
        loop {
            match lock.try_write() {
                Ok(guard) => {
                    if !still_named(&guard, path)? {
                        continue 'open;
                    }
                    std::mem::forget(guard); // no unlock here
                    break;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(StoreError::io("lock", path, e)),
            }
            if begun.elapsed() >= LIFE_PATIENCE {
                return Ok(false);
            }
            pause();
        }
        let file = lock.into_inner();
        let written = file.set_len(0).and_then(|()| file.write_all_at(note.as_bytes(), 0));
        // Not closed, for the same reason.
        HELD.lock().unwrap_or_else(PoisonError::into_inner).push((path.to_owned(), file));
        return written.map(|()| true).map_err(|e| StoreError::io("write", path, e));
    }
}

/// Gives a lock of [`hold_for_life`] back: this process has left what it guards. One that is not held is
/// fine.
pub fn release(path: &Path) {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    while let Some(at) = held.iter().position(|(held, _)| held == path) {
        let mut lock = RwLock::new(held.swap_remove(at).1);
        // Taken again through the same open file, which always succeeds, and unlocked by the guard.
        drop(lock.try_write());
    }
}

/// Whether somebody holds the lock now. A file that is not there is held by nobody.
pub fn is_held(path: &Path) -> Result<bool, StoreError> {
    let Some(file) = own::open(path, Open::Read)? else { return Ok(false) };
    let lock = RwLock::new(file);
    loop {
        // Shared, so that two who look do not see each other.
        let answer = match lock.try_read() {
            Ok(_) => Ok(false),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(true),
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => Err(StoreError::io("lock", path, e)),
        };
        return answer;
    }
}

/// Whether somebody holds the lock now and still does after a while. What a process that has just died
/// was starting keeps its locks for the moment until the new program runs.
pub fn stays_held(path: &Path) -> Result<bool, StoreError> {
    let begun = Instant::now();
    while is_held(path)? {
        if begun.elapsed() >= LIFE_PATIENCE {
            return Ok(true);
        }
        pause();
    }
    Ok(false)
}

fn open(path: &Path, missing: Missing) -> Result<File, StoreError> {
    match missing {
        Missing::Make => own::open_or_make(path, Open::Update),
        Missing::Refuse => own::open_or_make(path, Open::UpdateExisting),
    }
}

/// Whether `path` is still the file that was locked: its directory may have been removed and made again.
fn still_named(file: &File, path: &Path) -> Result<bool, StoreError> {
    let ours = file.metadata().map_err(|e| StoreError::io("inspect", path, e))?;
    match std::fs::symlink_metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (ours.dev(), ours.ino())),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(StoreError::io("inspect", path, e)),
    }
}

/// 1 to 10 ms (spec §24), at random: equal waits would meet again and again.
#[expect(clippy::disallowed_methods, reason = "the wait between tries; its loop has the deadline")]
fn pause() {
    let random = RandomState::new().build_hasher().finish();
    std::thread::sleep(Duration::from_micros(1_000 + random % 9_000));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn one_holder_at_a_time_and_the_file_stays() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("a.lock");
        let inside = AtomicU32::new(0);
        let done = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        with_lock(&path, Duration::from_secs(10), || {
                            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                            std::thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                            done.fetch_add(1, Ordering::SeqCst);
                            Ok(())
                        })
                        .expect("gets the lock");
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 200);
        assert!(path.exists());
    }

    #[test]
    fn a_held_lock_is_an_error_after_the_deadline_and_none_for_one_try() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("a.lock");
        assert!(!is_held(&path).expect("looks"));
        let once = || with_locked_file(&path, Missing::Make, Patience::Once, |_| Ok(1)).expect("tries");
        with_lock(&path, Duration::ZERO, || {
            assert!(is_held(&path).expect("looks"));
            assert!(stays_held(&path).expect("looks"));
            assert_eq!(once(), None);
            let late = with_lock(&path, Duration::from_millis(20), || Ok(()));
            assert!(matches!(late, Err(StoreError::LockTimeout { .. })), "{late:?}");
            Ok(())
        })
        .expect("gets the lock");
        assert!(!is_held(&path).expect("looks"));
        assert!(!stays_held(&path).expect("looks"));
        assert_eq!(once(), Some(1));
    }

    #[test]
    fn a_panic_inside_gives_the_lock_back() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("a.lock");
        let panicked = std::panic::catch_unwind(|| {
            with_lock(&path, Duration::ZERO, || -> Result<(), StoreError> { panic!("inside") })
        });
        assert!(panicked.is_err());
        assert!(!is_held(&path).expect("looks"));
    }

    #[test]
    fn a_lock_for_life_is_refused_a_second_time_and_says_who_has_it() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("leader.lock");
        assert!(hold_for_life(&path, "pid 1\n").expect("first"));
        assert!(!hold_for_life(&path, "pid 2\n").expect("second"));
        assert!(is_held(&path).expect("looks"));
        assert_eq!(std::fs::read_to_string(&path).expect("reads"), "pid 1\n");
    }

    #[test]
    fn a_lock_file_that_was_replaced_is_opened_again() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("a.lock");
        std::fs::write(&path, "").expect("writes");
        let old = File::open(&path).expect("opens");
        assert!(still_named(&old, &path).expect("compares"));
        std::fs::rename(&path, dir.path().join("b.lock")).expect("renames");
        assert!(!still_named(&old, &path).expect("compares"));
        std::fs::write(&path, "").expect("writes");
        assert!(!still_named(&old, &path).expect("compares"));
        let refused = with_locked_file(&dir.path().join("c"), Missing::Refuse, Patience::Once, |_| Ok(()));
        assert!(matches!(refused, Err(StoreError::NotFound { .. })), "{refused:?}");
    }
}
