//! L1: processes and files as the operating system sees them.
//!
//! Owns the identity and the signalling of processes ([`process`]), the guard below which every
//! child process runs ([`guard`], [`command`], [`capture`]) except workers ([`detached`]), race-free opening and replacing of files ([`file`])
//! the little that is read from a git directory ([`git`]), what a panic says ([`panic`]) and the terminal's size and modes ([`terminal`]). Never decides whether something may
//! be done, and knows no agent.

pub mod capture;
pub mod command;
pub mod detached;
pub mod error;
pub mod file;
pub mod git;
pub mod guard;
mod guard_loop;
mod guard_wire;
pub mod panic;
pub mod process;
pub mod replace;
pub mod terminal;
