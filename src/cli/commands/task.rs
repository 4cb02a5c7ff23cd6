//! `festoon task`: the team's task list, looked at and changed from any terminal.

use super::for_people;
use crate::cli::args::Shared;
use crate::cli::environment::Environment;
use crate::cli::error::CliError;
use crate::cli::out::{self, Out};
use crate::cli::setup::Setup;
use crate::cli::table::{self, Cell, Column, Table};
use crate::cli::teams::{self, TeamView, inbox_owner};
use crate::cli::words;
use crate::store::tasks::{Change, NewTask, TaskError, open_blockers};
use crate::team::session;
use crate::team::tasks::TaskDesk;
use crate::wire::error::ExitKind;
use crate::wire::ids::AgentName;
use crate::wire::task::{Task, TaskId, TaskStatus};
use anstyle::{AnsiColor, Style};
use clap::Subcommand;
use serde_json::{Value, json};

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
    /// The team; without it, the one that runs.
    #[arg(long, global = true, value_name = "TEAM")]
    pub team: Option<String>,
}

/// What can be done with tasks.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Lists the tasks by number.
    List,
    /// Shows one with all that is known of it.
    Show {
        /// Its number.
        id: TaskId,
    },
    /// Puts a task on the list.
    Add {
        /// What is to be done, in a line.
        subject: String,
        /// All that whoever does it has to know.
        #[arg(long, default_value = "")]
        description: String,
        /// Tasks that have to be completed first.
        #[arg(long, alias = "add-blocked-by", value_name = "ID", value_delimiter = ',')]
        blocked_by: Vec<TaskId>,
        /// Who is to do it; that member is told.
        #[arg(long, value_name = "NAME")]
        owner: Option<String>,
    },
    /// Changes a task.
    Update(Update),
}

/// What can be changed.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
pub struct Fields {
    /// pending, `in_progress` (with --owner), completed, or deleted.
    #[arg(long)]
    pub status: Option<String>,
    /// Who is to do it; empty for nobody.
    #[arg(long, value_name = "NAME")]
    pub owner: Option<String>,
    /// What is to be done, in a line.
    #[arg(long)]
    pub subject: Option<String>,
    /// All that whoever does it has to know.
    #[arg(long)]
    pub description: Option<String>,
    /// Tasks that are to wait for it.
    #[arg(long = "blocks", alias = "add-blocks", value_name = "ID", value_delimiter = ',')]
    pub add_blocks: Vec<TaskId>,
    /// Tasks it is to wait for.
    #[arg(long = "blocked-by", alias = "add-blocked-by", value_name = "ID", value_delimiter = ',')]
    pub add_blocked_by: Vec<TaskId>,
}

/// A change of one task.
#[derive(Debug, clap::Args)]
pub struct Update {
    /// Its number.
    pub id: TaskId,
    /// The change.
    #[command(flatten)]
    pub fields: Fields,
}

/// Runs it.
pub async fn run(args: Args, shared: Shared) -> Result<Option<ExitKind>, CliError> {
    if matches!(args.verb, Verb::Update(_)) {
        for_people(&Environment::snapshot(), "task update")?;
    }
    let setup = Setup::new(shared)?;
    let view = teams::choose(&setup.paths, args.team.as_deref())?;
    let team = session::open_unwatched(&setup.paths, &setup.disk, view.name(), setup.durability())?;
    let desk = TaskDesk::new(team, AgentName::user(), 1);
    let as_json = setup.shared.json;
    let (id, untold) = match args.verb {
        Verb::List => return list(&desk, as_json).await,
        Verb::Show { id } => (id, Vec::new()),
        Verb::Add { subject, description, blocked_by, owner } => {
            if subject.trim().is_empty() {
                return Err(CliError::usage("a task needs a subject", "festoon task add 'run the tests'"));
            }
            let owner = owner.map(|name| inbox_owner(&view, &name)).transpose()?;
            let subject = subject.trim().to_owned();
            let new = NewTask { subject, description, blocked_by, ..NewTask::default() };
            let task = desk.create(new).await.map_err(refused)?;
            let mut untold = Vec::new();
            if let Some(owner) = owner {
                let change = Change { owner: Some(Some(owner)), ..Change::default() };
                untold = desk.update(task.id, change).await.map_err(refused)?.untold;
            }
            (task.id, untold)
        }
        Verb::Update(update) => match change(&view, update.fields)? {
            Some(change) => {
                let changed = desk.update(update.id, change).await.map_err(refused)?;
                (update.id, changed.untold)
            }
            None => {
                let gone = desk.delete(update.id).await.map_err(refused)?;
                let mut out = Out::default();
                match as_json {
                    true => out.json(&json!({ "id": gone.id, "deleted": true }))?,
                    false => out.line(format!("task {} is off the list", gone.id))?,
                }
                return Ok(None);
            }
        },
    };
    for why in &untold {
        out::warning(why);
    }
    show(&desk, id, as_json).await
}

/// The change that is meant; `None` to delete.
fn change(view: &TeamView, fields: Fields) -> Result<Option<Change>, CliError> {
    let status = match fields.status.as_deref() {
        None => None,
        Some("deleted") => return Ok(None),
        Some(name) => match TaskStatus::NAMES.iter().find(|(n, _)| *n == name) {
            Some((_, status)) => Some(*status),
            None => {
                return Err(CliError::usage(
                    format!("--status {name}: a task is never that"),
                    "one of pending, in_progress, completed, deleted",
                ));
            }
        },
    };
    let owner = match fields.owner.as_deref().map(str::trim) {
        None => None,
        Some("") => Some(None),
        Some(name) => Some(Some(inbox_owner(view, name)?)),
    };
    if status == Some(TaskStatus::InProgress) && !matches!(owner, Some(Some(_))) {
        return Err(CliError::usage(
            "a task is in progress when a member works on it",
            "add --owner NAME, or let a member claim it",
        ));
    }
    Ok(Some(Change {
        status,
        owner,
        subject: fields.subject,
        description: fields.description,
        add_blocks: fields.add_blocks,
        add_blocked_by: fields.add_blocked_by,
        ..Change::default()
    }))
}

fn refused(error: TaskError) -> CliError {
    let (kind, hint) = match &error {
        TaskError::Store(_) => ("store", ""),
        TaskError::NotFound(_) => ("no_such_task", "`festoon task list` shows which there are"),
        TaskError::Taken { .. } => ("taken", "take it away with --owner NAME"),
        TaskError::Done(_) => ("done", "open it again with --status pending"),
        TaskError::Blocked { .. } => ("blocked", "complete those first"),
        TaskError::Busy { .. } => ("busy", "one task at a time"),
        TaskError::Cycle { .. } => ("cycle", "leave that edge out"),
    };
    match error {
        TaskError::Store(error) => error.into(),
        error => CliError::new(ExitKind::Failed, kind, format!("nothing was changed: {error}"), hint),
    }
}

/// A task in contract §15's shape: it is blocked by what is not completed.
fn row(tasks: &[Task], task: &Task) -> Value {
    json!({
        "id": task.id, "subject": task.subject, "status": task.status, "owner": task.owner,
        "blocks": task.blocks, "blockedBy": open_blockers(tasks, task),
    })
}

async fn list(desk: &TaskDesk, as_json: bool) -> Result<Option<ExitKind>, CliError> {
    let (tasks, troubles) = desk.list().await.map_err(refused)?;
    let mut out = Out::default();
    for trouble in &troubles {
        out::warning(trouble);
    }
    let exit = (!troubles.is_empty()).then_some(ExitKind::Failed);
    if as_json {
        out.json(&tasks.iter().map(|task| row(&tasks, task)).collect::<Vec<_>>())?;
        return Ok(exit);
    }
    if tasks.is_empty() {
        out.line("the list is empty; `festoon task add SUBJECT` puts something on it")?;
        return Ok(exit);
    }
    let mut table = Table::new(&[
        Column::Right("ID"),
        Column::Fixed("STATUS"),
        Column::Cut("OWNER", 8),
        Column::Cut("SUBJECT", 24),
        Column::Fixed("WAITS FOR"),
    ]);
    for task in &tasks {
        let (status, style) = status(&tasks, task);
        table.row([
            Cell::from(task.id.to_string()),
            Cell::styled(status, style),
            Cell::from(task.owner.as_ref().map_or("", AgentName::as_str)),
            Cell::from(&task.subject),
            Cell::from(numbers(&open_blockers(&tasks, task))),
        ]);
    }
    for line in table.render(table::columns()) {
        out.line(line)?;
    }
    Ok(exit)
}

/// Where a task stands, and in what colour: green is done, yellow is worked on, dim waits for others.
fn status(tasks: &[Task], task: &Task) -> (&'static str, Style) {
    match task.status {
        TaskStatus::Completed => ("completed", AnsiColor::Green.on_default()),
        TaskStatus::InProgress => ("in progress", AnsiColor::Yellow.on_default()),
        TaskStatus::Pending if !open_blockers(tasks, task).is_empty() => ("blocked", Style::new().dimmed()),
        TaskStatus::Pending => ("pending", Style::new()),
    }
}

fn numbers(ids: &[TaskId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

async fn show(desk: &TaskDesk, id: TaskId, as_json: bool) -> Result<Option<ExitKind>, CliError> {
    // What is damaged is not what is not there.
    let task = &desk.get(id).await.map_err(refused)?;
    let (tasks, _) = desk.list().await.map_err(refused)?;
    let mut out = Out::default();
    if as_json {
        let mut value = row(&tasks, task);
        value["description"] = json!(task.description);
        value["activeForm"] = json!(task.active_form);
        value["metadata"] = json!(task.metadata);
        value["note"] = json!(task.note);
        value["createdBy"] = json!(task.created_by);
        value["createdAt"] = json!(task.created_at);
        value["updatedAt"] = json!(task.updated_at);
        out.json(&value)?;
        return Ok(None);
    }
    let (status, style) = status(&tasks, task);
    out.line(format!("task {id}: {}", words::line(&task.subject)))?;
    out.line(format!(
        "{style}{status}{style:#}{}",
        match &task.owner {
            Some(owner) => format!(", {owner}'s"),
            None => String::new(),
        }
    ))?;
    for (name, ids) in [("waits for", open_blockers(&tasks, task)), ("is waited for by", task.blocks.clone())]
    {
        if !ids.is_empty() {
            out.line(format!("{name} {}", numbers(&ids)))?;
        }
    }
    if let Some(note) = &task.note {
        out.line(words::line(note))?;
    }
    out.line(format!("made by {} {} ago", task.created_by, words::age(&task.created_at)))?;
    for line in task.description.lines() {
        out.line(format!("  {}", words::line(line)))?;
    }
    Ok(None)
}
