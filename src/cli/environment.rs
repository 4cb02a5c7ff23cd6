//! The environment, read once at the start and handed on as values.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// Variables that no tool command may see: keys of model providers.
const SECRETS: [&str; 3] = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"];

/// The mark by which a command below an agent's tool is known (contract §16).
pub const TOOL_MARK: &str = "FESTOON_TOOL_OF";

/// A snapshot of the environment. Variables that are not UTF-8 are left out.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// The process's own.
    pub fn snapshot() -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self { variables }
    }

    /// A variable; an empty one counts as absent.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.variables.get(key).map(String::as_str).filter(|v| !v.is_empty())
    }

    /// The same as the platform's string.
    pub fn get_os(&self, key: &str) -> Option<OsString> {
        self.get(key).map(OsString::from)
    }

    /// All of it.
    pub fn all(&self) -> &BTreeMap<String, String> {
        &self.variables
    }

    /// The person's home.
    pub fn home(&self) -> Option<PathBuf> {
        self.get("HOME").map(PathBuf::from)
    }

    /// What commands of an agent get: everything but keys, the settings' `env`, and the mark.
    pub fn for_tools(&self, extra: &BTreeMap<String, String>, mark: &str) -> BTreeMap<String, String> {
        let mut all = self.variables.clone();
        all.extend(extra.clone());
        all.retain(|key, _| !SECRETS.contains(&key.as_str()));
        all.insert(TOOL_MARK.to_owned(), mark.to_owned());
        all
    }
}
