//! Which programs read what lies below a directory that they are given, or below the one where they stand.
//!
//! Owns the tables of their options. Errs towards a tree too many: what it holds is judged file by file.

use super::hidden::GIT_VALUED;
use super::readonly::reads_tree;
use super::shell::Word;

/// Long options of the `grep` family, and of `git grep`, that take the next word.
const GREP_VALUED: &[&str] = &[
    "--after-context",
    "--before-context",
    "--binary-files",
    "--context",
    "--devices",
    "--directories",
    "--exclude",
    "--exclude-dir",
    "--exclude-from",
    "--file",
    "--group-separator",
    "--include",
    "--label",
    "--max-count",
    "--max-depth",
    "--parent-basename",
    "--regexp",
    "--threads",
];
/// The same of `rg`, beside those of `grep`.
const RG_VALUED: &[&str] = &[
    "--color",
    "--colors",
    "--context-separator",
    "--dfa-size-limit",
    "--encoding",
    "--engine",
    "--field-context-separator",
    "--field-match-separator",
    "--glob",
    "--hyperlink-format",
    "--iglob",
    "--ignore-file",
    "--max-columns",
    "--max-filesize",
    "--maxdepth",
    "--path-separator",
    "--pre-glob",
    "--regex-size-limit",
    "--replace",
    "--sort",
    "--sortr",
    "--type",
    "--type-add",
    "--type-clear",
    "--type-not",
];
/// Letters of the `grep` family that take the rest of their word, or the next.
const GREP_LETTERS: &str = "ABCDdefm";
/// The same of `rg`.
const RG_LETTERS: &str = "ABCEMTdefgjmrt";
/// Programs nobody here knows more of than that they search where they stand when they are told no place.
const SEARCHERS: &[&str] = &["ack", "ag", "pt", "sift", "ucg", "ug", "ugrep"];
/// Programs that are given directories and open nothing below them.
const OPENS_NOTHING: &[&str] = &["chgrp", "chmod", "chown", "mkdir", "pushd", "rmdir", "touch"];

/// What is read below a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tree {
    /// Whether hidden files are, too.
    pub hidden: bool,
    /// Whether links in it are followed.
    pub links: bool,
    /// Whether all of it certainly is.
    pub sure: bool,
}

const ALL: Tree = Tree { hidden: true, links: false, sure: true };
const PERHAPS: Tree = Tree { hidden: true, links: true, sure: false };

/// What `program` reads below the directories among its arguments; `known` says that it is known what it does
/// with names.
pub(super) fn below(program: &str, args: &[Word], known: bool) -> Option<Tree> {
    let any = |fits: fn(&str) -> bool| args.iter().any(|word| fits(&word.text));
    match program {
        "git" => git(args),
        "rg" if any(|text| text == "--files") => None,
        "rg" => {
            let links = any(|text| text == "--follow") || has_short(args, "L", RG_LETTERS);
            Some(Tree { hidden: args.iter().any(shows_hidden), links, sure: true })
        }
        "diff" => Some(Tree { links: !any(|text| text.starts_with("--no-d")), ..ALL }),
        _ if reads_tree(program, args) => {
            // `-S` is what `-R` is elsewhere.
            let links = any(|text| text.len() > 3 && "--dereference-recursive".starts_with(text))
                || has_short(args, "RS", GREP_LETTERS);
            Some(Tree { links, ..ALL })
        }
        _ if known || OPENS_NOTHING.contains(&program) => None,
        _ => Some(PERHAPS),
    }
}

/// What it reads below the directory where it stands without being told to.
pub(super) fn here(program: &str, args: &[Word], tree: Tree) -> Option<Tree> {
    let searches = match program {
        "diff" => false,
        "git" => subcommand(args).is_some_and(|(sub, rest)| sub == "grep" && names_no_place("grep", rest)),
        "rg" => names_no_place("rg", args),
        _ if tree.sure => names_no_place("grep", args),
        _ => SEARCHERS.contains(&program),
    };
    searches.then_some(tree)
}

fn shows_hidden(word: &Word) -> bool {
    let text = word.text.as_str();
    text == "--hidden"
        || text.starts_with("--no-ignore")
        || text.starts_with("--unrestricted")
        || (text.starts_with('-') && !text.starts_with("--") && text.contains(['u', '.']))
}

/// Whether one of these letters is an option in its own right: one behind a letter that takes a value is not.
fn has_short(args: &[Word], letters: &str, valued: &str) -> bool {
    args.iter().take_while(|word| word.text != "--").any(|word| {
        let cluster = word.text.strip_prefix('-').filter(|rest| !rest.starts_with('-')).unwrap_or_default();
        cluster.chars().take_while(|c| !valued.contains(*c)).any(|c| letters.contains(c))
    })
}

/// `git grep` looks at what is tracked, unless it is told to look at everything; `git diff --no-index` compares
/// directories.
fn git(args: &[Word]) -> Option<Tree> {
    let (sub, rest) = subcommand(args)?;
    let says = |long: &str| rest.iter().any(|word| word.text.len() > 5 && long.starts_with(&*word.text));
    let everything = says("--no-index");
    match sub {
        "grep" => Some(Tree { sure: everything || says("--untracked"), ..ALL }),
        "diff" if everything => Some(ALL),
        _ => None,
    }
}

fn subcommand(args: &[Word]) -> Option<(&str, &[Word])> {
    let mut at = 0;
    while let Some(word) = args.get(at).filter(|word| word.text.starts_with('-')) {
        at += if GIT_VALUED.contains(&word.text.as_str()) { 2 } else { 1 };
    }
    let (sub, rest) = args.get(at..)?.split_first()?;
    Some((&sub.text, rest))
}

/// Whether a search is given at most its pattern. `family` says whose options these are.
fn names_no_place(family: &str, args: &[Word]) -> bool {
    let valued = |text: &str| {
        // `grep` knows its long options by their beginnings.
        let begins = |long: &&str| family == "grep" && text.len() > 4 && long.starts_with(text);
        GREP_VALUED.contains(&text)
            || GREP_VALUED.iter().any(begins)
            || (family == "rg" && RG_VALUED.contains(&text))
    };
    let letters = if family == "rg" { RG_LETTERS } else { GREP_LETTERS };
    let mut operands = 0;
    let mut has_pattern = false;
    let mut is_value = false;
    for word in args {
        let text = word.text.as_str();
        if std::mem::take(&mut is_value) {
            continue;
        }
        if text.starts_with("--") {
            has_pattern |= text.starts_with("--regexp") || text.starts_with("--file");
            is_value = valued(text);
        } else if let Some(cluster) = text.strip_prefix('-').filter(|cluster| !cluster.is_empty()) {
            let letter = cluster.find(|c| letters.contains(c));
            has_pattern |= letter.is_some_and(|at| cluster[at..].starts_with(['e', 'f']));
            is_value = letter.is_some_and(|at| at + 1 == cluster.len());
        } else {
            operands += 1;
        }
    }
    operands <= usize::from(!has_pattern)
}

#[cfg(test)]
mod tests {
    use super::super::shell;
    use super::*;

    /// `a` for everything or `v` for what is visible, `l` with links followed, `?` unless certain, `.` where it
    /// stands.
    fn reads(command: &str) -> String {
        let words = shell::parse(command).commands[0].words.clone();
        let (program, args) = (words[0].text.as_str(), &words[1..]);
        let known = super::super::readonly::reads_files(program);
        let Some(tree) = below(program, args, known) else { return String::new() };
        let is = |flag: bool, letter: &'static str| if flag { letter } else { "" };
        let kind = if tree.hidden { "a" } else { "v" };
        let place = is(here(program, args, tree).is_some(), ".");
        format!("{kind}{}{}{place}", is(tree.links, "l"), is(!tree.sure, "?"))
    }

    #[test]
    fn programs_read_trees_in_their_ways() {
        for (command, expected) in [
            ("cat a", ""),
            ("ls -R a", ""),
            ("grep x a", ""),
            ("grep -r x a", "a"),
            ("grep -r x", "a."),
            ("grep -rn --max-count 1 x", "a."),
            ("grep -rn --max-count 1 x a", "a"),
            ("grep -rn --max-c 1 x", "a."),
            ("grep -r --color x a", "a"),
            ("grep -R x a", "al"),
            ("grep -nRi x a", "al"),
            ("grep -r -e Rust a", "a"),
            ("grep -reRust a", "a"),
            ("grep --dereference-rec x", "al."),
            ("rg x", "v."),
            ("rg x a", "v"),
            ("rg -r y x", "v."),
            ("rg --max-depth 3 x", "v."),
            ("rg -uu x a", "a"),
            ("rg -L x a", "vl"),
            ("rg --follow --hidden x", "al."),
            ("rg -tL x a", "v"),
            ("rg --files a", ""),
            ("diff a b", "al"),
            ("diff -r --no-dereference a b", "a"),
            ("git grep x", "a?."),
            ("git grep x -- a", "a?"),
            ("git grep --no-index x", "a."),
            ("git --no-pager grep --untracked -e x a", "a"),
            ("git diff --no-index a b", "a"),
            ("git diff a", ""),
            ("git log", ""),
            ("ag x", "al?."),
            ("tar cf - a", "al?"),
            ("mkdir -p a", ""),
        ] {
            assert_eq!(reads(command), expected, "{command}");
        }
    }
}
