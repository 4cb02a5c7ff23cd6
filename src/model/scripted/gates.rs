//! Named signals that a script waits for.
//!
//! A gate is opened in this process through [`Gates::open`], or by any process that creates the file of
//! its name in the script's gate directory. Once open it stays open.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// How often the gate directory is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// A handle on the gates of this process. Cloning shares them.
#[derive(Debug, Clone)]
pub struct Gates(Arc<watch::Sender<BTreeSet<String>>>);

impl Default for Gates {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(BTreeSet::new())))
    }
}

/// Whether the gate was opened in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// It is open.
    Open,
    /// The deadline came first.
    TooLate,
}

impl Gates {
    /// Opens a gate for everyone who waits and will wait.
    pub fn open(&self, name: &str) {
        self.0.send_modify(|open| {
            open.insert(name.to_owned());
        });
    }

    /// Waits until `name` is open here or as a file in `directory`.
    pub async fn pass(&self, name: &str, directory: &Path, deadline: Duration) -> Passed {
        let file = directory.join(name);
        let end = Instant::now() + deadline;
        let mut signal = self.0.subscribe();
        loop {
            if signal.borrow_and_update().contains(name) || file.exists() {
                return Passed::Open;
            }
            if Instant::now() >= end {
                return Passed::TooLate;
            }
            let next = end.min(Instant::now() + LOOK);
            // A signal wakes at once; without one the directory is looked at again.
            drop(timeout_at(next, signal.changed()).await);
        }
    }
}
