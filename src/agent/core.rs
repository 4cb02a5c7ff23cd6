//! What an agent shares with its tools, its brokers and its children.

use super::context::AgentContext;
use super::fork::point::ForkPoint;
use super::limits::{Place, Refusals};
use super::permissions::Permissions;
use super::ports::PermissionBroker;
use super::runtime::{Model, Runtime};
use super::side::SideBook;
use super::todos::Todos;
use crate::tools::file_cache::FileCache;
use crate::tools::shells::Shells;
use crate::wire::definition::AgentDefinition;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// The part of an agent that its tools and its observers share.
pub struct AgentCore {
    /// Who it is.
    pub context: Arc<AgentContext>,
    /// What kind.
    pub definition: AgentDefinition,
    /// Its model.
    pub model: Model,
    /// What it may do.
    pub permissions: Permissions,
    /// Who answers its asks.
    pub broker: Arc<dyn PermissionBroker>,
    /// What it has read.
    pub files: Arc<FileCache>,
    /// What its commands have left running.
    pub shells: Arc<Shells>,
    /// What it wants to do.
    pub todos: Todos,
    /// What its tools have asked models, and is not in its books yet.
    pub side: SideBook,
    /// Its place among the running agents.
    pub place: Place,
    /// Agents that it wanted to start and limits forbade.
    pub refusals: Refusals,
    /// Where its conversation can be forked.
    pub fork_point: ForkPoint,
    /// An estimate of the tokens its next request has.
    pub context_filled: AtomicU64,
    /// All that agents of this process share.
    pub runtime: Arc<Runtime>,
    pub(super) tool_names: RwLock<Arc<[String]>>,
    pub(super) given_up: OnceLock<Vec<String>>,
}

impl std::fmt::Debug for AgentCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AgentCore({})", self.context.id())
    }
}

impl AgentCore {
    /// How much of its model's context is left, in percent.
    pub fn context_left(&self) -> u64 {
        let filled = self.context_filled.load(Ordering::Relaxed);
        let tokens = self.model.context_tokens.max(1);
        tokens.saturating_sub(filled) * 100 / tokens
    }

    /// The names of its tools: what a child may have.
    pub fn tool_names(&self) -> Arc<[String]> {
        Arc::clone(&self.tool_names.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The names of the tools that a child may have at most: its own, and those it gave up only to have
    /// others do the work.
    pub fn child_tool_names(&self) -> Arc<[String]> {
        let given_up = self.given_up.get().map_or(&[][..], Vec::as_slice);
        if given_up.is_empty() { self.tool_names() } else { given_up.into() }
    }

    /// What it could have had, of one whose restrictions are not its children's.
    pub(super) fn set_given_up(&self, names: Vec<String>) {
        // Set once, when it is built.
        let _ = self.given_up.set(names);
    }

    /// From now on it has these.
    pub(super) fn set_tool_names(&self, names: Vec<String>) {
        *self.tool_names.write().unwrap_or_else(PoisonError::into_inner) = names.into();
    }
}
