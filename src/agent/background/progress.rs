//! What background agents do while they work: for their status lines and their output files.
//!
//! An observer beside the others; it never blocks. What agents below a background agent do counts for
//! that one.

use crate::agent::context::AgentContext;
use crate::agent::events::{AgentEvent, Observer};
use crate::wire::block::Role;
use crate::wire::ids::BackgroundId;
use crate::wire::usage::{Money, Usage};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, watch};

/// What an agent says, for its output file.
pub(super) type Words = mpsc::UnboundedReceiver<String>;

/// What a task does and has used so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Doing {
    /// The tool that runs.
    pub tool: Option<String>,
    /// Whether a call of it waits for a person.
    pub waiting: u32,
    /// Tokens.
    pub usage: Usage,
    /// Money.
    pub cost: Money,
    /// The last words.
    pub said: String,
}

/// One task that is watched.
#[derive(Debug)]
pub(super) struct Seen {
    doing: Mutex<Doing>,
    words: mpsc::UnboundedSender<String>,
}

impl Seen {
    fn doing(&self) -> MutexGuard<'_, Doing> {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Doing {
        self.doing().clone()
    }
}

/// All of them.
#[derive(Debug)]
pub struct Progress {
    tasks: Mutex<HashMap<BackgroundId, Arc<Seen>>>,
    changed: watch::Sender<u64>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { tasks: Mutex::default(), changed: watch::channel(0).0 }
    }
}

impl Progress {
    fn tasks(&self) -> MutexGuard<'_, HashMap<BackgroundId, Arc<Seen>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves when a task does something else.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(super) fn enter(&self, task: &BackgroundId) -> (Arc<Seen>, Words) {
        let (words, heard) = mpsc::unbounded_channel();
        let seen = Arc::new(Seen { doing: Mutex::default(), words });
        self.tasks().insert(task.clone(), Arc::clone(&seen));
        (seen, heard)
    }

    pub(super) fn leave(&self, task: &BackgroundId) {
        self.tasks().remove(task);
    }
}

impl Observer for Progress {
    fn event(&self, agent: &AgentContext, event: &AgentEvent) {
        let Some(task) = &agent.task else { return };
        let Some(seen) = self.tasks().get(task).cloned() else { return };
        let mut doing = seen.doing();
        match event {
            AgentEvent::ToolStarted { tool, summary, .. } => {
                let what = if summary.is_empty() { tool } else { summary };
                doing.tool = Some(what.chars().take(200).collect());
            }
            AgentEvent::ToolEnded { .. } => doing.tool = None,
            AgentEvent::Waiting(true) => doing.waiting += 1,
            AgentEvent::Waiting(false) => doing.waiting = doing.waiting.saturating_sub(1),
            AgentEvent::Message { message, response, .. } if message.role == Role::Assistant => {
                if let Some(response) = response {
                    doing.usage += response.usage;
                    doing.cost += response.cost;
                }
                let text = message.text();
                if agent.id().as_str() == task.as_str() && !text.trim().is_empty() {
                    doing.said.clone_from(&text);
                    // Nobody listens any more once the run is over.
                    let _ = seen.words.send(text);
                }
            }
            _ => return,
        }
        drop(doing);
        self.changed.send_modify(|n| *n += 1);
    }
}
