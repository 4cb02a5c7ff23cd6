//! From a model's name to the model that is meant.
//!
//! Owns `provider:name`, the aliases and which model is used when nobody names one. Promises that a
//! name that cannot be used is refused with what could be written instead. The environment is handed
//! in, never read here.

#[cfg(test)]
mod tests;

use super::anthropic::{Credentials, Secret};
use super::prices::{Tiers, anthropic_tiers, openai_tiers};
use super::script::ScriptError;
use crate::wire::settings::Settings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// Aliases may point at aliases, this deep.
const ALIAS_DEPTH: usize = 8;
/// How models are written.
const KNOWN: &str = "anthropic:NAME, openai:NAME, ollama:NAME, scripted:FILE";
/// How the names of OpenAI's models begin.
const OPENAI_NAMES: [&str; 3] = ["gpt-", "o3", "o4-"];
/// What an agent definition writes for its parent's model.
pub const INHERIT: &str = "inherit";

/// Who serves a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    /// The Messages API.
    Anthropic,
    /// OpenAI, or any server that is like it.
    OpenAi,
    /// A local server of models.
    Ollama,
    /// A script.
    Scripted,
}

impl Provider {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Anthropic, Self::OpenAi, Self::Ollama, Self::Scripted];

    /// Its name before the colon.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
            Self::Ollama => "ollama",
            Self::Scripted => "scripted",
        }
    }

    /// The models behind the names of tiers. A provider that has none serves what it was given.
    fn tiers(self) -> Option<&'static Tiers> {
        match self {
            Self::Anthropic => anthropic_tiers(),
            Self::OpenAi => openai_tiers(),
            Self::Ollama | Self::Scripted => None,
        }
    }
}

/// A model: who serves it and its name there. Written `provider:name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ModelRef {
    /// Who serves it.
    pub provider: Provider,
    /// The provider's name of it, passed on unchanged; for a script its file.
    pub name: String,
}

/// Why a model cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelSetupError {
    /// The name says nothing.
    #[error("`{0}` names no model: write PROVIDER:NAME ({KNOWN}) or an alias ({1})")]
    Name(String, String),
    /// The provider is not one of ours.
    #[error("`{0}`: there is no provider `{1}` (known: {KNOWN})")]
    Provider(String, String),
    /// Aliases that point at each other.
    #[error("the alias `{0}` leads to itself")]
    AliasLoop(String),
    /// Nobody named a model, no key is set, and no Ollama was found.
    #[error(
        "no model to talk to: set ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN) or OPENAI_API_KEY, start \
         Ollama, name one with --model PROVIDER:NAME, FESTOON_MODEL or the setting `model`, or look around \
         offline with `festoon demo`"
    )]
    NoModel,
    /// The provider needs a key.
    #[error("`{0}` needs {missing}", missing = missing(*.1))]
    NoKey(String, Provider),
    /// The provider's address is none.
    #[error("`{0}`: the address {1:?} of its server cannot be read")]
    Address(String, String),
    /// The script is missing or wrong.
    #[error(transparent)]
    Script(#[from] ScriptError),
}

/// What a provider cannot be reached without.
fn missing(provider: Provider) -> &'static str {
    match provider {
        Provider::OpenAi => {
            "OPENAI_API_KEY, which is not set (a server of your own may need none: set OPENAI_BASE_URL)"
        }
        _ => "ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, and neither is set",
    }
}

/// Whether `model` is written as a script's: its calls are those of whoever wrote the file.
pub fn is_script(model: &str) -> bool {
    model.trim_start().split_once(':').is_some_and(|(provider, _)| provider == Provider::Scripted.as_str())
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider.as_str(), self.name)
    }
}

impl From<ModelRef> for String {
    fn from(model: ModelRef) -> Self {
        model.to_string()
    }
}

impl TryFrom<String> for ModelRef {
    type Error = ModelSetupError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl FromStr for ModelRef {
    type Err = ModelSetupError;

    /// Reads `provider:name`. No aliases; see [`Names::resolve`].
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let unnamed = || ModelSetupError::Name(text.to_owned(), tier_names());
        let (provider, name) = text.split_once(':').ok_or_else(unnamed)?;
        let known = Provider::ALL.into_iter().find(|p| p.as_str() == provider);
        let provider =
            known.ok_or_else(|| ModelSetupError::Provider(text.to_owned(), provider.to_owned()))?;
        let name = name.trim();
        if name.is_empty() {
            return Err(unnamed());
        }
        Ok(Self { provider, name: name.to_owned() })
    }
}

impl ModelRef {
    /// The same with a script's file as an absolute path, so that it means the same in any directory.
    pub fn anchored(self, directory: &Path) -> Self {
        match self.provider {
            Provider::Scripted => {
                let path = directory.join(&self.name);
                Self { name: path.to_string_lossy().into_owned(), ..self }
            }
            Provider::Anthropic | Provider::OpenAi | Provider::Ollama => self,
        }
    }
}

fn tier_names() -> String {
    let tiers = anthropic_tiers().map(|t| t.names().collect::<Vec<_>>()).unwrap_or_default();
    tiers.join(", ")
}

/// The names that users and definitions may write for a model.
#[derive(Debug, Clone, Default)]
pub struct Names {
    aliases: BTreeMap<String, String>,
}

impl Names {
    /// With the setting `aliases`, which come before the built-in ones.
    pub fn new(aliases: &BTreeMap<String, String>) -> Self {
        Self { aliases: aliases.clone() }
    }

    /// What `text` means to an agent whose parent (or session) has the model `parent`: nothing and
    /// `inherit` are the parent's; an alias is that of the parent's provider; `provider:name` is as
    /// written; any other name is one of the parent's provider. Where only the parent's own model is
    /// known to be there (a script, Ollama, a server that is like OpenAI), an alias means that one.
    pub fn resolve(&self, text: &str, parent: &ModelRef) -> Result<ModelRef, ModelSetupError> {
        let text = self.expand(text)?;
        if text.is_empty() || text == INHERIT {
            return Ok(parent.clone());
        }
        if let Some((provider, _)) = text.split_once(':')
            && Provider::ALL.iter().any(|p| p.as_str() == provider)
        {
            return text.parse().map(tiered);
        }
        Ok(match parent.provider {
            Provider::Scripted => parent.clone(),
            Provider::OpenAi | Provider::Ollama if is_tier(&text) && !is_of_openai(parent) => parent.clone(),
            provider => tiered(ModelRef { provider, name: text }),
        })
    }

    /// What `text` means to the main agent, which has no parent. `None` for names that mean the first
    /// provider with a key.
    fn resolve_first(&self, text: &str, first: Option<Provider>) -> Result<ModelRef, ModelSetupError> {
        let text = self.expand(text)?;
        if text.contains(':') {
            return text.parse().map(tiered);
        }
        if is_tier(&text) {
            let provider = first.ok_or(ModelSetupError::NoModel)?;
            return Ok(tiered(ModelRef { provider, name: text }));
        }
        // A bare name that only one vendor has.
        if text.starts_with("claude-") {
            return Ok(ModelRef { provider: Provider::Anthropic, name: text });
        }
        if OPENAI_NAMES.iter().any(|begin| text.starts_with(begin)) {
            return Ok(ModelRef { provider: Provider::OpenAi, name: text });
        }
        Err(ModelSetupError::Name(text, tier_names()))
    }

    fn expand(&self, text: &str) -> Result<String, ModelSetupError> {
        let mut name = text.trim().to_owned();
        for _ in 0..ALIAS_DEPTH {
            match self.aliases.get(&name) {
                // An alias may be given the name it stands for, e.g. `opus` for another `opus`.
                Some(next) if *next == name => return Ok(name),
                Some(next) => name = next.trim().to_owned(),
                None => return Ok(name),
            }
        }
        Err(ModelSetupError::AliasLoop(text.to_owned()))
    }
}

/// Whether a name is an alias that ships.
fn is_tier(name: &str) -> bool {
    Provider::ALL.iter().any(|provider| provider.tiers().and_then(|t| t.get(name)).is_some())
}

/// Whether a model is one of the vendor's, by its own name for it.
fn is_of_openai(model: &ModelRef) -> bool {
    model.provider == Provider::OpenAi && OPENAI_NAMES.iter().any(|begin| model.name.starts_with(begin))
}

/// With a tier's name (`anthropic:fast`) replaced by the model behind it.
pub(super) fn tiered(model: ModelRef) -> ModelRef {
    match model.provider.tiers().and_then(|t| t.get(&model.name)) {
        Some(name) => ModelRef { name: name.to_owned(), ..model },
        None => model,
    }
}

/// A variable that is set to something.
pub(super) fn set<'a>(env: &'a BTreeMap<String, String>, name: &str) -> Option<&'a str> {
    env.get(name).map(|v| v.trim()).filter(|v| !v.is_empty())
}

/// The main agent's model: `--model`, else `FESTOON_MODEL`, else the setting, else the default of the
/// first provider whose key is set (contract §3). With [`ModelSetupError::NoModel`] it is worth looking
/// for a running Ollama; see [`super::ollama::running`].
pub fn choose(
    flag: Option<&str>,
    env: &BTreeMap<String, String>,
    settings: &Settings,
) -> Result<ModelRef, ModelSetupError> {
    let openai = || openai_key(env).map(|_| Provider::OpenAi);
    let first = credentials(env).map(|_| Provider::Anthropic).or_else(openai);
    let named = flag.or_else(|| set(env, "FESTOON_MODEL")).or(settings.model.as_deref());
    Names::new(&settings.aliases).resolve_first(named.unwrap_or("default"), first)
}

/// The vendor's key, or its token.
pub(super) fn credentials(env: &BTreeMap<String, String>) -> Option<Credentials> {
    let secret = |name| set(env, name).and_then(Secret::new);
    secret("ANTHROPIC_API_KEY")
        .map(Credentials::ApiKey)
        .or_else(|| secret("ANTHROPIC_AUTH_TOKEN").map(Credentials::Bearer))
}

/// OpenAI's key.
pub(super) fn openai_key(env: &BTreeMap<String, String>) -> Option<Secret> {
    set(env, "OPENAI_API_KEY").and_then(Secret::new)
}
