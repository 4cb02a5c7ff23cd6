//! The files of profiles that panes are made with: written, removed, and swept when a process that was killed
//! has left one.
//!
//! Promises that the disk never holds up the runtime, and that only files are removed which have our mark and
//! are too old for a pane that is being made. Never touches the profiles of others.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What is older is offered by nobody any more: a pane is made within a minute.
const OLD: Duration = Duration::from_secs(300);
/// How the files begin.
const OURS: &str = "festoon-";
/// The mark of our profiles.
pub(super) const TAG: &str = "festoon";

/// The file of a profile.
pub(super) fn file_name(profile: &str) -> String {
    format!("{}.json", profile.replace(['/', ' '], "-"))
}

/// Writes a profile into the directory, from which old ones go first.
pub(super) async fn write(dir: PathBuf, file: PathBuf, text: String) -> Result<(), String> {
    let work = move || {
        sweep(&dir, SystemTime::now());
        std::fs::create_dir_all(&dir)?;
        std::fs::write(&file, text)
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(written) => written.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Removes a profile whose pane is made, or is none.
pub(super) async fn remove(file: PathBuf) {
    let name = file.display().to_string();
    let removed = tokio::task::spawn_blocking(move || std::fs::remove_file(file)).await;
    if let Ok(Err(error)) = removed {
        tracing::warn!(file = name, %error, "a profile that was only for a moment could not be removed");
    }
}

/// Removes what earlier processes have left; what cannot be is tried again with the next pane.
fn sweep(dir: &Path, now: SystemTime) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_named = name.to_str().is_some_and(|name| name.starts_with(OURS) && name.ends_with(".json"));
        let changed = entry.metadata().and_then(|found| found.modified());
        let is_old = changed.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > OLD));
        if is_named && is_old && is_ours(&entry.path()) {
            drop(std::fs::remove_file(entry.path()));
        }
    }
}

fn is_ours(file: &Path) -> bool {
    let text = std::fs::read(file).unwrap_or_default();
    let Ok(found) = serde_json::from_slice::<Value>(&text) else { return false };
    let profiles = found["Profiles"].as_array();
    profiles.is_some_and(|all| {
        all.iter()
            .all(|profile| profile["Tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| tag == TAG)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_profiles_of_our_own_are_swept() {
        let dir = tempfile::tempdir().expect("temp dir");
        let put = |name: &str, text: &str, age: u64| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).expect("writes");
            let file = std::fs::File::options().append(true).open(&path).expect("opens");
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).expect("ages");
        };
        let ours = r#"{"Profiles":[{"Name":"festoon anna@t/run-1","Tags":["festoon"]}]}"#;
        put("festoon-left.json", ours, 301);
        put("festoon-new.json", ours, 30);
        put("festoon-theirs.json", r#"{"Profiles":[{"Name":"festoon","Tags":["mine"]}]}"#, 999);
        put("festoon-odd.json", "{", 999);
        put("other.json", ours, 999);
        sweep(dir.path(), SystemTime::now());
        let entries = std::fs::read_dir(dir.path()).expect("lists").flatten();
        let mut left: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        left.sort();
        assert_eq!(left, ["festoon-new.json", "festoon-odd.json", "festoon-theirs.json", "other.json"]);
    }
}
