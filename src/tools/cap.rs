//! Cuts a result that is too long for the history, and keeps the whole in a file the model can read.
//!
//! Promises that a cut is marked with what is missing and where the whole is, or why it could not be
//! kept. Never cuts blocks (images), never overwrites a kept output.

use super::tool::{ToolContent, ToolOutput};
use super::work;
use sha2::{Digest, Sha256};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Room for the mark of a cut, in characters; a path may be as long as this.
const MARK_CHARS: usize = 1_000;
/// Files of one call id (ids are the model's, and agents of a session share the directory).
const MAX_SAME_ID: usize = 1_000;

/// Cuts a text result to `chars` characters, its head and tail kept; the whole goes into
/// `<output_dir>/<id>.txt`, 0600.
pub async fn cap(output: ToolOutput, chars: usize, output_dir: &Path, id: &str) -> ToolOutput {
    let text = match output.content {
        ToolContent::Text(text) if is_longer(&text, chars) => text,
        content => return ToolOutput { content, ..output },
    };
    let (dir, id) = (output_dir.to_owned(), id.to_owned());
    let cut = work::blocking(move || {
        let kept = keep(&dir, &id, text.as_bytes()).map_err(|error| error.to_string());
        cut(&text, chars, &kept)
    });
    match cut.await {
        Ok(text) => ToolOutput { content: ToolContent::Text(text), ..output },
        Err(failure) => failure,
    }
}

fn is_longer(text: &str, chars: usize) -> bool {
    text.len() > chars && text.chars().count() > chars
}

fn keep(dir: &Path, id: &str, content: &[u8]) -> io::Result<PathBuf> {
    let (mut file, path) = create(dir, id)?;
    file.write_all(content)?;
    Ok(path)
}

/// Creates the file for the whole output of a call: `<id>.txt`, or `<id>-2.txt` … when that exists.
pub(super) fn create(dir: &Path, id: &str) -> io::Result<(File, PathBuf)> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let stem = stem(id);
    for number in 1..=MAX_SAME_ID {
        let name = if number == 1 { format!("{stem}.txt") } else { format!("{stem}-{number}.txt") };
        let path = dir.join(name);
        // `create_new` follows no link and overwrites nothing.
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many outputs of one id"))
}

/// A call id as a file name. Ids come from outside and may hold anything.
fn stem(id: &str) -> String {
    let clean: String = id
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' })
        .take(80)
        .collect();
    if clean == id && !id.is_empty() {
        return clean;
    }
    let hash = Sha256::digest(id.as_bytes());
    let hex: String = hash[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{clean}-{hex}")
}

/// Head and tail of a text, with a mark between them that names the file with the whole.
fn cut(text: &str, chars: usize, kept: &Result<PathBuf, String>) -> String {
    let total = text.chars().count();
    let (head, tail) = (head(text, half(chars)), tail(text, half(chars)));
    let missing = total - head.chars().count() - tail.chars().count();
    joined(head, tail, &format!("{missing} of {total} characters"), kept)
}

/// A text of at most about `chars` characters: its two ends, when the whole is in `whole`.
pub fn shorten(text: &str, chars: usize, whole: &Path) -> String {
    if is_longer(text, chars) { cut(text, chars, &Ok(whole.to_owned())) } else { text.to_owned() }
}

/// Characters for each end.
pub(super) fn half(chars: usize) -> usize {
    chars.saturating_sub(MARK_CHARS) / 2
}

/// Two ends of an output with a mark between them.
pub(super) fn joined(head: &str, tail: &str, missing: &str, kept: &Result<PathBuf, String>) -> String {
    let place = match kept {
        Ok(path) => format!("the whole is in {}", path.display()),
        Err(why) => format!("the whole could not be kept: {why}"),
    };
    format!("{head}\n\n[… {missing} are left out here; {place} …]\n\n{tail}")
}

/// The first characters, cut after a line where one ends near.
pub(super) fn head(text: &str, chars: usize) -> &str {
    let end = text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    let head = &text[..end];
    match head.rfind('\n') {
        Some(line) if line > end / 2 && end < text.len() => &head[..line],
        _ => head,
    }
}

/// The last characters, cut before a line where one begins near.
pub(super) fn tail(text: &str, chars: usize) -> &str {
    let start = match chars.checked_sub(1) {
        None => text.len(),
        Some(nth) => text.char_indices().rev().nth(nth).map_or(0, |(at, _)| at),
    };
    let tail = &text[start..];
    match tail.find('\n') {
        Some(line) if line < tail.len() / 2 && start > 0 => &tail[line + 1..],
        _ => tail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::block::Block;
    use std::os::unix::fs::PermissionsExt;

    fn text_of(output: ToolOutput) -> String {
        match output.content {
            ToolContent::Text(text) => text,
            ToolContent::Blocks(_) => panic!("blocks"),
        }
    }

    #[tokio::test]
    async fn a_long_text_keeps_its_ends_and_the_whole_is_in_the_file() {
        let temp = tempfile::tempdir().expect("temp");
        let dir = temp.path().join("new/output");
        let long: String = (0..20_000).map(|line| format!("zeile {line} ü\n")).collect();
        let mut output = cap(ToolOutput::error(long.clone()), 30_000, &dir, "toolu_1").await;
        assert!(output.is_error);
        output.is_error = false;
        let text = text_of(output);
        assert!(text.chars().count() <= 30_000, "{}", text.chars().count());
        assert!(text.starts_with("zeile 0 ü\nzeile 1 ü\n"));
        assert!(text.ends_with("ü\nzeile 19999 ü\n"));
        let path = dir.join("toolu_1.txt");
        assert!(text.contains(&format!("the whole is in {}", path.display())));
        assert_eq!(std::fs::read_to_string(&path).expect("kept"), long);
        assert_eq!(std::fs::metadata(&path).expect("meta").permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&dir).expect("meta").permissions().mode() & 0o777, 0o700);
        // A second call of the same id overwrites nothing.
        cap(ToolOutput::ok(long.clone() + "x"), 30_000, &dir, "toolu_1").await;
        assert_eq!(std::fs::read_to_string(&path).expect("kept"), long);
        assert_eq!(std::fs::read_to_string(dir.join("toolu_1-2.txt")).expect("kept"), long + "x");
    }

    #[tokio::test]
    async fn what_fits_and_what_is_no_text_stays_as_it_is() {
        let temp = tempfile::tempdir().expect("temp");
        let fits = "ü".repeat(30_000);
        assert_eq!(text_of(cap(ToolOutput::ok(fits.clone()), 30_000, temp.path(), "t").await), fits);
        let blocks = vec![Block::text(&"x".repeat(40_000))];
        let output = ToolOutput { content: ToolContent::Blocks(blocks.clone()), is_error: false };
        match cap(output, 30_000, temp.path(), "t").await.content {
            ToolContent::Blocks(same) => assert_eq!(same, blocks),
            ToolContent::Text(_) => panic!("text"),
        }
        assert_eq!(std::fs::read_dir(temp.path()).expect("list").count(), 0);
    }

    #[tokio::test]
    async fn one_endless_line_and_a_full_disk_are_told() {
        let temp = tempfile::tempdir().expect("temp");
        let blocked = temp.path().join("file");
        std::fs::write(&blocked, "").expect("write");
        let text = text_of(cap(ToolOutput::ok("x".repeat(50_000)), 30_000, &blocked, "t").await);
        assert!(text.contains("21000 of 50000 characters are left out here; the whole could not be kept: "));
    }

    #[test]
    fn ids_never_leave_the_directory() {
        assert_eq!(stem("toolu_01-aZ"), "toolu_01-aZ");
        for id in ["", "../../etc/passwd", "a/b", "ü", ".", &"x".repeat(500)] {
            let stem = stem(id);
            assert!(!stem.is_empty() && stem.len() < 100 && !stem.contains(['/', '.']), "{stem}");
        }
        assert_ne!(stem("a/b"), stem("a.b"));
    }
}
