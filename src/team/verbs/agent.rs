//! `Agent`: starts another agent: a teammate when it has a name, else a subagent.

use crate::agent::core::AgentCore;
use crate::agent::definitions::GENERAL_PURPOSE;
use crate::agent::subagent::{self, SubagentRequest};
use crate::team::spawn::TeammateRequest;
use crate::team::supervisor::Supervisor;
use crate::tools::context::ToolContext;
use crate::tools::tool::{BoxFuture, Concurrency, Tool, ToolCall, ToolOutput, ToolSpec};
use crate::wire::access::{Access, Target};
use crate::wire::permission::PermissionMode;
use serde::Deserialize;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SCHEMA: &str = r#"{"type":"object","properties":{"description":{"type":"string","description":"Three to five words for people who look on"},"prompt":{"type":"string","description":"The whole task: the agent knows nothing of this conversation"},"subagent_type":{"type":"string","description":"Which kind of agent; general-purpose when left out"},"name":{"type":"string","description":"Makes it a teammate that stays, is reached by this name, and reports by message"},"team_name":{"type":"string","description":"The team; your own when left out"},"model":{"type":"string","description":"A model or alias instead of the kind's own"},"mode":{"type":"string","enum":["default","acceptEdits","plan","auto","dontAsk","bypassPermissions"],"description":"Permission mode, never wider than yours"},"run_in_background":{"type":"boolean"},"isolation":{"type":"string","enum":["worktree"]},"cwd":{"type":"string","description":"Its directory; yours when left out"},"allowedTools":{"type":"array","items":{"type":"string"},"description":"Permission rules for it, within yours"}},"required":["description","prompt"],"additionalProperties":false}"#;

#[derive(Deserialize)]
struct Input {
    description: String,
    prompt: String,
    subagent_type: Option<String>,
    name: Option<String>,
    team_name: Option<String>,
    model: Option<String>,
    mode: Option<PermissionMode>,
    #[serde(default)]
    run_in_background: bool,
    isolation: Option<String>,
    cwd: Option<PathBuf>,
    #[serde(rename = "allowedTools")]
    allowed_tools: Option<Vec<String>>,
}

/// The tool of one agent.
pub struct AgentTool {
    core: Arc<AgentCore>,
    supervisor: Option<Supervisor>,
    spec: ToolSpec,
}

impl AgentTool {
    /// Starts agents below `core`; only the leader has a `supervisor`.
    pub fn new(core: Arc<AgentCore>, supervisor: Option<Supervisor>) -> Self {
        let mut description = String::from(
            "Starts another agent with a task of its own. Without a name it is a subagent: it works now, and its \
             report is the result of this call; several calls in one message work side by side. With a name it is \
             a teammate: it works beside you, you go on at once, and its report reaches you as a message when it is \
             idle; write to it with SendMessage. Give it everything it needs in the prompt. The kinds:",
        );
        for definition in core.runtime.definitions.iter() {
            let _ = write!(description, "\n- {}: {}", definition.name, definition.description);
        }
        let spec = ToolSpec { name: "Agent".to_owned(), description, schema: SCHEMA.into() };
        Self { core, supervisor, spec }
    }

    async fn start(&self, input: Input, call_id: String, context: &ToolContext) -> ToolOutput {
        if input.run_in_background && input.name.is_none() {
            return ToolOutput::error(
                "Background subagents are not part of this version. Leave run_in_background out, or give the agent a \
                 name: a teammate works beside you.",
            );
        }
        if let Some(isolation) = &input.isolation {
            return ToolOutput::error(format!(
                "isolation {isolation:?} is not part of this version, and nothing was started. Leave it out, or make \
                 a worktree yourself and pass it as cwd."
            ));
        }
        match input.name {
            Some(_) => self.start_teammate(input, call_id).await,
            None => self.run_subagent(input, call_id, context).await,
        }
    }

    async fn start_teammate(&self, input: Input, call_id: String) -> ToolOutput {
        let Some(supervisor) = &self.supervisor else {
            if self.core.context.depth == 0 {
                return ToolOutput::error(
                    "Teammates are turned off here by the setting `teams`. Leave the name out to start a subagent.",
                );
            }
            return ToolOutput::error(
                "Only the leader starts teammates. Leave the name out to start a subagent, or ask team-lead with \
                 SendMessage.",
            );
        };
        let own = &self.core.context.team;
        if let Some(team) = input.team_name.as_deref().filter(|t| *t != own.as_str()) {
            return ToolOutput::error(format!(
                "There is no team {team:?} here. Your team is {own}; leave team_name out."
            ));
        }
        let request = TeammateRequest {
            parent: Arc::clone(&self.core),
            tool_use_id: call_id,
            name: input.name.unwrap_or_default(),
            description: input.description,
            prompt: input.prompt,
            agent_type: input.subagent_type,
            model: input.model,
            mode: input.mode,
            allowed_tools: input.allowed_tools,
            cwd: input.cwd,
        };
        match supervisor.spawn(request).await {
            Ok(spawned) => {
                let member = spawned.member;
                let mut text = format!(
                    "{} has started.\nagent_id: {}\nname: {}\nteam_name: {own}\nmodel: {}\npermission_mode: {}\n\
                     backend: {}\nIt works on its prompt now. What it finds reaches you as a message; do not wait or \
                     poll for it.",
                    member.display_name,
                    member.agent_id,
                    member.agent_name,
                    member.model,
                    member.permission_mode.as_str(),
                    member.backend_type.as_str(),
                );
                for note in spawned.notes {
                    let _ = write!(text, "\nNote: {note}");
                }
                ToolOutput::ok(text)
            }
            Err(why) => ToolOutput::error(format!("The teammate was not started. {why}")),
        }
    }

    async fn run_subagent(&self, input: Input, call_id: String, context: &ToolContext) -> ToolOutput {
        let definitions = &self.core.runtime.definitions;
        let kind = input.subagent_type.as_deref().unwrap_or(GENERAL_PURPOSE);
        let Some(definition) = definitions.get(kind).cloned() else {
            return ToolOutput::error(format!(
                "There is no agent type {kind:?}. The types are: {}.",
                definitions.names().join(", ")
            ));
        };
        let request = SubagentRequest {
            parent: Arc::clone(&self.core),
            tool_use_id: call_id,
            description: input.description,
            prompt: input.prompt,
            definition,
            model: input.model,
            mode: input.mode,
            allowed_tools: input.allowed_tools,
            cwd: input.cwd.map(|cwd| self.core.context.cwd.join(cwd)),
        };
        subagent::run(request, &context.cancel).await
    }
}

impl Tool for AgentTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, _: &Path) -> Access {
        let text = |key: &str| input.get(key).and_then(Value::as_str);
        let kind = text("subagent_type").unwrap_or(GENERAL_PURPOSE);
        let who = text("name").unwrap_or(kind);
        let what = text("description").unwrap_or_default();
        Access {
            tool: self.spec.name.clone(),
            target: Target::Agent(kind.to_owned()),
            summary: format!("Start {who}: {what}"),
        }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Safe
    }

    fn run<'a>(&'a self, call: ToolCall, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            match serde_json::from_value::<Input>(call.input) {
                Ok(input) => self.start(input, call.id, context).await,
                Err(error) => ToolOutput::error(format!("The input of Agent is wrong: {error}.")),
            }
        })
    }
}
