//! From a call to a fork that is ready to run.
//!
//! Promises that what can be refused is refused before anything is made. The request has no place for a
//! model, tools or a definition: prefix, model and conversation are the parent's.

use super::bytes::{PLACEHOLDER, directive, has_directive, place, placeholders};
use super::guard::is_fork;
use super::point::Snapshot;
use super::resume::relative;
use super::seed::Seed;
use super::{FORK, FORK_SOURCE};
use crate::agent::context::{AgentContext, Tier};
use crate::agent::core::AgentCore;
use crate::agent::permissions::Permissions;
use crate::agent::prefix_file;
use crate::policy::narrow::{Narrowed, Parent, Wish, narrow};
use crate::tools::file_cache::FileCache;
use crate::wire::block::Block;
use crate::wire::definition::{AgentDefinition, ToolChoice};
use crate::wire::fork::ForkOrigin;
use crate::wire::ids::AgentId;
use crate::wire::limits::FORK_ROUNDS;
use crate::wire::permission::PermissionMode;
use std::path::PathBuf;
use std::sync::Arc;

/// What to fork.
pub struct ForkRequest {
    /// Whose conversation.
    pub parent: Arc<AgentCore>,
    /// As it is now.
    pub at: Arc<Snapshot>,
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
}

/// Why an agent's conversation cannot be forked by a call it makes now; for the model.
pub fn refusal(parent: &AgentCore, at: Option<&Snapshot>) -> Option<String> {
    let is_one = is_fork(&parent.context) || at.is_some_and(|at| has_directive(&at.messages));
    if is_one {
        return Some("a fork starts no agents: do the work yourself".to_owned());
    }
    match at {
        Some(_) => None,
        None => Some("there is no conversation to fork here".to_owned()),
    }
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

/// A fork that can be built, and what to tell of it.
pub struct Prepared {
    /// Who it is.
    pub context: AgentContext,
    /// What it runs.
    pub definition: AgentDefinition,
    /// What it may do.
    pub permissions: Permissions,
    /// What it goes on from.
    pub seed: Seed,
    /// Its first words.
    pub directive: Block,
    /// What was asked for and not granted.
    pub notes: Vec<String>,
}

/// Everything a fork with this id begins with. Keeps the prefix on disk for a later run; makes nothing else.
pub async fn prepare(request: &ForkRequest, id: AgentId) -> Result<Prepared, String> {
    let parent = &request.parent;
    let cwd = child_dir(parent, request.cwd.clone()).await?;
    let definition = definition(&parent.definition);
    let narrowed = narrowed(parent, request.mode, request.allowed_tools.as_deref());
    let permissions = permissions(parent, &narrowed, cwd.clone());
    let own = cwd.display().to_string();
    let parents = parent.context.cwd.display().to_string();
    let moved = (own != parents).then(|| place(&own, &parents));
    let seed = seed(parent, &request.at).await?;
    let context = AgentContext {
        id,
        name: None,
        agent_type: FORK.to_owned(),
        tier: Tier::Subagent,
        depth: parent.context.depth + 1,
        query_source: FORK_SOURCE.to_owned(),
        parent_tool_use_id: Some(request.tool_use_id.clone()),
        cwd,
        ..(*parent.context).clone()
    };
    let directive = directive(&request.directive, moved.as_deref());
    Ok(Prepared { context, definition, permissions, seed, directive, notes: narrowed.notes })
}

async fn child_dir(parent: &Arc<AgentCore>, wanted: Option<PathBuf>) -> Result<PathBuf, String> {
    let own = Arc::clone(parent);
    let found = parent
        .runtime
        .disk
        .run(&parent.context.cwd, move || Ok(own.permissions.child_dir(wanted.as_deref())));
    found.await.map_err(|e| e.to_string()).and_then(|dir| dir)
}

/// A fork decides as its parent does; what it asks appears where its parent's questions do.
fn narrowed(parent: &AgentCore, mode: Option<PermissionMode>, allowed: Option<&[String]>) -> Narrowed {
    narrow(
        Parent { mode: parent.permissions.mode(), rules: &parent.permissions.rules() },
        Wish { mode, definition: None, allowed_tools: allowed },
    )
}

fn permissions(parent: &AgentCore, narrowed: &Narrowed, cwd: PathBuf) -> Permissions {
    let own = &parent.permissions;
    Permissions::new(
        narrowed.mode,
        narrowed.rules.clone(),
        cwd,
        own.project.clone(),
        own.home.clone(),
        own.closed.clone(),
        own.own_output.clone(),
    )
    .below(own.mode())
}

/// The parent's bytes with their address on disk.
async fn seed(parent: &Arc<AgentCore>, at: &Arc<Snapshot>) -> Result<Seed, String> {
    let runtime = &parent.runtime;
    let project = runtime.paths.project(&parent.context.session_cwd);
    let dir = project.prefixes_dir(&parent.context.session);
    let (kept, provider, target) = (Arc::clone(at), parent.model.provider.name(), dir.clone());
    let keep = move || prefix_file::keep(&target, provider, &kept.prefix, &kept.tool_names);
    let prefix_file = runtime.disk.run(&dir, keep).await.map_err(|e| e.to_string())?;
    let address = |path: &std::path::Path| {
        relative(project.dir(), path).ok_or_else(|| format!("{} is not below the sessions", path.display()))
    };
    let results = at.messages.last().map(|m| placeholders(m, PLACEHOLDER)).unwrap_or_default();
    let origin = ForkOrigin {
        parent_agent_id: parent.context.id.clone(),
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
