//! What a fork may not do. Its tools stay declared as they are, so a call is refused when it is made.

use super::{AGENT_TOOL, FORK_SOURCE};
use crate::agent::budget::{LimitKind, LimitReached};
use crate::agent::context::AgentContext;

/// Whether an agent is a fork; true also after its directive was compacted away.
pub fn is_fork(context: &AgentContext) -> bool {
    context.query_source == FORK_SOURCE
}

/// Why a fork may not use a tool, beside what no subagent may; `None` when it may, and for all other
/// agents. For the model.
pub fn refusal(context: &AgentContext, tool: &str) -> Option<&'static str> {
    let starts_agents = matches!(tool, AGENT_TOOL | "TeamCreate" | "TeamDelete");
    (starts_agents && is_fork(context))
        .then_some("A fork starts no agents: do the work yourself, and report what is left over.")
}

/// That refusal as the limit it is: a fork that only goes on asking is ended like any other agent.
pub fn limit(refusal: &str) -> LimitReached {
    LimitReached {
        kind: LimitKind::Depth,
        what: refusal.to_owned(),
        hint: "no fork starts agents, whatever the limits are".to_owned(),
    }
}

/// The answer when a fork calls a tool that is declared, because its parent has it, and that forks lack.
pub fn not_here(context: &AgentContext, tool: &str, declared: &[String]) -> Option<String> {
    (is_fork(context) && declared.iter().any(|name| name == tool)).then(|| {
        format!("{tool} is not for forks. Go on without it, and say in your report what it was needed for.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::context::{TeamLabel, Tier};
    use crate::wire::ids::{AgentId, AgentName, SessionId, TeamName};
    use std::path::PathBuf;

    fn agent(query_source: &str) -> AgentContext {
        AgentContext {
            made_as: AgentId::new("a"),
            name: None,
            agent_type: "fork".to_owned(),
            tier: Tier::Subagent,
            team: TeamLabel::new(TeamName::new("t").expect("a name")),
            root: AgentName::team_lead(),
            incarnation: 1,
            color: None,
            depth: 1,
            query_source: query_source.to_owned(),
            session: SessionId::new("s"),
            session_cwd: PathBuf::new(),
            task: None,
            parent_tool_use_id: None,
            cwd: PathBuf::new(),
        }
    }

    #[test]
    fn only_forks_are_bound_and_they_may_work() {
        let (fork, custom) = (agent(FORK_SOURCE), agent("agent:custom:fork"));
        let refused = |tool| refusal(&fork, tool).is_some();
        assert_eq!(["Agent", "TeamCreate", "Read", "Bash"].map(refused), [true, true, false, false]);
        assert_eq!(refusal(&custom, "Agent"), None);
        let declared = ["SendMessage".to_owned()];
        assert!(not_here(&fork, "SendMessage", &declared).is_some());
        assert_eq!(not_here(&fork, "Wish", &declared), None);
        assert_eq!(not_here(&custom, "SendMessage", &declared), None);
    }
}
