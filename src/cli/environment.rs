//! The environment, read once at the start and handed on as values.

use super::error::CliError;
use crate::wire::mask::Mask;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;

/// Variables that no tool command may see: keys of model providers.
const SECRETS: [&str; 3] = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"];

/// Variables that say which model there is and how it is reached.
pub const OF_MODELS: [&str; 7] = [
    "FESTOON_MODEL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OLLAMA_HOST",
];

/// The mark by which a command below an agent's tool is known (contract §16).
pub const TOOL_MARK: &str = "FESTOON_TOOL_OF";

/// A snapshot of the environment. Variables that are not UTF-8 are left out, and remembered by name.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    not_text: BTreeSet<String>,
}

impl Environment {
    /// The process's own.
    pub fn snapshot() -> Self {
        let mut snapshot = Self::default();
        for (key, value) in std::env::vars_os() {
            match (key.into_string(), value.into_string()) {
                (Ok(key), Ok(value)) => drop(snapshot.variables.insert(key, value)),
                (Ok(key), Err(_)) => drop(snapshot.not_text.insert(key)),
                (Err(_), _) => {} // no name that anybody asks for
            }
        }
        snapshot
    }

    /// Refuses when one of these variables is set to what is not UTF-8, and would count as not set.
    pub fn check(&self, names: &[&str]) -> Result<(), CliError> {
        match names.iter().find(|name| self.not_text.contains(**name)) {
            None => Ok(()),
            Some(name) => Err(CliError::usage(
                format!("the environment variable {name} is not UTF-8 text"),
                format!("set it anew, or unset {name}"),
            )),
        }
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

    /// Keeps the keys out of everything that is written down.
    pub fn mask(&self) -> Mask {
        Mask::new(SECRETS.iter().filter_map(|key| self.get(key)))
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
