//! Instruction files: `AGENTS.md` and `CLAUDE.md`, from the repository's root down to the working
//! directory, after the user's own.
//!
//! They are text for the model's first message, never settings. A file may import others with
//! `@path`; what is missing, unreadable, or too much is named, and the rest is used. Whoever wrote a
//! repository wrote its files too, so they bring in nothing from outside it, by path or by link; only the
//! user's own file may name any place. What tools may not enter is not read here either.

use crate::os::file::{self, resolve};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The names, in the order in which they are read in each directory.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];
/// How deep imports may go.
const IMPORT_DEPTH: usize = 5;
/// All files together, in bytes: about 25,000 tokens.
const MOST: usize = 100 * 1024;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    /// For the model; empty when there is nothing.
    pub text: String,
    /// What could not be used, a sentence each.
    pub notices: Vec<String>,
}

/// Where instructions are looked for.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The directory of the user's own files.
    pub user: &'a Path,
    /// For imports that begin with `~/`.
    pub home: Option<&'a Path>,
    /// The directory of work.
    pub cwd: &'a Path,
    /// Directories that nothing is read from; links resolved.
    pub closed: &'a [PathBuf],
}

/// Collects the instructions that hold in a directory. Reads files, so it belongs on the store thread.
pub fn collect(places: Places<'_>) -> Instructions {
    let mut collector = Collector { found: Instructions::default(), seen: HashSet::new(), places };
    for name in NAMES {
        collector.take(&places.user.join(name), &Reach::Anywhere, 0);
    }
    let dirs = from_root(places.cwd);
    let project = Reach::Below(dirs.first().map_or_else(|| resolve(places.cwd), |root| resolve(root)));
    for dir in dirs {
        for name in NAMES {
            collector.take(&dir.join(name), &project, 0);
        }
    }
    collector.found
}

/// The directories from the root of the checkout down to `cwd`; only `cwd` outside a checkout.
fn from_root(cwd: &Path) -> Vec<PathBuf> {
    let all: Vec<&Path> = cwd.ancestors().collect();
    let root = all.iter().position(|dir| dir.join(".git").exists()).unwrap_or(0);
    all[..=root].iter().rev().map(|dir| (*dir).to_owned()).collect()
}

/// What a file may bring in.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reach {
    /// It is the user's own.
    Anywhere,
    /// Somebody else may have written it: only what lies below this directory, links resolved.
    Below(PathBuf),
}

struct Collector<'a> {
    found: Instructions,
    seen: HashSet<PathBuf>,
    places: Places<'a>,
}

impl Collector<'_> {
    fn take(&mut self, path: &Path, reach: &Reach, depth: usize) {
        let real = resolve(path);
        if !real.is_file() {
            return;
        }
        if let Some(why) = self.refused(&real, reach) {
            return self.not_used(path, &why);
        }
        // Two names of one file, or a circle of imports, count once.
        if !self.seen.insert(real.clone()) {
            return;
        }
        let text = match read(&real, MOST) {
            Ok(text) => text,
            Err(why) => return self.not_used(path, &why),
        };
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        if self.found.text.len() + text.len() > MOST {
            let why = format!("the instruction files are larger than {} kB together", MOST / 1024);
            return self.not_used(path, &why);
        }
        let _ = write!(self.found.text, "\n## {}\n\n{text}\n", path.display());
        for import in imports(text) {
            self.import(&import, &real, reach, depth);
        }
    }

    fn import(&mut self, import: &str, from: &Path, reach: &Reach, depth: usize) {
        let from = from.parent().unwrap_or(Path::new("/"));
        let target = match (import.strip_prefix("~/"), self.places.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => from.join(import),
        };
        let real = resolve(&target);
        if !real.is_file() {
            return;
        }
        if depth >= IMPORT_DEPTH {
            return self.found.notices.push(format!("{}: not imported: too deep", target.display()));
        }
        let reach = match reach {
            // What the user imports from elsewhere is not the user's own.
            Reach::Anywhere if !real.starts_with(resolve(self.places.user)) => {
                if let Some(why) = self.refused(&real, &Reach::Anywhere) {
                    return self.not_used(&target, &why);
                }
                Reach::Below(real.parent().unwrap_or(Path::new("/")).to_owned())
            }
            reach => reach.clone(),
        };
        self.take(&target, &reach, depth + 1);
    }

    /// Why a file, links resolved, is not for this reader.
    fn refused(&self, real: &Path, reach: &Reach) -> Option<String> {
        if self.places.closed.iter().any(|dir| real.starts_with(dir)) {
            return Some("it belongs to the state of the agents".to_owned());
        }
        match reach {
            Reach::Below(dir) if !real.starts_with(dir) => Some(format!("it lies outside {}", dir.display())),
            Reach::Below(_) | Reach::Anywhere => None,
        }
    }

    fn not_used(&mut self, path: &Path, why: &str) {
        self.found.notices.push(format!("{}: not used: {why}", path.display()));
    }
}

/// Words that begin with `@` and name a path, outside code.
fn imports(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if fenced {
            continue;
        }
        let outside_code = line.split('`').step_by(2);
        for word in outside_code.flat_map(str::split_whitespace) {
            let path = word.strip_prefix('@').map(|p| p.trim_end_matches(['.', ',', ')', ';', ':']));
            found.extend(path.filter(|p| p.contains(['/', '.'])).map(str::to_owned));
        }
    }
    found
}

fn read(path: &Path, most: usize) -> Result<String, String> {
    let opened = file::open(path).map_err(|e| e.to_string())?;
    if opened.path != path {
        return Err("it was replaced by a link at this moment".to_owned());
    }
    let mut bytes = Vec::new();
    opened.file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() > most {
        return Err(format!("it is larger than {} kB", most / 1024));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(all: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("temp dir");
        let root = dir.path().canonicalize().expect("real");
        for (name, text) in all {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("dir");
            std::fs::write(path, text).expect("file");
        }
        (dir, root)
    }

    fn found_in(user: &Path, root: &Path, cwd: &Path) -> Instructions {
        let closed = [root.join("state/teams")];
        collect(Places { user, home: Some(&root.join("home")), cwd, closed: &closed })
    }

    #[test]
    fn a_repository_brings_in_nothing_from_outside() {
        let (_dir, root) = files(&[
            ("home/.ssh/id", "SECRET"),
            ("state/teams/keys", "SECRET"),
            ("repo/.git/HEAD", ""),
            ("repo/AGENTS.md", "@~/.ssh/id @../home/.ssh/id @/ABS/home/.ssh/id @link.md @dir/id @sub/ok.md"),
            ("repo/sub/ok.md", "fine @../../home/.ssh/id"),
        ]);
        use std::os::unix::fs::symlink;
        let text = std::fs::read_to_string(root.join("repo/AGENTS.md")).expect("reads");
        let text = text.replace("/ABS", &root.display().to_string());
        std::fs::write(root.join("repo/AGENTS.md"), text).expect("writes");
        symlink(root.join("home/.ssh/id"), root.join("repo/link.md")).expect("link");
        symlink(root.join("home/.ssh"), root.join("repo/dir")).expect("link");
        symlink(root.join("home/.ssh/id"), root.join("repo/sub/AGENTS.md")).expect("link");
        symlink(root.join("state/teams/keys"), root.join("repo/sub/CLAUDE.md")).expect("link");
        let found = found_in(&root.join("user"), &root, &root.join("repo/sub"));
        assert!(!found.text.contains("SECRET") && found.text.contains("fine"), "{}", found.text);
        let outside = |name: &str| {
            format!(
                "{}: not used: it lies outside {}",
                root.join(name).display(),
                root.join("repo").display()
            )
        };
        let wanted = [
            outside("home/.ssh/id"),
            outside("repo/../home/.ssh/id"),
            outside("home/.ssh/id"),
            outside("repo/link.md"),
            outside("repo/dir/id"),
            outside("repo/sub/../../home/.ssh/id"),
            outside("repo/sub/AGENTS.md"),
            format!(
                "{}: not used: it belongs to the state of the agents",
                root.join("repo/sub/CLAUDE.md").display()
            ),
        ];
        assert_eq!(found.notices, wanted);
    }

    #[test]
    fn the_users_own_file_reaches_anywhere_and_what_it_imports_does_not() {
        let (_dir, root) = files(&[
            ("home/notes.md", "NOTES @shared/more.md @../other.md"),
            ("home/shared/more.md", "MORE"),
            ("other.md", "OTHER"),
            ("state/teams/keys", "SECRET"),
            ("user/AGENTS.md", "@~/notes.md @../state/teams/keys @extra.md"),
            ("user/extra.md", "EXTRA @../other.md"),
        ]);
        let found = found_in(&root.join("user"), &root, &root.join("repo"));
        for (word, used) in
            [("NOTES", true), ("MORE", true), ("SECRET", false), ("EXTRA", true), ("OTHER", true)]
        {
            assert_eq!(found.text.contains(word), used, "{word}");
        }
        let wanted = [
            format!(
                "{}: not used: it lies outside {}",
                root.join("home/../other.md").display(),
                root.join("home").display()
            ),
            format!(
                "{}: not used: it belongs to the state of the agents",
                root.join("user/../state/teams/keys").display()
            ),
        ];
        assert_eq!(found.notices, wanted);
    }

    #[test]
    fn files_count_from_the_root_down_and_once_each() {
        let (_dir, root) = files(&[
            ("user/AGENTS.md", "mine"),
            ("repo/.git/HEAD", ""),
            ("repo/AGENTS.md", "\u{feff}root, see @docs/more.md and `@docs/code.md`, not @home."),
            ("repo/docs/more.md", "more, back to @../AGENTS.md"),
            ("repo/docs/code.md", "never"),
            ("repo/sub/CLAUDE.md", "sub"),
            ("AGENTS.md", "outside"),
        ]);
        std::os::unix::fs::symlink("AGENTS.md", root.join("repo/CLAUDE.md")).expect("link");
        let found = found_in(&root.join("user"), &root, &root.join("repo/sub"));
        let at = |name: &str| root.join(name).display().to_string();
        let wanted = format!(
            "\n## {}\n\nmine\n\n## {}\n\nroot, see @docs/more.md and `@docs/code.md`, not @home.\n\n## {}\n\nmore, back \
             to @../AGENTS.md\n\n## {}\n\nsub\n",
            at("user/AGENTS.md"),
            at("repo/AGENTS.md"),
            at("repo/docs/more.md"),
            at("repo/sub/CLAUDE.md")
        );
        assert_eq!(found, Instructions { text: wanted, notices: Vec::new() });
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let (_dir, root) = files(&[("AGENTS.md", "x"), ("CLAUDE.md", "")]);
        std::fs::write(root.join("AGENTS.md"), [0xff, 0xfe]).expect("file");
        std::fs::write(root.join("CLAUDE.md"), "a".repeat(MOST + 1)).expect("file");
        let found = found_in(Path::new("/nonexistent"), &root, &root);
        assert_eq!(found.text, "");
        let wanted = [
            format!("{}: not used: it is not UTF-8", root.join("AGENTS.md").display()),
            format!("{}: not used: it is larger than 100 kB", root.join("CLAUDE.md").display()),
        ];
        assert_eq!(found.notices, wanted);
    }
}
