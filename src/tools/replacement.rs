//! Replacing text in a file's bytes: exact, with line endings and invalid bytes left as they are.
//!
//! Pure. A model writes `\n`; in a file with `\r\n` that means its line ends, and what is put in gets
//! the file's line ends. Everything outside the replaced parts stays byte for byte.

use memchr::memmem;
use std::fmt::Write;

/// Lines that are named in an error.
const MAX_NAMED: usize = 10;
/// Lines around a change that are shown.
const AROUND: usize = 3;
/// Lines of a change that are shown.
const MAX_SHOWN: usize = 30;
/// Characters of a line that are shown there.
const LINE_CHARS: usize = 300;

/// A changed content.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replaced {
    /// All of it.
    pub content: Vec<u8>,
    /// How many places were replaced.
    pub places: usize,
    /// The surroundings of the first place after the change, with line numbers.
    pub excerpt: String,
}

/// Replaces `old` by `new`, everywhere if `all`, else at its one place.
///
/// # Errors
/// Why not, for a model, as the end of a sentence about the file.
pub(super) fn replace(content: &[u8], old: &str, new: &str, all: bool) -> Result<Replaced, String> {
    let view = View::of(content, !old.contains('\r'));
    let places: Vec<usize> = memmem::find_iter(&view.text, old).collect();
    match places.len() {
        0 => return Err(not_found(&view.text, old)),
        count if count > 1 && !all => {
            return Err(format!(
                "holds `old_string` {count} times, at {}. Give more of the text around the one you mean, or set \
                 `replace_all`",
                named(&view.text, &places)
            ));
        }
        _ => {}
    }
    let new = if view.mostly_crlf() && !old.contains('\r') {
        new.replace("\r\n", "\n").replace('\n', "\r\n")
    } else {
        new.to_owned()
    };
    let mut changed = Vec::with_capacity(content.len() + places.len() * new.len());
    let mut done = 0;
    let mut first = None;
    for &place in &places {
        changed.extend_from_slice(&content[done..view.original(place)]);
        first.get_or_insert(changed.len());
        changed.extend_from_slice(new.as_bytes());
        done = view.original(place + old.len());
    }
    changed.extend_from_slice(&content[done..]);
    let excerpt = excerpt(&changed, first.unwrap_or_default(), new.len());
    Ok(Replaced { content: changed, places: places.len(), excerpt })
}

/// A content with `\r\n` read as `\n`.
struct View {
    text: Vec<u8>,
    /// Where in `text` a `\n` stands for `\r\n`.
    crlf: Vec<usize>,
    newlines: usize,
}

impl View {
    fn of(content: &[u8], fold: bool) -> Self {
        let mut view = Self { text: Vec::with_capacity(content.len()), crlf: Vec::new(), newlines: 0 };
        let mut done = 0;
        for end in memchr::memchr_iter(b'\n', content) {
            view.newlines += 1;
            let is_crlf = end > 0 && content[end - 1] == b'\r';
            view.text.extend_from_slice(&content[done..end - usize::from(is_crlf && fold)]);
            if is_crlf && fold {
                view.crlf.push(view.text.len());
            }
            view.text.push(b'\n');
            done = end + 1;
        }
        view.text.extend_from_slice(&content[done..]);
        view
    }

    /// The place in the content that a place in `text` stands for; that of a `\n` is its `\r`.
    fn original(&self, at: usize) -> usize {
        at + self.crlf.partition_point(|&place| place < at)
    }

    fn mostly_crlf(&self) -> bool {
        self.crlf.len() * 2 > self.newlines
    }
}

fn line_of(text: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', &text[..at]).count() + 1
}

fn named(text: &[u8], places: &[usize]) -> String {
    let lines: Vec<String> = places.iter().take(MAX_NAMED).map(|&at| line_of(text, at).to_string()).collect();
    let more = if places.len() > MAX_NAMED { " …" } else { "" };
    format!("lines {}{more}", lines.join(", "))
}

fn not_found(text: &[u8], old: &str) -> String {
    let hint = if looks_numbered(old) {
        "; it seems to hold the line numbers that Read shows, which are not part of the file".to_owned()
    } else if let Some(line) = with_other_space(text, old) {
        format!("; line {line} begins the same text with other white space. Copy it exactly as Read shows it")
    } else if let Some(places) = first_line(text, old) {
        format!(
            "; its first line is there ({}), but not what follows. Read that part again",
            named(text, &places)
        )
    } else {
        ". Read it again and copy the text exactly".to_owned()
    };
    format!("does not hold `old_string`{hint}")
}

/// Whether each line begins like a line of `Read`.
fn looks_numbered(old: &str) -> bool {
    old.lines()
        .all(|line| line.split_once('\t').is_some_and(|(number, _)| number.trim().parse::<usize>().is_ok()))
}

/// The line where the same words begin, were it not for white space.
fn with_other_space(text: &[u8], old: &str) -> Option<usize> {
    let wanted: Vec<&str> = old.lines().map(str::trim).collect();
    if wanted.iter().all(|line| line.is_empty()) {
        return None;
    }
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.windows(wanted.len()).position(|window| window == wanted).map(|index| index + 1)
}

fn first_line(text: &[u8], old: &str) -> Option<Vec<usize>> {
    let (line, _) = old.split_once('\n')?;
    let places: Vec<usize> = memmem::find_iter(text, line.trim()).collect();
    (!line.trim().is_empty() && !places.is_empty()).then_some(places)
}

fn excerpt(content: &[u8], at: usize, length: usize) -> String {
    let first = line_of(content, at);
    let last = line_of(content, at + length);
    let from = first.saturating_sub(AROUND).max(1);
    let lines = content.split(|&byte| byte == b'\n').enumerate().skip(from - 1);
    let mut text = String::new();
    for (index, line) in lines.take((last + AROUND + 1 - from).min(MAX_SHOWN)) {
        let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
        let line: String = line.chars().take(LINE_CHARS).collect();
        let _ = writeln!(text, "{:>6}\t{line}", index + 1);
    }
    text.trim_end_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn content(result: Result<Replaced, String>) -> String {
        String::from_utf8(result.expect("replaced").content).expect("text")
    }

    #[test]
    fn one_place_or_all_of_them() {
        assert_eq!(content(replace(b"a b c", "b", "x\ny", false)), "a x\ny c");
        assert_eq!(content(replace(b"aXaXa", "a", "", true)), "XX");
        let error = replace(b"x\ny\nx x\n", "x", "z", false).expect_err("ambiguous");
        assert!(error.starts_with("holds `old_string` 3 times, at lines 1, 3, 3. "), "{error}");
    }

    #[test]
    fn line_ends_and_foreign_bytes_stay() {
        let file = b"\xef\xbb\xbfone\r\ntwo\xff\r\nthree\r\n";
        let changed = replace(file, "one\n", "1\n1b\n", false).expect("replaced").content;
        assert_eq!(changed, b"\xef\xbb\xbf1\r\n1b\r\ntwo\xff\r\nthree\r\n");
        let mixed = b"a\nb\r\nc\nd\n";
        assert_eq!(content(replace(mixed, "b\nc", "B\nC", false)), "a\nB\nC\nd\n");
        assert_eq!(content(replace(mixed, "b", "x", false)), "a\nx\r\nc\nd\n");
        assert_eq!(content(replace(b"a\r\nb", "a\r\n", "a\n", false)), "a\nb", "on purpose");
    }

    #[test]
    fn what_is_not_found_gets_the_most_helpful_hint() {
        let file = b"fn main() {\n    go();\n}\n";
        for (old, hint) in [
            ("    1\tfn main() {", "line numbers"),
            ("fn main() {\n\tgo();", "line 1 begins the same text with other white space"),
            ("fn main() {\n    stop();", "its first line is there (lines 1)"),
            ("nothing", "Read it again"),
        ] {
            let error = replace(file, old, "x", false).expect_err("not there");
            assert!(error.starts_with("does not hold `old_string`") && error.contains(hint), "{error}");
        }
    }

    #[test]
    fn the_excerpt_shows_the_change_with_its_lines() {
        let file: String = (1..=20).map(|n| format!("line {n}\r\n")).collect();
        let excerpt = replace(file.as_bytes(), "line 10\n", "ten\nten b\n", false).expect("replaced").excerpt;
        let expected = "     7\tline 7\n     8\tline 8\n     9\tline 9\n    10\tten\n    11\tten b\n    12\tline 11\n    \
                        13\tline 12\n    14\tline 13\n    15\tline 14";
        assert_eq!(excerpt, expected);
    }

    proptest! {
        #[test]
        fn only_the_places_change(parts in prop::collection::vec("[ab\r\n\u{e9}]{0,6}", 1..6), all: bool) {
            let file = parts.join("OLD");
            let expected = parts.join("NEW");
            let result = replace(file.as_bytes(), "OLD", "NEW", all);
            match (parts.len() - 1, all) {
                (0, _) => prop_assert!(result.is_err()),
                (count, false) if count > 1 => prop_assert!(result.is_err()),
                (count, _) => {
                    let replaced = result.expect("replaced");
                    prop_assert_eq!(replaced.places, count);
                    prop_assert_eq!(String::from_utf8(replaced.content).expect("text"), expected);
                }
            }
        }
    }
}
