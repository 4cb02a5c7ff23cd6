//! `trust.json`: the directories whose hooks, servers and settings a person has agreed to.
//!
//! Owns that file and what "this directory" means: the root of the checkout that holds it, else the
//! directory itself, with links resolved. Promises that a checkout inside a trusted one, and a place a
//! link leads to, need an answer of their own. Never looks at what a directory holds: a file that is
//! changed later in a trusted directory counts.

use super::error::StoreError;
use super::paths::Paths;
use super::{atomic, clock, lock};
use crate::wire::limits::LOCK_DEADLINE;
use crate::wire::settings::Durability;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// The format written here.
const VERSION: u32 = 1;
/// The member that holds the directories.
const DIRECTORIES: &str = "directories";

/// What an answer for `dir` is about: the root of its checkout, else itself; links resolved.
///
/// # Errors
/// When the directory cannot be found.
pub fn root_of(dir: &Path) -> Result<PathBuf, StoreError> {
    let real = dir.canonicalize().map_err(|e| StoreError::io("find", dir, e))?;
    let root = real.ancestors().find(|above| above.join(".git").symlink_metadata().is_ok());
    Ok(root.unwrap_or(&real).to_owned())
}

/// Whether a person has said that what `dir` brings may run.
///
/// # Errors
/// When the directory or the file cannot be read; nobody is trusted then.
pub fn is_trusted(paths: &Paths, dir: &Path) -> Result<bool, StoreError> {
    let root = root_of(dir)?;
    let Some(known) = load(paths)? else { return Ok(false) };
    let named = root.to_str().and_then(|root| known.get(DIRECTORIES)?.get(root));
    Ok(named.is_some())
}

/// Remembers that `dir` is trusted, and returns what that is: see [`root_of`].
///
/// # Errors
/// When the file cannot be read or written, or the path is not UTF-8 and cannot stand in it.
pub fn remember(paths: &Paths, dir: &Path) -> Result<PathBuf, StoreError> {
    let root = root_of(dir)?;
    let name = root.to_str().ok_or_else(|| StoreError::Invalid {
        path: root.clone(),
        why: "its name is not UTF-8, so it cannot be remembered".to_owned(),
    })?;
    paths.ensure_root()?;
    let file = paths.trust();
    lock::with_lock(&file.with_extension("lock"), LOCK_DEADLINE, || {
        let mut known = load(paths)?.unwrap_or_default();
        known.entry("version").or_insert_with(|| json!(VERSION));
        let directories = known.entry(DIRECTORIES).or_insert_with(|| Value::Object(Map::new()));
        let Some(directories) = directories.as_object_mut() else {
            return Err(StoreError::Invalid {
                path: file.clone(),
                why: format!("`{DIRECTORIES}` is no object"),
            });
        };
        directories.insert(name.to_owned(), json!({ "trustedAt": clock::now() }));
        atomic::write_json(&file, &known, Durability::Process)
    })?;
    Ok(root)
}

/// Whether the trust in `project` holds for an agent that works in `dir`: inside the same checkout. Any
/// other place needs an answer of its own.
///
/// # Errors
/// As [`is_trusted`].
pub fn reaches(paths: &Paths, project: &Path, dir: &Path) -> Result<bool, StoreError> {
    Ok(root_of(project)? == root_of(dir)? || is_trusted(paths, dir)?)
}

fn load(paths: &Paths) -> Result<Option<Map<String, Value>>, StoreError> {
    atomic::read_json(&paths.trust())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct Place {
        _dir: tempfile::TempDir,
        root: PathBuf,
        paths: Paths,
    }

    fn place(dirs: &[&str]) -> Place {
        let dir = tempfile::tempdir().expect("temp dir");
        let root = dir.path().canonicalize().expect("real");
        for below in dirs {
            std::fs::create_dir_all(root.join(below)).expect("dirs");
        }
        let paths = Paths::from_home(&root.join("home"));
        Place { _dir: dir, root, paths }
    }

    impl Place {
        fn trusted(&self, dirs: &[&str]) -> Vec<bool> {
            dirs.iter().map(|d| is_trusted(&self.paths, &self.root.join(d)).expect("looks")).collect()
        }
    }

    #[test]
    fn a_checkout_is_trusted_as_a_whole_and_nothing_else_is() {
        let here = place(&["repo/.git", "repo/sub/deep", "repo/vendor/.git", "plain/sub", "repository"]);
        let all = ["repo", "repo/sub/deep", "repo/vendor", "plain", "plain/sub", "repository", "."];
        assert_eq!(here.trusted(&all), [false; 7]);
        assert_eq!(
            remember(&here.paths, &here.root.join("repo/sub")).expect("remembers"),
            here.root.join("repo")
        );
        remember(&here.paths, &here.root.join("plain")).expect("remembers");
        assert_eq!(here.trusted(&all), [true, true, false, true, false, false, false]);
        let mode = std::fs::metadata(here.paths.trust()).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_link_is_what_it_leads_to() {
        let here = place(&["good", "evil"]);
        symlink("good", here.root.join("link")).expect("links");
        remember(&here.paths, &here.root.join("link")).expect("remembers");
        assert_eq!(here.trusted(&["link", "good", "evil"]), [true, true, false]);
        std::fs::remove_file(here.root.join("link")).expect("removes");
        symlink("evil", here.root.join("link")).expect("links");
        assert_eq!(here.trusted(&["link"]), [false]);
    }

    #[test]
    fn what_cannot_be_read_trusts_nobody_and_what_is_not_ours_stays() {
        let here = place(&["a", "b", "home"]);
        std::fs::write(here.paths.trust(), "{").expect("writes");
        assert!(is_trusted(&here.paths, &here.root.join("a")).is_err());
        assert!(remember(&here.paths, &here.root.join("a")).is_err());
        std::fs::write(here.paths.trust(), r#"{"more":1,"directories":{"/x":{"by":"me"}}}"#).expect("writes");
        remember(&here.paths, &here.root.join("a")).expect("remembers");
        let known = load(&here.paths).expect("loads").expect("is there");
        assert_eq!((&known["more"], &known["directories"]["/x"]), (&json!(1), &json!({"by": "me"})));
        assert_eq!(here.trusted(&["a", "b"]), [true, false]);
    }

    #[test]
    fn trust_reaches_the_same_checkout_and_nothing_else() {
        let here = place(&["repo/.git", "repo/sub", "repo/vendor/.git", "other", "home/worktrees/w/.git"]);
        let reach =
            |dir: &str| reaches(&here.paths, &here.root.join("repo"), &here.root.join(dir)).expect("looks");
        let dirs = ["repo/sub", "home/worktrees/w", "repo/vendor", "other"];
        assert_eq!(dirs.map(reach), [true, false, false, false]);
        remember(&here.paths, &here.root.join("other")).expect("remembers");
        assert!(reach("other"));
    }
}
