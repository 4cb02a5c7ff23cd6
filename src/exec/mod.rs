//! L5: where a teammate runs: adapters for the traits in `team::executor`.

pub mod in_process;

#[cfg(test)]
mod testing;
