//! L4: many agents: mail, rosters, teammates' lives, asks that bubble, shutdown.

pub mod executor;
pub mod lifecycle;
pub mod registry;
