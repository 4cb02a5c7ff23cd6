//! `TaskCreate`, `TaskGet`, `TaskList`, `TaskUpdate`: the team's task list for a model.
//!
//! One type for the four, since each is a line on the [`TaskDesk`]. A refused claim says why, so that a
//! model takes another task instead of asking again.

use crate::agent::core::AgentCore;
use crate::agent::gates::{GateEvent, GateTask};
use crate::store::slug;
use crate::store::tasks::{Change, NewTask, TaskError, open_blockers};
use crate::team::tasks::TaskDesk;
use crate::tools::context::ToolContext;
use crate::tools::tool::{BoxFuture, Concurrency, Tool, ToolCall, ToolOutput, ToolSpec};
use crate::tools::work::run;
use crate::wire::access::{Access, Target};
use crate::wire::ids::AgentName;
use crate::wire::task::{Task, TaskId, TaskStatus};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use tokio_util::sync::CancellationToken;

/// What a model may do with the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Adds a task.
    Create,
    /// Shows one.
    Get,
    /// Shows all.
    List,
    /// Changes one.
    Update,
}

impl Verb {
    /// In the order of their declaration.
    const ALL: [Self; 4] = [Self::Create, Self::Get, Self::List, Self::Update];

    fn spec(self) -> &'static ToolSpec {
        &SPECS[self as usize]
    }
}

const CREATE: &str = r#"{"type":"object","properties":{"subject":{"type":"string","description":"What is to be done, in a line"},"description":{"type":"string","description":"All that whoever does it has to know: where, how far, how it is judged"},"activeForm":{"type":"string","description":"The subject while it is done, for people: Running the tests"},"blockedBy":{"type":"array","items":{"type":"string"},"description":"Numbers of tasks that have to be completed first"},"metadata":{"type":"object","description":"Whatever else is to be kept with it"}},"required":["subject","description"],"additionalProperties":false}"#;
const GET: &str = r#"{"type":"object","properties":{"taskId":{"type":"string","description":"Its number"}},"required":["taskId"],"additionalProperties":false}"#;
const LIST: &str = r#"{"type":"object","properties":{},"additionalProperties":false}"#;
const UPDATE: &str = r#"{"type":"object","properties":{"taskId":{"type":"string","description":"Its number"},"status":{"type":"string","enum":["pending","in_progress","completed","deleted"],"description":"in_progress claims it for you; pending gives it back"},"owner":{"type":"string","description":"Name of the member who is to do it; empty for nobody"},"subject":{"type":"string"},"description":{"type":"string"},"activeForm":{"type":"string"},"addBlocks":{"type":"array","items":{"type":"string"},"description":"Tasks that are to wait for this one"},"addBlockedBy":{"type":"array","items":{"type":"string"},"description":"Tasks this one is to wait for"},"metadata":{"type":"object"}},"required":["taskId"],"additionalProperties":false}"#;

static SPECS: LazyLock<[ToolSpec; 4]> = LazyLock::new(|| {
    let spec = |name: &str, description: &str, schema: &str| ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        schema: schema.into(),
    };
    [
        spec(
            "TaskCreate",
            "Adds a task to the list that the whole team shares. For work that others do or wait for; your own \
             steps belong into your own todo list. It belongs to nobody until somebody claims it or is named as \
             its owner.",
            CREATE,
        ),
        spec("TaskGet", "Shows a task of the team's list with all that is known of it.", GET),
        spec(
            "TaskList",
            "Shows the team's tasks: number, status, owner, what they wait for. Claim a pending one that waits for \
             nothing, the lowest number first.",
            LIST,
        ),
        spec(
            "TaskUpdate",
            "Changes a task of the team's list. Status in_progress claims it for you, and fails with the reason when \
             it is taken, done or blocked, or when you work on another; completed only when all of it is done and \
             checked. Naming an owner tells that member.",
            UPDATE,
        ),
    ]
});

/// One of the four.
pub struct TaskTool {
    verb: Verb,
    desk: TaskDesk,
    /// The agent whose hooks are asked.
    core: Arc<AgentCore>,
}

impl TaskTool {
    /// All four for an agent, for whom `desk` is.
    pub fn all(desk: TaskDesk, core: Arc<AgentCore>) -> impl Iterator<Item = Arc<dyn Tool>> {
        let tool = move |verb| Arc::new(Self { verb, desk: desk.clone(), core: Arc::clone(&core) });
        Verb::ALL.into_iter().map(move |verb| tool(verb) as Arc<dyn Tool>)
    }

    async fn act(&self, call: &ToolCall, cancel: &CancellationToken) -> Result<String, String> {
        let raw = &call.raw;
        match self.verb {
            Verb::Create => self.create(read(raw)?, cancel).await,
            Verb::Get => self.get(read::<Get>(raw)?.task_id).await,
            Verb::List => self.list().await,
            Verb::Update => self.update(read(raw)?, cancel).await,
        }
    }

    /// Lets the change pass the hooks.
    async fn gate(&self, event: GateEvent<'_>, cancel: &CancellationToken) -> Result<(), String> {
        let outcome = self.core.gate(event, cancel).await;
        match outcome.refusal() {
            Some(why) => Err(format!("Nothing was changed: a hook refused it: {why}")),
            None if cancel.is_cancelled() => Err("Nothing was changed: the call was cancelled.".to_owned()),
            None => Ok(()),
        }
    }

    async fn create(&self, input: Create, cancel: &CancellationToken) -> Result<String, String> {
        if input.subject.trim().is_empty() {
            return Err("A task needs a subject.".to_owned());
        }
        let (team, subject) = (self.core.context.team.get(), input.subject.trim());
        let by = self.desk.me();
        let task = GateTask { id: None, subject, description: &input.description, by, team: &team };
        self.gate(GateEvent::TaskCreated(task), cancel).await?;
        let new = NewTask {
            subject: input.subject.trim().to_owned(),
            description: input.description,
            active_form: input.active_form,
            blocked_by: input.blocked_by,
            metadata: input.metadata,
            ..NewTask::default()
        };
        let task = self.desk.create(new).await.map_err(|e| say(&e))?;
        Ok(format!("Task {} is on the list: {}", task.id, task.subject))
    }

    async fn get(&self, id: TaskId) -> Result<String, String> {
        let (tasks, _) = self.desk.list().await.map_err(|e| say(&e))?;
        let task = tasks.iter().find(|t| t.id == id).ok_or_else(|| say(&TaskError::NotFound(id)))?;
        let mut text = line(task, &open_blockers(&tasks, task));
        for (name, ids) in [("waits for", &task.blocked_by), ("is waited for by", &task.blocks)] {
            if !ids.is_empty() {
                text.push_str(&format!("\n{name}: {}", numbers(ids)));
            }
        }
        for (name, value) in [
            ("note", task.note.as_deref()),
            ("metadata", task.metadata.as_deref().map(RawValue::get)),
            ("description", Some(task.description.as_str()).filter(|d| !d.is_empty())),
        ] {
            if let Some(value) = value {
                text.push_str(&format!("\n{name}: {value}"));
            }
        }
        Ok(text)
    }

    async fn list(&self) -> Result<String, String> {
        let (tasks, troubles) = self.desk.list().await.map_err(|e| say(&e))?;
        let mut lines: Vec<String> =
            tasks.iter().map(|task| line(task, &open_blockers(&tasks, task))).collect();
        if lines.is_empty() {
            lines.push("The list is empty.".to_owned());
        }
        lines.extend(troubles.iter().map(|trouble| format!("(cannot be read: {trouble})")));
        Ok(lines.join("\n"))
    }

    async fn update(&self, input: Update, cancel: &CancellationToken) -> Result<String, String> {
        let id = input.task_id;
        if input.status == Some(Status::Deleted) {
            let task = self.desk.delete(id).await.map_err(|e| say(&e))?;
            return Ok(format!("Task {} is off the list: {}", task.id, task.subject));
        }
        let owner = match input.owner.as_deref().map(str::trim) {
            None => None,
            Some("") => Some(None),
            Some(name) => Some(Some(member(name)?)),
        };
        if input.status == Some(Status::Completed) {
            let task = self.desk.get(id).await.map_err(|e| say(&e))?;
            let (team, by) = (self.core.context.team.get(), self.desk.me());
            let (subject, description) = (&task.subject, &task.description);
            let done = GateTask { id: Some(id), subject, description, by, team: &team };
            self.gate(GateEvent::TaskCompleted(done), cancel).await?;
        }
        let change = Change {
            status: input.status.and_then(Status::kept),
            owner,
            subject: input.subject,
            description: input.description,
            active_form: input.active_form,
            add_blocks: input.add_blocks,
            add_blocked_by: input.add_blocked_by,
            metadata: input.metadata,
        };
        let changed = self.desk.update(id, change).await.map_err(|e| say(&e))?;
        let mut text = line(&changed.task, &changed.blockers);
        for why in changed.untold {
            text.push_str(&format!("\nThe change stands, but {why}."));
        }
        Ok(text)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Create {
    subject: String,
    description: String,
    active_form: Option<String>,
    #[serde(default)]
    blocked_by: Vec<TaskId>,
    metadata: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Get {
    task_id: TaskId,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Completed,
    Deleted,
}

impl Status {
    fn kept(self) -> Option<TaskStatus> {
        match self {
            Self::Pending => Some(TaskStatus::Pending),
            Self::InProgress => Some(TaskStatus::InProgress),
            Self::Completed => Some(TaskStatus::Completed),
            Self::Deleted => None,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Update {
    task_id: TaskId,
    status: Option<Status>,
    owner: Option<String>,
    subject: Option<String>,
    description: Option<String>,
    active_form: Option<String>,
    #[serde(default)]
    add_blocks: Vec<TaskId>,
    #[serde(default)]
    add_blocked_by: Vec<TaskId>,
    metadata: Option<Box<RawValue>>,
}

fn read<T: DeserializeOwned>(raw: &RawValue) -> Result<T, String> {
    serde_json::from_str(raw.get()).map_err(|e| format!("The input is wrong: {e}. Nothing was changed."))
}

fn member(name: &str) -> Result<AgentName, String> {
    if name == "main" || name == AgentName::team_lead().as_str() {
        return Ok(AgentName::team_lead());
    }
    let bare = name.split_once('@').map_or(name, |(name, _)| name);
    slug::agent_name(bare).map_err(|e| format!("Nothing was changed: {e}."))
}

/// An error with what to do about it.
fn say(error: &TaskError) -> String {
    let next = match error {
        TaskError::Store(_) => "",
        TaskError::NotFound(_) => " TaskList shows which there are.",
        TaskError::Taken { .. } => " Take another, or write to its owner.",
        TaskError::Done(_) => " Make a new one when there is more to do.",
        TaskError::Blocked { .. } => " Take one that waits for nothing.",
        TaskError::Busy { .. } => " Complete that one first, or give it back with status pending.",
        TaskError::Cycle { .. } => " Leave that edge out.",
    };
    format!("Nothing was changed: {error}.{next}")
}

fn numbers(ids: &[TaskId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// A task in a line.
fn line(task: &Task, blockers: &[TaskId]) -> String {
    let mut text = format!("{}. [{}] {}", task.id, task.status.as_str(), task.subject);
    if let Some(owner) = &task.owner {
        text.push_str(&format!(" (owner: {owner})"));
    }
    if !blockers.is_empty() && task.status != TaskStatus::Completed {
        text.push_str(&format!(" (blocked by {})", numbers(blockers)));
    }
    text
}

impl Tool for TaskTool {
    fn spec(&self) -> &ToolSpec {
        self.verb.spec()
    }

    fn access(&self, input: &Value, _: &Path) -> Access {
        let what = ["subject", "taskId"].iter().find_map(|key| input.get(*key));
        let what = what.and_then(Value::as_str).unwrap_or_default();
        Access {
            tool: self.spec().name.clone(),
            target: Target::Nothing,
            summary: match self.verb {
                Verb::Create => format!("Add the task: {what}"),
                Verb::Get => format!("Look at task {what}"),
                Verb::List => "Look at the tasks".to_owned(),
                Verb::Update => format!("Change task {what}"),
            },
        }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        match self.verb {
            Verb::Get | Verb::List => Concurrency::Safe,
            Verb::Create | Verb::Update => Concurrency::Exclusive,
        }
    }

    fn run<'a>(&'a self, call: ToolCall, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        run(
            async move { self.act(&call, &context.cancel).await.map(ToolOutput::ok).map_err(ToolOutput::error) },
        )
    }
}
