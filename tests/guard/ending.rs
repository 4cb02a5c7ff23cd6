//! However an owner or a command ends, nothing of it stays.

use crate::support::*;
use festoon::os::command::{CommandEvent, Exit};
use festoon::os::process::{self, Signal};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What the contract promises after the death of the owner (contract §16).
const PROMISED: Duration = Duration::from_secs(5);

#[tokio::test]
async fn ending_takes_those_along_that_shield_themselves() {
    let temp = tempfile::tempdir().expect("temp");
    let mark = mark();
    let mut running = start(STUBBORN, temp.path(), &mark).await;
    until("the child is up", LONG, || temp.path().join("ready").exists()).await;
    assert!(!marked(&mark).is_empty());
    running.terminate(Duration::from_millis(100)).await;
    assert_eq!(marked(&mark), Vec::<u32>::new());
}

#[tokio::test]
async fn term_comes_first_and_is_heard() {
    let temp = tempfile::tempdir().expect("temp");
    let script = "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done";
    let mut running = start(script, temp.path(), &mark()).await;
    assert_eq!(running.event().await, CommandEvent::Output(b"up\n".to_vec()));
    running.end(LONG);
    let (output, _, exit, _) = finish(&mut running).await;
    // The shell may tell of its child, which was asked as well.
    assert!(output.ends_with(b"bye\n"), "{output:?}");
    assert_eq!(exit, Exit::Code(3));
    assert_eq!(running.event().await, CommandEvent::Gone);
}

#[tokio::test]
async fn kill_does_not_ask_and_reaches_the_stopped() {
    let temp = tempfile::tempdir().expect("temp");
    let mark = mark();
    let script = "trap '' TERM; kill -STOP $$";
    let mut running = start(script, temp.path(), &mark).await;
    assert_eq!(running.kill().await, Exit::Signal(9));
    assert_eq!(marked(&mark), Vec::<u32>::new());
}

#[tokio::test]
async fn something_that_forks_all_the_time_does_not_outrun_the_end() {
    let temp = tempfile::tempdir().expect("temp");
    let mark = mark();
    // Each generation leaves its session, starts the next and ends.
    let script = r#"cat > hop <<'END'
trap '' TERM
[ -e stop ] && exit
echo x >> hops
setsid sh ./hop &
END
        sh ./hop; sleep 600"#;
    let mut running = start(script, temp.path(), &mark).await;
    let hops = temp.path().join("hops");
    until("it hops", LONG, || std::fs::metadata(&hops).is_ok_and(|meta| meta.len() > 20)).await;
    running.kill().await;
    let left = marked(&mark);
    // Whatever the outcome, the test leaves nothing hopping.
    std::fs::write(temp.path().join("stop"), "").expect("stop");
    assert_eq!(left, Vec::<u32>::new());
}

#[tokio::test]
async fn dropping_ends_everything() {
    let temp = tempfile::tempdir().expect("temp");
    let mark = mark();
    let running = start(STUBBORN, temp.path(), &mark).await;
    until("the child is up", LONG, || temp.path().join("ready").exists()).await;
    drop(running);
    until("all are gone", PROMISED, || marked(&mark).is_empty()).await;
}

#[tokio::test]
async fn what_a_command_leaves_behind_lives_until_the_owner_lets_go() {
    let temp = tempfile::tempdir().expect("temp");
    let mark = mark();
    let script = "(while [ ! -e go ]; do sleep 0.02; done; echo later; exec sleep 600) & echo $!; exit 4";
    let mut running = start(script, temp.path(), &mark).await;
    let guard = process::of(running.guard_pid()).expect("the guard lives");
    let (output, _, exit, left) = finish(&mut running).await;
    let child: u32 = String::from_utf8_lossy(&output).trim().parse().expect("a pid");
    assert_eq!((exit, left), (Exit::Code(4), true));
    std::fs::write(temp.path().join("go"), "").expect("go");
    assert_eq!(running.event().await, CommandEvent::Output(b"later\n".to_vec()));
    assert!(marked(&mark).contains(&child));
    drop(running);
    until("all are gone", PROMISED, || marked(&mark).is_empty() && !process::is_alive(&guard)).await;
}

#[tokio::test]
async fn the_end_of_the_last_one_left_behind_ends_the_guard() {
    let temp = tempfile::tempdir().expect("temp");
    let mut running = start("(while [ ! -e go ]; do sleep 0.02; done) &", temp.path(), &mark()).await;
    let (_, _, exit, left) = finish(&mut running).await;
    assert_eq!((exit, left), (Exit::Code(0), true));
    std::fs::write(temp.path().join("go"), "").expect("go");
    assert_eq!(running.event().await, CommandEvent::Gone);
}

#[tokio::test]
async fn a_killed_guard_takes_its_session_along() {
    let temp = tempfile::tempdir().expect("temp");
    let mark = mark();
    let mut running = start("sleep 600 & sleep 600", temp.path(), &mark).await;
    until("both run", LONG, || marked(&mark).len() >= 2).await;
    let guard = process::of(running.guard_pid()).expect("the guard lives");
    assert!(process::signal(&guard, Signal::Kill).expect("signal"));
    assert_eq!(running.event().await, CommandEvent::Exited { exit: Exit::Lost, left: false });
    assert_eq!(running.event().await, CommandEvent::Gone);
    until("all are gone", PROMISED, || marked(&mark).is_empty()).await;
}

#[tokio::test]
async fn a_guard_that_is_asked_to_end_ends_all_below_it() {
    let temp = tempfile::tempdir().expect("temp");
    let mark = mark();
    let mut running = start(STUBBORN, temp.path(), &mark).await;
    until("the child is up", LONG, || temp.path().join("ready").exists()).await;
    let guard = process::of(running.guard_pid()).expect("the guard lives");
    assert!(process::signal(&guard, Signal::Terminate).expect("signal"));
    running.wait_gone().await;
    assert_eq!(marked(&mark), Vec::<u32>::new());
}

/// Runs in a process of its own, which the tests below kill: starts a command and never ends.
#[tokio::test]
#[ignore = "the owner that other tests kill"]
async fn owner() {
    let Ok(dir) = std::env::var("OWNER_DIR") else { return };
    let mark = std::env::var(MARK).expect("a mark");
    let mut running = start(STUBBORN, Path::new(&dir), &mark).await;
    running.wait_gone().await;
}

#[tokio::test]
async fn after_kill_9_of_the_owner_everything_is_gone() {
    let temp = tempfile::tempdir().expect("temp");
    let mark = mark();
    let mut owner = Command::new(std::env::current_exe().expect("we"))
        .args(["--ignored", "--exact", "ending::owner"])
        .env("OWNER_DIR", temp.path())
        .env(MARK, &mark)
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    until("the child is up", LONG, || temp.path().join("ready").exists()).await;
    let guards: Vec<_> = process::descendants(owner.id())
        .into_iter()
        .filter(|id| process::arguments(id.pid) == ["festoon", "__guard"])
        .collect();
    assert_eq!(guards.len(), 1);
    owner.kill().expect("kill -9");
    owner.wait().expect("reaped");
    until("all are gone", PROMISED, || marked(&mark).is_empty()).await;
    until("the guard is gone", PROMISED, || !process::is_alive(&guards[0])).await;
}

#[tokio::test]
async fn a_guard_without_an_order_goes_when_its_owner_does() {
    let mut guard = Command::new(binary())
        .arg("__guard")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    drop(guard.stdin.take());
    let status = guard.wait().expect("ends");
    assert!(status.success());
}

#[tokio::test]
async fn signals_to_a_session_reach_all_its_groups() {
    let temp = tempfile::tempdir().expect("temp");
    let mark = mark();
    // `set -m` gives each background job a process group of its own.
    let mut running = start("set -m; sleep 600 & sleep 600 & sleep 600", temp.path(), &mark).await;
    until("all run", LONG, || marked(&mark).len() == 4).await;
    let members: Vec<u32> = process::session_members(running.guard_pid()).iter().map(|id| id.pid).collect();
    assert_eq!(members.len(), 5, "the guard, the shell and its three children");
    assert_eq!(process::signal_session(running.guard_pid(), Signal::Kill), 5);
    until("all are gone", PROMISED, || marked(&mark).is_empty()).await;
    assert_eq!(running.wait_gone().await, Exit::Lost);
}

#[tokio::test]
async fn a_process_below_a_guard_is_known_as_such() {
    let temp = tempfile::tempdir().expect("temp");
    let mut running = start("(setsid sleep 600 &) & wait; sleep 600", temp.path(), &mark()).await;
    let sleeper = PathBuf::from("/proc").join(running.pid().to_string());
    assert!(sleeper.exists());
    let above: Vec<u32> = process::ancestors(running.pid()).iter().map(|stat| stat.pid).collect();
    assert_eq!(above[..2], [running.guard_pid(), std::process::id()]);
    assert!(!festoon::os::guard::is_below_guard());
    running.kill().await;
}
