//! A subagent: fresh history, own prompt, tools and permissions; its answer is the tool result.

pub mod launch;
mod leave;
pub mod resume;

use super::build::{AgentPlan, Built, build};
use super::context::{AgentContext, Tier};
use super::core::AgentCore;
use super::definitions::query_source;
use super::events::AgentEvent;
use super::first::first_message;
use super::fork::seed::Seed;
use super::life::live;
use super::limits::{Slot, count_child};
use super::permissions::Permissions;
use super::pipeline::CANCELLED;
use super::runtime::{Model, Runtime};
use super::turn::{TurnEnd, TurnInput, TurnStatus};
use super::worktree::hooks::Tenant;
use super::worktree::{self, Worktree, WorktreeLease};
use crate::policy::narrow::{Parent, Wish, narrow};
use crate::store::{clock, transcript};
use crate::tools::tool::ToolOutput;
use crate::wire::background::TaskState;
use crate::wire::definition::{AgentDefinition, Isolation};
use crate::wire::hooks::HookSettings;
use crate::wire::ids::{AgentId, AgentName, BackgroundId, RunId};
use crate::wire::permission::{PermissionMode, Rule};
use crate::wire::transcript::AgentMeta;
use leave::{Joined, Kept, Office};
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
    /// Where it works; `None` is what its definition says.
    pub isolation: Option<Isolation>,
    /// A name it can be reached by; only for one that works in the background.
    pub name: Option<AgentName>,
}

/// Whether its parent waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    /// The parent waits; the answer is the call's result.
    Foreground,
    /// The parent goes on; the end is told by mail.
    Background,
}

/// A subagent before it runs: nothing in it can be refused any more.
pub(super) struct Prepared {
    pub(super) parent: Arc<AgentCore>,
    pub(super) context: AgentContext,
    pub(super) definition: AgentDefinition,
    pub(super) model: Model,
    pub(super) permissions: Permissions,
    /// Tools it may have at most.
    pub(super) tools: Vec<String>,
    pub(super) meta_path: PathBuf,
    pub(super) meta: AgentMeta,
    pub(super) run_id: RunId,
    pub(super) notes: Vec<String>,
    pub(super) worktree: Option<WorktreeLease>,
    /// Of a fork: what it goes on from.
    pub(super) fork: Option<Seed>,
}

/// Runs a subagent to its end. Every failure is a result for the parent's model.
pub async fn run(request: SubagentRequest, cancel: &CancellationToken) -> ToolOutput {
    let parent = Arc::clone(&request.parent);
    let runtime = Arc::clone(&parent.runtime);
    let counted = match count_child(&parent).await {
        Ok(counted) => counted,
        Err(why) => return ToolOutput::error(why),
    };
    let lender = parent.place.get();
    let slot = tokio::select! {
        biased;
        () = cancel.cancelled() => return ToolOutput::error(CANCELLED),
        slot = runtime.slots.place(lender.as_ref()) => match slot {
            Ok(slot) => slot,
            Err(error) => return ToolOutput::error(format!("The agent was not started: {error}.")),
        },
    };
    let started = Instant::now();
    let prepared = match prepare(&request, Beside::Foreground).await {
        Ok(prepared) => prepared,
        Err(why) => return ToolOutput::error(format!("The agent was not started: {why}")),
    };
    let Some(inside) = runtime.background.enter(&prepared.context.id()) else {
        return ToolOutput::error(format!("The agent {} is running already.", prepared.context.id()));
    };
    let door = Arc::clone(inside.door());
    let office = Office::of(&prepared, Joined::Parent(inside));
    let prompt = in_worktree(&request.prompt, prepared.worktree.as_ref().map(WorktreeLease::tree));
    let mut agent = match start(prepared, slot).await {
        Ok(built) => built.agent,
        Err(why) => {
            office.end(TaskState::Failed).await;
            return ToolOutput::error(format!("The agent was not started: {why}"));
        }
    };
    office.built(&agent);
    counted.stays();
    let context = Arc::clone(&agent.core().context);
    let event = AgentEvent::ChildStarted(Arc::clone(&context), request.description.clone());
    runtime.observer.event(&parent.context, &event);
    let input = TurnInput::Prompt(first_message(&agent, &prompt).await);
    let end = live(&mut agent, input, &door, cancel).await;
    drop(agent);
    let kept = office.end(state(&end)).await;
    result(&context.id(), &end, &request.definition, started, kept)
}

/// Writes down that it begins, and builds it.
async fn start(prepared: Prepared, slot: Slot) -> Result<Built, String> {
    let (path, meta) = (prepared.meta_path.clone(), prepared.meta.clone());
    let disk = &prepared.parent.runtime.disk;
    let file = path.clone();
    disk.run(&file, move || transcript::write_meta(&path, &meta)).await.map_err(|e| format!("{e}."))?;
    make(prepared, Some(slot)).await
}

/// Resolves a request; every error is the end of a sentence for the calling model.
async fn prepare(request: &SubagentRequest, beside: Beside) -> Result<Prepared, String> {
    let parent = Arc::clone(&request.parent);
    let runtime = &parent.runtime;
    let mut definition = request.definition.clone();
    // A kind that does not choose among servers has those of its parent.
    definition.mcp_servers = definition.mcp_servers.or_else(|| request.parent.definition.mcp_servers.clone());
    let wanted = request.model.as_deref().or(definition.model.as_deref()).unwrap_or("inherit");
    let model = runtime
        .models
        .find(wanted, &parent.model.full)
        .map_err(|e| format!("{e}. Name another model or leave it out."))?;
    let id = AgentId::subagent();
    let cwd = child_dir(&parent, request.cwd.clone()).await?;
    let mut context = AgentContext {
        made_as: id.clone(),
        name: None,
        agent_type: definition.name.clone(),
        tier: Tier::Subagent,
        depth: parent.context.depth + 1,
        query_source: query_source(&definition),
        task: match beside {
            Beside::Foreground => parent.context.task.clone(),
            Beside::Background => Some(BackgroundId::of_agent(&id)),
        },
        parent_tool_use_id: Some(request.tool_use_id.clone()),
        cwd,
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
    let isolation = request.isolation.or(definition.isolation);
    let (worktree, more) =
        isolate(&parent, isolation, &mut context, narrowed.mode, &definition.hooks).await?;
    let cwd = context.cwd.clone();
    let meta_path = runtime.paths.project(&context.session_cwd).sidechain_meta(&context.session, &id);
    let meta = AgentMeta {
        agent_id: id,
        agent_type: definition.name.clone(),
        description: request.description.clone(),
        tool_use_id: Some(request.tool_use_id.clone()),
        parent_agent_id: parent.context.id().clone(),
        parent_session_id: context.session.clone(),
        is_fork: false,
        depth: context.depth,
        model: model.full.clone(),
        name: request.name.as_ref().map(ToString::to_string),
        status: TaskState::Running.as_str().to_owned(),
        permission_mode: narrowed.mode,
        cwd: cwd.display().to_string(),
        worktree_path: worktree.as_ref().map(|lease| lease.tree().path.display().to_string()),
        created_at: clock::now(),
        root: Some(context.root.clone()),
        allowed_tools: request.allowed_tools.clone(),
        prefix_sha256: None,
    };
    let tree = worktree.as_ref().map(WorktreeLease::tree);
    let permissions = permissions(&parent, narrowed.mode, narrowed.rules, cwd, tree);
    let notes = narrowed.notes.into_iter().chain(more).collect();
    Ok(Prepared {
        tools: tools(&parent, beside),
        parent,
        context,
        definition,
        model,
        permissions,
        meta_path,
        meta,
        run_id: RunId::generate(),
        notes,
        worktree,
        fork: None,
    })
}

/// The directory that a child works in.
pub(super) async fn child_dir(parent: &Arc<AgentCore>, wanted: Option<PathBuf>) -> Result<PathBuf, String> {
    let own = Arc::clone(parent);
    let found = move || Ok(own.permissions.child_dir(wanted.as_deref()));
    parent.runtime.disk.run(&parent.context.cwd, found).await.map_err(|e| e.to_string())?
}

/// Puts a child into a worktree of its own when it is to be isolated, if the hooks let it; with what a
/// person should know of that.
pub(super) async fn isolate(
    parent: &AgentCore,
    isolation: Option<Isolation>,
    child: &mut AgentContext,
    mode: PermissionMode,
    hooks: &HookSettings,
) -> Result<(Option<WorktreeLease>, Vec<String>), String> {
    let Some(Isolation::Worktree) = isolation else { return Ok((None, Vec::new())) };
    let made = parent.runtime.nursery.create(&child.cwd, &child.id()).await;
    let (tree, notices) = made.map_err(|e| e.to_string())?;
    move_in(parent, tree, notices, child, mode, hooks).await.map(|(lease, notices)| (Some(lease), notices))
}

/// Puts a child into a worktree that was just made for it, if the hooks let it.
async fn move_in(
    parent: &AgentCore,
    tree: Worktree,
    mut notices: Vec<String>,
    child: &mut AgentContext,
    mode: PermissionMode,
    hooks: &HookSettings,
) -> Result<(WorktreeLease, Vec<String>), String> {
    let runtime = &parent.runtime;
    let lease = WorktreeLease::new(&runtime.nursery, tree);
    child.cwd.clone_from(&lease.tree().cwd);
    let tenant = Tenant { context: child, mode, hooks };
    notices.extend(worktree::hooks::made(&*runtime.gates, &runtime.paths, &tenant, &lease).await?);
    Ok((lease, notices))
}

/// What a child may have at most: its parent's tools, in the background those of the list.
fn tools(parent: &AgentCore, beside: Beside) -> Vec<String> {
    let all = parent.child_tool_names();
    match beside {
        Beside::Foreground => all.to_vec(),
        Beside::Background => {
            all.iter().filter(|name| super::background::tools::may_have(name)).cloned().collect()
        }
    }
}

/// What it may do; in a worktree of its own, that is its project and its parent's is not.
pub(super) fn permissions(
    parent: &AgentCore,
    mode: PermissionMode,
    rules: Vec<Rule>,
    cwd: PathBuf,
    worktree: Option<&Worktree>,
) -> Permissions {
    let own = &parent.permissions;
    let project = worktree.map_or_else(|| own.project.clone(), |tree| vec![tree.path.clone()]);
    Permissions::new(mode, rules, cwd, project, own.home.clone(), own.closed.clone(), own.own_output.clone())
        .below(own.mode())
}

/// Builds it, with a mailbox of its own.
async fn make(prepared: Prepared, slot: Option<Slot>) -> Result<Built, String> {
    let Prepared { parent, context, definition, model, permissions, tools, run_id, notes, fork, .. } =
        prepared;
    let runtime: &Arc<Runtime> = &parent.runtime;
    let mailbox = runtime.background.post().mailbox(&context).await.map_err(|e| format!("{e}."))?;
    let project = runtime.paths.project(&context.session_cwd);
    let plan = AgentPlan {
        max_rounds: definition.max_turns,
        transcript: project.sidechain(&context.session, &context.id()),
        prefix_file: Some(project.member_prefix(&context.session, &context.id(), 1)),
        context,
        definition,
        model,
        permissions,
        parent_tools: Some(tools),
        always_tools: Vec::new(),
        mailbox: Some(mailbox),
        broker: Arc::clone(&parent.broker),
        run_id,
        prompt_addendum: None,
        slot: slot.map(Arc::new),
        fork,
    };
    let built = build(runtime, plan).await.map_err(|e| format!("{e}."))?;
    for notice in notes.iter().chain(&built.notices) {
        runtime.observer.event(&parent.context, &AgentEvent::Notice(notice.clone()));
    }
    Ok(built)
}

/// A prompt with what its agent must know of the place it works in.
fn in_worktree(prompt: &str, worktree: Option<&Worktree>) -> String {
    worktree.map_or_else(|| prompt.to_owned(), |tree| format!("{}\n\n{prompt}", tree.notice()))
}

fn state(end: &TurnEnd) -> TaskState {
    match end.status {
        TurnStatus::Completed | TurnStatus::MaxRounds => TaskState::Completed,
        TurnStatus::Cancelled => TaskState::Cancelled,
        TurnStatus::Failed(_) => TaskState::Failed,
    }
}

/// What an end is in words: what was said, or what went wrong.
fn words(end: &TurnEnd) -> Result<String, String> {
    let partial = |why: &str| match end.text.trim() {
        "" => why.to_owned(),
        text => format!("{why}\nIts last words were:\n{text}"),
    };
    match &end.status {
        TurnStatus::Completed if end.text.trim().is_empty() => Ok(NO_OUTPUT.to_owned()),
        TurnStatus::Completed => Ok(end.text.clone()),
        TurnStatus::MaxRounds => Ok(partial(&format!(
            "The agent stopped at its limit of {} rounds; its work is partial.",
            end.rounds
        ))),
        TurnStatus::Cancelled => Err(partial(CANCELLED)),
        TurnStatus::Failed(error) => Err(partial(&format!("The agent failed: {error}."))),
    }
}

fn result(
    id: &AgentId,
    end: &TurnEnd,
    definition: &AgentDefinition,
    started: Instant,
    kept: Option<Kept>,
) -> ToolOutput {
    let place = kept.map(|Kept { tree, why }| {
        format!("\n\nworktree: {} (branch {}): {why}", tree.path.display(), tree.branch)
    });
    let place = place.unwrap_or_default();
    let mut text = match words(end) {
        Ok(text) => text,
        Err(why) => return ToolOutput::error(why + &place),
    };
    text.push_str(&place);
    if !definition.one_shot {
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
