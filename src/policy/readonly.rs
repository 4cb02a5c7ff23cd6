//! Shell commands that are known to change nothing, with why.
//!
//! Owns the table. A script is read-only when every simple command in it is in the table, with
//! arguments that are, names no file outside the project, and redirects nothing into a file. What is
//! not known to be harmless is not harmless.

use super::path::{inside, resolve};
use super::shell::{Script, Simple, Word};
use std::path::{Path, PathBuf};

/// Where a command stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places<'a> {
    /// Where the command runs.
    pub cwd: &'a Path,
    /// The project's root, then the additional directories.
    pub project: &'a [PathBuf],
    /// The user's home, for `~`.
    pub home: Option<&'a Path>,
    /// Directories that file tools may not touch.
    pub closed: &'a [PathBuf],
}

/// Which arguments keep a program harmless.
enum Args {
    /// All of them.
    Any,
    /// None at all.
    None,
    /// All, and they are texts rather than files.
    Text,
    /// All but these: letters in a cluster of short options, long options (also abbreviated), and
    /// beginnings of words.
    Without { short: &'static str, long: &'static [&'static str], starts: &'static [&'static str] },
    /// At most one that is no option: the second is a file to write.
    OneOperand,
    /// Exactly one, out of these.
    OneOf(&'static [&'static str]),
    /// Only these, or none.
    Only(&'static [&'static str]),
    /// See [`git`].
    Git,
    /// At most one, a directory of the project.
    Directory,
}

const fn without(short: &'static str, long: &'static [&'static str]) -> Args {
    Args::Without { short, long, starts: &[] }
}

const VERSION: Args = Args::OneOf(&["--version", "-V", "-v", "version"]);

/// Name, arguments, and why it is harmless (or which arguments are not).
const TABLE: &[(&str, Args, &str)] = &[
    (":", Args::Text, "does nothing"),
    ("[", without("v", &[]), "tests; -v evaluates a subscript"),
    ("basename", Args::Text, "cuts a text"),
    ("cargo", VERSION, "says its version"),
    ("cat", Args::Any, "prints files"),
    ("cd", Args::Directory, "moves within the project, for this command only"),
    ("cmp", Args::Any, "compares files"),
    ("comm", Args::Any, "compares files"),
    ("cut", Args::Any, "prints parts of lines"),
    (
        "date",
        Args::Without {
            short: "s",
            long: &["--set"],
            starts: &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
        },
        "prints the time; -s or a bare number sets it",
    ),
    ("df", Args::Any, "prints free space"),
    ("diff", Args::Any, "compares files"),
    ("dirname", Args::Text, "cuts a text"),
    ("du", Args::Any, "prints sizes"),
    ("echo", Args::Text, "prints its arguments"),
    ("egrep", Args::Any, "searches"),
    ("expr", Args::Text, "calculates"),
    ("false", Args::Text, "fails"),
    ("fgrep", Args::Any, "searches"),
    ("file", without("CzZ", &["--compile", "--uncompress"]), "names file types; -C writes, -z runs programs"),
    (
        "find",
        Args::Without { short: "", long: &[], starts: &["-exec", "-ok", "-delete", "-fprint", "-fls"] },
        "lists files; some actions run, write or delete",
    ),
    ("gcc", VERSION, "says its version"),
    ("git", Args::Git, "reads the repository"),
    ("go", VERSION, "says its version"),
    ("grep", Args::Any, "searches"),
    ("head", Args::Any, "prints beginnings"),
    ("hexdump", Args::Any, "prints bytes"),
    ("hostname", Args::None, "prints the name; an argument sets it"),
    ("id", Args::Any, "prints the user"),
    ("jq", Args::Any, "prints parts of JSON"),
    ("ls", Args::Any, "lists"),
    ("make", Args::OneOf(&["--version", "-v"]), "says its version"),
    ("md5sum", Args::Any, "prints sums"),
    ("nl", Args::Any, "numbers lines"),
    ("node", VERSION, "says its version"),
    ("npm", VERSION, "says its version"),
    ("nproc", Args::Any, "prints a number"),
    ("od", Args::Any, "prints bytes"),
    ("paste", Args::Any, "joins lines"),
    ("printf", without("v", &[]), "prints its arguments; -v sets a variable"),
    ("pwd", Args::Any, "prints the directory"),
    ("python", Args::OneOf(&["--version", "-V"]), "says its version"),
    ("python3", Args::OneOf(&["--version", "-V"]), "says its version"),
    ("readlink", Args::Any, "prints where a link points"),
    ("realpath", Args::Any, "prints where a path leads"),
    ("rev", Args::Any, "turns lines round"),
    (
        "rg",
        without("z", &["--pre", "--hostname-bin", "--search-zip"]),
        "searches; these options run programs",
    ),
    ("rustc", VERSION, "says its version"),
    ("seq", Args::Text, "prints numbers"),
    ("sha1sum", Args::Any, "prints sums"),
    ("sha256sum", Args::Any, "prints sums"),
    ("sleep", Args::Text, "waits"),
    (
        "sort",
        without("oT", &["--output", "--temporary-directory", "--compress-program", "--files0-from"]),
        "sorts; -o writes",
    ),
    ("stat", Args::Any, "prints what is known of a file"),
    ("strings", Args::Any, "prints texts in files"),
    ("tac", Args::Any, "prints lines backwards"),
    ("tail", Args::Any, "prints ends"),
    ("test", without("v", &[]), "tests; -v evaluates a subscript"),
    ("tr", Args::Text, "replaces characters"),
    ("tree", without("oR", &["--output"]), "lists; -o writes"),
    ("true", Args::Text, "succeeds"),
    ("type", Args::Text, "says what a name is"),
    ("uname", Args::Any, "prints the system"),
    ("uniq", Args::OneOperand, "drops repeated lines; a second operand is written"),
    ("wc", Args::Any, "counts"),
    ("which", Args::Text, "says where a program is"),
    ("whoami", Args::None, "prints the user"),
];

/// Programs that print the content of whole trees.
const READS_TREES: &[&str] = &["rg", "grep", "egrep", "fgrep", "diff"];

/// Subcommands of `git` that only read, with what their arguments must not be.
const GIT: &[(&str, Args)] = &[
    ("blame", without("", &["--output", "--ext-diff"])),
    (
        "branch",
        Args::Only(&["-a", "-r", "-v", "-vv", "-l", "--all", "--list", "--remotes", "--show-current"]),
    ),
    ("cat-file", without("", &["--filters", "--textconv"])),
    ("count-objects", Args::Any),
    ("describe", Args::Any),
    ("diff", without("", &["--output", "--ext-diff"])),
    ("log", without("", &["--output", "--ext-diff"])),
    ("ls-files", Args::Any),
    ("ls-tree", Args::Any),
    ("merge-base", Args::Any),
    ("name-rev", Args::Any),
    ("remote", Args::Only(&["-v", "--verbose"])),
    ("rev-list", without("", &["--output"])),
    ("rev-parse", Args::Any),
    ("shortlog", without("", &["--output"])),
    ("show", without("", &["--output", "--ext-diff"])),
    ("stash", Args::Only(&["list", "show"])),
    ("status", Args::Any),
    ("tag", Args::Only(&["-l", "--list"])),
    ("worktree", Args::Only(&["list", "--porcelain"])),
];

/// Whether `program` takes its arguments for texts and opens none of them.
pub(super) fn takes_texts(program: &str) -> bool {
    TABLE.iter().any(|(name, args, _)| *name == program && matches!(args, Args::Text))
}

/// Whether `program` is known to open the files it is given, and to read them only.
pub(super) fn reads_files(program: &str) -> bool {
    let opens = |args: &Args| !matches!(args, Args::Text | Args::None | Args::OneOf(_));
    TABLE.iter().any(|(name, args, _)| *name == program && opens(args))
}

/// Whether the whole script changes nothing; the error says which part may.
pub(super) fn read_only(script: &Script, places: Places<'_>) -> Result<(), String> {
    if let Some(doubt) = script.doubts.first() {
        return Err(doubt.clone());
    }
    if let Some(write) = script.writes.first() {
        return Err(format!("it writes {}", write.text));
    }
    let moved = script.commands.iter().any(|c| c.words.first().is_some_and(|word| word.text == "cd"));
    for word in &script.reads {
        if !word.literal || word.text.starts_with("/dev/") {
            return Err(format!("it reads {}", word.text));
        }
        in_project(&word.text, word.glob, moved, places)?;
    }
    script.commands.iter().try_for_each(|command| simple(command, moved, places))
}

fn simple(command: &Simple, moved: bool, places: Places<'_>) -> Result<(), String> {
    if let Some(assignment) = command.assignments.first() {
        return Err(format!("it sets {assignment}"));
    }
    let Some((name, args)) = command.words.split_first() else { return Ok(()) };
    let Some((_, rule, _)) = TABLE.iter().find(|(known, ..)| *known == name.text) else {
        return Err(format!("{} is not known to be read-only", name.text));
    };
    let text = matches!(rule, Args::Text);
    if !text && let Some(word) = args.iter().find(|word| !word.literal) {
        return Err(format!("{} is only known when it runs", word.text));
    }
    fits(&name.text, rule, args)?;
    if !text {
        args.iter().try_for_each(|word| argument(word, moved, places))?;
        closed_trees(&name.text, args, places)?;
    }
    Ok(())
}

fn fits(name: &str, rule: &Args, args: &[Word]) -> Result<(), String> {
    let refused = |word: &Word| Err(format!("{name} {} is not known to be read-only", word.text));
    match rule {
        Args::Any | Args::Text => Ok(()),
        Args::None => args.first().map_or(Ok(()), refused),
        Args::Only(allowed) => {
            args.iter().find(|word| !allowed.contains(&word.text.as_str())).map_or(Ok(()), refused)
        }
        Args::OneOf(allowed) => match args {
            [one] if allowed.contains(&one.text.as_str()) => Ok(()),
            _ => Err(format!("{name} is not known to be read-only")),
        },
        Args::OneOperand => {
            let operand = |word: &&Word| !word.text.starts_with('-') || word.text == "-" || word.glob;
            let rest = args.iter().find(|word| word.text == "--");
            args.iter().filter(operand).nth(1).or(rest).map_or(Ok(()), refused)
        }
        Args::Directory => match args {
            [] => Err("cd without a directory leaves the project".to_owned()),
            [one] if !one.glob && !one.text.starts_with('-') && !one.text.contains("..") => Ok(()),
            [other, ..] => refused(other),
        },
        Args::Without { short, long, starts } => {
            let bad = |word: &&Word| {
                // A wildcard at the start may become an option of a file's choosing.
                let name = word.text.split('=').next().unwrap_or_default();
                (word.glob && word.text.starts_with(['*', '?', '[']))
                    || starts.iter().any(|start| word.text.starts_with(start))
                    || (name.starts_with("--") && name.len() > 2 && long.iter().any(|l| l.starts_with(name)))
                    || (name.starts_with('-')
                        && !name.starts_with("--")
                        && name.contains(|c| short.contains(c)))
            };
            args.iter().find(bad).map_or(Ok(()), refused)
        }
        Args::Git => git(args),
    }
}

fn git(args: &[Word]) -> Result<(), String> {
    let args = match args.split_first() {
        Some((first, rest)) if first.text == "--no-pager" => rest,
        Some((first, [])) if first.text == "--version" => return Ok(()),
        _ => args,
    };
    let Some((sub, rest)) = args.split_first() else { return Ok(()) };
    match GIT.iter().find(|(name, _)| *name == sub.text) {
        Some(("stash", _)) if rest.is_empty() => Err("git stash changes the tree".to_owned()),
        Some(("worktree", _)) if rest.is_empty() => Ok(()),
        Some((_, rule)) => fits(&format!("git {}", sub.text), rule, rest),
        None => Err(format!("git {} is not known to be read-only", sub.text)),
    }
}

/// An argument that may name a file must name one of the project.
fn argument(word: &Word, moved: bool, places: Places<'_>) -> Result<(), String> {
    let text = word.text.as_str();
    if !text.starts_with('-') {
        return in_project(text, word.glob, moved, places);
    }
    let value = match text.split_once('=') {
        Some((_, value)) => value,
        None if text.starts_with("--") => "",
        None => text.get(2..).unwrap_or_default(),
    };
    match value.contains('/') || value.contains("..") || value.starts_with('~') {
        true if value != "/" => in_project(value, word.glob, moved, places),
        _ => Ok(()),
    }
}

fn in_project(text: &str, glob: bool, moved: bool, places: Places<'_>) -> Result<(), String> {
    let outside = || Err(format!("{text} is not certainly inside the project"));
    let climbs = text.split('/').any(|part| part == "..");
    // `.*` may be `..`.
    let may_climb = glob
        && text
            .split('/')
            .any(|part| part.starts_with(".*") || part.starts_with(".?") || part.starts_with(".["));
    if may_climb || (climbs && (moved || glob)) {
        return outside();
    }
    match resolve(before_glob(text, glob), places.cwd, places.home) {
        Some(path) if inside(&path, places.project) => Ok(()),
        _ => outside(),
    }
}

/// The part of a path before the first component with a wildcard.
fn before_glob(text: &str, glob: bool) -> &str {
    match text.find(['*', '?', '[']).filter(|_| glob) {
        Some(at) => text[..at].rfind('/').map_or("", |slash| &text[..=slash]),
        None => text,
    }
}

/// Whether it prints the content of whole trees. The programs of the `grep` family do so with `-r` and
/// its relatives only; without them they take their input or the files they are given.
pub(super) fn reads_tree(name: &str, args: &[Word]) -> bool {
    let descends = |word: &Word| match word.text.strip_prefix("--") {
        Some(long) => long.starts_with('r') || long.starts_with('d'),
        None => word.text.starts_with('-') && word.text.contains(['r', 'R', 'd']),
    };
    READS_TREES.contains(&name) && (!name.ends_with("grep") || args.iter().any(descends))
}

/// Refuses to print whole trees that hold a closed directory.
fn closed_trees(name: &str, args: &[Word], places: Places<'_>) -> Result<(), String> {
    let cwd = places.cwd;
    let tree = reads_tree(name, args);
    let holds = |path: &Path| places.closed.iter().any(|closed| closed.starts_with(path));
    let named = |word: &&Word| !word.text.starts_with('-');
    let at = |word: &Word| resolve(before_glob(&word.text, word.glob), cwd, places.home);
    let found = args
        .iter()
        .filter(named)
        .any(|word| (word.glob || tree) && at(word).is_some_and(|path| holds(&path)));
    match found || (tree && holds(cwd)) {
        true => Err("it would reach into the state directory".to_owned()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
