//! `Agent`: starts another agent: a teammate when it has a name, else a subagent.

use crate::agent::background::Launched;
use crate::agent::core::AgentCore;
use crate::agent::definitions::{COORDINATOR, GENERAL_PURPOSE, Pace};
use crate::agent::fork::FORK;
use crate::agent::fork::rule::Forks;
use crate::agent::fork::start::{self, ForkRequest};
use crate::agent::kinds;
use crate::agent::subagent::launch::launch;
use crate::agent::subagent::{self, SubagentRequest};
use crate::store::slug;
use crate::team::spawn::TeammateRequest;
use crate::team::supervisor::Supervisor;
use crate::tools::context::ToolContext;
use crate::tools::tool::{BoxFuture, Concurrency, Tool, ToolCall, ToolOutput, ToolSpec};
use crate::tools::work::{input, run};
use crate::wire::access::{Access, Target};
use crate::wire::definition::Isolation;
use crate::wire::ids::AgentName;
use crate::wire::permission::PermissionMode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{Mutex, MutexGuard};

/// What the tool says of forks.
fn forks(rule: Forks) -> &'static str {
    match rule {
        Forks::Refused(_) => "",
        Forks::Explicit => {
            "\n- fork: you once more, with all of this conversation, for one task beside you. Its prompt is only what \
             to do; it needs no background. Several forks in one message cost little more than one. You are told of \
             the end as with run_in_background. A fork starts no agents."
        }
        Forks::Implicit => {
            "\n- fork, also when no kind is named: you once more, with all of this conversation, for one task beside \
             you. Its prompt is only what to do; it needs no background. Several forks in one message cost little \
             more than one. You are told of the end as with run_in_background. A fork starts no agents."
        }
    }
}

/// What the tool takes from this agent: nothing that it would refuse anyway.
fn schema(leads: bool, background: bool, forks: Forks) -> String {
    let text = |what: &str| json!({ "type": "string", "description": what });
    let modes: Vec<&str> = PermissionMode::NAMES.iter().map(|(name, _)| *name).collect();
    let mut properties = json!({
        "description": text("Three to five words for people who look on"),
        "prompt": text(match forks {
            Forks::Refused(_) => "The whole task: the agent knows nothing of this conversation",
            Forks::Explicit | Forks::Implicit => {
                "The whole task: the agent knows nothing of this conversation, unless it is a fork"
            }
        }),
        "subagent_type": text(match forks {
            Forks::Implicit => "Which kind of agent; a fork when left out",
            Forks::Explicit | Forks::Refused(_) => "Which kind of agent; general-purpose when left out",
        }),
        "model": text("A model or alias instead of the kind's own"),
        "mode": { "type": "string", "enum": modes, "description": "Permission mode, never wider than yours" },
        "cwd": text("Its directory; yours when left out"),
        "allowedTools": { "type": "array", "items": { "type": "string" },
                          "description": "Permission rules for it, within yours" },
    });
    properties["isolation"] = json!({
        "type": "string", "enum": ["worktree"],
        "description": "worktree: it works in a git worktree of its own, which stays when it holds something new",
    });
    if leads {
        properties["name"] =
            text("Makes it a teammate that stays, is reached by this name, and reports by message");
        properties["team_name"] = text("The team; your own when left out. Names yours while nobody is in it");
    }
    if background {
        properties["run_in_background"] = json!({
            "type": "boolean",
            "description": "True: you go on at once, and are told in a <task-notification> when it has ended",
        });
        if !leads {
            properties["name"] =
                text("With run_in_background: a name by which it can be reached with SendMessage");
        }
    }
    let mut schema =
        json!({ "type": "object", "properties": properties, "required": ["description", "prompt"] });
    // Where background work is turned off, who asks for it is told by which setting.
    if background {
        schema["additionalProperties"] = json!(false);
    }
    schema.to_string()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    description: String,
    prompt: String,
    subagent_type: Option<String>,
    name: Option<String>,
    team_name: Option<String>,
    model: Option<String>,
    mode: Option<PermissionMode>,
    run_in_background: Option<bool>,
    isolation: Option<Isolation>,
    cwd: Option<PathBuf>,
    #[serde(rename = "allowedTools")]
    allowed_tools: Option<Vec<String>>,
}

/// The tool of one agent.
pub struct AgentTool {
    core: Arc<AgentCore>,
    supervisor: Option<Supervisor>,
    spec: ToolSpec,
    /// Held from the look at the kinds until a teammate has been ordered.
    starts: Mutex<()>,
}

impl AgentTool {
    /// Starts agents below `core`; only the leader has a `supervisor`.
    pub fn new(core: Arc<AgentCore>, supervisor: Option<Supervisor>) -> Self {
        let background = core.runtime.background.allowed();
        let mut description = String::from(
            "Starts another agent with a task of its own. It is a subagent: it works now, and its report is the \
             result of this call; several calls in one message work side by side. ",
        );
        if background {
            description.push_str(
                "With run_in_background it works beside you: you go on at once, and its end comes to you by itself \
                 as a <task-notification>; do not wait or poll for it. SendMessage to its id reaches it while it \
                 works, and goes on with it when it has ended. ",
            );
        }
        if supervisor.is_some() {
            description.push_str(
                "With a name it is a teammate: it works beside you and stays, and its report reaches you as a \
                 message when it is idle; write to it with SendMessage. ",
            );
        }
        description.push_str("Give it everything it needs in the prompt. The kinds:");
        for line in kinds::lines(&core.runtime.definitions.kinds()) {
            let _ = write!(description, "\n{line}");
        }
        description.push_str(forks(core.runtime.forks.of(&core.definition)));
        let schema = schema(supervisor.is_some(), background, core.runtime.forks.of(&core.definition));
        let spec = ToolSpec { name: "Agent".to_owned(), description, schema: schema.into() };
        Self { core, supervisor, spec, starts: Mutex::new(()) }
    }

    fn forks(&self) -> Forks {
        self.core.runtime.forks.of(&self.core.definition)
    }

    /// Whether an agent runs in the background. A coordinator has nothing else to do than to go on.
    fn background(&self, call: Option<bool>, definition: Option<bool>) -> bool {
        let background = &self.core.runtime.background;
        let coordinates = self.core.definition.name == COORDINATOR && background.allowed();
        background.wanted(call, definition.or(coordinates.then_some(true)))
    }

    async fn start(&self, input: Input, call_id: String, context: &ToolContext) -> ToolOutput {
        if input.run_in_background == Some(true) && !self.core.runtime.background.allowed() {
            return ToolOutput::error(
                "Nothing was started: background work is turned off here by the setting `background`. Leave \
                 run_in_background out; the agent's report is then the result of the call.",
            );
        }
        let kind = input.subagent_type.as_deref();
        if self.forks().takes(kind) && (kind.is_some() || input.name.is_none()) {
            return self.fork(input, call_id).await;
        }
        // One after the other, so that the members of a message join in the order of its calls.
        let turn = self.starts.lock().await;
        self.core.look_for_kinds(Pace::AtOnce).await;
        match (&self.supervisor, &input.name) {
            (Some(supervisor), Some(_)) => self.start_teammate(supervisor, input, call_id, turn).await,
            _ => {
                drop(turn);
                self.run_subagent(input, call_id, context).await
            }
        }
    }

    async fn start_teammate(
        &self,
        supervisor: &Supervisor,
        input: Input,
        call_id: String,
        turn: MutexGuard<'_, ()>,
    ) -> ToolOutput {
        if let Some(wanted) = &input.team_name
            && let Err(why) = self.be_called(supervisor, wanted).await
        {
            return ToolOutput::error(format!("The teammate was not started. {why}"));
        }
        let own = self.core.context.team.get();
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
            isolation: input.isolation,
            cwd: input.cwd,
        };
        let spawning = supervisor.spawn(request);
        drop(turn);
        match spawning.await {
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
                if member.plan_mode_required {
                    text.push_str(
                        "\nIt starts in plan mode: its plan comes to you as a message with a request_id, and to the \
                         person. Look at it and answer with a plan_approval_response.",
                    );
                }
                for note in spawned.notes {
                    let _ = write!(text, "\nNote: {note}");
                }
                ToolOutput::ok(text)
            }
            Err(why) => ToolOutput::error(format!("The teammate was not started. {why}")),
        }
    }

    /// The team is called so, or is named now; an error when it cannot be any more.
    async fn be_called(&self, supervisor: &Supervisor, wanted: &str) -> Result<(), String> {
        let name = slug::team_name(wanted).map_err(|e| format!("{e}."))?;
        if name == self.core.context.team.get() {
            return Ok(());
        }
        supervisor.name_team(wanted, None).await.map(drop)
    }

    /// Forks the caller's conversation. A fork works beside its parent, whatever the call says.
    async fn fork(&self, input: Input, call_id: String) -> ToolOutput {
        if let Forks::Refused(why) = self.forks() {
            return ToolOutput::error(format!("The fork was not started: {why}."));
        }
        if input.name.is_some() {
            return ToolOutput::error("A fork has no name, and nothing was started. Leave the name out.");
        }
        let ignored = input.model.map(|model| {
            format!("the model {model} was not used: a fork goes on with its parent's, whose cache it shares")
        });
        let (description, prompt) = (input.description.clone(), input.prompt.clone());
        let request = ForkRequest {
            parent: Arc::clone(&self.core),
            tool_use_id: call_id,
            description: input.description,
            directive: input.prompt,
            mode: input.mode,
            allowed_tools: input.allowed_tools,
            cwd: input.cwd.map(|cwd| self.core.context.cwd.join(cwd)),
            isolation: input.isolation,
        };
        match start::launch(request).await {
            Ok(launched) => self.launched(&launched, &description, &prompt, ignored.as_deref()),
            Err(why) => ToolOutput::error(why),
        }
    }

    fn launched(
        &self,
        launched: &Launched,
        description: &str,
        prompt: &str,
        note: Option<&str>,
    ) -> ToolOutput {
        let text = Async {
            status: "async_launched",
            agent_id: launched.id.as_str(),
            description,
            prompt,
            output_file: &launched.output_file.display().to_string(),
            can_read_output_file: self.core.tool_names().iter().any(|tool| tool == "Read"),
            queued: launched.queued,
            note,
        };
        ToolOutput::ok(text.text())
    }

    async fn run_subagent(&self, input: Input, call_id: String, context: &ToolContext) -> ToolOutput {
        let definitions = self.core.runtime.definitions.kinds();
        let kind = input.subagent_type.as_deref().unwrap_or(GENERAL_PURPOSE);
        let Some(definition) = definitions.get(kind).cloned() else {
            return ToolOutput::error(format!(
                "There is no agent type {kind:?}. The types are: {}.",
                definitions.names().join(", ")
            ));
        };
        let background = self.background(input.run_in_background, definition.background);
        let name = match input.name.as_deref().map(|name| self.name(name, background)) {
            None => None,
            Some(Ok(name)) => Some(name),
            Some(Err(why)) => return ToolOutput::error(why),
        };
        let (description, prompt) = (input.description.clone(), input.prompt.clone());
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
            isolation: input.isolation,
            name,
        };
        if !background {
            return subagent::run(request, &context.cancel).await;
        }
        match launch(request).await {
            Ok(launched) => self.launched(&launched, &description, &prompt, None),
            Err(why) => ToolOutput::error(why),
        }
    }

    /// The name of a background agent: teammates have theirs from the leader alone.
    fn name(&self, name: &str, background: bool) -> Result<AgentName, String> {
        if !background {
            return Err(if self.core.context.depth == 0 {
                "Teammates are turned off here by the setting `teams`. Leave the name out to start a subagent, or \
                 add run_in_background to give a background agent a name."
                    .to_owned()
            } else {
                "Only the leader starts teammates. Leave the name out to start a subagent, or ask team-lead with \
                 SendMessage."
                    .to_owned()
            });
        }
        slug::agent_name(name).map_err(|e| format!("The agent was not started: {e}."))
    }
}

/// The result of a launch (contract §16).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Async<'a> {
    /// `async_launched`.
    pub status: &'static str,
    /// Its id.
    pub agent_id: &'a str,
    /// As the call has it.
    pub description: &'a str,
    /// As the call has it.
    pub prompt: &'a str,
    /// Where its output goes.
    pub output_file: &'a str,
    /// Whether the caller has a tool to read it.
    pub can_read_output_file: bool,
    /// Whether it waits for a place.
    pub queued: bool,
    /// What of the call was not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'a str>,
}

impl Async<'_> {
    /// As one JSON text.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| error.to_string())
    }
}

impl Tool for AgentTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, _: &Path) -> Access {
        let text = |key: &str| input.get(key).and_then(Value::as_str);
        let kind = text("subagent_type");
        let forks = self.forks().takes(kind) && text("name").is_none();
        let kind = if forks { FORK } else { kind.unwrap_or(GENERAL_PURPOSE) };
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
        run(async move {
            let id = call.id.clone();
            Ok(self.start(input(&self.spec, call)?, id, context).await)
        })
    }
}
