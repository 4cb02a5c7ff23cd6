//! The task list of a team: `tasks/<id>.json`.
//!
//! Owns these files and the rules that hold between them: edges stand on both ends and form no
//! cycle, a claim succeeds for one, a number is never given twice. Every change is made under one lock,
//! for which nothing here waits: `None` means that it is held, nothing was changed, and the caller comes
//! again. Never decides who may change what, and tells nobody.

use super::atomic;
use super::clock;
use super::error::StoreError;
use super::lock::{self, Missing, Patience};
use super::paths::TeamPaths;
use crate::wire::ids::AgentName;
use crate::wire::open::Open;
use crate::wire::settings::Durability;
use crate::wire::task::{Task, TaskId, TaskStatus};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

/// Why a task could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The files could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is none with this number.
    #[error("there is no task {0}")]
    NotFound(TaskId),
    /// Somebody else has it.
    #[error("task {id} is {owner}'s")]
    Taken {
        /// The task.
        id: TaskId,
        /// Who has it.
        owner: AgentName,
    },
    /// It is completed.
    #[error("task {0} is completed")]
    Done(TaskId),
    /// It waits for others.
    #[error("task {id} is blocked by {}", join(by))]
    Blocked {
        /// The task.
        id: TaskId,
        /// What it waits for.
        by: Vec<TaskId>,
    },
    /// Who wants it works on another.
    #[error("{who} is busy with task {with}")]
    Busy {
        /// Who.
        who: AgentName,
        /// What it works on.
        with: TaskId,
    },
    /// Tasks would wait for each other.
    #[error("task {from} and task {to} would wait for each other")]
    Cycle {
        /// One end of the edge that closes the circle.
        from: TaskId,
        /// The other.
        to: TaskId,
    },
}

fn join(ids: &[TaskId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// A task to be made.
#[derive(Debug, Clone, Default)]
pub struct NewTask {
    /// What is to be done, in a line.
    pub subject: String,
    /// All that whoever does it has to know.
    pub description: String,
    /// The subject while it is done.
    pub active_form: Option<String>,
    /// Whose it is from the start. Nobody tells them: they are offered it once they are idle.
    pub owner: Option<AgentName>,
    /// What it waits for.
    pub blocked_by: Vec<TaskId>,
    /// Whatever else is noted; an object.
    pub metadata: Option<Box<RawValue>>,
}

/// What is to change; `None` and empty leave things as they are.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// A new status.
    pub status: Option<TaskStatus>,
    /// A new owner; `Some(None)` frees it.
    pub owner: Option<Option<AgentName>>,
    /// A new subject.
    pub subject: Option<String>,
    /// A new description.
    pub description: Option<String>,
    /// A new active form.
    pub active_form: Option<String>,
    /// Tasks that are to wait for it.
    pub add_blocks: Vec<TaskId>,
    /// Tasks it is to wait for.
    pub add_blocked_by: Vec<TaskId>,
    /// In place of the metadata.
    pub metadata: Option<Box<RawValue>>,
}

type Entry = Open<Task>;
type All = BTreeMap<TaskId, Entry>;

/// Makes a task.
pub fn create(team: &TeamPaths, new: NewTask, by: &AgentName) -> Result<Option<Task>, TaskError> {
    locked(team, |all| {
        let id = next_id(team, all)?;
        let now = clock::now();
        let task = Task {
            id,
            subject: new.subject,
            description: new.description,
            active_form: new.active_form,
            status: TaskStatus::Pending,
            owner: new.owner,
            blocks: Vec::new(),
            blocked_by: Vec::new(),
            metadata: new.metadata,
            note: None,
            assigned_at: None,
            created_by: by.clone(),
            created_at: now.clone(),
            updated_at: now,
        };
        all.insert(id, Open::new(task));
        let mut touched = BTreeSet::from([id]);
        for before in new.blocked_by {
            link(all, &mut touched, before, id)?;
        }
        store(team, all, &touched)?;
        found(all, id)
    })
}

/// One task; `None` when there is none with this number.
pub fn load(team: &TeamPaths, id: TaskId) -> Result<Option<Task>, StoreError> {
    team.check(&team.tasks_dir())?;
    Ok(atomic::read_json::<Entry>(&team.task(id))?.map(|entry| entry.known))
}

/// All tasks by number, and what could not be read.
pub fn list(team: &TeamPaths) -> Result<(Vec<Task>, Vec<StoreError>), StoreError> {
    let (all, troubles) = read_all(team)?;
    Ok((all.into_values().map(|entry| entry.known).collect(), troubles))
}

/// What a task still waits for, of those that are there.
pub fn open_blockers(tasks: &[Task], task: &Task) -> Vec<TaskId> {
    let waits = |id: &&TaskId| tasks.iter().any(|t| t.id == **id && t.status != TaskStatus::Completed);
    task.blocked_by.iter().filter(waits).copied().collect()
}

/// Whether a task can begin and its owner has not been told so: it was theirs from the start, or something it
/// waited for was completed after it was given to them.
pub fn can_begin_untold(tasks: &[Task], task: &Task) -> bool {
    let waited = |t: &&Task| task.blocked_by.contains(&t.id);
    task.status == TaskStatus::Pending
        && open_blockers(tasks, task).is_empty()
        && task
            .assigned_at
            .as_ref()
            .is_none_or(|assigned| tasks.iter().filter(waited).any(|blocker| blocker.updated_at >= *assigned))
}

/// A change that was made.
#[derive(Debug)]
pub struct Updated {
    /// The task before.
    pub before: Task,
    /// The task now.
    pub task: Task,
    /// What it waits for now.
    pub blockers: Vec<TaskId>,
}

/// Changes a task, for `who`, unless `may` says why not of the task as it is.
///
/// Putting it in progress is a claim: for the owner named in the change, else for `who`.
///
/// # Errors
/// The reason why a claim fails, an edge that closes a circle, a number that does not exist. Nothing is
/// changed then.
pub fn update(
    team: &TeamPaths,
    id: TaskId,
    change: Change,
    who: &AgentName,
    may: impl Fn(&Task) -> Result<(), TaskError>,
) -> Result<Option<Updated>, TaskError> {
    locked(team, |all| {
        let before = found(all, id)?;
        may(&before)?;
        let mut touched = BTreeSet::from([id]);
        for after in &change.add_blocks {
            link(all, &mut touched, id, *after)?;
        }
        for before in &change.add_blocked_by {
            link(all, &mut touched, *before, id)?;
        }
        if change.status == Some(TaskStatus::InProgress) {
            let owner = change.owner.clone().flatten().unwrap_or_else(|| who.clone());
            claimable(all, id, &owner)?;
            entry(all, id)?.owner = Some(owner);
        } else if let Some(owner) = change.owner {
            if found(all, id)?.status == TaskStatus::Completed && change.status.is_none() {
                return Err(TaskError::Done(id));
            }
            entry(all, id)?.owner = owner;
        } else if change.status == Some(TaskStatus::Pending) {
            entry(all, id)?.owner = None;
        }
        let task = entry(all, id)?;
        if task.owner != before.owner {
            task.assigned_at = task.owner.as_ref().map(|_| clock::now());
        }
        if let Some(status) = change.status {
            if status == TaskStatus::Completed && task.owner.is_none() {
                task.owner = Some(who.clone());
            }
            task.status = status;
            task.note = None;
        }
        for (field, new) in [(&mut task.subject, change.subject), (&mut task.description, change.description)]
        {
            if let Some(new) = new {
                *field = new;
            }
        }
        task.active_form = change.active_form.or(task.active_form.take());
        task.metadata = change.metadata.or(task.metadata.take());
        task.updated_at = clock::now();
        store(team, all, &touched)?;
        let task = found(all, id)?;
        let blockers = waits_for(all, &task);
        Ok(Updated { before, task, blockers })
    })
}

/// Takes a task out of the list and out of the edges of the others, unless `may` says why not.
pub fn delete(
    team: &TeamPaths,
    id: TaskId,
    may: impl Fn(&Task) -> Result<(), TaskError>,
) -> Result<Option<Task>, TaskError> {
    locked(team, |all| {
        may(&found(all, id)?)?;
        let gone = all.remove(&id).ok_or(TaskError::NotFound(id))?.known;
        let mut touched = BTreeSet::new();
        for (other, task) in all.iter_mut() {
            let edges = task.blocks.len() + task.blocked_by.len();
            task.blocks.retain(|t| *t != id);
            task.blocked_by.retain(|t| *t != id);
            if task.blocks.len() + task.blocked_by.len() != edges {
                touched.insert(*other);
            }
        }
        // The edges first: after a crash in between, the task is still there to be deleted.
        store(team, all, &touched)?;
        let path = team.task(id);
        std::fs::remove_file(&path).map_err(|e| StoreError::io("remove", &path, e))?;
        Ok(gone)
    })
}

/// The task that somebody works on by the list, if any: a claim gives one at a time.
pub fn in_progress_of(team: &TeamPaths, owner: &AgentName) -> Result<Option<TaskId>, StoreError> {
    let (name, status) = (owner.as_str().as_bytes(), TaskStatus::InProgress.as_str().as_bytes());
    let holds = |bytes: &[u8], word: &[u8]| bytes.windows(word.len()).any(|at| at == word);
    for id in numbers(team)? {
        // Most tasks are not read as JSON; what cannot be read is shown by whoever lists the tasks.
        let Ok(Some(bytes)) = atomic::read_optional(&team.task(id)) else { continue };
        if holds(&bytes, name)
            && holds(&bytes, status)
            && let Ok(task) = serde_json::from_slice::<Task>(&bytes)
            && task.status == TaskStatus::InProgress
            && task.owner.as_ref() == Some(owner)
        {
            return Ok(Some(task.id));
        }
    }
    Ok(None)
}

/// Frees what a dead owner had not completed; `note` says why. Returns the tasks.
pub fn release(team: &TeamPaths, owner: &AgentName, note: &str) -> Result<Option<Vec<Task>>, TaskError> {
    let has_some = list(team)?.0.iter().any(|t| is_open_of(t, owner));
    if !has_some {
        return Ok(Some(Vec::new()));
    }
    locked(team, |all| {
        let theirs: BTreeSet<TaskId> = all.values().filter(|t| is_open_of(t, owner)).map(|t| t.id).collect();
        for id in &theirs {
            let task = entry(all, *id)?;
            task.status = TaskStatus::Pending;
            task.owner = None;
            task.assigned_at = None;
            task.note = Some(note.to_owned());
            task.updated_at = clock::now();
        }
        store(team, all, &theirs)?;
        theirs.iter().map(|id| found(all, *id)).collect()
    })
}

fn is_open_of(task: &Task, owner: &AgentName) -> bool {
    task.owner.as_ref() == Some(owner) && task.status != TaskStatus::Completed
}

/// Runs a change with all tasks in hand, one at a time.
fn locked<T>(
    team: &TeamPaths,
    change: impl FnOnce(&mut All) -> Result<T, TaskError>,
) -> Result<Option<T>, TaskError> {
    team.check(&team.tasks_dir())?;
    let changed = lock::with_locked_file(&team.tasks_lock(), Missing::Make, Patience::Once, |_| {
        let (mut all, _) = read_all(team)?;
        Ok(change(&mut all))
    });
    changed?.transpose()
}

/// The numbers of all files.
fn numbers(team: &TeamPaths) -> Result<Vec<TaskId>, StoreError> {
    let dir = team.tasks_dir();
    team.check(&dir)?;
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StoreError::io("list", &dir, e)),
    };
    let names = entries.flatten().filter_map(|e| e.file_name().into_string().ok());
    Ok(names.filter_map(|name| name.strip_suffix(".json")?.parse().ok()).collect())
}

fn read_all(team: &TeamPaths) -> Result<(All, Vec<StoreError>), StoreError> {
    let (mut all, mut troubles) = (All::new(), Vec::new());
    for id in numbers(team)? {
        match atomic::read_json::<Entry>(&team.task(id)) {
            Ok(Some(task)) if task.id == id => drop(all.insert(id, task)),
            Ok(Some(_)) => troubles.push(StoreError::invalid(&team.task(id), "it holds another number")),
            Ok(None) => {}
            Err(error) => troubles.push(error),
        }
    }
    mend(&mut all);
    Ok((all, troubles))
}

/// Gives edges the end that is missing when a process died between the writing of the two.
fn mend(all: &mut All) {
    let mut edges = Vec::new();
    for task in all.values() {
        edges.extend(task.blocks.iter().map(|after| (task.id, *after)));
        edges.extend(task.blocked_by.iter().map(|before| (*before, task.id)));
    }
    for (before, after) in edges {
        if all.contains_key(&before) && all.contains_key(&after) {
            if let Some(task) = all.get_mut(&before) {
                insert(&mut task.blocks, after);
            }
            if let Some(task) = all.get_mut(&after) {
                insert(&mut task.blocked_by, before);
            }
        }
    }
}

fn insert(list: &mut Vec<TaskId>, id: TaskId) {
    if let Err(at) = list.binary_search(&id) {
        list.insert(at, id);
    }
}

/// The next number: above all that were ever given, whatever has been deleted since.
fn next_id(team: &TeamPaths, all: &All) -> Result<TaskId, TaskError> {
    let path = team.tasks_counter();
    let given = match atomic::read_json::<u64>(&path) {
        Ok(given) => given.unwrap_or(0),
        // Damaged: the files say more than it does.
        Err(StoreError::Corrupt { .. } | StoreError::Invalid { .. }) => 0,
        Err(e) => return Err(e.into()),
    };
    // A file that cannot be read has its number all the same.
    let mut next = given.max(all.keys().next_back().map_or(0, |id| id.0)) + 1;
    while team.task(TaskId(next)).symlink_metadata().is_ok() {
        next += 1;
    }
    atomic::write_json(&path, &next, Durability::Process)?;
    Ok(TaskId(next))
}

fn entry(all: &mut All, id: TaskId) -> Result<&mut Task, TaskError> {
    all.get_mut(&id).map(|entry| &mut entry.known).ok_or(TaskError::NotFound(id))
}

fn found(all: &All, id: TaskId) -> Result<Task, TaskError> {
    all.get(&id).map(|entry| entry.known.clone()).ok_or(TaskError::NotFound(id))
}

fn store(team: &TeamPaths, all: &All, touched: &BTreeSet<TaskId>) -> Result<(), StoreError> {
    let entries = touched.iter().filter_map(|id| Some((id, all.get(id)?)));
    for (id, entry) in entries {
        atomic::write_json(&team.task(*id), entry, Durability::Process)?;
    }
    Ok(())
}

/// Puts an edge on both its ends.
fn link(
    all: &mut All,
    touched: &mut BTreeSet<TaskId>,
    before: TaskId,
    after: TaskId,
) -> Result<(), TaskError> {
    for id in [before, after] {
        found(all, id)?;
    }
    if before == after || reaches(all, after, before) {
        return Err(TaskError::Cycle { from: before, to: after });
    }
    insert(&mut entry(all, before)?.blocks, after);
    insert(&mut entry(all, after)?.blocked_by, before);
    touched.extend([before, after]);
    Ok(())
}

/// Whether `to` waits, over any number of steps, for `from`.
fn reaches(all: &All, from: TaskId, to: TaskId) -> bool {
    let mut seen = BTreeSet::new();
    let mut next = vec![from];
    while let Some(id) = next.pop() {
        if id == to {
            return true;
        }
        if seen.insert(id)
            && let Some(task) = all.get(&id)
        {
            next.extend(&task.blocks);
        }
    }
    false
}

fn waits_for(all: &All, task: &Task) -> Vec<TaskId> {
    let is_open = |id: &TaskId| all.get(id).is_some_and(|t| t.status != TaskStatus::Completed);
    task.blocked_by.iter().copied().filter(is_open).collect()
}

fn claimable(all: &All, id: TaskId, who: &AgentName) -> Result<(), TaskError> {
    let task = found(all, id)?;
    if task.status == TaskStatus::Completed {
        return Err(TaskError::Done(id));
    }
    if let Some(owner) = task.owner.as_ref().filter(|owner| *owner != who) {
        return Err(TaskError::Taken { id, owner: owner.clone() });
    }
    let by = waits_for(all, &task);
    if !by.is_empty() {
        return Err(TaskError::Blocked { id, by });
    }
    let other =
        |t: &&Entry| t.id != id && t.status == TaskStatus::InProgress && t.owner.as_ref() == Some(who);
    match all.values().find(other) {
        Some(task) => Err(TaskError::Busy { who: who.clone(), with: task.id }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
