//! `Write`: a whole file, new or in the place of one the agent has read.

use super::change::{self, Before, Change, Parents};
use super::context::ToolContext;
use super::tool::{BoxFuture, Concurrency, Tool, ToolCall, ToolOutput, ToolSpec};
use super::{path, work};
use crate::wire::access::{Access, Target};
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::sync::LazyLock;

static SPEC: LazyLock<ToolSpec> = LazyLock::new(|| {
    ToolSpec {
    name: "Write".to_owned(),
    description: "Writes a whole file; missing directories are made. A file that exists is replaced: you must have \
                  read it before, and it must not have changed since. To change part of a file use Edit. Do not write \
                  files nobody asked for."
        .to_owned(),
    schema: r#"{"type":"object","properties":{"file_path":{"type":"string","minLength":1,"description":"The file. Absolute, or relative to your directory."},"content":{"type":"string","description":"All of its new content."}},"required":["file_path","content"],"additionalProperties":false}"#.into(),
}
});

/// The tool.
#[derive(Debug, Default, Clone, Copy)]
pub struct Write;

#[derive(Deserialize)]
struct Input {
    file_path: String,
    content: String,
}

impl Tool for Write {
    fn spec(&self) -> &ToolSpec {
        &SPEC
    }

    fn access(&self, input: &Value, cwd: &Path) -> Access {
        let path = path::field(input, "file_path", cwd);
        let content = input.get("content").and_then(Value::as_str).unwrap_or_default();
        let summary = format!("Write {} ({} lines)", path::shown(&path, cwd), content.lines().count());
        Access { tool: SPEC.name.clone(), target: Target::Edit(vec![path]), summary }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Exclusive
    }

    fn check<'a>(&'a self, call: ToolCall, ctx: &'a ToolContext) -> BoxFuture<'a, Option<ToolOutput>> {
        work::check(async move {
            let input: Input = work::input(&SPEC, call)?;
            let path = path::absolute(&input.file_path, &ctx.cwd);
            let any = |_| Ok(Change { content: Vec::new(), told: String::new() });
            change::check(ctx, path, Parents::Make, any).await
        })
    }

    fn run<'a>(&'a self, call: ToolCall, ctx: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        work::run(async move {
            let input: Input = work::input(&SPEC, call)?;
            let path = path::absolute(&input.file_path, &ctx.cwd);
            let shown = path.display().to_string();
            let make = move |before| {
                let verb = match before {
                    Before::Absent => "created",
                    Before::Content(_) => "replaced",
                };
                let lines = input.content.lines().count();
                let told = format!("{shown} was {verb} ({lines} lines, {} bytes).", input.content.len());
                Ok(Change { content: input.content.into_bytes(), told })
            };
            change::change(ctx, path, Parents::Make, make).await
        })
    }
}
