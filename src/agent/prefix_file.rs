//! The frozen prefix of an agent, kept beside its transcript, so that a later run sends the same bytes.
//!
//! What forks were given is kept in a second place, under a name made from its content: an agent's own file
//! follows its tools and model, and its forks must not. Files of that kind are written once and shared.

use crate::model::provider::PromptPrefix;
use crate::store::atomic;
use crate::store::error::StoreError;
use crate::wire::settings::Durability;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a hash that name a kept prefix.
const NAME_BYTES: usize = 16;

/// The file: the prefix with the wire it was frozen for.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    provider: String,
    model: String,
    tools: Arc<str>,
    system: Arc<str>,
    max_output_tokens: u32,
    thinking: Option<Arc<str>>,
    #[serde(default)]
    effort: Option<Arc<str>>,
    /// Names of the declared tools, to see whether they changed without reading the wire's form.
    tool_names: Vec<String>,
}

/// What an agent would send now.
pub struct Fresh {
    /// The wire.
    pub provider: &'static str,
    /// The prefix rendered anew.
    pub prefix: PromptPrefix,
    /// Its tools.
    pub tool_names: Vec<String>,
}

/// Prompt and tools as they were kept, when they are for the same wire, model and tools, else the fresh
/// ones; how hard to think and how much to answer always as the fresh one has it. What is returned is kept
/// from now on. The second value is true when something changed that a prompt cache compares.
pub fn settle(path: &Path, fresh: Fresh) -> Result<(PromptPrefix, bool), StoreError> {
    let kept: Option<Kept> = match atomic::read_json(path) {
        // A damaged file costs cached input, nothing else.
        Err(StoreError::Corrupt { .. } | StoreError::Invalid { .. }) => None,
        other => other?,
    };
    let mut prefix = fresh.prefix;
    let mut changed = kept.is_some();
    if let Some(kept) = kept
        && kept.provider == fresh.provider
        && kept.model == prefix.model
        && kept.tool_names == fresh.tool_names
    {
        // What a person sets anew counts; the bytes of prompt and tools stay.
        let (own, now) = ((&kept.thinking, &kept.effort), (&prefix.thinking, &prefix.effort));
        changed = own != now;
        let same = !changed && kept.max_output_tokens == prefix.max_output_tokens;
        (prefix.tools, prefix.system) = (kept.tools, kept.system);
        if same {
            return Ok((prefix, false));
        }
    }
    Ok((replace(path, Fresh { prefix, ..fresh })?, changed))
}

/// Keeps a prefix from now on, in the place of any other.
pub fn replace(path: &Path, fresh: Fresh) -> Result<PromptPrefix, StoreError> {
    let prefix = fresh.prefix;
    atomic::write_json(path, &Kept::new(fresh.provider, &prefix, fresh.tool_names), Durability::Process)?;
    Ok(prefix)
}

impl Kept {
    fn new(provider: &str, prefix: &PromptPrefix, tool_names: Vec<String>) -> Self {
        Self {
            provider: provider.to_owned(),
            model: prefix.model.clone(),
            tools: Arc::clone(&prefix.tools),
            system: Arc::clone(&prefix.system),
            max_output_tokens: prefix.max_output_tokens,
            thinking: prefix.thinking.clone(),
            effort: prefix.effort.clone(),
            tool_names,
        }
    }

    fn prefix(self) -> PromptPrefix {
        PromptPrefix {
            model: self.model,
            tools: self.tools,
            system: self.system,
            max_output_tokens: self.max_output_tokens,
            thinking: self.thinking,
            effort: self.effort,
        }
    }
}

/// Keeps a prefix in `dir` under a name made from its content; does nothing when it is there already.
pub fn keep(
    dir: &Path,
    provider: &str,
    prefix: &PromptPrefix,
    tool_names: &[String],
) -> Result<PathBuf, StoreError> {
    let kept = Kept::new(provider, prefix, tool_names.to_vec());
    let text = atomic::pretty(dir, &kept)?;
    let mut name = String::new();
    for byte in Sha256::digest(&text).iter().take(NAME_BYTES) {
        // Writing into a String cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    let path = dir.join(name).with_extension("json");
    if !path.exists() {
        atomic::make_dir(dir)?;
        // Whoever is faster wrote the same.
        atomic::create_exclusive(&path, &text, Durability::Process)?;
    }
    Ok(path)
}

/// A prefix that was kept, for the wire of this provider, with the names of its tools. An error says why
/// it cannot be used.
pub fn load(path: &Path, provider: &str) -> Result<(PromptPrefix, Vec<String>), StoreError> {
    let kept: Option<Kept> = atomic::read_json(path)?;
    let mut kept = kept.ok_or_else(|| StoreError::NotFound { path: path.to_owned() })?;
    if kept.provider != provider {
        let why = format!("was frozen for {}, not for {provider}", kept.provider);
        return Err(StoreError::Invalid { path: path.to_owned(), why });
    }
    let names = std::mem::take(&mut kept.tool_names);
    Ok((kept.prefix(), names))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(system: &str, tools: &[&str]) -> Fresh {
        let prefix = PromptPrefix {
            model: "m".to_owned(),
            tools: "[]".into(),
            system: system.into(),
            max_output_tokens: 9,
            thinking: None,
            effort: None,
        };
        Fresh { provider: "p", prefix, tool_names: tools.iter().map(|t| (*t).to_owned()).collect() }
    }

    #[test]
    fn the_first_rendering_is_kept_until_the_tools_change() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("prefix.json");
        let read = |system, tools| {
            let (prefix, changed) = settle(&path, fresh(system, tools)).expect("settles");
            (prefix.system.to_string(), changed)
        };
        assert_eq!(read("one", &["Read"]), ("one".to_owned(), false));
        assert_eq!(read("two", &["Read"]), ("one".to_owned(), false));
        assert_eq!(read("two", &["Read", "Edit"]), ("two".to_owned(), true));
        let mut other = fresh("three", &["Read", "Edit"]);
        other.prefix.effort = Some("x".into());
        let (prefix, changed) = settle(&path, other).expect("settles");
        assert_eq!((&*prefix.system, prefix.effort.as_deref(), changed), ("two", Some("x"), true));
        std::fs::write(&path, "{").expect("writes");
        assert_eq!(read("three", &["Read"]), ("three".to_owned(), false));
    }

    #[test]
    fn what_forks_were_given_is_kept_once_and_stays() {
        let dir = tempfile::tempdir().expect("temp dir");
        let dir = dir.path().join("prefixes");
        let keep = |system: &str| {
            let Fresh { provider, prefix, tool_names } = fresh(system, &["Read"]);
            keep(&dir, provider, &prefix, &tool_names).expect("keeps")
        };
        let (one, again, other) = (keep("one"), keep("one"), keep("other"));
        assert_eq!(one, again);
        assert_ne!(one, other);
        assert_eq!(std::fs::read_dir(&dir).expect("lists").count(), 2);
        let (prefix, names) = load(&one, "p").expect("loads");
        assert_eq!((prefix, names), (fresh("one", &[]).prefix, vec!["Read".to_owned()]));
        assert!(
            load(&one, "q").expect_err("another wire").to_string().contains("was frozen for p, not for q")
        );
        std::fs::remove_file(&one).expect("removes");
        assert!(matches!(load(&one, "p"), Err(StoreError::NotFound { .. })));
    }
}
