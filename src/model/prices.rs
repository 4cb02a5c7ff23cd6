//! What is known of models: sizes, thinking, prices; a dated list that ships, and the user's own prices.
//!
//! Owns `models.toml`. Promises that an unknown model has no price rather than a wrong one. Money is an
//! estimate of list prices; the invoice is the provider's.

use crate::wire::settings::PriceSettings;
use crate::wire::usage::{Money, Usage};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// Context of a model that is not in the list, in tokens: what every model of recent years has.
const UNKNOWN_CONTEXT: u64 = 200_000;
/// Longest answer asked of a model that is not in the list.
const UNKNOWN_ANSWER: u32 = 8_192;
/// The same for one that is by its name newer than the list.
const NEWER_ANSWER: u32 = 32_000;
/// Longest answer asked of any model, thinking included.
const LONGEST_ANSWER: u32 = 64_000;

/// What a request needs to know of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Input and output together, in tokens.
    pub context_tokens: u64,
    /// Bound of one answer that is asked for, in tokens.
    pub answer_tokens: u32,
    /// The longest answer the model can give, in tokens.
    pub longest_answer: u32,
    /// Whether it may be told how hard to think.
    pub takes_effort: bool,
    /// The thinking setting for the wire, JSON.
    pub thinking: Option<Arc<str>>,
    /// Whether the list knows the model; if not, the rest are cautious guesses.
    pub known: bool,
}

impl Facts {
    /// The bound to ask for when the user wants this one.
    pub fn answer(&self, wanted: Option<u32>) -> u32 {
        wanted.map_or(self.answer_tokens, |wanted| wanted.clamp(1, self.longest_answer))
    }
}

/// Names of a provider's models by what they are for.
#[derive(Debug, Clone, Deserialize)]
pub struct Tiers(BTreeMap<String, String>);

impl Tiers {
    /// The model behind `strong`, `default`, `fast` or a family name.
    pub fn get(&self, alias: &str) -> Option<&str> {
        self.0.get(alias).map(String::as_str)
    }
    /// All aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Price {
    /// Fresh input.
    pub input: f64,
    /// Output, thinking included.
    pub output: f64,
    /// Input from the cache.
    pub cache_read: f64,
    /// Input put into the cache for five minutes, which is what this program asks for.
    #[serde(rename = "cache-write-5m")]
    pub cache_write_5m: f64,
}

impl From<PriceSettings> for Price {
    fn from(own: PriceSettings) -> Self {
        Self {
            input: own.input,
            output: own.output,
            cache_read: own.cache_read.unwrap_or(own.input),
            cache_write_5m: own.cache_write_5m.unwrap_or(own.input),
        }
    }
}

impl Price {
    fn of(&self, usage: &Usage) -> f64 {
        let parts = [
            (usage.input_tokens, self.input),
            (usage.output_tokens, self.output),
            (usage.cache_read_input_tokens, self.cache_read),
            (usage.cache_creation_input_tokens, self.cache_write_5m),
        ];
        #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^53")]
        let dollars = parts.iter().map(|(tokens, price)| *tokens as f64 * price).sum::<f64>();
        #[expect(clippy::cast_precision_loss, reason = "counts of searches are small")]
        let searches = usage.web_search_requests as f64 * LIST.web_search;
        dollars / 1e6 + searches
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Entry {
    name: String,
    context: u64,
    output: u32,
    thinking: Option<Arc<str>>,
    effort: Option<bool>,
    price: Price,
    long_prompt: Option<u64>,
    long_price: Option<Price>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct List {
    checked: String,
    web_search: f64,
    returns_reasoning: Vec<String>,
    never_reasons: Vec<String>,
    anthropic: Option<Tiers>,
    openai: Option<Tiers>,
    model: Vec<Entry>,
}

// A list that cannot be read would be a mistake in a file that is part of the program; a test reads it.
static LIST: LazyLock<List> =
    LazyLock::new(|| toml::from_str(include_str!("models.toml")).unwrap_or_default());

/// The day the shipped list was compared with the vendors' pages.
pub fn checked() -> &'static str {
    &LIST.checked
}

/// The names behind the aliases of `anthropic:`.
pub fn anthropic_tiers() -> Option<&'static Tiers> {
    LIST.anthropic.as_ref()
}

/// The names behind the aliases of `openai:`, for the vendor's own models.
pub fn openai_tiers() -> Option<&'static Tiers> {
    LIST.openai.as_ref()
}

/// Whether the servers of a model want its earlier reasoning back in the chat wire's field for it.
pub fn returns_reasoning(model: &str) -> bool {
    has_part(model, &LIST.returns_reasoning)
}

/// Whether a model is known to refuse requests that ask for its reasoning.
pub fn never_reasons(model: &str) -> bool {
    has_part(model, &LIST.never_reasons)
}

fn has_part(model: &str, parts: &[String]) -> bool {
    let model = model.to_lowercase();
    parts.iter().any(|part| model.contains(part.as_str()))
}

fn entry(model: &str) -> Option<&'static Entry> {
    LIST.model.iter().find(|e| names(model, &e.name))
}

/// Whether `model` is the model `name`, alone or within a longer id (`us.anthropic.NAME-v1:0`,
/// `openai/NAME`, `NAME-20251001`, `NAME-2026-11-17`), and not a later version of it. What follows a
/// `gpt-` name (`-pro`, `-mini`) makes another model of it, with another price.
fn names(model: &str, name: &str) -> bool {
    let Some(at) = model.find(name) else { return false };
    if model[..at].ends_with(|c: char| c.is_ascii_alphanumeric()) {
        return false;
    }
    let rest = after_date(&model[at + name.len()..]);
    let number = rest.strip_prefix('-').unwrap_or(rest).starts_with(|c: char| c.is_ascii_digit());
    let variant = name.starts_with("gpt-") && rest.starts_with('-');
    !(rest.starts_with('.') || number || variant)
}

/// What follows a date (`-20251001`, `-2026-11-17`) at the beginning of `rest`; all of it without one.
fn after_date(rest: &str) -> &str {
    let fits = |form: &str| {
        let (date, after) = rest.split_at_checked(form.len())?;
        let same = |(c, f): (u8, u8)| if f == b'd' { c.is_ascii_digit() } else { c == f };
        let whole = !after.starts_with(|c: char| c.is_ascii_digit());
        (whole && date.bytes().zip(form.bytes()).all(same)).then_some(after)
    };
    fits("-dddddddd").or_else(|| fits("-dddd-dd-dd")).unwrap_or(rest)
}

/// What is known of a model, by its name at its provider.
pub fn facts(model: &str) -> Facts {
    match entry(model) {
        Some(entry) => Facts {
            context_tokens: entry.context,
            answer_tokens: entry.output.min(LONGEST_ANSWER),
            longest_answer: entry.output,
            takes_effort: entry.effort.unwrap_or(entry.thinking.is_some()),
            thinking: entry.thinking.clone(),
            known: true,
        },
        None => Facts {
            context_tokens: UNKNOWN_CONTEXT,
            answer_tokens: if model.contains("claude-") { NEWER_ANSWER } else { UNKNOWN_ANSWER },
            longest_answer: u32::MAX,
            takes_effort: true,
            thinking: None,
            known: false,
        },
    }
}

/// What one response of `model` cost by the shipped list. `model` is a name at its provider, or
/// `provider:name`; what runs here (`scripted:`, `ollama:`) is free.
pub fn cost(model: &str, usage: &Usage) -> Money {
    if let Some((provider, name)) = model.split_once(':') {
        match provider {
            "scripted" | "ollama" => return Money::default(),
            "anthropic" | "openai" => return cost(name, usage),
            _ => {}
        }
    }
    if model == "scripted" {
        return Money::default();
    }
    Money(entry(model).map(|entry| {
        let long = entry.long_prompt.is_some_and(|limit| usage.context() > limit);
        entry.long_price.filter(|_| long).unwrap_or(entry.price).of(usage)
    }))
}

/// The shipped prices with the user's own before them.
#[derive(Debug, Clone, Default)]
pub struct PriceTable {
    own: BTreeMap<String, Price>,
}

impl PriceTable {
    /// Takes the setting `prices`; its keys are model names, with or without their provider.
    pub fn new(own: &BTreeMap<String, PriceSettings>) -> Self {
        Self { own: own.iter().map(|(name, price)| (name.clone(), (*price).into())).collect() }
    }

    /// What one response cost; see [`cost`].
    pub fn cost(&self, model: &str, usage: &Usage) -> Money {
        let bare = model.split_once(':').map(|(_, name)| name);
        let own = self.own.get(model).or_else(|| self.own.get(bare?));
        own.map_or_else(|| cost(model, usage), |price| Money(Some(price.of(usage))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, output: u64, write: u64, read: u64) -> Usage {
        Usage {
            input_tokens: input,
            output_tokens: output,
            cache_creation_input_tokens: write,
            cache_read_input_tokens: read,
            web_search_requests: 0,
        }
    }

    #[test]
    fn searches_cost_beside_tokens() {
        let searched = Usage { web_search_requests: 3, ..usage(1_000_000, 0, 0, 0) };
        assert_eq!(cost("claude-opus-5-5", &searched), Money(Some(4.0 + 0.03)));
        assert_eq!(cost("scripted:x", &searched), Money::default());
    }

    #[test]
    fn the_shipped_list_is_read_and_its_aliases_are_in_it() {
        let list: List = toml::from_str(include_str!("models.toml")).expect("models.toml");
        assert_eq!(checked(), "2026-11-30");
        for tiers in [list.anthropic.expect("aliases"), list.openai.expect("aliases")] {
            for name in ["strong", "default", "fast", "opus", "sonnet", "haiku"] {
                assert!(facts(tiers.get(name).expect(name)).known, "{name}");
            }
        }
        for entry in &list.model {
            let found = super::entry(&entry.name).expect("itself");
            assert_eq!(found.name, entry.name, "an earlier entry hides it");
            if let Some(thinking) = &entry.thinking {
                serde_json::from_str::<serde_json::Value>(thinking).expect("JSON");
            }
        }
    }

    #[test]
    fn a_price_is_that_of_the_very_model() {
        let million = usage(1_000_000, 0, 0, 0);
        for (model, dollars) in [
            ("claude-opus-5-5", Some(4.0)),
            ("claude-opus-5", Some(5.0)),
            ("anthropic:claude-opus-5-20260724", Some(5.0)),
            ("us.anthropic.claude-opus-5-5-v1:0", Some(4.0)),
            ("claude-opus-4-20250514", Some(15.0)),
            ("claude-opus-4-1-20250805", Some(15.0)),
            ("claude-sonnet-5-5[1m]", Some(2.0)),
            ("claude-opus-5-6", None),
            ("claude-opus-5.7", None),
            ("claude-opus-51", None),
            ("something-else", None),
            ("openai:gpt-6.2-astra", Some(16.0)),
            ("openai:openai/gpt-6.2-sol", Some(4.0)),
            ("gpt-6.1-sol-2026-09-29", Some(4.0)),
            ("gpt-6-sol", Some(4.0)),
            ("gpt-6-sol-pro", None),
            ("gpt-6-sol-2", None),
            ("gpt-6.3-sol", None),
            ("not-a-gpt-6-luna", Some(0.2)),
            ("notgpt-6-luna", None),
            ("scripted:demo.toml", Some(0.0)),
            ("scripted", Some(0.0)),
            ("ollama:any:7b", Some(0.0)),
        ] {
            assert_eq!(cost(model, &million), Money(dollars), "{model}");
        }
    }

    #[test]
    fn every_kind_of_token_has_its_price_and_a_long_prompt_another() {
        let of = |u: Usage| cost("claude-sonnet-5-5", &u).0.expect("known");
        let sum = of(usage(1_000_000, 1_000_000, 1_000_000, 1_000_000));
        assert!((sum - (2.0 + 10.0 + 2.5 + 0.1)).abs() < 1e-9, "{sum}");
        let haiku = |u: Usage| cost("claude-haiku-5-5", &u).0.expect("known");
        assert!((haiku(usage(100_000, 1_000_000, 0, 0)) - 0.51).abs() < 1e-9);
        assert!((haiku(usage(0, 1_000_000, 0, 100_001)) - (2.5 + 0.05 * 0.100_001)).abs() < 1e-9);
    }

    #[test]
    fn openai_prices_have_a_second_step() {
        let sol = |u: Usage| cost("openai:gpt-6.2-sol", &u).0.expect("known");
        assert!((sol(usage(100_000, 100_000, 72_000, 100_000)) - (0.2 + 1.0 + 0.18 + 0.01)).abs() < 1e-9);
        assert!((sol(usage(172_001, 100_000, 0, 100_000)) - (0.688_004 + 1.5 + 0.02)).abs() < 1e-9);
    }

    #[test]
    fn models_are_told_apart_by_what_they_do_with_reasoning() {
        assert!(returns_reasoning("deepseek/DeepSeek-V4-Pro") && returns_reasoning("kimi-k3"));
        assert!(!returns_reasoning("qwen3:8b") && !returns_reasoning("gpt-6.2-sol"));
        assert!(never_reasons("gpt-4.1-mini") && !never_reasons("gpt-6.2-sol") && !never_reasons("qwen3"));
    }

    #[test]
    fn the_users_prices_come_first() {
        let own = PriceSettings { input: 1.0, output: 2.0, cache_read: None, cache_write_5m: None };
        let table = PriceTable::new(&[("mine".to_owned(), own)].into());
        assert_eq!(table.cost("openai:mine", &usage(0, 500_000, 0, 1_000_000)), Money(Some(2.0)));
        assert_eq!(table.cost("other", &usage(1, 1, 1, 1)), Money(None));
        assert_eq!(table.cost("claude-opus-5", &usage(1_000_000, 0, 0, 0)), Money(Some(5.0)));
    }
}
