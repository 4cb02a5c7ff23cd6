//! L1: may this call run? Permission rules, shell commands, decisions, and what a child inherits.
//!
//! Owns the meaning of rules. Every function here is pure: the same answer in every process, from
//! its arguments alone. Never touches a file, a clock or a runtime, and never asks anybody.

pub mod decide;
pub mod narrow;
pub mod reach;
pub mod rule;
pub mod trees;

mod command;
mod facts;
mod hidden;
mod path;
mod readonly;
mod sed;
mod shell;
mod suggest;
mod unwrap;

pub use decide::{Query, Verdict, decide};
pub use narrow::{Narrowed, Parent, Wish, narrow};
