//! What a teammate is, beside its transcript (contract §8), for those who list and show transcripts.

use super::teammate::Host;
use crate::store::{clock, transcript};
use crate::wire::ids::{AgentId, AgentName};
use crate::wire::transcript::AgentMeta;
use crate::wire::worker::WorkerSpec;

/// Writes it with this status; a failure is logged, since nothing that works depends on the file.
pub(super) async fn write(host: &Host, spec: &WorkerSpec, status: &str) {
    let project = host.runtime.paths.project(&spec.lead_cwd);
    let path = project.member_sidechain_meta(&spec.lead_session_id, &spec.agent_id, spec.incarnation);
    let meta = AgentMeta {
        agent_id: spec.agent_id.clone(),
        agent_type: spec.definition.name.clone(),
        description: spec.description.clone(),
        tool_use_id: spec.tool_use_id.clone(),
        parent_agent_id: AgentId::member(&AgentName::team_lead(), &spec.team),
        parent_session_id: spec.lead_session_id.clone(),
        is_fork: false,
        depth: spec.depth,
        model: spec.model.clone(),
        name: Some(spec.name.to_string()),
        status: status.to_owned(),
        permission_mode: spec.permission_mode,
        cwd: spec.cwd.display().to_string(),
        worktree_path: spec.worktree.as_ref().map(|path| path.display().to_string()),
        created_at: clock::now(),
        root: Some(spec.name.clone()),
        allowed_tools: None,
        prefix_sha256: None,
    };
    let file = path.clone();
    let written = host.runtime.disk.run(&path, move || {
        let before = transcript::read_meta(&file)?;
        let created_at = before.map_or(meta.created_at.clone(), |old| old.known.created_at.clone());
        transcript::write_meta(&file, &AgentMeta { created_at, ..meta })
    });
    if let Err(error) = written.await {
        tracing::warn!(%error, "what a teammate is could not be written");
    }
}
