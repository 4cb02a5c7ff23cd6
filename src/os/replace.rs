//! Replacing this process by our own program again, with another environment.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Starts this program over in the same process, with exactly these arguments and this environment.
/// Returns only when that failed. Must be called before threads are started.
pub fn with_self(arguments: &[&OsStr], environment: &BTreeMap<String, String>) -> io::Error {
    match std::env::current_exe() {
        Ok(program) => Command::new(program).args(arguments).env_clear().envs(environment).exec(),
        Err(error) => error,
    }
}
