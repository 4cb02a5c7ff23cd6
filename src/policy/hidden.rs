//! Programs that run what their arguments, input or variables say, in a language of their own.
//!
//! Owns the tables behind [`super::unwrap`]: code that is handed over (`python -c`, `awk 'system()'`),
//! options that start a program (`tar --to-command`), variables that name one (`GIT_PAGER`). What runs
//! there cannot be read here. Errs towards finding too much.

use super::shell::Word;

/// Shells that take a script after `-c`.
pub(super) const SHELLS: &[&str] = &[
    "ash", "bash", "csh", "dash", "elvish", "fish", "ksh", "mksh", "nu", "pwsh", "rbash", "sh", "tcsh",
    "xonsh", "yash", "zsh",
];
/// Programs whose whole business is to run what they are told: a rule that begins with one of them means
/// whatever it runs.
const OPEN: &[&str] = &[
    "bun", "deno", "doas", "docker", "eval", "kubectl", "lua", "node", "nodejs", "perl", "php", "podman",
    "pypy", "pypy3", "python", "ruby", "runuser", "ssh", "su", "sudo",
];
/// Interpreters with the options behind which code stands: letters of short ones, long ones.
const INTERPRETERS: &[(&str, &str, &[&str])] = &[
    ("bun", "e", &["--eval", "eval"]),
    ("deno", "", &["eval", "repl"]),
    ("elixir", "e", &["--eval"]),
    ("erl", "", &["-eval"]),
    ("groovy", "e", &[]),
    ("guile", "c", &[]),
    ("julia", "eE", &["--eval", "--print"]),
    ("lua", "e", &[]),
    ("node", "ep", &["--eval", "--print"]),
    ("nodejs", "ep", &["--eval", "--print"]),
    ("osascript", "e", &[]),
    ("perl", "eE", &[]),
    ("php", "rBRE", &["--run"]),
    ("pypy", "c", &[]),
    ("pypy3", "c", &[]),
    ("python", "c", &[]),
    ("Rscript", "e", &[]),
    ("ruby", "e", &[]),
    ("scala", "e", &[]),
    ("tclsh", "", &[]),
];
/// Programs that hand commands on whatever their arguments are: to another machine or terminal, to a later
/// time, out of an editor or debugger.
const HANDS_ON: &[&str] = &[
    "at", "batch", "crontab", "ed", "emacs", "ex", "expect", "gdb", "lldb", "mosh", "nvim", "rsh", "screen",
    "ssh", "tmux", "vi", "view", "vim",
];
/// Options and arguments that start a program, by their beginnings.
const RUN_OPTIONS: &[(&str, &[&str])] = &[
    ("docker", &["exec", "run", "compose"]),
    ("gcc", &["-wrapper"]),
    ("kubectl", &["exec", "run"]),
    ("man", &["-P", "--pager", "-H", "--html"]),
    ("mysql", &["\\!", "system "]),
    ("nc", &["-e", "-c", "--exec", "--sh-exec"]),
    ("ncat", &["-e", "-c", "--exec", "--sh-exec"]),
    ("podman", &["exec", "run", "compose"]),
    ("psql", &["\\!", "--command=\\!"]),
    ("rg", &["--pre", "--hostname-bin"]),
    ("rsync", &["-e", "--rsh", "--rsync-path"]),
    ("scp", &["-S", "-o"]),
    ("sftp", &["-S", "-o"]),
    ("socat", &["EXEC", "SYSTEM", "exec", "system"]),
    ("sort", &["--comp"]),
    ("split", &["--filter"]),
    ("sqlite3", &[".shell", ".system", ".sh", ".sy"]),
    ("tar", &["--checkpoint-a", "--to-c", "--use-c", "--rsh", "--info", "--new-v", "-I", "-F"]),
    ("zip", &["-TT", "--unzip"]),
];
/// Parts of names of git's settings whose values are commands or lead to some.
const GIT_RUNS: &[&str] = &[
    "alias",
    "askpass",
    "cmd",
    "command",
    "driver",
    "editor",
    "exec",
    "external",
    "filter",
    "fsmonitor",
    "helper",
    "hook",
    "include",
    "pager",
    "program",
    "textconv",
];
/// Options of `git` that take the next word, before the subcommand.
pub(super) const GIT_VALUED: &[&str] =
    &["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"];
/// Variables whose value is a command.
const VARIABLES: &[&str] = &[
    "BROWSER",
    "EDITOR",
    "GIT_ASKPASS",
    "GIT_EDITOR",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_PROXY_COMMAND",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "LESSCLOSE",
    "LESSOPEN",
    "MANPAGER",
    "PAGER",
    "PROMPT_COMMAND",
    "RSYNC_RSH",
    "RUSTC_WRAPPER",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "SYSTEMD_PAGER",
    "TAR_OPTIONS",
    "VISUAL",
];

/// The name of a program without its version: `python3.12` is `python`.
fn family(base: &str) -> &str {
    match base.starts_with("python") {
        true => "python",
        false => base,
    }
}

/// Whether a rule that begins with this program means whatever it is told to run.
pub(super) fn is_open(program: &str) -> bool {
    let base = program.rsplit('/').next().unwrap_or_default();
    OPEN.contains(&family(base)) || SHELLS.contains(&base)
}

/// The command in `NAME=command`, when the variable is one that holds a command.
pub(super) fn command_of_variable(text: &str) -> Option<&str> {
    let (name, value) = text.split_once('=')?;
    VARIABLES.contains(&name).then_some(value)
}

/// What a program with these arguments runs and nobody can read; `None` when nothing of that kind.
pub(super) fn code(base: &str, args: &[Word]) -> Option<String> {
    let says = |what: &str| Some(format!("{base} runs {what}"));
    if HANDS_ON.contains(&base) {
        return says("what it is told elsewhere");
    }
    if let Some((_, starts)) = RUN_OPTIONS.iter().find(|(name, _)| *name == base)
        && args.iter().any(|word| starts.iter().any(|start| word.text.starts_with(start)))
    {
        return says("a program that an argument names");
    }
    match base {
        "awk" | "gawk" | "mawk" | "nawk" => awk(args).then(|| says("commands of its program"))?,
        "sed" | "gsed" => sed(args).then(|| says("commands of its program"))?,
        "git" => git(args).then(|| says("commands of its settings"))?,
        _ => interpreter(base, args).then(|| says("code that only it understands"))?,
    }
}

fn interpreter(base: &str, args: &[Word]) -> bool {
    let Some((_, short, long)) = INTERPRETERS.iter().find(|(name, ..)| *name == family(base)) else {
        return false;
    };
    let handed = |word: &Word| {
        let text = word.text.as_str();
        long.iter().any(|long| text == *long || text.strip_prefix(long).is_some_and(|t| t.starts_with('=')))
            || (text.starts_with('-') && !text.starts_with("--") && text.contains(|c| short.contains(c)))
    };
    // Options of the interpreter stand before the file; what follows is the file's own.
    let own = args.iter().take_while(|word| word.text.starts_with('-') && word.text != "-");
    let own: Vec<&Word> = own.collect();
    let says_version =
        |word: &&Word| matches!(word.text.as_str(), "-V" | "-v" | "--version" | "-h" | "--help");
    let from_input = match args.get(own.len()) {
        None => !own.iter().any(says_version),
        Some(file) => file.text == "-" || file.text.starts_with("/dev/") || !file.literal,
    };
    from_input || own.into_iter().any(handed) || args.first().is_some_and(handed)
}

/// Whether an awk program may run commands, or is not to be seen.
fn awk(args: &[Word]) -> bool {
    args.iter().any(|word| {
        let text = word.text.as_str();
        !word.literal
            || ["system", "getline", "|", "@load", "@include"].iter().any(|runs| text.contains(runs))
            || ["-f", "-E", "-i", "-l", "--file", "--exec", "--include", "--load"]
                .iter()
                .any(|o| text.starts_with(o))
    })
}

/// Whether a sed program may run commands (`e`, the flag `e` of `s`), or is not to be seen.
fn sed(args: &[Word]) -> bool {
    args.iter().any(|word| {
        let text = word.text.trim_end();
        let command = |at: usize| {
            let before = text[..at].chars().next_back();
            let after = text[at + 1..].chars().next();
            before.is_none_or(|c| "0123456789$;{} \n/!|,#".contains(c))
                && after.is_none_or(|c| " ;}\n\t".contains(c))
        };
        !word.literal
            || (!text.starts_with("--") && text.starts_with("-f"))
            || text.starts_with("--file")
            || (!text.starts_with('-') && text.match_indices('e').any(|(at, _)| command(at)))
            || (text.starts_with('s')
                && text.rsplit(['/', '|', ',', '#']).next().is_some_and(|flags| {
                    flags.contains('e') && flags.chars().all(|c| "gpiImMe0123456789".contains(c))
                }))
    })
}

/// Whether git is handed a setting that runs something, or runs what its arguments say.
fn git(args: &[Word]) -> bool {
    let setting = |text: &str| {
        let key = text.split('=').next().unwrap_or_default().to_ascii_lowercase();
        GIT_RUNS.iter().any(|part| key.contains(part)) || text.contains("=!")
    };
    let mut handed = false;
    let mut at = 0;
    while let Some(word) = args.get(at).filter(|word| word.text.starts_with('-')) {
        at += if GIT_VALUED.contains(&word.text.as_str()) { 2 } else { 1 };
        let value = args.get(at - 1).filter(|_| word.text == "-c");
        handed |= value.is_some_and(|value| setting(&value.text) || !value.literal);
    }
    let sub = args.iter().position(|word| ["config", "bisect", "submodule"].contains(&word.text.as_str()));
    let rest = sub.map_or(&[][..], |at| &args[at..]);
    let configured = match rest.split_first() {
        Some((sub, rest)) if sub.text == "config" => {
            rest.len() > 1 && rest.iter().any(|word| setting(&word.text))
        }
        Some((_, rest)) => rest.first().is_some_and(|word| word.text == "run" || word.text == "foreach"),
        None => false,
    };
    let option = |word: &Word| {
        [
            "--ext-diff",
            "--upload-pack",
            "--receive-pack",
            "--exec",
            "--extcmd",
            "--open-files",
            "--config-env",
        ]
        .iter()
        .any(|start| word.text.starts_with(start))
            || ((word.text == "-x" || word.text.ends_with("-filter"))
                && args.iter().any(|w| ["rebase", "difftool", "filter-branch"].contains(&w.text.as_str())))
    };
    handed || configured || args.iter().any(option)
}

#[cfg(test)]
mod tests {
    use super::super::shell;
    use super::*;

    fn hides(command: &str) -> bool {
        let words = shell::parse(command).commands[0].words.clone();
        code(&words[0].text, &words[1..]).is_some()
    }

    #[test]
    fn what_runs_code_of_its_own_is_known() {
        for command in [
            "python -c 'x'",
            "python3.12 -Ic x",
            "python3",
            "python - <<E\nx\nE",
            "perl -ne 'x'",
            "perl -e x",
            "node -e x",
            "node --eval=x",
            "ruby -e x",
            "php -r x",
            "deno eval x",
            "awk 'BEGIN { system(\"rm x\") }'",
            "awk '{ print | \"sh\" }' f",
            "awk -f prog f",
            "sed '1e rm x' f",
            "sed e f",
            "sed 's/a/rm x/e' f",
            "sed -n 's/a/b/gep' f",
            "sed -f prog f",
            "git -c alias.x='!rm' x",
            "git -c core.pager=rm log",
            "git -c core.sshCommand=x fetch",
            "git config alias.x '!rm'",
            "git bisect run rm x",
            "git submodule foreach rm x",
            "git rebase -x 'rm x' main",
            "git rebase --exec 'rm x' main",
            "git grep --open-files-in-pager=rm x",
            "ssh host rm x",
            "tmux new-session rm",
            "tar --checkpoint-action=exec=x -cf a b",
            "sort --compress-program=x a",
            "docker exec c rm x",
            "vim -c '!rm x'",
            "psql -c '\\! rm x' db",
        ] {
            assert!(hides(command), "{command}");
        }
    }

    #[test]
    fn ordinary_commands_hide_nothing() {
        for command in [
            "python x.py",
            "python3 -m pytest -e",
            "python3 --version",
            "node script.js -e",
            "perl script.pl",
            "awk '{ print $1 }' f",
            "sed -n 1,5p f",
            "sed 's/one/two/g' f",
            "sed -e 's/a/b/' f",
            "git log --oneline",
            "git -c user.name=a commit -m x",
            "git -C sub status",
            "git config user.email a@b",
            "tar -czf a.tgz b",
            "cargo test",
            "docker ps",
            "make",
        ] {
            assert!(!hides(command), "{command}");
        }
    }
}
