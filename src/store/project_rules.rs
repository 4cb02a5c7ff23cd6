//! Rules that a person allowed for a project: in `.festoon/settings.local.json`, where they are seen and
//! taken back.

use super::error::StoreError;
use super::paths::Paths;
use super::{atomic, lock};
use crate::wire::limits::LOCK_DEADLINE;
use crate::wire::settings::Durability;
use serde_json::{Map, Value};
use std::path::Path;

/// Adds allow rules to the local settings of the project in `project`; what else stands there stays, and
/// nothing else is left in the project: the lock lies with our own state.
pub fn allow(paths: &Paths, project: &Path, rules: &[String]) -> Result<(), StoreError> {
    let dir = project.join(".festoon");
    let file = dir.join("settings.local.json");
    std::fs::create_dir_all(&dir).map_err(|e| StoreError::io("create", &dir, e))?;
    let own = paths.project(project);
    own.make()?;
    lock::with_lock(&own.settings_lock(), LOCK_DEADLINE, || {
        let mut settings: Map<String, Value> = atomic::read_json(&file)?.unwrap_or_default();
        let invalid = || StoreError::Invalid {
            path: file.clone(),
            why: "permissions.allow is not a list, so the rule was not added".to_owned(),
        };
        let permissions = settings.entry("permissions").or_insert_with(|| Value::Object(Map::new()));
        let allowed = permissions.as_object_mut().ok_or_else(invalid)?.entry("allow");
        let list = allowed.or_insert_with(|| Value::Array(Vec::new())).as_array_mut().ok_or_else(invalid)?;
        for rule in rules {
            let rule = Value::String(rule.clone());
            if !list.contains(&rule) {
                list.push(rule);
            }
        }
        atomic::write_json(&file, &settings, Durability::Process)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_added_once_and_the_rest_stays() {
        let (dir, home) = (tempfile::tempdir().expect("temp dir"), tempfile::tempdir().expect("temp dir"));
        let paths = Paths::from_home(&home.path().join("state"));
        let file = dir.path().join(".festoon/settings.local.json");
        allow(&paths, dir.path(), &["Bash(git log:*)".to_owned()]).expect("adds");
        std::fs::write(
            &file,
            r#"{"model":"x","permissions":{"deny":["Read(a)"],"allow":["Bash(git log:*)"]}}"#,
        )
        .expect("writes");
        allow(&paths, dir.path(), &["Bash(git log:*)".to_owned(), "Edit(src/**)".to_owned()]).expect("adds");
        let found: Value = serde_json::from_slice(&std::fs::read(&file).expect("reads")).expect("parses");
        let wanted = serde_json::json!({"model": "x", "permissions": {
            "deny": ["Read(a)"], "allow": ["Bash(git log:*)", "Edit(src/**)"] }});
        assert_eq!(found, wanted);
        let left: Vec<_> = std::fs::read_dir(dir.path().join(".festoon")).expect("lists").flatten().collect();
        assert_eq!(left.iter().map(|entry| entry.path()).collect::<Vec<_>>(), [file]);
    }
}
