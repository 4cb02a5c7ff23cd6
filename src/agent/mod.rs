//! L3: one agent: who it is, what it may do, and the loop in which it works.
//!
//! Knows no team and no screen: mail, asks, tools and models come through [`ports`] and [`runtime`].

pub mod background;
pub mod budget;
pub mod build;
pub mod checkpoint;
pub mod compact;
pub mod consult;
pub mod context;
pub mod context_size;
pub mod core;
pub mod definition_file;
pub mod definition_sources;
pub mod definitions;
pub mod disk;
pub mod events;
pub mod finalizer;
pub mod first;
pub mod fork;
pub mod gates;
pub mod hooks;
pub mod instructions;
pub mod kept;
pub mod kinds;
pub mod life;
pub mod limits;
pub mod mail;
pub mod mcp;
pub mod modes;
pub mod permissions;
pub mod pipeline;
pub mod ports;
pub mod prefix_file;
pub mod reach;
pub mod resolve;
pub mod restore;
pub mod rewind;
pub mod runtime;
pub mod side;
pub mod subagent;
pub mod tally;
#[cfg(test)]
pub(crate) mod testing;
pub mod todos;
pub mod tool_rules;
pub mod transcript;
pub mod turn;
pub mod web;
pub mod worktree;
