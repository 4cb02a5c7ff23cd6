//! The frozen prefix of an agent, kept beside its transcript, so that a later run sends the same bytes.

use crate::model::provider::PromptPrefix;
use crate::store::atomic;
use crate::store::error::StoreError;
use crate::wire::settings::Durability;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

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

/// The kept prefix when it is for the same wire, model and tools, else the fresh one, which is kept from
/// now on. The second value is true when a kept one had to give way.
pub fn settle(path: &Path, fresh: Fresh) -> Result<(PromptPrefix, bool), StoreError> {
    let kept: Option<Kept> = match atomic::read_json(path) {
        // A damaged file costs cached input, nothing else.
        Err(StoreError::Corrupt { .. } | StoreError::Invalid { .. }) => None,
        other => other?,
    };
    let changed = match kept {
        Some(kept)
            if kept.provider == fresh.provider
                && kept.model == fresh.prefix.model
                && kept.tool_names == fresh.tool_names =>
        {
            let prefix = PromptPrefix {
                model: kept.model,
                tools: kept.tools,
                system: kept.system,
                max_output_tokens: kept.max_output_tokens,
                thinking: kept.thinking,
            };
            return Ok((prefix, false));
        }
        Some(_) => true,
        None => false,
    };
    let prefix = fresh.prefix;
    let kept = Kept {
        provider: fresh.provider.to_owned(),
        model: prefix.model.clone(),
        tools: Arc::clone(&prefix.tools),
        system: Arc::clone(&prefix.system),
        max_output_tokens: prefix.max_output_tokens,
        thinking: prefix.thinking.clone(),
        tool_names: fresh.tool_names,
    };
    atomic::write_json(path, &kept, Durability::Process)?;
    Ok((prefix, changed))
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
        std::fs::write(&path, "{").expect("writes");
        assert_eq!(read("three", &["Read"]), ("three".to_owned(), false));
    }
}
