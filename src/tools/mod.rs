//! L2: what one agent can do to the world, one tool per file. A tool never decides whether it may run.
//!
//! Owns the tools of a single agent, what they are given ([`context`]), the check of their inputs
//! ([`schema`]), their selection ([`set`]) and the bound of their results ([`cap`]). A tool's text is
//! written for a model to act on; a tool refuses closed directories whatever the permissions say.

pub mod background_shell;
pub mod bash;
pub mod cap;
mod change;
pub mod context;
pub mod edit;
pub mod file_cache;
pub mod glob;
pub mod grep;
mod image;
pub mod mcp;
mod notebook;
pub mod notebook_edit;
mod notebook_view;
mod page;
mod path;
mod pattern;
pub mod read;
mod replacement;
pub mod schema;
mod search;
pub mod set;
pub mod shells;
mod spool;
pub mod todo_write;
pub mod tool;
pub mod web;
pub mod web_fetch;
pub mod web_search;
pub mod work;
pub mod write;

use std::sync::Arc;
use tool::Tool;

/// The tools that act on the world, in the order in which they are declared.
pub fn all() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(read::Read),
        Arc::new(write::Write),
        Arc::new(edit::Edit),
        Arc::new(notebook_edit::NotebookEdit),
        Arc::new(glob::Glob),
        Arc::new(grep::Grep),
        Arc::new(bash::Bash),
        Arc::new(web_fetch::WebFetch::default()),
        Arc::new(web_search::WebSearch),
        Arc::new(todo_write::TodoWrite),
    ]
}

#[cfg(test)]
mod tests;
