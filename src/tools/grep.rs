//! `Grep`: lines that match a regular expression, with ripgrep's engine.

use super::context::ToolContext;
use super::glob::searched_dir;
use super::pattern::{self, PathPattern};
use super::search::{Found, Search};
use super::tool::{BoxFuture, Concurrency, Tool, ToolCall, ToolOutput, ToolSpec};
use super::{path, work};
use crate::os::file;
use crate::wire::access::{Access, Target};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use ignore::types::{Types, TypesBuilder};
use serde::Deserialize;
use serde_json::Value;
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::SystemTime;

/// Characters of results after which a search stops.
const MAX_CHARS: usize = 2_000_000;
/// Files with matches after which a search stops.
const MAX_FILES: usize = 100_000;

static SPEC: LazyLock<ToolSpec> = LazyLock::new(|| {
    ToolSpec {
    name: "Grep".to_owned(),
    description: "Searches in files with a regular expression (Rust syntax, as in ripgrep: escape literal braces and \
                  parentheses, e.g. `fn main\\(\\)`). `output_mode`: `files_with_matches` (default) names the files, the \
                  last changed first; `content` shows the lines; `count` counts them for each file. Files that .gitignore and \
                  other ignore files name and binary files are left out. Narrow with `path`, `glob` or `type`."
        .to_owned(),
    schema: r#"{"type":"object","properties":{"pattern":{"type":"string","minLength":1,"description":"The regular expression."},"path":{"type":"string","description":"A file or directory. Default: your directory."},"glob":{"type":"string","description":"Only files whose path matches, e.g. `*.ts`, `src/**`; with `!` in front all but those."},"type":{"type":"string","description":"Only files of this type: rust, py, js, ts, go, java, c, cpp, md …"},"output_mode":{"type":"string","enum":["content","files_with_matches","count"],"description":"What to show."},"-i":{"type":"boolean","description":"Ignore case."},"-n":{"type":"boolean","description":"Show line numbers with `content`. Default true."},"-A":{"type":"integer","minimum":0,"description":"Lines to show after each match, with `content`."},"-B":{"type":"integer","minimum":0,"description":"Lines to show before each match, with `content`."},"-C":{"type":"integer","minimum":0,"description":"Lines to show around each match, with `content`."},"head_limit":{"type":"integer","minimum":0,"description":"Show only the first so many lines or files. 0: all."},"multiline":{"type":"boolean","description":"Let a match span lines, and `.` match line ends. Default false."}},"required":["pattern"],"additionalProperties":false}"#.into(),
}
});

/// The tool.
#[derive(Debug, Default, Clone, Copy)]
pub struct Grep;

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Content,
    #[default]
    FilesWithMatches,
    Count,
}

#[derive(Deserialize)]
struct Input {
    pattern: String,
    #[serde(default)]
    path: String,
    glob: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    output_mode: Mode,
    #[serde(default, rename = "-i")]
    ignore_case: bool,
    #[serde(rename = "-n")]
    numbers: Option<bool>,
    #[serde(rename = "-A")]
    after: Option<usize>,
    #[serde(rename = "-B")]
    before: Option<usize>,
    #[serde(rename = "-C")]
    around: Option<usize>,
    #[serde(default)]
    head_limit: usize,
    #[serde(default)]
    multiline: bool,
}

impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &SPEC
    }

    fn access(&self, input: &Value, cwd: &Path) -> Access {
        let path = path::field(input, "path", cwd);
        let pattern = input.get("pattern").and_then(Value::as_str).unwrap_or_default();
        let summary = format!("Search {pattern:?} in {}", path::shown(&path, cwd));
        Access { tool: SPEC.name.clone(), target: Target::Read(vec![path]), summary }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Safe
    }

    fn run<'a>(&'a self, call: ToolCall, ctx: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        work::looking::<Input>(&SPEC, call, ctx, grep)
    }
}

fn matcher(input: &Input) -> Result<RegexMatcher, ToolOutput> {
    RegexMatcherBuilder::new()
        .case_insensitive(input.ignore_case)
        .multi_line(true)
        .dot_matches_new_line(input.multiline)
        .line_terminator((!input.multiline).then_some(b'\n'))
        .build(&input.pattern)
        .map_err(|error| {
            let hint = if input.multiline { "" } else { " A pattern that spans lines needs `multiline`." };
            ToolOutput::error(format!(
                "The pattern is no regular expression that can be searched for: {error}.{hint} Escape special \
                 characters with a backslash to search for them."
            ))
        })
}

fn types(kind: Option<&str>) -> Result<Option<Types>, ToolOutput> {
    let Some(kind) = kind else { return Ok(None) };
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    let known: Vec<String> = builder.definitions().iter().map(|def| def.name().to_owned()).collect();
    builder.select(kind).build().map(Some).map_err(|_| {
        let score = |name: &String| strsim::jaro_winkler(name, kind);
        let mut near: Vec<&String> = known.iter().filter(|name| score(name) > 0.8).collect();
        near.sort_by(|a, b| score(b).total_cmp(&score(a)));
        let near: Vec<&str> = near.into_iter().take(8).map(String::as_str).collect();
        let hint = if near.is_empty() { String::new() } else { format!(" Similar: {}.", near.join(", ")) };
        ToolOutput::error(format!("There is no file type {kind:?}.{hint} Use `glob` for other files."))
    })
}

fn grep(input: &Input, ctx: &ToolContext) -> Result<ToolOutput, ToolOutput> {
    let types = types(input.kind.as_deref())?;
    let glob = input.glob.as_deref().map(PathPattern::new).transpose().map_err(|why| {
        ToolOutput::error(format!(
            "The glob {:?} is wrong: {why}.",
            input.glob.as_deref().unwrap_or_default()
        ))
    })?;
    let root = searched_dir(ctx, &path::absolute(&input.path, &ctx.cwd))?;
    let context = |own: Option<usize>| match input.output_mode {
        Mode::Content => own.or(input.around).unwrap_or_default(),
        Mode::FilesWithMatches | Mode::Count => 0,
    };
    let mut search =
        Search::new(matcher(input)?, input.multiline, context(input.before), context(input.after));
    search.numbers = input.numbers.unwrap_or(true);
    search.first_only = input.output_mode == Mode::FilesWithMatches;
    let mut tally = Tally::new(input, ctx);
    for entry in pattern::walk(&root, None, ctx) {
        let Ok(entry) = entry else {
            tally.unreadable += 1;
            continue;
        };
        let Some((path, below)) = pattern::regular_file(&entry, &root) else { continue };
        let chosen = glob.as_ref().is_none_or(|glob| glob.takes(&below))
            && types.as_ref().is_none_or(|types| types.matched(path, false).is_whitelist());
        if !chosen {
            continue;
        }
        let Ok(opened) = file::open(path) else {
            tally.unreadable += 1;
            continue;
        };
        // A directory on the way may have become a link since it was listed.
        if ctx.closed_by(&opened.path).is_some() || !opened.path.starts_with(&root) {
            continue;
        }
        // The very file that was asked for has been decided about.
        if path != root && ((ctx.kept_back)(path) || (ctx.kept_back)(&opened.path)) {
            tally.kept_back += 1;
            continue;
        }
        let shown = path::shown(path, &ctx.cwd);
        match search.file(opened.file, &shown, &ctx.cancel) {
            Ok(found) if found.matches > 0 => {
                tally.add(path, &shown, opened.meta.modified().ok(), found);
            }
            Ok(_) => {}
            Err(_) => tally.unreadable += 1,
        }
        if tally.full {
            break;
        }
    }
    if ctx.cancel.is_cancelled() {
        return Err(ToolOutput::error(work::CANCELLED));
    }
    Ok(ToolOutput::ok(tally.told(&root)))
}

/// What was found so far.
struct Tally<'a> {
    input: &'a Input,
    ctx: &'a ToolContext,
    files: Vec<(Reverse<SystemTime>, PathBuf)>,
    lines: Vec<String>,
    chars: usize,
    matches: u64,
    unreadable: usize,
    kept_back: usize,
    /// Stopped before everything was searched.
    full: bool,
}

impl<'a> Tally<'a> {
    fn new(input: &'a Input, ctx: &'a ToolContext) -> Self {
        Self {
            input,
            ctx,
            files: Vec::new(),
            lines: Vec::new(),
            chars: 0,
            matches: 0,
            unreadable: 0,
            kept_back: 0,
            full: false,
        }
    }

    fn add(&mut self, path: &Path, shown: &str, modified: Option<SystemTime>, found: Found) {
        self.matches += found.matches;
        self.files.push((Reverse(modified.unwrap_or(SystemTime::UNIX_EPOCH)), path.to_owned()));
        let lines = match self.input.output_mode {
            Mode::FilesWithMatches => Vec::new(),
            Mode::Count => vec![format!("{shown}:{}", found.matches)],
            Mode::Content => {
                let counts = [self.input.after, self.input.before, self.input.around];
                if counts.iter().flatten().any(|&count| count > 0) && !self.lines.is_empty() {
                    self.lines.push("--".to_owned());
                }
                found.lines
            }
        };
        self.chars += lines.iter().map(|line| line.len() + 1).sum::<usize>();
        self.lines.extend(lines);
        // One more than asked for, to know whether there is more.
        let enough = self.input.output_mode != Mode::FilesWithMatches
            && self.input.head_limit > 0
            && self.lines.len() > self.input.head_limit;
        self.full = enough || self.chars > MAX_CHARS || self.files.len() == MAX_FILES;
    }

    fn told(mut self, root: &Path) -> String {
        let mut notes = Vec::new();
        if self.input.output_mode == Mode::FilesWithMatches {
            self.files.sort();
            self.lines = self.files.iter().map(|(_, path)| path::shown(path, &self.ctx.cwd)).collect();
        }
        let total = self.lines.len();
        if self.input.head_limit > 0 && total > self.input.head_limit {
            self.lines.truncate(self.input.head_limit);
            let of = if self.full { String::new() } else { format!(" of {total}") };
            notes.push(format!("[the first {}{of} lines; raise head_limit for more]", self.input.head_limit));
        } else if self.full {
            notes.push("[the search stopped here: too many matches; narrow it]".to_owned());
        }
        if total == 0 {
            self.lines.push(format!("No matches in {}.", root.display()));
        } else if self.input.output_mode == Mode::Count {
            notes.push(format!("[{} matching lines in {} files]", self.matches, self.files.len()));
        }
        if self.unreadable > 0 {
            notes.push(format!("[{} files or directories could not be searched]", self.unreadable));
        }
        if self.kept_back > 0 {
            notes.push(format!(
                "[{} files that a rule keeps from being read were passed over]",
                self.kept_back
            ));
        }
        self.lines.extend(notes);
        self.lines.join("\n")
    }
}
