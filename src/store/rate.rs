//! `rate.json`: until when requests to a provider are held, for all processes of a team (spec §17).
//!
//! Owns the file and its lock. Promises that a longer pause in force stays. A hint and no record: what is
//! damaged or from a clock that went wrong is as good as nothing, and [`LONGEST`] bounds it.

use super::atomic;
use super::clock;
use super::error::StoreError;
use super::lock::{self, Missing, Patience};
use super::paths::TeamPaths;
use crate::wire::settings::Durability;
use crate::wire::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// No pause is believed that is longer: what a provider may ask for at most, ten times the longest delay
/// between two attempts.
pub const LONGEST: Duration = Duration::from_secs(600);

/// Providers with the end of their pause.
type Pauses = BTreeMap<String, Timestamp>;

/// Holds requests to `provider` for so long from now. `None`: the lock is held, come again.
pub fn hold(team: &TeamPaths, provider: &str, time: Duration) -> Result<Option<()>, StoreError> {
    lock::with_locked_file(&team.rate_lock(), Missing::Make, Patience::Once, |_| {
        let mut pauses = load(team)?;
        pauses.retain(|_, until| left(until).is_some());
        let until = clock::in_future(time.min(LONGEST));
        if pauses.get(provider).is_some_and(|old| *old >= until) {
            return Ok(());
        }
        pauses.insert(provider.to_owned(), until);
        let bytes = atomic::pretty(&team.rate(), &pauses)?;
        let temp = team.dir().join(".rate.tmp");
        atomic::replace_locked(&team.rate(), &temp, &bytes, Durability::Process).map(drop)
    })
}

/// How long requests to `provider` are still held.
pub fn held(team: &TeamPaths, provider: &str) -> Result<Option<Duration>, StoreError> {
    Ok(load(team)?.get(provider).and_then(left))
}

fn load(team: &TeamPaths) -> Result<Pauses, StoreError> {
    match atomic::read_json(&team.rate()) {
        Ok(pauses) => Ok(pauses.unwrap_or_default()),
        Err(StoreError::Corrupt { .. }) => Ok(Pauses::default()),
        Err(error) => Err(error),
    }
}

fn left(until: &Timestamp) -> Option<Duration> {
    let left = clock::millis_since(until)?.checked_neg()?;
    let left = u64::try_from(left).ok().filter(|left| *left > 0)?;
    Some(Duration::from_millis(left)).filter(|left| *left <= LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::team::Team;

    #[test]
    fn the_longer_pause_stays_and_nonsense_holds_nobody() {
        let team = Team::new();
        let held = |provider| super::held(&team.team, provider).expect("reads");
        let hold = |provider, seconds| {
            hold(&team.team, provider, Duration::from_secs(seconds)).expect("works").expect("no lock");
        };
        assert_eq!(held("anthropic"), None);
        hold("anthropic", 100);
        hold("anthropic", 5);
        hold("openai", 10_000);
        let within = |provider, seconds: std::ops::RangeInclusive<u64>| {
            seconds.contains(&held(provider).expect("held").as_secs())
        };
        assert!(within("anthropic", 90..=100), "{:?}", held("anthropic"));
        assert!(within("openai", 590..=600), "{:?}", held("openai"));
        for text in [
            "{",
            r#"{"anthropic":"soon"}"#,
            r#"{"anthropic":"2001-01-01T00:00:00Z"}"#,
            r#"{"anthropic":"2999-01-01T00:00:00Z"}"#,
        ] {
            std::fs::write(team.team.rate(), text).expect("writes");
            assert_eq!(held("anthropic"), None, "{text}");
        }
        hold("anthropic", 100);
        assert!(within("anthropic", 90..=100));
    }
}
