//! Words for times, numbers and other people's lines, short enough for a listing.

use super::{status, text};
use crate::store::clock;
use crate::wire::time::Timestamp;
use crate::wire::usage::Money;
use jiff::tz::TimeZone;

/// What somebody wrote as one harmless line: breaks become spaces.
pub fn line(text: &str) -> String {
    let joined: String =
        text.chars().map(|c| if matches!(c, '\n' | '\r' | '\t') { ' ' } else { c }).collect();
    text::clean(joined.trim()).into_owned()
}

/// How long ago, in a few characters. `?` for a text that is no time.
pub fn age(since: &Timestamp) -> String {
    clock::millis_since(since).map_or_else(|| "?".to_owned(), status::age)
}

/// The time on this person's clock; the text itself when it is no time.
pub fn local(time: &Timestamp, format: &str) -> String {
    match time.as_str().parse::<jiff::Timestamp>() {
        Ok(parsed) => parsed.to_zoned_datetime(TimeZone::system()).strftime(format).to_string(),
        Err(_) => line(time.as_str()),
    }
}

/// Dollars; nothing when it cost nothing.
pub fn money(cost: Money) -> String {
    if cost.0 == Some(0.0) { String::new() } else { status::money(cost) }
}

/// `1 message`, `2 messages`.
pub fn number(n: usize, one: &str) -> String {
    format!("{n} {one}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_line_is_one_line_and_steers_nothing() {
        assert_eq!(line(" a\nb\tc\u{1b}[2J\r\n"), "a b c\\u{1b}[2J");
    }

    #[test]
    fn words_are_short() {
        assert_eq!(age(&clock::in_future(Duration::from_secs(100))), "0s");
        assert_eq!(age(&Timestamp::new("yesterday")), "?");
        assert_eq!([None, Some(0.0), Some(1.0)].map(|c| money(Money(c))), ["$?", "", "$1.00"]);
        assert_eq!((number(1, "ask"), number(0, "ask")), ("1 ask".to_owned(), "0 asks".to_owned()));
        assert_eq!(local(&Timestamp::new("yes\nterday"), "%F"), "yes terday");
    }
}
