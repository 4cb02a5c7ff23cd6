//! How a fork that has ended is found again: its beginning lies in its parent's transcript.
//!
//! Transcripts are only ever appended to, so the parent's lines up to the one that the origin names are
//! what they were, whatever the parent did since. Promises that the conversation that comes back is, byte
//! for byte, the one that was sent, or an error: its hash is compared. Reads files; never writes.

use super::point::measure;
use super::seed::Seed;
use crate::agent::core::AgentCore;
use crate::agent::prefix_file;
use crate::agent::restore;
use crate::agent::runtime::Model;
use crate::agent::transcript::{FORK_ORIGIN, FORK_RECEIPT};
use crate::store::error::StoreError;
use crate::store::transcript;
use crate::tools::file_cache::FileCache;
use crate::wire::fork::{ForkOrigin, ForkReceipt};
use crate::wire::transcript::{AgentMeta, Line};
use serde::de::DeserializeOwned;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Why a fork cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum LostOrigin {
    /// A file could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The fork's transcript does not say where it began: its process ended before it did.
    #[error("{} does not say where it began", path.display())]
    NoOrigin {
        /// The fork's transcript.
        path: PathBuf,
    },
    /// The transcript holds no directive.
    #[error("{} holds no task: the fork never began", path.display())]
    NoDirective {
        /// The fork's transcript.
        path: PathBuf,
    },
    /// The parent's transcript is not what it was.
    #[error("the conversation it goes on from, in {}, {what}", path.display())]
    Changed {
        /// The parent's transcript.
        path: PathBuf,
        /// In what way.
        what: &'static str,
    },
}

/// What the fork with this transcript goes on from. `sessions` is the directory of the project's sessions,
/// `provider` the wire that the prefix must be for.
pub fn find(sessions: &Path, own: &Path, provider: &str) -> Result<Seed, LostOrigin> {
    let (origin, receipt) = look(own)?;
    let parent = below(sessions, &origin.parent_transcript)?;
    let (prefix, tool_names) = prefix_file::load(&below(sessions, &origin.prefix_file)?, provider)?;
    let restored = restore::load_until(&parent, &origin.parent_line)?;
    if restored.last_line.as_ref() != Some(&origin.parent_line) {
        return Err(LostOrigin::Changed { path: parent, what: "has lost the line where the fork began" });
    }
    let mut seed = Seed {
        prefix: Arc::new(prefix),
        tool_names,
        messages: restored.history,
        origin,
        files: FileCache::default(),
        receipt,
    };
    let shared = measure(&seed.prefix, &seed.messages, &seed.placeholders());
    if shared != seed.origin.shared {
        return Err(LostOrigin::Changed { path: parent, what: "is not what it was" });
    }
    seed.origin.shared = shared;
    Ok(seed)
}

/// The same for a fork that `by` writes to; the error is the end of a sentence for its model.
pub async fn seed(by: &AgentCore, meta: &AgentMeta, model: &Model) -> Result<Seed, String> {
    let runtime = &by.runtime;
    let project = runtime.paths.project(&by.context.session_cwd);
    let own = project.sidechain(&by.context.session, &meta.agent_id);
    let (file, provider) = (own.clone(), model.provider.name());
    let look = move || Ok(find(project.dir(), &file, provider));
    let found = runtime.disk.run(&own, look).await.map_err(|e| e.to_string())?;
    found.map_err(|lost| {
        format!("the fork cannot go on: {lost}. Start another one, or an agent of another kind")
    })
}

/// Origin and receipt from the fork's own transcript.
fn look(own: &Path) -> Result<(ForkOrigin, Option<ForkReceipt>), LostOrigin> {
    let (mut origin, mut receipt, mut has_directive) = (None, None, false);
    transcript::read(own, |_, line| {
        let Ok(line) = line else { return };
        match line.subtype.as_deref() {
            Some(FORK_ORIGIN) => origin = origin.take().or_else(|| data(&line)),
            // The last one says whether it has ended.
            Some(FORK_RECEIPT) => receipt = data(&line).or(receipt.take()),
            _ => has_directive |= line.message.is_some(),
        }
    })?;
    let origin = origin.ok_or_else(|| LostOrigin::NoOrigin { path: own.to_owned() })?;
    if !has_directive {
        return Err(LostOrigin::NoDirective { path: own.to_owned() });
    }
    Ok((origin, receipt))
}

fn data<T: DeserializeOwned>(line: &Line) -> Option<T> {
    serde_json::from_str(line.data.as_ref()?.get()).ok()
}

/// A path that was written down, below the directory it belongs to and nowhere else.
fn below(sessions: &Path, relative: &str) -> Result<PathBuf, StoreError> {
    let path = Path::new(relative);
    if relative.is_empty() || !path.components().all(|part| matches!(part, Component::Normal(_))) {
        let why = format!("names {relative:?}, which is no file below it");
        return Err(StoreError::Invalid { path: sessions.to_owned(), why });
    }
    Ok(sessions.join(path))
}

/// A path as it is written down; `None` when it does not lie below the directory.
pub fn relative(sessions: &Path, path: &Path) -> Option<String> {
    path.strip_prefix(sessions).ok()?.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_leads_nowhere_but_below_its_directory() {
        let dir = Path::new("/s");
        assert_eq!(below(dir, "a/b.jsonl").expect("below"), Path::new("/s/a/b.jsonl"));
        for outside in ["", "/etc/passwd", "../x", "a/../../x", "./a"] {
            assert!(below(dir, outside).is_err(), "{outside:?}");
        }
        assert_eq!(relative(dir, Path::new("/s/a/b")).as_deref(), Some("a/b"));
        assert_eq!(relative(dir, Path::new("/t/a")), None);
    }
}
