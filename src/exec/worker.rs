//! The process of a worker, wherever it shows itself: identified, watched, ended with all below it.
//!
//! A worker leads a process session of its own. Promises that nothing is signalled that is not exactly
//! this process, of its session or below it, and that every step of an ending has a deadline.

use crate::os::process::{self, Signal};
use crate::team::executor::{BoxFuture, ExitReport, Grace, SpawnError};
use crate::wire::run::ProcessId;
use crate::wire::worker::WorkerSpec;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How a worker that did not become ready is ended.
pub(super) const FAILED_SPAWN_GRACE: Grace =
    Grace { interrupt: Duration::ZERO, terminate: Duration::from_millis(1_000) };
/// Lines that are quoted of a worker that did not start.
pub(super) const LAST_WORDS: usize = 10;

/// One wait for the end of a process; repeated until it comes.
const WATCH: Duration = Duration::from_secs(3_600);
/// How long a killed process may take to be gone; longer only in the kernel's own waits.
const KILL_WAIT: Duration = Duration::from_secs(5);
/// How long what a worker started may take to end behind it: its guards end it in 1.5 s.
const BELOW_WAIT: Duration = Duration::from_secs(3);

/// Starts a worker in a task of its own, so that what is half made is undone also when nobody waits for
/// it any more: the token that `start` gets is cancelled then.
pub(super) async fn guarded<T: Send + 'static, F>(
    tasks: &TaskTracker,
    hint: &str,
    start: impl FnOnce(CancellationToken) -> F,
) -> Result<T, SpawnError>
where
    F: Future<Output = Result<T, SpawnError>> + Send + 'static,
{
    let given_up = CancellationToken::new();
    let waits = given_up.clone().drop_guard();
    let outcome = tasks.spawn(start(given_up)).await;
    waits.disarm();
    let broken = |why: String| SpawnError { step: "start worker", why, hint: hint.to_owned() };
    outcome.map_err(|error| broken(error.to_string()))?
}

/// Waits until a worker is ready; an error says why it is not, and the worker may still run then.
pub(super) async fn ready(
    ready: BoxFuture<'static, ()>,
    deadline: Duration,
    end: impl Future<Output = ExitReport>,
    given_up: &CancellationToken,
) -> Result<(), String> {
    tokio::select! {
        biased;
        () = ready => Ok(()),
        report = end => Err(format!("it ended before it was ready ({})", report.exit)),
        () = tokio::time::sleep(deadline) => Err(format!("it was not ready within {} ms", deadline.as_millis())),
        () = given_up.cancelled() => Err("the spawn was given up".to_owned()),
    }
}

/// Why it did not start, with what it said last.
pub(super) fn quoting(why: String, words: &str) -> String {
    if words.is_empty() { why } else { format!("{why}; its last words: {words}") }
}

/// The command line of a worker in a pane; short, and checked as far as it can be before there is a pane.
/// An error is why there is none.
pub(super) fn command_line(
    program: &Path,
    spec: &WorkerSpec,
    spec_file: &Path,
) -> Result<Vec<String>, String> {
    if !program.is_absolute() || !program.is_file() {
        return Err(format!("{} is not our program", program.display()));
    }
    if !spec.cwd.is_dir() {
        return Err(format!("{} is no directory", spec.cwd.display()));
    }
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| format!("{} is not valid UTF-8", path.display()))
    };
    Ok(vec![text(program)?, "teammate".to_owned(), "--spec".to_owned(), text(spec_file)?])
}

/// The identity of a worker's process; one that is dead already gets an identity that nothing has.
pub(super) fn identity(pid: u32) -> ProcessId {
    process::of(pid).unwrap_or_else(|| ProcessId {
        pid,
        start_time: 0,
        boot_id: process::boot_id().to_owned(),
        host: process::host(),
    })
}

/// Waits for the end, however long it takes.
pub(super) async fn gone(worker: &ProcessId) {
    while !process::wait_gone(worker, WATCH).await {}
}

/// TERM, after `terminate` KILL; then the same for what it started. `forced` is set before anything is
/// sent. False when the process is still there after KILL.
pub(super) async fn end(worker: &ProcessId, terminate: Duration, forced: &AtomicBool) -> bool {
    let mut below = process::descendants(worker.pid);
    if process::is_alive(worker) {
        forced.store(true, Ordering::Release);
        ask_to_end(worker);
        if !process::wait_gone(worker, terminate).await {
            below.extend(process::descendants(worker.pid));
            kill_session(worker);
            // A failure shows in the wait.
            let _ = process::signal(worker, Signal::Kill);
            if !process::wait_gone(worker, KILL_WAIT).await {
                return false;
            }
        }
    } else {
        // Whoever has the pid now is not our worker, and neither is what is below it.
        below.clear();
    }
    end_all(&below).await;
    true
}

/// TERM to the worker's group: as the first process of its session it leads one of its own.
fn ask_to_end(worker: &ProcessId) {
    let leads = process::stat(worker.pid).is_some_and(|stat| stat.group == stat.pid);
    let sent = if leads {
        process::signal_group(worker.pid, Signal::Terminate)
    } else {
        process::signal(worker, Signal::Terminate)
    };
    if let Err(error) = sent {
        tracing::warn!(%error, "TERM could not be sent to a teammate");
    }
}

/// KILL to what is left of the worker's session, whatever its group. A session keeps its number as long
/// as it has members; if somebody else leads one of that number, ours has none.
pub(super) fn kill_session(worker: &ProcessId) {
    let leader = process::stat(worker.pid).filter(|stat| stat.alive);
    if leader.is_none_or(|stat| stat.start_time == worker.start_time) {
        process::signal_session(worker.pid, Signal::Kill);
    }
}

/// Waits for processes that are ending by themselves, then kills what is left.
async fn end_all(processes: &[ProcessId]) {
    let until = Instant::now() + BELOW_WAIT;
    for process in processes {
        if !process::wait_gone(process, until.saturating_duration_since(Instant::now())).await {
            // It may have ended meanwhile.
            let _ = process::signal(process, Signal::Kill);
        }
    }
    for process in processes {
        process::wait_gone(process, KILL_WAIT).await;
    }
}
