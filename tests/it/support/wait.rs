//! Waiting for conditions, never for time to pass.

use std::time::{Duration, Instant};

/// Longest wait on a loaded machine; nothing that works needs a tenth of it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `look` finds something.
pub fn find<T>(what: &str, deadline: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + deadline;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "not within {deadline:?}: {what}");
        pause();
    }
}

/// Waits until `holds`.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    find(what, PATIENCE, || holds().then_some(()));
}

/// Between two looks.
pub fn pause() {
    std::thread::park_timeout(Duration::from_millis(4));
}
