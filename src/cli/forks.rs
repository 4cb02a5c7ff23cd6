//! The flag `--fork`, and the rule that it, the settings and the kind of session make.

use crate::agent::fork::rule::{Forks, Session};
use crate::wire::settings::{ForkSetting, Settings};
use crate::wire::worker::AskPolicy;
use clap::ValueEnum;

/// The values of `--fork`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ForkFlag {
    /// A call forks when it says so.
    Explicit,
    /// In the REPL, a call that names no type forks too.
    Implicit,
    /// No call forks.
    Off,
}

impl From<ForkFlag> for ForkSetting {
    fn from(flag: ForkFlag) -> Self {
        match flag {
            ForkFlag::Explicit => Self::Explicit,
            ForkFlag::Implicit => Self::Implicit,
            ForkFlag::Off => Self::Off,
        }
    }
}

/// Which calls fork. A session in which asks wait for as long as a person takes has one.
pub fn rule(settings: &Settings, asks: AskPolicy) -> Forks {
    let session =
        Session { interactive: asks == AskPolicy::Wait, background: settings.background != Some(false) };
    Forks::new(settings.fork.unwrap_or_default(), session)
}
