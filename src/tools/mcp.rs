//! MCP: tools of servers, `mcp__server__tool`.
//!
//! Owns the configuration's form ([`config`]), names ([`names`]), the connections and their lives
//! ([`pool`], [`server`]) and the tools made of them ([`tool`]). The protocol is the crate rmcp's, which is
//! named nowhere else. A server's words (descriptions, results, instructions) are its own: they reach a
//! model as such, and give no permission.

mod call;
mod client;
pub mod config;
mod content;
mod failure;
mod handler;
mod lines;
pub mod names;
pub mod pool;
mod schema;
pub mod server;
mod stdio;
pub mod tool;

pub use client::{Declared, Host, HttpClients};

/// A server's words without what steers a terminal.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

/// A text cut to so many characters, with a mark.
fn shortened(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
