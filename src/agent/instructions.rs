//! Instruction files: `AGENTS.md` and `CLAUDE.md`, from the repository's root down to the working
//! directory, after the user's own.
//!
//! They are text for the model's first message, never settings. A file may import others with
//! `@path`; what is missing, unreadable, or too much is named, and the rest is used.

use super::resolve::resolve;
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

/// Collects the instructions that hold in `cwd`; `user` is the directory of the user's own files, `home`
/// is for imports that begin with `~/`. Reads files, so it belongs on the store thread.
pub fn collect(user: &Path, home: Option<&Path>, cwd: &Path) -> Instructions {
    let mut collector = Collector { found: Instructions::default(), seen: HashSet::new(), home };
    for dir in std::iter::once(user.to_owned()).chain(from_root(cwd)) {
        for name in NAMES {
            collector.take(&dir.join(name), 0);
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

struct Collector<'a> {
    found: Instructions,
    seen: HashSet<PathBuf>,
    home: Option<&'a Path>,
}

impl Collector<'_> {
    fn take(&mut self, path: &Path, depth: usize) {
        let real = resolve(path);
        // Two names of one file, or a circle of imports, count once.
        if !real.is_file() || !self.seen.insert(real.clone()) {
            return;
        }
        let text = match read(&real, MOST) {
            Ok(text) => text,
            Err(why) => return self.found.notices.push(format!("{}: not used: {why}", path.display())),
        };
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        if self.found.text.len() + text.len() > MOST {
            let why = format!("the instruction files are larger than {} kB together", MOST / 1024);
            return self.found.notices.push(format!("{}: not used: {why}", path.display()));
        }
        let _ = write!(self.found.text, "\n## {}\n\n{text}\n", path.display());
        for import in imports(text) {
            let target = match (import.strip_prefix("~/"), self.home) {
                (Some(rest), Some(home)) => home.join(rest),
                _ => real.parent().unwrap_or(Path::new("/")).join(&import),
            };
            if depth >= IMPORT_DEPTH {
                self.found.notices.push(format!("{}: not imported: too deep", target.display()));
            } else if target.is_file() {
                self.take(&target, depth + 1);
            }
        }
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
    let file = std::fs::File::open(path).map_err(|e| e.to_string())?;
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
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
        let found = collect(&root.join("user"), None, &root.join("repo/sub"));
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
        let found = collect(Path::new("/nonexistent"), None, &root);
        assert_eq!(found.text, "");
        let wanted = [
            format!("{}: not used: it is not UTF-8", root.join("AGENTS.md").display()),
            format!("{}: not used: it is larger than 100 kB", root.join("CLAUDE.md").display()),
        ];
        assert_eq!(found.notices, wanted);
    }
}
