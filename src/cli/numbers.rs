//! Numbers on the command line: what each flag takes, and one sentence for what it does not.
//!
//! Negative numbers come here, too, instead of being taken for flags that nobody knows.

use std::num::{IntErrorKind, ParseIntError};
use std::str::FromStr;

/// A count of which none would mean that nothing ever runs.
pub fn at_least_one<T: FromStr<Err = ParseIntError> + PartialOrd + From<u8>>(
    text: &str,
) -> Result<T, String> {
    let wanted = "a whole number from 1 is wanted";
    let number: T = number(text, wanted)?;
    if number >= T::from(1) { Ok(number) } else { Err(wanted.to_owned()) }
}

/// Running agents.
pub fn agents(text: &str) -> Result<usize, String> {
    match text.trim() {
        "0" => Err("at least 1; --max-agents-total 0 forbids agents".to_owned()),
        text => at_least_one(text),
    }
}

/// A count that may be 0.
pub fn whole<T: FromStr<Err = ParseIntError>>(text: &str) -> Result<T, String> {
    number(text, "a whole number from 0 is wanted")
}

/// A span of time, in seconds; 0 does not wait.
pub fn seconds(text: &str) -> Result<u64, String> {
    number(text, "a number of whole seconds from 0 is wanted")
}

/// One that is `wanted`; of one that is, but larger than anything that is counted here, that is said.
fn number<T: FromStr<Err = ParseIntError>>(text: &str, wanted: &str) -> Result<T, String> {
    text.trim().parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => "a smaller number is wanted".to_owned(),
        _ => wanted.to_owned(),
    })
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
        let too_large = || "a smaller number is wanted".to_owned();
        assert_eq!((agents("70000"), at_least_one::<u32>("4294967296")), (Ok(70_000), Err(too_large())));
        let huge = "99999999999999999999";
        assert_eq!((agents(huge), seconds(huge)), (Err(too_large()), Err(too_large())));
        assert_eq!(whole::<usize>(huge), Err(too_large()));
        for bad in ["-1", "nan", "inf", "-inf", "", "x", "-0.01"] {
            assert!(dollars(bad).is_err(), "{bad}");
        }
        assert_eq!((dollars("$2.50"), dollars("0")), (Ok(2.5), Ok(0.0)));
    }
}
