//! What all agents of one process share. Made once by the composition root, handed on as an `Arc`.

use super::background::Background;
use super::budget::Budget;
use super::checkpoint::Checkpoints;
use super::core::AgentCore;
use super::definitions::Definitions;
use super::disk::Disk;
use super::events::Observer;
use super::first;
use super::fork::rule::Forks;
use super::gates::Gates;
use super::kept::KeptSources;
use super::limits::Slots;
use super::mcp::Mcp;
use super::ports::{Journal, Mailbox};
use super::tally::Tally;
use super::web::SharedWeb;
use super::worktree::Nursery;
use crate::model::prices::PriceTable;
use crate::model::provider::{ModelError, ModelProvider};
use crate::model::tuning::Tuning;
use crate::store::paths::Paths;
use crate::tools::tool::Tool;
use crate::wire::mask::Mask;
use crate::wire::settings::CompactionSettings;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A model that can be asked.
#[derive(Clone)]
pub struct Model {
    /// `provider:name`.
    pub full: String,
    /// The name at the provider.
    pub name: String,
    /// Input and output together, in tokens.
    pub context_tokens: u64,
    /// What its prefixes are frozen with; a definition may say more.
    pub tuning: Tuning,
    /// The wire to it.
    pub provider: Arc<dyn ModelProvider>,
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Model({})", self.full)
    }
}

/// Finds models by what a user, definition or call names.
pub trait ModelSource: Send + Sync {
    /// The model for `wanted` (`provider:name`, an alias, `inherit`); `parent` is the full name of the
    /// parent's model.
    fn find(&self, wanted: &str, parent: &str) -> Result<Model, ModelError>;
}

/// Makes the tools of an agent. Tools that act for an agent (`Agent`, `SendMessage`) are made anew for
/// each and hold its [`AgentCore`].
pub trait Toolkit: Send + Sync {
    /// All tools an agent could have, in the order of their declaration.
    fn tools(&self, core: &Arc<AgentCore>, mailbox: Option<&Arc<dyn Mailbox>>) -> Vec<Arc<dyn Tool>>;
}

/// The shared parts.
pub struct Runtime {
    /// Where everything is.
    pub paths: Paths,
    /// The store thread.
    pub disk: Disk,
    /// Models by name.
    pub models: Arc<dyn ModelSource>,
    /// Sees what happens.
    pub observer: Arc<dyn Observer>,
    /// Says what happened, in the team's event log.
    pub journal: Arc<dyn Journal>,
    /// Hooks.
    pub gates: Arc<dyn Gates>,
    /// Makes tools.
    pub toolkit: Arc<dyn Toolkit>,
    /// MCP servers.
    pub mcp: Mcp,
    /// Kinds of agents.
    pub definitions: Definitions,
    /// What works beside its launcher.
    pub background: Background,
    /// Who may still be started.
    pub slots: Arc<Slots>,
    /// Tokens and money of the whole tree: asked before each request, told after it.
    pub budget: Budget,
    /// Which calls fork.
    pub forks: Forks,
    /// What everything is written down without: the keys of model providers.
    pub mask: Mask,
    /// What tokens cost.
    pub prices: PriceTable,
    /// What agents find in their directories.
    pub surroundings: first::Known,
    /// What files were before they were changed.
    pub checkpoints: Checkpoints,
    /// When conversations are compacted.
    pub compaction: CompactionSettings,
    /// What stays when one is.
    pub kept: KeptSources,
    /// What was used.
    pub tally: Tally,
    /// The web.
    pub web: SharedWeb,
    /// The environment of tool commands.
    pub environment: Arc<BTreeMap<String, String>>,
    /// Concurrency-safe calls at once.
    pub tool_concurrency: usize,
    /// Where isolated agents get their worktrees.
    pub nursery: Nursery,
    /// The person's home.
    pub home: Option<PathBuf>,
    /// The platform's name for the model.
    pub platform: String,
}
