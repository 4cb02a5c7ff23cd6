//! A teammate in the list of background tasks: looked at and stopped there, run elsewhere.

use super::{Supervisor, Work};
use crate::agent::ports::{BackgroundTask, BoxFuture};
use crate::store::run;
use crate::team::context::Team;
use crate::wire::background::TaskKind;
use crate::wire::ids::{AgentName, BackgroundId};
use crate::wire::team::BackendType;
use std::sync::Arc;

struct MemberTask {
    name: AgentName,
    team: Team,
    supervisor: Supervisor,
}

impl BackgroundTask for MemberTask {
    fn state(&self) -> BoxFuture<'_, String> {
        Box::pin(async move {
            let (paths, name) = (self.team.paths.clone(), self.name.clone());
            let file = paths.run(&self.name);
            match self.team.disk.run(&file, move || run::load(&paths, &name)).await {
                Ok(Some(record)) => match &record.current_tool {
                    Some(tool) => format!("{}: {tool}", record.state.as_str()),
                    None => record.state.as_str().to_owned(),
                },
                Ok(None) => "starting".to_owned(),
                Err(error) => format!("unknown: {error}"),
            }
        })
    }

    fn stop(&self) -> BoxFuture<'_, String> {
        Box::pin(async move {
            let request = self.supervisor.request_stop(&self.name, "team-lead", "it is stopped by TaskStop");
            format!(
                "{} is asked to shut down (request {request}). You are told when it has ended or refuses.",
                self.name
            )
        })
    }
}

impl Work {
    /// Lists a member that lives.
    pub(super) fn list_member(&mut self, name: &AgentName) {
        let Some(charge) = self.members.get_mut(name) else { return };
        let kind = match charge.spec.backend {
            BackendType::InProcess => TaskKind::InProcessTeammate,
            BackendType::Process | BackendType::Tmux | BackendType::Iterm2 => TaskKind::PaneTeammate,
        };
        let task =
            MemberTask { name: name.clone(), team: self.parts.team.clone(), supervisor: self.handle.clone() };
        let id = BackgroundId::of_agent(&charge.spec.agent_id);
        charge.task = Some(self.parts.background.list(id, kind, Arc::new(task)));
    }
}
