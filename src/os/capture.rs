//! Running a short command to its end and taking what it wrote: hooks, `git`.
//!
//! Promises a bound on time and memory, and that nothing the command started outlives the call, also
//! when the call is dropped. Never judges the exit status.

use super::command::{self, CommandEvent, CommandSpec, Exit, StandardError};
use super::error::OsError;
use std::time::Duration;

/// What a command wrote and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// How it ended.
    pub exit: Exit,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    /// Whether something of either was dropped since it was longer than the limit.
    pub is_cut: bool,
}

/// Runs a command, standard error apart, and takes at most `limit` bytes of each of its outputs; what
/// comes later is read and dropped, so the command never blocks on it.
///
/// # Errors
/// [`OsError::Start`], and [`OsError::TimedOut`] when it took longer than `deadline` (it is being
/// ended then).
pub async fn capture(spec: CommandSpec, deadline: Duration, limit: usize) -> Result<Captured, OsError> {
    let program = spec.program();
    let run = async {
        let mut running = command::start(CommandSpec { stderr: StandardError::Apart, ..spec }).await?;
        let mut captured =
            Captured { exit: Exit::Lost, stdout: Vec::new(), stderr: Vec::new(), is_cut: false };
        loop {
            let (data, into) = match running.event().await {
                CommandEvent::Output(data) => (data, &mut captured.stdout),
                CommandEvent::Stderr(data) => (data, &mut captured.stderr),
                CommandEvent::Exited { exit, .. } => {
                    captured.exit = exit;
                    return Ok(captured);
                }
                CommandEvent::Gone => return Ok(captured),
            };
            let taken = data.len().min(limit.saturating_sub(into.len()));
            into.extend_from_slice(&data[..taken]);
            captured.is_cut |= taken < data.len();
        }
    };
    // Dropping the future drops the command, which ends it.
    match tokio::time::timeout(deadline, run).await {
        Ok(result) => result,
        Err(_) => Err(OsError::TimedOut { program, after: deadline }),
    }
}
