//! `TodoWrite`: the agent's own list of things to do, for itself and for whoever watches it.
//!
//! Replaces the whole list each time. Touches nothing but the calling agent's list; a child has its own.

use super::context::ToolContext;
use super::tool::{BoxFuture, Concurrency, Tool, ToolCall, ToolOutput, ToolSpec};
use super::work;
use crate::wire::access::{Access, Target};
use crate::wire::todo::{Todo, TodoStatus};
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::sync::LazyLock;

/// The tool's name.
pub const NAME: &str = "TodoWrite";

static SPEC: LazyLock<ToolSpec> = LazyLock::new(|| {
    ToolSpec {
    name: NAME.to_owned(),
    description: "Replaces your list of things to do, which the person who watches you sees. Use it for work of three \
                  or more steps: write the list before you begin, have one item `in_progress` while you work on it, \
                  and mark it `completed` as soon as it is done, not later. Send the whole list each time; an empty \
                  one clears it. Leave out what is not needed any more. For a single simple step use no list."
        .to_owned(),
    schema: r#"{"type":"object","properties":{"todos":{"type":"array","maxItems":100,"description":"The whole list, in the order of the work.","items":{"type":"object","properties":{"content":{"type":"string","minLength":1,"maxLength":500,"description":"What is to be done: `Run the tests`."},"status":{"type":"string","enum":["pending","in_progress","completed"],"description":"How far it is."},"activeForm":{"type":"string","maxLength":500,"description":"The same while it is being done: `Running the tests`."}},"required":["content","status"],"additionalProperties":false}}},"required":["todos"],"additionalProperties":false}"#.into(),
}
});

/// The tool.
#[derive(Debug, Default, Clone, Copy)]
pub struct TodoWrite;

#[derive(Deserialize)]
struct Input {
    todos: Vec<Todo>,
}

/// The list that an input of the tool holds; `None` when it is none.
pub fn list_of(input: &str) -> Option<Vec<Todo>> {
    serde_json::from_str::<Input>(input).ok().map(|input| input.todos)
}

impl Tool for TodoWrite {
    fn spec(&self) -> &ToolSpec {
        &SPEC
    }

    fn access(&self, input: &Value, _: &Path) -> Access {
        let todos = input.get("todos").and_then(Value::as_array);
        let done = |todos: &Vec<Value>| {
            todos.iter().filter(|t| t.get("status").and_then(Value::as_str) == Some("completed")).count()
        };
        let summary = todos.map_or_else(
            || "Change the list of things to do".to_owned(),
            |todos| format!("List what to do ({} of {} done)", done(todos), todos.len()),
        );
        Access { tool: SPEC.name.clone(), target: Target::Nothing, summary }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        // The last of two calls has to win.
        Concurrency::Exclusive
    }

    fn run<'a>(&'a self, call: ToolCall, ctx: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        work::run(async move {
            let Input { todos } = work::input(&SPEC, call)?;
            let told = told(&todos);
            ctx.todos.replace(todos);
            Ok(ToolOutput::ok(told))
        })
    }
}

fn told(todos: &[Todo]) -> String {
    let count = |status| todos.iter().filter(|todo| todo.status == status).count();
    let (done, active) = (count(TodoStatus::Completed), count(TodoStatus::InProgress));
    match (todos.len(), active) {
        (0, _) => "The list is empty now.".to_owned(),
        (all, _) if done == all => format!("The list is saved; all {all} items are done."),
        (all, 0) => format!("The list is saved: {done} of {all} done, none in progress."),
        (all, 1) => format!("The list is saved: {done} of {all} done, 1 in progress."),
        (all, more) => format!(
            "The list is saved: {done} of {all} done, {more} in progress. Work on one item at a time where you can."
        ),
    }
}
