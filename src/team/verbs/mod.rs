//! The team tools a model can call, one file each.

pub mod agent;
pub mod ask_user;
pub mod plan_mode;
pub mod send_message;
pub mod task_output;
pub mod task_stop;
pub mod tasks;
pub mod team_create;
pub mod team_delete;

use super::context::Team;
use super::supervisor::Supervisor;
use super::tasks::TaskDesk;
use crate::agent::context::Tier;
use crate::agent::core::AgentCore;
use crate::agent::ports::Mailbox;
use crate::agent::runtime::Toolkit;
use crate::tools::tool::Tool;
use std::sync::{Arc, OnceLock};

/// The tools that act on agents and tasks, in the order of their declaration.
const OWN: [&str; 13] = [
    "AskUserQuestion",
    "EnterPlanMode",
    "ExitPlanMode",
    "Agent",
    "TaskOutput",
    "TaskStop",
    "SendMessage",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskUpdate",
    "TeamCreate",
    "TeamDelete",
];

/// The names of all tools that an agent of a team could have, in the order of their declaration, those of MCP
/// servers left out.
pub fn names(world: &[Arc<dyn Tool>]) -> Vec<String> {
    let world = world.iter().map(|tool| tool.spec().name.clone());
    world.chain(OWN.map(str::to_owned)).collect()
}

/// Makes the tools of every agent: the ones that act on the world, then the ones that act on agents.
pub struct Kit {
    world: Vec<Arc<dyn Tool>>,
    team: Team,
    supervisor: OnceLock<Supervisor>,
}

impl Kit {
    /// With the tools that all agents share, for the agents of `team`.
    pub fn new(world: Vec<Arc<dyn Tool>>, team: Team) -> Self {
        Self { world, team, supervisor: OnceLock::new() }
    }

    /// Gives the main agent its team; before that, and in worker processes, nobody starts teammates.
    pub fn lead(&self, supervisor: Supervisor) {
        // A process has one leader; a second one is never made.
        let _ = self.supervisor.set(supervisor);
    }
}

impl Toolkit for Kit {
    fn tools(&self, core: &Arc<AgentCore>, mailbox: Option<&Arc<dyn Mailbox>>) -> Vec<Arc<dyn Tool>> {
        let is_main = core.context.depth == 0;
        let supervisor = self.supervisor.get().filter(|_| is_main).cloned();
        // A main agent without a team to lead: the setting `teams` has taken it away.
        let has_team = supervisor.is_some() || !is_main;
        let mut tools = self.world.clone();
        tools.push(Arc::new(ask_user::AskUserQuestion::new(Arc::clone(core))));
        tools.push(Arc::new(plan_mode::EnterPlanMode::new(Arc::clone(core))));
        tools.push(Arc::new(plan_mode::ExitPlanMode::new(Arc::clone(core))));
        tools.push(Arc::new(agent::AgentTool::new(Arc::clone(core), supervisor.clone())));
        if core.runtime.background.allowed() {
            // What others have launched is theirs, and who reports to another is told of its own.
            if core.context.tier != Tier::Subagent {
                tools.push(Arc::new(task_output::TaskOutput::new(Arc::clone(core))));
            }
            tools.push(Arc::new(task_stop::TaskStop::new(Arc::clone(core), mailbox.cloned())));
        }
        if let Some(mailbox) = mailbox {
            tools.push(Arc::new(send_message::SendMessage::new(
                Arc::clone(core),
                self.team.clone(),
                Arc::clone(mailbox),
                supervisor.clone(),
            )));
        }
        if let Some(mailbox) = mailbox.filter(|_| has_team && core.context.tier != Tier::Subagent) {
            let desk = TaskDesk::new(self.team.clone(), mailbox.owner().clone(), core.context.incarnation);
            tools.extend(tasks::TaskTool::all(desk, Arc::clone(core)));
        }
        if let Some(supervisor) = supervisor {
            tools.push(Arc::new(team_create::TeamCreate::new(supervisor.clone())));
            tools.push(Arc::new(team_delete::TeamDelete::new(supervisor)));
        }
        tools
    }
}
