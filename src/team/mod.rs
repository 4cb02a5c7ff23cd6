//! L4: many agents: mail, rosters, teammates' lives, asks that bubble, shutdown.

pub mod answer;
pub mod ask_hooks;
pub mod backoff;
pub mod bubble;
pub mod budget;
pub mod context;
pub mod ending;
pub mod executor;
pub mod kept;
pub mod lead;
pub mod leaderless;
pub mod lifecycle;
pub mod mailbox;
mod meta;
pub mod orphan;
pub mod post;
pub mod pump;
pub mod rate;
pub mod registry;
pub mod reporter;
pub mod session;
pub mod spawn;
pub mod supervisor;
pub mod tasks;
pub mod teammate;
pub mod verbs;
pub mod wake;
