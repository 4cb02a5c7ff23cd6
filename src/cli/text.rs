//! Text made fit for a terminal: harmless, and as wide as there is room.
//!
//! Widths are cells as terminals count them, so names and words of any script line up.

use std::borrow::Cow;
use unicode_width::UnicodeWidthStr;

/// The width that is assumed where there is no terminal to ask.
pub const DEFAULT_COLUMNS: usize = 80;

/// What agents write, without anything that could move the cursor, reorder a line or hide a part of
/// it: such characters are written out. Line breaks stay, tabs become spaces.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| c != '\n' && is_harmful(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' => out.push(c),
            '\t' => out.push_str("    "),
            '\r' if chars.peek() == Some(&'\n') => {}
            c if is_harmful(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// A sentence that may hold names of any kind, made harmless. A line break in it is a name's own and is
/// written out, unless the line after it is indented: that is a list under the sentence.
pub fn sentence(text: &str) -> String {
    let mut lines = text.split('\n');
    let mut out = clean(lines.next().unwrap_or_default()).into_owned();
    for line in lines {
        out.push_str(if line.starts_with("  ") { "\n" } else { "\\u{a}" });
        out.push_str(&clean(line));
    }
    out
}

fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Cells of a text without control characters.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The part that fits, with `…` where something is missing.
pub fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let head = &text[..end_of_row(text, columns.saturating_sub(1))];
    Cow::Owned(if columns == 0 { String::new() } else { format!("{head}…") })
}

/// Filled up with spaces on the right, or cut.
pub fn pad(text: &str, columns: usize) -> String {
    let text = fit(text, columns);
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(&text))))
}

/// The first line that is not blank, cut to `columns`.
pub fn head(text: &str, columns: usize) -> String {
    let line = text.lines().find(|l| !l.trim().is_empty()).unwrap_or_default().trim();
    fit(&clean(line), columns).into_owned()
}

/// Where a row of so many cells ends: a byte offset, past at least one character.
pub fn end_of_row(text: &str, columns: usize) -> usize {
    let mut end = 0;
    for (at, c) in text.char_indices() {
        let next = at + c.len_utf8();
        if end > 0 && width(&text[..next]) > columns {
            return end;
        }
        end = next;
    }
    end
}

/// One line as rows, broken wherever a row is full; nothing is left out. An empty line is one row.
pub fn rows(line: &str, columns: usize) -> Vec<&str> {
    let mut rows = Vec::new();
    let mut rest = line;
    loop {
        let (row, more) = rest.split_at(end_of_row(rest, columns));
        rows.push(row);
        if more.is_empty() {
            return rows;
        }
        rest = more;
    }
}

/// Where to break a line that is longer than the row: after its last space, else where it is full.
pub fn end_of_words(text: &str, columns: usize) -> usize {
    let full = end_of_row(text, columns);
    if full == text.len() || text[full..].starts_with(' ') {
        return full;
    }
    match text[..full].rfind(' ') {
        Some(space) if !text[..space].trim().is_empty() => space + 1,
        _ => full,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_play_with_the_terminal_is_written_out() {
        assert_eq!(clean("plain äöü 漢字\nnext"), "plain äöü 漢字\nnext");
        assert_eq!(
            clean("a\tb\r\nc\rd\u{1b}[2J\u{202e}e\u{7}"),
            "a    b\nc\\u{d}d\\u{1b}[2J\\u{202e}e\\u{7}"
        );
    }

    #[test]
    fn a_name_cannot_break_the_sentence_it_is_in() {
        assert_eq!(
            sentence("no session of /tmp/a\nb\u{202e}c\u{9b}"),
            "no session of /tmp/a\\u{a}b\\u{202e}c\\u{9b}"
        );
        assert_eq!(sentence("which session?\n  one\n  two"), "which session?\n  one\n  two");
    }

    #[test]
    fn rows_are_as_wide_as_terminals_count() {
        assert_eq!(fit("漢字漢字", 5), "漢字…");
        assert_eq!(fit("漢字漢字", 8), "漢字漢字");
        assert_eq!(fit("abc", 0), "");
        assert_eq!(pad("漢", 4), "漢  ");
        assert_eq!(rows("漢字ab", 3), ["漢", "字a", "b"]);
        assert_eq!(rows("", 3), [""]);
        assert_eq!(rows("漢", 1), ["漢"], "a row takes at least one character");
    }

    #[test]
    fn words_stay_whole_where_they_can() {
        let text = "one two three";
        assert_eq!(end_of_words(text, 9), 8);
        assert_eq!(end_of_words(text, 7), 7, "a space after the row is no reason to go back");
        assert_eq!(end_of_words("abcdefgh", 3), 3);
        assert_eq!(end_of_words("    abcdefgh", 6), 6, "an indent alone is no row");
    }
}
