//! `TeamCreate`: gives the leader's team a name, as long as nobody has used it.

use crate::team::supervisor::Supervisor;
use crate::tools::context::ToolContext;
use crate::tools::tool::{BoxFuture, Concurrency, Tool, ToolCall, ToolOutput, ToolSpec};
use crate::tools::work::{input, run};
use crate::wire::access::{Access, Target};
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::sync::LazyLock;

const SCHEMA: &str = r#"{"type":"object","properties":{"team_name":{"type":"string","description":"What the team is called"},"description":{"type":"string","description":"What it is for, in a sentence"}},"required":["team_name"],"additionalProperties":false}"#;

static SPEC: LazyLock<ToolSpec> = LazyLock::new(|| ToolSpec {
    name: "TeamCreate".to_owned(),
    description:
        "Gives your team a name and a purpose before you start its members with Agent and a name. You have a \
                  team without it; it is refused once that has members, asks or mail."
            .to_owned(),
    schema: SCHEMA.into(),
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    team_name: String,
    description: Option<String>,
}

/// The tool of the leader.
pub struct TeamCreate(Supervisor);

impl TeamCreate {
    /// For the leader of this supervisor's team.
    pub fn new(supervisor: Supervisor) -> Self {
        Self(supervisor)
    }
}

impl Tool for TeamCreate {
    fn spec(&self) -> &ToolSpec {
        &SPEC
    }

    fn access(&self, input: &Value, _: &Path) -> Access {
        let name = input.get("team_name").and_then(Value::as_str).unwrap_or_default();
        Access { tool: SPEC.name.clone(), target: Target::Nothing, summary: format!("Name the team {name}") }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Exclusive
    }

    fn run<'a>(&'a self, call: ToolCall, _: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        run(async move {
            let Input { team_name, description } = input(&SPEC, call)?;
            let named = self.0.name_team(&team_name, description.as_deref()).await;
            let name = named.map_err(ToolOutput::error)?;
            Ok(ToolOutput::ok(format!(
                "Your team is there.\nteam_name: {name}\nlead_agent_id: team-lead@{name}\nIts members come with \
                 Agent and a name."
            )))
        })
    }
}
