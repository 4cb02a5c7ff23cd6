//! The files that a shell command would read or write, as far as its text and the disk tell.
//!
//! Two steps, so that nothing here looks at the disk: [`mentions`] says which paths the words of a command
//! may mean, and whoever may look turns them into [`Touches`]: wildcards expanded, links resolved, trees
//! walked. Rules for files are then held against those. Where a word is only known when the command runs,
//! a doubt says so. Programs that are not known to be readers may do with a name what they like.

use super::path::{PathPattern, normalize};
use super::readonly::{reads_files, takes_texts};
use super::rule::{Parsed, Pattern};
use super::sed::{self, Named};
use super::shell::{self, Script, Word};
use super::trees::{self, Tree};
use super::unwrap::{Readings, readings};
use crate::wire::permission::{Behavior, Rule};
use globset::GlobBuilder;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Programs beside the read-only ones that print or run the files they are given.
const READERS: &[&str] = &[
    ".", "awk", "base32", "base64", "bat", "gawk", "gsed", "less", "mawk", "more", "nawk", "sed", "source",
    "xxd", "zcat",
];
/// Programs that hand names on from their input.
const FEEDERS: &[&str] = &["parallel", "sem", "xargs"];
/// More directories than this that a command may move to are not followed.
const MAX_DIRS: usize = 8;

/// What is done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum How {
    /// Its content is read.
    Read,
    /// It is written.
    Write,
    /// Either may be.
    Either,
}

/// A path that a word of a command may mean.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mention {
    /// Absolute; `..`, links and wildcards still in it.
    pub path: PathBuf,
    /// Whether wildcards in it are expanded.
    pub glob: bool,
    /// What is read below it, where it is a directory.
    pub tree: Option<Tree>,
    /// What is done with it.
    pub how: How,
    /// Whether it certainly is.
    pub sure: bool,
}

/// All mentions of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mentions {
    /// The paths.
    pub all: Vec<Mention>,
    /// What is only known when it runs.
    pub doubt: Option<String>,
}

/// A file that a command touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// Absolute.
    pub path: PathBuf,
    /// What is done with it.
    pub how: How,
    /// Whether it certainly is.
    pub sure: bool,
}

/// All that a command touches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touches {
    /// The files.
    pub all: Vec<Touched>,
    /// What is only known when it runs.
    pub doubt: Option<String>,
}

impl Touches {
    /// As the words say, without a look at the disk.
    pub fn as_written(mentions: Mentions) -> Self {
        let touched = |m: Mention| Touched { path: normalize(&m.path), how: m.how, sure: m.sure };
        Self { all: mentions.all.into_iter().map(touched).collect(), doubt: mentions.doubt }
    }
}

/// The files that rules keep from being read without more ado: what a search of a directory passes over.
pub struct Kept(Vec<PathPattern>);

impl Kept {
    /// By these rules, relative ones below `root`.
    pub fn new(rules: &[Rule], root: &Path, home: Option<&Path>) -> Self {
        let keeps = rules.iter().filter(|rule| rule.behavior != Behavior::Allow);
        let parsed = keeps.filter_map(|rule| Parsed::new(&rule.text).ok()).filter(|rule| rule.names("Grep"));
        let bound = parsed.filter_map(|rule| match rule.pattern_ref() {
            Pattern::Path(pattern) => PathPattern::bind(pattern, root, home).ok(),
            _ => None,
        });
        Self(bound.collect())
    }

    /// Whether it keeps this file, an absolute path.
    pub fn keeps(&self, path: &Path) -> bool {
        self.0.iter().any(|pattern| pattern.matches(path))
    }
}

/// Whether any rule denies or asks about files, so that it matters what a command touches.
pub fn matters(rules: &[Rule]) -> bool {
    let about_files = |rule: &&Rule| {
        let parsed = Parsed::new(&rule.text);
        rule.behavior != Behavior::Allow
            && parsed.is_ok_and(|parsed| matches!(parsed.pattern_ref(), Pattern::Path(_)))
    };
    rules.iter().find(about_files).is_some()
}

/// The paths that a command mentions.
pub fn mentions(command: &str, cwd: &Path, home: Option<&Path>) -> Mentions {
    let script = shell::parse(command);
    of(&script, &readings(&script), cwd, home)
}

pub(super) fn of(script: &Script, readings: &Readings, cwd: &Path, home: Option<&Path>) -> Mentions {
    let mut finder = Finder {
        found: Mentions::default(),
        known: HashSet::new(),
        dirs: vec![cwd.to_owned()],
        home,
        fed: is_fed(readings),
        again: false,
    };
    for (at, words) in readings.words.iter().enumerate() {
        // What is handed to another command is that one's; a wrapper by a path is read twice.
        let wraps = |other: &Vec<Word>| other.len() < words.len() && words.ends_with(other);
        finder.command(words, readings.words[at + 1..].iter().take(2).any(wraps));
    }
    for (files, how) in [
        (&script.reads, How::Read),
        (&readings.reads, How::Read),
        (&script.writes, How::Write),
        (&readings.writes, How::Write),
    ] {
        for word in files {
            match word.literal {
                true => finder.mention(&word.text, word.glob, None, how, true),
                false => finder.doubt(&word.text),
            }
        }
    }
    if let Some(doubt) = readings.doubts.first() {
        finder.found.doubt.get_or_insert_with(|| doubt.clone());
    }
    finder.found
}

fn is_fed(readings: &Readings) -> bool {
    readings.words.iter().any(|words| words.first().is_some_and(|name| FEEDERS.contains(&base(&name.text))))
}

fn word_is_number(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or_default()
}

/// Whether a name fits one part of a path with wildcards, as a shell has it: a dot at the beginning must
/// be written.
pub fn fits_part(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(false).build();
    glob.map_or(pattern == name, |glob| glob.compile_matcher().is_match(name))
}

struct Finder<'a> {
    found: Mentions,
    /// The same mentions.
    known: HashSet<Mention>,
    /// Where the command may be by now, the likeliest last.
    dirs: Vec<PathBuf>,
    home: Option<&'a Path>,
    /// Whether some command gets names from its input.
    fed: bool,
    /// Whether the next reading is the same `git` without its options, and with them its directory.
    again: bool,
}

impl Finder<'_> {
    fn doubt(&mut self, word: &str) {
        self.found.doubt.get_or_insert_with(|| format!("{word} is only known when it runs"));
    }

    /// `wraps` says that the same words are also read as another command in the arguments of this one.
    fn command(&mut self, words: &[Word], wraps: bool) {
        let Some((name, args)) = words.split_first() else { return };
        let program = base(&name.text);
        if takes_texts(program) || std::mem::take(&mut self.again) && program == "git" {
            return;
        }
        let (known, reader) = (reads_files(program), READERS.contains(&program));
        if (known || reader) && (self.fed || args.iter().any(|word| word.text.starts_with("--files0"))) {
            self.doubt("what it is handed from its input");
        }
        let stands = self.stands(program, args);
        let outer = stands.map(|dir| std::mem::replace(&mut self.dirs, vec![dir]));
        let tree = trees::below(program, args, known || reader || wraps);
        for word in args {
            if !word.literal || word.text == "{}" {
                if known || reader {
                    self.doubt(&word.text);
                }
                continue;
            }
            // `-I.` is likelier a place to look for something than one to read.
            let attached = word.text.starts_with('-') && !word.text.contains('=');
            for (text, sure) in alternatives(program, &word.text) {
                match (known, reader) {
                    (true, _) => self.mention(text, word.glob, tree, How::Read, sure),
                    (false, true) => {
                        self.mention(text, word.glob, tree, How::Read, sure);
                        self.mention(text, word.glob, tree, How::Write, false);
                    }
                    (false, false) => {
                        self.mention(text, word.glob, tree.filter(|_| !attached), How::Either, false);
                    }
                }
            }
        }
        if let Some(here) = tree.and_then(|tree| trees::here(program, args, tree)) {
            let how = if known { How::Read } else { How::Either };
            self.mention(".", false, Some(here), how, known);
        }
        if ["gsed", "sed"].contains(&program) {
            sed::programs(args).into_iter().for_each(|program| self.sed(program));
        }
        if let Some(outer) = outer {
            self.dirs = outer;
        }
        self.moves(program, args);
    }

    fn sed(&mut self, program: &str) {
        let Ok(files) = sed::files(program) else {
            self.doubt(program);
            return;
        };
        for file in files {
            match file {
                Named::Read(name) => self.mention(name, false, None, How::Read, true),
                Named::Written(name) => self.mention(name, false, None, How::Write, true),
            }
        }
    }

    /// The directory that `git -C` works in; other programs' `-C` is one more that may be meant.
    fn stands(&mut self, program: &str, args: &[Word]) -> Option<PathBuf> {
        let at = args.iter().position(|word| word.text == "-C" || word.text == "--chdir")?;
        let dir = args.get(at + 1).filter(|word| word.literal && !word.glob)?;
        if word_is_number(&dir.text) {
            return None; // lines of context
        }
        let dir = place(&dir.text, self.dirs.last()?, self.home)?;
        if program == "git" {
            self.again = true;
            return Some(dir);
        }
        self.dirs.insert(0, dir);
        None
    }

    fn moves(&mut self, program: &str, args: &[Word]) {
        match program {
            "cd" | "pushd" => {}
            "popd" => return self.doubt("the directory it moves back to"),
            _ => return,
        }
        let target = args.iter().rev().find(|word| !word.text.starts_with('-') || word.text == "-");
        let Some(now) = self.dirs.last() else { return };
        let next = match target {
            None => self.home.map(Path::to_owned),
            Some(word) if word.text == "-" || !word.literal || word.glob => None,
            Some(word) => place(&word.text, now, self.home),
        };
        match next.filter(|_| self.dirs.len() < MAX_DIRS) {
            Some(next) => self.dirs.push(next),
            None => self.doubt("the directory it moves to"),
        }
    }

    fn mention(&mut self, text: &str, glob: bool, tree: Option<Tree>, how: How, sure: bool) {
        let last = self.dirs.len().saturating_sub(1);
        let places: Vec<Option<PathBuf>> = self.dirs.iter().map(|dir| place(text, dir, self.home)).collect();
        for (at, path) in places.into_iter().enumerate() {
            match path {
                Some(path) => {
                    let sure = sure && at == last;
                    let found = Mention { path, glob, tree, how, sure };
                    if self.known.insert(found.clone()) {
                        self.found.all.push(found);
                    }
                }
                None if how != How::Either => self.doubt(text),
                None => {}
            }
        }
    }
}

/// What a word may mean as a file name, and whether it certainly does.
fn alternatives<'w>(program: &str, text: &'w str) -> Vec<(&'w str, bool)> {
    let mut all = Vec::new();
    let option = text.starts_with('-');
    if !option {
        all.push((text, true));
    } else if !text.starts_with("--") && text.is_char_boundary(2) && text.len() > 2 {
        all.push((&text[2..], true));
    }
    all.extend(text.split_once('=').map(|(_, value)| (value, true)));
    all.extend(text.strip_prefix('@').map(|file| (file, false)));
    all.extend(text.strip_prefix("file://").map(|file| (file, false)));
    // `git show HEAD:file`
    all.extend(text.rsplit_once(':').map(|(_, file)| (file, program == "git")));
    all.retain(|(text, _)| !text.is_empty());
    all
}

/// The absolute path that `text` means in `dir`, links and `..` still in it.
fn place(text: &str, dir: &Path, home: Option<&Path>) -> Option<PathBuf> {
    match text.strip_prefix('~') {
        None => Some(dir.join(text)),
        Some("") => home.map(Path::to_owned),
        Some(rest) => Some(home?.join(rest.strip_prefix('/')?.trim_start_matches('/'))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mentions as `r! /p/x` (read, certainly), `w?`, `e?`, and the doubt.
    fn found(command: &str) -> Vec<String> {
        let found = mentions(command, Path::new("/p"), Some(Path::new("/h")));
        let one = |m: &Mention| {
            let how = match m.how {
                How::Read => 'r',
                How::Write => 'w',
                How::Either => 'e',
            };
            let tree = match m.tree {
                None => "",
                Some(Tree { sure: false, .. }) => "/?",
                Some(Tree { hidden: false, .. }) => "/v",
                Some(_) => "/a",
            };
            format!("{how}{} {}{tree}", if m.sure { '!' } else { '?' }, m.path.display())
        };
        let mut all: Vec<String> = found.all.iter().map(one).collect();
        all.extend(found.doubt.map(|doubt| format!("?{doubt}")));
        all
    }

    #[test]
    fn words_are_paths_where_the_command_stands() {
        let table: &[(&str, &[&str])] = &[
            ("cat a", &["r! /p/a"]),
            ("cat .e*", &["r! /p/.e*"]),
            ("echo .env $X", &[]),
            ("cat $X", &["?$X is only known when it runs"]),
            ("make $X", &[]),
            ("< .env cat", &["r! /p/.env"]),
            ("cat x > y", &["r! /p/x", "w! /p/y"]),
            ("cd sub && cat ../.env", &["r! /p/sub", "r? /p/../.env", "r! /p/sub/../.env"]),
            ("cat ~/x", &["r! /h/x"]),
            ("cat ~bob/x", &["?~bob/x is only known when it runs"]),
            ("cd $X; cat a", &["r! /p/a", "?$X is only known when it runs"]),
            ("rm .env", &["e? /p/.env/?"]),
            ("sed -n p a", &["r! /p/p", "w? /p/p", "r! /p/a", "w? /p/a"]),
            ("git show HEAD:a", &["r! /p/show", "r! /p/HEAD:a", "r! /p/a"]),
            ("git -C s blame a", &["r! /p/s/s", "r! /p/s/blame", "r! /p/s/a"]),
            ("grep -f.env x", &["r! /p/.env", "r! /p/x"]),
            ("xargs cat", &["e? /p/cat", "?what it is handed from its input is only known when it runs"]),
            (
                "find . -exec cat {} +",
                &["r! /p/.", "r! /p/xec", "r! /p/cat", "r! /p/+", "?{} is only known when it runs"],
            ),
            ("grep -rn x", &["r! /p/n/a", "r! /p/x/a", "r! /p/./a"]),
            ("grep -rn -A 3 x src", &["r! /p/n/a", "r! /p/3/a", "r! /p/x/a", "r! /p/src/a"]),
            ("rg x", &["r! /p/x/v", "r! /p/./v"]),
            ("bash -c 'cat < .env'", &["e? /p/cat < .env/?", "r! /p/.env"]),
            ("tar cf - .", &["e? /p/cf/?", "e? /p/./?"]),
            ("gcc -I. x.c", &["e? /p/.", "e? /p/x.c/?"]),
            ("ag x", &["e? /p/x/?", "e? /p/./?"]),
            ("nice -n 5 ls .", &["e? /p/5", "e? /p/ls", "e? /p/.", "r! /p/."]),
            ("nice -n 5 tar c .", &["e? /p/5", "e? /p/tar", "e? /p/c", "e? /p/.", "e? /p/c/?", "e? /p/./?"]),
            ("git grep x", &["r! /p/grep/?", "r! /p/x/?", "r! /p/./?"]),
            ("git grep --no-index x", &["r! /p/grep/a", "r! /p/x/a", "r! /p/./a"]),
            (
                "wc --files0-from=l",
                &["r! /p/l", "?what it is handed from its input is only known when it runs"],
            ),
            ("sed 'r .env' x", &["r! /p/r .env", "w? /p/r .env", "r! /p/x", "w? /p/x", "r! /p/.env"]),
            ("sed 's/a/b/w o' x", &["r! /p/s/a/b/w o", "w? /p/s/a/b/w o", "r! /p/x", "w? /p/x", "w! /p/o"]),
            ("sed k x", &["r! /p/k", "w? /p/k", "r! /p/x", "w? /p/x", "?k is only known when it runs"]),
        ];
        for (command, expected) in table {
            assert_eq!(found(command), *expected, "{command}");
        }
    }

    #[test]
    fn parts_fit_as_a_shell_has_it() {
        for (pattern, name, expected) in [
            ("*", "a", true),
            ("*", ".env", false),
            (".e*", ".env", true),
            (".[e]nv", ".env", true),
            ("?env", ".env", false),
            ("a?c", "abc", true),
            ("[", "[", true),
        ] {
            assert_eq!(fits_part(pattern, name), expected, "{pattern} {name}");
        }
    }
}
