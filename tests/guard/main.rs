//! Commands and their guard, with real processes below the real binary.

mod command;
mod ending;
#[cfg(test)]
mod support;
