//! How a question is shown, with its numbered options.

use super::{Bar, key_line};
use crate::cli::text::clean;
use crate::cli::wrap::wrap;
use crate::wire::question::Question;
use anstyle::Style;

/// The question with its options, a line each; for the dialog and for `festoon ask show`.
pub fn plain(question: &Question) -> Vec<String> {
    let header = match question.header.trim() {
        "" => String::new(),
        header => format!("[{header}] "),
    };
    let mut lines = vec![format!("{header}{}", question.question)];
    for (index, option) in question.options.iter().enumerate() {
        let more = match option.description.trim() {
            "" => String::new(),
            text => format!(" — {text}"),
        };
        lines.push(format!("  {}  {}{more}", index + 1, option.label));
    }
    lines
}

pub(super) fn body(question: Option<&Question>, bar: &Bar) -> Vec<String> {
    let Some(question) = question else { return vec![bar.line("(this question cannot be read)")] };
    let bold = Style::new().bold();
    let mut shown = Vec::new();
    for (index, line) in plain(question).iter().enumerate() {
        let text = clean(line);
        for row in text.lines().flat_map(|line| wrap(line, bar.room)) {
            shown.push(if index == 0 { bar.line(&format!("{bold}{row}{bold:#}")) } else { bar.line(&row) });
        }
    }
    shown
}

pub(super) fn footer(question: Option<&Question>) -> String {
    let how = match question {
        Some(question) if question.options.is_empty() => "answer in your own words",
        Some(question) if question.multi_select => "numbers, as in 1,3, or your own words",
        _ => "a number, or your own words",
    };
    key_line(&[("skip".to_owned(), "no answer".to_owned())], how)
}
