//! What the tests of several layers share.

use crate::wire::definition::{AgentDefinition, ToolChoice};
use crate::wire::ids::{AgentId, AgentName, RunId, SessionId, TeamName};
use crate::wire::permission::PermissionMode;
use crate::wire::settings::{RetrySettings, Settings};
use crate::wire::team::BackendType;
use crate::wire::worker::{AskPolicy, WORKER_SPEC_VERSION, WorkerSpec};
use std::collections::BTreeMap;
use std::path::Path;

/// A spec of run `run-1` that stands in `cwd`.
pub(crate) fn worker_spec(name: &str, team: &str, cwd: &Path) -> WorkerSpec {
    let (name, team) = (AgentName::new(name).expect("slug"), TeamName::new(team).expect("slug"));
    WorkerSpec {
        version: WORKER_SPEC_VERSION,
        program_version: "0.0.0".to_owned(),
        state_root: cwd.to_owned(),
        agent_id: AgentId::member(&name, &team),
        team,
        name,
        incarnation: 1,
        run_id: RunId::new("run-1"),
        lead_session_id: SessionId::new("lead"),
        lead_cwd: cwd.to_owned(),
        session_id: SessionId::new("own"),
        tool_use_id: None,
        description: "test".to_owned(),
        prompt: "test".to_owned(),
        definition: AgentDefinition {
            name: "general-purpose".to_owned(),
            description: String::new(),
            tools: ToolChoice::All,
            disallowed_tools: Vec::new(),
            mcp_servers: None,
            model: None,
            permission_mode: None,
            max_turns: None,
            background: None,
            effort: None,
            isolation: None,
            color: None,
            one_shot: false,
            omit_instructions: false,
            hooks: crate::wire::hooks::HookSettings::default(),
            system_prompt: String::new(),
        },
        model: "scripted:none".to_owned(),
        permission_mode: PermissionMode::Default,
        rules: Vec::new(),
        project_root: cwd.to_owned(),
        additional_directories: Vec::new(),
        cwd: cwd.to_owned(),
        color: "blue".to_owned(),
        worktree: None,
        backend: BackendType::InProcess,
        depth: 1,
        asks: AskPolicy::Wait,
        retry: RetrySettings::default(),
        settings: Settings::default(),
        trusted: false,
        mcp_servers: Vec::new(),
        environment: BTreeMap::new(),
    }
}
