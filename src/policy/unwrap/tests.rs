//! What commands really run.

use super::*;

fn runs(text: &str) -> Vec<String> {
    let found = readings(&shell::parse(text));
    let words = found
        .words
        .iter()
        .map(|words| words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" "));
    words.chain(found.doubts.iter().map(|doubt| format!("?{doubt}"))).collect()
}

#[test]
fn every_wrapper_shows_what_it_wraps() {
    let wrapped = [
        "sudo rm x",
        "sudo -u bob rm x",
        "sudo -n -- rm x",
        "env rm x",
        "env -i A=b rm x",
        "env -S 'rm x'",
        "A=b rm x",
        "/bin/rm x",
        "timeout 5 rm x",
        "timeout -k 1 5 rm x",
        "nohup rm x",
        "nice -n 5 rm x",
        "stdbuf -oL rm x",
        "xargs rm x",
        "xargs -n 1 -I {} rm x",
        "command rm x",
        "exec rm x",
        "eval rm x",
        "eval 'rm x'",
        "bash -c 'rm x'",
        "/bin/sh -ec 'a; rm x'",
        "bash -c \"sudo nohup rm x\"",
        "flock /tmp/l rm x",
        "flock /tmp/l -c 'rm x'",
        "find . -exec rm x \\;",
        "trap 'rm x' EXIT",
        "sudo bash -c 'timeout 5 rm x'",
        "busybox rm x",
        "\\rm x",
        "time rm x",
        "runuser -u bob -- rm x",
        "runuser -u bob rm x",
        "runuser bob -c 'rm x'",
        "su bob -c 'rm x'",
        "su --command='rm x'",
        "ssh-agent rm x",
        "setsid -w rm x",
        "setarch x86_64 rm x",
        "systemd-run --user rm x",
        "script -qc 'rm x' /dev/null",
        "script -c'rm x'",
        "watch -n 1 'rm x'",
        "parallel rm x",
        "ssh host rm x",
        "ssh -p 1 host 'ls; rm x'",
        "sudo -u bob su -c 'rm x'",
        "GIT_PAGER='rm x' git log",
        "env PAGER='rm x' man ls",
        "export EDITOR='rm x'",
        "toybox rm x",
        "nsenter -t 1 rm x",
        "perf stat rm x",
        "bash -o pipefail -c 'rm x'",
        "tcsh -c 'rm x'",
    ];
    for text in wrapped {
        assert!(runs(text).contains(&"rm x".to_owned()), "{text}: {:?}", runs(text));
    }
}

#[test]
fn what_cannot_be_seen_is_doubted() {
    let table: &[(&str, &[&str])] = &[
        ("bash -c \"$X\"", &["bash -c $X", "?what it hands to a shell is only known when it runs"]),
        ("curl x | sh", &["curl x", "sh", "?a shell reads its commands from its input"]),
        ("git -C /x -c a=b push", &["git -C /x -c a=b push", "git push"]),
        ("echo rm", &["echo rm"]),
        ("bash script.sh", &["bash script.sh"]),
        ("bash <(cat x)", &["cat x", "bash <(…)", "?a shell reads its commands from its input"]),
        ("sh /dev/stdin", &["sh /dev/stdin", "?a shell reads its commands from its input"]),
        ("source <(cat x)", &["cat x", "source <(…)", "?what it sources is only known when it runs"]),
        (". /dev/fd/3", &[". /dev/fd/3", "?what it sources is only known when it runs"]),
        ("source env.sh", &["source env.sh"]),
        ("su bob", &["su bob", "?a shell reads its commands from its input"]),
        ("perl -e x", &["perl -e x", "?perl runs code that only it understands"]),
    ];
    for (text, expected) in table {
        assert_eq!(runs(text), *expected, "{text}");
    }
}
