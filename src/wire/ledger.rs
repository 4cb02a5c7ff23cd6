//! `ledger.json`: what the whole tree of a session has started, runs and has used (contract §1).
//!
//! Shared by the leader and its workers. Its size does not grow with history: processes leave when they
//! run nothing, and what agents beyond [`ROWS`] have used is kept as one sum.

use super::limits::{MAX_AGENTS, MAX_AGENTS_TOTAL};
use super::run::ProcessId;
use super::settings::LimitSettings;
use super::usage::{Money, Usage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::{AddAssign, SubAssign};

/// The format written here.
pub const LEDGER_VERSION: u32 = 1;
/// Agents whose use is kept apart from that of the others.
pub const ROWS: usize = 64;

/// Tokens and money.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Used {
    /// Tokens.
    pub usage: Usage,
    /// US dollars; `null` when a price is unknown.
    pub cost: Money,
}

impl AddAssign for Used {
    fn add_assign(&mut self, other: Self) {
        self.usage += other.usage;
        self.cost += other.cost;
    }
}

impl SubAssign for Used {
    /// Never below zero.
    fn sub_assign(&mut self, other: Self) {
        self.usage -= other.usage;
        self.cost -= other.cost;
    }
}

/// The bounds in force, as the leader set them when it began; all processes of the team go by them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bounds {
    /// Running at once, the main agent not counted.
    pub max_agents: usize,
    /// Started in the session's life.
    pub max_agents_total: usize,
    /// Tokens in the session's life.
    #[serde(default)]
    pub max_tokens_total: Option<u64>,
    /// US dollars in the session's life.
    #[serde(default)]
    pub max_cost: Option<f64>,
}

impl Bounds {
    /// From the settings, else the defaults.
    pub fn new(limits: &LimitSettings) -> Self {
        Self {
            max_agents: limits.max_agents.unwrap_or(MAX_AGENTS).max(1),
            max_agents_total: limits.max_agents_total.unwrap_or(MAX_AGENTS_TOTAL),
            max_tokens_total: limits.max_tokens_total,
            max_cost: limits.max_cost,
        }
    }
}

/// The places that one process has taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// The process; when it is gone, so are its places.
    pub process: ProcessId,
    /// Agents that run in it.
    pub running: usize,
}

/// What one agent has used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Its id.
    pub agent_id: String,
    /// What people call it.
    pub label: String,
    /// How much.
    #[serde(flatten)]
    pub used: Used,
}

/// The file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerFile {
    /// [`LEDGER_VERSION`]
    pub version: u32,
    /// The bounds.
    pub limits: Bounds,
    /// Agents that were started.
    #[serde(default)]
    pub started: usize,
    /// Processes in which agents run.
    #[serde(default)]
    pub holders: Vec<Holder>,
    /// What was used, by model.
    #[serde(default)]
    pub models: BTreeMap<String, Used>,
    /// The same by agent, in the order of their first use.
    #[serde(default)]
    pub agents: Vec<Row>,
    /// What agents without a row of their own have used.
    #[serde(default)]
    pub others: Used,
}

impl LedgerFile {
    /// Nothing used yet.
    pub fn new(limits: Bounds) -> Self {
        Self {
            version: LEDGER_VERSION,
            limits,
            started: 0,
            holders: Vec::new(),
            models: BTreeMap::new(),
            agents: Vec::new(),
            others: Used::default(),
        }
    }

    /// What all agents have used.
    pub fn total(&self) -> Used {
        let mut total = Used::default();
        self.models.values().for_each(|used| total += *used);
        total
    }

    /// Counts one response.
    pub fn count(&mut self, agent_id: &str, label: &str, model: &str, used: Used) {
        *self.models.entry(model.to_owned()).or_default() += used;
        match self.agents.iter_mut().find(|row| row.agent_id == agent_id) {
            Some(row) => row.used += used,
            None => {
                self.agents.push(Row { agent_id: agent_id.to_owned(), label: label.to_owned(), used });
            }
        }
        while self.agents.len() > ROWS {
            // The newest stays: it is the one that works.
            let older = &self.agents[..self.agents.len() - 1];
            let least = older.iter().enumerate().min_by_key(|(_, row)| row.used.usage.total());
            let Some((at, _)) = least else { return };
            self.others += self.agents.remove(at).used;
        }
    }

    /// The agents that have used most, most first, and what all others have used together.
    pub fn by_agent(&self, most: usize) -> (Vec<&Row>, Used) {
        let mut rows: Vec<&Row> = self.agents.iter().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.used.usage.total()));
        let mut others = self.others;
        rows.iter().skip(most).for_each(|row| others += row.used);
        rows.truncate(most);
        (rows, others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(tokens: u64) -> Used {
        let usage = Usage { input_tokens: tokens, ..Usage::default() };
        Used { usage, cost: Money(Some(1.0)) }
    }

    #[test]
    fn the_file_does_not_grow_with_history_and_loses_nothing() {
        let mut file = LedgerFile::new(Bounds::new(&LimitSettings::default()));
        for n in 0..1000 {
            file.count(&format!("a{n}"), "agent", "m", used(n % 7 + 1));
        }
        assert_eq!(file.agents.len(), ROWS);
        assert_eq!(file.agents.last().map(|row| row.agent_id.as_str()), Some("a999"));
        let mut sum = file.others;
        file.agents.iter().for_each(|row| sum += row.used);
        assert_eq!(sum, file.total());
        assert_eq!(sum.cost, Money(Some(1000.0)));
        let (rows, others) = file.by_agent(2);
        assert_eq!(rows.iter().map(|row| row.used.usage.total()).collect::<Vec<_>>(), [7, 7]);
        assert_eq!(others.usage.total(), sum.usage.total() - 14);
        let text = serde_json::to_string(&file).expect("writes");
        assert_eq!(serde_json::from_str::<LedgerFile>(&text).expect("reads"), file);
    }
}
