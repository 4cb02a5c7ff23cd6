//! Background work, wired: the registry of a process with its post office.

use super::setup::Setup;
use crate::agent::background::progress::Progress;
use crate::agent::background::{Background, Parts, STOP_GRACE};
use crate::agent::events::Observer;
use crate::agent::limits::Slots;
use crate::team::context::Team;
use crate::team::post::TeamPost;
use std::sync::Arc;

/// The registry of this process.
pub(super) fn background(
    setup: &Setup,
    team: &Team,
    slots: &Arc<Slots>,
    observer: &Arc<dyn Observer>,
    progress: Arc<Progress>,
    by_default: bool,
) -> Background {
    Background::new(Parts {
        paths: setup.paths.clone(),
        disk: setup.disk.clone(),
        slots: Arc::clone(slots),
        observer: Arc::clone(observer),
        progress,
        post: Arc::new(TeamPost::new(team.clone())),
        stop_grace: STOP_GRACE,
        allowed: setup.loaded.settings.background != Some(false),
        by_default,
    })
}
