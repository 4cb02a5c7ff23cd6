//! Another attempt, later, when a request fails for a reason that may pass.
//!
//! Owns how long to wait and when to give up. Promises that what the provider asks for (`retry-after`)
//! is waited for, and that the last failure keeps its words and the text that came. Never repeats a
//! request that was refused for what it is.

#[cfg(test)]
mod tests;

use super::limiter::{Limiter, chance};
use super::provider::{
    BoxFuture, Delta, DeltaSink, ModelError, ModelErrorKind, ModelProvider, ModelRequest, ModelResponse,
    PromptPrefix, ToolDeclaration,
};
use super::search::Bounds;
use crate::model::tuning::Tuning;
use crate::wire::settings::RetrySettings;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// A provider that asks for more than so many times the longest delay is not waited for.
const TOO_LONG: u32 = 10;
/// How long others are held when the provider fails for one; it may be that one request's fault.
const OTHERS_WAIT: Duration = Duration::from_secs(2);

/// Why an attempt waits although it has not failed.
const HELD: &str = "the provider has asked other agents to slow down";

/// A provider with retries.
pub struct Retrying {
    inner: Arc<dyn ModelProvider>,
    settings: RetrySettings,
    limiter: Limiter,
}

impl Retrying {
    /// `limiter` is the one of its provider.
    pub fn new(inner: Arc<dyn ModelProvider>, settings: RetrySettings, limiter: Limiter) -> Self {
        Self { inner, settings, limiter }
    }

    /// Between half and all of the exponential delay before attempt `next` (from 2).
    fn back_off(&self, next: u32) -> Duration {
        let base = Duration::from_millis(self.settings.base_delay_ms);
        let longest = Duration::from_millis(self.settings.max_delay_ms);
        let doubled = 2u32.checked_pow(next.saturating_sub(2)).unwrap_or(u32::MAX);
        let delay = base.saturating_mul(doubled).min(longest);
        let half = delay / 2;
        half + chance(half)
    }

    /// How long to wait before attempt `next`, and how long others have to; `None` when it is no use.
    fn delay(&self, error: &ModelError, next: u32) -> Option<(Duration, Option<Duration>)> {
        let longest = Duration::from_millis(self.settings.max_delay_ms);
        if error.retry_after.is_some_and(|asked| asked > longest.saturating_mul(TOO_LONG)) {
            return None;
        }
        let own = self.back_off(next);
        let wait = error.retry_after.map_or(own, |asked| asked.max(own));
        let others = match error.kind {
            ModelErrorKind::RateLimited => Some(wait),
            ModelErrorKind::Unavailable => Some(error.retry_after.unwrap_or(own.min(OTHERS_WAIT))),
            _ => None,
        };
        Some((wait, others))
    }

    async fn attempts(
        &self,
        request: &ModelRequest,
        sink: &dyn DeltaSink,
    ) -> Result<ModelResponse, ModelError> {
        let of = self.settings.max_attempts.max(1);
        let mut partial = String::new();
        let mut attempt = 1;
        loop {
            let told = |after| {
                let why = HELD.to_owned();
                sink.delta(Delta::Retry { attempt, of, after, why });
            };
            self.limiter.pass(told).await;
            let mut error = match self.inner.respond(request, sink).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            if error.partial.len() > partial.len() {
                partial.clone_from(&error.partial);
            }
            let delay = if error.kind.is_transient() && attempt < of {
                self.delay(&error, attempt + 1)
            } else {
                None
            };
            let Some((wait, others)) = delay else {
                if attempt > 1 {
                    error.what = format!("{} (gave up after {attempt} attempts)", error.what);
                }
                return Err(error.with_partial(partial));
            };
            attempt += 1;
            if let Some(time) = others {
                self.limiter.pause(time);
            }
            sink.delta(Delta::Retry { attempt, of, after: wait, why: error.what });
            sleep(wait).await;
        }
    }
}

impl ModelProvider for Retrying {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn freeze(&self, model: &str, system: &str, tools: &[ToolDeclaration], tuning: &Tuning) -> PromptPrefix {
        self.inner.freeze(model, system, tools, tuning)
    }

    fn freeze_search(&self, model: &str, system: &str, bounds: &Bounds) -> Option<PromptPrefix> {
        self.inner.freeze_search(model, system, bounds)
    }

    fn respond<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(self.attempts(request, sink))
    }
}
