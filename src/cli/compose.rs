//! The composition root: from a setup to a leader with its team, or to a worker.
//!
//! The only place that knows every layer and wires them together.

use super::backends::{backends, teammate_mode};
use super::background::background;
use super::blueprint;
use super::cleanup;
use super::ending;
use super::error::CliError;
use super::forks;
use super::kinds;
use super::mcp::{self, Configured, Sources};
use super::setup::{Setup, no_model};
use super::spent::{self, Before};
use super::trust::{self, Trust};
use crate::agent::background::progress::Progress;
use crate::agent::budget::Budget;
use crate::agent::build::{AgentPlan, build};
use crate::agent::checkpoint::Checkpoints;
use crate::agent::context::{AgentContext, Tier, spawn_in};
use crate::agent::definition_sources::Discovery;
use crate::agent::definitions::{self, Definitions, Kinds};
use crate::agent::events::{Fan, Observer};
use crate::agent::first::Known;
use crate::agent::fork::rule::Forks;
use crate::agent::hooks::Hooks;
use crate::agent::kept::KeptSources;
use crate::agent::limits::Slots;
use crate::agent::permissions::Permissions;
use crate::agent::runtime::{Model, ModelSource, Runtime};
use crate::agent::tally::Tally;
use crate::agent::web::SharedWeb;
use crate::agent::worktree::{Carry, KeptList, Nursery};
use crate::exec::tmux;
use crate::model::connect::{ConnectOptions, Connections};
use crate::model::limiter::Limiters;
use crate::model::masked::Masked;
use crate::model::prices::PriceTable;
use crate::model::provider::{ModelError, ModelErrorKind, ModelProvider};
use crate::model::record::Recording;
use crate::model::registry::{ModelRef, Names};
use crate::model::tuning::Tunings;
use crate::os::file::resolve;
use crate::os::{guard, process};
use crate::policy::rule;
use crate::store::error::StoreError;
use crate::store::roster::Roster;
use crate::store::{clock, lock, run};
use crate::team::ask_hooks::AskHooks;
use crate::team::backoff::TeamGate;
use crate::team::bubble::{FileBroker, Tell};
use crate::team::budget::{self, LimitLog};
use crate::team::context::Team;
use crate::team::denials::DenialLog;
use crate::team::executor::{RunnerControl, RunnerExit};
use crate::team::kept::KeptTeam;
use crate::team::lead::Lead;
use crate::team::lifecycle::Insistence;
use crate::team::mailbox::FileMailbox;
use crate::team::orphan;
use crate::team::registry::BackendRegistry;
use crate::team::reporter::{Reporter, Reporters};
use crate::team::session::{self, TeamTitle};
use crate::team::spawn::SpawnDefaults;
use crate::team::supervisor::{StopOutcome, Supervisor, SupervisorParts};
use crate::team::teammate::{self, AskRoute, Host};
use crate::team::verbs::Kit;
use crate::tools;
use crate::wire::definition::AgentDefinition;
use crate::wire::error::ExitKind;
use crate::wire::ids::{AgentId, AgentName, RunId, SessionId, TeamName};
use crate::wire::ledger::Used;
use crate::wire::limits::{MAX_DEPTH, TOOL_CONCURRENCY};
use crate::wire::mask::Mask;
use crate::wire::mcp::McpServer;
use crate::wire::permission::{Behavior, PermissionMode, Rule, RuleSource};
use crate::wire::run::{AgentState, RunRecord};
use crate::wire::team::BackendType;
use crate::wire::usage::Usage;
use crate::wire::worker::{AskPolicy, WorkerSpec};
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Finds models by name.
struct Models {
    names: Names,
    connections: Connections,
    tunings: Tunings,
    base: PathBuf,
    /// Where answers are recorded, and the one provider that is.
    record: Option<PathBuf>,
    mask: Mask,
    recorded: OnceLock<(&'static str, Arc<dyn ModelProvider>)>,
    /// With a bound on money, a model of unknown price is none that can be used.
    must_be_priced: Option<PriceTable>,
}

impl Models {
    /// The provider, behind a recording when one is asked for. A recording holds one provider.
    fn recorded(&self, provider: Arc<dyn ModelProvider>) -> Result<Arc<dyn ModelProvider>, ModelError> {
        let Some(path) = &self.record else { return Ok(provider) };
        let name = provider.name();
        let (first, recording) = self
            .recorded
            .get_or_init(|| (name, Arc::new(Recording::new(provider, path)) as Arc<dyn ModelProvider>));
        if *first == name {
            return Ok(Arc::clone(recording));
        }
        let what =
            format!("{} records the answers of {first} and cannot hold those of {name} too", path.display());
        Err(ModelError::new(ModelErrorKind::Refused, what))
    }
}

impl ModelSource for Models {
    fn find(&self, wanted: &str, parent: &str) -> Result<Model, ModelError> {
        let wrong = |e: crate::model::registry::ModelSetupError| {
            ModelError::new(ModelErrorKind::Refused, e.to_string())
        };
        let parent: ModelRef = parent.parse().map_err(wrong)?;
        let found = self.names.resolve(wanted, &parent).map_err(wrong)?.anchored(&self.base);
        let full = found.to_string();
        if let Some(prices) = &self.must_be_priced
            && prices.cost(&full, &Usage::default()).0.is_none()
        {
            let what = format!("the price of {full} is not known, and the session's cost is bounded");
            return Err(ModelError::new(ModelErrorKind::Refused, what));
        }
        let provider = self.connections.get(&found).map_err(wrong)?;
        let provider = self.recorded(Arc::new(Masked::new(provider, self.mask.clone())))?;
        Ok(Model {
            full,
            context_tokens: self.tunings.context_tokens(&found),
            tuning: self.tunings.tuning(&found),
            name: found.name,
            provider,
        })
    }
}

/// What a leader is to be.
pub struct LeadPlan<'a> {
    /// Its model.
    pub model: ModelRef,
    /// What its team is called, unless an old session's team is taken over.
    pub title: TeamTitle<'a>,
    /// A session to go on with; `None` starts a new one.
    pub resume: Option<SessionId>,
    /// Who answers asks.
    pub asks: AskPolicy,
    /// Kinds of agents beside the built-in ones.
    pub definitions: Vec<AgentDefinition>,
    /// Who sees what happens.
    pub observers: Vec<Arc<dyn Observer>>,
    /// Its mode when flags and settings name none.
    pub default_mode: PermissionMode,
    /// Rules beside those of flags and settings.
    pub rules: Vec<Rule>,
}

/// A leader at work.
pub struct Session {
    /// The main agent and its team.
    pub lead: Lead,
    /// The team.
    pub team: Team,
    /// What all agents share.
    pub runtime: Arc<Runtime>,
    /// The session.
    pub id: SessionId,
    /// Where new teammates run.
    pub backend: BackendType,
    /// Why there, in one line, with what a person can type to look.
    pub backend_reason: String,
    /// What a person should know before the first turn.
    pub warnings: Vec<String>,
    /// What became of the teammates of a dead leader, a sentence each.
    pub taken_over: Vec<String>,
    /// What had been used before this run.
    pub before: Before,
    /// What hooks have seen of the asks.
    pub ask_hooks: Arc<AskHooks>,
    /// MCP servers that are configured and cannot be used, a sentence each.
    pub unusable_servers: Vec<String>,
    /// True when the resumed conversation ends with something the model has not answered.
    pub unanswered: bool,
    backends: BackendRegistry,
    pub(super) stop: CancellationToken,
    /// Ends with the conversation: `/clear` begins another.
    pub(super) life: CancellationToken,
    /// What a main agent of this session is made from.
    pub(super) origin: Origin,
    /// Sessions that this process has left by `/clear`; their locks are still its own.
    pub(super) left: Vec<SessionId>,
}

/// What a main agent of a session is made from.
pub(super) struct Origin {
    full: String,
    definition: AgentDefinition,
    rules: Vec<Rule>,
    asks: AskPolicy,
}

/// The permission mode in force: flag, settings, else `fallback`.
pub fn permission_mode(setup: &Setup, fallback: PermissionMode) -> Result<PermissionMode, CliError> {
    match &setup.shared.permission_mode {
        None => Ok(setup.loaded.settings.permissions.default_mode.unwrap_or(fallback)),
        Some(name) => PermissionMode::from_name(name).ok_or_else(|| {
            let names: Vec<&str> = PermissionMode::NAMES.iter().map(|(n, _)| *n).collect();
            CliError::usage(
                format!("--permission-mode {name}: no such mode"),
                format!("one of {}", names.join(", ")),
            )
        }),
    }
}

/// Flags as rules; a list may be separated by commas outside parentheses.
fn flag_rules(setup: &Setup) -> Result<Vec<Rule>, CliError> {
    let shared = &setup.shared;
    let lists = [
        (Behavior::Allow, &shared.allowed_tools, "--allowed-tools"),
        (Behavior::Deny, &shared.disallowed_tools, "--disallowed-tools"),
    ];
    let mut rules = Vec::new();
    for (behavior, texts, flag) in lists {
        for text in texts.iter().flat_map(|t| rule::split_list(t)).filter(|t| !t.is_empty()) {
            rule::check(&text).map_err(|e| {
                CliError::usage(format!("{flag} {text:?}: {e}"), "for example Bash(git log:*)")
            })?;
            rules.push(Rule { text, behavior, source: RuleSource::CommandLine });
        }
    }
    Ok(rules)
}

fn make_runtime(
    setup: &Setup,
    kit: Arc<Kit>,
    definitions: Definitions,
    servers: Vec<McpServer>,
    mut observers: Vec<Arc<dyn Observer>>,
    team: &Team,
    asks: AskPolicy,
) -> Result<Arc<Runtime>, CliError> {
    let settings = &setup.loaded.settings;
    let ledger =
        budget::shared(team).map_err(|e| CliError::new(ExitKind::Failed, "process", e.to_string(), ""))?;
    let slots = Arc::new(Slots::new(settings.limits.max_depth.unwrap_or(MAX_DEPTH), ledger.clone()));
    let progress = Arc::new(Progress::default());
    observers.push(progress.clone());
    let observer: Arc<dyn Observer> = Arc::new(Fan(observers));
    let forks = forks::rule(settings, asks);
    let background = background(setup, team, &slots, &observer, progress, forks == Forks::Implicit);
    let options = setup.connect_options();
    let environment = Arc::new(setup.environment.for_tools(&settings.env, team.name().as_str()));
    let mcp = mcp::start(servers, &environment, options.http.clone(), &setup.cwd);
    let web = SharedWeb::new(options.http.clone());
    let models = Models {
        names: Names::new(&settings.aliases),
        connections: Connections::new(ConnectOptions {
            limiters: Limiters::shared(Arc::new(TeamGate::new(team.clone()))),
            ..options
        }),
        tunings: Tunings::new(settings),
        base: setup.cwd.clone(),
        record: setup.shared.record.as_ref().map(|path| setup.cwd.join(path)),
        recorded: OnceLock::new(),
        mask: setup.environment.mask(),
        must_be_priced: settings.limits.max_cost.map(|_| PriceTable::new(&settings.prices)),
    };
    Ok(Arc::new(Runtime {
        paths: setup.paths.clone(),
        disk: setup.disk.clone(),
        models: Arc::new(models),
        observer,
        journal: Arc::new(team.clone()),
        gates: Arc::new(Hooks::new(settings.hooks.clone(), Arc::clone(&environment))),
        toolkit: kit,
        mcp,
        definitions,
        background,
        slots,
        budget: Budget::new(ledger),
        forks,
        mask: setup.environment.mask(),
        prices: PriceTable::new(&settings.prices),
        surroundings: Known::default(),
        checkpoints: Checkpoints::default(),
        compaction: settings.compaction,
        kept: KeptSources::default(),
        tally: Tally::default(),
        web,
        environment,
        tool_concurrency: settings.limits.tool_concurrency.unwrap_or(TOOL_CONCURRENCY),
        nursery: nursery(setup),
        home: setup.environment.home(),
        platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
    }))
}

/// Where isolated agents get their worktrees.
pub(super) fn nursery(setup: &Setup) -> Nursery {
    Nursery {
        root: setup.paths.worktrees().to_owned(),
        environment: Arc::new(setup.environment.for_tools(&BTreeMap::new(), "git")),
        guard: PathBuf::from(guard::SELF_EXE),
        carry: if setup.loaded.settings.worktree.carry { Carry::Along } else { Carry::Refuse },
        cleanup: TaskTracker::new(),
        kept: KeptList::default(),
    }
}

/// Starts a leader: session, team, main agent.
pub async fn lead(setup: &Setup, plan: LeadPlan<'_>) -> Result<Session, CliError> {
    // Everything that can be refused is looked at before anything is made.
    let full = plan.model.to_string();
    spent::check_prices(setup, &[&full])?;
    Connections::new(setup.connect_options()).get(&plan.model).map_err(no_model)?;
    let mode = permission_mode(setup, plan.default_mode)?;
    let discovery = kinds::found(setup, setup.shared.agents.as_deref());
    if let Some(why) = discovery.errors.iter().find(|e| e.starts_with("--agents: ")) {
        return Err(CliError::usage(
            why.clone(),
            r#"for example {"reviewer": {"description": "…", "prompt": "…"}}"#,
        ));
    }
    let definitions = kinds::live(setup, setup.shared.agents.as_deref(), plan.definitions);
    let servers = mcp::configured(Sources {
        cwd: &setup.cwd,
        loaded: &setup.loaded,
        trust: setup.trust,
        given: &setup.shared.mcp_config,
        environment: &setup.environment,
    })?;
    let definition = main_definition(setup, &definitions.kinds())?;
    let mut rules = flag_rules(setup)?;
    rules.extend(setup.loaded.rules.iter().cloned());
    rules.extend(plan.rules);
    teammate_mode(setup)?;
    let resumes = plan.resume.is_some();
    let id = plan
        .resume
        .unwrap_or_else(|| setup.shared.session_id.clone().map_or_else(SessionId::generate, SessionId::new));
    claim_session(setup, &id, resumes).await?;
    cleanup::start(setup);
    let left = if resumes {
        let said = setup.paths.project(&setup.cwd).transcript(&id);
        let left = session::take_over(&setup.paths, &setup.disk, &said, &id, setup.durability()).await;
        left.map_err(|e| who_leads(setup, e))?
    } else {
        None
    };
    let takes_over = left.is_some();
    let team = match left {
        Some(team) => team,
        None => {
            let made = session::create(&setup.paths, &setup.disk, plan.title, &id, setup.durability()).await;
            made.map_err(|e| who_leads(setup, e))?
        }
    };
    let stop = CancellationToken::new();
    let checked = Checked {
        full,
        mode,
        definitions,
        definition,
        discovery,
        servers,
        rules,
        asks: plan.asks,
        observers: plan.observers,
        id,
        resumes,
        takes_over,
    };
    let session = assemble(setup, checked, team.clone(), stop.clone()).await;
    if session.is_err() {
        stop.cancel();
        let removed = match takes_over {
            true => session::remove_if_unused(&team, || Ok(())).await.map(drop),
            // Whatever is in it is of this start.
            false => session::remove(&team).await,
        };
        if let Err(error) = removed {
            tracing::warn!(%error, "the team of a leader that did not start could not be removed");
        }
    }
    session
}

/// Why a team cannot be had: another process leads it.
fn who_leads(setup: &Setup, error: StoreError) -> CliError {
    let StoreError::Exists { path } = &error else { return error.into() };
    let name = path.parent().and_then(|dir| TeamName::new(dir.file_name()?.to_str()?).ok());
    let Some(paths) = name.map(|name| setup.paths.team(&name)) else { return error.into() };
    if !lock::is_held(&paths.leader_lock()).unwrap_or(false) {
        return error.into();
    }
    let team = paths.name();
    let who = match run::load(&paths, &AgentName::team_lead()) {
        Ok(Some(record)) => format!("process {} on {}", record.pid, record.host),
        Ok(None) | Err(_) => "another process".to_owned(),
    };
    CliError::new(
        ExitKind::Failed,
        "team_in_use",
        format!("the team {team} is led by {who}"),
        format!("`festoon ps` shows it, `festoon team stop {team}` ends its members; end that process first"),
    )
}

/// What a leader is made from, once nothing in it can be refused.
struct Checked {
    full: String,
    mode: PermissionMode,
    definitions: Definitions,
    definition: AgentDefinition,
    discovery: Discovery,
    servers: Configured,
    rules: Vec<Rule>,
    asks: AskPolicy,
    observers: Vec<Arc<dyn Observer>>,
    id: SessionId,
    resumes: bool,
    takes_over: bool,
}

/// The leader of a team that is there. After an error the caller takes the team back.
async fn assemble(
    setup: &Setup,
    checked: Checked,
    team: Team,
    stop: CancellationToken,
) -> Result<Session, CliError> {
    let Checked { full, mode, definitions, definition, discovery, servers, rules, asks, id, .. } = checked;
    let (resumes, takes_over) = (checked.resumes, checked.takes_over);
    let project = setup.paths.project(&setup.cwd);
    let reporters = Arc::new(Reporters::default());
    let is_first = spent::begin(setup, &team, &id).await?;
    let mut observers: Vec<Arc<dyn Observer>> =
        vec![reporters.clone(), Arc::new(LimitLog::new(team.clone()))];
    observers.extend(checked.observers);
    let kit = Arc::new(Kit::new(tools::all(), team.clone()));
    let runtime =
        make_runtime(setup, Arc::clone(&kit), definitions, servers.servers, observers, &team, asks)?;

    runtime.kept.add(Arc::new(KeptTeam::new(team.clone())));
    let host = Host {
        runtime: Arc::clone(&runtime),
        team: team.clone(),
        reporters: Arc::clone(&reporters),
        asks: AskRoute::Memory,
    };
    let (registry, backend, backend_reason) = backends(setup, &team, &host).await?;
    let context = lead_context(setup, &team, &id);
    let supervisor = Supervisor::start(
        SupervisorParts {
            team: team.clone(),
            lead: Arc::new(context.clone()),
            background: runtime.background.clone(),
            backends: registry.clone(),
            defaults: SpawnDefaults {
                backend,
                asks,
                retry: setup.loaded.settings.retry.clone(),
                settings: setup.loaded.settings.clone(),
                environment: setup.environment.all().clone(),
                trusted: setup.trust == Trust::Full,
            },
            shutdown: setup.loaded.settings.shutdown.clone(),
            nursery: runtime.nursery.clone(),
            gates: Arc::clone(&runtime.gates),
        },
        stop.clone(),
    );
    if setup.loaded.settings.teams != Some(false) {
        kit.lead(supervisor.clone());
    }
    let mailbox = Arc::new(FileMailbox::new(team.clone(), AgentName::team_lead(), 1, None));
    let run_id = RunId::generate();
    let origin = Origin { full: full.clone(), definition, rules, asks };
    let agent_plan = main_plan(setup, &origin, &runtime, &context, mode, mailbox.clone(), &run_id)?;
    let record = lead_record(&team, &run_id, full.clone())?;
    let reporter = Arc::new(Reporter::new(team.clone(), AgentName::team_lead(), record));
    reporter.set_mode(mode);
    reporters.add(&reporter);
    runtime.checkpoints.keep_in(project.checkpoints(&id), None);
    let built = build(&runtime, agent_plan).await?;
    let unanswered = resumes && built.unanswered;
    reporter.set_state(AgentState::Starting).await?;
    if is_first {
        let RunRecord { usage, cost, .. } = reporter.record();
        spent::seed(&team, &runtime, &full, Used { usage, cost }).await?;
    }
    let before = spent::before(&runtime).await?;
    spent::check_before(setup, &before)?;
    reporter.set_state(AgentState::Idle).await?;
    drop(spawn_in(&context, Arc::clone(&reporter).flush(stop.clone())));
    let life = stop.child_token();
    let ask_hooks = AskHooks::start(team.clone(), Arc::clone(built.agent.core()), life.clone());
    let lead = Lead::new(built.agent, mailbox, supervisor, reporter, reporters, asks, &life);
    let mut warnings = setup.loaded.warnings.clone();
    warnings.extend(trust::warning(&setup.cwd, &setup.withheld()));
    warnings.extend(trust::widening(&setup.cwd, &setup.loaded.widens));
    warnings.extend(servers.errors.iter().cloned().chain(servers.warnings));
    warnings.extend(discovery.errors.into_iter().chain(discovery.warnings));
    warnings.extend(built.notices);
    if let Some(crew) = setup.crew.as_ref().filter(|_| !takes_over) {
        blueprint::fill(&team, crew).await?;
    }
    let mut taken_over = if takes_over { lead.supervisor.take_over().await } else { Vec::new() };
    taken_over.extend(runtime.background.reconcile(&context).await?);
    Ok(Session {
        lead,
        team,
        runtime,
        id,
        backend,
        backend_reason,
        warnings,
        taken_over,
        before,
        ask_hooks,
        unanswered,
        unusable_servers: servers.errors,
        backends: registry,
        stop,
        life,
        origin,
        left: Vec::new(),
    })
}

/// The main agent of a session.
pub(super) fn main_plan(
    setup: &Setup,
    origin: &Origin,
    runtime: &Arc<Runtime>,
    context: &AgentContext,
    mode: PermissionMode,
    mailbox: Arc<FileMailbox>,
    run_id: &RunId,
) -> Result<AgentPlan, CliError> {
    let project = setup.paths.project(&setup.cwd);
    let id = &context.session;
    let broker = FileBroker::new(mailbox.team().clone(), origin.asks, Tell::Nobody);
    Ok(AgentPlan {
        context: context.clone(),
        definition: origin.definition.clone(),
        model: runtime.models.find(&origin.full, &origin.full)?,
        permissions: permissions(setup, mode, origin.rules.clone(), project.output_dir(id)),
        parent_tools: None,
        always_tools: Vec::new(),
        mailbox: Some(mailbox),
        broker: Arc::new(broker),
        transcript: project.transcript(id),
        prefix_file: Some(project.prefix(id)),
        run_id: run_id.clone(),
        prompt_addendum: setup.shared.append_system_prompt.clone(),
        slot: None,
        fork: None,
        max_rounds: setup.shared.max_turns,
    })
}

fn permissions(setup: &Setup, mode: PermissionMode, rules: Vec<Rule>, output_dir: PathBuf) -> Permissions {
    let mut project = vec![setup.cwd.clone()];
    let more = setup.loaded.settings.permissions.additional_directories.iter().map(PathBuf::from);
    project.extend(setup.shared.add_dir.iter().cloned().chain(more).map(|d| resolve(&setup.cwd.join(d))));
    let home = setup.environment.home();
    let closed = setup.paths.closed().iter().map(|d| resolve(d)).collect();
    Permissions::new(mode, rules, setup.cwd.clone(), project, home, closed, resolve(&output_dir))
}

pub(super) async fn claim_session(setup: &Setup, id: &SessionId, resumes: bool) -> Result<(), CliError> {
    let project = setup.paths.project(&setup.cwd);
    let (paths, session) = (setup.paths.clone(), id.clone());
    let lock = project.session_lock(id);
    let transcript = project.transcript(id);
    let free = setup
        .disk
        .run(&lock, move || {
            paths.ensure_root()?;
            project.make_session(&session)?;
            lock::hold_for_life(&project.session_lock(&session), "session")
        })
        .await?;
    if !free {
        return Err(CliError::new(
            ExitKind::Failed,
            "session_in_use",
            format!("the session {id} is open in another process"),
            "end that one first, or start a new session",
        ));
    }
    if resumes {
        return Ok(());
    }
    if transcript.exists() {
        return Err(CliError::usage(
            format!("there is already a session {id}: {}", transcript.display()),
            "choose another --session-id",
        ));
    }
    Ok(())
}

/// What the main agent runs: its own definition, or the one that `--agent` names.
fn main_definition(setup: &Setup, definitions: &Kinds) -> Result<AgentDefinition, CliError> {
    let mut definition = match &setup.shared.agent {
        None if setup.coordinates() => definitions::coordinator(),
        None => definitions::main_agent(),
        Some(name) => definitions.get(name).cloned().ok_or_else(|| {
            let names = definitions.names().join(", ");
            CliError::usage(
                format!("--agent {name}: there is no such kind of agent"),
                format!("one of {names}"),
            )
        })?,
    };
    if let Some(text) = &setup.shared.system_prompt {
        definition.system_prompt.clone_from(text);
    }
    Ok(definition)
}

pub(super) fn lead_context(setup: &Setup, team: &Team, id: &SessionId) -> AgentContext {
    AgentContext {
        made_as: AgentId::member(&AgentName::team_lead(), &team.name()),
        name: Some(AgentName::team_lead()),
        agent_type: definitions::MAIN.to_owned(),
        tier: Tier::Main,
        team: team.label.clone(),
        root: AgentName::team_lead(),
        incarnation: 1,
        color: None,
        depth: 0,
        query_source: "main".to_owned(),
        session: id.clone(),
        session_cwd: setup.cwd.clone(),
        task: None,
        parent_tool_use_id: None,
        cwd: setup.cwd.clone(),
    }
}

fn lead_record(team: &Team, run_id: &RunId, model: String) -> Result<RunRecord, CliError> {
    let process =
        process::current().map_err(|e| CliError::new(ExitKind::Failed, "process", e.to_string(), ""))?;
    let id = AgentId::member(&AgentName::team_lead(), &team.name());
    Ok(RunRecord { model: Some(model), ..RunRecord::starting(&id, 1, run_id, process, clock::now()) })
}

impl Session {
    /// Ends in order: teammates first (with `keep_panes` those in panes stay), then the record, then the
    /// team if nobody needed it. Returns what could not be ended as it should.
    pub async fn finish(self, keep_panes: bool) -> Vec<String> {
        let transcript = self.lead.agent.transcript();
        let mut troubles = ending::stop_background(&self.runtime.background, transcript).await;
        let supervisor = &self.lead.supervisor;
        let mut ending = supervisor.living().await;
        if keep_panes {
            match self.team.bound_to_leader(&ending).await {
                Ok(bound) => ending = bound,
                Err(error) => troubles.push(format!("nobody is kept: {error}")),
            }
        }
        let why = "the leader ends";
        let stops = ending.into_iter().map(|name| async move {
            let outcome = supervisor.stop(&name, "team-lead", why, Insistence::Insist, true).await;
            (name, outcome)
        });
        for (name, outcome) in join_all(stops).await {
            let why = match outcome {
                StopOutcome::Over(end) if end.state == AgentState::Stopped => continue,
                StopOutcome::Over(end) => format!("{} ({})", end.reason, end.exit),
                StopOutcome::Refused(reason) => format!("it refused: {reason}"),
                StopOutcome::NotThere => "it was gone already".to_owned(),
            };
            troubles.push(format!("{name} did not end in order: {why}"));
        }
        self.backends.close().await;
        self.lead.agent.core().let_go().await;
        self.runtime.mcp.close().await;
        self.runtime.nursery.settle().await;
        let kept = self.runtime.nursery.kept.all();
        troubles.extend(kept.iter().filter(|kept| kept.tree.path.is_dir()).map(ending::kept));
        if let Err(error) = self.lead.reporter.set_state(AgentState::Stopped).await {
            troubles.push(error.to_string());
        }
        self.stop.cancel();
        if let Err(error) = spent::leave(&self.runtime, &self.lead.agent.core().context, &self.team).await {
            troubles.push(error.to_string());
        }
        troubles
    }
}

/// Runs one teammate in this process, from its spec file.
pub async fn worker(
    setup: &Setup,
    spec: WorkerSpec,
    observers: Vec<Arc<dyn Observer>>,
    control: RunnerControl,
) -> Result<RunnerExit, CliError> {
    let team = session::open(&setup.paths, &setup.disk, &spec.team, setup.durability()).await?;
    let (load, file) = (team.paths.clone(), team.paths.team_file());
    let listed = setup.disk.run(&file, move || Roster::load(&load)).await?;
    let is_listed = listed.is_some_and(|t| t.members.iter().any(|m| m.agent_id == spec.agent_id));
    if !is_listed {
        return Err(CliError::usage(
            format!("{} is not in the roster of {}", spec.name, spec.team),
            "a worker is started by its leader, not by hand",
        ));
    }
    let reporters = Arc::new(Reporters::default());
    let mut all: Vec<Arc<dyn Observer>> = vec![
        reporters.clone(),
        Arc::new(LimitLog::new(team.clone())),
        Arc::new(DenialLog::new(team.clone())),
    ];
    all.extend(observers);
    let kit = Arc::new(Kit::new(tools::all(), team.clone()));
    // A kind that only this session knows was resolved by the leader before it got here.
    let servers = spec.mcp_servers.clone();
    let definitions = kinds::live(setup, None, Vec::new());
    let runtime = make_runtime(setup, kit, definitions, servers, all, &team, spec.asks)?;
    let what = setup.loaded.settings.orphaned_workers;
    let watch =
        orphan::watch(team.clone(), spec.name.clone(), spec.incarnation, what, control.cancel.clone());
    drop(spawn_in(&teammate::context(&spec), watch));
    runtime.kept.add(Arc::new(KeptTeam::new(team.clone())));
    let host = Host { runtime: Arc::clone(&runtime), team: team.clone(), reporters, asks: AskRoute::Mail };
    let exit = teammate::run(host, spec, control).await;
    runtime.mcp.close().await;
    if orphan::is_alone(&team).await
        && let Err(error) = tmux::release_own_pane(setup.environment.all(), std::process::id()).await
    {
        tracing::warn!(%error, "the pane may stay after its worker has ended");
    }
    Ok(exit)
}
