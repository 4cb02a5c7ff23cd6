//! Festoon: one coding agent or a whole team of them, in one binary.
//!
//! The layers, bottom first; each may use only those above it in this list
//! (`docs/architecture.md` has the table, `tests/architecture.rs` guards it).

pub mod wire;

pub mod store;

pub mod os;

pub mod model;

pub mod policy;

pub mod tools;

pub mod agent;

pub mod team;

pub mod exec;

pub mod cli;
