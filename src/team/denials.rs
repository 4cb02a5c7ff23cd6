//! Denials of agents with a process of their own, on their way to the result of the run.
//!
//! Such a process writes each denied call into the team's event log, as `refused` with the `denial` as a result
//! lists it; the leader's process reads them there. Promises that one stands in the log before the mail that
//! its agent sends afterwards.

use super::context::Team;
use crate::agent::context::AgentContext;
use crate::agent::events::{AgentEvent, Observer};
use crate::agent::tally::Denial;
use crate::store::error::StoreError;
use crate::store::paths::TeamPaths;
use crate::store::{clock, events};
use crate::wire::event::{Event, EventKind};
use crate::wire::time::Timestamp;
use serde_json::{Map, Value, json};

/// Where an event holds a denial.
pub const DENIAL: &str = "denial";

/// Writes denied calls to the team's event log. For processes that have no result object.
pub struct DenialLog(Team);

impl DenialLog {
    /// For the agents of this process.
    pub fn new(team: Team) -> Self {
        Self(team)
    }
}

impl Observer for DenialLog {
    fn event(&self, agent: &AgentContext, event: &AgentEvent) {
        let AgentEvent::Denied(denial) = event else { return };
        let mut fields = Map::new();
        fields.insert("agentId".to_owned(), json!(denial.agent_id));
        fields.insert(
            "reason".to_owned(),
            json!(format!("{} was not run: {}", denial.tool_name, denial.reason)),
        );
        fields.insert(DENIAL.to_owned(), json!(**denial));
        let line = Event {
            ts: clock::now(),
            event: EventKind::Refused,
            team: self.0.name(),
            agent: agent.root.clone(),
            incarnation: agent.incarnation,
            fields,
        };
        let paths = self.0.paths.clone();
        // Queued here and not awaited: what this process stores later comes after it.
        self.0.disk.later(&self.0.paths.events(), move || events::append(&paths, &line).map(Some));
    }
}

/// What the log of a team says was refused since a time.
#[derive(Debug, Default, PartialEq)]
pub struct Refused {
    /// Calls of agents with a process of their own.
    pub denials: Vec<Denial>,
    /// Decisions that nobody of the team made, a sentence each.
    pub forged: Vec<String>,
}

/// Reads it.
pub fn since(team: &TeamPaths, begin: &Timestamp) -> Result<Refused, StoreError> {
    let mut refused = Refused::default();
    for event in events::read(team)?.filter(|e| e.event == EventKind::Refused && e.ts >= *begin) {
        let mut fields = event.fields;
        match fields.remove(DENIAL) {
            Some(denial) => refused.denials.extend(serde_json::from_value::<Denial>(denial).ok()),
            None if fields.contains_key("askId") => {
                let reason = fields.get("reason").and_then(Value::as_str);
                refused.forged.extend(reason.map(str::to_owned));
            }
            None => {}
        }
    }
    Ok(refused)
}
