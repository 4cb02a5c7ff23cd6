//! A subagent: fresh history, own prompt, tools and permissions; its answer is the tool result.

use super::build::{AgentPlan, Built, build};
use super::context::{AgentContext, Tier};
use super::core::AgentCore;
use super::definitions::query_source;
use super::events::AgentEvent;
use super::first::first_message;
use super::permissions::Permissions;
use super::pipeline::CANCELLED;
use super::transcript::{NewLine, RUN_ENDED};
use super::turn::{TurnEnd, TurnInput, TurnStatus};
use crate::policy::narrow::{Parent, Wish, narrow};
use crate::store::{clock, transcript};
use crate::tools::tool::ToolOutput;
use crate::wire::definition::AgentDefinition;
use crate::wire::ids::{AgentId, RunId};
use crate::wire::permission::PermissionMode;
use crate::wire::transcript::AgentMeta;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// What a subagent returns when it never said anything (contract §13).
pub const NO_OUTPUT: &str = "(Subagent completed but returned no output.)";

/// What to start.
pub struct SubagentRequest {
    /// Who starts it.
    pub parent: Arc<AgentCore>,
    /// The call.
    pub tool_use_id: String,
    /// A few words for people.
    pub description: String,
    /// Its one user message.
    pub prompt: String,
    /// What kind it is.
    pub definition: AgentDefinition,
    /// A model instead of the definition's.
    pub model: Option<String>,
    /// A mode instead of the definition's.
    pub mode: Option<PermissionMode>,
    /// Rules instead of the parent's session rules.
    pub allowed_tools: Option<Vec<String>>,
    /// A directory instead of the parent's.
    pub cwd: Option<PathBuf>,
}

/// Runs a subagent to its end. Every failure is a result for the parent's model.
pub async fn run(request: SubagentRequest, cancel: &CancellationToken) -> ToolOutput {
    let parent = Arc::clone(&request.parent);
    let runtime = Arc::clone(&parent.runtime);
    if let Err(limit) = runtime.slots.start(parent.context.depth + 1) {
        return ToolOutput::error(limit.to_string());
    }
    let lender = parent.place.get();
    let slot = tokio::select! {
        biased;
        () = cancel.cancelled() => { runtime.slots.undo_start(); return ToolOutput::error(CANCELLED) }
        slot = runtime.slots.place(lender.as_ref()) => Arc::new(slot),
    };
    let started = Instant::now();
    match start(&request, slot).await {
        Ok((mut built, meta_path, meta)) => {
            let context = Arc::clone(&built.agent.core().context);
            let event = AgentEvent::ChildStarted(Arc::clone(&context), request.description.clone());
            runtime.observer.event(&parent.context, &event);
            let input = first_message(&built.agent, &request.prompt).await;
            let end = built.agent.turn(TurnInput::Prompt(input), cancel).await;
            finish(&built, meta_path, meta, &end).await;
            result(&built, &end, &request.definition, started)
        }
        Err(why) => {
            runtime.slots.undo_start();
            ToolOutput::error(why)
        }
    }
}

async fn start(
    request: &SubagentRequest,
    slot: Arc<super::limits::Slot>,
) -> Result<(Built, PathBuf, AgentMeta), String> {
    let parent = &request.parent;
    let runtime = &parent.runtime;
    let definition = request.definition.clone();
    let wanted = request.model.as_deref().or(definition.model.as_deref()).unwrap_or("inherit");
    let model = runtime
        .models
        .find(wanted, &parent.model.full)
        .map_err(|e| format!("The agent was not started: {e}. Name another model or leave it out."))?;
    let id = AgentId::subagent();
    let (own, wanted) = (Arc::clone(parent), request.cwd.clone());
    let cwd = runtime
        .disk
        .run(&parent.context.cwd, move || Ok(own.permissions.child_dir(wanted.as_deref())))
        .await
        .map_err(|e| e.to_string())
        .and_then(|dir| dir)
        .map_err(|e| format!("The agent was not started: {e}"))?;
    let context = AgentContext {
        id: id.clone(),
        name: None,
        agent_type: definition.name.clone(),
        tier: Tier::Subagent,
        depth: parent.context.depth + 1,
        query_source: query_source(&definition),
        parent_tool_use_id: Some(request.tool_use_id.clone()),
        cwd: cwd.clone(),
        ..(*parent.context).clone()
    };
    let narrowed = narrow(
        Parent { mode: parent.permissions.mode(), rules: &parent.permissions.rules() },
        Wish {
            mode: request.mode,
            definition: definition.permission_mode,
            allowed_tools: request.allowed_tools.as_deref(),
        },
    );
    let permissions = Permissions::new(
        narrowed.mode,
        narrowed.rules,
        cwd.clone(),
        parent.permissions.project.clone(),
        parent.permissions.home.clone(),
        parent.permissions.closed.clone(),
        parent.permissions.own_output.clone(),
    );
    let project_paths = runtime.paths.project(&context.session_cwd);
    let meta_path = project_paths.sidechain_meta(&context.session, &id);
    let meta = AgentMeta {
        agent_id: id.clone(),
        agent_type: definition.name.clone(),
        description: request.description.clone(),
        tool_use_id: Some(request.tool_use_id.clone()),
        parent_agent_id: parent.context.id.clone(),
        parent_session_id: context.session.clone(),
        is_fork: false,
        depth: context.depth,
        model: model.full.clone(),
        name: None,
        status: "running".to_owned(),
        permission_mode: narrowed.mode,
        cwd: cwd.display().to_string(),
        worktree_path: None,
        created_at: clock::now(),
        prefix_sha256: None,
    };
    let written = (meta_path.clone(), meta.clone());
    runtime
        .disk
        .run(&meta_path, move || transcript::write_meta(&written.0, &written.1))
        .await
        .map_err(|e| format!("The agent was not started: {e}."))?;
    let transcript = project_paths.sidechain(&context.session, &id);
    let plan = AgentPlan {
        max_rounds: definition.max_turns,
        context,
        definition,
        model,
        permissions,
        parent_tools: Some(parent.tool_names().to_vec()),
        always_tools: Vec::new(),
        mailbox: None,
        broker: Arc::clone(&parent.broker),
        transcript,
        prefix_file: None,
        run_id: RunId::generate(),
        prompt_addendum: None,
        slot: Some(slot),
        fork: None,
    };
    let built = build(runtime, plan).await.map_err(|e| format!("The agent was not started: {e}."))?;
    for notice in narrowed.notes.iter().chain(&built.notices) {
        runtime.observer.event(&parent.context, &AgentEvent::Notice(notice.clone()));
    }
    Ok((built, meta_path, meta))
}

/// Records the end; a failure to do so is shown, the result stands.
async fn finish(built: &Built, meta_path: PathBuf, meta: AgentMeta, end: &TurnEnd) {
    let status = match end.status {
        TurnStatus::Completed | TurnStatus::MaxRounds => "completed",
        TurnStatus::Cancelled => "cancelled",
        TurnStatus::Failed(_) => "failed",
    };
    let core = built.agent.core();
    core.shells.end().await;
    let ended = built.agent.transcript().append(vec![NewLine::system(RUN_ENDED, status)]).await;
    let meta = AgentMeta { status: status.to_owned(), ..meta };
    let path = meta_path.clone();
    let written = core.runtime.disk.run(&meta_path, move || transcript::write_meta(&path, &meta)).await;
    for error in [ended.err(), written.err()].into_iter().flatten() {
        core.runtime.observer.event(&core.context, &AgentEvent::Notice(error.to_string()));
    }
}

fn result(built: &Built, end: &TurnEnd, definition: &AgentDefinition, started: Instant) -> ToolOutput {
    let partial = |why: &str| match end.text.trim() {
        "" => why.to_owned(),
        text => format!("{why}\nIts last words were:\n{text}"),
    };
    let mut text = match &end.status {
        TurnStatus::Completed if end.text.trim().is_empty() => NO_OUTPUT.to_owned(),
        TurnStatus::Completed => end.text.clone(),
        TurnStatus::MaxRounds => {
            partial(&format!("The agent stopped at its limit of {} rounds; its work is partial.", end.rounds))
        }
        TurnStatus::Cancelled => return ToolOutput::error(partial(CANCELLED)),
        TurnStatus::Failed(error) => {
            return ToolOutput::error(partial(&format!("The agent failed: {error}.")));
        }
    };
    if !definition.one_shot {
        let id = &built.agent.core().context.id;
        text.push_str(&format!(
            "\n\nagentId: {id} (use SendMessage with to: '{id}' to continue this agent)\n\
             <usage>total_tokens: {}\ntool_uses: {}\nduration_ms: {}</usage>",
            end.last_usage.total(),
            end.tool_uses,
            started.elapsed().as_millis()
        ));
    }
    ToolOutput::ok(text)
}
