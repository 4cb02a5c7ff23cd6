//! From a call to a fork that works beside its parent.
//!
//! Promises that what can be refused is refused before anything is made. The request has no place for a
//! model, tools or a definition: prefix, model and conversation are the parent's.

use super::bytes::{PLACEHOLDER, directive, has_directive, place, placeholders};
use super::guard::is_fork;
use super::point::Snapshot;
use super::resume::relative;
use super::seed::Seed;
use super::{FORK, FORK_SOURCE};
use crate::agent::background::Launched;
use crate::agent::context::{AgentContext, Tier};
use crate::agent::core::AgentCore;
use crate::agent::limits::count_child;
use crate::agent::prefix_file;
use crate::agent::subagent::launch::{First, begin, not_started};
use crate::agent::subagent::{self, Prepared};
use crate::agent::worktree::WorktreeLease;
use crate::policy::narrow::{Parent, Wish, narrow};
use crate::store::clock;
use crate::tools::file_cache::FileCache;
use crate::wire::background::{TaskKind, TaskState};
use crate::wire::block::Block;
use crate::wire::definition::{AgentDefinition, Isolation, ToolChoice};
use crate::wire::fork::ForkOrigin;
use crate::wire::ids::{AgentId, BackgroundId, RunId};
use crate::wire::limits::FORK_ROUNDS;
use crate::wire::permission::PermissionMode;
use crate::wire::transcript::AgentMeta;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What to fork.
pub struct ForkRequest {
    /// Whose conversation.
    pub parent: Arc<AgentCore>,
    /// The call.
    pub tool_use_id: String,
    /// A few words for people.
    pub description: String,
    /// What the fork is to do.
    pub directive: String,
    /// A narrower permission mode than the parent's.
    pub mode: Option<PermissionMode>,
    /// Rules instead of the parent's session rules.
    pub allowed_tools: Option<Vec<String>>,
    /// A directory instead of the parent's.
    pub cwd: Option<PathBuf>,
    /// A worktree of its own.
    pub isolation: Option<Isolation>,
}

/// Launches a fork. The error is a sentence for the parent's model.
pub async fn launch(request: ForkRequest) -> Result<Launched, String> {
    let parent = Arc::clone(&request.parent);
    let at = point(&parent).map_err(|why| not_started(&why))?;
    let counted = count_child(&parent).await?;
    let launched = match prepare(request, &at).await {
        Ok((prepared, directive)) => begin(prepared, TaskKind::Fork, None, First::Directive(directive)).await,
        Err(why) => Err(why),
    };
    let launched = launched.map_err(|why| not_started(&why))?;
    counted.stays();
    Ok(launched)
}

/// The conversation as it is now, if it may be forked.
fn point(parent: &AgentCore) -> Result<Arc<Snapshot>, String> {
    let at = parent.fork_point.snapshot().ok_or("there is no conversation to fork here")?;
    if is_fork(&parent.context) || has_directive(&at.messages) {
        return Err("a fork starts no agents: do the work yourself".to_owned());
    }
    Ok(at)
}

/// Everything a fork begins with. Keeps the prefix on disk for a later run; makes nothing else.
async fn prepare(request: ForkRequest, at: &Arc<Snapshot>) -> Result<(Prepared, Block), String> {
    let parent = request.parent;
    let cwd = subagent::child_dir(&parent, request.cwd).await?;
    let narrowed = narrow(
        Parent { mode: parent.permissions.mode(), rules: &parent.permissions.rules() },
        Wish { mode: request.mode, definition: None, allowed_tools: request.allowed_tools.as_deref() },
    );
    let seed = seed(&parent, at).await?;
    let id = AgentId::subagent();
    let definition = definition(&parent.definition);
    let mut context = AgentContext {
        made_as: id.clone(),
        name: None,
        agent_type: FORK.to_owned(),
        tier: Tier::Subagent,
        depth: parent.context.depth + 1,
        query_source: FORK_SOURCE.to_owned(),
        task: Some(BackgroundId::of_agent(&id)),
        parent_tool_use_id: Some(request.tool_use_id.clone()),
        cwd,
        ..(*parent.context).clone()
    };
    let (worktree, more) =
        subagent::isolate(&parent, request.isolation, &mut context, narrowed.mode, &definition.hooks).await?;
    let cwd = context.cwd.clone();
    let project = parent.runtime.paths.project(&context.session_cwd);
    let meta = AgentMeta {
        agent_id: id.clone(),
        agent_type: FORK.to_owned(),
        description: request.description,
        tool_use_id: Some(request.tool_use_id),
        parent_agent_id: parent.context.id().clone(),
        parent_session_id: context.session.clone(),
        is_fork: true,
        depth: context.depth,
        model: parent.model.full.clone(),
        name: None,
        status: TaskState::Running.as_str().to_owned(),
        permission_mode: narrowed.mode,
        cwd: cwd.display().to_string(),
        worktree_path: worktree.as_ref().map(|lease| lease.tree().path.display().to_string()),
        created_at: clock::now(),
        root: Some(context.root.clone()),
        allowed_tools: request.allowed_tools,
        prefix_sha256: Some(seed.origin.shared.prefix_sha256.clone()),
    };
    let moved = (cwd != parent.context.cwd)
        .then(|| place(&cwd.display().to_string(), &parent.context.cwd.display().to_string()));
    let directive = directive(&request.directive, moved.as_deref());
    let prepared = Prepared {
        meta_path: project.sidechain_meta(&context.session, &id),
        permissions: subagent::permissions(
            &parent,
            narrowed.mode,
            narrowed.rules,
            cwd,
            worktree.as_ref().map(WorktreeLease::tree),
        ),
        definition,
        model: parent.model.clone(),
        tools: Vec::new(),
        context,
        meta,
        run_id: RunId::generate(),
        notes: narrowed.notes.into_iter().chain(more).collect(),
        worktree,
        fork: Some(seed),
        parent,
    };
    Ok((prepared, directive))
}

/// The kind of agent that forks are. Its prompt is never rendered: a fork sends its parent's.
pub fn definition(parent: &AgentDefinition) -> AgentDefinition {
    AgentDefinition {
        name: FORK.to_owned(),
        description: "Goes on with its parent's conversation, for one task.".to_owned(),
        tools: ToolChoice::All,
        disallowed_tools: Vec::new(),
        model: None,
        permission_mode: None,
        max_turns: Some(FORK_ROUNDS),
        isolation: None,
        color: None,
        one_shot: false,
        system_prompt: String::new(),
        ..parent.clone()
    }
}

/// The parent's bytes with their address on disk.
async fn seed(parent: &Arc<AgentCore>, at: &Arc<Snapshot>) -> Result<Seed, String> {
    let runtime = &parent.runtime;
    let project = runtime.paths.project(&parent.context.session_cwd);
    let dir = project.prefixes_dir(&parent.context.session);
    let (kept, provider, target) = (Arc::clone(at), parent.model.provider.name(), dir.clone());
    let keep = move || prefix_file::keep(&target, provider, &kept.prefix, &kept.tool_names);
    let prefix_file = runtime.disk.run(&dir, keep).await.map_err(|e| e.to_string())?;
    let address = |path: &Path| {
        let why = || format!("{} does not lie below {}", path.display(), project.dir().display());
        relative(project.dir(), path).ok_or_else(why)
    };
    let results = at.messages.last().map(|m| placeholders(m, PLACEHOLDER)).unwrap_or_default();
    let origin = ForkOrigin {
        parent_agent_id: parent.context.id().clone(),
        parent_transcript: address(&at.transcript)?,
        parent_line: at.line.clone(),
        prefix_file: address(&prefix_file)?,
        placeholder: PLACEHOLDER.to_owned(),
        shared: parent.fork_point.measure(at, &results),
    };
    Ok(Seed {
        prefix: Arc::clone(&at.prefix),
        tool_names: at.tool_names.clone(),
        messages: at.messages.clone(),
        origin,
        files: FileCache::clone(&parent.files),
        receipt: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::definitions::main_agent;

    #[test]
    fn a_fork_has_two_hundred_rounds_and_nothing_of_its_own_to_render() {
        let own = AgentDefinition {
            max_turns: Some(3),
            disallowed_tools: vec!["Bash".to_owned()],
            omit_instructions: true,
            ..main_agent()
        };
        let fork = definition(&own);
        assert_eq!((fork.name.as_str(), fork.max_turns), ("fork", Some(200)));
        assert_eq!((fork.system_prompt.as_str(), fork.disallowed_tools.len()), ("", 0));
        assert!(fork.omit_instructions, "what it was given stays as its parent has it");
    }
}
