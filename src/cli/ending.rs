//! What the end of a session takes down with it, and what it leaves behind: background work that had not
//! ended, worktrees with something new in them.
//!
//! Promises that nothing of it goes or stays without a word: a sentence for the person, and for what was
//! ended a line in the transcript of the main agent.

use crate::agent::background::Background;
use crate::agent::transcript::{NewLine, Transcript, WARNING};
use crate::agent::worktree::Kept;
use crate::wire::background::{StoppedBy, TaskKind, TaskRecord, TaskState};
use crate::wire::ids::BackgroundId;
use serde_json::json;

/// Stops all background work of this process; the sentences say what that was, and what went wrong.
pub(super) async fn stop_background(background: &Background, transcript: &Transcript) -> Vec<String> {
    let views = background.views().into_iter();
    let running: Vec<BackgroundId> =
        views.filter(|view| !view.record.state.is_over()).map(|view| view.record.task_id).collect();
    background.stop_all(StoppedBy::SessionEnd).await;
    let mut told = Vec::new();
    let mut lines = Vec::new();
    for record in background.views().iter().map(|view| &view.record) {
        if !running.contains(&record.task_id) {
            continue;
        }
        let sentence = match record.state {
            TaskState::Cancelled => sentence(record),
            TaskState::Queued | TaskState::Running => overdue(record),
            TaskState::Completed | TaskState::Failed => continue,
        };
        let data = json!({ "taskId": record.task_id, "kind": record.kind, "status": record.state,
                           "outputFile": record.output_file });
        lines.push(NewLine::system(WARNING, sentence.clone()).with_data(&data));
        told.push(sentence);
    }
    if !lines.is_empty()
        && let Err(error) = transcript.append(lines).await
    {
        told.push(error.to_string());
    }
    told.extend(background.unsaid());
    told
}

fn sentence(record: &TaskRecord) -> String {
    let (id, what, file) = (&record.task_id, &record.description, &record.output_file);
    match record.kind {
        TaskKind::Shell => {
            format!("the background command \"{what}\" ({id}) was ended with the session; its output: {file}")
        }
        TaskKind::Subagent | TaskKind::Fork | TaskKind::InProcessTeammate | TaskKind::PaneTeammate => {
            format!(
                "the background agent \"{what}\" ({id}) was ended with the session; SendMessage to it goes on \
                 where it was"
            )
        }
    }
}

/// One that did not end in the time it had.
fn overdue(record: &TaskRecord) -> String {
    let (id, what) = (&record.task_id, &record.description);
    format!(
        "the background task \"{what}\" ({id}) was stopped with the session and had not ended when that was over; \
         the next start says what became of it"
    )
}

/// A worktree that stays, with what to do about it.
pub(super) fn kept(kept: &Kept) -> String {
    let what = kept.what.as_deref().unwrap_or("it is in use");
    format!(
        "the worktree {} (branch {}, agent {}) is kept: {what}; once that is merged or not wanted: {}",
        kept.tree.path.display(),
        kept.tree.branch,
        kept.agent(),
        kept.removal()
    )
}
