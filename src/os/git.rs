//! The little we read from a git directory without running `git`.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest `HEAD` or `.git` file that is believed.
const MAX: u64 = 64 * 1024;

/// The branch checked out in the working tree that holds `dir`; `HEAD` when none is (detached);
/// `None` outside git. Reads at most two small files.
pub fn branch(dir: &Path) -> Option<String> {
    let head = small_file(&git_dir(dir)?.join("HEAD"))?;
    let head = head.trim_end();
    match head.strip_prefix("ref: ") {
        Some(reference) => Some(reference.strip_prefix("refs/heads/").unwrap_or(reference).to_owned()),
        None => Some("HEAD".to_owned()),
    }
}

/// The git directory of the working tree that holds `dir`.
fn git_dir(dir: &Path) -> Option<PathBuf> {
    dir.ancestors().find_map(|dir| {
        let dot = dir.join(".git");
        if dot.is_dir() {
            return Some(dot);
        }
        // In linked worktrees and submodules `.git` is a file that names the directory.
        let text = small_file(&dot)?;
        Some(dir.join(text.strip_prefix("gitdir: ")?.trim_end()))
    })
}

/// Whether what the repository of `dir` has configured for itself may run programs when git looks for changes:
/// filters of contents, or a configuration that goes on elsewhere. What cannot be read may.
pub fn may_filter(dir: &Path) -> bool {
    let Some(git_dir) = git_dir(dir) else { return false };
    // A linked worktree shares the configuration of its repository.
    let common = small_file(&git_dir.join("commondir")).map(|text| git_dir.join(text.trim_end()));
    let files = [common.unwrap_or_else(|| git_dir.clone()).join("config"), git_dir.join("config.worktree")];
    files.iter().filter(|file| file.symlink_metadata().is_ok()).any(|file| {
        let Some(text) = small_file(file) else { return true };
        let sections = text.lines().map(|line| line.trim_start().to_ascii_lowercase());
        text.len() as u64 >= MAX
            || sections.into_iter().any(|line| line.starts_with("[filter") || line.starts_with("[include"))
    })
}

fn small_file(path: &Path) -> Option<String> {
    // Looked at first: opening a FIFO would wait for its writer.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    fs::File::open(path).ok()?.take(MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn git(dir: &Path, args: &[&str]) {
        let done = Command::new("git")
            .current_dir(dir)
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
            .args(args)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .expect("git runs");
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    #[test]
    fn a_repository_that_runs_programs_over_its_contents_is_known() {
        let temp = tempfile::tempdir().expect("temp");
        let tree = temp.path().join("tree");
        fs::create_dir_all(&tree).expect("dirs");
        assert!(!may_filter(&tree), "no repository");
        git(&tree, &["init", "-q"]);
        git(&tree, &["commit", "-q", "--allow-empty", "-m", "x"]);
        git(&tree, &["worktree", "add", "-q", "../linked"]);
        let linked = temp.path().join("linked");
        assert!(!may_filter(&tree) && !may_filter(&linked));
        git(&tree, &["config", "filter.f.clean", "touch ran"]);
        assert!(may_filter(&tree) && may_filter(&linked));
        git(&tree, &["config", "--remove-section", "filter.f"]);
        git(&tree, &["config", "include.path", "/else"]);
        assert!(may_filter(&tree));
    }

    #[test]
    fn branches_of_trees_worktrees_and_detached_heads() {
        let temp = tempfile::tempdir().expect("temp");
        let tree = temp.path().join("tree");
        fs::create_dir_all(tree.join("deep/er")).expect("dirs");
        assert_eq!(branch(&tree), None);
        git(&tree, &["init", "-q", "-b", "feature/one"]);
        assert_eq!(branch(&tree.join("deep/er")), Some("feature/one".to_owned()));
        git(&tree, &["commit", "-q", "--allow-empty", "-m", "x"]);
        git(&tree, &["worktree", "add", "-q", "-b", "two", "../linked"]);
        assert_eq!(branch(&temp.path().join("linked")), Some("two".to_owned()));
        git(&tree, &["checkout", "-q", "--detach"]);
        assert_eq!(branch(&tree), Some("HEAD".to_owned()));
    }
}
