//! `TeamDelete`: removes the leader's team when nobody lives in it; the session then has a fresh one.

use crate::team::supervisor::Supervisor;
use crate::tools::context::ToolContext;
use crate::tools::tool::{BoxFuture, Concurrency, Tool, ToolCall, ToolOutput, ToolSpec};
use crate::tools::work::run;
use crate::wire::access::{Access, Target};
use serde_json::Value;
use std::path::Path;
use std::sync::LazyLock;

const SCHEMA: &str = r#"{"type":"object","properties":{},"additionalProperties":false}"#;

static SPEC: LazyLock<ToolSpec> = LazyLock::new(|| ToolSpec {
    name: "TeamDelete".to_owned(),
    description:
        "Removes your team with its mail and tasks, once every member has ended; you have a new, empty team \
                  then. Not needed at the end of your work."
            .to_owned(),
    schema: SCHEMA.into(),
});

/// The tool of the leader.
pub struct TeamDelete(Supervisor);

impl TeamDelete {
    /// For the leader of this supervisor's team.
    pub fn new(supervisor: Supervisor) -> Self {
        Self(supervisor)
    }
}

impl Tool for TeamDelete {
    fn spec(&self) -> &ToolSpec {
        &SPEC
    }

    fn access(&self, _: &Value, _: &Path) -> Access {
        let summary = "Remove the team with its mail and tasks".to_owned();
        Access { tool: SPEC.name.clone(), target: Target::Nothing, summary }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Exclusive
    }

    fn run<'a>(&'a self, _: ToolCall, _: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        run(async move {
            let fresh = self.0.delete_team().await.map_err(ToolOutput::error)?;
            Ok(ToolOutput::ok(format!(
                "The team is removed, with its mail, tasks and asks; transcripts stay. Your team is {fresh} now, and \
                 nobody is in it."
            )))
        })
    }
}
