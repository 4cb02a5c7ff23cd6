//! Permission rules: `Tool` or `Tool(pattern)`, and what they cover.
//!
//! Owns the syntax. A rule is parsed where it is read ([`check`] says what is wrong with it) and
//! again where it is used, so that all processes work on the same text.

use super::command::{CommandPattern, like};
use super::path::PathPattern;
use std::fmt;

/// Tools that `Edit(…)` covers; each can also be named alone.
pub const EDIT_TOOLS: [&str; 3] = ["Edit", "Write", "NotebookEdit"];
/// Tools that `Read(…)` covers; each can also be named alone.
pub const READ_TOOLS: [&str; 3] = ["Read", "Glob", "Grep"];

/// Parts of a project that steer git or the agents themselves: a mode never lets edits of them
/// through, and a rule only when its pattern names the part.
pub(super) const PROTECTED: [&str; 4] = [".git", ".festoon", ".claude", ".mcp.json"];

/// A rule that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule:?} is not a permission rule: {why}")]
pub struct RuleError {
    /// The rule as written.
    pub rule: String,
    /// What is wrong with it, and what would be right.
    pub why: String,
}

/// Says what is wrong with a rule, for whoever wrote it.
pub fn check(rule: &str) -> Result<(), RuleError> {
    Parsed::new(rule).map(drop)
}

/// The entries of a list of rules or tools: separated by commas outside parentheses, trimmed; an
/// empty one stays, so that whoever reads the list can say so.
pub fn split_list(text: &str) -> Vec<String> {
    let mut depth = 0_u32;
    let between = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    text.split(between).map(|entry| entry.trim().to_owned()).collect()
}

/// A rule that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parsed {
    tool: String,
    pattern: Pattern,
}

/// What stands in the parentheses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Nothing, or `*`: every call of the tool.
    Any,
    /// Of `Bash`; the text as written is kept, since it fits a command that equals it.
    Command(String, CommandPattern),
    /// Of the file tools.
    Path(String),
    /// Of `WebFetch`: a domain and all below it, in lower case.
    Domain(String),
    /// Of `Agent` and `SendMessage`: a name, in which `*` stands for any characters.
    Name(String),
}

impl Parsed {
    /// Reads a rule.
    pub(super) fn new(rule: &str) -> Result<Self, RuleError> {
        let wrong = |why: &dyn fmt::Display| RuleError { rule: rule.to_owned(), why: why.to_string() };
        let text = rule.trim();
        let (tool, inner) = match text.split_once('(') {
            None if text.ends_with(')') => return Err(wrong(&"it has a ')' without a '('")),
            None => (text, None),
            Some((tool, rest)) => match rest.strip_suffix(')') {
                None => return Err(wrong(&"it does not end in ')'")),
                Some(inner) => (tool, Some(inner.trim())),
            },
        };
        if tool.is_empty() {
            return Err(wrong(&"it names no tool; write Tool or Tool(pattern)"));
        }
        let good = |c: char| c.is_alphanumeric() || "_-.*".contains(c);
        if let Some(bad) = tool.chars().find(|c| !good(*c)) {
            return Err(wrong(&format_args!("{bad:?} cannot be part of a tool's name")));
        }
        if tool.contains('*') && !tool.starts_with("mcp__") {
            return Err(wrong(&"'*' in a tool's name is for MCP tools, as in mcp__server__*"));
        }
        let pattern = match inner {
            None | Some("*") => Pattern::Any,
            Some("") => return Err(wrong(&"the parentheses are empty; leave them out to mean every call")),
            Some(inner) => Self::pattern(tool, inner).map_err(|why| wrong(&why))?,
        };
        Ok(Self { tool: tool.to_owned(), pattern })
    }

    fn pattern(tool: &str, inner: &str) -> Result<Pattern, String> {
        match tool {
            "Bash" => Ok(Pattern::Command(inner.to_owned(), CommandPattern::parse(inner)?)),
            "WebFetch" => match inner.strip_prefix("domain:") {
                Some(domain) if domain.trim_start_matches("*.").contains(['*', '/', ':', ' ']) => {
                    Err(format!("{domain:?} is not a domain"))
                }
                Some(domain) if !domain.is_empty() => {
                    Ok(Pattern::Domain(domain.trim_start_matches("*.").to_ascii_lowercase()))
                }
                _ => Err("write WebFetch(domain:example.org)".to_owned()),
            },
            "Agent" | "SendMessage" => Ok(Pattern::Name(inner.to_owned())),
            _ if EDIT_TOOLS.contains(&tool) || READ_TOOLS.contains(&tool) => {
                PathPattern::check(inner).map_err(|error| error.why)?;
                Ok(Pattern::Path(inner.to_owned()))
            }
            _ => Err(format!("{tool} takes no pattern; write {tool}")),
        }
    }

    /// Whether the rule is about calls of this tool.
    pub(super) fn names(&self, tool: &str) -> bool {
        match self.tool.as_str() {
            "Edit" => EDIT_TOOLS.contains(&tool),
            "Read" => READ_TOOLS.contains(&tool),
            name if name.starts_with("mcp__") => {
                // `mcp__server` names all tools of the server.
                like(name, tool)
                    || (name.matches("__").count() == 1
                        && tool.strip_prefix(name).is_some_and(|rest| rest.starts_with("__")))
            }
            name => name == tool,
        }
    }

    /// The pattern.
    pub(super) fn pattern_ref(&self) -> &Pattern {
        &self.pattern
    }

    /// Whether everything `other` allows is certainly allowed by `self` too. May say no when it is.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let tool = match (self.tool.as_str(), other.tool.as_str()) {
            (mine, theirs) if mine == theirs => true,
            (mine, theirs) if theirs.contains('*') => {
                mine.ends_with('*') && theirs.starts_with(mine.trim_end_matches('*'))
            }
            (_, theirs) => self.names(theirs),
        };
        let protects = |part: &&str| match &other.pattern {
            Pattern::Path(theirs) => theirs.contains(*part),
            _ => false,
        };
        let mine = match &self.pattern {
            Pattern::Path(mine) => mine.as_str(),
            _ => "",
        };
        tool && PROTECTED.iter().filter(|part| protects(part)).all(|part| mine.contains(part))
            && match (&self.pattern, &other.pattern) {
                (Pattern::Any, _) => true,
                (Pattern::Command(_, mine), Pattern::Command(text, theirs)) => {
                    self.pattern == other.pattern || (mine.covers(theirs) && is_one_command(text))
                }
                (Pattern::Path(mine), Pattern::Path(theirs)) => path_covers(mine, theirs),
                (Pattern::Domain(mine), Pattern::Domain(theirs)) => in_domain(theirs, mine),
                (Pattern::Name(mine), Pattern::Name(theirs)) => mine == theirs || mine == "*",
                _ => false,
            }
    }
}

/// A rule's text also fits a command that equals it; that must not make `git:*` cover `git a && b`.
fn is_one_command(text: &str) -> bool {
    text.strip_suffix(":*").unwrap_or(text).chars().all(|c| c.is_alphanumeric() || " -_./:,@+".contains(c))
}

/// `dir/**` covers what begins with `dir/` and climbs nowhere.
fn path_covers(mine: &str, theirs: &str) -> bool {
    let beneath = |dir: &str| {
        theirs.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
            && !theirs.split('/').any(|part| part == "..")
    };
    mine == theirs
        || mine.strip_suffix("/**").is_some_and(|dir| {
            !dir.is_empty() && !dir.contains(['*', '?', '[', '{']) && (theirs == dir || beneath(dir))
        })
}

/// Whether `host` is `domain` or below it; both in lower case.
pub(super) fn in_domain(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// The host of an `http` or `https` address in lower case; `None` for anything else.
pub(super) fn host(url: &str) -> Option<String> {
    let (scheme, rest) = url.trim().split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    if url.chars().any(char::is_control) {
        return None;
    }
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
    let host = match address.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => address.split(':').next()?,
    };
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    (!host.is_empty()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_split_outside_parentheses() {
        assert_eq!(split_list("Read, Bash(git log:*,x),Edit(a)"), ["Read", "Bash(git log:*,x)", "Edit(a)"]);
        assert_eq!(split_list(" ,"), ["", ""]);
    }

    #[test]
    fn malformed_rules_say_what_is_wrong() {
        let table = [
            ("Bash(ls", "it does not end in ')'"),
            ("Bash ls)", "it has a ')' without a '('"),
            ("Bash()", "the parentheses are empty; leave them out to mean every call"),
            ("(ls)", "it names no tool; write Tool or Tool(pattern)"),
            ("", "it names no tool; write Tool or Tool(pattern)"),
            ("Ba sh", "' ' cannot be part of a tool's name"),
            ("*", "'*' in a tool's name is for MCP tools, as in mcp__server__*"),
            ("Bash(:*)", "there is no command before ':*'"),
            ("Bash(echo 'a)", "the quote ' is not closed"),
            ("Bash(* * * * *)", "more than 4 '*' that stand alone"),
            ("WebFetch(example.org)", "write WebFetch(domain:example.org)"),
            ("WebFetch(domain:)", "write WebFetch(domain:example.org)"),
            ("WebFetch(domain:a.org/b)", "\"a.org/b\" is not a domain"),
            ("TodoWrite(x)", "TodoWrite takes no pattern; write TodoWrite"),
            ("mcp__a__b(x)", "mcp__a__b takes no pattern; write mcp__a__b"),
            ("Edit(~bob/x)", "only ~/ is understood, not the home of another user"),
        ];
        for (rule, why) in table {
            let expected = RuleError { rule: rule.to_owned(), why: why.to_owned() };
            assert_eq!(check(rule), Err(expected));
        }
        assert_eq!(
            check("Bash(ls").expect_err("malformed").to_string(),
            "\"Bash(ls\" is not a permission rule: it does not end in ')'"
        );
    }

    #[test]
    fn tools_a_rule_names() {
        let table = [
            ("Edit", "Write", true),
            ("Edit(src/**)", "NotebookEdit", true),
            ("Write", "Edit", false),
            ("Read", "Grep", true),
            ("Glob", "Read", false),
            ("mcp__db__*", "mcp__db__query", true),
            ("mcp__db__*", "mcp__dbx__query", false),
            ("mcp__db", "mcp__db__query", true),
            ("mcp__db", "mcp__dbx__query", false),
            ("mcp__*", "mcp__db__query", true),
            ("Bash", "BashX", false),
        ];
        for (rule, tool, expected) in table {
            assert_eq!(Parsed::new(rule).expect(rule).names(tool), expected, "{rule} {tool}");
        }
    }

    #[test]
    fn hosts() {
        let table = [
            ("https://Example.org/x", Some("example.org")),
            ("http://example.org:8080", Some("example.org")),
            ("https://example.org@evil.com/", Some("evil.com")),
            ("https://evil.com\\@example.org/", Some("evil.com")),
            ("https://evil.com#@example.org", Some("evil.com")),
            ("https://example.org./", Some("example.org")),
            ("https://[::1]:80/", Some("::1")),
            ("file:///etc/passwd", None),
            ("example.org", None),
        ];
        for (url, expected) in table {
            assert_eq!(host(url).as_deref(), expected, "{url}");
        }
        assert!(in_domain("docs.example.org", "example.org"));
        assert!(!in_domain("badexample.org", "example.org"));
    }

    #[test]
    fn rules_that_cover_others() {
        let table = [
            ("Bash", "Bash(ls:*)", true),
            ("Bash(git:*)", "Bash(git log:*)", true),
            ("Bash(git:*)", "Bash(git log && rm x)", false),
            ("Bash(git log:*)", "Bash", false),
            ("Edit", "Write(src/a)", true),
            ("Write", "Edit", false),
            ("Edit(src/**)", "Write(src/a/**)", true),
            ("Edit(src/**)", "Edit(src/../x)", false),
            ("Edit(src/**)", "Edit(srcs/**)", false),
            ("WebFetch(domain:a.org)", "WebFetch(domain:x.a.org)", true),
            ("mcp__db__*", "mcp__db__query", true),
            ("mcp__db__*", "mcp__*", false),
            ("Agent", "Agent(Plan)", true),
            ("Agent(Explore)", "Agent(Plan)", false),
        ];
        for (wide, narrow, expected) in table {
            let covers = Parsed::new(wide).expect(wide).covers(&Parsed::new(narrow).expect(narrow));
            assert_eq!(covers, expected, "{wide} {narrow}");
        }
    }
}
