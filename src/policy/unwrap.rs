//! What a simple command really runs, for rules that deny or ask.
//!
//! Looks behind wrappers (`sudo`, `env`, `xargs`, `bash -c '…'`), paths (`/bin/rm`) and options of
//! `git`. Errs towards finding too much; rules that allow never use it.

use super::shell::{self, Script, Simple, Word};

/// Programs that run another one named in their arguments, with how many words of their own may
/// stand before it beside options (a duration, a directory, a lock file).
const WRAPPERS: &[(&str, usize)] = &[
    ("builtin", 0),
    ("busybox", 0),
    ("caffeinate", 0),
    ("chroot", 1),
    ("chrt", 1),
    ("command", 0),
    ("doas", 0),
    ("env", 0),
    ("exec", 0),
    ("flock", 1),
    ("gtimeout", 1),
    ("ionice", 0),
    ("ltrace", 0),
    ("nice", 0),
    ("nohup", 0),
    ("parallel", 0),
    ("setsid", 0),
    ("stdbuf", 0),
    ("strace", 0),
    ("sudo", 0),
    ("taskset", 1),
    ("time", 0),
    ("timeout", 1),
    ("unshare", 0),
    ("watch", 0),
    ("xargs", 0),
];
/// Shells that take a script after `-c`.
const SHELLS: &[&str] = &["ash", "bash", "dash", "fish", "ksh", "sh", "zsh"];
/// Options of `find` after which a command stands.
const FIND_RUNS: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];
/// Options of `git` that take the next word, before the subcommand.
const GIT_VALUED: &[&str] = &["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"];
/// Wrappers inside wrappers are followed so far.
const MAX_DEPTH: usize = 8;

/// Everything a script may run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Readings {
    /// Word lists, each a way to read one command.
    pub words: Vec<Vec<Word>>,
    /// What stays unknown, beside the script's own doubts.
    pub doubts: Vec<String>,
}

/// All readings of a script.
pub(super) fn readings(script: &Script) -> Readings {
    let mut found = Readings { words: Vec::new(), doubts: script.doubts.clone() };
    found.script(script, 0);
    found
}

impl Readings {
    fn script(&mut self, script: &Script, depth: usize) {
        for Simple { words, .. } in &script.commands {
            self.command(words, depth);
        }
    }

    fn nested(&mut self, text: &Word, depth: usize) {
        if !text.literal {
            self.doubts.push("what it hands to a shell is only known when it runs".to_owned());
            return;
        }
        let script = shell::parse(&text.text);
        self.doubts.extend(script.doubts.iter().cloned());
        self.script(&script, depth);
    }

    fn command(&mut self, words: &[Word], depth: usize) {
        let Some((name, args)) = words.split_first() else { return };
        if depth > MAX_DEPTH {
            self.doubts.push("too many wrappers".to_owned());
            return;
        }
        self.words.push(words.to_vec());
        let base = name.text.rsplit('/').next().unwrap_or_default();
        if base != name.text {
            let named = Word { text: base.to_owned(), ..name.clone() };
            self.words.push([&[named], args].concat());
        }
        if let Some((_, own)) = WRAPPERS.iter().find(|(wrapper, _)| *wrapper == base) {
            self.wrapped(args, *own, depth);
        }
        if SHELLS.contains(&base) {
            self.shell(args, depth);
        }
        match base {
            "env" => {
                let split =
                    |word: &&Word| word.text.starts_with("-S") || word.text.starts_with("--split-string");
                if let Some(at) = args.iter().position(|word| split(&word)) {
                    let attached =
                        args[at].text.trim_start_matches("-S").trim_start_matches("--split-string=");
                    let text = match attached.is_empty() || attached.starts_with("--split") {
                        true => args.get(at + 1).cloned(),
                        false => Some(Word { text: attached.to_owned(), ..args[at].clone() }),
                    };
                    text.iter().for_each(|text| self.nested(text, depth + 1));
                }
            }
            "eval" | "watch" | "parallel" => self.nested(&joined(args), depth + 1),
            "trap" => args.iter().take(1).for_each(|text| self.nested(text, depth + 1)),
            "script" | "su" | "runuser" | "flock" => {
                let after = args.iter().position(|word| word.text == "-c" || word.text == "--command");
                if let Some(text) = after.and_then(|at| args.get(at + 1)) {
                    self.nested(text, depth + 1);
                }
            }
            "find" | "fd" => {
                let runs = |word: &Word| FIND_RUNS.contains(&word.text.as_str()) || word.text == "-x";
                for at in (0..args.len()).filter(|at| runs(&args[*at])) {
                    let rest = &args[at + 1..];
                    let end = rest.iter().position(|word| word.text == ";" || word.text == "+");
                    self.command(&rest[..end.unwrap_or(rest.len())], depth + 1);
                }
            }
            "git" => self.git(name, args),
            _ => {}
        }
    }

    /// Tries every word that may be the wrapped command: options may or may not take a value.
    fn wrapped(&mut self, args: &[Word], mut own: usize, depth: usize) {
        let mut after_option = false;
        for (at, word) in args.iter().enumerate() {
            if word.text == "--" || word.text.starts_with('-') && word.literal {
                after_option = word.text != "--" && !word.text.contains('=');
                continue;
            }
            if is_assignment(&word.text) {
                continue;
            }
            if !word.literal {
                self.doubts.push("the name of a command is only known when it runs".to_owned());
            }
            self.command(&args[at..], depth + 1);
            match (std::mem::take(&mut after_option), own) {
                (true, _) => {}
                (false, 0) => return,
                (false, _) => own -= 1,
            }
        }
    }

    fn shell(&mut self, args: &[Word], depth: usize) {
        let is_c = |word: &Word| {
            word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains('c')
        };
        match args.iter().position(is_c) {
            Some(at) => match args[at + 1..].iter().find(|word| !word.text.starts_with(['-', '+'])) {
                Some(text) => self.nested(text, depth + 1),
                None => self.doubts.push("a shell without a script".to_owned()),
            },
            None if args.iter().all(|word| word.text.starts_with('-')) => {
                self.doubts.push("a shell reads its commands from its input".to_owned());
            }
            None => {}
        }
    }

    /// `git -C dir -c key=value push` is also `git push`.
    fn git(&mut self, name: &Word, args: &[Word]) {
        let mut at = 0;
        while let Some(word) = args.get(at).filter(|word| word.text.starts_with('-')) {
            at += if GIT_VALUED.contains(&word.text.as_str()) { 2 } else { 1 };
        }
        if at > 0 && at < args.len() {
            let git = Word { text: "git".to_owned(), ..name.clone() };
            self.words.push([&[git], &args[at..]].concat());
        }
    }
}

fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

fn joined(words: &[Word]) -> Word {
    Word {
        text: words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" "),
        literal: words.iter().all(|word| word.literal),
        glob: words.iter().any(|word| word.glob),
    }
}

#[cfg(test)]
mod tests;
