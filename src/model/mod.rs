//! L1: language models. Owns requests as bytes, the wires, retries and prices; knows no agent.
//!
//! [`registry`] turns a name into a [`provider::ModelProvider`]; [`anthropic`] speaks a vendor's wire,
//! [`scripted`] plays a file, [`retry`] and [`record`] wrap either.

pub mod anthropic;
mod body;
pub mod http;
mod idle;
pub mod limiter;
pub mod prices;
pub mod provider;
pub mod record;
pub mod registry;
pub mod retry;
pub mod script;
pub mod scripted;
mod secret;

#[cfg(test)]
mod testing;
