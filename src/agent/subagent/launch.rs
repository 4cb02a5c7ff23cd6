//! A subagent in the background: launched, not waited for; its end is told by mail.

use super::leave::{Joined, Office};
use super::{Beside, Prepared, SubagentRequest, in_worktree, make, prepare, state};
use crate::agent::background::{Launch, Launched, Outcome, TaskControl, TaskEnd};
use crate::agent::events::AgentEvent;
use crate::agent::first::first_message;
use crate::agent::life::live;
use crate::agent::limits::count_child;
use crate::agent::turn::{TurnEnd, TurnInput, TurnStatus};
use crate::agent::worktree::WorktreeLease;
use crate::wire::background::{TaskKind, TaskState, TaskUsage};
use crate::wire::block::Block;
use crate::wire::ids::{AgentName, BackgroundId};
use std::sync::Arc;

/// Launches it. The error is a sentence for the parent's model.
pub async fn launch(request: SubagentRequest) -> Result<Launched, String> {
    let counted = count_child(&request.parent).await?;
    let launched = match prepare(&request, Beside::Background).await {
        Ok(prepared) => {
            begin(prepared, TaskKind::Subagent, request.name, First::Prompt(request.prompt)).await
        }
        Err(why) => Err(why),
    };
    let launched = launched.map_err(|why| not_started(&why))?;
    counted.stays();
    Ok(launched)
}

/// Why an agent was not started, as one sentence.
pub(in crate::agent) fn not_started(why: &str) -> String {
    format!("The agent was not started: {why}.").replace("..", ".")
}

/// Gives what is prepared to the registry.
pub(in crate::agent) async fn begin(
    prepared: Prepared,
    kind: TaskKind,
    name: Option<AgentName>,
    first: First,
) -> Result<Launched, String> {
    let launch = Launch {
        id: BackgroundId::of_agent(&prepared.context.id()),
        kind,
        run_id: prepared.run_id.clone(),
        description: prepared.meta.description.clone(),
        name,
        launcher: Arc::clone(&prepared.parent),
        tool_use_id: prepared.meta.tool_use_id.clone().unwrap_or_default(),
        meta: Some((prepared.meta_path.clone(), prepared.meta.clone())),
    };
    let background = prepared.parent.runtime.background.clone();
    let work = move |control| work(prepared, first, control);
    background.launch(launch, work).await.map_err(|e| e.to_string())
}

/// What a run begins with.
pub(in crate::agent) enum First {
    /// The task.
    Prompt(String),
    /// The mail that waits.
    Mail,
    /// The task of a fork.
    Directive(Block),
}

/// The run itself.
async fn work(prepared: Prepared, first: First, control: TaskControl) -> TaskEnd {
    let TaskControl { cancel, slot, door, remains, .. } = control;
    let Some(door) = door else { return TaskEnd::failed("it was launched as something else") };
    let (parent, description) = (Arc::clone(&prepared.parent), prepared.meta.description.clone());
    // What it leaves, a worktree that stays too, is the registry's to wait for and to tell.
    let office = Office::of(&prepared, Joined::Registry(remains));
    let worktree = prepared.worktree.clone();
    let mut agent = match make(prepared, slot).await {
        Ok(built) => built.agent,
        Err(why) => {
            office.end(TaskState::Failed).await;
            return TaskEnd::failed(format!("It could not be started: {why}"));
        }
    };
    office.built(&agent);
    let context = Arc::clone(&agent.core().context);
    let started = AgentEvent::ChildStarted(context, description);
    parent.runtime.observer.event(&parent.context, &started);
    let input = match first {
        First::Prompt(prompt) => {
            let prompt = in_worktree(&prompt, worktree.as_ref().map(WorktreeLease::tree));
            Ok(TurnInput::Prompt(first_message(&agent, &prompt).await))
        }
        First::Mail => Ok(TurnInput::Mail),
        First::Directive(directive) => agent.begin_fork(directive).await.map(|()| TurnInput::Continue),
    };
    drop(worktree);
    let input = match input {
        Ok(input) => input,
        Err(error) => {
            drop(agent);
            office.end(TaskState::Failed).await;
            return TaskEnd::failed(format!("It could not be started: {error}"));
        }
    };
    let end = live(&mut agent, input, &door, &cancel).await;
    let receipt = agent.receipt().and_then(|receipt| serde_json::to_value(receipt).ok());
    drop(agent);
    office.end(state(&end)).await;
    TaskEnd { receipt, ..task_end(&end) }
}

/// What is told of it.
fn task_end(end: &TurnEnd) -> TaskEnd {
    let outcome = match state(end) {
        TaskState::Failed => Outcome::Failed,
        TaskState::Cancelled => Outcome::Cancelled,
        TaskState::Queued | TaskState::Running | TaskState::Completed => Outcome::Completed,
    };
    let mut told = TaskEnd::new(outcome);
    match super::words(end) {
        Ok(text) => told.result = Some(text),
        Err(_) => {
            told.result = Some(end.text.clone()).filter(|text| !text.trim().is_empty());
            if let TurnStatus::Failed(error) = &end.status {
                told.error = Some(error.to_string());
            }
        }
    }
    told.usage = TaskUsage {
        total_tokens: end.last_usage.total(),
        tool_uses: u64::from(end.tool_uses),
        duration_ms: 0,
    };
    told
}
