//! Paths as text: inside or outside, and patterns over them.
//!
//! Everything here is lexical. Links were resolved before a path of a file tool comes here; words of
//! shell commands are taken as they stand, and the caller treats them with more doubt.

use globset::{GlobBuilder, GlobMatcher};
use std::path::{Component, Path, PathBuf};

/// Removes `.` and `..` without looking at the disk; `..` at the root stays there.
pub(super) fn normalize(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// Whether `path` is one of `dirs` or below it. A path that climbs is judged by where it ends.
pub(super) fn inside(path: &Path, dirs: &[PathBuf]) -> bool {
    let path = normalize(path);
    path.is_absolute() && dirs.iter().any(|dir| !dir.as_os_str().is_empty() && path.starts_with(dir))
}

/// The absolute path that `text` means to a shell in `cwd`; `None` for `~user` and for `~` without a
/// known home.
pub(super) fn resolve(text: &str, cwd: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let path = match text.strip_prefix('~') {
        None => cwd.join(text),
        Some("") => home?.to_owned(),
        Some(rest) => home?.join(rest.strip_prefix('/')?.trim_start_matches('/')),
    };
    Some(normalize(&path))
}

/// A pattern that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pattern:?} is not a path pattern: {why}")]
pub struct PathPatternError {
    /// The pattern.
    pub pattern: String,
    /// What is wrong.
    pub why: String,
}

/// A path pattern of a rule, bound to a project and a home.
///
/// `//x` is absolute, `~/x` is below the home, anything else is below the project's first directory.
/// `*` stays within one component, `**` crosses them. A pattern without wildcards covers the path
/// itself and all below it; `dir/**` covers `dir` too.
#[derive(Debug)]
pub(super) struct PathPattern {
    plain: Option<PathBuf>,
    matcher: Option<GlobMatcher>,
}

const WILD: [char; 4] = ['*', '?', '[', '{'];

impl PathPattern {
    /// Checks a pattern without binding it.
    pub(super) fn check(pattern: &str) -> Result<(), PathPatternError> {
        Self::bind(pattern, Path::new("/"), Some(Path::new("/"))).map(drop)
    }

    /// Binds a pattern. One that needs a home where there is none matches nothing.
    pub(super) fn bind(pattern: &str, root: &Path, home: Option<&Path>) -> Result<Self, PathPatternError> {
        let wrong = |why: String| PathPatternError { pattern: pattern.to_owned(), why };
        let nothing = Self { plain: None, matcher: None };
        let (base, rest) = if let Some(rest) = pattern.strip_prefix("//") {
            (Path::new("/"), rest)
        } else if let Some(rest) = pattern.strip_prefix('~') {
            let Some(rest) = rest.strip_prefix('/').or(rest.is_empty().then_some("")) else {
                return Err(wrong("only ~/ is understood, not the home of another user".to_owned()));
            };
            match home {
                Some(home) => (home, rest),
                None => return Ok(nothing),
            }
        } else {
            (root, pattern.trim_start_matches('/'))
        };
        let rest = rest.trim_end_matches('/');
        if !rest.contains(WILD) {
            return Ok(Self { plain: Some(normalize(&base.join(rest))), matcher: None });
        }
        let mut base = base.to_owned();
        let mut parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        while parts.first() == Some(&"..") {
            base.pop();
            parts.remove(0);
        }
        if parts.contains(&"..") {
            return Err(wrong("'..' after a wildcard or name".to_owned()));
        }
        let mut plain = None;
        if parts.last() == Some(&"**") && !parts[..parts.len() - 1].iter().any(|part| part.contains(WILD)) {
            plain = Some(base.join(parts[..parts.len() - 1].join("/")));
        }
        let Some(text) = base.to_str() else { return Ok(nothing) };
        let text = format!("{}/{}", globset::escape(text.trim_end_matches('/')), parts.join("/"));
        let glob = GlobBuilder::new(&text)
            .literal_separator(true)
            .build()
            .map_err(|error| wrong(error.kind().to_string()))?;
        Ok(Self { plain, matcher: Some(glob.compile_matcher()) })
    }

    /// Whether the pattern covers this absolute path.
    pub(super) fn matches(&self, path: &Path) -> bool {
        self.plain.as_ref().is_some_and(|plain| path.starts_with(plain))
            || self.matcher.as_ref().is_some_and(|matcher| matcher.is_match(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let table = [
            ("src/**", "/p/src/a/b.rs", true),
            ("src/**", "/p/src", true),
            ("src/**", "/p/srcs/a", false),
            ("src/*", "/p/src/a", true),
            ("src/*", "/p/src/a/b", false),
            ("src", "/p/src/a/b", true),
            ("src/", "/p/src/a", true),
            ("/src", "/p/src/a", true),
            ("./src", "/p/src/a", true),
            ("**/*.rs", "/p/a/b.rs", true),
            ("**/*.rs", "/p/b.rs", true),
            ("**/*.rs", "/q/b.rs", false),
            ("**", "/p/x", true),
            ("**", "/q", false),
            (".env", "/p/.env", true),
            (".env", "/p/sub/.env", false),
            ("**/.env", "/p/sub/.env", true),
            ("//etc/**", "/etc/passwd", true),
            ("//etc", "/etc/passwd", true),
            ("~/.ssh/**", "/h/.ssh/id", true),
            ("~", "/h/x", true),
            ("../q/*", "/q/x", true),
            ("../q", "/q/x", true),
            ("[*]/x", "/p/*/x", true),
            ("[*]/x", "/p/a/x", false),
        ];
        for (pattern, path, expected) in table {
            let bound = PathPattern::bind(pattern, Path::new("/p"), Some(Path::new("/h"))).expect(pattern);
            assert_eq!(bound.matches(Path::new(path)), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn a_root_with_wildcards_in_its_name_is_taken_literally() {
        let bound = PathPattern::bind("*.rs", Path::new("/p[1]*"), None).expect("pattern");
        assert!(bound.matches(Path::new("/p[1]*/a.rs")));
        assert!(!bound.matches(Path::new("/p1x/a.rs")));
    }

    #[test]
    fn wrong_patterns() {
        let error = |pattern| PathPattern::check(pattern).expect_err(pattern).to_string();
        assert_eq!(
            error("~bob/x"),
            "\"~bob/x\" is not a path pattern: only ~/ is understood, not the home of another user"
        );
        assert_eq!(error("a*/../b"), "\"a*/../b\" is not a path pattern: '..' after a wildcard or name");
        assert_eq!(
            error("src/[a"),
            "\"src/[a\" is not a path pattern: unclosed character class; missing ']'"
        );
    }

    #[test]
    fn places() {
        let dirs = [PathBuf::from("/p"), PathBuf::from("/x/y")];
        let table = [
            ("/p", true),
            ("/p/a", true),
            ("/pp", false),
            ("/x/y/../z", false),
            ("/p/../p/a", true),
            ("a", false),
        ];
        for (path, expected) in table {
            assert_eq!(inside(Path::new(path), &dirs), expected, "{path}");
        }
        let at = |text| resolve(text, Path::new("/p"), Some(Path::new("/h")));
        assert_eq!(at("../a"), Some(PathBuf::from("/a")));
        assert_eq!(at("~"), Some(PathBuf::from("/h")));
        assert_eq!(at("~//a"), Some(PathBuf::from("/h/a")));
        assert_eq!(at("~bob/a"), None);
    }
}
