//! What a shell command touches, with a look at the disk: wildcards expanded, links resolved, trees walked.
//!
//! `policy` says which paths the words may mean and judges what is found here. Done only where rules deny or
//! ask about files. Looks at a bounded number of entries; past that there is a doubt, which asks.

use super::core::AgentCore;
use crate::os::file::{normalize, resolve};
use crate::policy::reach::{self, How, Mention, Mentions, Touched, Touches, Tree};
use crate::wire::access::{Access, Target};
use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Entries of directories that one command may cost.
const MAX_ENTRIES: usize = 20_000;

/// The files that a call touches, where some rule denies or asks about files; of a file tool, its paths as they
/// are written, since a rule may name a link. `access` is not resolved yet.
pub async fn touches(core: &AgentCore, access: &Access) -> Option<Touches> {
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
    let cwd = permissions.cwd.clone();
    let found = core.runtime.disk.run(&cwd, move || Ok(look(&mentions))).await;
    // The store thread is gone: the process ends; the words as written are judged.
    found.ok()
}

fn look(mentions: &Mentions) -> Touches {
    let mut eye =
        Eye { left: MAX_ENTRIES, found: Touches { all: Vec::new(), doubt: mentions.doubt.clone() } };
    mentions.all.iter().for_each(|mention| eye.mention(mention));
    if eye.left == 0 {
        eye.found.doubt.get_or_insert_with(|| "there are too many files to look at".to_owned());
    }
    eye.found
}

struct Eye {
    left: usize,
    found: Touches,
}

impl Eye {
    fn mention(&mut self, mention: &Mention) {
        let mut paths = if mention.glob { self.expand(&mention.path) } else { Vec::new() };
        if paths.is_empty() {
            paths.push(mention.path.clone()); // a shell leaves what fits nothing as it is
        }
        for path in paths {
            let real = resolve(&path);
            if mention.tree != Tree::None && real.is_dir() {
                self.walk(mention, &real);
            }
            self.add(mention, normalize(&path));
            self.add(mention, real);
        }
    }

    fn add(&mut self, mention: &Mention, path: PathBuf) {
        let touched = Touched { path, how: mention.how, sure: mention.sure };
        if self.found.all.last() != Some(&touched) {
            self.found.all.push(touched);
        }
    }

    /// The names in a directory, as far as there is room.
    fn names(&mut self, dir: &Path) -> Vec<fs::DirEntry> {
        let names: Vec<fs::DirEntry> =
            fs::read_dir(dir).into_iter().flatten().flatten().take(self.left).collect();
        self.left -= names.len();
        names
    }

    /// What a path with wildcards expands to.
    fn expand(&mut self, path: &Path) -> Vec<PathBuf> {
        let mut found = vec![PathBuf::new()];
        for part in path.components() {
            let wild = match part {
                Component::Normal(name) => name.to_str().filter(|name| name.contains(['*', '?', '['])),
                _ => None,
            };
            let Some(pattern) = wild else {
                found.iter_mut().for_each(|dir| dir.push(part));
                continue;
            };
            let mut next = Vec::new();
            for dir in found {
                let names = self.names(&dir);
                let fits = |name: &OsStr| name.to_str().is_some_and(|name| reach::fits_part(pattern, name));
                next.extend(names.into_iter().filter(|e| fits(&e.file_name())).map(|e| e.path()));
                // `.*` also means these two.
                let dots = [".", ".."].into_iter().filter(|name| reach::fits_part(pattern, name));
                next.extend(dots.map(|name| dir.join(name)));
            }
            found = next;
        }
        found.retain(|path| path.symlink_metadata().is_ok());
        found
    }

    /// The files below a directory. Links are not followed, as the programs do not either.
    fn walk(&mut self, mention: &Mention, dir: &Path) {
        let mut todo = vec![dir.to_owned()];
        while let Some(dir) = todo.pop() {
            for entry in self.names(&dir) {
                let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
                if hidden && mention.tree == Tree::Visible {
                    continue;
                }
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => todo.push(entry.path()),
                    Ok(kind) if kind.is_file() => self.add(mention, entry.path()),
                    _ => {}
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
        let found = look(&reach::mentions(command, dir, None));
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
    fn more_than_one_can_look_at_is_a_doubt() {
        let temp = tempfile::tempdir().expect("temp");
        let dir = fs::canonicalize(temp.path()).expect("real");
        for n in 0..20 {
            fs::write(dir.join(n.to_string()), "").expect("file");
        }
        let mut eye = Eye { left: 10, found: Touches::default() };
        let mention = Mention { path: dir.clone(), glob: false, tree: Tree::All, how: How::Read, sure: true };
        eye.mention(&mention);
        assert_eq!((eye.left, eye.found.all.len()), (0, 11));
    }
}
