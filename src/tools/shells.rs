//! What the commands of one agent leave running: held here until the agent ends.
//!
//! A command's guard ends everything below it when its [`RunningCommand`] is dropped, so a server
//! that was started with `&` lives exactly as long as something holds it. Its output is read and
//! thrown away, since it would block or die on a pipe that nobody reads. Dropping the last `Shells`
//! begins to end all of it; [`Shells::end`] waits for that.

use crate::os::command::RunningCommand;
use crate::os::guard;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// From TERM to KILL.
pub const GRACE: Duration = Duration::from_secs(2);

/// The shells of one agent.
#[derive(Debug)]
pub struct Shells {
    guard: PathBuf,
    ending: CancellationToken,
    tasks: TaskTracker,
    _end_on_drop: DropGuard,
}

impl Default for Shells {
    fn default() -> Self {
        Self::new(guard::SELF_EXE)
    }
}

impl Shells {
    /// None yet. `guard` is our own binary ([`guard::SELF_EXE`] except in tests).
    pub fn new(guard: impl Into<PathBuf>) -> Self {
        let ending = CancellationToken::new();
        let end_on_drop = ending.clone().drop_guard();
        Self { guard: guard.into(), ending, tasks: TaskTracker::new(), _end_on_drop: end_on_drop }
    }

    /// Our own binary, for [`crate::os::command::CommandSpec::guard`].
    pub fn guard(&self) -> &Path {
        &self.guard
    }

    /// Keeps what a command left behind, until it ends by itself or with the agent. Must be called
    /// inside a runtime.
    pub fn keep(&self, mut running: RunningCommand) {
        let ending = self.ending.clone();
        self.tasks.spawn(async move {
            let gone = tokio::select! {
                _ = running.wait_gone() => true,
                () = ending.cancelled() => false,
            };
            if !gone {
                running.terminate(GRACE).await;
            }
        });
    }

    /// Cancelled when the agent ends.
    pub fn ending(&self) -> CancellationToken {
        self.ending.clone()
    }

    /// As long as the returned value lives, the end of the agent waits for it.
    pub fn hold(&self) -> TaskTrackerToken {
        self.tasks.token()
    }

    /// How many commands have something running.
    pub fn kept(&self) -> usize {
        self.tasks.len()
    }

    /// Ends everything, also what is kept from now on, and waits until it is gone: [`GRACE`] and a
    /// little.
    pub async fn end(&self) {
        self.ending.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
