//! Command patterns of rules: `git diff:*`, `npm run *`, `make test`.
//!
//! Patterns speak of words, not of characters, so that a rule cannot be stretched by quoting or by
//! what stands behind it. A word whose text is only known when the shell runs gives *maybe*.

use super::shell::Word;

/// Whether a pattern fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Match {
    /// It does not.
    No,
    /// Only the running shell knows.
    Maybe,
    /// It does.
    Yes,
}

/// A pattern over the words of one simple command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CommandPattern {
    /// These words and no more.
    Exact(Vec<String>),
    /// These words first; written with `:*` at the end.
    Prefix(Vec<String>),
    /// Words with `*`: alone it stands for any number of words, within a word for any characters, at
    /// the end of the last word for those and any words after it.
    Wild(Vec<String>),
}

/// More lone `*` than this in one pattern is refused: matching would take too long.
const MAX_STARS: usize = 4;

impl CommandPattern {
    /// Reads the text between the parentheses of a rule.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Some(prefix) = text.strip_suffix(":*") {
            let words = split(prefix)?;
            return match words.is_empty() {
                true => Err("there is no command before ':*'".to_owned()),
                false => Ok(Self::Prefix(words)),
            };
        }
        let words = split(text)?;
        if words.is_empty() {
            return Err("there is no command in it".to_owned());
        }
        if !text.contains('*') {
            return Ok(Self::Exact(words));
        }
        if words.iter().filter(|word| *word == "*").count() > MAX_STARS {
            return Err(format!("more than {MAX_STARS} '*' that stand alone"));
        }
        Ok(Self::Wild(words))
    }

    /// Whether it fits a simple command.
    pub(super) fn matches(&self, words: &[Word]) -> Match {
        match self {
            Self::Exact(pattern) => match prefix(pattern, words) {
                Match::Yes if words.len() == pattern.len() => Match::Yes,
                Match::Yes if words[pattern.len()..].iter().all(|word| !word.literal) => Match::Maybe,
                Match::Yes => Match::No,
                other => other,
            },
            Self::Prefix(pattern) => prefix(pattern, words),
            Self::Wild(pattern) => wild(pattern, words),
        }
    }

    /// How many of the first words it says; all of them when it is exact.
    pub(super) fn fixed(&self) -> usize {
        match self {
            Self::Exact(_) => usize::MAX,
            Self::Prefix(words) => words.len(),
            Self::Wild(words) => words.iter().take_while(|word| !word.contains('*')).count(),
        }
    }

    /// The program it names, when it says that.
    pub(super) fn program(&self) -> Option<&str> {
        let (Self::Exact(words) | Self::Prefix(words) | Self::Wild(words)) = self;
        words.first().map(String::as_str).filter(|word| !word.contains('*'))
    }

    /// Whether everything `other` fits is certainly fitted by `self` too.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Prefix(wide), Self::Prefix(narrow) | Self::Exact(narrow)) => narrow.starts_with(wide),
            _ => self == other,
        }
    }
}

fn prefix(pattern: &[String], words: &[Word]) -> Match {
    for (i, expected) in pattern.iter().enumerate() {
        match words.get(i) {
            None => return Match::No,
            Some(word) if !word.literal || word.glob => return Match::Maybe,
            Some(word) if word.text != *expected => return Match::No,
            Some(_) => {}
        }
    }
    Match::Yes
}

fn wild(pattern: &[String], words: &[Word]) -> Match {
    let Some((first, rest)) = pattern.split_first() else {
        return match words {
            [] => Match::Yes,
            _ if words.iter().all(|word| !word.literal) => Match::Maybe,
            _ => Match::No,
        };
    };
    if first == "*" {
        return (0..=words.len()).map(|skip| wild(rest, &words[skip..])).max().unwrap_or(Match::No);
    }
    match words.split_first() {
        None => Match::No,
        Some((word, _)) if !word.literal || word.glob => Match::Maybe,
        Some((word, after)) if like(first, &word.text) => match rest {
            [] if first.ends_with('*') => Match::Yes,
            _ => wild(rest, after),
        },
        Some(_) => Match::No,
    }
}

/// Whether `text` fits a pattern in which `*` stands for any characters.
pub(super) fn like(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

/// Splits a pattern into words as a shell would, with quotes and backslashes taken away.
fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some('"') | None, '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    match quote {
        Some(open) => Err(format!("the quote {open} is not closed")),
        None => {
            words.extend(word);
            Ok(words)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::shell;
    use super::*;

    fn matches(pattern: &str, command: &str) -> Match {
        let script = shell::parse(command);
        CommandPattern::parse(pattern).expect(pattern).matches(&script.commands[0].words)
    }

    #[test]
    fn patterns_over_words() {
        use Match::{Maybe, No, Yes};
        let table = [
            ("git diff:*", "git diff", Yes),
            ("git diff:*", "git diff --stat main", Yes),
            ("git diff:*", "git difftool", No),
            ("git diff:*", "git", No),
            ("git diff:*", "git 'diff --stat'", No),
            ("git diff:*", "git $X", Maybe),
            ("git diff:*", "git diff $X", Yes),
            ("npm run test:*", "npm run test:unit", No),
            ("make", "make", Yes),
            ("make", "make test", No),
            ("make", "make $X", Maybe),
            ("make", "'ma'\"ke\"", Yes),
            ("echo 'a b'", "echo a\\ b", Yes),
            ("npm run *", "npm run", Yes),
            ("npm run *", "npm run build --watch", Yes),
            ("git * main", "git checkout main", Yes),
            ("git * main", "git push origin main", Yes),
            ("git * main", "git push origin maint", No),
            ("rm*", "rm -rf x", Yes),
            ("rm*", "rmdir x", Yes),
            ("npm run test:*:ci", "npm run test:unit:ci", Yes),
            ("git * --force", "git push $X", Maybe),
        ];
        for (pattern, command, expected) in table {
            assert_eq!(matches(pattern, command), expected, "{pattern} on {command}");
        }
    }

    #[test]
    fn covering() {
        let table = [
            ("git:*", "git diff:*", true),
            ("git diff:*", "git:*", false),
            ("git:*", "git status", true),
            ("git status", "git status", true),
            ("git *", "git *", true),
            ("git *", "git status", false),
            ("gi:*", "git:*", false),
        ];
        for (wide, narrow, expected) in table {
            let (wide_pattern, narrow_pattern) =
                (CommandPattern::parse(wide).expect(wide), CommandPattern::parse(narrow).expect(narrow));
            assert_eq!(wide_pattern.covers(&narrow_pattern), expected, "{wide} {narrow}");
        }
    }

    #[test]
    fn stars_within_a_word() {
        let table = [
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*a", "a", false),
            ("*", "", true),
            ("a*b*c", "axbxc", true),
            ("a*b*c", "acb", false),
            ("abc", "abcd", false),
        ];
        for (pattern, text, expected) in table {
            assert_eq!(like(pattern, text), expected, "{pattern} {text}");
        }
    }
}
