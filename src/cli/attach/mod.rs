//! `festoon attach`: one running agent in any terminal, with what it does, its asks, and a prompt that sends
//! mail as the person.
//!
//! Owns how an agent is found by what was typed, and how its transcript is followed. Never changes anything
//! of the agent's: it only sends mail and answers asks, as `festoon send` and `festoon ask` do, and leaving
//! ends nothing.

pub mod follow;
pub mod lines;
pub mod session;
pub mod target;
