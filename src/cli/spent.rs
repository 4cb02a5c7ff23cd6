//! What a session has used so far, in all its processes.

use super::error::CliError;
use crate::agent::runtime::Runtime;
use crate::agent::tally::ModelUse;
use crate::store::run;
use crate::team::context::Team;
use crate::wire::team::BackendType;
use std::collections::BTreeMap;

/// Tokens and money.
pub struct Spent {
    /// Of all agents.
    pub total: ModelUse,
    /// By model.
    pub by_model: BTreeMap<String, ModelUse>,
}

/// The tally of this process, and what workers of their own process say.
pub async fn so_far(team: &Team, runtime: &Runtime) -> Result<Spent, CliError> {
    let mut spent = Spent { total: runtime.tally.total(), by_model: runtime.tally.by_model() };
    let roster = team.roster().await?;
    for member in roster.members.iter().filter(|m| m.backend_type != BackendType::InProcess) {
        let (paths, name) = (team.paths.clone(), member.agent_name.clone());
        let file = paths.run(&name);
        let record = team.disk.run(&file, move || run::load(&paths, &name)).await?;
        if let Some(record) = record.filter(|r| r.incarnation == member.incarnation) {
            for sum in [&mut spent.total, spent.by_model.entry(member.model.clone()).or_default()] {
                sum.usage += record.usage;
                sum.cost_usd += record.cost;
            }
        }
    }
    Ok(spent)
}
