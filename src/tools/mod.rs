//! L2: what one agent can do to the world, one tool per file. A tool never decides whether it may run.

pub mod context;
pub mod file_cache;
pub mod tool;
