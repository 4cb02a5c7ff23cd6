//! What a tool is given beside its input: owned here, filled by `agent`.

use super::background_shell::BackgroundShell;
use super::file_cache::FileCache;
use super::shells::Shells;
use super::tool::BoxFuture;
use super::web::Web;
use crate::wire::mask::Mask;
use crate::wire::todo::Todo;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Progress of a running call, for display.
pub trait ProgressSink: Send + Sync {
    /// The last line of output, or a few words.
    fn progress(&self, text: &str);
}

/// The calling agent's list of things to do.
pub trait TodoList: Send + Sync {
    /// Puts a whole list in the place of the one before.
    fn replace(&self, todos: Vec<Todo>);
}

/// Takes commands that go on beside their agent.
pub trait BackgroundShells: Send + Sync {
    /// Why none can be taken; asked before one is started.
    fn refusal(&self) -> Option<String>;
    /// Takes one over; says what the model should know of it, or why it was ended again.
    fn adopt(&self, shell: BackgroundShell) -> BoxFuture<'_, Result<String, String>>;
}

/// What a file was before a change.
#[derive(Debug)]
pub enum Former {
    /// It was not there.
    Absent,
    /// This.
    Content {
        /// Its bytes.
        bytes: Vec<u8>,
        /// Its mode bits.
        mode: u32,
    },
    /// More than is kept; its bytes.
    TooLarge(u64),
}

/// Keeps what files were before they are changed. May touch the disk; never stops a change.
pub trait BeforeChange: Send + Sync {
    /// Whether it wants to be told of this file.
    fn wants(&self, path: &Path) -> bool;
    /// What the file was; told right before it is changed.
    fn keep(&self, path: &Path, former: Former);
}

/// The surroundings of one call.
#[derive(Clone)]
pub struct ToolContext {
    /// The agent's directory.
    pub cwd: PathBuf,
    /// The call's id.
    pub tool_use_id: String,
    /// Cancelled when the turn is interrupted or the agent ends.
    pub cancel: CancellationToken,
    /// What the agent has read; empty for a subagent, cloned for a fork.
    pub files: Arc<FileCache>,
    /// What the agent's commands have left running; ended with the agent.
    pub shells: Arc<Shells>,
    /// Takes commands that go on beside the agent.
    pub background: Arc<dyn BackgroundShells>,
    /// The complete environment of tool commands: no provider or signing keys, with our mark in it.
    pub environment: Arc<BTreeMap<String, String>>,
    /// Directories whose content no file tool may touch (the closed part of the state root), without
    /// links in them.
    pub closed: Arc<[PathBuf]>,
    /// The paths that the call was judged by, without links in them; empty for a call that names none. A
    /// file tool touches nothing else, a search nothing that is not below one of them.
    pub approved: Arc<[PathBuf]>,
    /// Where the whole of an output goes that is too long for the history; readable although it lies
    /// in a closed directory. Without links in it.
    pub output_dir: PathBuf,
    /// Says which files a search passes over, since a rule keeps them from being read.
    pub kept_back: Arc<dyn Fn(&Path) -> bool + Send + Sync>,
    /// What is written down without the keys of model providers.
    pub mask: Mask,
    /// The web.
    pub web: Arc<dyn Web>,
    /// The agent's list of things to do.
    pub todos: Arc<dyn TodoList>,
    /// Told before a file is changed.
    pub checkpoints: Arc<dyn BeforeChange>,
    /// Where progress goes.
    pub progress: Arc<dyn ProgressSink>,
}

impl ToolContext {
    /// The closed directory that holds `path`, unless it is in the agent's own `output_dir`; the path itself
    /// when it shows the memory or environment of a process. `path` must be absolute with its links resolved.
    pub fn closed_by<'a>(&'a self, path: &'a Path) -> Option<&'a Path> {
        if shows_process(path) {
            return Some(path);
        }
        if path.starts_with(&self.output_dir) {
            return None;
        }
        self.closed.iter().map(PathBuf::as_path).find(|dir| path.starts_with(dir))
    }
}

/// Whether a file of `/proc` shows what a process holds: our keys, too, in ours and in those it was started
/// from (proc(5)).
pub(super) fn shows_process(path: &Path) -> bool {
    path.starts_with("/proc") && path.file_name().is_some_and(|name| name == "environ" || name == "mem")
}
