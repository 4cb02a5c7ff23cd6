//! The guard: our own binary in a helper mode, between us and every command we start.
//!
//! A command may start processes that leave its group and session and outlive it. The guard is their
//! common ancestor that none of them can leave: it starts a process session, makes itself the child
//! subreaper (orphans below it become its children), runs the command and stays as long as anything
//! below it lives. It ends all of it when its *lifeline* closes.
//!
//! The lifeline is the guard's standard input, a pipe whose other end only the owner holds. The
//! kernel closes it however the owner ends, `kill -9` included. This replaces a parent-death signal,
//! which fires when the *thread* that started the guard ends: it would need one permanent thread to
//! start everything from, and would still reach the guard alone and not what is below it. So none is
//! set.
//!
//! Promises: when the owner is gone, everything below the guard is gone within [`GRACE`] and the time
//! a KILL takes. Never reads the owner's environment, never outlives what it guards, never prints
//! anything but reports. What it cannot help: somebody who kills the guard itself; the owner then
//! kills the guard's session, but not what left that as well.

use super::{guard_loop, process};
use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The argument that makes our binary a guard.
pub const ARGUMENT: &str = "__guard";
/// Our own binary, also after its file was replaced by an upgrade.
pub const SELF_EXE: &str = "/proc/self/exe";
/// From TERM to KILL when the owner is gone.
pub const GRACE: Duration = Duration::from_millis(1500);

/// Whether these arguments (program name first) ask for the guard.
pub fn is_guard(mut args: impl Iterator<Item = impl AsRef<OsStr>>) -> bool {
    args.nth(1).is_some_and(|arg| arg.as_ref() == ARGUMENT)
}

/// Whether this process runs below a guard, which means: a tool, hook or command of an agent started
/// it. Looks at the ancestors, so a changed environment does not hide it.
pub fn is_below_guard() -> bool {
    process::ancestors(std::process::id()).iter().any(|above| {
        let arguments = process::arguments(above.pid);
        // The mode is the second and last argument; the program itself may have any name.
        arguments.len() == 2 && arguments[1] == ARGUMENT && Path::new(&arguments[0]).is_relative()
    })
}

/// Runs as guard until nothing is left to guard. Call it first thing in `main`, before any thread or
/// runtime exists. Exit status 0 when a command ran or its failure was reported.
pub fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(guard_loop::run())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_argument_makes_a_guard() {
        assert!(is_guard(["festoon", "__guard"].iter()));
        assert!(!is_guard(["festoon"].iter()));
        assert!(!is_guard(["festoon", "-p", "__guard"].iter()));
        assert!(!is_guard(["__guard"].iter()));
    }
}
