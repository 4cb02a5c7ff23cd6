//! Agents for tests: real disks, ledgers, registries and loops; only the model plays a script and the
//! tools misbehave on demand.

use super::background::progress::Progress;
use super::background::{Background, Parts};
use super::budget::Budget;
use super::build::{AgentPlan, build};
use super::checkpoint::Checkpoints;
use super::context::{AgentContext, TeamLabel, Tier};
use super::core::AgentCore;
use super::definitions::{self, Definitions, GENERAL_PURPOSE};
use super::disk::Disk;
use super::events::{AgentEvent, Observer};
use super::first::Known;
use super::fork::rule::Forks;
use super::gates::{GateEvent, GateOutcome, Gates, Scene};
use super::kept::KeptSources;
use super::limits::{Shared, Slots};
use super::mcp::Mcp;
use super::permissions::Permissions;
use super::ports::*;
use super::runtime::{Model, ModelSource, Runtime, Toolkit};
use super::subagent::SubagentRequest;
use super::tally::Tally;
use super::turn::Agent;
use super::web::SharedWeb;
use super::worktree::{Carry, KeptList, Nursery};
use crate::model::http::HttpClient;
use crate::model::prices::PriceTable;
use crate::model::provider::ModelError;
use crate::model::script::Script;
use crate::model::scripted::Scripted;
use crate::model::scripted::gates::Gates as Gate;
use crate::model::tuning::Tuning;
use crate::os::process;
use crate::store::clock;
use crate::store::error::StoreError;
use crate::store::ledger::Ledger;
use crate::store::paths::Paths;
use crate::tools::context::ToolContext;
use crate::tools::mcp::Host;
use crate::tools::mcp::pool::Pool;
use crate::tools::tool::{Concurrency, Tool, ToolCall, ToolOutput, ToolSpec};
use crate::wire::access::{Access, Target};
use crate::wire::event::EventKind;
use crate::wire::hooks::HookEvent;
use crate::wire::ids::{AgentId, AgentName, AskId, MessageId, RunId, SessionId, TeamName};
use crate::wire::ledger::Bounds;
use crate::wire::mail::{Claimed, Draft, Message, Origin, Receipt};
use crate::wire::permission::{Decision, PermissionMode};
use crate::wire::settings::{CompactionSettings, LimitSettings};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The tools, under names that any agent may have: leaves a command running; panics; hears no cancel.
const LEAVES: &str = "Bash";
const PANICS: &str = "Glob";
const IS_DEAF: &str = "Grep";

/// How long anything may take before a test fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for a condition.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !holds() {
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    assert!(waited.await.is_ok(), "{what}");
}

/// A process's worth of agents.
pub struct Bench {
    _dir: tempfile::TempDir,
    pub runtime: Arc<Runtime>,
    pub ledger: Ledger,
    pub kit: Arc<Kit>,
    pub post: Arc<Post>,
    pub seen: Arc<Seen>,
    pub main: Agent,
}

impl Bench {
    /// A main agent whose model, like that of all below it, plays `script`.
    pub async fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        let paths = Paths::from_home(&dir.path().join("home"));
        let cwd = dir.path().join("project");
        std::fs::create_dir_all(&cwd).expect("project");
        let team = paths.team(&TeamName::new("t").expect("slug"));
        team.make().expect("team");
        let disk = Disk::start().expect("disk");
        let ledger = Ledger::new(&team, process::current().expect("lives"), process::is_alive);
        ledger.begin(Bounds::new(&LimitSettings::default()), None).expect("ledger");
        let shared = Shared::new(disk.clone(), ledger, Arc::new(Never));
        let ledger = Ledger::new(&team, process::current().expect("lives"), process::is_alive);
        let slots = Arc::new(Slots::new(3, shared.clone()));
        let (kit, post, seen) =
            (Arc::new(Kit::default()), Arc::new(Post::default()), Arc::new(Seen::default()));
        let observer: Arc<dyn Observer> = seen.clone();
        let script = Script::parse(&dir.path().join("script.toml"), script).expect("script");
        let model = Model {
            full: "scripted:x".to_owned(),
            name: "x".to_owned(),
            context_tokens: 100_000,
            tuning: Tuning::default(),
            provider: Arc::new(Scripted::new(script, Gate::default())),
        };
        let host = Host {
            environment: Arc::default(),
            http: Arc::new(|_| Err("no network".to_owned())),
            root: cwd.clone(),
        };
        let runtime = Arc::new(Runtime {
            paths: paths.clone(),
            disk: disk.clone(),
            models: Arc::new(One(model.clone())),
            observer: Arc::clone(&observer),
            journal: Arc::new(Silent),
            gates: Arc::new(Silent),
            toolkit: kit.clone(),
            mcp: Mcp::new(Pool::new(host), Vec::new(), Arc::default(), cwd.clone()),
            definitions: Definitions::new(Vec::new()),
            background: Background::new(Parts {
                paths: paths.clone(),
                disk: disk.clone(),
                slots: Arc::clone(&slots),
                observer,
                progress: Arc::new(Progress::default()),
                post: post.clone(),
                stop_grace: Duration::from_millis(50),
                allowed: true,
                by_default: false,
            }),
            slots,
            budget: Budget::new(shared),
            forks: Forks::Explicit,
            mask: crate::wire::mask::Mask::default(),
            prices: PriceTable::new(&BTreeMap::new()),
            surroundings: Known::default(),
            checkpoints: Checkpoints::default(),
            compaction: CompactionSettings::default(),
            kept: KeptSources::default(),
            tally: Tally::default(),
            web: SharedWeb::new(HttpClient::default()),
            environment: Arc::default(),
            tool_concurrency: 4,
            nursery: Nursery {
                root: dir.path().join("worktrees"),
                environment: Arc::default(),
                guard: PathBuf::from("/proc/self/exe"),
                carry: Carry::Refuse,
                cleanup: TaskTracker::new(),
                kept: KeptList::default(),
            },
            home: None,
            platform: "test".to_owned(),
        });
        let context = AgentContext {
            made_as: AgentId::new("team-lead@t"),
            name: Some(AgentName::team_lead()),
            agent_type: definitions::MAIN.to_owned(),
            tier: Tier::Main,
            team: TeamLabel::new(TeamName::new("t").expect("slug")),
            root: AgentName::team_lead(),
            incarnation: 1,
            color: None,
            depth: 0,
            query_source: "main".to_owned(),
            session: SessionId::generate(),
            session_cwd: cwd.clone(),
            task: None,
            parent_tool_use_id: None,
            cwd: cwd.clone(),
        };
        let project = paths.project(&cwd);
        project.make_session(&context.session).expect("session");
        let output = project.output_dir(&context.session);
        let plan = AgentPlan {
            definition: definitions::main_agent(),
            model,
            permissions: Permissions::new(
                PermissionMode::BypassPermissions,
                Vec::new(),
                cwd.clone(),
                vec![cwd],
                None,
                Vec::new(),
                output,
            ),
            parent_tools: None,
            always_tools: Vec::new(),
            mailbox: None,
            broker: Arc::new(Silent),
            transcript: project.transcript(&context.session),
            context,
            prefix_file: None,
            run_id: RunId::generate(),
            prompt_addendum: None,
            slot: None,
            max_rounds: None,
            fork: None,
        };
        let main = build(&runtime, plan).await.expect("builds").agent;
        Self { _dir: dir, runtime, ledger, kit, post, seen, main }
    }

    /// A call of the main agent for a general-purpose agent.
    pub fn request(&self, prompt: &str) -> SubagentRequest {
        let kinds = self.runtime.definitions.kinds();
        SubagentRequest {
            parent: Arc::clone(self.main.core()),
            tool_use_id: "call".to_owned(),
            description: "a job".to_owned(),
            prompt: prompt.to_owned(),
            definition: kinds.get(GENERAL_PURPOSE).expect("ships").clone(),
            model: None,
            mode: None,
            allowed_tools: None,
            cwd: None,
            isolation: None,
            name: None,
        }
    }

    /// How many agents run, as the ledger has it.
    pub fn running(&self) -> usize {
        self.ledger.read().expect("ledger").holders.iter().map(|holder| holder.running).sum()
    }
}

struct One(Model);

impl ModelSource for One {
    fn find(&self, _: &str, _: &str) -> Result<Model, ModelError> {
        Ok(self.0.clone())
    }
}

/// Hears and says nothing.
struct Silent;

impl Journal for Silent {
    fn log<'a>(&'a self, _: &'a AgentContext, _: EventKind, _: Value) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

impl Gates for Silent {
    fn pass<'a>(
        &'a self,
        _: &'a Scene<'a>,
        _: GateEvent<'a>,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, GateOutcome> {
        Box::pin(async { GateOutcome::default() })
    }
    fn listens(&self, _: HookEvent) -> bool {
        false
    }
}

impl PermissionBroker for Silent {
    fn decide<'a>(&'a self, _: AskRequest, _: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Nobody("a test".to_owned()) })
    }
    fn left<'a>(
        &'a self,
        _: &'a AgentContext,
        _: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<LeftCall>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn close_left<'a>(&'a self, _: &'a AgentContext) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
    fn place(&self) -> AskPlace {
        AskPlace::Here
    }
    fn leaders_mode(&self) -> BoxFuture<'_, PermissionMode> {
        Box::pin(async { PermissionMode::Default })
    }
}

struct Never;

impl Changes for Never {
    fn changed(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// All that was observed.
#[derive(Default)]
pub struct Seen(pub Mutex<Vec<AgentEvent>>);

impl Observer for Seen {
    fn event(&self, _: &AgentContext, event: &AgentEvent) {
        self.0.lock().expect("seen").push(event.clone());
    }
}

impl Seen {
    /// Whether a call of this tool has begun.
    pub fn started(&self, name: &str) -> bool {
        let is_it =
            |event: &AgentEvent| matches!(event, AgentEvent::ToolStarted { tool, .. } if tool == name);
        self.0.lock().expect("seen").iter().any(is_it)
    }
}

/// Tools that misbehave, and the agents that were given them.
#[derive(Default)]
pub struct Kit {
    /// By the order of their building.
    pub cores: Mutex<Vec<Arc<AgentCore>>>,
    /// Commands that were left running and have been ended.
    pub ended: Arc<Mutex<usize>>,
}

impl Toolkit for Kit {
    fn tools(&self, core: &Arc<AgentCore>, _: Option<&Arc<dyn Mailbox>>) -> Vec<Arc<dyn Tool>> {
        self.cores.lock().expect("cores").push(Arc::clone(core));
        let tool = |name: &str| -> Arc<dyn Tool> {
            Arc::new(Odd {
                spec: ToolSpec {
                    name: name.to_owned(),
                    description: "for a test".to_owned(),
                    schema: r#"{"type":"object","properties":{}}"#.into(),
                },
                core: Arc::clone(core),
                ended: Arc::clone(&self.ended),
            })
        };
        vec![tool(LEAVES), tool(PANICS), tool(IS_DEAF)]
    }
}

struct Odd {
    spec: ToolSpec,
    core: Arc<AgentCore>,
    ended: Arc<Mutex<usize>>,
}

impl Tool for Odd {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }
    fn access(&self, _: &Value, _: &Path) -> Access {
        Access { tool: self.spec.name.clone(), target: Target::Nothing, summary: String::new() }
    }
    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Exclusive
    }
    fn run<'a>(&'a self, _: ToolCall, _: &'a ToolContext) -> crate::tools::tool::BoxFuture<'a, ToolOutput> {
        Box::pin(async {
            match self.spec.name.as_str() {
                // As a command with `&` does.
                LEAVES => {
                    let (held, ending) = (self.core.shells.hold(), self.core.shells.ending());
                    let ended = Arc::clone(&self.ended);
                    drop(super::context::spawn_in(&self.core.context, async move {
                        ending.cancelled().await;
                        *ended.lock().expect("ended") += 1;
                        drop(held);
                    }));
                    ToolOutput::ok("left running")
                }
                PANICS => panic!("on purpose"),
                _ => std::future::pending().await,
            }
        })
    }
}

/// Inboxes in memory.
#[derive(Default)]
pub struct Post {
    boxes: Arc<Mutex<BTreeMap<AgentName, Vec<Claimed>>>>,
    stored: Arc<Notify>,
}

impl Post {
    /// What waits in an inbox; `None` when there is none.
    pub fn waiting(&self, name: &str) -> Option<Vec<Claimed>> {
        self.boxes.lock().expect("boxes").get(&AgentName::new(name).expect("name")).cloned()
    }
}

fn own_name(agent: &AgentContext) -> AgentName {
    AgentName::new(agent.id().as_str()).expect("a name")
}

impl PostOffice for Post {
    fn mailbox<'a>(&'a self, agent: &'a AgentContext) -> BoxFuture<'a, Result<Arc<dyn Mailbox>, MailError>> {
        let name = own_name(agent);
        self.boxes.lock().expect("boxes").entry(name.clone()).or_default();
        let mailbox: Arc<dyn Mailbox> =
            Arc::new(OwnBox { name, boxes: Arc::clone(&self.boxes), stored: Arc::clone(&self.stored) });
        Box::pin(async move { Ok(mailbox) })
    }
    fn close<'a>(&'a self, agent: &'a AgentContext) -> BoxFuture<'a, Result<(), MailError>> {
        let mut boxes = self.boxes.lock().expect("boxes");
        if boxes.get(&own_name(agent)).is_some_and(Vec::is_empty) {
            boxes.remove(&own_name(agent));
        }
        Box::pin(async { Ok(()) })
    }
    fn notify(&self, letter: Letter) -> BoxFuture<'_, Result<(), MailError>> {
        let mut boxes = self.boxes.lock().expect("boxes");
        let own = boxes.entry(letter.to.clone()).or_default();
        if own.iter().all(|claimed| claimed.id != letter.id) {
            own.push(Claimed {
                id: letter.id.clone(),
                message: message(letter.id, letter.from.to_string(), letter.to, letter.draft),
                origin: Origin::Team,
            });
        }
        self.stored.notify_waiters();
        Box::pin(async { Ok(()) })
    }
}

fn message(id: MessageId, from: String, to: AgentName, draft: Draft) -> Message {
    Message {
        id: Some(id),
        seq: 1,
        kind: draft.kind,
        from,
        to: Some(to),
        text: draft.text,
        payload: draft.payload,
        timestamp: clock::now(),
        read: false,
        color: None,
        summary: draft.summary,
        wake: draft.wake,
        incarnation: Some(1),
        sig: None,
    }
}

struct OwnBox {
    name: AgentName,
    boxes: Arc<Mutex<BTreeMap<AgentName, Vec<Claimed>>>>,
    stored: Arc<Notify>,
}

fn refused<T>() -> Result<T, MailError> {
    Err(MailError { kind: "disk", what: "a test".to_owned() })
}

impl Mailbox for OwnBox {
    fn send<'a>(&'a self, _: &'a AgentName, _: Draft) -> BoxFuture<'a, Result<Receipt, MailError>> {
        Box::pin(async { refused() })
    }
    fn claim(&self, max: usize) -> BoxFuture<'_, Result<Vec<Claimed>, MailError>> {
        let boxes = self.boxes.lock().expect("boxes");
        let unread = boxes.get(&self.name).into_iter().flatten().filter(|claimed| !claimed.message.read);
        let claimed: Vec<Claimed> = unread.take(max).cloned().collect();
        Box::pin(async { Ok(claimed) })
    }
    fn ack<'a>(&'a self, ids: &'a [MessageId]) -> BoxFuture<'a, Result<(), MailError>> {
        let mut boxes = self.boxes.lock().expect("boxes");
        for claimed in boxes.get_mut(&self.name).into_iter().flatten() {
            claimed.message.read |= ids.contains(&claimed.id);
        }
        Box::pin(async { Ok(()) })
    }
    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.stored.notified())
    }
    fn owner(&self) -> &AgentName {
        &self.name
    }
    fn others(&self) -> BoxFuture<'_, Result<Vec<AgentName>, MailError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn answer_shutdown<'a>(&'a self, _: &'a str, _: Option<String>) -> BoxFuture<'a, Result<(), MailError>> {
        Box::pin(async { refused() })
    }
    fn answer_plan<'a>(
        &'a self,
        _: &'a AgentName,
        _: &'a AskId,
        _: Decision,
        _: Option<String>,
    ) -> BoxFuture<'a, Result<(), MailError>> {
        Box::pin(async { refused() })
    }
}
