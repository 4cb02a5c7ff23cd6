//! `TaskOutput`: how a background task stands, and what it has brought so far.
//!
//! A look, not a way to wait for everything: the end of a task comes by itself. New output of a command
//! is shown once; the file has all of it.

use crate::agent::background::TaskView;
use crate::agent::context::Tier;
use crate::agent::core::AgentCore;
use crate::store::background;
use crate::store::error::StoreError;
use crate::tools::context::ToolContext;
use crate::tools::tool::{BoxFuture, Concurrency, Tool, ToolCall, ToolOutput, ToolSpec};
use crate::tools::work::{input, run};
use crate::wire::access::{Access, Target};
use crate::wire::background::TaskKind;
use crate::wire::limits::{TASK_OUTPUT_WAIT, TASK_OUTPUT_WAIT_MAX};
use serde::Deserialize;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// How long a look may go on after its time, until its agent has a place of its own again.
const RETAKE_DEADLINE: Duration = Duration::from_secs(1);
/// Bytes of new output that one call shows; below the cap of results, so that nothing is cut twice.
const SHOWN: u64 = 24_000;

const SCHEMA: &str = r#"{"type":"object","properties":{"task_id":{"type":"string","description":"The id (or name) that its launch returned"},"block":{"type":"boolean","description":"Whether to wait for its end; true when left out"},"timeout":{"type":"integer","minimum":0,"maximum":600000,"description":"How long to wait, in milliseconds; 30000 when left out"}},"required":["task_id"],"additionalProperties":false}"#;

static SPEC: LazyLock<ToolSpec> = LazyLock::new(|| {
    ToolSpec {
    name: "TaskOutput".to_owned(),
    description: "Shows how a background task that you launched stands: its state, its result when it has ended, and \
                  what a command has written since you looked last. With block it waits for the end, up to the \
                  timeout. You are told of every end anyway, so use it only for what you need now."
        .to_owned(),
    schema: SCHEMA.into(),
}
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    task_id: String,
    block: Option<bool>,
    timeout: Option<u64>,
}

/// The tool of one agent.
pub struct TaskOutput {
    core: Arc<AgentCore>,
}

impl TaskOutput {
    /// Shows what `core` has launched.
    pub fn new(core: Arc<AgentCore>) -> Self {
        Self { core }
    }

    async fn look(&self, input: Input, context: &ToolContext) -> ToolOutput {
        if self.core.context.tier == Tier::Subagent {
            return ToolOutput::error(
                "TaskOutput is not for agents that report to another. You are told of the end of what you launched.",
            );
        }
        let background = &self.core.runtime.background;
        let word = input.task_id.trim();
        let view = match background.find(&self.core.context, word).await {
            Ok(Some(view)) => view,
            Ok(None) => return self.other(word).await,
            Err(error) => return ToolOutput::error(format!("The task could not be looked at: {error}.")),
        };
        let id = view.record.task_id.clone();
        if !super::task_stop::is_below(&self.core.context, &view.record) {
            return ToolOutput::error(format!(
                "{id} is a task of another agent ({}); ask that one.",
                view.record.launched_by
            ));
        }
        let waits = input.block.unwrap_or(true) && !view.record.state.is_over();
        if let Some(mut state) = background.follow(&id).filter(|_| waits) {
            let patience = input.timeout.map_or(TASK_OUTPUT_WAIT, Duration::from_millis);
            // What waits lends its place, or the task could wait for it.
            self.core.place.offer();
            tokio::select! {
                biased;
                () = context.cancel.cancelled() => {}
                // An error is a task that is forgotten, which only a finished one is.
                _ = tokio::time::timeout(patience.min(TASK_OUTPUT_WAIT_MAX), state.wait_for(|s| s.is_over())) => {}
            }
            tokio::select! {
                biased;
                () = context.cancel.cancelled() => {}
                // After that, better one too many at once than a caller that waits for the very task whose
                // state it wants to know.
                _ = tokio::time::timeout(RETAKE_DEADLINE, self.core.place.retake(&self.core.runtime.slots)) => {}
            }
        }
        match background.find(&self.core.context, id.as_str()).await {
            Ok(Some(view)) => self.show(&view).await,
            Ok(None) => ToolOutput::error(format!("There is no task {id} any more.")),
            Err(error) => ToolOutput::error(format!("The task could not be looked at: {error}.")),
        }
    }

    /// A task that others run, or none.
    async fn other(&self, word: &str) -> ToolOutput {
        let background = &self.core.runtime.background;
        if let Some((id, kind, task)) = background.listed(word) {
            let state = task.state().await;
            return ToolOutput::ok(format!(
                "task_id: {id}\nkind: {}\nstatus: {state}\nIts reports come as messages.",
                kind.as_str()
            ));
        }
        let mine: Vec<String> = background
            .views()
            .iter()
            .filter(|view| super::task_stop::is_below(&self.core.context, &view.record))
            .map(|view| view.record.task_id.to_string())
            .collect();
        let known = if mine.is_empty() { "You have launched none.".to_owned() } else { mine.join(", ") };
        ToolOutput::error(format!("There is no background task {word:?}. Your tasks: {known}"))
    }

    async fn show(&self, view: &TaskView) -> ToolOutput {
        let record = &view.record;
        let mut text = format!(
            "task_id: {}\nkind: {}\nstatus: {}\ndescription: {}\noutput_file: {}",
            record.task_id,
            record.kind.as_str(),
            record.state.as_str(),
            record.description,
            record.output_file
        );
        if let Some(tool) = view.doing.tool.as_ref().filter(|_| !record.state.is_over()) {
            let _ = write!(text, "\ndoes: {tool}");
        }
        let outcome = record.outcome.as_ref().filter(|_| record.state.is_over());
        if let Some(error) = outcome.and_then(|outcome| outcome.error.as_ref()) {
            let _ = write!(text, "\nerror: {error}");
        }
        let body = match record.kind {
            TaskKind::Shell => self.new_output(view).await,
            TaskKind::Subagent | TaskKind::Fork | TaskKind::InProcessTeammate | TaskKind::PaneTeammate => {
                Ok(match outcome {
                    Some(outcome) => outcome.result.clone().unwrap_or_default(),
                    None => view.doing.said.clone(),
                })
            }
        };
        match body {
            Ok(body) if body.trim().is_empty() => text.push_str("\n\n(no new output)"),
            Ok(body) => {
                let _ = write!(text, "\n\n{body}");
            }
            Err(error) => {
                let _ = write!(text, "\n\nIts output could not be read: {error}.");
            }
        }
        ToolOutput::ok(text)
    }

    /// What a command has written since the last look.
    async fn new_output(&self, view: &TaskView) -> Result<String, StoreError> {
        let path = PathBuf::from(&view.record.output_file);
        let id = &view.record.task_id;
        let mut place = self.core.runtime.background.reading(id).await;
        let from = place.as_deref().copied().unwrap_or(0);
        let file = path.clone();
        let read = self.core.runtime.disk.run(&path, move || background::read_output(&file, from, SHOWN));
        let (text, to, left) = read.await?;
        if let Some(place) = &mut place {
            **place = to;
        }
        Ok(match left {
            0 => text,
            left => format!("{text}\n[{left} bytes more: look again, or read the file]"),
        })
    }
}

impl Tool for TaskOutput {
    fn spec(&self) -> &ToolSpec {
        &SPEC
    }

    fn access(&self, input: &Value, _: &Path) -> Access {
        let task = input.get("task_id").and_then(Value::as_str).unwrap_or_default();
        Access {
            tool: SPEC.name.clone(),
            target: Target::Nothing,
            summary: format!("Look at the background task {task}"),
        }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Safe
    }

    fn run<'a>(&'a self, call: ToolCall, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        run(async move { Ok(self.look(input(&SPEC, call)?, context).await) })
    }
}
