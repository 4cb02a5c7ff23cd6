//! From what a call names to what a teammate is: one resolver for every backend.

use super::context::Team;
use crate::agent::core::AgentCore;
use crate::agent::definitions::GENERAL_PURPOSE;
use crate::agent::worktree::Worktree;
use crate::policy::narrow::{Parent, Wish, narrow};
use crate::store::{clock, slug, trust};
use crate::wire::definition::{AgentDefinition, Isolation};
use crate::wire::ids::{AgentId, AgentName, RunId, SessionId};
use crate::wire::permission::PermissionMode;
use crate::wire::settings::{RetrySettings, Settings};
use crate::wire::team::{BackendType, COLORS, Member, TeamFile};
use crate::wire::worker::{AskPolicy, WORKER_SPEC_VERSION, WorkerSpec};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// What a call wants.
pub struct TeammateRequest {
    /// Who calls.
    pub parent: Arc<AgentCore>,
    /// The call.
    pub tool_use_id: String,
    /// The name as given.
    pub name: String,
    /// A few words for people.
    pub description: String,
    /// The first prompt.
    pub prompt: String,
    /// A definition's name.
    pub agent_type: Option<String>,
    /// A model instead of the definition's.
    pub model: Option<String>,
    /// A mode instead of the definition's.
    pub mode: Option<PermissionMode>,
    /// Rules instead of the parent's session rules.
    pub allowed_tools: Option<Vec<String>>,
    /// Where it works; `None` is what its definition says.
    pub isolation: Option<Isolation>,
    /// A directory instead of the parent's.
    pub cwd: Option<PathBuf>,
}

/// What is the same for all teammates of a leader.
#[derive(Clone)]
pub struct SpawnDefaults {
    /// Where they run; fixed for the process.
    pub backend: BackendType,
    /// Who answers their asks.
    pub asks: AskPolicy,
    /// Retries of model requests.
    pub retry: RetrySettings,
    /// The settings in force.
    pub settings: Settings,
    /// The leader's environment, for workers of their own process.
    pub environment: BTreeMap<String, String>,
    /// Whether the leader's project is trusted.
    pub trusted: bool,
}

/// A teammate as it will be started.
pub struct Resolved {
    /// For its process or task.
    pub spec: WorkerSpec,
    /// For the roster.
    pub member: Member,
    /// What was asked for and not granted, a sentence each.
    pub notes: Vec<String>,
}

/// Resolves a request against the roster; every error is a sentence for the calling model.
pub fn resolve(
    team: &Team,
    roster: &TeamFile,
    request: &TeammateRequest,
    defaults: &SpawnDefaults,
) -> Result<Resolved, String> {
    let parent = &request.parent;
    let runtime = &parent.runtime;
    let name = slug::agent_name(&request.name).map_err(|e| format!("{e}."))?;
    let incarnation = next_incarnation(roster, &name)?;
    let definition = definition(request)?;
    let wanted = request.model.as_deref().or(definition.model.as_deref()).unwrap_or("inherit");
    let model = runtime.models.find(wanted, &parent.model.full).map_err(|e| format!("{e}."))?;
    let cwd = parent.permissions.child_dir(request.cwd.as_deref())?;
    let narrowed = narrow(
        Parent { mode: parent.permissions.mode(), rules: &parent.permissions.rules() },
        Wish {
            mode: request.mode,
            definition: definition.permission_mode,
            allowed_tools: request.allowed_tools.as_deref(),
        },
    );
    let agent_id = AgentId::member(&name, &team.name());
    let next = COLORS[roster.members.len() % COLORS.len()];
    let color = definition.color.clone().unwrap_or_else(|| next.to_owned());
    let session_id = SessionId::generate();
    let mode = narrowed.mode;
    let member = Member {
        agent_id: agent_id.clone(),
        agent_name: name.clone(),
        display_name: request.name.trim().to_owned(),
        agent_type: definition.name.clone(),
        model: model.full.clone(),
        color: color.clone(),
        backend_type: defaults.backend,
        pane_id: None,
        pane_server: None,
        incarnation,
        permission_mode: mode,
        plan_mode_required: request.mode == Some(PermissionMode::Plan),
        cwd: cwd.display().to_string(),
        worktree_path: None,
        session_id: session_id.clone(),
        joined_at: clock::now(),
        restarts: Vec::new(),
        ended: None,
    };
    // It shares the leader's process, and keys belong into no file that nobody empties.
    let in_process = match defaults.backend {
        BackendType::InProcess => true,
        BackendType::Process | BackendType::Tmux | BackendType::Iterm2 => false,
    };
    let spec = WorkerSpec {
        version: WORKER_SPEC_VERSION,
        program_version: env!("CARGO_PKG_VERSION").to_owned(),
        state_root: runtime.paths.state_root().to_owned(),
        team: team.name(),
        name,
        agent_id,
        incarnation,
        run_id: RunId::generate(),
        lead_session_id: parent.context.session.clone(),
        lead_cwd: parent.context.session_cwd.clone(),
        session_id,
        tool_use_id: Some(request.tool_use_id.clone()),
        description: request.description.clone(),
        prompt: request.prompt.clone(),
        definition,
        model: model.full,
        permission_mode: mode,
        rules: narrowed.rules,
        project_root: parent.permissions.project.first().unwrap_or(&parent.context.cwd).clone(),
        additional_directories: parent.permissions.project.iter().skip(1).cloned().collect(),
        cwd,
        worktree: None,
        color,
        backend: defaults.backend,
        depth: parent.context.depth + 1,
        asks: defaults.asks,
        retry: defaults.retry.clone(),
        settings: defaults.settings.clone(),
        trusted: defaults.trusted,
        mcp_servers: if in_process { Vec::new() } else { runtime.mcp.configured().to_vec() },
        environment: if in_process { BTreeMap::new() } else { defaults.environment.clone() },
    };
    Ok(Resolved { spec, member, notes: narrowed.notes })
}

/// Where it works: what the request says, else its definition.
pub fn isolation(request: &TeammateRequest, spec: &WorkerSpec) -> Option<Isolation> {
    request.isolation.or(spec.definition.isolation)
}

/// Puts it into a worktree of its own.
pub fn stand_in(spec: &mut WorkerSpec, tree: &Worktree) {
    // What is trusted is the leader's project; another repository inside it has its own answer.
    let same = trust::root_of(&tree.origin).ok() == trust::root_of(&spec.project_root).ok();
    spec.trusted &= same;
    spec.prompt = format!("{}\n\n{}", tree.notice(), spec.prompt);
    spec.cwd.clone_from(&tree.cwd);
    spec.project_root.clone_from(&tree.path);
    spec.additional_directories.clear();
    spec.worktree = Some(tree.path.clone());
}

fn definition(request: &TeammateRequest) -> Result<AgentDefinition, String> {
    let definitions = request.parent.runtime.definitions.kinds();
    let name = request.agent_type.as_deref().unwrap_or(GENERAL_PURPOSE);
    definitions.get(name).cloned().ok_or_else(|| {
        format!("There is no agent type {name:?}. The types are: {}.", definitions.names().join(", "))
    })
}

fn next_incarnation(roster: &TeamFile, name: &AgentName) -> Result<u32, String> {
    match super::context::latest(roster, name) {
        None => Ok(1),
        Some(member) if member.ended.is_some() => Ok(member.incarnation + 1),
        Some(member) => Err(format!(
            "There is already a teammate named {name}. Send it a message with SendMessage, or choose another name{}.",
            if member.display_name == name.as_str() {
                String::new()
            } else {
                format!(" ({:?} is the same name)", member.display_name)
            }
        )),
    }
}
