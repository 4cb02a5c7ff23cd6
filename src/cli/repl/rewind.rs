//! `/rewind`: where one can go back to, what is meant by a line, and what came of it, in words.

use crate::agent::rewind::{Place, Rewound, What};
use crate::cli::text;
use crate::store::clock;
use std::path::Path;

/// How it is used.
const USE: &str = "/rewind N takes back files and conversation to before it; /rewind N files, or /rewind N conversation, \
                   only one of them";
/// What it cannot do.
const NOT_COVERED: &str = "What commands (Bash) or teammates in other processes have changed is not covered.";

/// What is to be taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing: the places are to be shown.
    List,
    /// To before the place with this number, from 1.
    To(usize, What),
    /// The words make no sense.
    Unclear,
}

/// What is meant by what follows `/rewind`.
pub fn wanted(rest: &str) -> Wanted {
    let mut words = rest.split_whitespace();
    let Some(number) = words.next() else { return Wanted::List };
    let what = match words.next() {
        None | Some("both") => What::Both,
        Some("files") => What::Files,
        Some("conversation" | "talk") => What::Conversation,
        Some(_) => return Wanted::Unclear,
    };
    match number.parse() {
        Ok(number) if number > 0 && words.next().is_none() => Wanted::To(number, what),
        _ => Wanted::Unclear,
    }
}

/// The places, newest last, a line each, and how to go on.
pub fn list(places: &[Place], columns: usize) -> Vec<String> {
    if places.is_empty() {
        return vec!["there is nothing to go back to yet".to_owned()];
    }
    let mut lines: Vec<String> = places
        .iter()
        .enumerate()
        .map(|(i, place)| {
            let ago = clock::millis_since(&place.at).map_or_else(String::new, crate::cli::status::age);
            let files = match place.files {
                0 => String::new(),
                1 => "1 file".to_owned(),
                n => format!("{n} files"),
            };
            let head = text::head(&place.text, 200);
            text::fit(&format!("{:>4}  {ago:>5} ago  {files:>9}  {head}", i + 1), columns.saturating_sub(1))
                .into_owned()
        })
        .collect();
    lines.extend([USE.to_owned(), NOT_COVERED.to_owned()]);
    lines
}

/// How it is used, for words that make no sense.
pub fn usage() -> String {
    format!("/rewind shows the places; {USE}")
}

/// What came of it: lines, and those that need attention.
pub fn told(place: &Place, what: What, rewound: &Rewound, cwd: &Path) -> (Vec<String>, Vec<String>) {
    let shown =
        |path: &Path| text::clean(&path.strip_prefix(cwd).unwrap_or(path).display().to_string()).into_owned();
    let mut lines: Vec<String> =
        rewound.restored.iter().map(|path| format!("{} is as it was", shown(path))).collect();
    lines.extend(rewound.removed.iter().map(|path| format!("{} is removed: it was not there", shown(path))));
    if lines.is_empty() && rewound.failed.is_empty() && what != What::Conversation {
        lines.push("no file had to be put back".to_owned());
    }
    if what != What::Files && rewound.not_read.is_none() {
        lines.push(format!("the conversation goes on from before: {}", text::head(&place.text, 200)));
    }
    let failed = &rewound.failed;
    let warnings = failed.iter().map(|(path, why)| format!("{} could not be put back: {why}", shown(path)));
    let not_read = rewound.not_read.iter().map(|why| {
        format!("the conversation goes on as it was until the session is resumed, which takes it back: {why}")
    });
    (lines, warnings.chain(not_read).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_went_half_way_says_what_was_and_what_was_not_put_back() {
        let place = Place {
            line: crate::wire::ids::LineId::generate(),
            at: clock::now(),
            text: "Do it.".to_owned(),
            files: 3,
        };
        let rewound = Rewound {
            restored: vec!["/p/a".into()],
            removed: vec!["/p/b".into()],
            failed: vec![("/p/c".into(), "it is no file".to_owned())],
            not_read: Some("disk full".to_owned()),
        };
        let (lines, warnings) = told(&place, What::Both, &rewound, Path::new("/p"));
        assert_eq!(lines, ["a is as it was", "b is removed: it was not there"]);
        assert_eq!(
            warnings,
            [
                "c could not be put back: it is no file",
                "the conversation goes on as it was until the session is resumed, which takes it back: disk full"
            ]
        );
    }

    #[test]
    fn a_number_and_perhaps_what() {
        for (rest, meant) in [
            ("", Wanted::List),
            ("3", Wanted::To(3, What::Both)),
            ("3 files", Wanted::To(3, What::Files)),
            ("1 conversation", Wanted::To(1, What::Conversation)),
            ("0", Wanted::Unclear),
            ("x", Wanted::Unclear),
            ("2 files now", Wanted::Unclear),
            ("2 everything", Wanted::Unclear),
        ] {
            assert_eq!(wanted(rest), meant, "{rest:?}");
        }
    }
}
