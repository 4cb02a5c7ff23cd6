//! What the tests stand on: a world of their own, the binary in it, a model server, and looks at files.

pub mod git;
pub mod iterm;
pub mod mcp_server;
pub mod model_server;
pub mod panes;
pub mod run;
pub mod state;
pub mod wait;
pub mod world;
