//! Follows a transcript: its end, then what is appended, as soon as it is.

use crate::store::error::StoreError;
use crate::store::transcript;
use crate::store::watch::{WatchGuard, Watcher, is_network_fs};
use crate::wire::limits::{POLL_NET, POLL_NET_NETWORK};
use crate::wire::transcript::Line;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;

/// A transcript that is followed.
pub struct Follow {
    path: PathBuf,
    offset: u64,
    told: mpsc::Receiver<()>,
    net: Duration,
    /// Ends the watch when it is dropped; `None` where nothing can be watched.
    _watch: Option<(WatchGuard, Watcher)>,
}

impl Follow {
    /// Begins with the last lines.
    pub fn start(path: &Path) -> Result<(Self, Vec<Line>), StoreError> {
        let (tell, told) = mpsc::channel(1);
        let dir = path.parent().unwrap_or(path);
        let name = path.file_name().unwrap_or_default();
        // A full channel already says what one more word would.
        let tell = move |_: &std::ffi::OsStr| _ = tell.try_send(());
        let watch = Watcher::start()
            .and_then(|watcher| Ok((watcher.watch_appends(dir, name, tell)?, watcher)))
            .inspect_err(|error| tracing::warn!(%error, "a transcript is looked at from time to time"))
            .ok();
        let net = if watch.is_some() && !is_network_fs(dir) { POLL_NET } else { POLL_NET_NETWORK };
        // Watched first: what is appended meanwhile is read twice by nobody and missed by nobody.
        let (lines, offset) = transcript::read_tail(path)?;
        Ok((Self { path: path.to_owned(), offset, told, net, _watch: watch }, lines))
    }

    /// The transcript.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until there may be more.
    pub async fn changed(&mut self) {
        tokio::select! {
            Some(()) = self.told.recv() => {}
            () = tokio::time::sleep(self.net) => {}
        }
    }

    /// What has been appended since the last look.
    pub fn more(&mut self) -> Result<Vec<Line>, StoreError> {
        let (lines, offset) = transcript::read_from(&self.path, self.offset)?;
        self.offset = offset;
        Ok(lines)
    }
}
