//! After a death: what an ended process left at work is interrupted, what it did not tell is told, and
//! worktrees that nobody looks after any more are named.
//!
//! Done by whoever starts the named agent again, before it reads its mail. Repeating it is harmless:
//! every notification has the id that its record names. Never touches what still lives: a task counts as
//! interrupted only when its process is gone.

use super::{Background, Worktree};
use crate::agent::context::AgentContext;
use crate::os::{git, process};
use crate::store::error::StoreError;
use crate::store::{atomic, background, clock, transcript};
use crate::wire::background::{Announcement, TaskKind, TaskRecord, TaskState, TaskUsage};
use crate::wire::frame::TaskNotification;
use crate::wire::ids::{AgentId, MessageId, is_subagent};
use crate::wire::mail::Wake;
use crate::wire::transcript::AgentMeta;
use std::collections::HashSet;
use std::path::Path;

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
        let mut in_background = HashSet::new();
        for mut record in records.into_iter().filter(|r| &r.root == root && r.incarnation == incarnation) {
            in_background.insert(record.task_id.to_string());
            if !record.state.is_over() {
                if self.lives(&record) {
                    continue;
                }
                let place = self.place_of(context, &record).await?;
                interrupt(&mut record, place.as_ref());
                self.keep(context, &record, Status::Changed).await?;
                let summary = record.outcome.as_ref().map(|o| o.summary.clone()).unwrap_or_default();
                sentences.push(summary + &place.map(|place| kept(&place)).unwrap_or_default());
            }
            self.redirect(&mut record);
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
        sentences.extend(self.cut_off(context, &in_background).await?);
        Ok(sentences)
    }

    /// Whether somebody still runs it: this process, or another one that is there.
    fn lives(&self, record: &TaskRecord) -> bool {
        if self.table().tasks.get(&record.task_id).is_some_and(|entry| !entry.is_over()) {
            return true;
        }
        let own = process::current().ok();
        record.process.as_ref().is_some_and(|runs| own.as_ref() != Some(runs) && process::is_alive(runs))
    }

    /// What was not told yet to an agent without a name, which is gone, is told to the named one above it.
    fn redirect(&self, record: &mut TaskRecord) {
        let (root, incarnation) = (record.root.clone(), record.incarnation);
        let Some(notification) = record.notification.as_mut().filter(|n| !n.announced && n.to != root) else {
            return;
        };
        if !self.0.doors.has(&AgentId::new(notification.to.as_str())) {
            (notification.to, notification.incarnation) = (root, incarnation);
        }
    }

    /// Agents whose parent waited for them when both died: they count as interrupted, and a sentence names
    /// the worktree that one had.
    async fn cut_off(
        &self,
        context: &AgentContext,
        in_background: &HashSet<String>,
    ) -> Result<Vec<String>, StoreError> {
        let project = self.0.parts.paths.project(&context.session_cwd);
        let (dir, session, root) =
            (project.sidechains(&context.session), context.session.clone(), context.root.clone());
        let list = project.clone();
        let all = self.0.parts.disk.run(&dir, move || transcript::sidechains(&list, &session)).await?;
        let is_left = |meta: &AgentMeta| {
            meta.root.as_ref() == Some(&root)
                && is_subagent(meta.agent_id.as_str())
                && meta.status == TaskState::Running.as_str()
                && !in_background.contains(meta.agent_id.as_str())
                && !self.0.doors.has(&meta.agent_id)
        };
        let mut sentences = Vec::new();
        for meta in all.into_iter().filter(is_left) {
            let place = place(&meta);
            let path = project.sidechain_meta(&context.session, &meta.agent_id);
            let summary = format!("Agent \"{}\" ({}) was interrupted", meta.description, meta.agent_id);
            let meta = AgentMeta { status: TaskState::Failed.as_str().to_owned(), ..meta };
            let file = path.clone();
            self.0.parts.disk.run(&file, move || transcript::write_meta(&path, &meta)).await?;
            sentences.extend(place.map(|place| summary + &kept(&place)));
        }
        Ok(sentences)
    }

    /// The worktree that the agent of a task had.
    async fn place_of(
        &self,
        context: &AgentContext,
        record: &TaskRecord,
    ) -> Result<Option<Worktree>, StoreError> {
        if !record.kind.is_agent() {
            return Ok(None);
        }
        let project = self.0.parts.paths.project(&context.session_cwd);
        let path = project.sidechain_meta(&context.session, &AgentId::new(record.task_id.as_str()));
        let file = path.clone();
        let meta = self.0.parts.disk.run(&file, move || transcript::read_meta(&path)).await?;
        Ok(meta.and_then(|meta| place(&meta.known)))
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

/// The worktree of an agent, if it is still there.
fn place(meta: &AgentMeta) -> Option<Worktree> {
    let path = Path::new(meta.worktree_path.as_ref()?);
    let is_there = path.symlink_metadata().is_ok_and(|m| m.is_dir());
    is_there.then(|| Worktree {
        path: path.display().to_string(),
        branch: git::branch(path).unwrap_or_else(|| "none".to_owned()),
    })
}

fn kept(place: &Worktree) -> String {
    format!("; its worktree {} (branch {}) is kept", place.path, place.branch)
}

/// Its process has ended, and with it its launcher, unless that has a name.
fn interrupt(record: &mut TaskRecord, place: Option<&Worktree>) {
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
        worktree_path: place.map(|place| place.path.clone()),
        worktree_branch: place.map(|place| place.branch.clone()),
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
