//! The life of one teammate, in the leader's process or in a worker's: wait, work, tell, repeat. How it
//! ends is in [`leave`].
//!
//! One loop owns the agent. Its state is written before it counts: *working* before mail is
//! acknowledged, the idle notice before *idle*; so whoever looks from outside never sees a quiet team
//! with something under way.

mod leave;
#[cfg(test)]
mod tests;

use super::below::{self, Below, stop_task};
use super::bubble::{FileBroker, Tell};
use super::context::Team;
use super::executor::{RunnerControl, RunnerExit};
use super::mailbox::{FileMailbox, Sender};
use super::meta;
use super::pump::{Control, Pump};
use super::reporter::{Reporter, Reporters};
use super::tasks::TaskDesk;
use crate::agent::build::{AgentPlan, build};
use crate::agent::context::{AgentContext, TeamLabel, Tier, spawn_in};
use crate::agent::definitions::query_source;
use crate::agent::finalizer::Tenure;
use crate::agent::first::first_message;
use crate::agent::limits::{Slot, Slots};
use crate::agent::modes;
use crate::agent::permissions::Permissions;
use crate::agent::ports::Mailbox;
use crate::agent::runtime::Runtime;
use crate::agent::turn::{Agent, TurnEnd, TurnError, TurnInput, TurnStatus};
use crate::os::file::resolve;
use crate::os::panic;
use crate::os::process;
use crate::store::clock;
use crate::store::error::StoreError;
use crate::wire::event::EventKind;
use crate::wire::frame::{FrameType, IdleNotification, IdleReason};
use crate::wire::ids::AgentName;
use crate::wire::mail::{Draft, Wake};
use crate::wire::permission::PermissionMode;
use crate::wire::run::{AgentState, RunRecord};
use crate::wire::task::TaskId;
use crate::wire::worker::WorkerSpec;
use futures_util::FutureExt;
use leave::{Body, Estate, Parting};
use serde_json::json;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The tools a teammate has whatever its definition says (contract §16): without them it reaches nobody
/// and sees no work.
const ALWAYS: [&str; 5] = ["SendMessage", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate"];

/// The tools a teammate of this mode has whatever its definition says. Who plans first must be able to
/// present the plan.
pub fn always_tools(mode: PermissionMode) -> Vec<String> {
    let plans = (mode == PermissionMode::Plan).then_some(modes::EXIT_PLAN_MODE);
    ALWAYS.into_iter().chain(plans).map(str::to_owned).collect()
}

/// A wait for a place that takes longer is told in the run record.
const SAYS_THAT_IT_WAITS: Duration = Duration::from_millis(200);

/// How the leader hears of an ask whose file was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskRoute {
    /// The leader is in this process.
    Memory,
    /// By mail.
    Mail,
}

/// What a teammate needs from its process.
#[derive(Clone)]
pub struct Host {
    /// What all agents of the process share.
    pub runtime: Arc<Runtime>,
    /// The team.
    pub team: Team,
    /// The run records of the process.
    pub reporters: Arc<Reporters>,
    /// How the leader hears of asks.
    pub asks: AskRoute,
}

/// Runs a teammate to its end.
pub async fn run(host: Host, spec: WorkerSpec, control: RunnerControl) -> RunnerExit {
    let record = match process::current() {
        Ok(process) => {
            RunRecord::starting(&spec.agent_id, spec.incarnation, &spec.run_id, process, clock::now())
        }
        Err(error) => return RunnerExit { exit: error.to_string(), failed: true },
    };
    let reporter = Arc::new(Reporter::new(host.team.clone(), spec.name.clone(), record));
    host.reporters.add(&reporter);
    let context = context(&spec);
    let ended = CancellationToken::new();
    let body = Body::default();
    let estate = Estate {
        flusher: spawn_in(&context, Arc::clone(&reporter).flush(ended.clone())),
        below: Below::watch(&host.runtime.background, &context, &reporter, ended.clone()),
        host: host.clone(),
        spec: spec.clone(),
        reporter: Arc::clone(&reporter),
        body: Arc::clone(&body),
        ended: ended.clone(),
    };
    let last = move |end| async move { estate.settle(end).await };
    let tenure = Tenure::begin(&context, control.leaving.token(), last);
    let life = async {
        let teammate = Teammate::start(&host, &spec, &reporter, &ended).await.map_err(Parting::failed)?;
        let _ = body.set((
            Arc::clone(teammate.agent.core()),
            teammate.agent.transcript().clone(),
            Arc::clone(&teammate.mailbox),
        ));
        teammate.live(control).await.map_err(Parting::failed)
    };
    // Of a panic outside of turns nothing is left but its words.
    let parting = match AssertUnwindSafe(life).catch_unwind().await {
        Ok(Ok(parting) | Err(parting)) => parting,
        Err(panic) => Parting::failed(format!("panicked: {}", panic::words(panic.as_ref()))),
    };
    let exit = parting.exit.clone();
    tenure.end(parting).await.unwrap_or(exit)
}

/// Who the teammate is.
pub fn context(spec: &WorkerSpec) -> AgentContext {
    AgentContext {
        made_as: spec.agent_id.clone(),
        name: Some(spec.name.clone()),
        agent_type: spec.definition.name.clone(),
        tier: Tier::Teammate,
        team: TeamLabel::new(spec.team.clone()),
        root: spec.name.clone(),
        incarnation: spec.incarnation,
        color: Some(spec.color.clone()),
        depth: spec.depth,
        query_source: query_source(&spec.definition),
        session: spec.lead_session_id.clone(),
        session_cwd: spec.lead_cwd.clone(),
        task: None,
        parent_tool_use_id: spec.tool_use_id.clone(),
        cwd: spec.cwd.clone(),
    }
}

/// Why a teammate waits no longer.
enum Next {
    Turn(TurnInput),
    Leave(Leave),
}

/// What a turn leads to.
enum Done {
    /// It waits for mail.
    Idle,
    /// The turn was interrupted after mail had been put before the model, which has not answered it yet.
    Owes,
    /// It ends.
    Leave(Leave),
}

/// Why it ends.
enum Leave {
    /// The leader ends, or its model agreed to a request.
    Agreed(Option<String>),
    /// Its owner cancelled it.
    Cancelled,
}

struct Teammate {
    agent: Agent,
    mailbox: Arc<FileMailbox>,
    reporter: Arc<Reporter>,
    controls: mpsc::UnboundedReceiver<Control>,
    spec: WorkerSpec,
    first: Option<TurnInput>,
    /// Whether its last turn ended at a budget of the session: no mail starts another until it is raised.
    held: bool,
}

impl Teammate {
    async fn start(
        host: &Host,
        spec: &WorkerSpec,
        reporter: &Arc<Reporter>,
        ended: &CancellationToken,
    ) -> Result<Self, String> {
        let runtime = &host.runtime;
        reporter.set_state(AgentState::Starting).await.map_err(|e| e.to_string())?;
        let model = runtime.models.find(&spec.model, &spec.model).map_err(|e| e.to_string())?;
        let mailbox = FileMailbox::new(
            host.team.clone(),
            spec.name.clone(),
            spec.incarnation,
            Some(spec.color.clone()),
        );
        let mailbox = Arc::new(mailbox.running_in(spec.backend));
        let port: Arc<dyn Mailbox> = mailbox.clone();
        let context = context(spec);
        let paths = runtime.paths.project(&spec.lead_cwd);
        let output_dir = paths.output_dir(&spec.lead_session_id);
        let mut project = vec![resolve(&spec.project_root)];
        project.extend(spec.additional_directories.iter().map(|d| resolve(d)));
        let permissions = Permissions::new(
            spec.permission_mode,
            spec.rules.clone(),
            resolve(&spec.cwd),
            project,
            runtime.home.clone(),
            runtime.paths.closed().iter().map(|d| resolve(d)).collect(),
            resolve(&output_dir),
        );
        let addendum = include_str!("../agent/prompts/teammate.md")
            .replace("{name}", spec.name.as_str())
            .replace("{team}", spec.team.as_str());
        let always_tools = always_tools(spec.permission_mode);
        reporter.set_mode(spec.permission_mode);
        let plan = AgentPlan {
            context,
            max_rounds: spec.definition.max_turns,
            definition: spec.definition.clone(),
            model,
            permissions,
            parent_tools: None,
            always_tools,
            mailbox: Some(Arc::clone(&port)),
            broker: Arc::new(FileBroker::new(
                host.team.clone(),
                spec.asks,
                match host.asks {
                    AskRoute::Memory => Tell::Plans(Arc::clone(&port)),
                    AskRoute::Mail => Tell::All(Arc::clone(&port)),
                },
            )),
            transcript: paths.member_sidechain(&spec.lead_session_id, &spec.agent_id, spec.incarnation),
            prefix_file: Some(paths.member_prefix(&spec.lead_session_id, &spec.agent_id, spec.incarnation)),
            run_id: spec.run_id.clone(),
            prompt_addendum: Some(addendum),
            slot: None,
            fork: None,
        };
        meta::write(host, spec, "running").await;
        let built = build(runtime, plan).await.map_err(|e| e.to_string())?;
        for notice in built.notices {
            let fields = json!({ "reason": notice });
            host.team.log(EventKind::Notice, &spec.name, spec.incarnation, fields).await;
        }
        if built.restored {
            // What an earlier process of this agent left, before its mail is read.
            let left = runtime.background.reconcile(&built.agent.core().context).await;
            for notice in left.map_err(|e| e.to_string())? {
                let fields = json!({ "reason": notice });
                host.team.log(EventKind::Notice, &spec.name, spec.incarnation, fields).await;
            }
        }
        let first = if built.restored && !built.agent.is_fresh() {
            built.unanswered.then_some(TurnInput::Continue)
        } else {
            Some(TurnInput::Prompt(first_message(&built.agent, &spec.prompt).await))
        };
        let (out, controls) = mpsc::unbounded_channel();
        let pump = Pump::new(Arc::clone(&mailbox), built.agent.transcript().clone(), out);
        drop(spawn_in(&built.agent.core().context, pump.run(ended.clone())));
        Ok(Self {
            agent: built.agent,
            mailbox,
            reporter: Arc::clone(reporter),
            controls,
            spec: spec.clone(),
            first,
            held: false,
        })
    }

    /// Its turns, until it leaves or fails.
    async fn live(mut self, mut control: RunnerControl) -> Result<Parting, String> {
        let mut next = match self.first.take() {
            Some(input) => Next::Turn(input),
            None => {
                self.reporter.set_state(AgentState::Idle).await.map_err(|e| e.to_string())?;
                self.wait(&control).await
            }
        };
        loop {
            let leave = match next {
                Next::Leave(leave) => leave,
                Next::Turn(input) => match self.work(input, &mut control).await? {
                    Done::Idle => {
                        next = self.wait(&control).await;
                        continue;
                    }
                    Done::Owes => {
                        next = Next::Turn(TurnInput::Continue);
                        continue;
                    }
                    Done::Leave(leave) => leave,
                },
            };
            return Ok(Parting::of(leave));
        }
    }

    /// One turn, with its idle notice.
    async fn work(&mut self, input: TurnInput, control: &mut RunnerControl) -> Result<Done, String> {
        self.reporter.set_state(AgentState::Working).await.map_err(|e| e.to_string())?;
        control.interrupt.borrow_and_update();
        let cancel = control.cancel.child_token();
        let agreed = self.mailbox.leaving();
        let mut leave = None;
        let end = {
            let mut interrupts = true;
            let mut agrees = true;
            let core = Arc::clone(self.agent.core());
            let reporter = &self.reporter;
            let agent = &mut self.agent;
            let turn = async {
                match take_place(&core.runtime.slots, reporter, &cancel).await {
                    Ok(place) => core.place.set(place),
                    // Better one too many at once than none.
                    Err(error) => tracing::warn!(%error, "a place could not be taken in the ledger"),
                }
                agent.turn(input, &cancel).await
            };
            tokio::pin!(turn);
            loop {
                tokio::select! {
                    biased;
                    end = &mut turn => break end,
                    changed = control.interrupt.changed(), if interrupts => {
                        interrupts = changed.is_ok();
                        if interrupts { cancel.cancel() }
                    }
                    () = agreed.cancelled(), if agrees => {
                        agrees = false;
                        cancel.cancel();
                    }
                    Some(word) = self.controls.recv() => match word {
                        Control::Interrupt => cancel.cancel(),
                        Control::Leave { request_id } => {
                            leave = Some(Leave::Agreed(Some(request_id)));
                            cancel.cancel();
                        }
                        Control::StopTask(task) => stop_task(&core, task),
                        Control::ShutdownAnswer { .. } => {}
                        Control::Mode(mode) => modes::change(&core, mode),
                        Control::Rules(rules) => core.permissions.add_rules(rules),
                    }
                }
            }
        };
        self.agent.core().place.set(None);
        self.held = end.is_limit();
        self.mailbox.after_turn(end.rounds > 0).await;
        if let TurnStatus::Failed(error @ TurnError::Panicked(_)) = &end.status {
            // What is left of it is not to be trusted with another turn.
            self.tell_idle(&end).await;
            return Err(error.to_string());
        }
        let delivered = self.mailbox.delivered_seq();
        if agreed.is_cancelled() {
            leave = leave.or(Some(Leave::Agreed(None)));
        }
        if control.cancel.is_cancelled() {
            leave = Some(Leave::Cancelled);
        }
        let unanswered = if leave.is_none() { self.mailbox.drop_shutdown() } else { None };
        let interrupted = matches!(end.status, TurnStatus::Cancelled);
        // Who is to shut down owes no answer but the one to that request.
        if leave.is_none() && unanswered.is_none() && end.owes_answer && interrupted {
            return Ok(Done::Owes);
        }
        // Who leaves says so by leaving; only words are worth a notice.
        if leave.is_none() || !end.text.trim().is_empty() {
            self.tell_idle(&end).await;
        }
        self.reporter
            .change(|record| record.delivered_seq = record.delivered_seq.max(delivered))
            .await
            .map_err(|e| e.to_string())?;
        // Before it counts as idle: whoever looks knows what still works below it.
        let core = self.agent.core();
        let counted = below::count(&core.runtime.background, &self.spec.name, &self.reporter).await;
        counted.map_err(|e| e.to_string())?;
        if leave.is_none() {
            self.reporter.set_state(AgentState::Idle).await.map_err(|e| e.to_string())?;
            if unanswered.is_some() {
                let told = self.reporter.change(|record| record.unanswered_shutdown = unanswered).await;
                told.map_err(|e| e.to_string())?;
            }
        }
        Ok(leave.map_or(Done::Idle, Done::Leave))
    }

    /// Waits for mail that starts a turn, or the end. Costs nothing meanwhile.
    async fn wait(&mut self, control: &RunnerControl) -> Next {
        loop {
            let runtime = Arc::clone(&self.agent.core().runtime);
            // Before the look, so that no change is missed after it.
            let raised = runtime.budget.changed();
            if self.held && runtime.budget.admit().await.is_ok() {
                self.held = false;
                return Next::Turn(TurnInput::Continue);
            }
            if !self.held && self.mailbox.wakes().await {
                return Next::Turn(TurnInput::Mail);
            }
            tokio::select! {
                biased;
                () = control.cancel.cancelled() => return Next::Leave(Leave::Cancelled),
                () = raised, if self.held => {}
                Some(word) = self.controls.recv() => match word {
                    Control::Leave { request_id } => return Next::Leave(Leave::Agreed(Some(request_id))),
                    Control::StopTask(task) => stop_task(self.agent.core(), task),
                    Control::Mode(mode) => modes::change(self.agent.core(), mode),
                    Control::Rules(rules) => self.agent.core().permissions.add_rules(rules),
                    Control::Interrupt | Control::ShutdownAnswer { .. } => {}
                },
                () = self.mailbox.changed() => {}
            }
        }
    }

    /// The task it works on by its own word, if any.
    async fn open_task(&self) -> Option<TaskId> {
        let me = &self.spec.name;
        let desk = TaskDesk::new(self.mailbox.team().clone(), me.clone(), self.spec.incarnation);
        // What cannot be read is shown by whoever lists the tasks.
        desk.in_progress().await.ok().flatten()
    }

    /// Tells the leader that the turn is over, with its final words.
    async fn tell_idle(&self, end: &TurnEnd) {
        let (reason, error) = match &end.status {
            TurnStatus::Completed | TurnStatus::MaxRounds => (IdleReason::Available, None),
            TurnStatus::Cancelled => (IdleReason::Interrupted, None),
            TurnStatus::Failed(error) if end.is_limit() => (IdleReason::Blocked, Some(error.to_string())),
            TurnStatus::Failed(error) => (IdleReason::Failed, Some(error.to_string())),
        };
        let result = Some(end.text.clone()).filter(|t| !t.trim().is_empty());
        let wake = if result.is_some() || error.is_some() { Wake::Turn } else { Wake::Queue };
        let (usage, cost) = self.agent.used();
        let text = match (reason, end.rounds) {
            (IdleReason::Available, 0) => return,
            (IdleReason::Available, _) => format!("{} is idle.", self.spec.name),
            (IdleReason::Interrupted, _) => format!("{} was interrupted and is idle.", self.spec.name),
            (IdleReason::Failed, _) => format!("{} failed and is idle.", self.spec.name),
            (IdleReason::Blocked, _) => format!("{} has reached a limit and is idle.", self.spec.name),
        };
        let task_id = self.open_task().await;
        let text = match task_id {
            None => text,
            Some(id) => format!("{text} Task {id} is still its own."),
        };
        let notice =
            IdleNotification { reason, result: result.clone(), error: error.clone(), task_id, usage, cost };
        let team = self.mailbox.team();
        match Draft::frame(FrameType::IdleNotification, text, &notice) {
            Ok(mut draft) => {
                draft.summary = result.as_deref().map(first_line);
                let sent =
                    self.mailbox.post(&AgentName::team_lead(), draft.waking(wake), Sender::Trusted).await;
                if let Err(error) = sent {
                    let fields = json!({ "reason": format!("the idle notice was not stored: {error}") });
                    team.log(EventKind::Notice, &self.spec.name, self.spec.incarnation, fields).await;
                }
            }
            Err(error) => tracing::error!(%error, "the idle notice could not be encoded"),
        }
        let fields =
            json!({ "reason": reason, "error": error, "rounds": end.rounds, "usage": usage, "cost": cost });
        team.log(EventKind::Idle, &self.spec.name, self.spec.incarnation, fields).await;
    }
}

/// Waits for a place among the running agents, and says so meanwhile; `None` when cancelled.
async fn take_place(
    slots: &Arc<Slots>,
    reporter: &Reporter,
    cancel: &CancellationToken,
) -> Result<Option<Slot>, StoreError> {
    let place = slots.place(None);
    tokio::pin!(place);
    tokio::select! {
        biased;
        () = cancel.cancelled() => return Ok(None),
        slot = &mut place => return slot.map(Some),
        () = tokio::time::sleep(SAYS_THAT_IT_WAITS) => {}
    }
    let said = reporter.change(|record| record.current_tool = Some("waits for a free place".to_owned()));
    if let Err(error) = said.await {
        tracing::warn!(%error, "the run record could not be written");
    }
    tokio::select! {
        biased;
        () = cancel.cancelled() => Ok(None),
        slot = place => slot.map(Some),
    }
}

fn first_line(text: &str) -> String {
    text.lines().find(|l| !l.trim().is_empty()).unwrap_or_default().trim().chars().take(200).collect()
}
