//! Festoon.
fn main() {}
