//! An agent's list of things to do: what `TodoWrite` said last.
//!
//! Owned by the agent's core and gone with it; a child has a list of its own. The list of an earlier run
//! is found again in the transcript.

use super::core::AgentCore;
use super::events::AgentEvent;
use crate::tools::context::TodoList;
use crate::tools::todo_write;
use crate::wire::block::Block;
use crate::wire::todo::Todo;
use std::sync::{Arc, Mutex, PoisonError};

/// The list.
#[derive(Debug, Default)]
pub struct Todos(Mutex<Arc<[Todo]>>);

impl Todos {
    /// The list as it is now, in the order of the work; empty when there is none.
    pub fn current(&self) -> Arc<[Todo]> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set(&self, todos: impl Into<Arc<[Todo]>>) -> Arc<[Todo]> {
        let todos = todos.into();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&todos);
        todos
    }
}

/// The list of one agent, as its tool sees it.
pub(super) struct Own(pub(super) Arc<AgentCore>);

impl TodoList for Own {
    fn replace(&self, todos: Vec<Todo>) {
        let todos = self.0.todos.set(todos);
        self.0.runtime.observer.event(&self.0.context, &AgentEvent::Todos(todos));
    }
}

/// Follows a transcript: which list the last call of `TodoWrite` that went well has left.
#[derive(Debug, Clone, Default)]
pub(super) struct Replay {
    /// Calls without a result so far.
    open: Vec<(String, Vec<Todo>)>,
    last: Vec<Todo>,
}

impl Replay {
    /// The next block of the transcript.
    pub(super) fn take(&mut self, block: &Block) {
        if let Some(call) = block.as_tool_use() {
            let todos = (call.name == todo_write::NAME).then(|| todo_write::list_of(call.input.get()));
            self.open.extend(todos.flatten().map(|todos| (call.id, todos)));
        } else if let Some(at) = self.answered(block) {
            let (_, todos) = self.open.remove(at);
            if block.as_tool_result().is_some_and(|(_, _, failed)| !failed) {
                self.last = todos;
            }
        }
    }

    fn answered(&self, block: &Block) -> Option<usize> {
        // Most results belong to other tools, and reading one means parsing it.
        if self.open.is_empty() {
            return None;
        }
        let (id, _, _) = block.as_tool_result()?;
        self.open.iter().position(|(open, _)| *open == id)
    }

    /// The list at the end.
    pub(super) fn list(self) -> Vec<Todo> {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::todo::TodoStatus;
    use serde_json::json;

    fn call(id: &str, name: &str, input: &serde_json::Value) -> Block {
        Block::tool_use(id, name, &serde_json::value::to_raw_value(input).expect("raw"))
    }

    fn list(content: &str) -> serde_json::Value {
        json!({ "todos": [{ "content": content, "status": "in_progress", "activeForm": "Doing" }] })
    }

    #[test]
    fn the_last_call_that_went_well_counts() {
        let mut replay = Replay::default();
        for block in [
            call("a", "TodoWrite", &list("one")),
            call("b", "Read", &list("read")),
            Block::tool_result("b", "x", false),
            Block::tool_result("a", "saved", false),
            call("c", "TodoWrite", &list("refused")),
            Block::tool_result("c", "no", true),
            call("d", "TodoWrite", &json!({ "todos": "wrong" })),
            call("e", "TodoWrite", &list("never answered")),
        ] {
            replay.take(&block);
        }
        let wanted = Todo {
            content: "one".to_owned(),
            status: TodoStatus::InProgress,
            active_form: "Doing".to_owned(),
        };
        assert_eq!(replay.list(), [wanted]);
    }
}
