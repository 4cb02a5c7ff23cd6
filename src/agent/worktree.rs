//! A working tree of its own for an agent that asks for isolation (spec §16).
//!
//! Owns making it, saying where the agent stands, and taking it away again. Promises that a worktree is
//! removed only when nothing in it would be lost: no change, no commit, and it is still the one that was
//! made. What is kept stays with its branch. All of git's work is done by the `git` program.

pub mod hooks;
mod kept;
mod lease;

pub use kept::{Kept, KeptList};
pub use lease::WorktreeLease;

use crate::os::capture::{Captured, capture};
use crate::os::command::{CommandSpec, Exit};
use crate::os::error::OsError;
use crate::wire::ids::AgentId;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::task::TaskTracker;

/// How long a question to git may take.
const ASK_DEADLINE: Duration = Duration::from_secs(30);
/// How long making or removing a working tree may take: 5,000 files take 0.3 s, a large repository on a
/// slow disk minutes.
const TREE_DEADLINE: Duration = Duration::from_secs(300);
/// What is read of an answer of git, in bytes.
const ANSWER_MOST: usize = 1 << 20;
/// Files that are named in a refusal or notice.
const NAMED_FILES: usize = 5;
/// In the git directory of a worktree of ours: the commit it began with.
const BASE_FILE: &str = "festoon-base";

/// Why there is no worktree. Each is a sentence for a model and a person, with what to do.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// The directory is in no git repository.
    #[error(
        "isolation \"worktree\" needs a git repository, and {} is in none; leave isolation out, or run `git init` \
         and commit",
        .0.display()
    )]
    NoRepository(PathBuf),
    /// There is nothing to begin with.
    #[error("isolation \"worktree\" needs a commit to begin with, and {} has none; commit first", .0.display())]
    NoCommit(PathBuf),
    /// What would be missing in the worktree.
    #[error(
        "{} has uncommitted changes ({files}) that a worktree would not have; commit or stash them first, or set \
         `worktree.carry` to true so that they are carried along",
        top.display()
    )]
    Dirty {
        /// The working tree.
        top: PathBuf,
        /// The first changed files.
        files: String,
    },
    /// Git said no.
    #[error("git {doing} failed in {}: {why}", dir.display())]
    Git {
        /// Its subcommand.
        doing: String,
        /// Where.
        dir: PathBuf,
        /// What it said.
        why: String,
    },
    /// The agent would not stand where it should.
    #[error("the worktree {} was made, but {what}; it was removed again", path.display())]
    Unverified {
        /// The worktree.
        path: PathBuf,
        /// What is not as it should be.
        what: String,
    },
    /// A directory could not be made or read.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Whether uncommitted changes of the parent come along (setting `worktree.carry`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carry {
    /// A parent with any is refused.
    Refuse,
    /// They are applied in the worktree, uncommitted there too.
    Along,
}

/// Where worktrees are made, and with which environment git runs.
#[derive(Debug, Clone)]
pub struct Nursery {
    /// Above all worktrees.
    pub root: PathBuf,
    /// The environment of `git`.
    pub environment: Arc<BTreeMap<String, String>>,
    /// Our binary, for the guard of commands.
    pub guard: PathBuf,
    /// What becomes of a parent's uncommitted changes.
    pub carry: Carry,
    /// Worktrees that are being taken away with nobody waiting.
    pub cleanup: TaskTracker,
    /// Those that were not taken away.
    pub kept: KeptList,
}

/// A worktree of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Its top.
    pub path: PathBuf,
    /// Its branch.
    pub branch: String,
    /// The commit it began with.
    pub base: String,
    /// Where the agent stands: the same place in it as its parent's in the parent's tree.
    pub cwd: PathBuf,
    /// The tree it was made from.
    pub origin: PathBuf,
}

/// What became of a worktree whose agent has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It held nothing new and is gone, with its branch.
    Removed,
    /// It stays, for this reason.
    Kept(String),
}

impl Worktree {
    /// What its agent is told: where it stands, and that nobody else works there.
    pub fn notice(&self) -> String {
        format!(
            "You work in a git worktree of your own: {}, on the branch {}. Your changes stay there; nobody else sees \
             them until the branch is merged, so commit what is to be kept. Paths that name {} mean the same place \
             below your worktree.",
            self.path.display(),
            self.branch,
            self.origin.display()
        )
    }
}

impl Nursery {
    /// Makes a worktree for `agent` from the tree that holds `parent`. The second value is what the agent
    /// and the person should know: files that did not come along.
    pub async fn create(
        &self,
        parent: &Path,
        agent: &AgentId,
    ) -> Result<(Worktree, Vec<String>), WorktreeError> {
        let top = self
            .ask(parent, &["rev-parse", "--show-toplevel"])
            .await
            .map_err(|_| WorktreeError::NoRepository(parent.to_owned()))?;
        let top = PathBuf::from(OsString::from_vec(top));
        let base = self
            .text(&top, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
            .await
            .map_err(|_| WorktreeError::NoCommit(top.clone()))?;
        let mut notices = Vec::new();
        let changed = self.ask(&top, &["diff", "--name-only", "-z", "HEAD"]).await?;
        if !changed.is_empty() && self.carry == Carry::Refuse {
            return Err(WorktreeError::Dirty { top, files: some_of(&changed) });
        }
        let untracked = self.ask(&top, &["ls-files", "--others", "--exclude-standard", "-z"]).await?;
        if !untracked.is_empty() {
            notices.push(format!("the worktree does not have the untracked files {}", some_of(&untracked)));
        }
        let dir = self.root.join(name_of(&top));
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir)
            .map_err(|source| WorktreeError::Io { doing: "make", path: dir.clone(), source })?;
        let dir = fs::canonicalize(&dir).map_err(|source| WorktreeError::Io {
            doing: "find",
            path: dir.clone(),
            source,
        })?;
        let (branch, path) = self.free_name(&top, &dir, agent).await?;
        let add = [
            "worktree".into(),
            "add".into(),
            "--quiet".into(),
            "-b".into(),
            OsString::from(&branch),
            path.clone().into_os_string(),
            OsString::from(&base),
        ];
        self.git(&top, &add, TREE_DEADLINE).await?;
        let inside = parent.strip_prefix(&top).unwrap_or(Path::new(""));
        let cwd = if inside.as_os_str().is_empty() { path.clone() } else { path.join(inside) };
        let mut tree = Worktree { path, branch, base, cwd, origin: top };
        if !tree.cwd.is_dir() {
            notices.push(format!("{} is not in the commit; the agent stands at the top", inside.display()));
            tree.cwd.clone_from(&tree.path);
        }
        let ready = async {
            if !changed.is_empty() {
                self.bring(&tree).await?;
            }
            self.mark(&tree).await?;
            self.verify(&tree).await
        };
        if let Err(error) = ready.await {
            self.undo(&tree).await;
            return Err(error);
        }
        Ok((tree, notices))
    }

    /// A branch and a directory that nobody has: named after the agent, with a number when an earlier
    /// agent of that id has left its own.
    async fn free_name(
        &self,
        top: &Path,
        dir: &Path,
        agent: &AgentId,
    ) -> Result<(String, PathBuf), WorktreeError> {
        let heads = self.text(top, &["for-each-ref", "--format=%(refname)", "refs/heads/festoon/"]).await?;
        let mut number = 1;
        loop {
            let name = match number {
                1 => plain(agent),
                number => format!("{}-{number}", plain(agent)),
            };
            let (branch, path) = (format!("festoon/{name}"), dir.join(&name));
            let taken = heads.lines().any(|head| head.strip_prefix("refs/heads/") == Some(branch.as_str()));
            if !taken && path.symlink_metadata().is_err() {
                return Ok((branch, path));
            }
            number += 1;
        }
    }

    /// The worktree that was made earlier at `path`; `None` when there is none of ours any more.
    pub async fn find(&self, path: &Path, cwd: &Path) -> Option<Worktree> {
        let mark = fs::read(self.base_file(path).await.ok()?).ok()?;
        let mut parts = mark.splitn(3, |b| *b == b'\n');
        let mut text = || String::from_utf8(parts.next()?.to_vec()).ok();
        let (base, branch) = (text()?, text()?);
        let tree = Worktree {
            path: path.to_owned(),
            branch,
            base,
            cwd: cwd.to_owned(),
            origin: PathBuf::from(OsString::from_vec(parts.next()?.to_vec())),
        };
        self.stands(&tree).await.ok().map(|()| tree)
    }

    /// Takes the worktree away if nothing in it is new, else says why it stays.
    pub async fn finish(&self, tree: &Worktree) -> Ending {
        let ending = match self.what_is_new(tree).await {
            Ok(None) => match self.remove(tree).await {
                Ok(()) => Ending::Removed,
                Err(error) => Ending::Kept(format!("it could not be removed: {error}")),
            },
            Ok(Some(what)) => Ending::Kept(what),
            Err(error) => Ending::Kept(format!("it could not be looked at: {error}")),
        };
        self.kept.note(tree, if let Ending::Kept(why) = &ending { Some(why) } else { None });
        ending
    }

    /// Waits for what is being taken away, as long as a tree may take.
    pub async fn settle(&self) {
        self.cleanup.close();
        if tokio::time::timeout(TREE_DEADLINE, self.cleanup.wait()).await.is_err() {
            tracing::warn!("worktrees that nobody uses could not be taken away in time");
        }
    }

    /// What would be lost with it; `None` for nothing.
    async fn what_is_new(&self, tree: &Worktree) -> Result<Option<String>, WorktreeError> {
        self.stands(tree).await?;
        let branch = format!("refs/heads/{}", tree.branch);
        let on_branch = self.text(&tree.path, &["rev-parse", &branch]).await;
        let has_moved = on_branch.is_ok_and(|commit| commit != tree.base);
        // Commits of others that were only checked out here are not lost with it.
        let only_looked = !has_moved && self.only_looked(tree).await?;
        let held: &[&str] = if only_looked { &["--branches", "--remotes", "--tags"] } else { &[] };
        let count = [&["rev-list", "--count", "HEAD", "--not", &tree.base], held].concat();
        let count = self.text(&tree.path, &count).await?;
        let status = self
            .ask(
                &tree.path,
                &["status", "--porcelain", "-z", "--untracked-files=all", "--ignore-submodules=none"],
            )
            .await?;
        let mut what = Vec::new();
        match count.as_str() {
            "0" if has_moved => what.push("another commit than it began with".to_owned()),
            "0" => {}
            "1" => what.push("1 commit".to_owned()),
            count => what.push(format!("{count} commits")),
        }
        if !status.is_empty() {
            let entries = status.split(|b| *b == 0).filter(|entry| !entry.is_empty()).count();
            what.push(format!("{entries} uncommitted {}", if entries == 1 { "change" } else { "changes" }));
        }
        Ok((!what.is_empty()).then(|| what.join(" and ")))
    }

    /// Whether its HEAD was moved by nothing but checkouts and resets, as far as git has noted it.
    async fn only_looked(&self, tree: &Worktree) -> Result<bool, WorktreeError> {
        let moves = self.text(&tree.path, &["reflog", "show", "--format=%gs", "HEAD"]).await?;
        let looks =
            |line: &str| line.is_empty() || line.starts_with("checkout: ") || line.starts_with("reset: ");
        Ok(!moves.trim().is_empty() && moves.lines().all(looks))
    }

    async fn remove(&self, tree: &Worktree) -> Result<(), WorktreeError> {
        let remove: [OsString; 3] = ["worktree".into(), "remove".into(), tree.path.clone().into_os_string()];
        self.git(&tree.origin, &remove, TREE_DEADLINE).await?;
        // Only while it still names the commit it began with.
        let reference = format!("refs/heads/{}", tree.branch);
        self.ask(&tree.origin, &["update-ref", "-d", &reference, &tree.base]).await.map(drop)
    }

    /// Takes back what a failed creation left; what cannot be removed stays and is logged.
    async fn undo(&self, tree: &Worktree) {
        let path = tree.path.clone().into_os_string();
        // Nobody has worked in it yet: what git finds changed is what it failed to bring along.
        let remove: [OsString; 4] = ["worktree".into(), "remove".into(), "--force".into(), path];
        let removed = self.git(&tree.origin, &remove, TREE_DEADLINE).await;
        let reference = format!("refs/heads/{}", tree.branch);
        let branch = self.ask(&tree.origin, &["update-ref", "-d", &reference, &tree.base]).await;
        for error in [removed.err(), branch.err()].into_iter().flatten() {
            tracing::warn!(%error, "a worktree that was not used could not be removed");
        }
    }

    /// Brings the parent's uncommitted changes along.
    async fn bring(&self, tree: &Worktree) -> Result<(), WorktreeError> {
        // A commit that no branch holds; the parent's tree and stash stay as they are.
        let identity = ["-c", "user.name=festoon", "-c", "user.email=festoon@localhost"];
        let create: Vec<&str> = identity.iter().chain(&["stash", "create"]).copied().collect();
        let stash = self.text(&tree.origin, &create).await?;
        if stash.is_empty() {
            return Ok(());
        }
        let apply: Vec<&str> =
            identity.iter().chain(&["stash", "apply", "--quiet", &stash]).copied().collect();
        self.ask(&tree.path, &apply).await.map(drop)
    }

    /// Notes in the worktree's own git directory what it began with.
    async fn mark(&self, tree: &Worktree) -> Result<(), WorktreeError> {
        let file = self.base_file(&tree.path).await?;
        let mut mark = format!("{}\n{}\n", tree.base, tree.branch).into_bytes();
        mark.extend_from_slice(tree.origin.as_os_str().as_encoded_bytes());
        fs::write(&file, mark).map_err(|source| WorktreeError::Io { doing: "write", path: file, source })
    }

    async fn base_file(&self, path: &Path) -> Result<PathBuf, WorktreeError> {
        let dir = self.ask(path, &["rev-parse", "--absolute-git-dir"]).await?;
        Ok(PathBuf::from(OsString::from_vec(dir)).join(BASE_FILE))
    }

    async fn verify(&self, tree: &Worktree) -> Result<(), WorktreeError> {
        let wrong = |what: String| WorktreeError::Unverified { path: tree.path.clone(), what };
        self.stands(tree).await?;
        let head = self.text(&tree.path, &["rev-parse", "HEAD"]).await?;
        if head != tree.base {
            return Err(wrong(format!("it stands at {head} and not at {}", tree.base)));
        }
        let inside = fs::canonicalize(&tree.cwd).is_ok_and(|cwd| cwd.starts_with(&tree.path));
        if !inside {
            return Err(wrong(format!("{} leads out of it", tree.cwd.display())));
        }
        Ok(())
    }

    /// Whether the directory is a real one and the top of a working tree.
    async fn stands(&self, tree: &Worktree) -> Result<(), WorktreeError> {
        let wrong = |what: &str| WorktreeError::Unverified { path: tree.path.clone(), what: what.to_owned() };
        let is_real = tree.path.symlink_metadata().is_ok_and(|m| m.is_dir())
            && fs::canonicalize(&tree.path).is_ok_and(|real| real == tree.path);
        if !is_real {
            return Err(wrong("its directory is not there or a link"));
        }
        let top = self.ask(&tree.path, &["rev-parse", "--show-toplevel"]).await?;
        if OsString::from_vec(top) != tree.path {
            return Err(wrong("it is not the top of a working tree"));
        }
        Ok(())
    }

    async fn text(&self, dir: &Path, args: &[&str]) -> Result<String, WorktreeError> {
        Ok(String::from_utf8_lossy(&self.ask(dir, args).await?).into_owned())
    }

    /// What git answers, without the last line break.
    async fn ask(&self, dir: &Path, args: &[&str]) -> Result<Vec<u8>, WorktreeError> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let mut answer = self.git(dir, &args, ASK_DEADLINE).await?.stdout;
        if answer.last() == Some(&b'\n') {
            answer.pop();
        }
        Ok(answer)
    }

    async fn git(
        &self,
        dir: &Path,
        args: &[OsString],
        deadline: Duration,
    ) -> Result<Captured, WorktreeError> {
        let doing = args.iter().find(|a| !a.as_encoded_bytes().starts_with(b"-"));
        let failed = |why: String| WorktreeError::Git {
            doing: doing.map(|d| d.to_string_lossy().into_owned()).unwrap_or_default(),
            dir: dir.to_owned(),
            why,
        };
        let mut env = (*self.environment).clone();
        // The repository is the one of the directory, and nobody is there to be asked.
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"] {
            env.remove(name);
        }
        env.insert("GIT_TERMINAL_PROMPT".to_owned(), "0".to_owned());
        env.insert("LC_ALL".to_owned(), "C".to_owned());
        let argv = [OsString::from("git")].into_iter().chain(args.iter().cloned());
        let spec = CommandSpec { guard: self.guard.clone(), ..CommandSpec::new(argv, dir, env) };
        let done = capture(spec, deadline, ANSWER_MOST).await.map_err(|e: OsError| failed(e.to_string()))?;
        match done.exit {
            Exit::Code(0) => Ok(done),
            exit => {
                let said = String::from_utf8_lossy(&done.stderr);
                let said = said.trim();
                Err(failed(if said.is_empty() { exit.to_string() } else { said.replace('\n', "; ") }))
            }
        }
    }
}

/// An agent's whole id as part of a branch and directory name: `@` means something to git.
fn plain(agent: &AgentId) -> String {
    agent.as_str().chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect()
}

/// A directory name for a tree that no other tree has.
fn name_of(top: &Path) -> String {
    use sha2::{Digest, Sha256};
    let hash = Sha256::digest(top.as_os_str().as_encoded_bytes());
    let name: String = top
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        .take(40)
        .collect();
    format!("{name}-{:02x}{:02x}{:02x}{:02x}", hash[0], hash[1], hash[2], hash[3])
}

/// The first of a list of names that are ended by NUL, and how many more there are.
fn some_of(names: &[u8]) -> String {
    let names: Vec<_> = names.split(|b| *b == 0).filter(|name| !name.is_empty()).collect();
    let mut text: Vec<String> =
        names.iter().take(NAMED_FILES).map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    if names.len() > NAMED_FILES {
        text.push(format!("and {} more", names.len() - NAMED_FILES));
    }
    text.join(", ")
}
