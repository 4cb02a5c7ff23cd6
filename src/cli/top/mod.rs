//! `festoon top`: all teams that run, live in a terminal.
//!
//! [`seen`] looks at the files, [`frame`] makes lines of what was seen, [`live`] owns the terminal. Nothing
//! here asks a process, takes a lock or changes a file.

pub mod frame;
pub mod live;
pub mod seen;
