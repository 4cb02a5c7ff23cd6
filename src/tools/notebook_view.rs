//! A notebook as `Read` shows it: cells with their ids, what they printed, and their images.
//!
//! Bounded like any page: long sources and outputs are cut with a mark, and cells that do not fit are for
//! the next call.

use super::image;
use super::notebook::{Cell, Lines, Notebook};
use super::tool::{ToolContent, ToolOutput};
use crate::wire::block::Block;
use crate::wire::limits::TOOL_RESULT_CHARS;
use serde::Deserialize;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// Characters of a page; the rest of a result is for notes.
const PAGE_CHARS: usize = TOOL_RESULT_CHARS - 1_000;
/// Characters of a cell's source that are shown.
const SOURCE_CHARS: usize = 20_000;
/// Characters of one output that are shown.
const OUTPUT_CHARS: usize = 4_000;
/// Images of one page.
const MAX_IMAGES: usize = 10;
/// Kinds of images that models take, the best first.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// Kinds of text, the best first.
const TEXTS: [&str; 6] =
    ["text/markdown", "text/plain", "text/latex", "application/json", "text/html", "image/svg+xml"];

#[derive(Default, Deserialize)]
#[serde(default)]
struct Output {
    output_type: String,
    name: String,
    text: Lines,
    data: serde_json::Map<String, Value>,
    ename: String,
    evalue: String,
    traceback: Vec<String>,
}

/// What is shown so far.
#[derive(Default)]
struct Page {
    blocks: Vec<Block>,
    text: String,
    chars: usize,
    images: usize,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.chars += line.chars().count() + 1;
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// An image between texts.
    fn image(&mut self, block: Block) {
        self.close();
        self.images += 1;
        self.blocks.push(block);
    }

    fn close(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.trim().is_empty() {
            self.blocks.push(Block::text(text.trim_end_matches('\n')));
        }
    }

    fn told(mut self) -> ToolOutput {
        if self.images == 0 {
            return ToolOutput::ok(self.text.trim_end_matches('\n'));
        }
        self.close();
        ToolOutput { content: ToolContent::Blocks(self.blocks), is_error: false }
    }
}

/// Cells from number `first` (from 1), at most `limit`.
pub(super) fn view(
    notebook: &Notebook<'_>,
    path: &Path,
    first: usize,
    limit: usize,
) -> Result<ToolOutput, ToolOutput> {
    let all = notebook.cells.len();
    if first > all && all > 0 {
        return Err(ToolOutput::error(format!(
            "{} has only {all} cells, so there is no cell {first}.",
            path.display()
        )));
    }
    let mut page = Page::default();
    let cells = if all == 1 { "cell" } else { "cells" };
    let language =
        if notebook.language.is_empty() { String::new() } else { format!(", {}", notebook.language) };
    page.line(&format!("[{}: a notebook of {all} {cells}{language}]", path.display()));
    let last = all.min((first - 1).saturating_add(limit));
    let mut next = first - 1;
    // The first one in any case: its source has room.
    while next < last && (next + 1 == first || fits(&page, &notebook.cells[next])) {
        show(&mut page, notebook, next);
        next += 1;
    }
    if next < all {
        page.line(&format!("\n[cells {first}–{next} of {all}; go on with offset {}]", next + 1));
    }
    Ok(page.told())
}

/// Whether a cell has room by its source; its outputs are bounded.
fn fits(page: &Page, cell: &Cell) -> bool {
    page.chars + cell.source.chars().count().min(SOURCE_CHARS) + OUTPUT_CHARS < PAGE_CHARS
}

fn show(page: &mut Page, notebook: &Notebook<'_>, index: usize) {
    let cell = &notebook.cells[index];
    let run = cell.members.get("execution_count").map(serde_json::value::RawValue::get);
    let run = run.filter(|count| *count != "null").map_or_else(String::new, |count| format!(", run {count}"));
    page.line(&format!("\n[cell {} — {}{run}]", notebook.name(index), cell.kind));
    page.line(&cut(cell.source.trim_end_matches('\n'), SOURCE_CHARS));
    let outputs = cell.members.get("outputs").map_or("[]", serde_json::value::RawValue::get);
    for output in serde_json::from_str::<Vec<Output>>(outputs).unwrap_or_default() {
        if page.chars + OUTPUT_CHARS > PAGE_CHARS {
            page.line("[more outputs are left out]");
            return;
        }
        show_output(page, output);
    }
}

fn show_output(page: &mut Page, output: Output) {
    if output.output_type == "error" {
        let trace = if output.traceback.is_empty() {
            format!("{}: {}", output.ename, output.evalue)
        } else {
            output.traceback.join("\n")
        };
        page.line(&format!("[error]\n{}", cut(&plain(&trace), OUTPUT_CHARS)));
        return;
    }
    let text = output.text.text();
    if !text.trim().is_empty() {
        let name = if output.name.is_empty() { "output" } else { output.name.as_str() };
        page.line(&format!("[{name}]\n{}", cut(plain(&text).trim_end_matches('\n'), OUTPUT_CHARS)));
    }
    let image = IMAGES.iter().find_map(|kind| output.data.get(*kind).and_then(lines));
    match image {
        Some(_) if page.images == MAX_IMAGES => page.line("[an image: not shown, too many on this page]"),
        Some(data) => match image::of_base64(&data) {
            Ok(block) => {
                page.line("[image]");
                page.image(block);
            }
            Err(why) => page.line(&format!("[an image that cannot be shown: it {why}]")),
        },
        None => {
            let text = TEXTS.iter().find_map(|kind| Some((*kind, output.data.get(*kind).and_then(lines)?)));
            if let Some((kind, text)) = text {
                let named = if kind == "text/plain" { "output" } else { kind };
                page.line(&format!("[{named}]\n{}", cut(plain(&text).trim_end_matches('\n'), OUTPUT_CHARS)));
            }
        }
    }
}

/// The text of a member of `data`: a string, lines, or JSON.
fn lines(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(lines) if lines.iter().all(Value::is_string) => {
            Some(lines.iter().filter_map(Value::as_str).collect())
        }
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

/// Without the terminal's colours, which tracebacks are full of.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        out.push_str(&rest[..at]);
        let sequence = &rest[at + 2..];
        let end = sequence.find(|c: char| ('@'..='~').contains(&c)).map_or(sequence.len(), |end| end + 1);
        rest = &sequence[end..];
    }
    out.push_str(rest);
    out
}

fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some((at, _)) => {
            let mut cut = text[..at].to_owned();
            // Writing into a String cannot fail.
            let _ = write!(cut, "\n[… {} characters are left out]", text[at..].chars().count());
            cut
        }
    }
}
