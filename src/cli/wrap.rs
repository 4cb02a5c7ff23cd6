//! Long lines broken by words, what follows indented below where the text begins.
//!
//! Knows colours: escape sequences take no cells and are never torn. Widths are cells as terminals count
//! them. A line that fits is left as it is.

use super::text::width;

/// Signs with which lines of ours begin; what follows hangs behind them.
const MARKS: [char; 8] = ['│', '┌', '└', '·', '!', '-', '>', '●'];
/// The one that every row of a block has.
const EDGE: char = '│';
/// A label before two spaces is one up to so many cells.
const LABEL: usize = 24;

/// One line as rows of at most so many cells. The rows hold the line's colours.
pub fn wrap(line: &str, columns: usize) -> Vec<String> {
    let plain = anstream::adapter::strip_str(line).to_string();
    if width(&plain) <= columns {
        return vec![line.to_owned()];
    }
    let mut rows =
        Rows { done: Vec::new(), row: String::new(), used: 0, columns, hang: hang(&plain, columns) };
    let mut word = Word::default();
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' => {
                word.text.push(c);
                // A control sequence ends with its first letter; anything else is one character.
                let is_sequence = chars.peek() == Some(&'[');
                while let Some(next) = chars.next_if(|_| is_sequence) {
                    word.text.push(next);
                    if next != '[' && matches!(next, '\x40'..='\x7e') {
                        break;
                    }
                }
            }
            ' ' => {
                rows.put(&mut word);
                rows.space();
            }
            c => {
                word.text.push(c);
                if !c.is_control() {
                    word.plain.push(c);
                }
            }
        }
    }
    rows.put(&mut word);
    rows.done.push(rows.row);
    rows.done
}

/// Several lines, each as its rows.
pub fn all(text: &str, columns: usize) -> String {
    let rows: Vec<String> = text.split('\n').flat_map(|line| wrap(line, columns)).collect();
    rows.join("\n")
}

/// What stands before the text of every further row.
fn hang(plain: &str, columns: usize) -> String {
    let body = plain.trim_start_matches(' ');
    let mut before = " ".repeat(plain.len() - body.len());
    let mut body = body;
    if let Some(mark) = body.chars().next().filter(|c| MARKS.contains(c))
        && body[mark.len_utf8()..].starts_with(' ')
    {
        before.push(if mark == EDGE { EDGE } else { ' ' });
        let rest = body[mark.len_utf8()..].trim_start_matches(' ');
        before.push_str(&" ".repeat(body.len() - mark.len_utf8() - rest.len()));
        body = rest;
    }
    if let Some(at) = body.find("  ")
        && width(&body[..at]) <= LABEL
    {
        let text = body[at..].trim_start_matches(' ');
        let wide = width(&body[..body.len() - text.len()]);
        // Not where hardly any room would be left.
        if width(&before) + wide <= columns / 2 && !text.is_empty() {
            before.push_str(&" ".repeat(wide));
        }
    }
    if width(&before) > columns / 2 {
        before = "  ".to_owned();
    }
    before
}

#[derive(Default)]
struct Word {
    /// With its escape sequences.
    text: String,
    plain: String,
}

struct Rows {
    done: Vec<String>,
    row: String,
    /// Cells of the row.
    used: usize,
    columns: usize,
    hang: String,
}

impl Rows {
    fn put(&mut self, word: &mut Word) {
        let wide = width(&word.plain);
        let hang = width(&self.hang);
        if self.used + wide > self.columns && self.used > hang && wide > 0 {
            self.next();
        }
        if self.used + wide <= self.columns {
            self.row.push_str(&word.text);
            self.used += wide;
        } else {
            self.put_broken(&word.text);
        }
        word.text.clear();
        word.plain.clear();
    }

    /// A word that is longer than a row: broken where the row is full.
    fn put_broken(&mut self, text: &str) {
        let mut in_sequence = false;
        for c in text.chars() {
            in_sequence |= c == '\x1b';
            let cell = if in_sequence || c.is_control() { 0 } else { width(c.encode_utf8(&mut [0; 4])) };
            if in_sequence && c.is_ascii_alphabetic() {
                in_sequence = false;
            }
            if self.used + cell > self.columns {
                self.next();
            }
            self.row.push(c);
            self.used += cell;
        }
    }

    fn space(&mut self) {
        // A space at the end of a row is the break itself; the first row keeps its indent.
        if self.used >= self.columns {
            return;
        }
        self.row.push(' ');
        self.used += 1;
    }

    fn next(&mut self) {
        let row = std::mem::take(&mut self.row);
        self.done.push(row.trim_end_matches(' ').to_owned());
        self.row.clone_from(&self.hang);
        self.used = width(&self.hang);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole_and_hang_below_the_text() {
        assert_eq!(wrap("short", 10), ["short"]);
        assert_eq!(wrap("one two three four", 9), ["one two", "three", "four"]);
        assert_eq!(wrap("  indented words here", 12), ["  indented", "  words here"]);
        assert_eq!(
            wrap("  /mcp   servers: state and tools", 24),
            ["  /mcp   servers: state", "         and tools"]
        );
        assert_eq!(wrap("│ in: a long place", 10), ["│ in: a", "│ long", "│ place"]);
        assert_eq!(wrap("└ y once · n no", 10), ["└ y once ·", "  n no"]);
        assert_eq!(wrap("· Read a.txt and b", 12), ["· Read a.txt", "  and b"]);
        // A label that would leave no room does not count.
        assert_eq!(wrap("a-long-label  text", 14), ["a-long-label", "text"]);
    }

    #[test]
    fn what_is_longer_than_a_row_is_broken_where_it_is_full() {
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("漢字漢字漢", 5), ["漢字", "漢字", "漢"]);
        assert_eq!(wrap("see abcdefghij", 6), ["see", "abcdef", "ghij"]);
    }

    #[test]
    fn colours_take_no_room_and_are_not_torn() {
        let row = "\x1b[1mone\x1b[0m two three";
        assert_eq!(wrap(row, 8), ["\x1b[1mone\x1b[0m two", "three"]);
        assert_eq!(wrap(row, 13), [row]);
        assert_eq!(wrap("\x1b[2mabcdef\x1b[0m", 4), ["\x1b[2mabcd", "ef\x1b[0m"]);
        assert_eq!(all("one two\nthree", 5), "one\ntwo\nthree");
    }
}
