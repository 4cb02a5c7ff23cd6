//! Settings files: found, checked one by one, merged by precedence (contract §14).
//!
//! A wrong type or value is an error that names file and key; an unknown key is a warning that does.

use super::error::CliError;
use crate::store::atomic;
use crate::store::paths::Paths;
use crate::wire::error::ExitKind;
use crate::wire::permission::{Behavior, Rule, RuleSource};
use crate::wire::settings::Settings;
use serde_json::{Map, Value};
use std::path::Path;

/// All settings in force.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// Merged, rules left out of account.
    pub settings: Settings,
    /// The rules of all files, with their sources.
    pub rules: Vec<Rule>,
    /// Unknown keys.
    pub warnings: Vec<String>,
}

/// Loads the user's, the project's, the local settings and those of `--settings`, lowest first.
pub fn load(paths: &Paths, cwd: &Path, given: Option<&str>) -> Result<Loaded, CliError> {
    let mut files = vec![
        (RuleSource::User, paths.user_settings()),
        (RuleSource::Project, cwd.join(".festoon/settings.json")),
        (RuleSource::Local, cwd.join(".festoon/settings.local.json")),
    ];
    let mut loaded = Loaded::default();
    let mut merged = Map::new();
    let inline = given.filter(|text| text.trim_start().starts_with('{'));
    if let (Some(path), None) = (given, inline) {
        let path = cwd.join(path);
        if !path.is_file() {
            return Err(CliError::usage(
                format!("--settings: {} is no file", path.display()),
                "give a file, or a JSON object",
            ));
        }
        files.push((RuleSource::CommandLine, path));
    }
    for (source, path) in files {
        let Some(bytes) = atomic::read_optional(&path)? else { continue };
        let text =
            String::from_utf8(bytes).map_err(|_| wrong(&path.display().to_string(), "it is not UTF-8"))?;
        take(&mut loaded, &mut merged, source, &path.display().to_string(), &text)?;
    }
    if let Some(text) = inline {
        take(&mut loaded, &mut merged, RuleSource::CommandLine, "--settings", text)?;
    }
    loaded.settings = serde_json::from_value(Value::Object(merged))
        .map_err(|e| wrong("the merged settings", &e.to_string()))?;
    Ok(loaded)
}

fn take(
    loaded: &mut Loaded,
    merged: &mut Map<String, Value>,
    source: RuleSource,
    name: &str,
    text: &str,
) -> Result<(), CliError> {
    let text = text.trim_start_matches('\u{feff}');
    let settings = check(name, text, &mut loaded.warnings)?;
    let permissions = &settings.permissions;
    let lists = [
        (Behavior::Allow, &permissions.allow),
        (Behavior::Ask, &permissions.ask),
        (Behavior::Deny, &permissions.deny),
    ];
    for (behavior, rules) in lists {
        for rule in rules {
            crate::policy::rule::check(rule)
                .map_err(|e| wrong(name, &format!("permissions: {rule:?}: {e}")))?;
            loaded.rules.push(Rule { text: rule.clone(), behavior, source });
        }
    }
    if let Ok(Value::Object(map)) = serde_json::from_str(text) {
        merge(merged, map);
    }
    Ok(())
}

fn check(name: &str, text: &str, warnings: &mut Vec<String>) -> Result<Settings, CliError> {
    let mut track = serde_path_to_error::Track::new();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let tracked = serde_path_to_error::Deserializer::new(&mut deserializer, &mut track);
    let mut unknown = Vec::new();
    let read = serde_ignored::deserialize(tracked, |path| unknown.push(path.to_string()));
    let settings: Settings = read.map_err(|e| {
        let key = track.path().to_string();
        let place = if key == "." { String::new() } else { format!("{key}: ") };
        wrong(name, &format!("{place}{e}"))
    })?;
    deserializer.end().map_err(|e| wrong(name, &e.to_string()))?;
    warnings.extend(unknown.into_iter().map(|key| format!("{name}: unknown key {key} is ignored")));
    Ok(settings)
}

fn wrong(name: &str, why: &str) -> CliError {
    CliError::new(
        ExitKind::Usage,
        "settings",
        format!("{name}: {why}"),
        "mend the file; docs/guide/settings.md lists the keys",
    )
}

/// Objects are merged member by member; anything else is replaced.
fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(user: &str, project: &str) -> Result<Loaded, CliError> {
        let dir = tempfile::tempdir().expect("temp dir");
        let home = dir.path().join("home");
        let cwd = dir.path().join("project");
        std::fs::create_dir_all(cwd.join(".festoon")).expect("dir");
        std::fs::create_dir_all(&home).expect("dir");
        std::fs::write(home.join("settings.json"), user).expect("file");
        std::fs::write(cwd.join(".festoon/settings.json"), project).expect("file");
        load(&Paths::from_home(&home), &cwd, None)
    }

    #[test]
    fn nearer_files_win_member_by_member_and_rules_add_up() {
        let loaded = settings(
            r#"{"model":"a","limits":{"maxDepth":1,"maxAgents":2},"permissions":{"allow":["Read"]}}"#,
            "\u{feff}{\"model\":\"b\",\"limits\":{\"maxDepth\":5},\"permissions\":{\"allow\":[\"Edit\"]},\"colour\":1}",
        )
        .expect("loads");
        assert_eq!(loaded.settings.model.as_deref(), Some("b"));
        assert_eq!((loaded.settings.limits.max_depth, loaded.settings.limits.max_agents), (Some(5), Some(2)));
        let rules: Vec<_> = loaded.rules.iter().map(|r| (r.text.as_str(), r.source)).collect();
        assert_eq!(rules, [("Read", RuleSource::User), ("Edit", RuleSource::Project)]);
        assert_eq!(loaded.warnings.len(), 1);
        assert!(
            loaded.warnings[0].ends_with("settings.json: unknown key colour is ignored"),
            "{:?}",
            loaded.warnings
        );
    }

    #[test]
    fn a_wrong_value_names_file_and_key() {
        let error = settings("{}", r#"{"limits":{"maxDepth":"deep"}}"#).expect_err("refused");
        let message = error.report.message;
        assert!(message.contains(".festoon/settings.json: limits.maxDepth: "), "{message}");
        assert_eq!(error.exit, ExitKind::Usage);
    }
}
