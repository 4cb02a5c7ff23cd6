//! `Read`: a file's lines with their numbers, a notebook's cells, or an image.
//!
//! Streams: memory does not grow with the file. What was read is noted in the agent's file cache with
//! the hash of the *whole* file, so that a later change anywhere in it is noticed.

use super::context::ToolContext;
use super::file_cache::FileState;
use super::notebook::Notebook;
use super::page::{LINE_CHARS, Page};
use super::tool::{BoxFuture, Concurrency, Tool, ToolCall, ToolContent, ToolOutput, ToolSpec};
use super::{image, notebook_view, path, work};
use crate::os::error::OsError;
use crate::os::file::{self, Opened};
use crate::wire::access::{Access, Target};
use crate::wire::limits::READ_LINES;
use serde::Deserialize;
use serde_json::Value;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::LazyLock;
use tokio_util::sync::CancellationToken;

/// Largest file that is hashed and may therefore be edited.
pub(super) const MAX_KNOWN: u64 = 256 * 1024 * 1024;
/// Largest notebook that is shown by its cells; a larger one is shown as the text it is.
const MAX_NOTEBOOK: u64 = 64 * 1024 * 1024;
/// Bytes that decide whether a file is text (git looks at as many).
const SNIFF: usize = 8_000;
/// Entries of a directory that are named.
const MAX_ENTRIES: usize = 50;

static SPEC: LazyLock<ToolSpec> = LazyLock::new(|| {
    ToolSpec {
    name: "Read".to_owned(),
    description: format!(
        "Reads a file. Text comes with line numbers and a tab before each line (they are not part of the file), at \
         most {READ_LINES} lines at once from the start; go on with `offset`. Lines over {LINE_CHARS} characters are \
         cut, with a mark. PNG, JPEG, GIF and WebP images are shown to you. A notebook \
         (.ipynb) is shown by its cells, with their ids and outputs; `offset` and `limit` count cells there. A file must be read before Edit or Write \
         may change it. To find files use Glob, to search in them use Grep; read several files with several calls in \
         one message."
    ),
    schema: r#"{"type":"object","properties":{"file_path":{"type":"string","minLength":1,"description":"The file. Absolute, or relative to your directory."},"offset":{"type":"integer","minimum":0,"description":"Number of the first line, from 1. Only for files too long to be read at once."},"limit":{"type":"integer","minimum":1,"description":"How many lines."}},"required":["file_path"],"additionalProperties":false}"#.into(),
}
});

/// The tool.
#[derive(Debug, Default, Clone, Copy)]
pub struct Read;

#[derive(Deserialize)]
struct Input {
    file_path: String,
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
}

impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &SPEC
    }

    fn access(&self, input: &Value, cwd: &Path) -> Access {
        let path = path::field(input, "file_path", cwd);
        let summary = format!("Read {}", path::shown(&path, cwd));
        Access { tool: SPEC.name.clone(), target: Target::Read(vec![path]), summary }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Safe
    }

    fn run<'a>(&'a self, call: ToolCall, ctx: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        work::looking::<Input>(&SPEC, call, ctx, read)
    }
}

fn read(input: &Input, ctx: &ToolContext) -> Result<ToolOutput, ToolOutput> {
    let path = path::absolute(&input.file_path, &ctx.cwd);
    let mut opened = match file::open(&path) {
        Ok(opened) => opened,
        Err(OsError::NotAFile { what: "a directory", .. }) => return Err(directory(&path, ctx)),
        Err(error) => return Err(path::open_failed(ctx, &path, &error)),
    };
    path::refuse_closed(ctx, &opened.path)?;
    path::refuse_other(ctx, &opened.path)?;
    let failed = |error: io::Error| ToolOutput::error(format!("Reading {} failed: {error}.", path.display()));
    let mut head = Vec::new();
    opened.file.by_ref().take(SNIFF as u64).read_to_end(&mut head).map_err(failed)?;
    if image::media_type(&head).is_some() {
        return picture(opened, head);
    }
    if let Some(what) = not_text(&head) {
        return Err(ToolOutput::error(format!(
            "{} is {what} ({} bytes), which Read does not show. Use Bash with a program that understands it (file, \
             strings, xxd, iconv …).",
            path.display(),
            opened.meta.len()
        )));
    }
    if let Some(shown) = cells(&mut opened, &mut head, input, ctx) {
        return shown;
    }
    let first = input.offset.max(1);
    let limit = input.limit.unwrap_or(READ_LINES);
    let hashed = opened.meta.len() <= MAX_KNOWN;
    let mut page = Page::new(first, limit, hashed);
    page.take(&head);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = opened.file.read(&mut buffer).map_err(failed)?;
        if count == 0 {
            page.end();
            break;
        }
        page.take(&buffer[..count]);
        if page.is_full() && !hashed {
            break;
        }
        stop_if(&ctx.cancel)?;
    }
    if let Some(state) = page.state(opened.meta.modified().ok()) {
        ctx.files.record(&opened.path, state);
    }
    page.told(&path)
}

fn stop_if(cancel: &CancellationToken) -> Result<(), ToolOutput> {
    if cancel.is_cancelled() { Err(ToolOutput::error(work::CANCELLED)) } else { Ok(()) }
}

fn directory(path: &Path, ctx: &ToolContext) -> ToolOutput {
    let real = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) => return ToolOutput::error(format!("{}: {error}.", path.display())),
    };
    let allowed = path::refuse_closed(ctx, &real).and_then(|()| path::refuse_other(ctx, &real));
    if let Err(refusal) = allowed {
        return refusal;
    }
    let mut names: Vec<String> = fs::read_dir(&real)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| {
            let slash = if entry.file_type().is_ok_and(|kind| kind.is_dir()) { "/" } else { "" };
            format!("{}{slash}", entry.file_name().to_string_lossy())
        })
        .collect();
    names.sort();
    let more = names.len().saturating_sub(MAX_ENTRIES);
    names.truncate(MAX_ENTRIES);
    let more = if more > 0 { format!("\n… and {more} more") } else { String::new() };
    let names = if names.is_empty() { "nothing".to_owned() } else { format!("\n{}{more}", names.join("\n")) };
    ToolOutput::error(format!(
        "{} is a directory, and Read takes a file. Use Glob to find files. It holds {names}",
        path.display()
    ))
}

fn picture(mut opened: Opened, mut content: Vec<u8>) -> Result<ToolOutput, ToolOutput> {
    let path = opened.path.display();
    if opened.meta.len() > image::MAX_BYTES {
        return Err(ToolOutput::error(format!(
            "{path} is an image of {} bytes; at most {} can be shown. Scale it down first.",
            opened.meta.len(),
            image::MAX_BYTES
        )));
    }
    let rest = (image::MAX_BYTES + 1).saturating_sub(content.len() as u64);
    opened
        .file
        .by_ref()
        .take(rest)
        .read_to_end(&mut content)
        .map_err(|error| ToolOutput::error(format!("Reading {path} failed: {error}.")))?;
    let block =
        image::block(&content).map_err(|why| ToolOutput::error(format!("The image {path} {why}.")))?;
    Ok(ToolOutput { content: ToolContent::Blocks(vec![block]), is_error: false })
}

/// Shows a notebook by its cells. `None` when it is none, or too large for that; what was read of it is in
/// `content` then.
fn cells(
    opened: &mut Opened,
    content: &mut Vec<u8>,
    input: &Input,
    ctx: &ToolContext,
) -> Option<Result<ToolOutput, ToolOutput>> {
    if opened.path.extension().is_none_or(|end| end != "ipynb") || opened.meta.len() > MAX_NOTEBOOK {
        return None;
    }
    opened.file.by_ref().take(MAX_NOTEBOOK).read_to_end(content).ok()?;
    let text = std::str::from_utf8(content).ok()?;
    let notebook = Notebook::read(text).ok()?;
    ctx.files.record(&opened.path, FileState::of(content, opened.meta.modified().ok()));
    Some(notebook_view::view(&notebook, &opened.path, input.offset.max(1), input.limit.unwrap_or(usize::MAX)))
}

/// What a file is that is no text, by its first bytes.
fn not_text(head: &[u8]) -> Option<&'static str> {
    match head {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("UTF-16 text"),
        [b'%', b'P', b'D', b'F', ..] => Some("a PDF file"),
        head if head.contains(&0) => Some("a binary file"),
        _ => None,
    }
}
