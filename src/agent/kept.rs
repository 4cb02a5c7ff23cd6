//! What stays of a conversation when it is compacted, beside the summary and the last rounds.
//!
//! Owns the files an agent has worked with, and the port for what others know: the team, tasks, todos,
//! background agents. What does not answer in time is left out, never waited for.

use super::core::AgentCore;
use super::mail::escape;
use super::ports::BoxFuture;
use crate::os::file;
use crate::policy::decide::Verdict;
use crate::tools::file_cache::FileState;
use crate::wire::access::{Access, Target};
use crate::wire::block::{Block, BlockKind, ChatMessage};
use crate::wire::todo::TodoStatus;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long one source may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// Files that are named.
const NAMED: usize = 30;
/// Files that are read again.
const READ_AGAIN: usize = 5;
/// The largest file that is read again, in bytes.
const FILE_BYTES: u64 = 16 * 1024;
/// All of them together, as a share of the model's context: one part in so many.
const SHARE: u64 = 12;
/// Bytes of a token, to hold to that share.
const TOKEN_BYTES: u64 = 3;

/// A part of what stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its heading.
    pub title: String,
    /// Its text, escaped where others wrote it.
    pub text: String,
}

impl Kept {
    /// As it stands before the model.
    pub fn block(&self) -> Block {
        Block::text(&format!("# {}\n\n{}", self.title, self.text.trim_end()))
    }
}

/// Knows something that an agent must not forget when its conversation is compacted.
pub trait KeptContext: Send + Sync {
    /// What that is for this agent now; nothing when there is nothing.
    fn kept<'a>(&'a self, agent: &'a AgentCore) -> BoxFuture<'a, Vec<Kept>>;
}

/// All that know something. Whoever owns state an agent depends on adds itself once.
#[derive(Default)]
pub struct KeptSources(Mutex<Vec<Arc<dyn KeptContext>>>);

impl KeptSources {
    /// One more; its parts come after those of the earlier ones.
    pub fn add(&self, source: Arc<dyn KeptContext>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(source);
    }

    /// What all of them know.
    pub async fn gather(&self, agent: &AgentCore) -> Vec<Kept> {
        let sources = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut all = Vec::new();
        for source in sources {
            match tokio::time::timeout(DEADLINE, source.kept(agent)).await {
                Ok(parts) => all.extend(parts),
                Err(_) => tracing::warn!("a part of what a compaction keeps did not come in time"),
            }
        }
        all
    }
}

/// A file that calls have named, and whether one of them changed it.
#[derive(Debug, PartialEq, Eq)]
struct Touched {
    path: PathBuf,
    changed: bool,
}

/// The files of the calls in a conversation, the last used first.
fn touched(messages: &[ChatMessage], cwd: &Path) -> Vec<Touched> {
    let mut all: Vec<Touched> = Vec::new();
    let blocks = messages.iter().flat_map(|m| m.blocks.iter()).filter(|b| b.kind() == BlockKind::ToolUse);
    for call in blocks.filter_map(Block::as_tool_use) {
        let changed = matches!(call.name.as_str(), "Edit" | "Write" | "NotebookEdit");
        if !changed && call.name != "Read" {
            continue;
        }
        let input: Value = serde_json::from_str(call.input.get()).unwrap_or_default();
        let path = input.get("file_path").or_else(|| input.get("notebook_path")).and_then(Value::as_str);
        let Some(path) = path.filter(|p| !p.is_empty()) else { continue };
        let path = cwd.join(path);
        let before = all.iter().position(|t| t.path == path).map(|at| all.remove(at));
        all.push(Touched { path, changed: changed || before.is_some_and(|t| t.changed) });
    }
    all.reverse();
    all
}

/// The agent's own list of things to do, when something on it is open.
pub fn todos(core: &AgentCore) -> Vec<Kept> {
    let todos = core.todos.current();
    if todos.iter().all(|todo| todo.status == TodoStatus::Completed) {
        return Vec::new();
    }
    let mut text = String::new();
    for todo in todos.iter() {
        let mark = match todo.status {
            TodoStatus::Pending => "open",
            TodoStatus::InProgress => "in progress",
            TodoStatus::Completed => "done",
        };
        let _ = writeln!(text, "- {mark}: {}", escape(&todo.content));
    }
    vec![Kept { title: "Your list of things to do".to_owned(), text }]
}

/// What runs in the background for the agent.
pub fn background(core: &AgentCore) -> Vec<Kept> {
    let mut text = String::new();
    for view in core.runtime.background.views() {
        let record = view.record;
        if record.launched_by == core.context.id() && !record.state.is_over() {
            let (id, state, what) = (&record.task_id, record.state.as_str(), escape(&record.description));
            let _ =
                writeln!(text, "- {id} ({}, {state} since {}): {what}", record.kind.as_str(), record.since);
        }
    }
    if text.is_empty() {
        return Vec::new();
    }
    text.push_str("Each tells you by itself when it ends.");
    vec![Kept { title: "What runs for you in the background".to_owned(), text }]
}

/// The files an agent has worked with: their names, and the content of the last few, read now.
pub async fn files(core: &Arc<AgentCore>, messages: &[ChatMessage]) -> Vec<Kept> {
    let mut all = touched(messages, &core.context.cwd);
    for path in core.files.recent() {
        if !all.iter().any(|t| t.path == path || file::resolve(&t.path) == path) {
            all.push(Touched { path, changed: false });
        }
    }
    if all.is_empty() {
        return Vec::new();
    }
    let mut list = String::from("Worked with so far, the last used first:\n");
    for one in all.iter().take(NAMED) {
        let how = if one.changed { "changed" } else { "read" };
        let _ = writeln!(list, "- {} ({how})", escape(&one.path.display().to_string()));
    }
    if all.len() > NAMED {
        let _ = writeln!(list, "- … and {} more", all.len() - NAMED);
    }
    let mut parts = vec![Kept { title: "Files".to_owned(), text: list }];
    let again = Arc::clone(core);
    let here = core.context.cwd.clone();
    let room = core.model.context_tokens / SHARE * TOKEN_BYTES;
    let read = core.runtime.disk.run(&here, move || Ok(read_again(&again, room))).await;
    // Only the end of the store thread can fail here, and with it everything else.
    parts.extend(read.unwrap_or_default());
    parts
}

/// The last few known files that are small, text, and still allowed to be read. The agent knows them in
/// this state from now on.
fn read_again(core: &AgentCore, mut room: u64) -> Vec<Kept> {
    let mut parts = Vec::new();
    for path in core.files.recent().into_iter().take(READ_AGAIN) {
        let access = Access {
            tool: "Read".to_owned(),
            target: Target::Read(vec![path.clone()]),
            summary: String::new(),
        };
        if !matches!(core.permissions.decide(&access, None), Verdict::Allow { .. }) {
            continue;
        }
        let Some((text, state)) = read_text(&path) else { continue };
        let size = text.len() as u64;
        if size > room {
            break;
        }
        room -= size;
        core.files.record(&path, state);
        let title = format!("{}, as it is now", path.display());
        parts.push(Kept { title, text });
    }
    parts
}

fn read_text(path: &Path) -> Option<(String, FileState)> {
    let opened = file::open(path).ok().filter(|o| o.path == path && o.meta.len() <= FILE_BYTES)?;
    let mut content = Vec::new();
    (&opened.file).take(FILE_BYTES + 1).read_to_end(&mut content).ok()?;
    if content.is_empty() || content.len() as u64 > FILE_BYTES || content.contains(&0) {
        return None;
    }
    let state = FileState::of(&content, opened.meta.modified().ok());
    Some((String::from_utf8(content).ok()?, state))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, path: &str) -> Block {
        let input = format!(r#"{{"file_path":"{path}"}}"#);
        Block::parse(&format!(r#"{{"type":"tool_use","id":"t","name":"{name}","input":{input}}}"#))
            .expect("a block")
    }

    #[test]
    fn files_come_last_used_first_and_a_change_is_remembered() {
        let messages = [
            ChatMessage::assistant(vec![call("Read", "a"), call("Edit", "b"), call("Bash", "c")]),
            ChatMessage::assistant(vec![call("Read", "/x/d"), call("Read", "b")]),
        ];
        let found = touched(&messages, Path::new("/w"));
        let named: Vec<(&str, bool)> =
            found.iter().map(|t| (t.path.to_str().expect("text"), t.changed)).collect();
        assert_eq!(named, [("/w/b", true), ("/x/d", false), ("/w/a", false)]);
    }
}
