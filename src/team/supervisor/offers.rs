//! Offering tasks to idle teammates: a typed event, each task once to each teammate.

use super::Work;
use crate::store::tasks::{can_begin_untold, open_blockers};
use crate::team::lifecycle::Lifecycle;
use crate::team::mailbox::{FileMailbox, Sender};
use crate::team::tasks::TaskDesk;
use crate::wire::event::EventKind;
use crate::wire::frame::{FrameType, TaskAssignment};
use crate::wire::ids::{AgentName, SYSTEM};
use crate::wire::mail::Draft;
use crate::wire::task::{Task, TaskId, TaskStatus};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

/// Two changes within so long may bear the same time on disk: the tick of the kernel, with room.
const SAME_TIME: Duration = Duration::from_millis(100);

/// What the last look at the list found, so that an unchanged list is not read again.
#[derive(Debug, Default)]
pub(super) struct Offers {
    /// When a file was last put into the list, and who was idle then.
    seen: Option<(SystemTime, Vec<AgentName>)>,
}

impl Work {
    /// Tells each idle teammate once of each task of its own that can begin; one that has no task is offered the
    /// lowest free one it was not offered before.
    pub(super) async fn offer_tasks(&mut self) {
        let mut idle: Vec<AgentName> =
            self.members.iter().filter(|(_, c)| c.life.is_idle()).map(|(name, _)| name.clone()).collect();
        if idle.is_empty() {
            return;
        }
        idle.sort();
        let team = self.parts.team.clone();
        let dir = team.paths.tasks_dir();
        let asked = dir.clone();
        let changed = team.disk.run(&dir, move || Ok(asked.metadata().and_then(|m| m.modified()).ok())).await;
        let Ok(Some(changed)) = changed else { return };
        if self.offers.seen.as_ref() == Some(&(changed, idle.clone())) {
            return;
        }
        let desk = TaskDesk::new(team.clone(), AgentName::system(), 1);
        let tasks = match desk.list().await {
            Ok((tasks, _)) => tasks,
            Err(error) => return tracing::warn!(%error, "the tasks could not be read"),
        };
        // What somebody may be about to claim is nobody else's.
        let considered: Vec<TaskId> =
            self.members.values().filter_map(|c| c.offers.considered(&c.life)).collect();
        let mut free: Vec<&Task> =
            tasks.iter().filter(|task| is_free(&tasks, task) && !considered.contains(&task.id)).collect();
        for name in &idle {
            let Some(charge) = self.members.get_mut(name) else { continue };
            if charge.offers.considered(&charge.life).is_some() {
                continue;
            }
            let own: Vec<&Task> = tasks.iter().filter(|task| is_open_of(task, name)).collect();
            if own.iter().any(|task| task.status == TaskStatus::InProgress) {
                continue;
            }
            let is_new = |task: &&Task| !charge.offers.had.contains(&task.id);
            let (task, offer) = if own.is_empty() {
                let Some(at) = free.iter().position(is_new) else { continue };
                (free.remove(at), true)
            } else {
                let can_begin = |task: &&&Task| is_new(task) && can_begin_untold(&tasks, task);
                let Some(task) = own.iter().find(can_begin) else { continue };
                (*task, false)
            };
            charge.offers.had.insert(task.id);
            charge.offers.last = Some((task.id, charge.offers.turns));
            let incarnation = charge.spec.incarnation;
            let assignment = TaskAssignment {
                task_id: task.id,
                subject: task.subject.clone(),
                by: SYSTEM.to_owned(),
                offer,
            };
            let what = if offer { "is free" } else { "is yours and can begin" };
            let text = format!("Task {} {what}: {}", task.id, task.subject);
            let sent = match Draft::frame(FrameType::TaskAssignment, text, &assignment) {
                Ok(draft) => {
                    let system = FileMailbox::new(team.clone(), AgentName::system(), 1, None);
                    system.post(name, draft, Sender::Trusted).await.map(drop).map_err(|e| e.what)
                }
                Err(error) => Err(error.to_string()),
            };
            match sent {
                Ok(()) => {
                    let fields = json!({ "taskId": task.id, "action": "offered", "subject": task.subject });
                    team.log(EventKind::Task, name, incarnation, fields).await;
                }
                // It is stopping, or its inbox is full; the task stays free for others.
                Err(error) => tracing::warn!(%name, %error, "a task could not be offered"),
            }
        }
        let is_old = changed.elapsed().is_ok_and(|age| age > SAME_TIME);
        self.offers.seen = is_old.then_some((changed, idle));
    }
}

fn is_open_of(task: &Task, owner: &AgentName) -> bool {
    task.owner.as_ref() == Some(owner) && task.status != TaskStatus::Completed
}

fn is_free(tasks: &[Task], task: &Task) -> bool {
    task.status == TaskStatus::Pending && task.owner.is_none() && open_blockers(tasks, task).is_empty()
}

/// What one teammate was offered.
#[derive(Debug, Default)]
pub(super) struct Offered {
    had: BTreeSet<TaskId>,
    /// The last one, and how many turns it had begun then.
    last: Option<(TaskId, u64)>,
    /// How many turns it has begun now.
    pub(super) turns: u64,
}

impl Offered {
    /// The task it has not answered yet: by going idle after a turn that began with the offer.
    fn considered(&self, life: &Lifecycle) -> Option<TaskId> {
        let (task, turns) = self.last?;
        (!life.is_over() && (self.turns == turns || !life.is_idle())).then_some(task)
    }
}
