//! What an agent has read and when: `Edit` and `Write` need a prior `Read` of the same state.

/// The files an agent has read, with the state they had then.
#[derive(Default)]
pub struct FileCache {}
