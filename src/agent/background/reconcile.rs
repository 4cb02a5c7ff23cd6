//! After a death: what an ended process left at work is interrupted, what it did not tell is told.
//!
//! Done by whoever starts the named agent again, before it reads its mail. Repeating it is harmless:
//! every notification has the id that its record names.

use super::Background;
use crate::agent::context::AgentContext;
use crate::store::error::StoreError;
use crate::store::{atomic, background, clock, transcript};
use crate::wire::background::{Announcement, TaskKind, TaskRecord, TaskState, TaskUsage};
use crate::wire::frame::TaskNotification;
use crate::wire::ids::{AgentId, MessageId};
use crate::wire::mail::Wake;

impl Background {
    /// Brings the tasks below a named agent in order; the sentences are for a person.
    pub async fn reconcile(&self, context: &AgentContext) -> Result<Vec<String>, StoreError> {
        let project = self.0.parts.paths.project(&context.session_cwd);
        let session = context.session.clone();
        let dir = project.background_dir(&session);
        let list = {
            let (project, dir) = (project.clone(), dir.clone());
            move || {
                atomic::sweep(&dir)?;
                background::list(&project, &session)
            }
        };
        let (records, damaged) = self.0.parts.disk.run(&dir, list).await?;
        let mut sentences: Vec<String> = damaged.iter().map(ToString::to_string).collect();
        let (root, incarnation) = (&context.root, context.incarnation);
        for mut record in records.into_iter().filter(|r| &r.root == root && r.incarnation == incarnation) {
            if self.0.doors.has(&AgentId::new(record.task_id.as_str())) {
                continue;
            }
            if !record.state.is_over() {
                interrupt(&mut record);
                self.keep(context, &record, Status::Changed).await?;
                sentences.push(record.outcome.as_ref().map(|o| o.summary.clone()).unwrap_or_default());
            }
            match self.send(&record).await {
                Ok(true) => {
                    if let Some(notification) = &mut record.notification {
                        notification.announced = true;
                    }
                    self.keep(context, &record, Status::Same).await?;
                }
                Ok(false) => {}
                Err(error) => {
                    sentences.push(format!("the end of {} could not be told: {error}", record.task_id))
                }
            }
        }
        Ok(sentences)
    }

    async fn keep(
        &self,
        context: &AgentContext,
        record: &TaskRecord,
        status: Status,
    ) -> Result<(), StoreError> {
        let project = self.0.parts.paths.project(&context.session_cwd);
        let (session, record) = (context.session.clone(), record.clone());
        let path = project.background(&session, &record.task_id);
        let file = path.clone();
        let write = move || {
            background::write(&path, &record)?;
            let meta = project.sidechain_meta(&session, &AgentId::new(record.task_id.as_str()));
            if status == Status::Changed
                && let Some(mut known) = transcript::read_meta(&meta)?.map(|open| open.known)
            {
                known.status = record.state.as_str().to_owned();
                transcript::write_meta(&meta, &known)?;
            }
            Ok(())
        };
        self.0.parts.disk.run(&file, write).await
    }
}

/// Whether the metadata says something else by now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Changed,
    Same,
}

/// Its process has ended, and with it its launcher, unless that has a name.
fn interrupt(record: &mut TaskRecord) {
    record.state = TaskState::Failed;
    record.since = clock::now();
    let (what, hint) = match record.kind {
        TaskKind::Shell => ("Background command", "run it again if it is still needed"),
        TaskKind::Subagent | TaskKind::Fork | TaskKind::InProcessTeammate | TaskKind::PaneTeammate => {
            ("Agent", "SendMessage to its id goes on where it was")
        }
    };
    record.outcome = Some(TaskNotification {
        task_id: record.task_id.clone(),
        status: TaskState::Failed,
        summary: format!("{what} \"{}\" was interrupted", record.description),
        result: None,
        error: Some(format!("interrupted: the process that ran it has ended; {hint}")),
        output_file: record.output_file.clone(),
        usage: TaskUsage::default(),
        receipt: None,
        worktree_path: None,
        worktree_branch: None,
    });
    record.notification = Some(Announcement {
        id: MessageId::generate(),
        to: record.root.clone(),
        incarnation: record.incarnation,
        // Nothing happened that could not wait for the next turn.
        wake: Wake::Queue,
        announced: false,
    });
}
