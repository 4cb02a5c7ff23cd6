//! What can go wrong between us and the operating system.

use std::io;
use std::path::PathBuf;

/// A failure of this layer.
#[derive(Debug, thiserror::Error)]
pub enum OsError {
    /// A file operation failed.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// What was tried: `open`, `replace` …
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The path names something that is no regular file.
    #[error("{} is {what}, not a regular file", path.display())]
    NotAFile {
        /// Which path.
        path: PathBuf,
        /// `a directory`, `a FIFO` …
        what: &'static str,
    },
    /// Another process kept the directory of a file locked.
    #[error("{} is locked by another process", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// A command could not be started.
    #[error("cannot start {program}: {why}")]
    Start {
        /// Its program.
        program: String,
        /// Why, in the system's words.
        why: String,
    },
    /// A process could not be looked at or signalled.
    #[error("process {pid}: {source}")]
    Process {
        /// Its pid.
        pid: u32,
        /// Why.
        source: io::Error,
    },
    /// A command did not end in time and was ended.
    #[error("{program} did not finish within {} ms", after.as_millis())]
    TimedOut {
        /// Its program.
        program: String,
        /// How long it had.
        after: std::time::Duration,
    },
}

impl OsError {
    /// True when the file is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Adds action and path to an I/O error.
pub(crate) fn on_file<'a>(
    action: &'static str,
    path: &'a std::path::Path,
) -> impl FnOnce(io::Error) -> OsError + 'a {
    move |source| OsError::File { action, path: path.to_owned(), source }
}
