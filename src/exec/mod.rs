//! L5: where a teammate runs: adapters for the traits in `team::executor`.

pub mod in_process;
pub mod tmux;

#[cfg(test)]
mod testing;
