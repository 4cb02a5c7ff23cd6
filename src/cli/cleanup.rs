//! Old things are removed beside the start of a session, which waits for nothing of it.

use super::setup::Setup;
use crate::store::cleanup;
use crate::wire::limits::CLEANUP_DAYS;
use std::time::{Duration, SystemTime};

/// A day.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Starts it, unless the setting says never. A process that ends meanwhile leaves the rest to the next.
pub fn start(setup: &Setup) {
    let days = setup.loaded.settings.cleanup_days.unwrap_or(CLEANUP_DAYS);
    let Some(before) = SystemTime::now().checked_sub(DAY * days).filter(|_| days > 0) else { return };
    let paths = setup.paths.clone();
    drop(tokio::task::spawn_blocking(move || match cleanup::clean(&paths, before) {
        Ok(Some(cleaned)) => tracing::info!(?cleaned, "old things were removed"),
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "old things could not be removed"),
    }));
}
