//! Numbers on the command line: what each flag takes, and one sentence for what it does not.
//!
//! Negative numbers come here, too, instead of being taken for flags that nobody knows.

use std::str::FromStr;

/// A count of which none would mean that nothing ever runs.
pub fn at_least_one<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    let number: Option<T> = text.trim().parse().ok();
    number.filter(|count| *count >= T::from(1)).ok_or_else(|| "a whole number from 1 is wanted".to_owned())
}

/// Running agents.
pub fn agents(text: &str) -> Result<usize, String> {
    match text.trim() {
        "0" => Err("at least 1; --max-agents-total 0 forbids agents".to_owned()),
        text => at_least_one::<u16>(text).map(usize::from),
    }
}

/// A count that may be 0.
pub fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| "a whole number from 0 is wanted".to_owned())
}

/// A span of time, in seconds; 0 does not wait.
pub fn seconds(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| "a number of whole seconds from 0 is wanted".to_owned())
}

/// US dollars.
pub fn dollars(text: &str) -> Result<f64, String> {
    let amount: Option<f64> = text.trim().trim_start_matches('$').parse().ok();
    amount.filter(|n| n.is_finite() && *n >= 0.0).ok_or_else(|| "an amount like 2.50 is wanted".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_takes_its_numbers_and_no_others() {
        for bad in ["-1", "", "x", "1.5", "99999999999999999999", "nan"] {
            assert!(at_least_one::<u32>(bad).is_err() && whole::<u32>(bad).is_err(), "{bad}");
            assert!(seconds(bad).is_err() && agents(bad).is_err(), "{bad}");
        }
        assert_eq!((at_least_one::<u32>("1"), whole::<u64>("0"), seconds("0")), (Ok(1), Ok(0), Ok(0)));
        assert_eq!(
            (agents("7"), at_least_one::<u32>("0").is_err(), agents("0").is_err()),
            (Ok(7), true, true)
        );
        for bad in ["-1", "nan", "inf", "-inf", "", "x", "-0.01"] {
            assert!(dollars(bad).is_err(), "{bad}");
        }
        assert_eq!((dollars("$2.50"), dollars("0")), (Ok(2.5), Ok(0.0)));
    }
}
