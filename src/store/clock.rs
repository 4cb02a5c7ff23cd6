//! The time as it is written.
//!
//! Owns the way from the system's clock to a [`Timestamp`] and back. Promises that texts made here
//! have one length and sort like the times. Never decides anything by the time.

use crate::wire::time::Timestamp;
use std::time::{Duration, SystemTime};

/// Now, in milliseconds.
pub fn now() -> Timestamp {
    written(jiff::Timestamp::now())
}

/// The time `after` from now; the end of time if that is later.
pub fn in_future(after: Duration) -> Timestamp {
    let now = jiff::Timestamp::now();
    written(now.checked_add(after).unwrap_or(jiff::Timestamp::MAX))
}

/// Milliseconds from `then` to now, negative when it is still to come; `None` for a text that is no time.
pub fn millis_since(then: &Timestamp) -> Option<i64> {
    let then: jiff::Timestamp = then.as_str().parse().ok()?;
    Some(jiff::Timestamp::now().as_millisecond() - then.as_millisecond())
}

/// The time a text names, from us or another program; `None` when it names none.
pub fn parse(text: &Timestamp) -> Option<SystemTime> {
    let time: jiff::Timestamp = text.as_str().parse().ok()?;
    SystemTime::try_from(time).ok()
}

/// A time of the file system as it is written.
pub fn of(time: SystemTime) -> Timestamp {
    written(jiff::Timestamp::try_from(time).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

/// Now, in a form for file names: `20260101T000000123Z`.
pub(super) fn for_file_name() -> String {
    now().as_str().replace(['-', ':', '.'], "")
}

fn written(time: jiff::Timestamp) -> Timestamp {
    Timestamp::new(format!("{time:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_one_form_and_read_in_any() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_micros(1_767_225_600_007_999);
        assert_eq!(of(time), Timestamp::new("2026-01-01T00:00:00.007Z"));
        assert_eq!(of(SystemTime::UNIX_EPOCH), Timestamp::new("1970-01-01T00:00:00.000Z"));
        let other = Timestamp::new("2026-01-01T01:00:00+01:00");
        assert_eq!(parse(&other), Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600)));
        assert_eq!(parse(&Timestamp::new("yesterday")), None);
        assert_eq!(for_file_name().len(), "20260101T000000123Z".len());
    }

    #[test]
    fn distance_has_a_sign() {
        let later = in_future(Duration::from_secs(3600));
        let distance = millis_since(&later).expect("is a time");
        assert!((-3_600_001..=-3_500_000).contains(&distance), "{distance}");
        assert!(now() < later);
        assert_eq!(in_future(Duration::MAX).as_str().len(), now().as_str().len());
    }
}
