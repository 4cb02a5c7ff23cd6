//! Limits as a team sees them: who is told that the ledger changed, and what its log says of a limit.
//!
//! The checks are the agents' own (`agent/limits.rs`, `agent/budget.rs`): at a budget each stops before
//! its next request, so the tree ends in order without being told.

use super::context::Team;
use super::wake::{Topic, WakeHub};
use crate::agent::budget::LimitReached;
use crate::agent::context::{AgentContext, spawn_in};
use crate::agent::events::{AgentEvent, Observer};
use crate::agent::limits::Shared;
use crate::agent::ports::{BoxFuture, Changes};
use crate::os::error::OsError;
use crate::os::process;
use crate::store::ledger::Ledger;
use crate::wire::event::EventKind;
use serde_json::json;

/// The ledger of a team, as this process shares it.
pub fn shared(team: &Team) -> Result<Shared, OsError> {
    let ledger = Ledger::new(&team.paths, process::current()?, process::is_alive);
    Ok(Shared::new(team.disk.clone(), ledger, std::sync::Arc::new(LedgerChanges(team.hub.clone()))))
}

struct LedgerChanges(WakeHub);

impl Changes for LedgerChanges {
    fn changed(&self) -> BoxFuture<'static, ()> {
        let mut signal = self.0.signal(Topic::Ledger);
        Box::pin(async move { signal.changed().await })
    }
}

/// Writes limits that were reached to the team's event log.
pub struct LimitLog(Team);

impl LimitLog {
    /// For the agents of this process.
    pub fn new(team: Team) -> Self {
        Self(team)
    }
}

impl Observer for LimitLog {
    fn event(&self, agent: &AgentContext, event: &AgentEvent) {
        let AgentEvent::LimitReached(limit) = event else { return };
        let (team, root, incarnation) = (self.0.clone(), agent.root.clone(), agent.incarnation);
        let LimitReached { kind, what, hint } = limit;
        let fields = json!({ "limit": kind.as_str(), "reason": what, "hint": hint, "agentId": agent.id() });
        // The log is the last of what a limit needs; nobody waits for it.
        drop(spawn_in(agent, async move { team.log(EventKind::Limit, &root, incarnation, fields).await }));
    }
}
