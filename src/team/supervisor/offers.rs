//! Offering free tasks to idle teammates: a typed event, each task once to each teammate.

use super::Work;
use crate::store::tasks::open_blockers;
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
    /// Gives each idle teammate that has no task the lowest free one it was not offered before.
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
            if tasks.iter().any(|t| t.owner.as_ref() == Some(name) && t.status != TaskStatus::Completed) {
                continue;
            }
            let Some(charge) = self.members.get_mut(name) else { continue };
            if charge.offers.considered(&charge.life).is_some() {
                continue;
            }
            let Some(at) = free.iter().position(|task| !charge.offers.had.contains(&task.id)) else {
                continue;
            };
            let task = free.remove(at);
            charge.offers.had.insert(task.id);
            charge.offers.last = Some((task.id, charge.offers.turns));
            let incarnation = charge.spec.incarnation;
            let offer = TaskAssignment {
                task_id: task.id,
                subject: task.subject.clone(),
                by: SYSTEM.to_owned(),
                offer: true,
            };
            let text = format!("Task {} is free: {}", task.id, task.subject);
            let sent = match Draft::frame(FrameType::TaskAssignment, text, &offer) {
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
