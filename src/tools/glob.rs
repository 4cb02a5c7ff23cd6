//! `Glob`: files by pattern, the last changed first.

use super::context::ToolContext;
use super::pattern::{self, PathPattern};
use super::tool::{BoxFuture, Concurrency, Tool, ToolCall, ToolOutput, ToolSpec};
use super::{path, work};
use crate::wire::access::{Access, Target};
use serde::Deserialize;
use serde_json::Value;
use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::SystemTime;

/// Files that are named.
const MAX_SHOWN: usize = 200;
/// Files after which the search stops.
const MAX_FOUND: usize = 100_000;

static SPEC: LazyLock<ToolSpec> = LazyLock::new(|| {
    ToolSpec {
    name: "Glob".to_owned(),
    description: format!(
        "Finds files by a pattern for their path, e.g. `src/**/*.rs`, `*.{{ts,tsx}}`. A pattern without `/` matches at \
         any depth. Returns at most {MAX_SHOWN} paths, the last changed first. Files that .gitignore and other ignore \
         files name are left out. To search inside files use Grep."
    ),
    schema: r#"{"type":"object","properties":{"pattern":{"type":"string","minLength":1,"description":"The pattern, for paths below `path`."},"path":{"type":"string","description":"The directory to search in. Default: your directory."}},"required":["pattern"],"additionalProperties":false}"#.into(),
}
});

/// The tool.
#[derive(Debug, Default, Clone, Copy)]
pub struct Glob;

#[derive(Deserialize)]
struct Input {
    pattern: String,
    path: Option<String>,
}

/// The directory to search and the pattern below it. A pattern that begins with a directory of its
/// own (`/abs/dir/**`, `../other/*`) moves the search there.
fn target(pattern: &str, path: Option<&str>, cwd: &Path) -> (PathBuf, String) {
    let root = path::absolute(path.unwrap_or_default(), cwd);
    if !pattern.starts_with('/') && !pattern.starts_with("../") {
        return (root, pattern.to_owned());
    }
    let fixed = pattern.split('/').take_while(|part| !pattern::is_pattern(part)).count();
    let parts: Vec<&str> = pattern.split('/').collect();
    // At least the last part is the pattern, so that a plain path finds itself.
    let fixed = fixed.min(parts.len() - 1);
    let (dir, rest) = parts.split_at(fixed);
    let dir = if pattern.starts_with('/') { format!("{}/", dir.join("/")) } else { dir.join("/") };
    (path::absolute(&dir, &root), format!("./{}", rest.join("/")))
}

impl Tool for Glob {
    fn spec(&self) -> &ToolSpec {
        &SPEC
    }

    fn access(&self, input: &Value, cwd: &Path) -> Access {
        let text = |name| input.get(name).and_then(Value::as_str);
        let (root, _) = target(text("pattern").unwrap_or_default(), text("path"), cwd);
        let summary = format!("Find {} in {}", text("pattern").unwrap_or_default(), path::shown(&root, cwd));
        Access { tool: SPEC.name.clone(), target: Target::Read(vec![root]), summary }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Safe
    }

    fn run<'a>(&'a self, call: ToolCall, ctx: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        work::looking::<Input>(&SPEC, call, ctx, find)
    }
}

fn find(input: &Input, ctx: &ToolContext) -> Result<ToolOutput, ToolOutput> {
    let (root, text) = target(&input.pattern, input.path.as_deref(), &ctx.cwd);
    let pattern = PathPattern::new(&text)
        .map_err(|why| ToolOutput::error(format!("The pattern {:?} is wrong: {why}.", input.pattern)))?;
    let real = searched_dir(ctx, &root)?;
    let mut found: Vec<(Reverse<SystemTime>, PathBuf)> = Vec::new();
    let mut unreadable = 0;
    for entry in pattern::walk(&real, pattern.depth(), ctx) {
        let Ok(entry) = entry else {
            unreadable += 1;
            continue;
        };
        let Some((path, below)) = pattern::regular_file(&entry, &real) else { continue };
        if pattern.takes(&below) {
            let modified = entry.metadata().ok().and_then(|meta| meta.modified().ok());
            found.push((Reverse(modified.unwrap_or(SystemTime::UNIX_EPOCH)), path.to_owned()));
            if found.len() == MAX_FOUND {
                break;
            }
        }
    }
    if ctx.cancel.is_cancelled() {
        return Err(ToolOutput::error(work::CANCELLED));
    }
    found.sort();
    let mut text: String =
        found.iter().take(MAX_SHOWN).map(|(_, path)| format!("{}\n", path::shown(path, &ctx.cwd))).collect();
    if found.is_empty() {
        text = format!("No file matches {} in {}.\n", input.pattern, real.display());
    } else if found.len() > MAX_SHOWN {
        let or_more = if found.len() == MAX_FOUND { " or more" } else { "" };
        text.push_str(&format!(
            "[the last changed {MAX_SHOWN} of {}{or_more} files; narrow the pattern]\n",
            found.len()
        ));
    }
    if unreadable > 0 {
        text.push_str(&format!("[{unreadable} entries could not be read]\n"));
    }
    text.pop();
    Ok(ToolOutput::ok(text))
}

/// The real directory of a search.
pub(super) fn searched_dir(ctx: &ToolContext, root: &Path) -> Result<PathBuf, ToolOutput> {
    let real = fs::canonicalize(root).map_err(|source| {
        let error = crate::os::error::OsError::File { action: "search", path: root.to_owned(), source };
        path::open_failed(ctx, root, &error)
    })?;
    path::refuse_closed(ctx, &real)?;
    path::refuse_other(ctx, &real)?;
    Ok(real)
}
