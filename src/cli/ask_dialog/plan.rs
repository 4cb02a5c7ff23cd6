//! How a plan is shown that waits for approval.

use super::{Bar, key_line};
use crate::cli::text::clean;
use crate::cli::wrap::wrap;
use crate::wire::ask::Ask;
use crate::wire::permission::PermissionMode;

/// Rows of a plan that are shown.
const MAX_ROWS: usize = 120;

/// A letter for a mode to go on in; the first of an ask is `y`.
pub fn letter(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Default => "d",
        PermissionMode::AcceptEdits => "a",
        PermissionMode::Plan => "l",
        PermissionMode::Auto => "u",
        PermissionMode::DontAsk => "t",
        PermissionMode::BypassPermissions => "b",
    }
}

/// The choices: the letter, and the mode that it means.
pub fn choices(ask: &Ask) -> Vec<(&'static str, PermissionMode)> {
    let first = ask.modes.first().map(|mode| ("y", *mode));
    first.into_iter().chain(ask.modes.iter().skip(1).map(|mode| (letter(*mode), *mode))).collect()
}

pub(super) fn body(ask: &Ask, bar: &Bar) -> Vec<String> {
    let plan = ask.plan().unwrap_or_else(|| ask.input.get().to_owned());
    let text = clean(&plan);
    let mut shown: Vec<String> =
        text.trim_end().lines().flat_map(|line| wrap(line, bar.room)).map(|row| bar.line(&row)).collect();
    bar.cut(&mut shown, MAX_ROWS, ask);
    shown
}

pub(super) fn footer(ask: &Ask) -> String {
    let mut keys: Vec<(String, String)> = choices(ask)
        .into_iter()
        .map(|(letter, mode)| (letter.to_owned(), format!("yes, go on in {} mode", mode.as_str())))
        .collect();
    if keys.is_empty() {
        keys.push(("y".to_owned(), "yes".to_owned()));
    }
    keys.push(("n".to_owned(), "no".to_owned()));
    key_line(&keys, "what follows goes to the agent")
}
