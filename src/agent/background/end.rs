//! The one end of a run: first written down, then told, then over.

use super::{Background, Entry};
use crate::agent::context::AgentContext;
use crate::agent::events::AgentEvent;
use crate::agent::ports::{Letter, MailError};
use crate::store::clock;
use crate::tools::cap;
use crate::wire::background::{Announcement, StoppedBy, TaskKind, TaskRecord, TaskState, TaskUsage};
use crate::wire::frame::{FrameType, TaskNotification};
use crate::wire::ids::{AgentName, MessageId};
use crate::wire::limits::TOOL_RESULT_CHARS;
use crate::wire::mail::{Draft, MAX_SUMMARY_CHARS, Wake};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pauses before a notification that could not be stored is tried again.
const TRY_AGAIN: [Duration; 3] = [Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(5)];

/// How work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// By itself.
    Completed,
    /// By an error.
    Failed,
    /// Because it was stopped.
    Cancelled,
}

/// A worktree that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Where.
    pub path: String,
    /// Its branch.
    pub branch: String,
}

/// What work came to.
#[derive(Debug, Clone)]
pub struct TaskEnd {
    /// How it ended.
    pub outcome: Outcome,
    /// Who stopped it, when the registry does not know.
    pub stopped_by: Option<StoppedBy>,
    /// What it has to say, or its last words.
    pub result: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
    /// What it used; the time is added.
    pub usage: TaskUsage,
    /// A fork's receipt.
    pub receipt: Option<serde_json::Value>,
    /// A worktree that is kept.
    pub worktree: Option<Worktree>,
}

impl TaskEnd {
    /// An end without words.
    pub fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            stopped_by: None,
            result: None,
            error: None,
            usage: TaskUsage::default(),
            receipt: None,
            worktree: None,
        }
    }

    /// An end by an error.
    pub fn failed(error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), ..Self::new(Outcome::Failed) }
    }
}

impl Background {
    /// Writes the terminal record, then tells the launcher.
    pub(super) async fn end(&self, entry: &Entry, end: TaskEnd, started: Instant) {
        if let Some(error) = &end.error {
            self.append(entry, &format!("[{error}]")).await;
        }
        // Until it is told, a launcher that is about to leave does not: what is stored for it is seen by this
        // run of it, or it is told to the named agent above.
        let door = entry.launcher.name.is_none().then(|| self.0.doors.of(&entry.launcher.id())).flatten();
        let is_open = match &door {
            Some(door) => door.hold_open().await,
            None => None,
        };
        {
            let mut record = entry.record();
            record.state = match end.outcome {
                Outcome::Completed => TaskState::Completed,
                Outcome::Failed => TaskState::Failed,
                Outcome::Cancelled => TaskState::Cancelled,
            };
            record.since = clock::now();
            record.stopped_by = record.stopped_by.or(end.stopped_by);
            let outcome = outcome(&record, end, started, &entry.output_file);
            record.outcome = Some(outcome);
            record.notification = announcement(&record, entry, is_open.is_some());
        }
        if let Err(error) = self.write(entry).await {
            // It is told all the same, under an id that only this process knows.
            self.complain(entry, format!("the end of a background task could not be written: {error}"));
        }
        if let Err(error) = self.write_meta(entry).await {
            tracing::warn!(%error, "the status of a background agent could not be written");
        }
        self.announce(entry).await;
        drop(is_open);
        self.0.parts.progress.leave(&entry.record().task_id);
        self.tell(entry, AgentEvent::TaskEnded);
    }

    async fn announce(&self, entry: &Entry) {
        let record = entry.record().clone();
        let mut pauses = TRY_AGAIN.iter();
        let told = loop {
            match self.send(&record).await {
                Ok(told) => break Ok(told),
                Err(error) => match pauses.next() {
                    Some(pause) => tokio::time::sleep(*pause).await,
                    None => break Err(error),
                },
            }
        };
        match told {
            Ok(false) => {}
            Ok(true) => {
                if let Some(notification) = &mut entry.record().notification {
                    notification.announced = true;
                }
                if let Err(error) = self.write(entry).await {
                    // Told again at the next start, under the same id.
                    tracing::warn!(%error, "that a task was announced could not be written");
                }
            }
            Err(error) => self.complain(
                entry,
                format!(
                    "the end of {} could not be told: {error}; it is told at the next start",
                    record.task_id
                ),
            ),
        }
    }

    /// Sends the notification of a terminal record that was not announced; `false` when it has none.
    pub(super) async fn send(&self, record: &TaskRecord) -> Result<bool, MailError> {
        let (Some(notification), Some(outcome)) = (&record.notification, &record.outcome) else {
            return Ok(false);
        };
        if notification.announced {
            return Ok(false);
        }
        let draft = Draft::frame(FrameType::TaskNotification, outcome.summary.clone(), outcome)
            .map_err(|e| MailError { kind: "encode", what: e.to_string() })?;
        let letter = Letter {
            id: notification.id.clone(),
            from: record.task_id.clone(),
            to: notification.to.clone(),
            incarnation: notification.incarnation,
            draft: draft.waking(notification.wake),
        };
        self.post().notify(letter).await?;
        Ok(true)
    }
}

impl Background {
    /// Closes the door of an agent that has ended; what it was told of and has not read is told to the named
    /// agent above it.
    ///
    /// # Errors
    /// When its inbox cannot be read; it is told when it goes on.
    pub async fn hand_on(&self, agent: &AgentContext) -> Result<(), MailError> {
        if let Some(door) = self.0.doors.of(&agent.id()) {
            door.close_unless(async { false }).await;
        }
        let own = agent.id();
        let is_its = |entry: &&Arc<Entry>| {
            entry.record().notification.as_ref().is_some_and(|told| told.to.as_str() == own.as_str())
        };
        let told: Vec<Arc<Entry>> = self.table().tasks.values().filter(is_its).cloned().collect();
        if told.is_empty() {
            return Ok(());
        }
        let mailbox = self.post().mailbox(agent).await?;
        let unread = mailbox.claim(usize::MAX).await?;
        for entry in told {
            let id = {
                let mut record = entry.record();
                let (root, incarnation) = (record.root.clone(), record.incarnation);
                let Some(told) = &mut record.notification else { continue };
                if !unread.iter().any(|mail| mail.id == told.id) {
                    continue;
                }
                *told = Announcement { to: root, incarnation, announced: false, ..told.clone() };
                told.id.clone()
            };
            if let Err(error) = self.write(&entry).await {
                // It is told all the same.
                tracing::warn!(%error, "that a notification goes to another agent could not be written");
            }
            self.announce(&entry).await;
            mailbox.ack(&[id]).await?;
        }
        Ok(())
    }
}

/// Who is told: the launcher as long as it lives, else the named agent above it. Nobody when the task
/// ended with the agent it belongs to.
fn announcement(record: &TaskRecord, entry: &Entry, is_open: bool) -> Option<Announcement> {
    let wake = match record.stopped_by {
        Some(StoppedBy::AgentEnd) => return None,
        // Who stops it knows of its end.
        Some(StoppedBy::Parent | StoppedBy::SessionEnd) => Wake::Queue,
        Some(StoppedBy::User) | None => Wake::Turn,
    };
    let own = is_open.then(|| AgentName::new(entry.launcher.id().as_str()).ok()).flatten();
    let incarnation = if own.is_some() { 1 } else { record.incarnation };
    Some(Announcement {
        id: MessageId::generate(),
        to: own.unwrap_or_else(|| record.root.clone()),
        incarnation,
        wake,
        announced: false,
    })
}

/// What is told and kept of an end.
fn outcome(record: &TaskRecord, end: TaskEnd, started: Instant, output: &Path) -> TaskNotification {
    let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let short = |text: String| cap::shorten(&text, TOOL_RESULT_CHARS, output);
    let (worktree_path, worktree_branch) = end.worktree.map(|w| (w.path, w.branch)).unzip();
    TaskNotification {
        task_id: record.task_id.clone(),
        status: record.state,
        summary: summary(record),
        result: end.result.map(short),
        error: end.error.map(short),
        output_file: record.output_file.clone(),
        usage: TaskUsage { duration_ms, ..end.usage },
        receipt: end.receipt,
        worktree_path,
        worktree_branch,
    }
}

/// A few words on how a task ended.
pub(super) fn summary(record: &TaskRecord) -> String {
    let what = match record.kind {
        TaskKind::Shell => "Background command",
        TaskKind::Fork => "Fork",
        TaskKind::Subagent | TaskKind::InProcessTeammate | TaskKind::PaneTeammate => "Agent",
    };
    let how = match (record.state, record.stopped_by) {
        (TaskState::Completed, _) => "completed",
        (TaskState::Failed, _) => "failed",
        (TaskState::Cancelled, Some(StoppedBy::User)) => "was stopped by the user",
        (TaskState::Cancelled, Some(StoppedBy::SessionEnd)) => "was stopped: its session ended",
        (TaskState::Cancelled, _) => "was stopped",
        (TaskState::Queued | TaskState::Running, _) => "is at work",
    };
    let room = MAX_SUMMARY_CHARS - what.len() - how.len() - 4;
    let description: String = record.description.chars().take(room).collect();
    format!("{what} \"{description}\" {how}")
}
