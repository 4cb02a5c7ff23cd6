//! `history.jsonl`: what was typed at the prompt, for all sessions of a person.
//!
//! Owns that file: a JSON string a line, appended to by any number of processes, readable by its
//! owner alone. Promises little: whoever types on must not be stopped by it.

use super::error::StoreError;
use super::jsonl;
use super::paths::Paths;

/// What was typed last, oldest first; as much as is worth remembering. Lines that are none are left out.
pub fn load(paths: &Paths) -> Result<Vec<String>, StoreError> {
    let lines = jsonl::tail(&paths.history())?;
    Ok(lines.iter().filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

/// Adds an entry, which may have several lines.
pub fn append(paths: &Paths, entry: &str) -> Result<(), StoreError> {
    paths.ensure_root()?;
    let path = paths.history();
    let line = jsonl::encode(&path, &entry)?;
    jsonl::append_line(&path, &line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn entries_come_back_whole_and_are_for_their_owner_alone() {
        let home = tempfile::tempdir().expect("temp dir");
        let paths = Paths::from_home(home.path());
        assert_eq!(load(&paths).expect("loads"), Vec::<String>::new());
        append(&paths, "one\ntwo").expect("appends");
        append(&paths, "drei \u{fc}").expect("appends");
        assert_eq!(load(&paths).expect("loads"), ["one\ntwo", "drei \u{fc}"]);
        let mode = std::fs::metadata(paths.history()).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
