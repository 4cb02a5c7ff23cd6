//! The real binary in worlds of its own: sessions, teams, failures, panes.

#![expect(clippy::expect_used, reason = "a test says what it expected by failing")]

mod asks;
mod background;
mod blueprint;
mod bytes;
mod cache;
mod compaction;
mod coordinator;
mod crash;
mod demo;
mod disk;
mod doctor;
mod forks;
mod forks_resume;
mod headless;
mod hooks;
mod input;
mod kinds;
mod limits;
mod logs;
mod mailbox;
mod mcp;
mod model_errors;
mod panes;
mod permissions;
mod plans;
mod processes;
mod questions;
mod rewind;
mod runs;
mod secrets;
mod sessions;
mod shutdown;
mod signals;
mod subagents;
mod support;
mod surroundings;
mod tasks;
mod teammates;
mod timeline;
mod todos;
mod tools;
mod trust;
mod web;
mod worktrees;
