//! The door of a living agent: who is inside, and whether mail still comes in.
//!
//! Promises that no agent is run twice at once (one writer for its transcript), and that a message is
//! either seen by the run it was stored for or stored for the next one: the door is closed by the
//! agent, under its lock, only when nothing waits.

use super::Background;
use crate::wire::ids::AgentId;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long an agent that has closed its door may take to write its end down.
const LEAVE_DEADLINE: Duration = Duration::from_secs(30);

/// The door.
#[derive(Debug)]
pub struct Door {
    open: tokio::sync::Mutex<bool>,
    gone: CancellationToken,
}

impl Door {
    /// Keeps it open as long as the returned value lives; `None` when it is closed.
    pub(super) async fn hold_open(&self) -> Option<tokio::sync::MutexGuard<'_, bool>> {
        let open = self.open.lock().await;
        open.then_some(open)
    }

    /// Closes it for good unless `waits` says that mail is there; says whether it is closed. Nobody sends
    /// meanwhile.
    pub async fn close_unless(&self, waits: impl Future<Output = bool>) -> bool {
        let mut open = self.open.lock().await;
        if *open && waits.await {
            return false;
        }
        *open = false;
        true
    }
}

/// Who is inside.
#[derive(Debug, Default)]
pub(super) struct Doors(Mutex<HashMap<AgentId, Arc<Door>>>);

impl Doors {
    fn all(&self) -> MutexGuard<'_, HashMap<AgentId, Arc<Door>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has(&self, agent: &AgentId) -> bool {
        self.all().contains_key(agent)
    }

    /// The door of one that is inside; it may be closed already.
    pub(super) fn of(&self, agent: &AgentId) -> Option<Arc<Door>> {
        self.all().get(agent).cloned()
    }
}

/// An agent is inside as long as this lives.
pub struct Inside {
    background: Background,
    agent: AgentId,
    door: Arc<Door>,
}

impl Inside {
    /// Its door.
    pub fn door(&self) -> &Arc<Door> {
        &self.door
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.background.0.doors.all().remove(&self.agent);
        self.door.gone.cancel();
    }
}

impl Background {
    /// Lets an agent in; `None` when it is inside already.
    pub fn enter(&self, agent: &AgentId) -> Option<Inside> {
        let mut all = self.0.doors.all();
        if all.contains_key(agent) {
            return None;
        }
        let door = Arc::new(Door { open: tokio::sync::Mutex::new(true), gone: CancellationToken::new() });
        all.insert(agent.clone(), Arc::clone(&door));
        Some(Inside { background: self.clone(), agent: agent.clone(), door })
    }

    /// Does `post` while the door of a living agent is open, so that this run of it sees what is stored.
    /// `None` when it is not inside, or has just left.
    pub async fn reach<T>(&self, agent: &AgentId, post: impl Future<Output = T>) -> Option<T> {
        let door = self.0.doors.of(agent)?;
        {
            let open = door.hold_open().await;
            if open.is_some() {
                return Some(post.await);
            }
        }
        // It is ending. Whoever starts it again comes after its last line.
        let _ = tokio::time::timeout(LEAVE_DEADLINE, door.gone.cancelled()).await;
        None
    }
}
