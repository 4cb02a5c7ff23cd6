//! Forks: an agent's conversation goes on twice, and the copy pays for its own words only (spec §7).
//!
//! Owns where a conversation can be forked ([`point`]), the bytes a fork adds ([`bytes`]), how one is
//! started ([`start`]) and found again ([`resume`]), and what a fork may not do ([`guard`]). Promises that
//! everything before the directive is what the parent sent: prefix and blocks are shared by pointer, and
//! no type here has a place for another model, tool or definition. `docs/design/forks.md` has the reasons.

pub mod bytes;
pub mod guard;
pub mod point;
pub mod resume;
pub mod rule;
pub mod seed;
pub mod start;

/// The `subagent_type` of a fork; definitions of this name are not used.
pub const FORK: &str = "fork";
/// The query source of forks (contract §13); it survives compaction.
pub const FORK_SOURCE: &str = "agent:builtin:fork";
/// The tool whose calls can fork a conversation.
pub const AGENT_TOOL: &str = "Agent";
