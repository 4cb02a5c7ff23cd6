//! L5: where a teammate runs: adapters for the traits in `team::executor`.

pub mod in_process;
pub mod iterm2;
pub mod process;
pub mod tmux;
mod watched;
mod worker;
