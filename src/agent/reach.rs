//! What a shell command touches, with a look at the disk: wildcards expanded, links resolved, trees walked.
//!
//! `policy` says which paths the words may mean and judges what is found here. Done only where rules deny or
//! ask about files. Looks at a bounded number of entries; past that there is a doubt, which asks.

use super::core::AgentCore;
use crate::os::file::{normalize, resolve};
use crate::policy::reach::{self, How, Mention, Mentions, Touched, Touches};
use crate::policy::trees::Tree;
use crate::wire::access::{Access, Target};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Directories and their entries that one command may cost.
const MAX_ENTRIES: usize = 100_000;
/// How long a look may take; a disk that is slower is one that hangs.
const LOOK_DEADLINE: Duration = Duration::from_secs(5);
/// Bytes of the longest path that is looked at; the kernel takes none that is longer.
const LONGEST_PATH: usize = 4096;

/// The files that a call touches, where some rule denies or asks about files; of a file tool, its paths as they
/// are written, since a rule may name a link. `access` is not resolved yet.
pub async fn touches(core: &AgentCore, access: &Access, cancel: &CancellationToken) -> Option<Touches> {
    let permissions = &core.permissions;
    if !reach::matters(&permissions.rules()) {
        return None;
    }
    let written = |paths: &[PathBuf], how: How| {
        let one = |path: &PathBuf| Touched { path: normalize(path), how, sure: true };
        Some(Touches { all: paths.iter().map(one).collect(), doubt: None })
    };
    let command = match &access.target {
        Target::Command(command) => command,
        Target::Read(paths) => return written(paths, How::Read),
        Target::Edit(paths) => return written(paths, How::Write),
        _ => return None,
    };
    let mentions = reach::mentions(command, &permissions.cwd, permissions.home.as_deref());
    Some(seen(mentions, LOOK_DEADLINE, cancel).await)
}

/// A look away from the threads that others wait for. Without an end in time the words as written are judged,
/// with a doubt.
async fn seen(mentions: Mentions, deadline: Duration, cancel: &CancellationToken) -> Touches {
    let mut written = Touches::as_written(mentions.clone());
    let stop = cancel.child_token();
    let _ends_with_us = stop.clone().drop_guard();
    let look = tokio::task::spawn_blocking(move || look(&mentions, stop));
    let why = tokio::select! {
        biased;
        () = cancel.cancelled() => "the look at its files was cancelled",
        () = tokio::time::sleep(deadline) => "its files took too long to look at",
        found = look => match found {
            Ok(found) => return found,
            Err(_) => "the look at its files failed",
        },
    };
    written.doubt.get_or_insert_with(|| why.to_owned());
    written
}

fn look(mentions: &Mentions, stop: CancellationToken) -> Touches {
    let found = Touches { all: Vec::new(), doubt: mentions.doubt.clone() };
    let mut eye = Eye { left: MAX_ENTRIES, stop, found };
    mentions.all.iter().for_each(|mention| eye.mention(mention));
    if eye.left == 0 {
        eye.found.doubt.get_or_insert_with(|| "there are too many files to look at".to_owned());
    }
    eye.found
}

struct Eye {
    left: usize,
    stop: CancellationToken,
    found: Touches,
}

impl Eye {
    fn mention(&mut self, mention: &Mention) {
        if mention.path.as_os_str().len() > LONGEST_PATH {
            self.found.doubt.get_or_insert_with(|| "a path is too long to look at".to_owned());
            return self.add(mention, mention.sure, normalize(&mention.path));
        }
        let mut paths = if mention.glob { self.expand(&mention.path) } else { Vec::new() };
        if paths.is_empty() {
            paths.push(mention.path.clone()); // a shell leaves what fits nothing as it is
        }
        for path in paths {
            let real = resolve(&path);
            if let Some(tree) = mention.tree.filter(|_| real.is_dir()) {
                self.walk(mention, tree, &real);
            }
            self.add(mention, mention.sure, normalize(&path));
            self.add(mention, mention.sure, real);
        }
    }

    fn add(&mut self, mention: &Mention, sure: bool, path: PathBuf) {
        let touched = Touched { path, how: mention.how, sure };
        if self.found.all.last() != Some(&touched) {
            self.found.all.push(touched);
        }
    }

    /// Whether there is room for one more.
    fn takes(&mut self) -> bool {
        if self.stop.is_cancelled() {
            self.left = 0;
        }
        let room = self.left > 0;
        self.left = self.left.saturating_sub(1);
        room
    }

    /// The names in a directory, as far as there is room; the directory costs as much as one of them.
    fn names(&mut self, dir: &Path) -> Vec<fs::DirEntry> {
        if !self.takes() {
            return Vec::new();
        }
        let names: Vec<fs::DirEntry> =
            fs::read_dir(dir).into_iter().flatten().flatten().take(self.left).collect();
        self.left -= names.len();
        names
    }

    /// What a path with wildcards expands to; nothing when there is no room for all of it.
    fn expand(&mut self, path: &Path) -> Vec<PathBuf> {
        let mut found = vec![PathBuf::new()];
        for part in path.components() {
            let wild = match part {
                Component::Normal(name) => name.to_str().filter(|name| name.contains(['*', '?', '['])),
                _ => None,
            };
            match wild {
                Some(pattern) => found = self.fitting(&found, pattern),
                None => found.iter_mut().for_each(|dir| dir.push(part)),
            }
            if self.left == 0 {
                return Vec::new();
            }
        }
        found.retain(|path| path.symlink_metadata().is_ok());
        found
    }

    /// What fits one part in these directories, each once.
    fn fitting(&mut self, dirs: &[PathBuf], pattern: &str) -> Vec<PathBuf> {
        let fits = |name: &OsStr| name.to_str().is_some_and(|name| reach::fits_part(pattern, name));
        // `.*` also means these two.
        let dots: Vec<&str> =
            [".", ".."].into_iter().filter(|name| reach::fits_part(pattern, name)).collect();
        let (mut found, mut known) = (Vec::new(), HashSet::new());
        for dir in dirs {
            let mut paths: Vec<PathBuf> =
                self.names(dir).into_iter().filter(|e| fits(&e.file_name())).map(|e| e.path()).collect();
            for dot in &dots {
                if self.takes() {
                    // By its own name: written as it is, each part would find all directories once more.
                    paths.push(resolve(&dir.join(dot)));
                }
            }
            found.extend(paths.into_iter().filter(|path| known.insert(path.clone())));
        }
        found
    }

    /// The files below a directory; each directory once, however many links lead there.
    fn walk(&mut self, mention: &Mention, tree: Tree, dir: &Path) {
        let sure = mention.sure && tree.sure;
        let mut known = HashSet::from([dir.to_owned()]);
        let mut todo = vec![dir.to_owned()];
        while let Some(dir) = todo.pop() {
            for entry in self.names(&dir) {
                if !tree.hidden && entry.file_name().as_encoded_bytes().starts_with(b".") {
                    continue;
                }
                let path = entry.path();
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    todo.extend(Some(path).filter(|path| known.insert(path.clone())));
                } else if kind.is_file() {
                    self.add(mention, sure, path);
                } else if kind.is_symlink() && tree.links {
                    let real = resolve(&path);
                    self.add(mention, sure, path);
                    if real.is_dir() {
                        todo.extend(Some(real).filter(|real| known.insert(real.clone())));
                    } else {
                        self.add(mention, sure, real);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// What a command in `dir` certainly reads, relative to it.
    fn read(dir: &Path, command: &str) -> Vec<String> {
        let found = look(&reach::mentions(command, dir, None), CancellationToken::new());
        let files = found.all.iter().filter(|touched| touched.sure && touched.how == How::Read);
        let mut names: Vec<String> =
            files.map(|t| t.path.strip_prefix(dir).unwrap_or(&t.path).display().to_string()).collect();
        names.extend(found.doubt.map(|doubt| format!("?{doubt}")));
        names.dedup();
        names
    }

    #[test]
    fn wildcards_links_and_trees_are_followed_to_the_files() {
        let temp = tempfile::tempdir().expect("temp");
        let dir = fs::canonicalize(temp.path()).expect("real");
        fs::create_dir_all(dir.join("sub/deep")).expect("dirs");
        for file in [".env", "a", "sub/deep/x", "sub/.hid"] {
            fs::write(dir.join(file), "").expect("file");
        }
        symlink(".env", dir.join("lnk")).expect("link");
        symlink("sub/deep", dir.join("down")).expect("link");
        let table: &[(&str, &[&str])] = &[
            ("cat .e*", &[".env"]),
            ("cat .[e]n?", &[".env"]),
            ("cat *v", &["*v"]),
            ("cat a*", &["a"]),
            ("cat lnk", &["lnk", ".env"]),
            ("cat l*k", &["lnk", ".env"]),
            ("cat down/../x", &["x", "sub/x"]),
            ("cat */deep/*", &["sub/deep/x"]),
            ("rg x sub", &["x", "sub/deep/x", "sub"]),
            ("rg --hidden x sub", &["x", "sub/.hid", "sub/deep/x", "sub"]),
        ];
        for (command, expected) in table {
            assert_eq!(read(&dir, command), *expected, "{command}");
        }
        let all = read(&dir, "grep -r x");
        assert!(all.contains(&".env".to_owned()) && all.contains(&"sub/deep/x".to_owned()), "{all:?}");
    }

    #[test]
    fn links_in_trees_are_followed_as_the_program_does_it() {
        let temp = tempfile::tempdir().expect("temp");
        let dir = fs::canonicalize(temp.path()).expect("real");
        fs::create_dir_all(dir.join("sub")).expect("dirs");
        fs::create_dir_all(dir.join("far/er")).expect("dirs");
        for file in [".env", "far/er/x"] {
            fs::write(dir.join(file), "").expect("file");
        }
        symlink("../.env", dir.join("sub/l")).expect("link");
        symlink("../far", dir.join("sub/d")).expect("link");
        symlink("..", dir.join("far/up")).expect("link");
        let found = |command: &str| {
            let found = look(&reach::mentions(command, &dir, None), CancellationToken::new());
            let at =
                |name: &str| found.all.iter().find(|t| t.path == dir.join(name)).map(|t| (t.how, t.sure));
            assert_eq!(found.doubt, None, "{command}");
            [at(".env"), at("far/er/x")]
        };
        let (certain, perhaps) = (Some((How::Read, true)), Some((How::Either, false)));
        for (command, expected) in [
            ("grep -r x sub", [None; 2]),
            ("grep -R x sub", [certain; 2]),
            ("rg x sub", [None; 2]),
            ("rg -L x sub", [certain; 2]),
            ("rg -L x far/er", [None, certain]),
            ("diff -r sub o", [certain; 2]),
            ("diff -r --no-dereference sub o", [None; 2]),
            ("tar cf - sub", [perhaps; 2]),
            ("tar cf - .", [perhaps; 2]),
            ("mkdir -p sub", [None; 2]),
            ("ls -R .", [None; 2]),
            ("nice -n 5 ls .", [None; 2]),
        ] {
            assert_eq!(found(command), expected, "{command}");
        }
    }

    #[test]
    fn more_than_one_can_look_at_is_a_doubt() {
        let temp = tempfile::tempdir().expect("temp");
        let dir = fs::canonicalize(temp.path()).expect("real");
        for n in 0..20 {
            fs::write(dir.join(n.to_string()), "").expect("file");
        }
        let tree = Some(Tree { hidden: true, links: true, sure: true });
        let mention = |path: PathBuf, glob| Mention { path, glob, tree, how: How::Read, sure: true };
        let eye = |left| Eye { left, stop: CancellationToken::new(), found: Touches::default() };
        let mut small = eye(10);
        small.mention(&mention(dir.clone(), false));
        assert_eq!((small.left, small.found.all.len()), (0, 10));
        // Nothing more is looked at, and what has wildcards is judged as it is written.
        small.mention(&mention(dir.join("*"), true));
        assert_eq!((small.left, small.found.all[10..].len()), (0, 1));
        let mut stopped = eye(10);
        stopped.stop.cancel();
        stopped.mention(&mention(dir.clone(), false));
        assert_eq!((stopped.left, stopped.found.all.len()), (0, 1));
        let long = look(
            &reach::mentions(&format!("cat {}", "a/".repeat(LONGEST_PATH)), &dir, None),
            CancellationToken::new(),
        );
        assert_eq!((long.all.len(), long.doubt.as_deref()), (1, Some("a path is too long to look at")));
    }

    #[test]
    fn dots_that_wildcards_mean_find_no_directory_twice() {
        let temp = tempfile::tempdir().expect("temp");
        // So deep that the dots lead to nothing but this.
        let dir = fs::canonicalize(temp.path()).expect("real").join("a/".repeat(9));
        fs::create_dir_all(dir.join(".b/.c")).expect("dirs");
        fs::write(dir.join(".b/.c/x"), "").expect("file");
        let mut eye = Eye { left: MAX_ENTRIES, stop: CancellationToken::new(), found: Touches::default() };
        let mut found: Vec<PathBuf> = eye
            .expand(&dir.join(".*/.*/.*/.*/.*/.*/.*/x"))
            .into_iter()
            .filter(|path| path.starts_with(&dir))
            .collect();
        found.sort();
        assert_eq!(found, [dir.join(".b/.c/x")]);
        let mut small = Eye { left: 300, stop: CancellationToken::new(), found: Touches::default() };
        small.expand(&dir.join(".*/".repeat(200)));
        assert_eq!(small.left, 0);
    }

    #[tokio::test]
    async fn a_look_that_nobody_waits_for_leaves_the_words_with_a_doubt() {
        let mentions = || reach::mentions("cat a", Path::new("/p"), None);
        let all = vec![Touched { path: PathBuf::from("/p/a"), how: How::Read, sure: true }];
        let cancel = CancellationToken::new();
        let found = Touches { all: all.clone(), doubt: None };
        assert_eq!(seen(mentions(), LOOK_DEADLINE, &cancel).await, found);
        cancel.cancel();
        let doubt = Some("the look at its files was cancelled".to_owned());
        assert_eq!(seen(mentions(), LOOK_DEADLINE, &cancel).await, Touches { all, doubt });
    }
}
