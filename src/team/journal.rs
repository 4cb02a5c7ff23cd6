//! The team's event log, as the agents of this process write to it.

use super::context::Team;
use crate::agent::context::AgentContext;
use crate::agent::ports::{BoxFuture, Journal};
use crate::wire::event::EventKind;
use serde_json::Value;

impl Journal for Team {
    fn log<'a>(&'a self, agent: &'a AgentContext, event: EventKind, fields: Value) -> BoxFuture<'a, ()> {
        // An agent without a name is logged under the named one that it works below.
        Box::pin(async move { Team::log(self, event, &agent.root, agent.incarnation, fields).await })
    }
}
