//! `NotebookEdit`: one cell of a notebook replaced, inserted or deleted.
//!
//! Replaces the bytes of that cell and nothing else: order, indent, unknown fields and all other cells
//! stay as they are. What a code cell printed belongs to its old source and goes with it.

use super::change::{self, Before, Change, Parents};
use super::context::ToolContext;
use super::notebook::Notebook;
use super::tool::{BoxFuture, Concurrency, Tool, ToolCall, ToolOutput, ToolSpec};
use super::{path, work};
use crate::wire::access::{Access, Target};
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::sync::LazyLock;
use uuid::Uuid;

/// Characters of an id of ours: what Jupyter itself makes.
const ID_CHARS: usize = 8;

static SPEC: LazyLock<ToolSpec> = LazyLock::new(|| {
    ToolSpec {
    name: "NotebookEdit".to_owned(),
    description: "Changes one cell of a Jupyter notebook (.ipynb). You must have read the file before, and it must not \
                  have changed since. `edit_mode`: `replace` (default) puts `new_source` in the place of the source of \
                  cell `cell_id`; `insert` makes a new cell of `cell_type` after `cell_id`, or at the beginning without \
                  one; `delete` removes the cell. Read shows the ids. The outputs of a changed code cell are removed, \
                  since they belong to what it was."
        .to_owned(),
    schema: r#"{"type":"object","properties":{"notebook_path":{"type":"string","minLength":1,"description":"The notebook. Absolute, or relative to your directory."},"cell_id":{"type":"string","description":"The cell, by its id as Read shows it."},"new_source":{"type":"string","description":"All of the cell's new source; empty for `delete`."},"cell_type":{"type":"string","enum":["code","markdown","raw"],"description":"What the cell is to be. Needed for `insert`; otherwise it stays what it is."},"edit_mode":{"type":"string","enum":["replace","insert","delete"],"description":"What to do. Default `replace`."}},"required":["notebook_path","new_source"],"additionalProperties":false}"#.into(),
}
});

/// The tool.
#[derive(Debug, Default, Clone, Copy)]
pub struct NotebookEdit;

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    Replace,
    Insert,
    Delete,
}

#[derive(Deserialize)]
struct Input {
    notebook_path: String,
    cell_id: Option<String>,
    new_source: String,
    cell_type: Option<String>,
    #[serde(default)]
    edit_mode: Mode,
}

impl Tool for NotebookEdit {
    fn spec(&self) -> &ToolSpec {
        &SPEC
    }

    fn access(&self, input: &Value, cwd: &Path) -> Access {
        let path = path::field(input, "notebook_path", cwd);
        let text = |name| input.get(name).and_then(Value::as_str);
        let cell = text("cell_id").map_or_else(|| "a cell".to_owned(), |id| format!("cell {id}"));
        let what = match text("edit_mode") {
            Some("insert") if text("cell_id").is_some() => format!("Insert after {cell} of"),
            Some("insert") => "Insert a cell into".to_owned(),
            Some("delete") => format!("Delete {cell} of"),
            _ => format!("Replace {cell} of"),
        };
        let size = match text("new_source").unwrap_or_default().lines().count() {
            0 => String::new(),
            1 => " (1 line)".to_owned(),
            lines => format!(" ({lines} lines)"),
        };
        let summary = format!("{what} {}{size}", path::shown(&path, cwd));
        Access { tool: SPEC.name.clone(), target: Target::Edit(vec![path]), summary }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Exclusive
    }

    fn check<'a>(&'a self, call: ToolCall, ctx: &'a ToolContext) -> BoxFuture<'a, Option<ToolOutput>> {
        work::check(async move {
            let input: Input = work::input(&SPEC, call)?;
            let path = path::absolute(&input.notebook_path, &ctx.cwd);
            change::check(ctx, path.clone(), Parents::Need, changer(&path, input)).await
        })
    }

    fn run<'a>(&'a self, call: ToolCall, ctx: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        work::run(async move {
            let input: Input = work::input(&SPEC, call)?;
            let path = path::absolute(&input.notebook_path, &ctx.cwd);
            change::change(ctx, path.clone(), Parents::Need, changer(&path, input)).await
        })
    }
}

fn changer(path: &Path, input: Input) -> impl FnOnce(Before) -> Result<Change, String> + Send + 'static {
    let shown = path.display().to_string();
    move |before| match before {
        Before::Absent => Err(format!("There is no notebook {shown}. To make one use Write.")),
        Before::Content(content) => edited(&shown, content, &input),
    }
}

fn edited(shown: &str, content: Vec<u8>, input: &Input) -> Result<Change, String> {
    let text = String::from_utf8(content)
        .map_err(|_| format!("{shown} is not valid UTF-8, so it is no notebook. Nothing was changed."))?;
    let notebook = Notebook::read(&text)
        .map_err(|why| format!("{shown} is no notebook that can be edited: {why}. Nothing was changed."))?;
    let style = Style::of(notebook.text);
    let (new, told) = match input.edit_mode {
        Mode::Replace => replaced(&notebook, target(shown, &notebook, input)?, input, &style),
        Mode::Insert => inserted(shown, &notebook, input, &style)?,
        Mode::Delete => deleted(&notebook, target(shown, &notebook, input)?),
    };
    // A byte order mark stays.
    let before = &text[..text.len() - notebook.text.len()];
    Ok(Change { content: format!("{before}{new}").into_bytes(), told: format!("{shown}: {told}") })
}

/// The cell that is meant.
fn target(shown: &str, notebook: &Notebook<'_>, input: &Input) -> Result<usize, String> {
    let Some(id) = input.cell_id.as_deref() else {
        return Err("`cell_id` is missing: which cell? Read shows the ids. Nothing was changed.".to_owned());
    };
    let same = notebook.with_id(id);
    if same.len() > 1 {
        let numbers: Vec<String> = same.iter().map(|index| format!("cell-{index}")).collect();
        return Err(format!(
            "{shown} has {} cells with the id {id}, so nobody can tell which one is meant. Say it by its number: {}. \
             Nothing was changed.",
            same.len(),
            numbers.join(" or ")
        ));
    }
    notebook.find(id).ok_or_else(|| {
        let known: Vec<String> =
            (0..notebook.cells.len().min(20)).map(|index| notebook.name(index)).collect();
        let more = if notebook.cells.len() > known.len() { " …" } else { "" };
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        format!("{shown} has no cell {id}; its cells are: {known}{more}. Nothing was changed.")
    })
}

fn replaced(notebook: &Notebook<'_>, index: usize, input: &Input, style: &Style) -> (String, String) {
    let cell = &notebook.cells[index];
    let kind = input.cell_type.as_deref().unwrap_or(&cell.kind);
    let as_string = cell.members.get("source").is_some_and(|source| source.get().starts_with('"'));
    let source = style.source(&input.new_source, as_string);
    let fresh = |name: &str| match name {
        "cell_type" => Some(quoted(kind)),
        "source" => Some(source.clone()),
        "execution_count" => (kind == "code").then(|| "null".to_owned()),
        "outputs" => (kind == "code").then(|| "[]".to_owned()),
        _ => None,
    };
    let ours = ["source", "execution_count", "outputs"];
    let kept = |name: &str| name != "cell_type" && !ours.contains(&name);
    let mut members: Vec<(String, String)> = Vec::new();
    for (name, value) in &cell.members.0 {
        let value = if kept(name) { Some(value.get().to_owned()) } else { fresh(name) };
        members.extend(value.map(|value| (name.clone(), value)));
    }
    // What the cell did not have and has to have now.
    for name in ours.into_iter().filter(|name| cell.members.get(name).is_none()) {
        members.extend(fresh(name).map(|value| (name.to_owned(), value)));
    }
    let new = format!(
        "{}{}{}",
        &notebook.text[..cell.span.start],
        style.cell(&members),
        &notebook.text[cell.span.end..]
    );
    (new, format!("cell {} was replaced.", notebook.name(index)))
}

fn inserted(
    shown: &str,
    notebook: &Notebook<'_>,
    input: &Input,
    style: &Style,
) -> Result<(String, String), String> {
    let Some(kind) = input.cell_type.as_deref() else {
        return Err("`cell_type` is missing: code, markdown or raw? Nothing was changed.".to_owned());
    };
    let after = input.cell_id.as_ref().map(|_| target(shown, notebook, input)).transpose()?;
    let id = notebook.has_ids.then(|| new_id(notebook));
    let as_string = notebook.cells.first().and_then(|cell| cell.members.get("source"));
    let as_string = as_string.is_some_and(|source| source.get().starts_with('"'));
    // The order in which Jupyter writes a cell: by name.
    let mut members = vec![("cell_type".to_owned(), quoted(kind))];
    if kind == "code" {
        members.push(("execution_count".to_owned(), "null".to_owned()));
    }
    members.extend(id.as_ref().map(|id| ("id".to_owned(), quoted(id))));
    members.push(("metadata".to_owned(), "{}".to_owned()));
    if kind == "code" {
        members.push(("outputs".to_owned(), "[]".to_owned()));
    }
    members.push(("source".to_owned(), style.source(&input.new_source, as_string)));
    let cell = style.cell(&members);
    let text = notebook.text;
    let new = match (after, notebook.cells.first()) {
        (Some(index), _) => {
            let end = notebook.cells[index].span.end;
            format!("{},{}{cell}{}", &text[..end], style.between(2), &text[end..])
        }
        (None, Some(first)) => {
            let start = first.span.start;
            format!("{}{cell},{}{}", &text[..start], style.between(2), &text[start..])
        }
        (None, None) => format!(
            "{}[{}{cell}{}]{}",
            &text[..notebook.list.start],
            style.line(2),
            style.line(1),
            &text[notebook.list.end..]
        ),
    };
    let name = id.unwrap_or_else(|| format!("cell-{}", after.map_or(0, |index| index + 1)));
    Ok((new, format!("cell {name} was inserted.")))
}

fn deleted(notebook: &Notebook<'_>, index: usize) -> (String, String) {
    let text = notebook.text;
    let span = &notebook.cells[index].span;
    // With the comma on one side; the white space of the other side stays.
    let gone = match (index.checked_sub(1), notebook.cells.get(index + 1)) {
        (_, Some(next)) => span.start..next.span.start,
        (Some(before), None) => notebook.cells[before].span.end..span.end,
        (None, None) => notebook.list.start + 1..notebook.list.end - 1,
    };
    let new = format!("{}{}", &text[..gone.start], &text[gone.end..]);
    (new, format!("cell {} was deleted.", notebook.name(index)))
}

fn new_id(notebook: &Notebook<'_>) -> String {
    let taken = |id: &str| notebook.cells.iter().any(|cell| cell.id.as_deref() == Some(id));
    loop {
        let id: String = Uuid::new_v4().simple().to_string().chars().take(ID_CHARS).collect();
        if !taken(&id) {
            return id;
        }
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// How the file is laid out.
struct Style {
    /// One step of indent; `None` when all is on one line.
    indent: Option<String>,
    newline: &'static str,
    /// Between a name and its value.
    colon: &'static str,
}

impl Style {
    fn of(text: &str) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        // The first member stands one step in.
        let indent = text.find('{').map(|at| &text[at + 1..]).and_then(|rest| {
            let first = rest.trim_start_matches(['\r', '\n']);
            let blank = first.len() - first.trim_start_matches([' ', '\t']).len();
            (first.len() < rest.len()).then(|| first[..blank].to_owned())
        });
        let colon = if text.contains("\": ") { ": " } else { ":" };
        Self { indent, newline, colon }
    }

    /// A new line at a depth; nothing where all is on one line.
    fn line(&self, depth: usize) -> String {
        let indent = self.indent.as_ref();
        indent.map_or_else(String::new, |step| format!("{}{}", self.newline, step.repeat(depth)))
    }

    /// What stands between two entries, after the comma.
    fn between(&self, depth: usize) -> String {
        match &self.indent {
            None if self.colon == ": " => " ".to_owned(),
            _ => self.line(depth),
        }
    }

    fn cell(&self, members: &[(String, String)]) -> String {
        let members: Vec<String> =
            members.iter().map(|(name, value)| format!("{}{}{value}", quoted(name), self.colon)).collect();
        let separator = format!(",{}", self.between(3));
        format!("{{{}{}{}}}", self.line(3), members.join(&separator), self.line(2))
    }

    fn source(&self, text: &str, as_string: bool) -> String {
        if as_string {
            return quoted(text);
        }
        let lines: Vec<String> = text.split_inclusive('\n').map(quoted).collect();
        if lines.is_empty() {
            return "[]".to_owned();
        }
        format!("[{}{}{}]", self.line(4), lines.join(&format!(",{}", self.between(4))), self.line(3))
    }
}
