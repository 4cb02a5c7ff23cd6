//! L0: everything that is ever written down or sent: ids, mail, rosters, transcripts, settings.
//!
//! Owns the shapes and their serde forms. Promises that what was read is written back unharmed
//! (unknown fields included, see [`open`]; model blocks byte for byte, see [`block`]).
//! Never touches a file, a clock or a runtime.

pub mod access;
pub mod ask;
pub mod background;
pub mod block;
pub mod blueprint;
pub mod checkpoint;
pub mod definition;
pub mod error;
pub mod event;
pub mod fork;
pub mod frame;
pub mod frame_asks;
pub mod hooks;
pub mod ids;
pub mod ledger;
pub mod limits;
pub mod mail;
pub mod mask;
pub mod mcp;
pub mod open;
pub mod permission;
pub mod question;
pub mod run;
pub mod settings;
pub mod task;
pub mod team;
#[cfg(test)]
pub(crate) mod testing;
pub mod time;
pub mod todo;
pub mod transcript;
pub mod usage;
pub mod worker;
