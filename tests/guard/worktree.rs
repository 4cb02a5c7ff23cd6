//! Worktrees of agents, with real git: made, verified, and removed only when nothing would be lost.

use crate::support::binary;
use festoon::agent::worktree::{Carry, Ending, KeptList, Nursery, Worktree, WorktreeLease};
use festoon::wire::ids::AgentId;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;
use tokio_util::task::TaskTracker;

struct Repository {
    _temp: TempDir,
    top: PathBuf,
    nursery: Nursery,
}

fn git(dir: &Path, args: &[&str]) -> String {
    let done = Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git runs");
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim_end().to_owned()
}

impl Repository {
    /// With one commit that holds `a.txt` and `deep/b.txt`.
    fn new(name: &str) -> Self {
        let temp = tempfile::tempdir().expect("temp");
        let real = fs::canonicalize(temp.path()).expect("real");
        let top = real.join(name);
        fs::create_dir_all(top.join("deep")).expect("dirs");
        fs::write(top.join("a.txt"), "a\n").expect("writes");
        fs::write(top.join("deep/b.txt"), "b\n").expect("writes");
        git(&top, &["init", "-q", "-b", "main"]);
        git(&top, &["add", "."]);
        git(&top, &["commit", "-q", "-m", "first"]);
        let mut environment: BTreeMap<String, String> = std::env::vars().collect();
        environment.insert("GIT_CONFIG_GLOBAL".into(), "/dev/null".into());
        let nursery = Nursery {
            root: real.join("worktrees"),
            environment: Arc::new(environment),
            guard: binary(),
            carry: Carry::Refuse,
            cleanup: TaskTracker::new(),
            kept: KeptList::default(),
        };
        Self { _temp: temp, top, nursery }
    }

    async fn create(&self, from: &Path) -> Result<(Worktree, Vec<String>), String> {
        let id = AgentId::new("anna@review");
        self.nursery.create(from, &id).await.map_err(|e| e.to_string())
    }

    async fn made(&self) -> Worktree {
        self.create(&self.top).await.expect("makes").0
    }

    fn branches(&self) -> String {
        git(&self.top, &["branch", "--format=%(refname:short)"])
    }

    /// Nothing of a worktree is there any more.
    fn is_clean(&self, tree: &Worktree) -> bool {
        !tree.path.exists()
            && !self.branches().contains("festoon/")
            && git(&self.top, &["worktree", "list", "--porcelain"]).matches("worktree ").count() == 1
    }
}

#[tokio::test]
async fn an_agent_stands_where_its_parent_stands_and_leaves_nothing_behind() {
    let repository = Repository::new("my proj \"é\" $x");
    let (tree, notices) = repository.create(&repository.top.join("deep")).await.expect("makes");
    assert_eq!(notices, Vec::<String>::new());
    assert_eq!(tree.branch, "festoon/anna-review");
    assert_eq!(tree.cwd, tree.path.join("deep"));
    assert_eq!(git(&tree.cwd, &["rev-parse", "--abbrev-ref", "HEAD"]), "festoon/anna-review");
    assert_eq!(git(&tree.cwd, &["rev-parse", "HEAD"]), tree.base);
    assert_eq!(fs::read_to_string(tree.cwd.join("b.txt")).expect("reads"), "b\n");
    assert_eq!(repository.nursery.find(&tree.path, &tree.cwd).await, Some(tree.clone()));
    assert_eq!(repository.nursery.finish(&tree).await, Ending::Removed);
    assert!(repository.is_clean(&tree));
    assert_eq!(repository.nursery.find(&tree.path, &tree.cwd).await, None);
    assert_eq!(git(&repository.top, &["status", "--porcelain"]), "");
}

#[tokio::test]
async fn what_is_new_is_kept_and_told() {
    let repository = Repository::new("p");
    let (nursery, top) = (&repository.nursery, &repository.top);
    let kept = |what: &str| Ending::Kept(what.to_owned());

    let tree = repository.made().await;
    fs::write(tree.path.join("new.txt"), "x").expect("writes");
    assert_eq!(nursery.finish(&tree).await, kept("1 uncommitted change"));
    fs::write(tree.path.join("a.txt"), "changed").expect("writes");
    assert_eq!(nursery.finish(&tree).await, kept("2 uncommitted changes"));
    git(&tree.path, &["add", "."]);
    git(&tree.path, &["commit", "-q", "-m", "work"]);
    assert_eq!(nursery.finish(&tree).await, kept("1 commit"));
    fs::write(tree.path.join("more.txt"), "x").expect("writes");
    assert_eq!(nursery.finish(&tree).await, kept("1 commit and 1 uncommitted change"));
    fs::remove_file(tree.path.join("more.txt")).expect("removes");

    // Work on another branch, or on none, is work all the same; and so is a commit that was left behind.
    git(&tree.path, &["checkout", "-q", "--detach", &tree.base]);
    assert_eq!(nursery.finish(&tree).await, kept("another commit than it began with"));
    git(&tree.path, &["checkout", "-q", &tree.branch]);
    git(&tree.path, &["reset", "-q", "--hard", &tree.base]);
    assert_eq!(nursery.finish(&tree).await, Ending::Removed);
    assert!(repository.is_clean(&tree));
    assert_eq!(git(top, &["status", "--porcelain"]), "");
}

#[tokio::test]
async fn what_others_have_committed_and_was_only_looked_at_is_not_new() {
    let repository = Repository::new("p");
    let (nursery, top) = (&repository.nursery, &repository.top);
    git(top, &["checkout", "-q", "-b", "other"]);
    fs::write(top.join("a.txt"), "theirs\n").expect("writes");
    git(top, &["commit", "-q", "-am", "theirs"]);
    git(top, &["checkout", "-q", "main"]);

    let tree = repository.made().await;
    git(&tree.path, &["checkout", "-q", "--detach", "other"]);
    assert_eq!(nursery.finish(&tree).await, Ending::Removed);
    assert!(repository.is_clean(&tree));

    // Nobody else holds it any more.
    let tree = repository.made().await;
    git(&tree.path, &["checkout", "-q", "--detach", "other"]);
    git(top, &["branch", "-q", "-D", "other"]);
    assert_eq!(nursery.finish(&tree).await, Ending::Kept("1 commit".to_owned()));
    git(&tree.path, &["branch", "-q", "other"]);
    assert_eq!(nursery.finish(&tree).await, Ending::Removed);

    // The same commit, and one on top of it that a branch of the agent's holds: that one is its work.
    let tree = repository.made().await;
    git(&tree.path, &["checkout", "-q", "-b", "mine", "other"]);
    fs::write(tree.path.join("a.txt"), "mine\n").expect("writes");
    git(&tree.path, &["commit", "-q", "-am", "mine"]);
    assert_eq!(nursery.finish(&tree).await, Ending::Kept("2 commits".to_owned()));
}

#[tokio::test]
async fn a_removal_follows_no_links() {
    let repository = Repository::new("p");
    let tree = repository.made().await;
    let precious = repository.top.parent().expect("a parent").join("precious");
    fs::create_dir(&precious).expect("dir");
    fs::write(precious.join("file"), "x").expect("writes");
    // Ignored, so that git sees no change: what it leads to must survive all the same.
    fs::write(repository.top.join(".git/info/exclude"), "link\n").expect("writes");
    symlink(&precious, tree.path.join("link")).expect("links");
    assert_eq!(repository.nursery.finish(&tree).await, Ending::Removed);
    assert!(precious.join("file").exists());

    let tree = repository.made().await;
    fs::rename(&tree.path, precious.join("moved")).expect("moves");
    symlink(precious.join("moved"), &tree.path).expect("links");
    let Ending::Kept(why) = repository.nursery.finish(&tree).await else { panic!("followed a link") };
    assert!(why.contains("its directory is not there or a link"), "{why}");
    assert!(precious.join("moved/a.txt").exists());
}

#[tokio::test]
async fn where_there_is_nothing_to_begin_with_it_is_refused_with_the_reason() {
    let repository = Repository::new("p");
    let outside = repository.top.parent().expect("a parent").join("plain");
    fs::create_dir(&outside).expect("dir");
    let error = repository.create(&outside).await.expect_err("no repository");
    assert!(error.contains("needs a git repository") && error.contains("plain"), "{error}");
    git(&outside, &["init", "-q"]);
    let error = repository.create(&outside).await.expect_err("no commit");
    assert!(error.contains("needs a commit to begin with"), "{error}");

    let (tree, second) = (repository.made().await, repository.made().await);
    assert_eq!([&*tree.branch, &*second.branch], ["festoon/anna-review", "festoon/anna-review-2"]);
    assert_eq!(second.path, tree.path.with_file_name("anna-review-2"));
    for tree in [&tree, &second] {
        assert_eq!(repository.nursery.finish(tree).await, Ending::Removed);
        assert!(!tree.path.exists());
    }
}

#[tokio::test]
async fn a_dirty_parent_is_refused_unless_its_changes_are_carried() {
    let repository = Repository::new("p");
    fs::write(repository.top.join("untracked.txt"), "u").expect("writes");
    let (tree, notices) = repository.create(&repository.top).await.expect("untracked files are no obstacle");
    assert_eq!(notices, ["the worktree does not have the untracked files untracked.txt"]);
    assert_eq!(repository.nursery.finish(&tree).await, Ending::Removed);

    fs::write(repository.top.join("a.txt"), "changed\n").expect("writes");
    fs::write(repository.top.join("deep/b.txt"), "staged\n").expect("writes");
    git(&repository.top, &["add", "deep/b.txt"]);
    let error = repository.create(&repository.top).await.expect_err("dirty");
    assert!(error.contains("(a.txt, deep/b.txt)") && error.contains("worktree.carry"), "{error}");
    let before = git(&repository.top, &["status", "--porcelain"]);
    let id = AgentId::new("bo@review");
    let carrying = Nursery { carry: Carry::Along, ..repository.nursery.clone() };
    let (tree, _) = carrying.create(&repository.top, &id).await.expect("carries them along");
    assert_eq!(fs::read_to_string(tree.path.join("a.txt")).expect("reads"), "changed\n");
    assert_eq!(fs::read_to_string(tree.path.join("deep/b.txt")).expect("reads"), "staged\n");
    assert_eq!(git(&repository.top, &["status", "--porcelain"]), before);
    assert_eq!(git(&repository.top, &["stash", "list"]), "");
    assert_eq!(repository.nursery.finish(&tree).await, Ending::Kept("2 uncommitted changes".to_owned()));
}

#[tokio::test]
async fn a_leader_in_a_worktree_or_on_a_detached_head_has_children_with_worktrees() {
    let repository = Repository::new("p");
    git(&repository.top, &["checkout", "-q", "--detach"]);
    let tree = repository.made().await;
    let id = AgentId::new("bo@review");
    let (nested, _) = repository.nursery.create(&tree.path, &id).await.expect("from a worktree");
    assert_eq!(nested.origin, tree.path);
    assert_eq!(repository.nursery.finish(&nested).await, Ending::Removed);
    assert_eq!(repository.nursery.finish(&tree).await, Ending::Removed);
    assert!(repository.is_clean(&tree));
}

#[tokio::test]
async fn a_worktree_whose_agent_never_came_to_be_is_taken_away() {
    let repository = Repository::new("p");
    let (unused, busy, ended) = (repository.made().await, repository.made().await, repository.made().await);
    fs::write(busy.path.join("new.txt"), "x").expect("writes");
    let lease = |tree: &Worktree| WorktreeLease::new(&repository.nursery, tree.clone());
    let shared = lease(&unused);
    drop((shared.clone(), lease(&busy)));
    assert!(unused.path.exists(), "a share in it is left");
    drop(shared);
    assert_eq!(lease(&ended).end().await, Ending::Removed);
    repository.nursery.settle().await;
    assert_eq!([&unused, &busy, &ended].map(|tree| tree.path.exists()), [false, true, false]);
}
