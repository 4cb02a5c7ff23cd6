//! What was read of small files, kept as long as they look the same.
//!
//! For whoever looks at many files again and again of which few change: a look costs a `stat` instead of
//! reading and parsing. Promises never to give what a file no longer holds: a file that changed within
//! [`SAME_TIME`] is read again, since a second change within the clock's tick may not show.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Two changes within so long may leave the same time on a file: the tick of the kernel, with room.
pub(super) const SAME_TIME: Duration = Duration::from_millis(100);

/// Device, inode, length, time of the content, time of the inode.
type Look = (u64, u64, u64, (i64, i64), (i64, i64));

/// Values by the file they were read from.
#[derive(Debug)]
pub struct Seen<T>(HashMap<PathBuf, (Look, T)>);

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Clone> Seen<T> {
    /// What `read` gives for the file at `path`, or gave when it looked as it does now. What is absent and
    /// what fails is not kept.
    pub fn read<E>(&mut self, path: &Path, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let found = std::fs::symlink_metadata(path).ok();
        let now = found.as_ref().map(look);
        if let Some((before, value)) = self.0.get(path)
            && now.as_ref() == Some(before)
        {
            return Ok(value.clone());
        }
        let is_old = |m: &Metadata| {
            m.modified().ok().and_then(|t| t.elapsed().ok()).is_some_and(|age| age > SAME_TIME)
        };
        let value = read()?;
        match now.filter(|_| found.as_ref().is_some_and(is_old)) {
            Some(now) => drop(self.0.insert(path.to_owned(), (now, value.clone()))),
            None => drop(self.0.remove(path)),
        }
        Ok(value)
    }
}

fn look(m: &Metadata) -> Look {
    (m.dev(), m.ino(), m.len(), (m.mtime(), m.mtime_nsec()), (m.ctime(), m.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    /// As if it had last changed an hour ago.
    fn write_old(path: &Path, text: &str) {
        std::fs::write(path, text).expect("writes");
        let file = std::fs::File::options().write(true).open(path).expect("opens");
        file.set_modified(SystemTime::now() - Duration::from_secs(3_600)).expect("sets");
    }

    #[test]
    fn a_file_is_read_once_as_long_as_it_looks_the_same_and_is_old() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("a");
        let mut seen = Seen::default();
        let mut reads = 0;
        let mut read = |seen: &mut Seen<String>| {
            seen.read(&path, || {
                reads += 1;
                std::fs::read_to_string(&path).map(|text| format!("{text} {reads}"))
            })
            .map_err(|e| e.kind())
        };
        assert_eq!(read(&mut seen), Err(std::io::ErrorKind::NotFound));
        write_old(&path, "one");
        assert_eq!(read(&mut seen), Ok("one 2".to_owned()));
        assert_eq!(read(&mut seen), Ok("one 2".to_owned()), "not read again");
        write_old(&path, "two");
        assert_eq!(read(&mut seen), Ok("two 3".to_owned()));
        // Just written: it may be written once more without a trace.
        std::fs::write(&path, "new").expect("writes");
        assert_eq!(read(&mut seen), Ok("new 4".to_owned()));
        assert_eq!(read(&mut seen), Ok("new 5".to_owned()));
        std::fs::remove_file(&path).expect("removes");
        assert_eq!(read(&mut seen), Err(std::io::ErrorKind::NotFound));
    }
}
