//! What the tests share: commands with a mark in their environment, and waiting for conditions.

use festoon::os::command::{self, CommandEvent, CommandSpec, Exit, RunningCommand};
use festoon::os::process;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The variable that marks everything a test has started.
pub const MARK: &str = "FESTOON_TEST_MARK";
/// A child that shields itself against everything that can be shielded against: a session of its
/// own, a parent that is gone, TERM, HUP and INT ignored. Writes `ready` once it is that far.
pub const STUBBORN: &str = r#"
    ( setsid sh -c 'trap "" TERM HUP INT; echo up > ready; while :; do sleep 600; done' \
        < /dev/null > /dev/null 2>&1 & ) &
    wait
"#;

pub fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_festoon"))
}

/// A mark nobody else uses.
pub fn mark() -> String {
    uuid::Uuid::new_v4().to_string()
}

pub fn environment(mark: &str) -> BTreeMap<String, String> {
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
    BTreeMap::from([("PATH".to_owned(), path), (MARK.to_owned(), mark.to_owned())])
}

pub fn shell(script: &str, dir: &Path, mark: &str) -> CommandSpec {
    let mut spec = CommandSpec::new(["sh", "-c", script], dir, environment(mark));
    spec.guard = binary();
    spec
}

pub async fn start(script: &str, dir: &Path, mark: &str) -> RunningCommand {
    command::start(shell(script, dir, mark)).await.expect("starts")
}

/// Output, standard error and exit up to the command's end, and whether something was left.
pub async fn finish(running: &mut RunningCommand) -> (Vec<u8>, Vec<u8>, Exit, bool) {
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    loop {
        match running.event().await {
            CommandEvent::Output(data) => output.extend(data),
            CommandEvent::Stderr(data) => errors.extend(data),
            CommandEvent::Exited { exit, left } => return (output, errors, exit, left),
            CommandEvent::Gone => panic!("gone without an exit"),
        }
    }
}

/// The living processes that carry the mark.
pub fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let carries = |pid: u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes())
    };
    process::all().iter().filter(|stat| stat.alive && carries(stat.pid)).map(|stat| stat.pid).collect()
}

/// Waits for a condition.
pub async fn until(what: &str, deadline: Duration, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + deadline;
    while !condition() {
        assert!(Instant::now() < end, "not within {deadline:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Long enough for a loaded machine.
pub const LONG: Duration = Duration::from_secs(30);
