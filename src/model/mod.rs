//! L1: language models. Owns requests as bytes, the wires, retries and prices; knows no agent.

pub mod provider;
