//! `--output-format stream-json`: one JSON object a line, as things happen (contract §5).
//!
//! Lines go through one thread, so that observers never wait for a slow reader and lines never mix.

use crate::agent::context::{AgentContext, Tier};
use crate::agent::events::{AgentEvent, Observer};
use crate::cli::out;
use crate::wire::background::TaskRecord;
use crate::wire::block::{Block, Role};
use crate::wire::event::{Event, EventKind};
use crate::wire::frame::{FrameType, TaskNotification};
use crate::wire::ids::{AgentId, SessionId};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::mpsc;
use std::thread::JoinHandle;

/// Writes lines to standard output.
pub struct Printer {
    lines: Lines,
    thread: JoinHandle<()>,
}

/// A handle for observers. `None` is the end.
#[derive(Clone)]
pub struct Lines(mpsc::Sender<Option<String>>);

impl Printer {
    /// Starts the thread.
    pub fn start() -> std::io::Result<Self> {
        let (lines, waiting) = mpsc::channel::<Option<String>>();
        let thread = std::thread::Builder::new().name("stdout".to_owned()).spawn(move || {
            while let Ok(Some(line)) = waiting.recv() {
                // Nobody reads any more, or it cannot be written; the run itself goes on to its end.
                if !out::plain(&line) {
                    return;
                }
            }
        })?;
        Ok(Self { lines: Lines(lines), thread })
    }

    /// For observers.
    pub fn lines(&self) -> Lines {
        self.lines.clone()
    }

    /// Writes the last line and waits until everything is out.
    pub fn finish<T: Serialize>(self, last: &T) {
        self.lines.print(last);
        // Both fail only when the reader of standard output is gone.
        let _ = self.lines.0.send(None);
        let _ = self.thread.join();
    }
}

impl Lines {
    /// Prints one object.
    pub fn print<T: Serialize>(&self, line: &T) {
        if let Ok(text) = serde_json::to_string(line) {
            // Fails only when the reader of standard output is gone.
            let _ = self.0.send(Some(text));
        }
    }

    /// Prints what the team's event log says, as far as the stream shows it.
    pub fn team_event(&self, event: &Event, session: &SessionId) {
        // It has a line of its own.
        if event.fields.get("type").and_then(Value::as_str) == Some(FrameType::TaskNotification.as_str()) {
            return;
        }
        let subtype = match event.event {
            EventKind::Spawn => "task_started",
            EventKind::Send => "message",
            EventKind::Ask => "ask",
            EventKind::Decision => "decision",
            EventKind::Idle => "idle",
            EventKind::Exit | EventKind::Lost => "teammate_ended",
            EventKind::Notice => "notice",
            // A decision that is ignored; a denied call stands in the result, and mail that is refused in the inbox.
            EventKind::Refused if event.fields.contains_key("askId") => "notice",
            EventKind::Limit => "limit",
            EventKind::Fork => "fork_receipt",
            EventKind::Ready
            | EventKind::Deliver
            | EventKind::Undeliverable
            | EventKind::Refused
            | EventKind::Task
            | EventKind::Shutdown => return,
        };
        let mut line = json!({ "type": "system", "subtype": subtype, "session_id": session, "agent": event.agent,
                               "team": event.team, "incarnation": event.incarnation, "timestamp": event.ts });
        if let Some(line) = line.as_object_mut() {
            for (key, value) in &event.fields {
                line.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        self.print(&line);
    }
}

impl Observer for Lines {
    fn event(&self, agent: &AgentContext, event: &AgentEvent) {
        let line = match event {
            AgentEvent::Message { uuid, message, response } => {
                let (kind, role) = match message.role {
                    Role::User => ("user", "user"),
                    Role::Assistant => ("assistant", "assistant"),
                };
                let blocks: Vec<&Block> = message.blocks.iter().collect();
                let mut body = json!({ "role": role });
                if let (Some(body), Some(response)) = (body.as_object_mut(), response) {
                    body.insert("id".into(), json!(response.id));
                    body.insert("type".into(), json!("message"));
                    body.insert("model".into(), json!(response.model));
                    body.insert("usage".into(), json!(response.usage));
                    body.insert("stop_reason".into(), json!(response.stop_reason));
                }
                self.print(&MessageLine {
                    kind,
                    message: WithContent { head: body, content: blocks },
                    session_id: &agent.session,
                    uuid: uuid.as_str(),
                    parent_tool_use_id: agent.parent_tool_use_id.as_deref(),
                    agent_id: (agent.tier != Tier::Main).then(|| agent.id()),
                });
                return;
            }
            AgentEvent::ChildStarted(child, description) => json!({
                "type": "system", "subtype": "task_started", "session_id": agent.session, "task_id": child.id(),
                "agent_type": child.agent_type, "description": description,
                "parent_tool_use_id": child.parent_tool_use_id }),
            // An agent says so itself, when it has found its place.
            AgentEvent::TaskLaunched(task) if !task.kind.is_agent() => json!({
                "type": "system", "subtype": "task_started", "session_id": agent.session, "task_id": task.task_id,
                "task_type": task.kind, "description": task.description, "output_file": task.output_file,
                "parent_tool_use_id": task.tool_use_id }),
            AgentEvent::TaskEnded(task) => match &task.outcome {
                Some(outcome) => ended(task, outcome, &agent.session),
                None => return,
            },
            AgentEvent::ToolStarted { id, tool, summary } if agent.tier != Tier::Main => json!({
                "type": "system", "subtype": "task_progress", "session_id": agent.session, "task_id": agent.id(),
                "tool_use_id": id, "tool": tool, "summary": summary,
                "parent_tool_use_id": agent.parent_tool_use_id }),
            AgentEvent::Delta(crate::model::provider::Delta::Retry { attempt, of, after, why }) => json!({
                "type": "system", "subtype": "retry", "session_id": agent.session, "agent_id": agent.id(),
                "attempt": attempt, "of": of, "after_ms": u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
                "why": why }),
            AgentEvent::Todos(todos) => json!({
                "type": "system", "subtype": "todos", "session_id": agent.session, "agent_id": agent.id(),
                "parent_tool_use_id": agent.parent_tool_use_id, "todos": todos }),
            AgentEvent::Compacted(done) => json!({
                "type": "system", "subtype": "compact_boundary", "session_id": agent.session, "uuid": done.uuid,
                "agent_id": agent.id(), "parent_tool_use_id": agent.parent_tool_use_id,
                "compact_metadata": { "trigger": done.trigger.as_str(), "pre_tokens": done.pre_tokens,
                                      "post_tokens": done.post_tokens, "kept_messages": done.kept_messages } }),
            AgentEvent::ModeChanged(mode) => json!({
                "type": "system", "subtype": "mode", "session_id": agent.session, "agent_id": agent.id(),
                "permission_mode": mode }),
            AgentEvent::Notice(text) => json!({
                "type": "system", "subtype": "notice", "session_id": agent.session, "agent_id": agent.id(),
                "text": text }),
            _ => return,
        };
        self.print(&line);
    }
}

/// The end of a background task.
fn ended(task: &TaskRecord, outcome: &TaskNotification, session: &SessionId) -> Value {
    let used = outcome.usage;
    let mut line = json!({
        "type": "system", "subtype": "task_notification", "session_id": session, "task_id": task.task_id,
        "task_type": task.kind, "status": outcome.status, "summary": outcome.summary,
        "output_file": outcome.output_file, "parent_tool_use_id": task.tool_use_id,
        "usage": { "total_tokens": used.total_tokens, "tool_uses": used.tool_uses, "duration_ms": used.duration_ms },
    });
    let more = [
        ("result", json!(outcome.result)),
        ("error", json!(outcome.error)),
        ("fork_receipt", json!(outcome.receipt)),
        ("worktree_path", json!(outcome.worktree_path)),
        ("worktree_branch", json!(outcome.worktree_branch)),
    ];
    for (key, value) in more.into_iter().filter(|(_, value)| !value.is_null()) {
        line[key] = value;
    }
    line
}

#[derive(Serialize)]
struct MessageLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    message: WithContent<'a>,
    session_id: &'a SessionId,
    uuid: &'a str,
    parent_tool_use_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<AgentId>,
}

/// The message's fields with its blocks as the bytes they are, made one line.
struct WithContent<'a> {
    head: Value,
    content: Vec<&'a Block>,
}

impl Serialize for WithContent<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let head = self.head.as_object();
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in head.into_iter().flatten() {
            map.serialize_entry(key, value)?;
        }
        map.serialize_entry("content", &self.content.iter().map(|b| OneLine(b)).collect::<Vec<_>>())?;
        map.end()
    }
}

/// A block whose raw bytes may hold line breaks between tokens, which would break the line.
struct OneLine<'a>(&'a Block);

impl Serialize for OneLine<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.raw().contains(['\n', '\r']) {
            let value: Value = serde_json::from_str(self.0.raw()).map_err(serde::ser::Error::custom)?;
            return value.serialize(serializer);
        }
        self.0.serialize(serializer)
    }
}
