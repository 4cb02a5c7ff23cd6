//! An agent's own transcript: appended line by line, each linked to the one before.
//!
//! The cursor moves where the lines are written, on the store thread, and only after they are on disk: so
//! nothing is written twice, nothing is linked to a line that was never written, and a writer that is cut
//! off in the middle leaves a whole chain. Clones share the cursor: the loop and whoever records frames
//! write to one chain.

use super::context::{AgentContext, Tier};
use super::disk::Disk;
use super::events::ResponseInfo;
use crate::store::clock;
use crate::store::error::StoreError;
use crate::store::transcript::{TranscriptFile, open_append};
use crate::wire::block::{ChatMessage, Role};
use crate::wire::ids::{LineId, MessageId};
use crate::wire::transcript::{Line, LineMessage, LineType, StoredBlock};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The subtype of the line that names delivered mail or frames that were acted on.
pub const MAIL_DELIVERED: &str = "mail_delivered";
/// The subtype of the first line of a run.
pub const RUN_STARTED: &str = "run_started";
/// The subtype of the last line of a run.
pub const RUN_ENDED: &str = "run_ended";
/// The subtype of the line that says where a fork's conversation begins.
pub const FORK_ORIGIN: &str = "fork_origin";
/// The subtype of the line that says what a fork's first request cost.
pub const FORK_RECEIPT: &str = "fork_receipt";
/// The subtype of the line behind which a conversation goes on from its summary, the next line.
pub const COMPACT_BOUNDARY: &str = "compact_boundary";
/// The subtype of the line from which a conversation goes on otherwise.
pub const REWIND: &str = "rewind";
/// The subtype of a warning.
pub const WARNING: &str = "warning";

/// What is to be written; identity, time and links are added.
#[derive(Debug, Clone)]
pub struct NewLine {
    kind: LineType,
    subtype: Option<&'static str>,
    text: Option<String>,
    message: Option<LineMessage>,
    message_ids: Vec<MessageId>,
    data: Option<Box<serde_json::value::RawValue>>,
}

impl NewLine {
    /// A user or assistant message.
    pub fn message(message: &ChatMessage, response: Option<&ResponseInfo>) -> Self {
        let kind = match message.role {
            Role::User => LineType::User,
            Role::Assistant => LineType::Assistant,
        };
        let message = LineMessage {
            role: message.role,
            content: message.blocks.iter().cloned().map(StoredBlock).collect(),
            model: response.map(|r| r.model.clone()),
            id: response.map(|r| r.id.clone()),
            usage: response.map(|r| r.usage),
            stop_reason: response.map(|r| r.stop_reason.clone()),
        };
        Self { kind, subtype: None, text: None, message: Some(message), message_ids: Vec::new(), data: None }
    }

    /// Something about the run.
    pub fn system(subtype: &'static str, text: impl Into<String>) -> Self {
        Self {
            kind: LineType::System,
            subtype: Some(subtype),
            text: Some(text.into()),
            message: None,
            message_ids: Vec::new(),
            data: None,
        }
    }

    /// The ids of mail that the next user line delivers, or of frames that were acted on.
    pub fn delivered(ids: Vec<MessageId>) -> Self {
        Self { message_ids: ids, ..Self::system(MAIL_DELIVERED, "mail delivered") }
    }

    /// The same with data for programs.
    pub fn with_data<T: Serialize>(mut self, data: &T) -> Self {
        self.data = serde_json::value::to_raw_value(data).ok();
        self
    }
}

struct Writer {
    file: Option<TranscriptFile>,
    last: Option<LineId>,
}

/// A handle on the file and its cursor.
#[derive(Clone)]
pub struct Transcript {
    disk: Disk,
    path: Arc<Path>,
    context: Arc<AgentContext>,
    branch: Arc<str>,
    writer: Arc<Mutex<Writer>>,
}

impl Transcript {
    /// Opens the file for append; `last` is the line to go on after, from a restore.
    pub async fn open(
        disk: Disk,
        path: PathBuf,
        context: Arc<AgentContext>,
        branch: String,
        last: Option<LineId>,
    ) -> Result<Self, StoreError> {
        let target = path.clone();
        let file = disk.run(&path, move || open_append(&target)).await?;
        let writer = Writer { file: Some(file), last };
        Ok(Self {
            disk,
            path: path.into(),
            context,
            branch: branch.into(),
            writer: Arc::new(Mutex::new(writer)),
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends lines in one write and returns their ids.
    pub async fn append(&self, lines: Vec<NewLine>) -> Result<Vec<LineId>, StoreError> {
        let this = self.clone();
        self.disk.run(&self.path, move || this.write(lines)).await
    }

    /// The append itself, on the store thread.
    fn write(&self, lines: Vec<NewLine>) -> Result<Vec<LineId>, StoreError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut parent = writer.last.clone();
        let mut ids = Vec::with_capacity(lines.len());
        let mut written = Vec::with_capacity(lines.len());
        for line in lines {
            let uuid = LineId::generate();
            written.push(self.complete(line, uuid.clone(), parent.replace(uuid.clone())));
            ids.push(uuid);
        }
        // A failed append leaves no open file behind; the next one opens it again.
        let mut file = match writer.file.take() {
            Some(file) => file,
            None => open_append(&self.path)?,
        };
        file.append(&written)?;
        writer.file = Some(file);
        writer.last = parent;
        Ok(ids)
    }

    fn complete(&self, line: NewLine, uuid: LineId, parent_uuid: Option<LineId>) -> Line {
        let sidechain = self.context.tier != Tier::Main;
        Line {
            kind: line.kind,
            uuid,
            parent_uuid,
            session_id: self.context.session.clone(),
            agent_id: sidechain.then(|| self.context.id().clone()),
            is_sidechain: sidechain,
            timestamp: clock::now(),
            cwd: self.context.cwd.display().to_string(),
            git_branch: self.branch.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            team_name: Some(self.context.team.get()),
            message: line.message,
            subtype: line.subtype.map(str::to_owned),
            text: line.text,
            message_ids: line.message_ids,
            data: line.data,
        }
    }
}
