//! The report as a page: framed on a terminal, plain lines elsewhere.

use crate::cli::out;
use crate::cli::text::{self, clean, end_of_words, pad, width};
use crate::os::terminal;
use anstyle::Style;

/// Cells of the labels in front.
const LABEL: usize = 11;
/// A page is never wider.
const MAX_COLUMNS: usize = 100;
/// And never narrower, lest words be broken.
const MIN_COLUMNS: usize = 40;

/// Prints it.
pub(super) fn show(title: &str, report: &str) {
    match terminal::size() {
        Some(size) => framed(title, report, size.columns).into_iter().for_each(out::line),
        None => plain(title, report).into_iter().for_each(out::line),
    }
}

/// A line of the report: what it is about, and what there is.
fn parts(line: &str) -> (&str, &str) {
    match line.split_once("  ") {
        Some((label, value)) if width(label) < LABEL && !label.is_empty() => (label, value.trim()),
        _ => ("", line.trim()),
    }
}

fn plain(title: &str, report: &str) -> Vec<String> {
    let mut lines = vec![String::new(), clean(title).into_owned(), String::new()];
    let report = clean(report);
    lines.extend(report.trim().lines().map(|line| {
        let (label, value) = parts(line);
        format!("  {}{value}", pad(label, LABEL))
    }));
    lines.push(String::new());
    lines
}

fn framed(title: &str, report: &str, columns: usize) -> Vec<String> {
    let (frame, bold) = (Style::new().dimmed(), Style::new().bold());
    let inside = columns.clamp(MIN_COLUMNS, MAX_COLUMNS) - 4;
    let title = clean(title).replace('\n', " ");
    let title = text::fit(&title, inside - 2);
    let rule = "─".repeat(inside - width(&title) - 1);
    let mut lines =
        vec![String::new(), format!("{frame}╭─{frame:#} {bold}{title}{bold:#} {frame}{rule}╮{frame:#}")];
    for line in clean(report).trim().lines() {
        let (mut label, mut rest) = parts(line);
        loop {
            let (row, more) = rest.split_at(end_of_words(rest, inside - LABEL));
            let (label_text, row) = (pad(label, LABEL), pad(row.trim_end(), inside - LABEL));
            lines.push(format!("{frame}│{frame:#} {bold}{label_text}{bold:#}{row} {frame}│{frame:#}"));
            (label, rest) = ("", more.trim_start());
            if rest.is_empty() {
                break;
            }
        }
    }
    lines.push(format!("{frame}╰{}╯{frame:#}", "─".repeat(inside + 2)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "Files      12 on disk, .git aside\n\
        Where      漢字漢字漢字漢字漢字 (7), a directory with a long name (3), \u{1b}[2Jc (2)\n\
        Kinds      no name has an ending";

    #[test]
    fn a_page_is_as_wide_as_the_terminal_whatever_it_says() {
        let shown: Vec<String> = framed("What is in /tmp/a\nb", REPORT, 60)
            .iter()
            .map(|line| anstream::adapter::strip_str(line).to_string())
            .collect();
        assert_eq!(
            shown,
            [
                "",
                "╭─ What is in /tmp/a b ────────────────────────────────────╮",
                "│ Files      12 on disk, .git aside                        │",
                "│ Where      漢字漢字漢字漢字漢字 (7), a directory with a  │",
                "│            long name (3), \\u{1b}[2Jc (2)                 │",
                "│ Kinds      no name has an ending                         │",
                "╰──────────────────────────────────────────────────────────╯",
            ]
        );
        assert!(shown[1..].iter().all(|line| width(line) == 60), "{shown:#?}");
        for columns in [1, 40, 200] {
            let shown = framed("x".repeat(300).as_str(), REPORT, columns);
            let wide = columns.clamp(MIN_COLUMNS, MAX_COLUMNS);
            let plain = |line: &String| width(&anstream::adapter::strip_str(line).to_string());
            assert!(shown[1..].iter().all(|line| plain(line) == wide), "{columns}: {shown:#?}");
        }
    }

    #[test]
    fn without_a_terminal_a_line_stays_a_line() {
        assert_eq!(
            plain("Title", "Files      12\nwithout label")[3..5],
            ["  Files      12", "             without label"]
        );
    }
}
