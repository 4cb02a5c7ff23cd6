//! `Edit`: an exact piece of a file that the agent has read, replaced by another.

use super::change::{self, Before, Change, Parents};
use super::context::ToolContext;
use super::tool::{BoxFuture, Concurrency, Tool, ToolCall, ToolOutput, ToolSpec};
use super::{path, replacement, work};
use crate::wire::access::{Access, Target};
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

static SPEC: LazyLock<ToolSpec> = LazyLock::new(|| {
    ToolSpec {
    name: "Edit".to_owned(),
    description: "Replaces an exact piece of text in a file. You must have read the file before, and it must not have \
                  changed since. `old_string` must be in the file exactly as Read shows it, white space included, \
                  without the line numbers, and only once: give enough of the lines around it, or set `replace_all` \
                  to change every place. Line ends, mode and everything else of the file stay. An empty `old_string` \
                  makes a new file (or fills an empty one) with `new_string`."
        .to_owned(),
    schema: r#"{"type":"object","properties":{"file_path":{"type":"string","minLength":1,"description":"The file. Absolute, or relative to your directory."},"old_string":{"type":"string","description":"The text to replace."},"new_string":{"type":"string","description":"What replaces it; must differ."},"replace_all":{"type":"boolean","description":"Replace every place instead of the only one. Default false."}},"required":["file_path","old_string","new_string"],"additionalProperties":false}"#.into(),
}
});

/// The tool.
#[derive(Debug, Default, Clone, Copy)]
pub struct Edit;

#[derive(Deserialize)]
struct Input {
    file_path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

impl Tool for Edit {
    fn spec(&self) -> &ToolSpec {
        &SPEC
    }

    fn access(&self, input: &Value, cwd: &Path) -> Access {
        let path = path::field(input, "file_path", cwd);
        let lines = |name| input.get(name).and_then(Value::as_str).unwrap_or_default().lines().count();
        let summary = format!(
            "Edit {} (-{} +{} lines)",
            path::shown(&path, cwd),
            lines("old_string"),
            lines("new_string")
        );
        Access { tool: SPEC.name.clone(), target: Target::Edit(vec![path]), summary }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Exclusive
    }

    fn check<'a>(&'a self, call: ToolCall, ctx: &'a ToolContext) -> BoxFuture<'a, Option<ToolOutput>> {
        work::check(async move {
            let (input, path, parents) = wanted(call, ctx)?;
            let shown = path.display().to_string();
            change::check(ctx, path, parents, move |before| edited(&shown, before, input)).await
        })
    }

    fn run<'a>(&'a self, call: ToolCall, ctx: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        work::run(async move {
            let (input, path, parents) = wanted(call, ctx)?;
            let shown = path.display().to_string();
            change::change(ctx, path, parents, move |before| edited(&shown, before, input)).await
        })
    }
}

/// What a call wants changed.
fn wanted(call: ToolCall, ctx: &ToolContext) -> Result<(Input, PathBuf, Parents), ToolOutput> {
    let input: Input = work::input(&SPEC, call)?;
    if input.old_string == input.new_string {
        return Err(ToolOutput::error(
            "`old_string` and `new_string` are the same, so there is nothing to change.",
        ));
    }
    let path = path::absolute(&input.file_path, &ctx.cwd);
    let parents = if input.old_string.is_empty() { Parents::Make } else { Parents::Need };
    Ok((input, path, parents))
}

fn edited(shown: &str, before: Before, input: Input) -> Result<Change, String> {
    match before {
        Before::Absent if input.old_string.is_empty() => {
            Ok(Change { content: input.new_string.into_bytes(), told: format!("{shown} was created.") })
        }
        Before::Absent => Err(format!(
            "There is no file {shown}. To make one use Write, or Edit with an empty `old_string`."
        )),
        Before::Content(content) if input.old_string.is_empty() && content.is_empty() => {
            Ok(Change { content: input.new_string.into_bytes(), told: format!("{shown} was filled.") })
        }
        Before::Content(_) if input.old_string.is_empty() => Err(format!(
            "{shown} is not empty, and an empty `old_string` only makes new files. Give the text to replace, or \
             replace the whole file with Write."
        )),
        Before::Content(content) => {
            let replaced =
                replacement::replace(&content, &input.old_string, &input.new_string, input.replace_all)
                    .map_err(|why| format!("{shown} {why}. Nothing was changed."))?;
            let places = match replaced.places {
                1 => "one place".to_owned(),
                count => format!("{count} places"),
            };
            let told = format!("{shown} was changed in {places}:\n{}", replaced.excerpt);
            Ok(Change { content: replaced.content, told })
        }
    }
}
