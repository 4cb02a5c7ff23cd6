//! Commands and their guard, with real processes below the real binary.

#[cfg(test)]
mod bash;
mod command;
mod ending;
#[cfg(test)]
mod support;
#[cfg(test)]
mod worktree;
