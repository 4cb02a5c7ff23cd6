//! What a session has used: in this run of its leader, and in its whole life.
//!
//! This run is the tally of this process, and what workers of their own process say beyond what they
//! said when it began. The whole life is that and what stood in the books before: run records, and the
//! verdicts in the roster, which keep the sums of members whose record has gone to another of their name.

use super::error::CliError;
use crate::agent::runtime::Runtime;
use crate::agent::tally::ModelUse;
use crate::store::run;
use crate::team::context::Team;
use crate::wire::ids::AgentName;
use crate::wire::team::{BackendType, Member};
use std::collections::BTreeMap;

/// Tokens and money.
#[derive(Debug, Clone, Default)]
pub struct Spent {
    /// Of all agents.
    pub total: ModelUse,
    /// By model.
    pub by_model: BTreeMap<String, ModelUse>,
}

impl Spent {
    fn add(&mut self, model: &str, used: ModelUse) {
        for sum in [&mut self.total, self.by_model.entry(model.to_owned()).or_default()] {
            sum.usage += used.usage;
            sum.cost_usd += used.cost_usd;
        }
    }
}

/// The books as they stood when the leader began.
#[derive(Debug, Clone, Default)]
pub struct Before {
    members: BTreeMap<(AgentName, u32), ModelUse>,
    sum: Spent,
}

impl Before {
    /// Reads the books of the members; before a leader starts anybody.
    pub async fn look(team: &Team) -> Result<Self, CliError> {
        let mut before = Self::default();
        for (member, used) in members(team).await? {
            before.sum.add(&member.model, used);
            before.members.insert((member.agent_name, member.incarnation), used);
        }
        Ok(before)
    }

    /// Adds what the leader's own earlier runs have used.
    pub fn add_leader(&mut self, model: &str, used: ModelUse) {
        if used != ModelUse::default() {
            self.sum.add(model, used);
        }
    }
}

/// All members that ever were, with what each has used in its life.
async fn members(team: &Team) -> Result<Vec<(Member, ModelUse)>, CliError> {
    let roster = team.roster().await?;
    let paths = team.paths.clone();
    let dir = paths.run_dir();
    let read = move || {
        let members = roster.known.members.into_iter().map(|member| member.known);
        let used = members.map(|member| {
            let said = run::of_incarnation(&paths, &member.agent_name, member.incarnation);
            let said = said.map(|record| ModelUse { usage: record.usage, cost_usd: record.cost });
            let verdict = member.ended.as_ref();
            let verdict = verdict.map(|ended| ModelUse { usage: ended.usage, cost_usd: ended.cost });
            (member, said.or(verdict).unwrap_or_default())
        });
        Ok(used.collect())
    };
    Ok(team.disk.run(&dir, read).await?)
}

/// What this run of the leader has used, with all who work below it.
pub async fn this_run(team: &Team, runtime: &Runtime, before: &Before) -> Result<Spent, CliError> {
    let mut spent = in_process(runtime);
    for (member, mut used) in members(team).await? {
        if member.backend_type == BackendType::InProcess {
            continue;
        }
        if let Some(earlier) = before.members.get(&(member.agent_name, member.incarnation)) {
            used.usage -= earlier.usage;
            used.cost_usd -= earlier.cost_usd;
        }
        spent.add(&member.model, used);
    }
    Ok(spent)
}

/// What the agents of this process have used.
pub fn in_process(runtime: &Runtime) -> Spent {
    Spent { total: runtime.tally.total(), by_model: runtime.tally.by_model() }
}

/// What the session has used in its whole life.
pub async fn so_far(team: &Team, runtime: &Runtime, before: &Before) -> Result<Spent, CliError> {
    let mut spent = this_run(team, runtime, before).await?;
    for (model, used) in &before.sum.by_model {
        spent.add(model, *used);
    }
    Ok(spent)
}
