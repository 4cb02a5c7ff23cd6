//! L1: bytes on disk, synchronous: places, locks, inboxes, rosters, asks, transcripts, the event log.
//!
//! Owns every file below the state root. Promises that a file is replaced whole or not at all, that
//! only "not found" means absent, and that links, pipes and other people's files are refused.
//! Never knows a runtime: each function may block on the disk, and waits for a lock at most as long
//! as its caller says.

pub mod asks;
pub mod atomic;
pub mod background;
pub mod checkpoints;
pub mod cleanup;
pub mod clock;
pub mod error;
pub mod events;
pub mod exchange;
pub mod history;
pub mod inbox;
pub mod jsonl;
pub mod ledger;
pub mod lock;
pub mod members;
pub mod own;
pub mod paths;
pub mod project_rules;
pub mod rate;
pub mod roster;
pub mod run;
pub mod seen;
pub mod sign;
pub mod slug;
pub mod spec;
pub mod tasks;
#[cfg(test)]
mod tests;
pub mod transcript;
pub mod trust;
pub mod watch;
