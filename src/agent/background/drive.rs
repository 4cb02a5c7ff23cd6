//! One run of a task: from the queue through its work to its end.

use super::progress::Words;
use super::{Background, Door, Entry, Outcome, Remains, TaskControl, TaskEnd, Waiting};
use crate::agent::context::spawn_in;
use crate::agent::core::AgentCore;
use crate::agent::limits::Slot;
use crate::store::{background, clock};
use crate::wire::background::TaskState;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long work that was cut off may take to be gone: code that never waits cannot be cut off at all.
const CUT_DEADLINE: Duration = Duration::from_secs(5);

impl Background {
    /// Runs it in a task of its own, which nobody but the registry ends.
    pub(super) fn drive<F, W>(&self, entry: Arc<Entry>, place: Waiting, words: Words, work: F)
    where
        F: FnOnce(TaskControl) -> W + Send + 'static,
        W: Future<Output = TaskEnd> + Send + 'static,
    {
        let this = self.clone();
        let context = Arc::clone(&entry.launcher);
        drop(spawn_in(&context, async move {
            let started = Instant::now();
            let Waiting { slot, launcher, inside } = place;
            let door = inside.as_ref().map(|inside| Arc::clone(inside.door()));
            let end = match this.place(&entry, slot, launcher, door.is_some()).await {
                Ok(slot) => this.run(&entry, slot, door, words, started, work).await,
                Err(stopped) => stopped,
            };
            this.end(&entry, end, started).await;
            // From here on it can be started again.
            drop(inside);
            let state = entry.record().state;
            entry.state.send_replace(state);
            this.table().prune();
            this.bump();
        }));
    }

    /// Waits for a place; the end is that of a task that was stopped meanwhile.
    async fn place(
        &self,
        entry: &Arc<Entry>,
        slot: Option<Slot>,
        launcher: Arc<AgentCore>,
        takes_one: bool,
    ) -> Result<Option<Slot>, TaskEnd> {
        if slot.is_some() || !takes_one {
            return Ok(slot);
        }
        tokio::select! {
            biased;
            () = entry.cancel.cancelled() => Err(TaskEnd::new(Outcome::Cancelled)),
            slot = self.0.parts.slots.place_beside(move || launcher.place.offered()) => {
                let slot = slot.map_err(|error| TaskEnd::failed(error.to_string()))?;
                self.begins(entry).await;
                Ok(Some(slot))
            }
        }
    }

    async fn run<F, W>(
        &self,
        entry: &Arc<Entry>,
        slot: Option<Slot>,
        door: Option<Arc<Door>>,
        mut words: Words,
        started: Instant,
        work: F,
    ) -> TaskEnd
    where
        F: FnOnce(TaskControl) -> W + Send + 'static,
        W: Future<Output = TaskEnd> + Send + 'static,
    {
        let remains = Remains::default();
        let grace = self.0.parts.stop_grace;
        let control = {
            let record = entry.record();
            TaskControl {
                id: record.task_id.clone(),
                run_id: record.run_id.clone(),
                cancel: entry.cancel.clone(),
                slot,
                door,
                remains: remains.clone(),
                output_file: entry.output_file.clone(),
                started,
            }
        };
        let mut working = spawn_in(&entry.launcher, work(control));
        let overdue = async {
            entry.cancel.cancelled().await;
            tokio::time::sleep(grace).await;
        };
        tokio::pin!(overdue);
        let mut is_gone = true;
        let mut end = loop {
            tokio::select! {
                biased;
                Some(text) = words.recv() => self.append(entry, &text).await,
                end = &mut working => break end.unwrap_or_else(|error| {
                    TaskEnd::failed(format!("its work broke off: {error}"))
                }),
                () = &mut overdue => {
                    working.abort();
                    is_gone = tokio::time::timeout(CUT_DEADLINE, &mut working).await.is_ok();
                    let mut end = TaskEnd::new(Outcome::Cancelled);
                    end.error = Some(format!(
                        "it did not end within {} s of being stopped and was cut off",
                        grace.as_secs()
                    ));
                    break end;
                }
            }
        };
        if is_gone {
            // They have as long as `git` and hooks may take; at the end of the session as long as the work had.
            let ending = async {
                self.0.ending.cancelled().await;
                tokio::time::sleep(grace).await;
            };
            tokio::select! {
                biased;
                worktree = remains.gone() => end.worktree = worktree,
                () = ending => {
                    let late = format!("its last steps did not end within {} s", grace.as_secs());
                    end.error = Some(end.error.map_or_else(|| late.clone(), |error| format!("{error}; {late}")));
                }
            }
        }
        // The output is whole before anybody hears of the end.
        while let Ok(text) = words.try_recv() {
            self.append(entry, &text).await;
        }
        end
    }

    /// A place was found.
    async fn begins(&self, entry: &Arc<Entry>) {
        {
            let mut record = entry.record();
            record.state = TaskState::Running;
            record.since = clock::now();
        }
        let written = match self.write(entry).await {
            Ok(()) => self.write_meta(entry).await,
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            // It runs all the same; only listings of other processes are behind.
            tracing::warn!(%error, "the start of a background task could not be written");
        }
        entry.state.send_replace(TaskState::Running);
        self.bump();
    }

    pub(super) async fn append(&self, entry: &Entry, text: &str) {
        let (path, text) = (entry.output_file.clone(), format!("{}\n", text.trim_end()));
        let written =
            self.0.parts.disk.run(&entry.output_file, move || background::append_output(&path, &text)).await;
        if let Err(error) = written {
            self.complain(entry, format!("the output of a background task is not whole: {error}"));
        }
    }
}
