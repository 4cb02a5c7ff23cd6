//! One back-off for all processes of a team: what a provider tells one of them holds the others too.

use super::context::Team;
use crate::model::limiter::RateGate;
use crate::model::provider::BoxFuture;
use crate::store::rate;
use std::time::Duration;

/// The stamp in the team's directory.
pub struct TeamGate(Team);

impl TeamGate {
    /// For this process.
    pub fn new(team: Team) -> Self {
        Self(team)
    }
}

impl RateGate for TeamGate {
    fn hold(&self, provider: &'static str, time: Duration) {
        let paths = self.0.paths.clone();
        self.0.disk.later(&self.0.paths.rate(), move || rate::hold(&paths, provider, time));
    }

    fn held<'a>(&'a self, provider: &'static str) -> BoxFuture<'a, Option<Duration>> {
        let (team, paths) = (&self.0, self.0.paths.clone());
        Box::pin(async move {
            let looked = team.disk.run(&team.paths.rate(), move || rate::held(&paths, provider)).await;
            looked.unwrap_or_else(|error| {
                tracing::warn!(%error, "pauses of other processes are not known");
                None
            })
        })
    }
}
