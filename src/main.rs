//! The binary: a guard when asked to be one, else the command line.

use festoon::{cli, os::guard};
use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything else: a guard must have no threads, no runtime and nothing of the user's.
    if guard::is_guard(std::env::args_os()) {
        return guard::main();
    }
    cli::run()
}
