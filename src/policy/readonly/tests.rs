//! Commands that are read-only, and those that only look so.

use super::super::shell;
use super::*;

fn judge(text: &str) -> Result<(), String> {
    let project = [PathBuf::from("/p"), PathBuf::from("/also")];
    let closed = [PathBuf::from("/h/state/teams")];
    let (cwd, home) = (Path::new("/p"), Some(Path::new("/h")));
    let places = Places { cwd, project: &project, home, closed: &closed };
    read_only(&shell::parse(text), places)
}

#[test]
fn harmless_commands() {
    let commands = [
        "ls -la",
        "ls src /p/src /also/x",
        "cat src/*.rs | head -20 | wc -l",
        "git status && git diff --stat HEAD~2 -- src",
        "git log --oneline origin/main..HEAD",
        "git --no-pager show HEAD@{1}",
        "git branch --show-current",
        "git stash list",
        "grep -rn 'a/b' src 2>/dev/null",
        "rg --files -g '*.rs'",
        "find . -name '*.rs' -not -path './target/*'",
        "cd src && ls",
        "echo \"$HOME\" $(date +%F)",
        "sort -k2,2 -u x | uniq -c",
        "cut -d/ -f2 x",
        "wc -l < src/a",
        "[ -f x ] && cat x",
        "for f in a b; do echo $f; done",
        "cargo --version",
        "cat a/../b",
    ];
    for text in commands {
        assert_eq!(judge(text), Ok(()), "{text}");
    }
}

#[test]
fn harmful_ones() {
    let table = [
        ("rm x", "rm is not known to be read-only"),
        ("ls; rm x", "rm is not known to be read-only"),
        ("ls > x", "it writes x"),
        ("cat /etc/passwd", "/etc/passwd is not certainly inside the project"),
        ("cat ../x", "../x is not certainly inside the project"),
        ("cat ~/.ssh/id", "~/.ssh/id is not certainly inside the project"),
        ("cat ~bob/x", "~bob/x is not certainly inside the project"),
        ("cat /p/../etc/x", "/p/../etc/x is not certainly inside the project"),
        ("cat /e*/passwd", "/e*/passwd is not certainly inside the project"),
        ("cat .*/x", ".*/x is not certainly inside the project"),
        ("cat < /etc/passwd", "/etc/passwd is not certainly inside the project"),
        ("cat < /dev/tcp/a/80", "it reads /dev/tcp/a/80"),
        ("cat $X", "$X is only known when it runs"),
        ("cat {a,/etc/passwd}", "{a,/etc/passwd} is only known when it runs"),
        ("grep -f/etc/passwd x", "/etc/passwd is not certainly inside the project"),
        ("grep --file=/etc/passwd x", "/etc/passwd is not certainly inside the project"),
        ("cd src && cat ../../x", "../../x is not certainly inside the project"),
        ("cd .. && ls", "cd .. is not known to be read-only"),
        ("cd && ls", "cd without a directory leaves the project"),
        ("cd /tmp", "/tmp is not certainly inside the project"),
        ("LD_PRELOAD=x ls", "it sets LD_PRELOAD=x"),
        ("PATH=/x; ls", "it sets PATH=/x"),
        ("find . -delete", "find -delete is not known to be read-only"),
        ("find . -exec cat {} ;", "find -exec is not known to be read-only"),
        ("find . -fprint x", "find -fprint is not known to be read-only"),
        ("sort -o x x", "sort -o is not known to be read-only"),
        ("sort -uo x x", "sort -uo is not known to be read-only"),
        ("sort --outp=x x", "sort --outp=x is not known to be read-only"),
        ("sort *", "sort * is not known to be read-only"),
        ("uniq a b", "uniq b is not known to be read-only"),
        ("uniq - b", "uniq b is not known to be read-only"),
        ("uniq -- -a b", "uniq -- is not known to be read-only"),
        ("git diff --output=x", "git diff --output=x is not known to be read-only"),
        ("git log --ou x", "git log --ou is not known to be read-only"),
        ("git -c core.pager=x log", "git -c is not known to be read-only"),
        ("git push", "git push is not known to be read-only"),
        ("git stash", "git stash changes the tree"),
        ("git stash pop", "git stash pop is not known to be read-only"),
        ("git branch x", "git branch x is not known to be read-only"),
        ("git reflog expire --all", "git reflog is not known to be read-only"),
        ("rg --pre sh x", "rg --pre is not known to be read-only"),
        ("rg -nz x", "rg -nz is not known to be read-only"),
        ("hostname x", "hostname x is not known to be read-only"),
        ("date 01020304", "date 01020304 is not known to be read-only"),
        ("cat x | tee y", "tee is not known to be read-only"),
        ("cat <<E\n$(rm x)\nE", "rm is not known to be read-only"),
        ("echo $(rm x)", "rm is not known to be read-only"),
        ("make", "make is not known to be read-only"),
        ("cat x | node", "node is not known to be read-only"),
        ("python3 --version x", "python3 is not known to be read-only"),
        ("./ls", "./ls is not known to be read-only"),
        ("\\cat x; $Y", "the name of a command is only known when it runs"),
        ("test -v 'a[$(x)]'", "test -v is not known to be read-only"),
        ("echo 'a", "its syntax is not understood"),
    ];
    for (text, why) in table {
        assert_eq!(judge(text), Err(why.to_owned()), "{text}");
    }
}

#[test]
fn a_tree_that_holds_the_state_is_not_printed() {
    let project = [PathBuf::from("/h")];
    let closed = [PathBuf::from("/h/state/teams")];
    let home = Path::new("/h");
    let places = Places { cwd: home, project: &project, home: Some(home), closed: &closed };
    let judge = |text: &str| read_only(&shell::parse(text), places);
    let refused = Err("it would reach into the state directory".to_owned());
    for text in [
        "grep -r key .",
        "grep -nR key",
        "grep key -r",
        "egrep --recursive key",
        "grep --dereference-recursive key",
        "fgrep -d recurse key",
        "grep key *",
        "rg key",
        "diff . other",
    ] {
        assert_eq!(judge(text), refused, "{text}");
    }
    assert_eq!(judge("ls | grep -oE '[.]rs$'"), Ok(()));
    assert_eq!(judge("grep key notes"), Ok(()));
    assert_eq!(judge("cat */*/*"), refused);
    assert_eq!(judge("cat notes"), Ok(()));
}

#[test]
fn the_table_has_no_program_twice() {
    let mut names: Vec<&str> = TABLE.iter().map(|(name, ..)| *name).collect();
    let count = names.len();
    names.dedup();
    assert_eq!((names.len(), names.is_sorted()), (count, true));
}
