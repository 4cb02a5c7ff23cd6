//! The brake that all agents of a process share.
//!
//! When the provider refuses one request for its rate, everyone waits, and then they go one after
//! another: a herd that starts together would be refused together. Never counts tokens; budgets are
//! elsewhere.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Time between two requests that waited for the same pause.
const SPREAD: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
struct Brake {
    /// Nobody sends before.
    until: Option<Instant>,
    /// The last start that was given to a waiting request.
    last: Option<Instant>,
}

/// A handle on the brake. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct Limiter(Arc<Mutex<Brake>>);

impl Limiter {
    /// Holds all requests of the process for so long from now; a longer pause in force stays.
    pub fn pause(&self, time: Duration) {
        let Some(until) = Instant::now().checked_add(time) else { return };
        let mut brake = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        brake.until = brake.until.max(Some(until));
    }

    /// How long requests are held from now, to be told to other processes; `None` when they are not.
    pub fn paused_for(&self) -> Option<Duration> {
        let brake = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = brake.until?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Waits while requests are held, and for this request's turn after that.
    pub async fn pass(&self) {
        while let Some(start) = self.turn() {
            sleep_until(start).await;
            // A new pause may have begun meanwhile, which moves the turn.
            if self.paused_for().is_none() {
                return;
            }
        }
    }

    /// A start of its own for a request that has to wait; `None` when nothing holds it.
    fn turn(&self) -> Option<Instant> {
        let mut brake = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let until = brake.until.filter(|until| *until > Instant::now())?;
        let start = match brake.last {
            Some(last) if last >= until => last + SPREAD,
            _ => until,
        };
        brake.last = Some(start);
        Some(start)
    }
}
