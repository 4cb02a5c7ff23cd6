//! What a session has used: in this run of its leader, and in its whole life, as the ledger has it.
//!
//! The ledger counts every response of every process of the team. Owns how the books of sessions from
//! before it are taken over, and what becomes of it when a team goes that nobody needed.

use super::error::CliError;
use super::setup::Setup;
use crate::agent::context::AgentContext;
use crate::agent::runtime::Runtime;
use crate::agent::tally::ModelUse;
use crate::model::prices::PriceTable;
use crate::store::error::StoreError;
use crate::store::{ledger, run};
use crate::team::context::Team;
use crate::team::session;
use crate::wire::error::ExitKind;
use crate::wire::ids::{AgentId, AgentName, SessionId};
use crate::wire::ledger::{Bounds, LedgerFile, Used};
use crate::wire::team::Member;
use crate::wire::usage::Usage;
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
    fn of(models: impl IntoIterator<Item = (String, Used)>) -> Self {
        let mut spent = Self::default();
        for (model, used) in models {
            spent.total.usage += used.usage;
            spent.total.cost_usd += used.cost;
            spent.by_model.insert(model, ModelUse { usage: used.usage, cost_usd: used.cost });
        }
        spent
    }
}

/// What stood in the ledger when the leader began.
#[derive(Debug, Clone, Default)]
pub struct Before(BTreeMap<String, Used>);

/// Opens the ledger for a leader that begins, with the bounds of its flags and settings. True when nothing is
/// known of earlier runs yet, so that [`seed`] may know more.
pub async fn begin(setup: &Setup, team: &Team, session: &SessionId) -> Result<bool, CliError> {
    let shared = crate::team::budget::shared(team)
        .map_err(|e| CliError::new(ExitKind::Failed, "process", e.to_string(), ""))?;
    let kept = setup.paths.project(&setup.cwd).ledger(session);
    let file = kept.clone();
    let earlier = setup.disk.run(&kept, move || ledger::kept(&file)).await?;
    let bounds = Bounds::new(&setup.loaded.settings.limits);
    Ok(shared.with(move |ledger| ledger.begin(bounds.clone(), earlier.clone())).await?)
}

/// Puts what members and leader said of themselves into a ledger that knows nothing of them: their runs were
/// those of a program that kept none.
pub async fn seed(team: &Team, runtime: &Runtime, model: &str, leader: Used) -> Result<(), CliError> {
    let mut rows: Vec<(AgentId, String, String, Used)> = members(team)
        .await?
        .into_iter()
        .map(|(member, used)| (member.agent_id, member.agent_name.to_string(), member.model, used))
        .collect();
    let lead = AgentName::team_lead();
    rows.push((AgentId::member(&lead, &team.name()), lead.to_string(), model.to_owned(), leader));
    rows.retain(|(.., used)| *used != Used::default());
    let count = move |file: &mut LedgerFile| {
        for (id, label, model, used) in &rows {
            file.count(id.as_str(), label, model, *used);
        }
    };
    Ok(runtime.budget.change(count).await?)
}

/// All members that ever were, with what each has used in its life.
async fn members(team: &Team) -> Result<Vec<(Member, Used)>, CliError> {
    let roster = team.roster().await?;
    let paths = team.paths.clone();
    let dir = paths.run_dir();
    let read = move || {
        let members = roster.known.members.into_iter().map(|member| member.known);
        let used = members.map(|member| {
            let said = run::of_incarnation(&paths, &member.agent_name, member.incarnation);
            let said = said.map(|record| Used { usage: record.usage, cost: record.cost });
            let verdict = member.ended.as_ref();
            let verdict = verdict.map(|ended| Used { usage: ended.usage, cost: ended.cost });
            (member, said.or(verdict).unwrap_or_default())
        });
        Ok(used.collect())
    };
    Ok(team.disk.run(&dir, read).await?)
}

/// Takes the books as they stand, before anything is asked of a model. Prices that are known by now replace
/// those that were not.
pub async fn before(runtime: &Runtime) -> Result<Before, CliError> {
    let mut file = runtime.budget.ledger().await?;
    if file.total().cost.0.is_none() {
        let prices = runtime.prices.clone();
        runtime.budget.change(move |file| price(file, &prices)).await?;
        file = runtime.budget.ledger().await?;
    }
    Ok(Before(file.models))
}

/// Sets costs that nobody knew when they arose, from sums of tokens.
fn price(file: &mut LedgerFile, prices: &PriceTable) {
    for (model, used) in &mut file.models {
        if used.cost.0.is_none() {
            used.cost = prices.cost(model, &used.usage);
        }
    }
}

/// Refuses a bound on money that cannot be kept, since nobody knows what a model costs.
pub fn check_prices(setup: &Setup, models: &[&str]) -> Result<(), CliError> {
    let settings = &setup.loaded.settings;
    if settings.limits.max_cost.is_none() {
        return Ok(());
    }
    let prices = PriceTable::new(&settings.prices);
    match models.iter().find(|model| prices.cost(model, &Usage::default()).0.is_none()) {
        None => Ok(()),
        Some(model) => Err(CliError::new(
            ExitKind::Usage,
            "price",
            format!("--max-cost cannot be kept: the price of {model} is not known"),
            format!(
                "give it in the settings, in dollars for a million tokens: {{\"prices\": {{\"{model}\": \
                 {{\"input\": 1, \"output\": 5}}}}}}; or bound tokens with --max-tokens-total"
            ),
        )),
    }
}

/// The same for what earlier runs have used.
pub fn check_before(setup: &Setup, before: &Before) -> Result<(), CliError> {
    let unknown = before.0.iter().filter(|(_, used)| used.cost.0.is_none());
    let models: Vec<&str> = unknown.map(|(model, _)| model.as_str()).collect();
    check_prices(setup, &models)
}

/// What this run of the leader has used, with all who work below it.
pub async fn this_run(runtime: &Runtime, before: &Before) -> Result<Spent, CliError> {
    let file = runtime.budget.ledger().await?;
    let now = file.models.into_iter().map(|(model, mut used)| {
        used -= before.0.get(&model).copied().unwrap_or_default();
        (model, used)
    });
    Ok(Spent::of(now.filter(|(_, used)| used.usage != Usage::default())))
}

/// What the agents of this process have used: all there is when the ledger cannot be read.
pub fn in_process(runtime: &Runtime) -> Spent {
    Spent { total: runtime.tally.total(), by_model: runtime.tally.by_model() }
}

/// What the session has used in its whole life, and what it may use.
pub async fn so_far(runtime: &Runtime) -> Result<(Spent, Bounds), CliError> {
    let file = runtime.budget.ledger().await?;
    Ok((Spent::of(file.models), file.limits))
}

/// Removes the team when nobody needed it. Its ledger is kept beside the session's transcripts, so that a
/// later run counts on; a team whose ledger cannot be kept stays.
pub async fn leave(runtime: &Runtime, lead: &AgentContext, team: &Team) -> Result<(), StoreError> {
    let path = runtime.paths.project(&lead.session_cwd).ledger(&lead.session);
    let file = runtime.budget.whole().await?;
    session::remove_if_unused(team, move || ledger::keep(&path, &file)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::settings::{LimitSettings, PriceSettings};
    use crate::wire::usage::Money;

    #[test]
    fn a_price_that_is_known_by_now_counts() {
        let mut file = LedgerFile::new(Bounds::new(&LimitSettings::default()));
        let used = Used { usage: Usage { output_tokens: 500_000, ..Usage::default() }, cost: Money(None) };
        file.count("a", "a", "openai:mine", used);
        let own = PriceSettings { input: 1.0, output: 2.0, cache_read: None, cache_write_5m: None };
        price(&mut file, &PriceTable::new(&[("mine".to_owned(), own)].into()));
        assert_eq!(file.total().cost, Money(Some(1.0)));
    }
}
