//! One hook as a process: started below a guard, read to a bound, ended when its time is over.

use crate::os::command::{self, CommandEvent, CommandSpec, Exit, StandardError};
use crate::tools::shells::{GRACE, Shells};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Bytes of each output that are kept; what comes later is read and dropped.
const MOST: usize = 1024 * 1024;
/// POSIX has it in no fixed place, and every system has it here.
const SHELL: &str = "/bin/sh";

/// What to run.
pub(super) struct Running<'a> {
    pub command: &'a str,
    pub cwd: &'a Path,
    pub environment: BTreeMap<String, String>,
    pub input: Vec<u8>,
    pub guard: &'a Path,
    pub timeout: Duration,
    pub shells: Option<&'a Shells>,
}

/// What it wrote.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Whether something of standard output was dropped.
    pub is_cut: bool,
}

/// What became of it.
#[derive(Debug)]
pub(super) enum Ran {
    /// It ended by itself.
    Ended(Exit, Written),
    /// It did not start, or not end in time; in words.
    Failed(String),
    /// The work it belongs to was cancelled.
    Cancelled,
}

/// Runs it to its end. When it has to be ended, everything it started is gone before this returns.
pub(super) async fn run(hook: Running<'_>, cancel: &CancellationToken) -> Ran {
    if cancel.is_cancelled() {
        return Ran::Cancelled;
    }
    let mut spec = CommandSpec::new([SHELL, "-c", hook.command], hook.cwd, hook.environment);
    spec.stdin = hook.input;
    spec.stderr = StandardError::Apart;
    spec.guard = hook.guard.to_owned();
    let mut running = match command::start(spec).await {
        Ok(running) => running,
        Err(error) => return Ran::Failed(error.to_string()),
    };
    let until = Instant::now().checked_add(hook.timeout);
    let mut written = Written::default();
    loop {
        let event = tokio::select! {
            biased;
            () = cancel.cancelled() => {
                running.terminate(GRACE).await;
                return Ran::Cancelled;
            }
            () = sleep_until(until) => {
                running.terminate(GRACE).await;
                return Ran::Failed(format!("it took longer than {} s and was ended", hook.timeout.as_secs()));
            }
            event = running.event() => event,
        };
        match event {
            CommandEvent::Output(data) => written.is_cut |= take(&mut written.stdout, &data),
            CommandEvent::Stderr(data) => drop(take(&mut written.stderr, &data)),
            CommandEvent::Exited { exit, left } => {
                match hook.shells {
                    Some(shells) if left => shells.keep(running),
                    // Dropping it ends what is left.
                    _ => drop(running),
                }
                return Ran::Ended(exit, written);
            }
            CommandEvent::Gone => return Ran::Ended(Exit::Lost, written),
        }
    }
}

/// True when not all of it was taken.
fn take(into: &mut Vec<u8>, data: &[u8]) -> bool {
    let room = data.len().min(MOST.saturating_sub(into.len()));
    into.extend_from_slice(&data[..room]);
    room < data.len()
}

async fn sleep_until(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}
