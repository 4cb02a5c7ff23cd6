//! Walking below a directory as `Glob` and `Grep` do: ignore files honoured, closed parts left out.

use super::context::ToolContext;
use globset::{GlobBuilder, GlobMatcher};
use ignore::{DirEntry, Walk, WalkBuilder};
use std::path::{Path, PathBuf};

/// A glob for paths below a root, as in ignore files: one without a `/` matches at any depth, `*`
/// stops at a `/`, `**` does not, `{a,b}` are alternatives.
pub(super) struct PathPattern {
    matcher: GlobMatcher,
    negated: bool,
    /// How many components a path has that it takes in; `None`: any number.
    depth: Option<usize>,
}

impl PathPattern {
    /// # Errors
    /// What is wrong with it.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let (negated, text) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let anywhere = if text.contains('/') { "" } else { "**/" };
        let text = text.strip_prefix("./").unwrap_or(text);
        let text = format!("{anywhere}{}", text.trim_start_matches('/'));
        let glob = GlobBuilder::new(&text)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| error.kind().to_string())?;
        let fixed = !negated && !text.contains("**") && !slash_in_braces(&text);
        let depth = fixed.then(|| text.matches('/').count() + 1);
        Ok(Self { matcher: glob.compile_matcher(), negated, depth })
    }

    /// How deep a walk has to go to find everything it takes in; `None`: to the ground.
    pub(super) fn depth(&self) -> Option<usize> {
        self.depth
    }

    /// Whether it takes in this path, which is relative to the root.
    pub(super) fn takes(&self, path: &Path) -> bool {
        self.matcher.is_match(path) != self.negated
    }
}

/// Whether alternatives of a pattern may have different numbers of components.
fn slash_in_braces(text: &str) -> bool {
    let mut open = 0_usize;
    text.chars().any(|c| {
        match c {
            '{' => open += 1,
            '}' => open = open.saturating_sub(1),
            _ => {}
        }
        c == '/' && open > 0
    })
}

/// Everything below `root` (real, without links), hidden files too, but nothing that ignore files
/// name, no `.git` and nothing closed; with a `depth`, nothing with more components. Links are not
/// followed.
pub(super) fn walk(root: &Path, depth: Option<usize>, ctx: &ToolContext) -> Walk {
    let ctx = ctx.clone();
    WalkBuilder::new(root)
        .hidden(false)
        .max_depth(depth)
        .sort_by_file_path(Path::cmp)
        .filter_entry(move |entry| {
            let is_git = entry.depth() > 0 && entry.file_name() == ".git";
            !is_git && ctx.closed_by(entry.path()).is_none() && !ctx.cancel.is_cancelled()
        })
        .build()
}

/// The regular file an entry is, with its path below the root (its name, when it is the root).
pub(super) fn regular_file<'a>(entry: &'a DirEntry, root: &Path) -> Option<(&'a Path, PathBuf)> {
    if !entry.file_type().is_some_and(|kind| kind.is_file()) {
        return None;
    }
    let below = entry.path().strip_prefix(root).ok().filter(|path| !path.as_os_str().is_empty());
    let below = below.map_or_else(|| PathBuf::from(entry.file_name()), Path::to_owned);
    Some((entry.path(), below))
}

/// A part of a path that is a pattern.
pub(super) fn is_pattern(part: &str) -> bool {
    part.contains(['*', '?', '[', '{'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_like_those_of_ignore_files() {
        let cases = [
            ("*.rs", "a.rs", true),
            ("*.rs", "deep/er/a.rs", true),
            ("src/*.rs", "src/a.rs", true),
            ("src/*.rs", "src/deep/a.rs", false),
            ("src/**/*.rs", "src/a.rs", true),
            ("src/**/*.rs", "src/deep/er/a.rs", true),
            ("./src/*.{rs,md}", "src/a.md", true),
            ("./*.rs", "src/a.rs", false),
            ("**/*", "a/b", true),
            ("!*.rs", "a.rs", false),
            ("!*.rs", "a.md", true),
            ("[ab].txt", "sub/b.txt", true),
        ];
        for (pattern, path, expected) in cases {
            let taken = PathPattern::new(pattern).expect("a pattern").takes(Path::new(path));
            assert_eq!(taken, expected, "{pattern} on {path}");
        }
        assert!(PathPattern::new("{a").is_err());
    }

    #[test]
    fn the_depth_of_a_walk_follows_from_the_pattern() {
        let cases = [
            ("./*.rs", Some(1)),
            ("/*.rs", Some(1)),
            ("src/[ab]/*.rs", Some(3)),
            ("*.rs", None),
            ("src/**", None),
            ("./{a,b/c}.rs", None),
            ("./{a,{b,c}}/d", Some(2)),
            ("!src/*.rs", None),
        ];
        for (pattern, depth) in cases {
            assert_eq!(PathPattern::new(pattern).expect("a pattern").depth(), depth, "{pattern}");
        }
    }
}
