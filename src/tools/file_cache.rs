//! What an agent has read and in which state: `Edit` and `Write` need a prior `Read` of that state.
//!
//! Holds hashes, not contents. Bounded by files and by the bytes they stand for (spec §24); what was
//! used longest ago is forgotten first and has to be read again. Never touches the disk.

use crate::wire::limits::{FILE_CACHE_BYTES, FILE_CACHE_FILES};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// The state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    /// When it was last written, where the file system tells.
    pub modified: Option<SystemTime>,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of its content.
    pub hash: [u8; 32],
}

impl FileState {
    /// The state of a file with this content.
    pub fn of(content: &[u8], modified: Option<SystemTime>) -> Self {
        let size = u64::try_from(content.len()).unwrap_or(u64::MAX);
        Self { modified, size, hash: Sha256::digest(content).into() }
    }

    /// Whether the content is the same; a file that was only touched has not changed.
    pub fn same_content(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

/// The files an agent has read, by their real path. A clone (for a fork) goes its own way.
#[derive(Debug, Default)]
pub struct FileCache {
    entries: Mutex<Entries>,
}

#[derive(Debug, Default, Clone)]
struct Entries {
    files: HashMap<PathBuf, (FileState, u64)>,
    bytes: u64,
    /// Counts uses; the smallest is the oldest.
    clock: u64,
}

impl Clone for FileCache {
    fn clone(&self) -> Self {
        Self { entries: Mutex::new(self.lock().clone()) }
    }
}

impl FileCache {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the agent knows this state of the file.
    pub fn record(&self, path: &Path, state: FileState) {
        let mut entries = self.lock();
        entries.forget(path);
        entries.clock += 1;
        let now = entries.clock;
        entries.files.insert(path.to_owned(), (state, now));
        entries.bytes += state.size;
        while entries.files.len() > FILE_CACHE_FILES
            || (entries.bytes > FILE_CACHE_BYTES as u64 && entries.files.len() > 1)
        {
            let Some(oldest) = entries.by_age().into_iter().next() else { break };
            entries.forget(&oldest);
        }
    }

    /// The state the agent knows.
    pub fn state(&self, path: &Path) -> Option<FileState> {
        let mut entries = self.lock();
        entries.clock += 1;
        let now = entries.clock;
        let (state, used) = entries.files.get_mut(path)?;
        *used = now;
        Some(*state)
    }

    /// Forgets a file.
    pub fn forget(&self, path: &Path) {
        self.lock().forget(path);
    }

    /// Forgets all of them.
    pub fn clear(&self) {
        *self.lock() = Entries::default();
    }

    /// All known files, the last used first.
    pub fn recent(&self) -> Vec<PathBuf> {
        let mut paths = self.lock().by_age();
        paths.reverse();
        paths
    }
}

impl Entries {
    fn forget(&mut self, path: &Path) {
        if let Some((state, _)) = self.files.remove(path) {
            self.bytes -= state.size;
        }
    }

    fn by_age(&self) -> Vec<PathBuf> {
        let mut paths: Vec<_> = self.files.iter().map(|(path, (_, used))| (*used, path.clone())).collect();
        paths.sort();
        paths.into_iter().map(|(_, path)| path).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(size: u64) -> FileState {
        FileState { modified: None, size, hash: [0; 32] }
    }

    fn path(number: usize) -> PathBuf {
        PathBuf::from(format!("/f/{number}"))
    }

    #[test]
    fn the_hundred_last_used_files_are_known() {
        let cache = FileCache::default();
        for number in 0..FILE_CACHE_FILES {
            cache.record(&path(number), sized(1));
        }
        assert_eq!(cache.state(&path(0)), Some(sized(1)));
        cache.record(&path(1000), sized(1));
        assert_eq!(cache.state(&path(1)), None, "1 was used longest ago");
        assert_eq!(cache.state(&path(0)), Some(sized(1)));
        assert_eq!(cache.recent().len(), FILE_CACHE_FILES);
        assert_eq!(cache.recent()[..2], [path(0), path(1000)]);
    }

    #[test]
    fn bytes_are_bounded_but_the_last_file_stays() {
        let cache = FileCache::default();
        cache.record(&path(1), sized(1));
        cache.record(&path(2), sized(FILE_CACHE_BYTES as u64));
        assert_eq!(cache.recent(), [path(2)]);
        cache.record(&path(2), sized(3));
        cache.record(&path(3), sized(FILE_CACHE_BYTES as u64 - 3));
        assert_eq!(cache.recent(), [path(3), path(2)]);
        cache.record(&path(4), sized(u64::from(u32::MAX)));
        assert_eq!(cache.recent(), [path(4)]);
    }

    #[test]
    fn a_clone_goes_its_own_way() {
        let cache = FileCache::default();
        cache.record(&path(1), sized(1));
        let fork = cache.clone();
        fork.record(&path(2), sized(1));
        cache.forget(&path(1));
        assert_eq!((cache.recent(), fork.recent()), (vec![], vec![path(2), path(1)]));
    }
}
