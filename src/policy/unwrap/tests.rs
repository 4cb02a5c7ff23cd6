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
    ];
    for (text, expected) in table {
        assert_eq!(runs(text), *expected, "{text}");
    }
}
