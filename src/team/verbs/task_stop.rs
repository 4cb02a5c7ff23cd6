//! `TaskStop`: ends a background task: a subagent, fork or command that the caller has launched, or one
//! further down; for the leader any task of the session, and its teammates.

use crate::agent::context::AgentContext;
use crate::agent::core::AgentCore;
use crate::agent::ports::Mailbox;
use crate::tools::context::ToolContext;
use crate::tools::tool::{BoxFuture, Concurrency, Tool, ToolCall, ToolOutput, ToolSpec};
use crate::tools::work::{input, run};
use crate::wire::access::{Access, Target};
use crate::wire::background::{StoppedBy, TaskRecord, TaskState};
use crate::wire::frame::{FrameType, TaskStopRequest};
use crate::wire::mail::{Draft, Wake};
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::sync::{Arc, LazyLock};

const SCHEMA: &str = r#"{"type":"object","properties":{"task_id":{"type":"string","description":"The id (or name) that its launch returned"}},"required":["task_id"],"additionalProperties":false}"#;

static SPEC: LazyLock<ToolSpec> = LazyLock::new(|| ToolSpec {
    name: "TaskStop".to_owned(),
    description:
        "Stops a background task that you launched. A stopped agent keeps what it knows: SendMessage to its \
                  id goes on with it. A stopped command is ended with everything it has started."
            .to_owned(),
    schema: SCHEMA.into(),
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    task_id: String,
}

/// The tool of one agent.
pub struct TaskStop {
    core: Arc<AgentCore>,
    mailbox: Option<Arc<dyn Mailbox>>,
}

/// Whether a task was launched by this agent, or further down below it: a named agent has all that runs
/// below it.
pub(super) fn is_below(context: &AgentContext, record: &TaskRecord) -> bool {
    let named =
        context.name.is_some() && record.root == context.root && record.incarnation == context.incarnation;
    named || record.launched_by == context.id()
}

impl TaskStop {
    /// Stops what `core` may stop; through `mailbox` what runs in another process.
    pub fn new(core: Arc<AgentCore>, mailbox: Option<Arc<dyn Mailbox>>) -> Self {
        Self { core, mailbox }
    }

    async fn stop(&self, word: &str) -> ToolOutput {
        let background = &self.core.runtime.background;
        let context = &self.core.context;
        let record = match background.find(context, word).await {
            Ok(Some(view)) => view.record,
            Ok(None) => return self.other(word).await,
            Err(error) => return ToolOutput::error(format!("The task could not be looked at: {error}.")),
        };
        let id = &record.task_id;
        let leads = context.depth == 0;
        if !leads && !is_below(context, &record) {
            return ToolOutput::error(format!(
                "{id} is a task of another agent ({}), and only that one or the leader stops it.",
                record.launched_by
            ));
        }
        if record.state.is_over() {
            return ToolOutput::error(format!("{id} has ended before: it is {}.", record.state.as_str()));
        }
        match background.stop(id, StoppedBy::Parent).await {
            Some(TaskState::Cancelled) if record.kind.is_agent() => ToolOutput::ok(format!(
                "{id} is stopped. It keeps what it knows: SendMessage with to: '{id}' goes on with it."
            )),
            Some(TaskState::Cancelled) => ToolOutput::ok(format!("{id} is stopped.")),
            Some(state) => {
                ToolOutput::ok(format!("{id} ended by itself just before: it is {}.", state.as_str()))
            }
            None if leads => self.ask_owner(&record).await,
            None => ToolOutput::error(format!("{id} does not run in this process.")),
        }
    }

    /// Asks the process that runs the task.
    async fn ask_owner(&self, record: &TaskRecord) -> ToolOutput {
        let (id, owner) = (&record.task_id, &record.root);
        let Some(mailbox) = &self.mailbox else {
            return ToolOutput::error(format!("{id} does not run in this process."));
        };
        let request = TaskStopRequest { task_id: id.clone() };
        let text = format!("The leader asks {owner} to stop {id}.");
        let sent = match Draft::frame(FrameType::TaskStopRequest, text, &request) {
            Ok(draft) => mailbox.send(owner, draft.waking(Wake::Queue)).await.map_err(|e| e.what),
            Err(error) => Err(error.to_string()),
        };
        match sent {
            Ok(_) => ToolOutput::ok(format!("{owner}, whose task {id} is, is asked to stop it.")),
            Err(why) => ToolOutput::error(format!("{owner}, whose task {id} is, could not be asked: {why}.")),
        }
    }

    /// A task that others run, or none.
    async fn other(&self, word: &str) -> ToolOutput {
        match self.core.runtime.background.listed(word) {
            Some((_, _, task)) if self.core.context.depth == 0 => ToolOutput::ok(task.stop().await),
            Some((id, ..)) => ToolOutput::error(format!("Only the leader stops {id}.")),
            None => ToolOutput::error(format!("There is no background task {word:?}. Nothing was stopped.")),
        }
    }
}

impl Tool for TaskStop {
    fn spec(&self) -> &ToolSpec {
        &SPEC
    }

    fn access(&self, input: &Value, _: &Path) -> Access {
        let task = input.get("task_id").and_then(Value::as_str).unwrap_or_default();
        Access {
            tool: SPEC.name.clone(),
            target: Target::Nothing,
            summary: format!("Stop the background task {task}"),
        }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Exclusive
    }

    fn run<'a>(&'a self, call: ToolCall, _: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        run(async move {
            let Input { task_id } = input(&SPEC, call)?;
            Ok(self.stop(task_id.trim()).await)
        })
    }
}
