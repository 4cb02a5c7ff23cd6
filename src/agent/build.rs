//! From a plan to an agent: tools chosen, prefix frozen, transcript opened, history restored.
//!
//! All tiers are built here; they differ only in their plan.

use super::context::{AgentContext, Tier};
use super::context_size;
use super::core::AgentCore;
use super::definitions::{COORDINATOR, GENERAL_PURPOSE};
use super::events::AgentEvent;
use super::fork::point::ForkPoint;
use super::fork::seed::{Forked, Seed};
use super::limits::{Place, Refusals, Slot};
use super::mcp::{Servers, declarations};
use super::permissions::Permissions;
use super::ports::{Mailbox, PermissionBroker};
use super::prefix_file::{self, Fresh};
use super::restore::{self, Restored};
use super::runtime::{Model, Runtime};
use super::side::SideBook;
use super::todos::Todos;
use super::tool_rules;
use super::transcript::{FORK_ORIGIN, NewLine, RUN_STARTED, Transcript};
use super::turn::Agent;
use super::web;
use crate::model::provider::PromptPrefix;
use crate::model::tuning::Tuning;
use crate::os::git;
use crate::store::error::StoreError;
use crate::tools::set::ToolSet;
use crate::tools::shells::Shells;
use crate::wire::block::{Block, ChatMessage};
use crate::wire::definition::{AgentDefinition, ToolChoice};
use crate::wire::ids::RunId;
use crate::wire::usage::{Money, Usage};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, RwLock};

/// The result of a call that was under way when what ran it broke off.
pub(super) const INTERRUPTED: &str = "The call was interrupted: what ran it has broken off. Whether and how far it \
                           took effect is unknown; look before you repeat it.";

/// What an agent is to be.
pub struct AgentPlan {
    /// Who it is.
    pub context: AgentContext,
    /// What kind.
    pub definition: AgentDefinition,
    /// Which model.
    pub model: Model,
    /// What it may do.
    pub permissions: Permissions,
    /// The tools its parent has; `None` for all there are.
    pub parent_tools: Option<Vec<String>>,
    /// Tools it has whatever its definition says.
    pub always_tools: Vec<String>,
    /// Its mail; `None` for agents without an inbox.
    pub mailbox: Option<Arc<dyn Mailbox>>,
    /// Who answers its asks.
    pub broker: Arc<dyn PermissionBroker>,
    /// Its transcript.
    pub transcript: PathBuf,
    /// Where its frozen prefix is kept for a later run; `None` for agents that have one run.
    pub prefix_file: Option<PathBuf>,
    /// This run of it.
    pub run_id: RunId,
    /// Added to the definition's system prompt.
    pub prompt_addendum: Option<String>,
    /// Its place among the running agents, to lend to children.
    pub slot: Option<Arc<Slot>>,
    /// Rounds a turn may take; `None` is no limit.
    pub max_rounds: Option<u32>,
    /// For a fork: what it goes on from, instead of tools and a prompt of its own.
    pub fork: Option<Seed>,
}

/// Why an agent could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A file could not be written or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The definition leaves no tool.
    #[error("the definition {definition:?} resolves to no tool: {} not known here", names.join(", "))]
    NoTools {
        /// The definition.
        definition: String,
        /// What it names in vain.
        names: Vec<String>,
    },
}

/// A built agent and what its user should know.
pub struct Built {
    /// The agent.
    pub agent: Agent,
    /// Tools its definition takes away or names in vain, bad lines in its transcript.
    pub notices: Vec<String>,
    /// True when its transcript ends with something unanswered.
    pub unanswered: bool,
    /// True when it goes on from an earlier run.
    pub restored: bool,
}

/// Builds an agent.
pub async fn build(runtime: &Arc<Runtime>, mut plan: AgentPlan) -> Result<Built, BuildError> {
    let context = Arc::new(plan.context);
    let mut seed = plan.fork.take();
    let files = seed.as_mut().map(|seed| std::mem::take(&mut seed.files)).unwrap_or_default();
    let core = Arc::new(AgentCore {
        context: Arc::clone(&context),
        definition: plan.definition,
        model: plan.model,
        permissions: plan.permissions,
        broker: plan.broker,
        files: Arc::new(files),
        shells: Arc::new(Shells::default()),
        todos: Todos::default(),
        side: SideBook::default(),
        place: Place::of(plan.slot),
        refusals: Refusals::default(),
        fork_point: ForkPoint::default(),
        context_filled: AtomicU64::new(0),
        runtime: Arc::clone(runtime),
        tool_names: RwLock::new(Arc::from([])),
        given_up: OnceLock::new(),
    });
    let mut notices = Vec::new();
    let parents = seed.as_ref().map(|seed| seed.tool_names.as_slice()).or(plan.parent_tools.as_deref());
    let servers = Servers::open(&core, parents, &mut notices).await;
    let (tools, prefix) = match &seed {
        Some(seed) => (forks_tools(&core, plan.mailbox.as_ref(), &servers, seed), Arc::clone(&seed.prefix)),
        None => {
            let tools = choose_tools(
                &core,
                plan.mailbox.as_ref(),
                &servers,
                plan.parent_tools.as_deref(),
                &plan.always_tools,
                &mut notices,
            )?;
            let addendum = plan.prompt_addendum.as_deref();
            let prefix = freeze(&core, &tools, addendum, plan.prefix_file.clone(), &mut notices).await?;
            (tools, Arc::new(prefix))
        }
    };

    let path = plan.transcript.clone();
    let beginning = seed.as_ref().map(Seed::beginning).unwrap_or_default();
    let restored = runtime.disk.run(&plan.transcript, move || restore::load_onto(&path, beginning)).await?;
    let Restored {
        mut history,
        last_line,
        delivered,
        notices: bad,
        unanswered,
        open_calls,
        message,
        usage: before,
        todos,
        compacted,
        prompt,
        mut filled,
        ..
    } = restored;
    core.todos.set(todos.list());
    if let Some(prompt) = prompt.filter(|_| context.tier == Tier::Main) {
        runtime.checkpoints.begin(prompt);
    }
    let mut used = (Usage::default(), Money::default());
    for (model, usage) in &before {
        used.0 += *usage;
        used.1 += runtime.prices.cost(model, usage);
    }
    notices.extend(bad);
    let was_there = last_line.is_some();
    let branch = git::branch(&context.cwd).unwrap_or_default();
    let transcript = Transcript::open(
        runtime.disk.clone(),
        plan.transcript,
        Arc::clone(&context),
        branch.clone(),
        last_line,
    )
    .await?;
    let started = NewLine::system(RUN_STARTED, if was_there { "resumed" } else { "started" })
        .with_data(&serde_json::json!({ "runId": plan.run_id, "model": core.model.full, "agentType": core.definition.name }));
    let mut lines = Vec::new();
    if let Some(seed) = seed.as_ref().filter(|_| !was_there) {
        lines.push(
            NewLine::system(FORK_ORIGIN, "a fork of the conversation up to this line")
                .with_data(&seed.origin),
        );
    }
    lines.push(started);
    let was_cut = !open_calls.is_empty();
    let left = if was_there { core.broker.left(&context, &open_calls).await? } else { Vec::new() };
    if was_cut && left.is_empty() {
        let results = open_calls.iter().map(|id| Block::tool_result(id, INTERRUPTED, true)).collect();
        let message = ChatMessage::user(results);
        filled = filled.map(|tokens| tokens + context_size::of_message(&message));
        lines.push(NewLine::message(&message, None));
        history.push(message);
    }
    transcript.append(lines).await?;
    // What a fork has compacted is its parent's no more.
    let forked = seed.map(Seed::forked).map(|forked| {
        let shared_messages = if compacted { 0 } else { forked.shared_messages };
        Forked { shared_messages, shares: !compacted, ..forked }
    });
    let mut agent = Agent::new(
        core,
        prefix,
        tools,
        transcript,
        plan.mailbox,
        history,
        delivered,
        branch,
        plan.max_rounds,
        used,
        forked,
        filled,
    );
    (agent.servers, agent.prefix_file) = (servers, plan.prefix_file);
    agent.left = Some(left).filter(|left| !left.is_empty()).zip(message);
    if !before.is_empty() {
        runtime.observer.event(&context, &AgentEvent::Restored(used.0, used.1));
    }
    Ok(Built { agent, notices, unanswered: unanswered || was_cut, restored: was_there })
}

/// Renders what an agent sends first, or takes what an earlier run of it has sent.
async fn freeze(
    core: &AgentCore,
    tools: &ToolSet,
    addendum: Option<&str>,
    kept: Option<PathBuf>,
    notices: &mut Vec<String>,
) -> Result<PromptPrefix, BuildError> {
    let mut system = core.definition.system_prompt.trim().to_owned();
    if core.definition.name == COORDINATOR {
        system = system.replace("{worker_tools}", &core.child_tool_names().join(", "));
    }
    if let Some(addendum) = addendum {
        system.push_str("\n\n");
        system.push_str(addendum.trim());
    }
    let tuning = Tuning { effort: core.definition.effort.or(core.model.tuning.effort), ..core.model.tuning };
    let prefix = core.model.provider.freeze(&core.model.name, &system, &declarations(tools), &tuning);
    let Some(path) = kept else { return Ok(prefix) };
    let fresh =
        Fresh { provider: core.model.provider.name(), prefix, tool_names: core.tool_names().to_vec() };
    let file = path.clone();
    let (prefix, changed) = core.runtime.disk.run(&file, move || prefix_file::settle(&path, fresh)).await?;
    if changed {
        notices.push(
            "model, effort or tools have changed since the last run: the prompt cache starts anew".to_owned(),
        );
    }
    Ok(prefix)
}

/// The tools of a fork: those that its parent has declared, as far as it can have them. The others stay
/// declared and are refused when they are called.
fn forks_tools(
    core: &Arc<AgentCore>,
    mailbox: Option<&Arc<dyn Mailbox>>,
    servers: &Servers,
    seed: &Seed,
) -> ToolSet {
    let mut all = core.runtime.toolkit.tools(core, mailbox);
    all.extend(servers.tools(Some(&seed.tool_names)));
    core.set_tool_names(seed.tool_names.clone());
    ToolSet::new(all.into_iter().filter(|tool| seed.tool_names.contains(&tool.spec().name)))
}

fn choose_tools(
    core: &Arc<AgentCore>,
    mailbox: Option<&Arc<dyn Mailbox>>,
    servers: &Servers,
    parent: Option<&[String]>,
    always: &[String],
    notices: &mut Vec<String>,
) -> Result<ToolSet, BuildError> {
    let all = core.runtime.toolkit.tools(core, mailbox);
    let (tier, mode) = (core.context.tier, core.permissions.mode());
    let may = |name: &String| {
        parent.is_none_or(|names| names.contains(name)) && tool_rules::refusal(name, tier, mode).is_none()
    };
    let mut offered: Vec<_> =
        all.into_iter().filter(|t| may(&t.spec().name) && web::offers(core, &**t)).collect();
    offered.extend(servers.tools(parent));
    let definition = &core.definition;
    if definition.name == COORDINATOR {
        core.set_given_up(offered.iter().map(|tool| tool.spec().name.clone()).collect());
    }
    let choice = with_always(&definition.tools, always);
    let chosen = ToolSet::new(offered).select(&choice, &definition.disallowed_tools);
    let (tools, removed) =
        chosen.map_err(|names| BuildError::NoTools { definition: definition.name.clone(), names })?;
    if !removed.is_empty() && definition.name != GENERAL_PURPOSE && definition.tools != ToolChoice::All {
        notices.push(format!("{} runs without {}", core.context.label(), removed.join(", ")));
    }
    core.set_tool_names(tools.iter().map(|t| t.spec().name.clone()).collect());
    Ok(tools)
}

/// A list of tools with those added that the tier always has.
pub fn with_always(choice: &ToolChoice, always: &[String]) -> ToolChoice {
    match choice {
        ToolChoice::List(names) if !names.iter().all(|n| n.starts_with('!')) => {
            let missing = always.iter().filter(|n| !names.contains(n));
            ToolChoice::List(names.iter().chain(missing).cloned().collect())
        }
        other => other.clone(),
    }
}
