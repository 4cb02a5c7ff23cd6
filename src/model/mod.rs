//! L1: language models. Owns requests as bytes, the wires, retries and prices; knows no agent.
//!
//! [`registry`] finds the model that a name means, [`connect`] a [`provider::ModelProvider`] for it;
//! [`anthropic`] and [`openai`] speak the vendors' wires, [`ollama`] finds a local server, [`scripted`]
//! plays a file, [`retry`] and [`record`] wrap any of them.

pub mod anthropic;
mod body;
mod bounds;
mod calls;
pub mod connect;
mod foreign;
pub mod http;
mod idle;
pub mod limiter;
pub mod masked;
pub mod ollama;
pub mod openai;
pub mod prices;
pub mod probe;
pub mod provider;
pub mod record;
pub mod registry;
pub mod retry;
pub mod script;
pub mod scripted;
pub mod search;
mod secret;
mod stream;
pub mod tuning;

#[cfg(test)]
mod testing;
