//! What the agents of this process have used, and which calls were denied them.

use crate::wire::usage::{Money, Usage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tokens and money of one model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ModelUse {
    /// Tokens.
    #[serde(flatten)]
    pub usage: Usage,
    /// US dollars; `null` when the price is unknown.
    pub cost_usd: Money,
}

/// A call that was denied, as the result object lists it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Denial {
    /// The tool.
    pub tool_name: String,
    /// The call.
    pub tool_use_id: String,
    /// Its input.
    pub tool_input: serde_json::Value,
    /// Who wanted it.
    pub agent_id: String,
    /// Why not.
    pub reason: String,
    /// True when a person could have said yes, but nobody could be asked (exit status 5).
    pub nobody_to_ask: bool,
}

#[derive(Default)]
struct Sums {
    by_model: BTreeMap<String, ModelUse>,
    denials: Vec<Denial>,
}

/// Sums over all agents of the process.
#[derive(Default)]
pub struct Tally {
    sums: Mutex<Sums>,
}

impl Tally {
    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one response.
    pub fn count(&self, model: &str, usage: Usage, cost: Money) {
        let mut sums = self.sums();
        let entry = sums.by_model.entry(model.to_owned()).or_default();
        entry.usage += usage;
        entry.cost_usd += cost;
    }

    /// Notes a denied call.
    pub fn deny(&self, denial: Denial) {
        self.sums().denials.push(denial);
    }

    /// Tokens and money by model.
    pub fn by_model(&self) -> BTreeMap<String, ModelUse> {
        self.sums().by_model.clone()
    }

    /// The sum over all models.
    pub fn total(&self) -> ModelUse {
        let mut total = ModelUse::default();
        for used in self.sums().by_model.values() {
            total.usage += used.usage;
            total.cost_usd += used.cost_usd;
        }
        total
    }

    /// All denied calls.
    pub fn denials(&self) -> Vec<Denial> {
        self.sums().denials.clone()
    }
}
