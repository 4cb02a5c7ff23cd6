//! Tokens and money.

use serde::{Deserialize, Serialize};
use std::ops::{AddAssign, SubAssign};

/// Tokens of one response or a sum of them, in the Messages API's field names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Fresh input.
    pub input_tokens: u64,
    /// Output.
    pub output_tokens: u64,
    /// Input written to the prompt cache.
    #[serde(deserialize_with = "null_is_zero")]
    pub cache_creation_input_tokens: u64,
    /// Input read from the prompt cache.
    #[serde(deserialize_with = "null_is_zero")]
    pub cache_read_input_tokens: u64,
    /// Searches of the web that the provider made and bills; no tokens.
    #[serde(deserialize_with = "null_is_zero", skip_serializing_if = "is_zero")]
    pub web_search_requests: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn null_is_zero<'de, D: serde::Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
    Ok(Option::<u64>::deserialize(d)?.unwrap_or(0))
}

impl Usage {
    /// All tokens, as `--max-tokens-total` counts them (contract §16).
    pub fn total(&self) -> u64 {
        self.context().saturating_add(self.output_tokens)
    }
    /// What the model had to read: the size of the context.
    pub fn context(&self) -> u64 {
        self.input_tokens
            .saturating_add(self.cache_creation_input_tokens)
            .saturating_add(self.cache_read_input_tokens)
    }
}

impl AddAssign for Usage {
    /// Numbers come from servers and files: a sum that no counter holds stays at the most it holds.
    fn add_assign(&mut self, other: Self) {
        let more = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        more(&mut self.input_tokens, other.input_tokens);
        more(&mut self.output_tokens, other.output_tokens);
        more(&mut self.cache_creation_input_tokens, other.cache_creation_input_tokens);
        more(&mut self.cache_read_input_tokens, other.cache_read_input_tokens);
        more(&mut self.web_search_requests, other.web_search_requests);
    }
}

impl SubAssign for Usage {
    /// Never below zero.
    fn sub_assign(&mut self, other: Self) {
        let less = |a: &mut u64, b: u64| *a = a.saturating_sub(b);
        less(&mut self.input_tokens, other.input_tokens);
        less(&mut self.output_tokens, other.output_tokens);
        less(&mut self.cache_creation_input_tokens, other.cache_creation_input_tokens);
        less(&mut self.cache_read_input_tokens, other.cache_read_input_tokens);
        less(&mut self.web_search_requests, other.web_search_requests);
    }
}

/// US dollars, or `null` when a model's price is unknown: an unknown part makes the sum unknown.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Money(pub Option<f64>);

impl Default for Money {
    fn default() -> Self {
        Self(Some(0.0))
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Self) {
        self.0 = match (self.0, other.0) {
            (Some(a), Some(b)) => Some(a + b),
            _ => None,
        };
    }
}

impl SubAssign for Money {
    /// Never below zero; unknown as soon as one of both is.
    fn sub_assign(&mut self, other: Self) {
        self.0 = match (self.0, other.0) {
            (Some(a), Some(b)) => Some((a - b).max(0.0)),
            _ => None,
        };
    }
}

#[cfg(test)]
mod overflow {
    use super::*;

    #[test]
    fn a_sum_stays_at_the_most_that_can_be_counted() {
        let most = Usage { input_tokens: u64::MAX, output_tokens: u64::MAX, ..Usage::default() };
        let mut sum = most;
        sum += most;
        assert_eq!((sum, sum.total(), sum.context()), (most, u64::MAX, u64::MAX));
    }
}
