//! Tokens and money of the whole tree: asked before each request, counted after it.
//!
//! Requests in flight when a budget is reached are finished, and none is begun (contract §16), so what is
//! used may pass the budget by what was under way. The refusal names the limit, who used it, and how to
//! raise it. What could not be written into the ledger is owed to it: under a bound nothing more is begun
//! until it stands there, so that a ledger nobody can write never makes a budget endless. What is owed is
//! struck off where it is written, on the store thread: whoever is cut off meanwhile has it counted once.

use super::context::AgentContext;
use super::limits::{LimitError, Shared};
use super::ports::BoxFuture;
use crate::store::error::StoreError;
use crate::store::ledger::Ledger;
use crate::wire::ledger::{LedgerFile, Used};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Agents that a refusal names.
const NAMED: usize = 8;

/// Which limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// How deep agents may start agents.
    Depth,
    /// How many may be started.
    AgentsTotal,
    /// Tokens of all.
    Tokens,
    /// Money of all.
    Cost,
}

impl LimitKind {
    /// Its name in the event log: the setting's.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Depth => "maxDepth",
            Self::AgentsTotal => "maxAgentsTotal",
            Self::Tokens => "maxTokensTotal",
            Self::Cost => "maxCost",
        }
    }
}

/// A limit that forbids a spawn or a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct LimitReached {
    /// Which.
    pub kind: LimitKind,
    /// One sentence for a model and a person: which limit, how it stands, who used it.
    pub what: String,
    /// How a person raises it.
    pub hint: String,
}

/// What an agent has used of a model, as the ledger counts it.
#[derive(Debug, Clone, PartialEq)]
struct Counted {
    agent: String,
    label: String,
    model: String,
    used: Used,
}

impl Counted {
    fn add_to(&self, file: &mut LedgerFile) {
        file.count(&self.agent, &self.label, &self.model, self.used);
    }
}

/// What was used and is not written yet: one entry for each agent and model, however long nobody can write.
#[derive(Debug, Clone, Default)]
struct Owed(Arc<Mutex<Vec<Counted>>>);

impl Owed {
    fn all(&self) -> MutexGuard<'_, Vec<Counted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, one: Counted) {
        let mut all = self.all();
        let is_same = |other: &&mut Counted| other.agent == one.agent && other.model == one.model;
        match all.iter_mut().find(is_same) {
            Some(same) => same.used += one.used,
            None => all.push(one),
        }
    }

    /// Writes it into the ledger, on the store thread; what cannot be written is still owed.
    fn pay(&self, ledger: &Ledger) -> Result<Option<()>, StoreError> {
        let owed = std::mem::take(&mut *self.all());
        if owed.is_empty() {
            return Ok(Some(()));
        }
        let written = ledger.update(|file| owed.iter().for_each(|one| one.add_to(file)));
        if !matches!(written, Ok(Some(()))) {
            // What came meanwhile is newer.
            let newer = std::mem::replace(&mut *self.all(), owed);
            newer.into_iter().for_each(|one| self.add(one));
        }
        written
    }
}

/// The budget of a session.
pub struct Budget {
    shared: Shared,
    owed: Owed,
}

impl Budget {
    /// The budget that this ledger keeps.
    pub fn new(shared: Shared) -> Self {
        Self { shared, owed: Owed::default() }
    }

    /// Whether one more request may begin.
    ///
    /// # Errors
    /// The limit that is reached; or why the ledger cannot be read, or, under a bound on tokens or money,
    /// not be written.
    pub async fn admit(&self) -> Result<(), LimitError> {
        self.settled().await?;
        match reached(&self.ledger().await?) {
            Some(limit) => Err(limit.into()),
            None => Ok(()),
        }
    }

    /// Counts what a response has used. After an error it is owed, and counted as soon as that can be.
    ///
    /// # Errors
    /// When the ledger cannot be written.
    pub async fn count(&self, agent: &AgentContext, model: &str, used: Used) -> Result<(), StoreError> {
        let label = agent.label().to_owned();
        let counted = Counted { agent: agent.id().to_string(), label, model: model.to_owned(), used };
        self.owed.add(counted);
        self.pay().await
    }

    /// Writes what is still owed.
    ///
    /// # Errors
    /// When the ledger cannot be written although it keeps a bound on tokens or money, or cannot be read.
    pub async fn settled(&self) -> Result<(), StoreError> {
        match self.pay().await {
            Err(error) if is_bounded(&self.ledger().await?) => Err(error),
            _ => Ok(()),
        }
    }

    /// What the ledger says, with what is owed to it.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub async fn whole(&self) -> Result<LedgerFile, StoreError> {
        let owed = self.owed.clone();
        // Looked at where it is written, so that nothing is seen twice or not at all.
        let look = move |ledger: &Ledger| {
            let mut file = ledger.read()?;
            owed.all().iter().for_each(|one| one.add_to(&mut file));
            Ok(Some(file))
        };
        self.shared.with(look).await
    }

    async fn pay(&self) -> Result<(), StoreError> {
        let owed = self.owed.clone();
        self.shared.with(move |ledger| owed.pay(ledger)).await
    }

    /// What the ledger says now.
    pub async fn ledger(&self) -> Result<LedgerFile, StoreError> {
        self.shared.with(|ledger| ledger.read().map(Some)).await
    }

    /// Changes the ledger, under its lock.
    pub async fn change(
        &self,
        mut change: impl FnMut(&mut LedgerFile) + Send + 'static,
    ) -> Result<(), StoreError> {
        self.shared.with(move |ledger| ledger.update(&mut change)).await
    }

    /// Resolves when the ledger may have changed since this call.
    pub fn changed(&self) -> BoxFuture<'static, ()> {
        self.shared.changed()
    }
}

fn is_bounded(file: &LedgerFile) -> bool {
    file.limits.max_tokens_total.is_some() || file.limits.max_cost.is_some()
}

/// The budget that is used up, if one is.
fn reached(file: &LedgerFile) -> Option<LimitReached> {
    let total = file.total();
    let tokens = total.usage.total();
    if let Some(limit) = file.limits.max_tokens_total.filter(|limit| tokens >= *limit) {
        return Some(LimitReached {
            kind: LimitKind::Tokens,
            what: format!(
                "the session's budget of {limit} tokens is used up: {tokens} were used ({})",
                users(file, |used| format!("{} tokens", used.usage.total()))
            ),
            hint:
                "go on with --resume and a larger --max-tokens-total (limits.maxTokensTotal in the settings)"
                    .to_owned(),
        });
    }
    let limit = file.limits.max_cost?;
    let spent = match total.cost.0 {
        Some(dollars) if dollars < limit => return None,
        Some(dollars) => format!("{} were spent", dollars_of(dollars)),
        None => {
            let unknown: Vec<&str> = file
                .models
                .iter()
                .filter(|(_, used)| used.cost.0.is_none())
                .map(|(name, _)| name.as_str())
                .collect();
            format!("what {} cost is not known", unknown.join(", "))
        }
    };
    Some(LimitReached {
        kind: LimitKind::Cost,
        what: format!(
            "the session's budget of {} is used up: {spent} ({})",
            dollars_of(limit),
            users(file, |used| used.cost.0.map_or_else(|| "$?".to_owned(), dollars_of))
        ),
        hint:
            "go on with --resume and a larger --max-cost (limits.maxCost in the settings); prices of models \
               stand under `prices`"
                .to_owned(),
    })
}

/// Who has used how much, most first; agents that are called the same are one.
fn users(file: &LedgerFile, show: impl Fn(&Used) -> String) -> String {
    let (rows, mut others) = file.by_agent(usize::MAX);
    let mut named: BTreeMap<&str, (usize, Used)> = BTreeMap::new();
    for row in rows {
        let (count, used) = named.entry(row.label.as_str()).or_default();
        *count += 1;
        *used += row.used;
    }
    let mut named: Vec<(&str, (usize, Used))> = named.into_iter().collect();
    named.sort_by_key(|(_, (_, used))| std::cmp::Reverse(used.usage.total()));
    for (_, (_, used)) in named.iter().skip(NAMED) {
        others += *used;
    }
    let mut text = String::new();
    for (label, (count, used)) in named.iter().take(NAMED) {
        let comma = if text.is_empty() { "" } else { ", " };
        let times = if *count > 1 { format!(" ×{count}") } else { String::new() };
        let _ = write!(text, "{comma}{label}{times} {}", show(used));
    }
    if others.usage.total() > 0 {
        let _ = write!(text, ", others {}", show(&others));
    }
    if text.is_empty() { "by nobody yet".to_owned() } else { text }
}

fn dollars_of(amount: f64) -> String {
    if amount < 0.995 { format!("${amount:.4}") } else { format!("${amount:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::context::spawn_in;
    use crate::agent::testing::Bench;
    use crate::wire::ledger::Bounds;
    use crate::wire::settings::LimitSettings;
    use crate::wire::usage::{Money, Usage};

    fn file(limits: LimitSettings) -> LedgerFile {
        let mut file = LedgerFile::new(Bounds::new(&limits));
        let used = |tokens: u64| Used {
            usage: Usage { output_tokens: tokens, ..Usage::default() },
            cost: Money(Some(tokens as f64 / 1000.0)),
        };
        file.count("team-lead@t", "team-lead", "m", used(100));
        file.count("a1", "Explore", "m", used(400));
        file.count("a2", "Explore", "m", used(500));
        file
    }

    #[test]
    fn what_is_used_up_is_named_with_who_used_it() {
        let tokens = |limit| LimitSettings { max_tokens_total: Some(limit), ..LimitSettings::default() };
        assert_eq!(reached(&file(LimitSettings::default())), None);
        assert_eq!(reached(&file(tokens(1001))), None);
        let limit = reached(&file(tokens(1000))).expect("used up");
        assert_eq!(
            (limit.kind, limit.what.as_str()),
            (
                LimitKind::Tokens,
                "the session's budget of 1000 tokens is used up: 1000 were used (Explore ×2 900 tokens, team-lead \
                 100 tokens)"
            )
        );
        let cost = |limit| LimitSettings { max_cost: Some(limit), ..LimitSettings::default() };
        assert_eq!(reached(&file(cost(1.5))), None);
        let limit = reached(&file(cost(1.0))).expect("used up");
        assert_eq!(
            limit.what,
            "the session's budget of $1.00 is used up: $1.00 were spent (Explore ×2 $0.9000, team-lead $0.1000)"
        );
    }

    #[test]
    fn a_cost_that_nobody_knows_keeps_no_budget() {
        let mut file = file(LimitSettings { max_cost: Some(9.0), ..LimitSettings::default() });
        file.count("a3", "anna", "odd", Used { usage: Usage::default(), cost: Money(None) });
        let limit = reached(&file).expect("refused");
        assert!(limit.what.contains("what odd cost is not known"), "{}", limit.what);
    }

    fn used(tokens: u64, cost: f64) -> Used {
        Used { usage: Usage { output_tokens: tokens, ..Usage::default() }, cost: Money(Some(cost)) }
    }

    #[tokio::test]
    async fn what_is_counted_while_its_agent_is_cut_off_is_counted_once() {
        let bench = Bench::new("").await;
        let (budget, context) = (&bench.runtime.budget, &bench.main.core().context);
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let (disk, path) = (bench.runtime.disk.clone(), budget.shared.file());
        let (began, begun) = tokio::sync::oneshot::channel();
        let hold = move || {
            began.send(()).expect("it waits");
            wait.recv().expect("told");
            Ok(())
        };
        let busy = spawn_in(context, async move { disk.run(&path, hold).await });
        begun.await.expect("it begins");
        // Queued behind what does not end, and cut off there.
        let mut count = Box::pin(budget.count(context, "m", used(5, 0.5)));
        let once = std::future::poll_fn(|cx| std::task::Poll::Ready(count.as_mut().poll(cx).is_pending()));
        assert!(once.await, "it waits for the store thread");
        drop(count);
        go.send(()).expect("it waits");
        busy.await.expect("ends").expect("runs");
        budget.admit().await.expect("unbounded");
        assert_eq!(budget.ledger().await.expect("reads").total(), used(5, 0.5));
        budget.settled().await.expect("settled");
        budget.count(context, "m", used(3, 0.25)).await.expect("counts");
        assert_eq!(budget.ledger().await.expect("reads").total(), used(8, 0.75));
        assert_eq!(budget.whole().await.expect("reads").total(), used(8, 0.75));
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_owed_as_one_sum_and_written_when_it_can() {
        let bench = Bench::new("").await;
        let (budget, context) = (&bench.runtime.budget, &bench.main.core().context);
        let file = budget.shared.file();
        let aside = file.with_extension("aside");
        std::fs::rename(&file, &aside).expect("moves");
        for _ in 0..100 {
            budget.count(context, "m", used(1, 0.5)).await.expect_err("there is no ledger");
        }
        budget.count(context, "other", used(7, 1.0)).await.expect_err("there is no ledger");
        let owed: Vec<(String, Used)> =
            budget.owed.all().iter().map(|one| (one.model.clone(), one.used)).collect();
        assert_eq!(owed, [("m".to_owned(), used(100, 50.0)), ("other".to_owned(), used(7, 1.0))]);
        std::fs::rename(&aside, &file).expect("moves");
        assert_eq!(budget.whole().await.expect("reads").total(), used(107, 51.0));
        budget.settled().await.expect("settled");
        assert!(budget.owed.all().is_empty());
        assert_eq!(budget.ledger().await.expect("reads").total(), used(107, 51.0));
    }
}
