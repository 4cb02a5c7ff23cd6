//! Our side of a conversation with a server: what it may ask of us, and what it says unasked.
//!
//! Owns where progress goes and the word that tools have changed. Never answers a server's wish for a
//! model or for a person's input: we do not offer either.

#![expect(deprecated, reason = "servers of the versions before 2026-07-28 ask for roots and send log lines")]

use crate::tools::context::ProgressSink;
use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ListRootsResult, LoggingMessageNotificationParam,
    ProgressNotificationParam, ProgressToken, ProtocolVersion, Root, RootsCapabilities,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use rmcp::{ClientHandler, ErrorData};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Characters of a server's words about its progress.
const PROGRESS: usize = 200;

/// What a server has said unasked.
#[derive(Default)]
pub(super) struct Heard {
    progress: Mutex<HashMap<ProgressToken, Arc<dyn ProgressSink>>>,
    changed: Notify,
}

impl Heard {
    fn sinks(&self) -> MutexGuard<'_, HashMap<ProgressToken, Arc<dyn ProgressSink>>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the progress of a call goes from now on.
    pub fn listen(&self, token: &ProgressToken, sink: &Arc<dyn ProgressSink>) {
        self.sinks().insert(token.clone(), Arc::clone(sink));
    }

    /// The call is over.
    pub fn forget(&self, token: &ProgressToken) {
        self.sinks().remove(token);
    }

    /// The server says that its tools have changed.
    pub fn has_changed(&self) {
        self.changed.notify_one();
    }

    /// Resolves when the server says that its tools have changed.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// Our side.
pub(super) struct Us {
    heard: Arc<Heard>,
    root: PathBuf,
}

impl Us {
    /// For one connection; `root` is where the server is told it works.
    pub fn new(heard: Arc<Heard>, root: PathBuf) -> Self {
        Self { heard, root }
    }
}

impl ClientHandler for Us {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        let us = Implementation::new("festoon", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, us).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let url = reqwest::Url::from_file_path(&self.root).map(String::from);
        Ok(ListRootsResult::new(url.into_iter().map(Root::new).collect()))
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let Some(sink) = self.heard.sinks().get(&progress.progress_token).cloned() else { return };
        let share = match progress.total {
            Some(total) => format!("{} of {total}", progress.progress),
            None => progress.progress.to_string(),
        };
        sink.progress(&match progress.message.filter(|message| !message.trim().is_empty()) {
            Some(message) => format!("{} ({share})", super::shortened(&message, PROGRESS)),
            None => share,
        });
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.heard.has_changed();
    }

    async fn on_logging_message(
        &self,
        line: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        tracing::debug!(data = %line.data, "an MCP server logs");
    }
}
