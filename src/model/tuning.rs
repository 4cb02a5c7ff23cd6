//! What the user may set for a model beside its name: sizes, and how hard it thinks.
//!
//! Owns the setting `providers.NAME.models` and which model a part of it is for. What the user says
//! comes before the shipped list; a size that nobody knows is the list's cautious guess.

use super::prices::facts;
use super::registry::ModelRef;
use crate::wire::settings::{Effort, ModelSettings, ProviderSettings, Settings};
use std::collections::BTreeMap;

/// The name that means every other model of a provider.
const ANY: &str = "*";

/// What a prefix is frozen with beside model, prompt and tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Longest answer to ask for, in tokens; `None` is the list's.
    pub max_output_tokens: Option<u32>,
    /// How hard to think; `None` is the model's own default.
    pub effort: Option<Effort>,
}

/// What is set for the models of a session.
#[derive(Debug, Clone, Default)]
pub struct Tunings {
    providers: BTreeMap<String, ProviderSettings>,
    max_output_tokens: Option<u32>,
    effort: Option<Effort>,
}

impl Tunings {
    /// Takes the settings `providers`, `maxOutputTokens` and `effort`.
    pub fn new(settings: &Settings) -> Self {
        Self {
            providers: settings.providers.clone(),
            max_output_tokens: settings.max_output_tokens,
            effort: settings.effort,
        }
    }

    fn own(&self, model: &ModelRef) -> ModelSettings {
        let provider = self.providers.get(model.provider.as_str());
        let find = |name: &str| provider.and_then(|p| p.models.get(name)).copied().unwrap_or_default();
        let (named, any) = (find(&model.name), find(ANY));
        ModelSettings {
            context_window: named.context_window.or(any.context_window),
            max_output: named.max_output.or(any.max_output),
        }
    }

    /// Input and output of a model together, in tokens.
    pub fn context_tokens(&self, model: &ModelRef) -> u64 {
        self.own(model).context_window.unwrap_or_else(|| facts(&model.name).context_tokens)
    }

    /// What its prefix is frozen with.
    pub fn tuning(&self, model: &ModelRef) -> Tuning {
        let max_output_tokens = self.own(model).max_output.or(self.max_output_tokens);
        Tuning { max_output_tokens, effort: self.effort }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_sizes_come_first_and_a_star_is_for_the_rest() {
        let settings: Settings = serde_json::from_str(
            r#"{"maxOutputTokens": 9000, "effort": "low", "providers": {"openai": {"models": {
                "*": {"contextWindow": 32768}, "big": {"contextWindow": 500000, "maxOutput": 100}}}}}"#,
        )
        .expect("settings");
        let tunings = Tunings::new(&settings);
        let look = |text: &str| {
            let model = text.parse().expect("a model");
            (tunings.context_tokens(&model), tunings.tuning(&model).max_output_tokens)
        };
        assert_eq!(look("openai:big"), (500_000, Some(100)));
        assert_eq!(look("openai:other"), (32_768, Some(9000)));
        assert_eq!(look("anthropic:claude-sonnet-5-5"), (1_000_000, Some(9000)));
        assert_eq!(look("ollama:nobody-knows"), (200_000, Some(9000)));
        let model = "openai:big".parse().expect("a model");
        assert_eq!(tunings.tuning(&model).effort, Some(Effort::Low));
    }
}
