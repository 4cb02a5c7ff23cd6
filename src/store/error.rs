//! What can go wrong on disk, each with the file it went wrong with.
//!
//! Owns the layer's one error type and its rendering as kind, message and hint. Promises that an
//! error names its path. Never holds a key or the content of a message.

use crate::wire::error::ErrorReport;
use crate::wire::ids::{AgentName, AskId, RunId, TeamName};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused.
    #[error("{}", could_not(doing, path, source))]
    Io {
        /// What was tried: `read`, `write`, `append to` …
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others held the lock all the time.
    #[error("{} stayed locked for {waited:.1?}", path.display())]
    LockTimeout {
        /// The lock file.
        path: PathBuf,
        /// How long it was tried.
        waited: Duration,
    },
    /// There is no such inbox.
    #[error("team {team} has no member {name}; it has {}", names(known))]
    NoSuchMember {
        /// Who was meant.
        name: AgentName,
        /// Where.
        team: TeamName,
        /// Who could have been meant.
        known: Vec<AgentName>,
    },
    /// Too much mail waits.
    #[error("the inbox of {agent} is full: {messages} messages ({bytes} bytes) wait")]
    Full {
        /// Whose inbox.
        agent: AgentName,
        /// Unread messages.
        messages: usize,
        /// Their bytes.
        bytes: usize,
    },
    /// The message could not even be stored in an empty inbox.
    #[error("the message to {agent} is too large: {size} {unit}, at most {limit}")]
    TooLarge {
        /// Whose inbox.
        agent: AgentName,
        /// Its size.
        size: usize,
        /// `bytes` or `characters`.
        unit: &'static str,
        /// The bound.
        limit: usize,
    },
    /// A file that is not what it should be, as JSON.
    #[error("{} is damaged: {why}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A link, a pipe, a directory in a file's place, or somebody else's.
    #[error("{} is refused: {why}", path.display())]
    NotOurs {
        /// What was found.
        path: PathBuf,
        /// Why it is not used.
        why: &'static str,
    },
    /// It is there already.
    #[error("{} exists", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// It is not there.
    #[error("there is no {}", path.display())]
    NotFound {
        /// The file.
        path: PathBuf,
    },
    /// A name that nobody may have.
    #[error("{name:?} cannot be a name: {why}")]
    Name {
        /// The name as given.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Well-formed, but not to be believed or not to be written.
    #[error("{}: {why}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Nobody waits for this ask any more.
    #[error("{ask} is closed: {reason}")]
    Closed {
        /// The ask.
        ask: AskId,
        /// Why it was closed.
        reason: String,
    },
    /// A newer run of the same agent owns the file.
    #[error("{}: run {by} has taken over", path.display())]
    Fenced {
        /// The file.
        path: PathBuf,
        /// The run that owns it.
        by: RunId,
    },
    /// The team that a session should go on with cannot be read.
    #[error("the team {team} {whose} and cannot be read: {source}")]
    Team {
        /// The team.
        team: TeamName,
        /// `belongs to this session`, or that it may.
        whose: &'static str,
        /// What is wrong with its file.
        source: Box<StoreError>,
    },
    /// The system has no place for the state.
    #[error("no home directory, so no place for state")]
    NoHome,
    /// The system does not tell about changes.
    #[error("cannot watch {}: {why}", path.display())]
    Watch {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
}

/// What the system refused. Whatever was to be done, on a read-only file system it was to write.
fn could_not(doing: &str, path: &Path, source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            format!("cannot write to {}: it is on a read-only file system", path.display())
        }
        _ => format!("cannot {doing} {}: {source}", path.display()),
    }
}

/// The file that limits and budgets stand in.
const LEDGER: &str = "ledger.json";
const KEEPS_BUDGETS: &str =
    "limits and budgets are kept in this file: mend it or make room for it, or move it away to count anew";

fn names(known: &[AgentName]) -> String {
    if known.is_empty() {
        return "no members".to_owned();
    }
    known.iter().map(AgentName::as_str).collect::<Vec<_>>().join(", ")
}

/// What to do about a damaged file, by the directory it is in.
fn how_to_mend(path: &Path) -> &'static str {
    match path.parent().and_then(Path::file_name).and_then(|dir| dir.to_str()) {
        Some("inboxes") => "`festoon inbox repair` sets damaged mail aside",
        Some("run") => "its agent writes it anew as long as it runs; else remove the file",
        _ => "mend the file, or move it away",
    }
}

impl StoreError {
    /// Wraps what the system said about `path`.
    pub fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { doing, path: path.to_owned(), source }
    }

    pub(super) fn invalid(path: &Path, why: impl ToString) -> Self {
        Self::Invalid { path: path.to_owned(), why: why.to_string() }
    }

    /// What to do about a team that is damaged, where nothing may be written over it.
    fn how_to_go_on(team: &TeamName, why: &Self) -> String {
        match why {
            Self::NotOurs { path, .. } if path.ends_with(team.as_str()) => {
                "put the team's directory back in its place, or remove what stands there; then resume again"
                    .to_owned()
            }
            _ => format!(
                "mend the file, or put it back, and resume again; to give the team up with its mail and tasks: \
                 `festoon team stop {team}`, then `festoon team delete {team}`"
            ),
        }
    }

    /// As it is shown: a stable word, a sentence, what to do.
    pub fn report(&self) -> ErrorReport {
        let (kind, hint) = match self {
            Self::Io { source, .. } if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                ("disk", "set FESTOON_HOME to a directory that can be written")
            }
            Self::Io { path, .. } if path.ends_with(LEDGER) => ("disk", KEEPS_BUDGETS),
            Self::Corrupt { path, .. } | Self::NotOurs { path, .. } | Self::Invalid { path, .. }
                if path.ends_with(LEDGER) =>
            {
                ("corrupt", KEEPS_BUDGETS)
            }
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                ("disk", "free some space and try again")
            }
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => (
                "disk",
                "check who may write the state directory (`festoon paths` prints it), or set FESTOON_HOME to one of yours",
            ),
            Self::Io { .. } => ("disk", "`festoon paths` prints where the state is"),
            Self::LockTimeout { .. } => ("locked", "another program holds the lock; try again"),
            Self::NoSuchMember { .. } => ("not_found", "`festoon ps` lists who can be written to"),
            Self::Full { .. } => ("full", "wait until the recipient has read its mail"),
            Self::TooLarge { .. } => ("too_large", "put the text in a file and send its path"),
            Self::Corrupt { path, .. } => ("corrupt", how_to_mend(path)),
            Self::NotOurs { .. } => ("refused", "move it away, or choose another FESTOON_HOME"),
            Self::Exists { .. } => ("exists", "choose another name"),
            Self::NotFound { .. } => ("not_found", ""),
            Self::Name { .. } => ("name", "use 1 to 64 characters, letters and digits among them"),
            Self::Invalid { .. } => ("invalid", ""),
            Self::Closed { .. } => ("closed", "`festoon ask list` shows what is still open"),
            Self::Fenced { .. } => ("fenced", ""),
            Self::Team { team, source, .. } => {
                let ErrorReport { kind, .. } = source.report();
                let hint = Self::how_to_go_on(team, source);
                return ErrorReport { kind, message: self.to_string(), hint };
            }
            Self::NoHome => ("no_home", "set FESTOON_HOME to a directory of yours"),
            Self::Watch { .. } => ("watch", "changes are found by looking from time to time"),
        };
        ErrorReport { kind: kind.to_owned(), message: self.to_string(), hint: hint.to_owned() }
    }
}
