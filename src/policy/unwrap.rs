//! What a simple command really runs, for rules that deny or ask.
//!
//! Looks behind wrappers (`sudo`, `env`, `xargs`, `bash -c '…'`), paths (`/bin/rm`) and options of
//! `git`. Errs towards finding too much; rules that allow never use it.

use super::hidden::{self, GIT_VALUED, SHELLS};
use super::shell::{self, Script, Simple, Word};

/// Programs that run another one named in their arguments, with how many words of their own may
/// stand before it beside options (a duration, a directory, a lock file).
const WRAPPERS: &[(&str, usize)] = &[
    ("builtin", 0),
    ("busybox", 0),
    ("bwrap", 0),
    ("caffeinate", 0),
    ("cgexec", 0),
    ("choom", 0),
    ("chroot", 1),
    ("chrt", 1),
    ("command", 0),
    ("cpulimit", 0),
    ("daemonize", 0),
    ("dbus-run-session", 0),
    ("doas", 0),
    ("eatmydata", 0),
    ("entr", 0),
    ("env", 0),
    ("exec", 0),
    ("fakeroot", 0),
    ("faketime", 1),
    ("firejail", 0),
    ("flock", 1),
    ("gosu", 1),
    ("gtimeout", 1),
    ("hyperfine", 0),
    ("ionice", 0),
    ("linux32", 0),
    ("linux64", 0),
    ("ltrace", 0),
    ("nice", 0),
    ("nohup", 0),
    ("nsenter", 0),
    ("numactl", 0),
    ("parallel", 0),
    ("perf", 1),
    ("pkexec", 0),
    ("prlimit", 0),
    ("proot", 0),
    ("proxychains", 0),
    ("rlwrap", 0),
    ("runuser", 0),
    ("sem", 0),
    ("setarch", 1),
    ("setpriv", 0),
    ("setsid", 0),
    ("ssh", 1),
    ("ssh-agent", 0),
    ("start-stop-daemon", 0),
    ("stdbuf", 0),
    ("strace", 0),
    ("su-exec", 1),
    ("sudo", 0),
    ("systemd-inhibit", 0),
    ("systemd-run", 0),
    ("taskset", 1),
    ("time", 0),
    ("timeout", 1),
    ("torsocks", 0),
    ("toybox", 0),
    ("unbuffer", 0),
    ("unshare", 0),
    ("valgrind", 0),
    ("watch", 0),
    ("watchexec", 0),
    ("xargs", 0),
    ("xvfb-run", 0),
];
/// Options of `find` after which a command stands.
const FIND_RUNS: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];
/// Wrappers inside wrappers are followed so far.
const MAX_DEPTH: usize = 8;

/// Everything a script may run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Readings {
    /// Word lists, each a way to read one command.
    pub words: Vec<Vec<Word>>,
    /// The commands among them that stand in the arguments of another.
    pub hidden: Vec<Simple>,
    /// Files that redirections in such arguments read.
    pub reads: Vec<Word>,
    /// Files that they write.
    pub writes: Vec<Word>,
    /// What stays unknown, beside the script's own doubts.
    pub doubts: Vec<String>,
}

/// All readings of a script.
pub(super) fn readings(script: &Script) -> Readings {
    let mut found = Readings { doubts: script.doubts.clone(), ..Readings::default() };
    found.script(script, 0);
    found
}

/// What one command runs beside itself.
pub(super) fn behind(command: &Simple) -> Readings {
    readings(&Script { commands: vec![command.clone()], ..Script::default() })
}

impl Readings {
    fn script(&mut self, script: &Script, depth: usize) {
        for simple in &script.commands {
            if depth > 0 {
                self.hidden.push(simple.clone());
            }
            for text in &simple.assignments {
                self.variable(text, depth);
            }
            self.read(&simple.words, depth);
        }
    }

    /// A variable that holds a command runs it sooner or later.
    fn variable(&mut self, text: &str, depth: usize) {
        if let Some(command) = hidden::command_of_variable(text).filter(|_| depth <= MAX_DEPTH) {
            let literal = !command.contains(['$', '`']);
            self.nested(&Word { text: command.to_owned(), literal, glob: false }, depth + 1);
        }
    }

    fn nested(&mut self, text: &Word, depth: usize) {
        if !text.literal {
            self.doubts.push("what it hands to a shell is only known when it runs".to_owned());
            return;
        }
        let script = shell::parse(&text.text);
        self.doubts.extend(script.doubts.iter().cloned());
        self.reads.extend(script.reads.iter().cloned());
        self.writes.extend(script.writes.iter().cloned());
        self.script(&script, depth);
    }

    /// A command in the arguments of another.
    fn command(&mut self, words: &[Word], depth: usize) {
        self.hidden.push(Simple { assignments: Vec::new(), words: words.to_vec() });
        self.read(words, depth);
    }

    fn read(&mut self, words: &[Word], depth: usize) {
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
        self.doubts.extend(hidden::code(base, args));
        args.iter().for_each(|word| self.variable(&word.text, depth));
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
            "script" | "su" | "runuser" | "flock" | "capsh" => {
                let handed = handed(args);
                if handed.is_none() && base == "su" {
                    self.doubts.push("a shell reads its commands from its input".to_owned());
                }
                handed.iter().for_each(|text| self.nested(text, depth + 1));
            }
            "ssh" => {
                let host = args.iter().position(|word| !word.text.starts_with('-'));
                let rest = host.map_or(&[][..], |at| &args[at + 1..]);
                self.nested(&joined(rest), depth + 1);
            }
            "source" | "." => {
                let seen = |word: &Word| word.literal && !word.text.starts_with("/dev/") && word.text != "-";
                if !args.first().is_some_and(seen) {
                    self.doubts.push("what it sources is only known when it runs".to_owned());
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
            None if args
                .iter()
                .find(|word| !word.text.starts_with('-'))
                .is_none_or(|file| !file.literal || file.text.starts_with("/dev/"))
                || args.iter().any(|word| word.text == "-" || word.text == "-s") =>
            {
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

/// The script behind `-c` in any of its forms.
fn handed(args: &[Word]) -> Option<Word> {
    args.iter().enumerate().find_map(|(at, word)| {
        let text = word.text.as_str();
        let attached = |text: &str| Some(Word { text: text.to_owned(), ..word.clone() });
        match text.strip_prefix("--command=") {
            Some(script) => attached(script),
            None if text == "--command" || text == "--session-command" => args.get(at + 1).cloned(),
            None if text.starts_with("--") || !text.starts_with('-') => None,
            None if text.ends_with('c') => args.get(at + 1).cloned(),
            None => text.strip_prefix("-c").and_then(attached),
        }
    })
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
