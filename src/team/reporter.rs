//! Keeps `run/<agent>.json` true: what the agents of this process say of themselves.
//!
//! Changes of state are written before they count; tools and tokens follow within [`FLUSH_AFTER`].
//! A run of an agent that was there before goes on from what the earlier ones have used.
//! What is written is read at the moment of writing, so a late write never brings back an old state.

use super::context::Team;
use crate::agent::context::AgentContext;
use crate::agent::events::{AgentEvent, Observer};
use crate::store::error::StoreError;
use crate::store::{clock, run};
use crate::wire::ids::{AgentId, AgentName};
use crate::wire::permission::PermissionMode;
use crate::wire::run::{AgentState, RunRecord};
use crate::wire::usage::{Money, Usage};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How long small changes are gathered before they are written.
pub const FLUSH_AFTER: Duration = Duration::from_millis(100);

struct Said {
    record: RunRecord,
    waiting: u32,
    /// True while the record holds something that the file does not.
    unwritten: bool,
    /// Tokens and money of the agent's earlier runs, which the record holds too.
    before: (Usage, Money),
}

impl Said {
    /// Takes a sum over earlier runs; of two the greater knows more: the record counts those that worked
    /// below the agent too, the transcript also what a kill kept from the record.
    fn take_before(&mut self, usage: Usage, cost: Money) {
        if usage.total() > self.before.0.total() {
            self.record.usage -= self.before.0;
            self.record.usage += usage;
            self.record.cost -= self.before.1;
            self.record.cost += cost;
            self.before = (usage, cost);
        }
    }
}

/// The record of one agent.
pub struct Reporter {
    team: Team,
    name: AgentName,
    said: Arc<Mutex<Said>>,
    changed: Notify,
}

impl Reporter {
    /// Starts from a record that is not written yet.
    pub fn new(team: Team, name: AgentName, record: RunRecord) -> Self {
        Self {
            team,
            name,
            said: Arc::new(Mutex::new(Said {
                record,
                waiting: 0,
                unwritten: true,
                before: Default::default(),
            })),
            changed: Notify::new(),
        }
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record as it is now.
    pub fn record(&self) -> RunRecord {
        self.said().record.clone()
    }

    /// Notes the mode, to be written with the next change.
    pub fn set_mode(&self, mode: PermissionMode) {
        self.said().record.permission_mode = Some(mode);
    }

    /// Enters a state and writes it.
    pub async fn set_state(&self, state: AgentState) -> Result<(), StoreError> {
        self.change(|record| {
            if state == AgentState::Working {
                record.turns += 1;
                record.unanswered_shutdown = None;
            }
            record.state = state;
            record.since = clock::now();
            record.heartbeat = (state == AgentState::Working).then(clock::now);
            record.current_tool = None;
        })
        .await
    }

    /// Changes the record and writes it.
    pub async fn change(&self, change: impl FnOnce(&mut RunRecord)) -> Result<(), StoreError> {
        {
            let mut said = self.said();
            change(&mut said.record);
            said.unwritten = true;
        }
        self.write().await
    }

    /// Writes the record, unless an earlier write has taken the same change with it: an agent that rests
    /// leaves its file alone.
    async fn write(&self) -> Result<(), StoreError> {
        let said = Arc::clone(&self.said);
        let (paths, name) = (self.team.paths.clone(), self.name.clone());
        let file = paths.run(&self.name);
        self.team
            .disk
            .run(&file, move || {
                let lock = || said.lock().unwrap_or_else(PoisonError::into_inner);
                let mut now = lock();
                if !std::mem::take(&mut now.unwritten) {
                    return Ok(());
                }
                let starts = now.record.state == AgentState::Starting;
                if starts
                    && let Some(earlier) = run::of_incarnation(&paths, &name, now.record.incarnation)
                    && earlier.run_id != now.record.run_id
                {
                    now.take_before(earlier.usage, earlier.cost);
                }
                // It follows the name of the team.
                now.record.agent_id = AgentId::member(&name, &paths.name());
                let record = now.record.clone();
                drop(now);
                let written = if starts { run::begin(&paths, &record) } else { run::write(&paths, &record) };
                if written.is_err() {
                    lock().unwritten = true;
                }
                written
            })
            .await?;
        self.team.hub.run_changed(&self.name);
        Ok(())
    }

    /// Writes gathered changes until cancelled.
    pub async fn flush(self: Arc<Self>, cancel: CancellationToken) {
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                () = self.changed.notified() => {}
            }
            if tokio::time::timeout(FLUSH_AFTER, cancel.cancelled()).await.is_ok() {
                return;
            }
            if let Err(error) = self.write().await {
                tracing::warn!(%error, "the run record could not be written");
            }
        }
    }

    fn observe(&self, agent: &AgentContext, event: &AgentEvent) {
        let mut said = self.said();
        // What works in the background has a line of its own; only what it uses is counted here.
        if agent.task.is_some() && !matches!(event, AgentEvent::Message { .. }) {
            return;
        }
        match event {
            AgentEvent::Restored(usage, cost) if agent.id() == said.record.agent_id => {
                said.take_before(*usage, *cost);
            }
            AgentEvent::ToolStarted { tool, summary, .. } => {
                let what = if summary.is_empty() { tool } else { summary };
                said.record.current_tool = Some(what.chars().take(200).collect());
            }
            AgentEvent::ToolEnded { .. } => said.record.current_tool = None,
            AgentEvent::Compacted(done) => {
                said.record.usage += done.usage;
                said.record.cost += done.cost;
            }
            AgentEvent::Message { response: Some(response), .. } => {
                said.record.usage += response.usage;
                said.record.cost += response.cost;
            }
            AgentEvent::SideRequest(usage, cost) => {
                said.record.usage += *usage;
                said.record.cost += *cost;
            }
            AgentEvent::Waiting(begins) => {
                said.waiting = if *begins { said.waiting + 1 } else { said.waiting.saturating_sub(1) };
                let busy = matches!(said.record.state, AgentState::Working | AgentState::Waiting);
                if busy {
                    let waits = said.waiting > 0;
                    said.record.state = if waits { AgentState::Waiting } else { AgentState::Working };
                    said.record.since = clock::now();
                }
            }
            AgentEvent::ModeChanged(mode) if agent.id() == said.record.agent_id => {
                said.record.permission_mode = Some(*mode);
            }
            AgentEvent::RoundStarted(_) => {}
            _ => return,
        }
        if said.record.heartbeat.is_some() {
            said.record.heartbeat = Some(clock::now());
        }
        said.unwritten = true;
        drop(said);
        self.changed.notify_one();
    }
}

/// All records of this process; takes what agents do to the record of the named agent they work below.
#[derive(Default)]
pub struct Reporters {
    by_name: Mutex<HashMap<AgentName, Arc<Reporter>>>,
}

impl Reporters {
    fn table(&self) -> MutexGuard<'_, HashMap<AgentName, Arc<Reporter>>> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a record.
    pub fn add(&self, reporter: &Arc<Reporter>) {
        self.table().insert(reporter.name.clone(), Arc::clone(reporter));
    }

    /// Takes it out, unless a newer one has its name.
    pub fn remove(&self, reporter: &Arc<Reporter>) {
        let mut table = self.table();
        if table.get(&reporter.name).is_some_and(|r| Arc::ptr_eq(r, reporter)) {
            table.remove(&reporter.name);
        }
    }

    /// Writes the record of an agent of this process again, whose file is damaged; `false` when it is of
    /// another process, or cannot be written.
    pub async fn write_again(&self, name: &AgentName) -> bool {
        let reporter = self.table().get(name).cloned();
        match reporter {
            Some(reporter) => reporter.change(|_| {}).await.is_ok(),
            None => false,
        }
    }
}

impl Observer for Reporters {
    fn event(&self, agent: &AgentContext, event: &AgentEvent) {
        let reporter = self.table().get(&agent.root).cloned();
        if let Some(reporter) = reporter {
            reporter.observe(agent, event);
        }
    }
}
