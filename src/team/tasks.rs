//! The team's task list as one of its people uses it: who may change what, and who is told.
//!
//! Owns the rules between people; those between tasks are [`crate::store::tasks`]'. Every change is on
//! disk before it is logged or told. A new owner gets a `task_assignment`, the leader a
//! `task_completed` for what others have done.

use super::context::Team;
use super::mailbox::{FileMailbox, Sender};
use super::wake::Topic;
use crate::store::error::StoreError;
use crate::store::paths::TeamPaths;
use crate::store::tasks::{self, Change, NewTask, TaskError, Updated};
use crate::wire::event::EventKind;
use crate::wire::frame::{FrameType, TaskAssignment, TaskCompleted};
use crate::wire::ids::AgentName;
use crate::wire::mail::{Draft, Wake};
use crate::wire::task::{Task, TaskId, TaskStatus};
use serde::Serialize;
use serde_json::json;

/// What became of a change.
#[derive(Debug, Clone)]
pub struct Changed {
    /// The task as it is now.
    pub task: Task,
    /// What it waits for.
    pub blockers: Vec<TaskId>,
    /// What could not be told to whom, a sentence each; the change stands.
    pub untold: Vec<String>,
}

/// The list, for one agent or for the person.
#[derive(Clone)]
pub struct TaskDesk {
    team: Team,
    me: AgentName,
    incarnation: u32,
}

impl TaskDesk {
    /// The list of `team` for `me`.
    pub fn new(team: Team, me: AgentName, incarnation: u32) -> Self {
        Self { team, me, incarnation }
    }

    /// Whose it is.
    pub fn me(&self) -> &AgentName {
        &self.me
    }

    /// Whether it may change what is somebody else's.
    fn commands(&self) -> bool {
        self.me.is_lead() || self.me == AgentName::user()
    }

    async fn on_disk<T: Send + 'static>(
        &self,
        job: impl FnOnce(&TeamPaths) -> Result<T, TaskError> + Send + 'static,
    ) -> Result<T, TaskError> {
        let paths = self.team.paths.clone();
        let dir = paths.tasks_dir();
        self.team.disk.run(&dir, move || Ok(job(&paths))).await?
    }

    /// Does what takes the lock of the list; while that is held, the store thread does other work.
    async fn locked<T: Send + 'static>(
        team: &Team,
        mut job: impl FnMut(&TeamPaths) -> Result<Option<T>, TaskError> + Send + 'static,
    ) -> Result<T, TaskError> {
        let paths = team.paths.clone();
        let lock = paths.tasks_lock();
        team.disk.attempt(&lock, move || Ok(job(&paths).transpose())).await?
    }

    /// All tasks by number, and what could not be read, a sentence each.
    pub async fn list(&self) -> Result<(Vec<Task>, Vec<String>), TaskError> {
        let (tasks, troubles) = self.on_disk(|paths| Ok(tasks::list(paths)?)).await?;
        Ok((tasks, troubles.iter().map(StoreError::to_string).collect()))
    }

    /// One task.
    pub async fn get(&self, id: TaskId) -> Result<Task, TaskError> {
        self.on_disk(move |paths| tasks::load(paths, id)?.ok_or(TaskError::NotFound(id))).await
    }

    /// The task it works on by its own word, if any.
    pub async fn in_progress(&self) -> Result<Option<TaskId>, TaskError> {
        let me = self.me.clone();
        self.on_disk(move |paths| Ok(tasks::in_progress_of(paths, &me)?)).await
    }

    /// Makes a task.
    pub async fn create(&self, new: NewTask) -> Result<Task, TaskError> {
        let me = self.me.clone();
        let task = Self::locked(&self.team, move |paths| tasks::create(paths, new.clone(), &me)).await?;
        self.log("created", &task).await;
        Ok(task)
    }

    /// Changes a task. A member changes its own and those that are nobody's.
    pub async fn update(&self, id: TaskId, change: Change) -> Result<Changed, TaskError> {
        let (desk, status) = (self.clone(), change.status);
        let update = move |paths: &TeamPaths| {
            tasks::update(paths, id, change.clone(), &desk.me, |task| desk.may_change(task))
        };
        let Updated { before, task, blockers } = Self::locked(&self.team, update).await?;
        let action = match status {
            Some(TaskStatus::InProgress) => "claimed",
            Some(TaskStatus::Completed) => "completed",
            Some(TaskStatus::Pending) => "freed",
            None => "changed",
        };
        self.log(action, &task).await;
        let mut untold = Vec::new();
        if let Some(owner) = task.owner.clone()
            && before.owner.as_ref() != Some(&owner)
            && owner != self.me
            && task.status != TaskStatus::Completed
        {
            let assignment = TaskAssignment {
                task_id: task.id,
                subject: task.subject.clone(),
                by: self.me.as_str().to_owned(),
                offer: false,
            };
            let text = format!("Task {} is yours: {}", task.id, task.subject);
            untold.extend(self.tell(&owner, FrameType::TaskAssignment, text, &assignment, Wake::Turn).await);
        }
        if task.status == TaskStatus::Completed
            && before.status != TaskStatus::Completed
            && !self.me.is_lead()
        {
            let done = TaskCompleted {
                task_id: task.id,
                subject: task.subject.clone(),
                by: self.me.as_str().to_owned(),
            };
            let text = format!("{} has completed task {}: {}", self.me, task.id, task.subject);
            // The result itself comes with the notice that its owner is idle.
            let lead = AgentName::team_lead();
            untold.extend(self.tell(&lead, FrameType::TaskCompleted, text, &done, Wake::Queue).await);
        }
        Ok(Changed { task, blockers, untold })
    }

    /// Takes a task off the list.
    pub async fn delete(&self, id: TaskId) -> Result<Task, TaskError> {
        let desk = self.clone();
        let delete = move |paths: &TeamPaths| tasks::delete(paths, id, |task| desk.may_change(task));
        let task = Self::locked(&self.team, delete).await?;
        self.log("deleted", &task).await;
        Ok(task)
    }

    fn may_change(&self, task: &Task) -> Result<(), TaskError> {
        match &task.owner {
            Some(owner) if *owner != self.me && !self.commands() => {
                Err(TaskError::Taken { id: task.id, owner: owner.clone() })
            }
            _ => Ok(()),
        }
    }

    async fn log(&self, action: &str, task: &Task) {
        let fields = json!({ "taskId": task.id, "action": action, "subject": task.subject,
                             "status": task.status, "owner": task.owner });
        self.team.log(EventKind::Task, &self.me, self.incarnation, fields).await;
        // Who is idle may be offered what is free now.
        self.team.hub.poke(Topic::Runs);
    }

    async fn tell<P: Serialize>(
        &self,
        to: &AgentName,
        kind: FrameType,
        text: String,
        payload: &P,
        wake: Wake,
    ) -> Option<String> {
        let sent = match Draft::frame(kind, text, payload) {
            Ok(draft) => {
                let mailbox = FileMailbox::new(self.team.clone(), self.me.clone(), self.incarnation, None);
                mailbox.post(to, draft.waking(wake), Sender::Trusted).await.map(drop).map_err(|e| e.what)
            }
            Err(error) => Err(error.to_string()),
        };
        sent.err().map(|why| format!("{to} was not told: {why}"))
    }
}

/// Frees what a member that has ended had not completed.
pub async fn release(team: &Team, owner: &AgentName, incarnation: u32, why: &str) -> Result<(), TaskError> {
    let (who, note) = (owner.clone(), why.to_owned());
    let freed = TaskDesk::locked(team, move |paths| tasks::release(paths, &who, &note)).await?;
    for task in &freed {
        let fields =
            json!({ "taskId": task.id, "action": "released", "subject": task.subject, "reason": why });
        team.log(EventKind::Task, owner, incarnation, fields).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::testing::{Bench, PATIENCE};
    use crate::store::lock;
    use crate::team::session::{self, TeamTitle};
    use crate::wire::settings::Durability;
    use std::sync::mpsc;

    #[tokio::test]
    async fn a_list_that_somebody_holds_keeps_nothing_else_waiting() {
        let bench = Bench::new("").await;
        let (paths, disk) = (&bench.runtime.paths, &bench.runtime.disk);
        let title = TeamTitle::Named { name: "two", description: "" };
        let session = &bench.main.core().context.session;
        let team = session::create(paths, disk, title, session, Durability::Process).await.expect("a team");
        let desk = TaskDesk::new(team.clone(), AgentName::user(), 1);
        desk.create(NewTask { subject: "first".to_owned(), ..NewTask::default() }).await.expect("makes");
        let (holds, held) = mpsc::channel();
        let (let_go, told) = mpsc::channel::<()>();
        let file = team.paths.tasks_lock();
        let holder = std::thread::spawn(move || {
            lock::with_lock(&file, PATIENCE, || {
                holds.send(()).expect("the test waits");
                told.recv().expect("the test tells");
                Ok(())
            })
        });
        held.recv().expect("locked");
        let second = desk.create(NewTask { subject: "second".to_owned(), ..NewTask::default() });
        tokio::pin!(second);
        // Other work of the store is done while the change waits for the lock.
        let others = async {
            for _ in 0..20 {
                assert_eq!(desk.list().await.expect("lists").0.len(), 1);
            }
        };
        tokio::select! {
            biased;
            made = &mut second => panic!("made without the lock: {made:?}"),
            () = others => {}
        }
        let_go.send(()).expect("the holder waits");
        let second = tokio::time::timeout(PATIENCE, second).await.expect("in time").expect("makes");
        assert_eq!(second.id, TaskId(2));
        holder.join().expect("ends").expect("locked");
    }
}
