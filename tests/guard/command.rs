//! Starting commands and what comes back from them.

use crate::support::*;
use festoon::os::capture::{Captured, capture};
use festoon::os::command::{self, CommandEvent, CommandSpec, Exit, StandardError, StandardInput};
use festoon::os::error::OsError;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

#[tokio::test]
async fn output_is_merged_in_order_and_complete_before_the_exit() {
    let temp = tempfile::tempdir().expect("temp");
    let script = "i=0; while [ $i -lt 200 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done; exit 7";
    let mut running = start(script, temp.path(), &mark()).await;
    let (output, errors, exit, left) = finish(&mut running).await;
    let expected: String = (0..200).map(|i| format!("o{i}\ne{i}\n")).collect();
    assert_eq!(String::from_utf8_lossy(&output), expected);
    assert_eq!((errors, exit, left), (Vec::new(), Exit::Code(7), false));
    assert_eq!(running.event().await, CommandEvent::Gone);
    assert_eq!(running.event().await, CommandEvent::Gone);
}

#[tokio::test]
async fn ten_megabytes_arrive_whole() {
    let temp = tempfile::tempdir().expect("temp");
    let script = "head -c 10485760 /dev/zero | tr '\\0' x; printf end";
    let mut running = start(script, temp.path(), &mark()).await;
    let (output, _, exit, _) = finish(&mut running).await;
    assert_eq!((output.len(), exit), (10 * 1024 * 1024 + 3, Exit::Code(0)));
    assert!(output.ends_with(b"xend"));
}

#[tokio::test]
async fn input_errors_and_arguments_pass_as_bytes() {
    let temp = tempfile::tempdir().expect("temp");
    let odd = "a b\n\u{e9}\"'$(x)*";
    let dir = temp.path().join(odd);
    std::fs::create_dir(&dir).expect("dir");
    let script = "cat; printf '%s|' \"$1\"; pwd -P; printf '\\377' >&2";
    let mut spec = CommandSpec::new(["sh", "-c", script, "sh", odd], &dir, environment(&mark()));
    spec.guard = binary();
    spec.stderr = StandardError::Apart;
    spec.stdin = b"in\xff\0put|".to_vec();
    let mut running = command::start(spec).await.expect("starts");
    let (output, errors, exit, left) = finish(&mut running).await;
    let real = std::fs::canonicalize(&dir).expect("real");
    let mut expected = b"in\xff\0put|".to_vec();
    expected.extend(format!("{odd}|{}\n", real.display()).bytes());
    assert_eq!(output, expected);
    assert_eq!((errors, exit, left), (b"\xff".to_vec(), Exit::Code(0), false));
}

#[tokio::test]
async fn much_standard_error_does_not_block_the_command() {
    let temp = tempfile::tempdir().expect("temp");
    let mut spec = shell("head -c 3000000 /dev/zero >&2; echo done", temp.path(), &mark());
    spec.stderr = StandardError::Apart;
    let mut running = command::start(spec).await.expect("starts");
    let (output, errors, exit, _) = finish(&mut running).await;
    assert_eq!((output, errors.len(), exit), (b"done\n".to_vec(), 3_000_000, Exit::Code(0)));
}

#[tokio::test]
async fn the_environment_is_exactly_the_given_one_and_the_guard_has_none() {
    let temp = tempfile::tempdir().expect("temp");
    let mark = mark();
    let spec = {
        let mut spec = CommandSpec::new(["env"], temp.path(), environment(&mark));
        spec.guard = binary();
        spec
    };
    let mut running = command::start(spec).await.expect("starts");
    let (output, ..) = finish(&mut running).await;
    let mut lines: Vec<String> = String::from_utf8_lossy(&output).lines().map(str::to_owned).collect();
    lines.sort();
    let mut expected: Vec<String> =
        environment(&mark).iter().map(|(name, value)| format!("{name}={value}")).collect();
    expected.sort();
    assert_eq!(lines, expected);

    let mut running = start("sleep 600", temp.path(), &mark).await;
    let guard = std::fs::read(format!("/proc/{}/environ", running.guard_pid())).expect("environ");
    assert_eq!(String::from_utf8_lossy(&guard), "");
    running.kill().await;
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let temp = tempfile::tempdir().expect("temp");
    let plain = temp.path().join("plain");
    std::fs::write(&plain, "no program").expect("write");
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).expect("mode");
    let cases: [(&str, &Path, &str); 3] = [
        ("no-such-program-anywhere", temp.path(), "No such file or directory"),
        (plain.to_str().expect("utf-8"), temp.path(), "Permission denied"),
        ("sh", &temp.path().join("gone"), "there is no directory"),
    ];
    for (program, dir, why) in cases {
        let mut spec = CommandSpec::new([program], dir, environment(&mark()));
        spec.guard = binary();
        let error = command::start(spec).await.expect_err("does not start").to_string();
        assert!(error.starts_with(&format!("cannot start {program}: ")), "{error}");
        assert!(error.contains(why), "{error}");
    }
    let mut spec = CommandSpec::new(["sh"], temp.path(), environment(&mark()));
    spec.guard = temp.path().join("no-guard");
    assert!(command::start(spec).await.is_err());
}

#[tokio::test]
async fn a_command_has_no_terminal_no_input_and_a_group_of_its_own() {
    let temp = tempfile::tempdir().expect("temp");
    let script = "read line; echo read=$?; (: < /dev/tty) 2> /dev/null || echo no tty; cut -d' ' -f1,5,6 /proc/$$/stat";
    let mut running = start(script, temp.path(), &mark()).await;
    let (pid, guard) = (running.pid(), running.guard_pid());
    let (output, ..) = finish(&mut running).await;
    let expected = format!("read=1\nno tty\n{pid} {pid} {guard}\n");
    assert_eq!(String::from_utf8_lossy(&output), expected);
}

#[tokio::test]
async fn a_hook_is_captured_within_its_bounds() {
    let temp = tempfile::tempdir().expect("temp");
    let mark = mark();
    let mut spec = shell("cat; echo why >&2; exit 2", temp.path(), &mark);
    spec.stdin = b"{}".to_vec();
    let captured = capture(spec, LONG, 1_000).await.expect("runs");
    let expected =
        Captured { exit: Exit::Code(2), stdout: b"{}".to_vec(), stderr: b"why\n".to_vec(), is_cut: false };
    assert_eq!(captured, expected);

    let spec = shell("head -c 1000000 /dev/zero; echo done >&2", temp.path(), &mark);
    let captured = capture(spec, LONG, 1_000).await.expect("runs");
    assert_eq!((captured.stdout.len(), captured.is_cut, captured.exit), (1_000, true, Exit::Code(0)));
    assert_eq!(captured.stderr, b"done\n");

    let spec = shell("sleep 600 & sleep 600", temp.path(), &mark);
    let error = capture(spec, Duration::from_millis(200), 10).await.expect_err("takes too long");
    assert!(matches!(error, OsError::TimedOut { .. }), "{error}");
    until("all are gone", Duration::from_secs(5), || marked(&mark).is_empty()).await;
}

#[tokio::test]
async fn an_open_input_is_fed_until_it_is_closed() {
    let temp = tempfile::tempdir().expect("temp");
    let mut spec = shell("cat; echo over", temp.path(), &mark());
    spec.input = StandardInput::Open;
    spec.stdin = b"first ".to_vec();
    let mut running = command::start(spec).await.expect("starts");
    let more = b"\xff\0x".repeat(1_000_000);
    running.feed(&more);
    let mut output = Vec::new();
    while output.len() < 6 + more.len() {
        match running.event().await {
            CommandEvent::Output(data) => output.extend(data),
            other => panic!("{other:?} instead of output"),
        }
    }
    assert_eq!(running.unfed(), 0);
    running.feed(b"last ");
    running.close_input();
    let (rest, _, exit, _) = finish(&mut running).await;
    output.extend(rest);
    assert!(output.starts_with(b"first \xff\0x") && output[6..6 + more.len()] == more[..]);
    assert_eq!((&output[6 + more.len()..], exit), (&b"last over\n"[..], Exit::Code(0)));
}

#[tokio::test]
async fn a_command_that_reads_nothing_is_ended_all_the_same() {
    let temp = tempfile::tempdir().expect("temp");
    let mark = mark();
    let mut spec = shell("trap '' TERM; echo up; while :; do sleep 600; done", temp.path(), &mark);
    spec.input = StandardInput::Open;
    let mut running = command::start(spec).await.expect("starts");
    running.feed(&vec![b'x'; 10_000_000]);
    assert_eq!(running.event().await, CommandEvent::Output(b"up\n".to_vec()));
    assert_eq!(running.terminate(Duration::from_millis(50)).await, Exit::Signal(9));
    assert_eq!(marked(&mark), Vec::<u32>::new());
}
