//! How many messages a model may send: a burst to each recipient, then one a second.

use crate::wire::ids::AgentName;
use crate::wire::limits::{SEND_BURST, SEND_PER_SECOND};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Token buckets of one sender, one a recipient.
#[derive(Debug, Default)]
pub struct SendRate {
    buckets: HashMap<AgentName, (f64, Instant)>,
}

impl SendRate {
    /// Takes one message to `to`, or says how long until one may go.
    pub fn take(&mut self, to: &AgentName) -> Result<(), Duration> {
        self.take_at(to, Instant::now())
    }

    fn take_at(&mut self, to: &AgentName, now: Instant) -> Result<(), Duration> {
        let (tokens, then) = self.buckets.entry(to.clone()).or_insert((f64::from(SEND_BURST), now));
        let earned = now.saturating_duration_since(*then).as_secs_f64() * f64::from(SEND_PER_SECOND);
        *tokens = (*tokens + earned).min(f64::from(SEND_BURST));
        *then = now;
        if *tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - *tokens) / f64::from(SEND_PER_SECOND)));
        }
        *tokens -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_one_a_second_for_each_recipient() {
        let (anna, ben) = (AgentName::new("anna").expect("slug"), AgentName::new("ben").expect("slug"));
        let start = Instant::now();
        let mut rate = SendRate::default();
        let sent = (0..40).filter(|_| rate.take_at(&anna, start).is_ok()).count();
        assert_eq!(sent, 30);
        assert_eq!(rate.take_at(&ben, start), Ok(()));
        assert_eq!(rate.take_at(&anna, start), Err(Duration::from_secs(1)));
        assert_eq!(rate.take_at(&anna, start + Duration::from_secs(1)), Ok(()));
        assert!(rate.take_at(&anna, start + Duration::from_secs(1)).is_err());
    }
}
