//! Worktrees that stay because something in them would be lost: told at the end of a run, and found again
//! later by whoever looks.

use super::{Nursery, Worktree, WorktreeError};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A worktree that is there, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// It.
    pub tree: Worktree,
    /// What is new in it: `1 commit and 2 uncommitted changes`; `None` for nothing, which an agent that was
    /// killed leaves.
    pub what: Option<String>,
}

impl Kept {
    /// The name of its agent, as in its directory and its branch.
    pub fn agent(&self) -> String {
        self.tree.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The command that takes it away. Git refuses as long as there are uncommitted changes, or commits
    /// that are on no other branch.
    pub fn removal(&self) -> String {
        let (origin, path) = (quoted(&self.tree.origin), quoted(&self.tree.path));
        let branch = &self.tree.branch;
        format!("git -C {origin} worktree remove {path} && git -C {origin} branch -d {branch}")
    }
}

/// A path as a word for a shell.
fn quoted(path: &std::path::Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Those that this process has kept so far.
#[derive(Debug, Clone, Default)]
pub struct KeptList(Arc<Mutex<Vec<Kept>>>);

impl KeptList {
    fn list(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what became of one.
    pub(super) fn note(&self, tree: &Worktree, kept: Option<&str>) {
        let mut list = self.list();
        list.retain(|other| other.tree.path != tree.path);
        list.extend(kept.map(|what| Kept { tree: tree.clone(), what: Some(what.to_owned()) }));
    }

    /// All of them, in the order in which they were left.
    pub fn all(&self) -> Vec<Kept> {
        self.list().clone()
    }
}

impl Nursery {
    /// The worktrees of ours that are there, whoever made them, by their directories. Those that cannot be
    /// looked at come as errors.
    pub async fn there(&self) -> Vec<Result<Kept, WorktreeError>> {
        let mut all = Vec::new();
        let dirs = match below(&self.root) {
            Ok(dirs) => dirs,
            Err(error) => return vec![Err(error)],
        };
        for dir in dirs {
            let trees = below(&dir).unwrap_or_else(|error| {
                all.push(Err(error));
                Vec::new()
            });
            for path in trees {
                let Ok(path) = fs::canonicalize(path) else { continue };
                // A directory that is no worktree of ours is none of our business.
                let Some(tree) = self.find(&path, &path).await else { continue };
                all.push(self.what_is_new(&tree).await.map(|what| Kept { tree, what }));
            }
        }
        all
    }
}

/// The directories in a directory, sorted; none in one that is not there.
fn below(dir: &std::path::Path) -> Result<Vec<PathBuf>, WorktreeError> {
    let failed = |source| WorktreeError::Io { doing: "list", path: dir.to_owned(), source };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut dirs: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    dirs.sort();
    Ok(dirs)
}
