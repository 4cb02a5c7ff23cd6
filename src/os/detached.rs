//! Starting our own program as a process that outlives us: a worker without a terminal.
//!
//! Promises that the child gets the given environment and nothing else, no standard input, and its
//! output in a file; and that its end is seen as long as this process lives. Never ends it.

use super::command::Exit;
use super::error::{OsError, on_file};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use tokio::process::{Child, Command};

/// A process that was started and goes its own way.
#[derive(Debug)]
pub struct Detached {
    child: Child,
    pid: u32,
}

/// Starts `program`; what it prints goes into the file `output`, which is made for it (0600).
///
/// # Errors
/// When the file is there already or cannot be made, or the program cannot be started.
pub fn spawn(
    program: &Path,
    arguments: &[OsString],
    cwd: &Path,
    env: &BTreeMap<String, String>,
    output: &Path,
) -> Result<Detached, OsError> {
    let failed =
        |e: std::io::Error| OsError::Start { program: program.display().to_string(), why: e.to_string() };
    let output = File::options()
        .append(true)
        .create_new(true)
        .mode(0o600)
        .open(output)
        .map_err(on_file("make", output))?;
    let errors = output.try_clone().map_err(failed)?;
    let child = Command::new(program)
        .args(arguments)
        .current_dir(cwd)
        .env_clear()
        .envs(env)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .kill_on_drop(false)
        .spawn()
        .map_err(failed)?;
    // It has a pid until it was waited for.
    let pid = child.id().ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
    Ok(Detached { child, pid })
}

impl Detached {
    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for its end.
    pub async fn wait(&mut self) -> Exit {
        self.child.wait().await.map_or(Exit::Lost, exit_of)
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Lost,
    }
}
