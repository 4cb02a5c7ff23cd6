//! The leader's side of every teammate's life: one task owns the members and the roster.
//!
//! Everything else sends it messages. The rules are in [`super::lifecycle`]; here their effects are
//! carried out, slow ones in tasks of their own that report back. The roster is written here alone.

use super::context::Team;
use super::executor::{ExitReport, Launch, TeammateHandle};
use super::lifecycle::{Effect, Event, Insistence, Ladder, Lifecycle, Note, Stop, Verdict};
use super::mailbox::{FileMailbox, Sender};
use super::registry::BackendRegistry;
use super::spawn::{Resolved, SpawnDefaults, TeammateRequest, resolve};
use super::wake::Topic;
use crate::agent::context::{AgentContext, spawn_in};
use crate::store::roster::Roster;
use crate::store::{asks, clock, members, run, spec};
use crate::wire::event::EventKind;
use crate::wire::frame::{FrameType, ShutdownRequest, TeammateTerminated};
use crate::wire::ids::{AgentName, RunId};
use crate::wire::limits::READY_DEADLINE;
use crate::wire::mail::{Draft, Wake};
use crate::wire::run::AgentState;
use crate::wire::settings::ShutdownSettings;
use crate::wire::team::{Ended, Member};
use crate::wire::worker::WorkerSpec;
use serde_json::json;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// A started teammate, for the caller's result.
#[derive(Debug, Clone)]
pub struct Spawned {
    /// The row in the roster.
    pub member: Member,
    /// What the caller should be told beside it.
    pub notes: Vec<String>,
}

/// How a stop went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopOutcome {
    /// It is over, verified.
    Over(Ended),
    /// It refused, with its reason.
    Refused(String),
    /// There is no such living member.
    NotThere,
}

enum Order {
    Spawn(TeammateRequest, oneshot::Sender<Result<Spawned, String>>),
    Spawned { name: AgentName, run_id: RunId, outcome: Result<Arc<dyn TeammateHandle>, String> },
    Stop { name: AgentName, stop: Stop, leaves: bool, done: Option<oneshot::Sender<StopOutcome>> },
    Living(oneshot::Sender<Vec<AgentName>>),
    Answered { from: AgentName, request_id: String, refused: Option<String> },
    RunsChanged,
    Exited { name: AgentName, run_id: RunId, report: ExitReport },
    Timer { name: AgentName, run_id: RunId, epoch: u64 },
}

/// A handle on the supervisor.
#[derive(Clone)]
pub struct Supervisor {
    orders: mpsc::UnboundedSender<Order>,
    ladder: Ladder,
}

/// What the supervisor works with.
pub struct SupervisorParts {
    /// The team.
    pub team: Team,
    /// The leader, for the tasks' logs.
    pub lead: Arc<AgentContext>,
    /// Where teammates can run.
    pub backends: BackendRegistry,
    /// What is the same for all of them.
    pub defaults: SpawnDefaults,
    /// Deadlines of the ladder.
    pub shutdown: ShutdownSettings,
}

impl Supervisor {
    /// Starts the task; it ends when `cancel` is cancelled.
    pub fn start(parts: SupervisorParts, cancel: CancellationToken) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        let ladder = Ladder {
            polite: Duration::from_millis(parts.shutdown.polite_ms),
            interrupt: Duration::from_millis(parts.shutdown.interrupt_ms),
            terminate: Duration::from_millis(parts.shutdown.terminate_ms),
        };
        let supervisor = Self { orders: orders.clone(), ladder };
        let lead = Arc::clone(&parts.lead);
        let work = Work { parts: Arc::new(parts), orders, members: HashMap::new() };
        drop(spawn_in(&lead, work.run(inbox, cancel)));
        supervisor
    }

    /// Starts a teammate; returns once it is ready, or failed and cleaned up.
    pub async fn spawn(&self, request: TeammateRequest) -> Result<Spawned, String> {
        let (done, outcome) = oneshot::channel();
        self.order(Order::Spawn(request, done));
        outcome.await.unwrap_or_else(|_| Err("the leader is ending; nothing was started".to_owned()))
    }

    /// Asks a teammate to end and goes on; what becomes of it is told to the leader.
    pub fn request_stop(&self, name: &AgentName, by: &str, reason: &str) -> String {
        let stop = self.stop_of(by, reason, Insistence::Ask);
        let request_id = stop.request_id.clone();
        self.order(Order::Stop { name: name.clone(), stop, leaves: false, done: None });
        request_id
    }

    /// Ends a teammate and waits for it. `leaves`: the leader itself ends, so its model is not asked.
    pub async fn stop(
        &self,
        name: &AgentName,
        by: &str,
        reason: &str,
        insistence: Insistence,
        leaves: bool,
    ) -> StopOutcome {
        let (done, outcome) = oneshot::channel();
        let stop = self.stop_of(by, reason, insistence);
        self.order(Order::Stop { name: name.clone(), stop, leaves, done: Some(done) });
        outcome.await.unwrap_or(StopOutcome::NotThere)
    }

    /// Ends all teammates side by side, because the leader ends.
    pub async fn stop_all(&self, reason: &str) -> Vec<(AgentName, StopOutcome)> {
        let names = self.living().await;
        let stops = names.into_iter().map(|name| async move {
            let outcome = self.stop(&name, "team-lead", reason, Insistence::Insist, true).await;
            (name, outcome)
        });
        futures_util::future::join_all(stops).await
    }

    /// The members that are not over.
    pub async fn living(&self) -> Vec<AgentName> {
        let (done, names) = oneshot::channel();
        self.order(Order::Living(done));
        names.await.unwrap_or_default()
    }

    /// Passes on a teammate's answer to a shutdown request.
    pub fn answered(&self, from: AgentName, request_id: String, refused: Option<String>) {
        self.order(Order::Answered { from, request_id, refused });
    }

    fn stop_of(&self, by: &str, reason: &str, insistence: Insistence) -> Stop {
        Stop {
            request_id: format!("shutdown-{}", &uuid::Uuid::new_v4().simple().to_string()[..8]),
            by: by.to_owned(),
            reason: reason.to_owned(),
            insistence,
            ladder: self.ladder,
        }
    }

    fn order(&self, order: Order) {
        // A closed channel means that the leader is ending; callers see their reply dropped.
        let _ = self.orders.send(order);
    }
}

struct Charge {
    spec: WorkerSpec,
    life: Lifecycle,
    handle: Option<Arc<dyn TeammateHandle>>,
    spawner: Option<oneshot::Sender<Result<Spawned, String>>>,
    waiters: Vec<oneshot::Sender<StopOutcome>>,
    leaves: bool,
    listed: bool,
    notes: Vec<String>,
    unanswered: Option<String>,
}

struct Work {
    parts: Arc<SupervisorParts>,
    orders: mpsc::UnboundedSender<Order>,
    members: HashMap<AgentName, Charge>,
}

impl Work {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Order>, cancel: CancellationToken) {
        let mut runs = self.parts.team.hub.signal(Topic::Runs);
        loop {
            let order = tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                Some(order) = inbox.recv() => order,
                () = runs.changed() => Order::RunsChanged,
            };
            self.obey(order).await;
        }
    }

    async fn obey(&mut self, order: Order) {
        match order {
            Order::Spawn(request, done) => self.spawn(request, done).await,
            Order::Spawned { name, run_id, outcome } => self.spawned(&name, &run_id, outcome).await,
            Order::Stop { name, stop, leaves, done } => self.stop(&name, stop, leaves, done).await,
            Order::Living(done) => {
                let living = self.members.iter().filter(|(_, c)| !c.life.is_over()).map(|(n, _)| n.clone());
                // The asker may be gone.
                let _ = done.send(living.collect());
            }
            Order::Answered { from, request_id, refused } => {
                let event = match refused {
                    None => Event::ShutdownApproved { request_id },
                    Some(reason) => Event::ShutdownRejected { request_id, reason },
                };
                self.step(&from, event).await;
            }
            Order::RunsChanged => self.look_at_runs().await,
            Order::Exited { name, run_id, report } => {
                if self.is_current(&name, &run_id) {
                    self.step(&name, Event::ExitSeen(report)).await;
                }
            }
            Order::Timer { name, run_id, epoch } => {
                if self.is_current(&name, &run_id) {
                    self.step(&name, Event::Timer { epoch }).await;
                }
            }
        }
    }

    fn is_current(&self, name: &AgentName, run_id: &RunId) -> bool {
        self.members.get(name).is_some_and(|c| &c.spec.run_id == run_id)
    }

    async fn spawn(&mut self, request: TeammateRequest, done: oneshot::Sender<Result<Spawned, String>>) {
        match self.prepare(&request).await {
            Ok((spec, launch, notes)) => {
                let name = spec.name.clone();
                let run_id = spec.run_id.clone();
                let charge = Charge {
                    spec,
                    life: Lifecycle::starting(Instant::now()),
                    handle: None,
                    spawner: Some(done),
                    waiters: Vec::new(),
                    leaves: false,
                    listed: true,
                    notes,
                    unanswered: None,
                };
                self.members.insert(name.clone(), charge);
                let orders = self.orders.clone();
                let backends = self.parts.backends.clone();
                let backend = launch.spec.backend;
                drop(spawn_in(&self.parts.lead, async move {
                    let outcome = match backends.require(backend) {
                        Ok(executor) => executor.spawn(launch).await,
                        Err(error) => Err(error),
                    };
                    let outcome = outcome.map(Arc::from).map_err(|e| {
                        if e.hint.is_empty() { e.to_string() } else { format!("{e} ({})", e.hint) }
                    });
                    let _ = orders.send(Order::Spawned { name, run_id, outcome });
                }));
            }
            Err(why) => {
                let _ = done.send(Err(why));
            }
        }
    }

    /// Writes everything a worker needs before it is started. Whatever fails takes back what was done.
    async fn prepare(
        &mut self,
        request: &TeammateRequest,
    ) -> Result<(WorkerSpec, Launch, Vec<String>), String> {
        let team = &self.parts.team;
        let slots = &request.parent.runtime.slots;
        slots.start(request.parent.context.depth + 1).map_err(|e| e.to_string())?;
        let prepared = self.write(request).await;
        if prepared.is_err() {
            slots.undo_start();
        }
        let (spec, spec_file, notes) = prepared?;
        let fields = json!({ "backend": spec.backend.as_str(), "model": spec.model, "summary": spec.description,
                             "agentId": spec.agent_id, "runId": spec.run_id });
        team.log(EventKind::Spawn, &spec.name, spec.incarnation, fields).await;
        let ready = ready(team.clone(), spec.name.clone(), spec.run_id.clone());
        let launch =
            Launch { spec: spec.clone(), spec_file, ready: Box::pin(ready), deadline: READY_DEADLINE };
        Ok((spec, launch, notes))
    }

    async fn write(&self, request: &TeammateRequest) -> Result<(WorkerSpec, PathBuf, Vec<String>), String> {
        let team = &self.parts.team;
        let roster = team.roster().await.map_err(|e| e.to_string())?;
        let Resolved { spec, member, notes } = resolve(team, &roster, request, &self.parts.defaults)?;
        let (paths, keys, inbox) = (team.paths.clone(), team.keys.clone(), team.inbox(&spec.name));
        let written = spec.clone();
        let row = member.clone();
        let file = paths.team_file();
        let made = team
            .disk
            .run(&file, move || {
                keys.add_worker(&written.name)?;
                inbox.create()?;
                Roster::update(&paths, |team| {
                    team.members
                        .retain(|m| m.agent_name != row.agent_name || m.incarnation != row.incarnation);
                    team.members.push(row.clone().into());
                    Ok(())
                })?;
                spec::write_spec(&paths, &written)
            })
            .await;
        match made {
            Ok(spec_file) => Ok((spec, spec_file, notes)),
            Err(error) => {
                self.take_back(&member).await;
                Err(error.to_string())
            }
        }
    }

    /// Removes every trace of a member that did not come to be.
    async fn take_back(&self, member: &Member) {
        let team = &self.parts.team;
        let (paths, member) = (team.paths.clone(), member.clone());
        let file = paths.team_file();
        let removed = team
            .disk
            .run(&file, move || {
                Roster::update(&paths, |team| {
                    team.members
                        .retain(|m| m.agent_name != member.agent_name || m.incarnation != member.incarnation);
                    Ok(())
                })?;
                members::remove_traces(&paths, &member.agent_name, member.incarnation)
            })
            .await;
        if let Err(error) = removed {
            tracing::warn!(%error, "a teammate that did not start could not be removed from the roster");
        }
    }

    async fn spawned(
        &mut self,
        name: &AgentName,
        run_id: &RunId,
        outcome: Result<Arc<dyn TeammateHandle>, String>,
    ) {
        if !self.is_current(name, run_id) {
            return;
        }
        let Some(charge) = self.members.get_mut(name) else { return };
        match outcome {
            Ok(handle) => {
                let record = handle.record();
                charge.handle = Some(Arc::clone(&handle));
                let spec = charge.spec.clone();
                let member = self.note_pane(&spec, record.pane_id.clone()).await;
                let fields =
                    json!({ "agentId": spec.agent_id, "runId": spec.run_id, "paneId": record.pane_id });
                self.parts.team.log(EventKind::Ready, name, spec.incarnation, fields).await;
                self.watch_exit(name, run_id, handle);
                self.reply(name, member);
                self.step(name, Event::SpawnSucceeded).await;
                self.look_at_runs().await;
            }
            Err(why) => {
                if let Some(spawner) = charge.spawner.take() {
                    let _ = spawner.send(Err(format!("{name} was not started: {why}")));
                }
                charge.listed = false;
                self.step(name, Event::SpawnFailed { why }).await;
            }
        }
    }

    async fn note_pane(&self, spec: &WorkerSpec, pane_id: Option<String>) -> Result<Member, String> {
        let paths = self.parts.team.paths.clone();
        let file = paths.team_file();
        let (name, incarnation) = (spec.name.clone(), spec.incarnation);
        let noted = self.parts.team.disk.run(&file, move || {
            Roster::update(&paths, |team| {
                let row =
                    team.members.iter_mut().find(|m| m.agent_name == name && m.incarnation == incarnation);
                if let Some(row) = row {
                    row.pane_id = pane_id;
                    return Ok(Some(row.known.clone()));
                }
                Ok(None)
            })
        });
        match noted.await {
            Ok(Some(member)) => Ok(member),
            Ok(None) => Err(format!("{} is not in the roster any more", spec.name)),
            Err(error) => Err(error.to_string()),
        }
    }

    fn reply(&mut self, name: &AgentName, member: Result<Member, String>) {
        let Some(charge) = self.members.get_mut(name) else { return };
        let notes = std::mem::take(&mut charge.notes);
        if let Some(spawner) = charge.spawner.take() {
            // The caller may have been interrupted; the teammate lives all the same.
            let _ = spawner.send(member.map(|member| Spawned { member, notes }));
        }
    }

    fn watch_exit(&self, name: &AgentName, run_id: &RunId, handle: Arc<dyn TeammateHandle>) {
        let (orders, name, run_id) = (self.orders.clone(), name.clone(), run_id.clone());
        drop(spawn_in(&self.parts.lead, async move {
            let report = handle.exited().await;
            let _ = orders.send(Order::Exited { name, run_id, report });
        }));
    }

    async fn stop(
        &mut self,
        name: &AgentName,
        stop: Stop,
        leaves: bool,
        done: Option<oneshot::Sender<StopOutcome>>,
    ) {
        let Some(charge) = self.members.get_mut(name).filter(|c| !c.life.is_over()) else {
            if let Some(done) = done {
                let _ = done.send(StopOutcome::NotThere);
            }
            return;
        };
        charge.leaves |= leaves;
        charge.waiters.extend(done);
        let fields = json!({ "requestId": stop.request_id, "by": stop.by, "reason": stop.reason });
        let incarnation = charge.spec.incarnation;
        self.parts.team.log(EventKind::Shutdown, name, incarnation, fields).await;
        self.step(name, Event::StopAsked(stop)).await;
    }

    /// Takes what living members say of themselves.
    async fn look_at_runs(&mut self) {
        let paths = self.parts.team.paths.clone();
        let dir = paths.run_dir();
        let records = match self.parts.team.disk.run(&dir, move || run::load_all(&paths)).await {
            Ok(records) => records,
            Err(error) => {
                tracing::warn!(%error, "run records could not be read");
                return;
            }
        };
        for (name, record) in records {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    tracing::warn!(%name, %error, "a run record could not be read");
                    continue;
                }
            };
            let owner =
                self.members.iter().find(|(_, c)| c.spec.run_id == record.run_id).map(|(n, _)| n.clone());
            let Some(name) = owner else { continue };
            self.step(&name, Event::Reported(record.state)).await;
            let unanswered = record.unanswered_shutdown.clone();
            if let Some(charge) = self.members.get_mut(&name)
                && unanswered != charge.unanswered
            {
                charge.unanswered.clone_from(&unanswered);
                if let Some(request_id) = unanswered {
                    self.step(&name, Event::TurnEndedWithoutAnswer { request_id }).await;
                }
            }
        }
    }

    async fn step(&mut self, name: &AgentName, event: Event) {
        let Some(charge) = self.members.get_mut(name) else { return };
        let (life, effects) = charge.life.clone().step(event, Instant::now());
        charge.life = life;
        for effect in effects {
            self.carry_out(name, effect).await;
        }
    }

    async fn carry_out(&mut self, name: &AgentName, effect: Effect) {
        let Some(charge) = self.members.get_mut(name) else { return };
        let run_id = charge.spec.run_id.clone();
        match effect {
            Effect::SendShutdownRequest { request_id, deadline, reason } => {
                let request = ShutdownRequest {
                    request_id,
                    deadline: clock::in_future(deadline.saturating_duration_since(Instant::now())),
                    reason: Some(reason),
                    leader_leaves: charge.leaves,
                };
                self.send_request(name, &request).await;
            }
            Effect::Interrupt => {
                if let Some(handle) = charge.handle.clone() {
                    drop(spawn_in(&self.parts.lead, async move { handle.interrupt().await }));
                }
            }
            Effect::Terminate(grace) => {
                let Some(handle) = charge.handle.clone() else { return };
                let (orders, name) = (self.orders.clone(), name.clone());
                drop(spawn_in(&self.parts.lead, async move {
                    let report = handle.terminate(grace).await;
                    let _ = orders.send(Order::Exited { name, run_id, report });
                }));
            }
            Effect::ArmTimer { epoch, after } => {
                let (orders, name) = (self.orders.clone(), name.clone());
                drop(spawn_in(&self.parts.lead, async move {
                    tokio::time::sleep(after).await;
                    let _ = orders.send(Order::Timer { name, run_id, epoch });
                }));
            }
            Effect::WriteEnded { verdict, exit, reason } => {
                self.write_ended(name, verdict, exit, reason).await
            }
            Effect::ReleaseSlot => self.close_asks(name).await,
            Effect::TellLeader(note) => self.tell(name, note).await,
        }
    }

    async fn send_request(&self, name: &AgentName, request: &ShutdownRequest) {
        let lead = FileMailbox::new(self.parts.team.clone(), AgentName::team_lead(), 1, None);
        let text = format!("The leader asks {name} to shut down.");
        let sent = match Draft::frame(FrameType::ShutdownRequest, text, request) {
            Ok(draft) => lead.post(name, draft, Sender::Trusted).await.map(drop).map_err(|e| e.what),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = sent {
            // The ladder goes on by its timer.
            tracing::warn!(%name, %error, "a shutdown request could not be sent");
        }
    }

    async fn write_ended(&mut self, name: &AgentName, verdict: Verdict, exit: String, reason: String) {
        let Some(charge) = self.members.get(name) else { return };
        let spec = charge.spec.clone();
        let listed = charge.listed;
        let ended =
            Ended { state: verdict.state(), at: clock::now(), exit: exit.clone(), reason: reason.clone() };
        let team = &self.parts.team;
        let paths = team.paths.clone();
        let file = paths.team_file();
        let row = ended.clone();
        let written = team
            .disk
            .run(&file, move || {
                Roster::update(&paths, |team| {
                    let is_it = |m: &Member| m.agent_name == spec.name && m.incarnation == spec.incarnation;
                    if !listed {
                        team.members.retain(|m| !is_it(&m.known));
                    } else if let Some(member) = team.members.iter_mut().find(|m| is_it(&m.known)) {
                        member.ended = Some(row);
                    }
                    Ok(())
                })?;
                if listed {
                    spec::remove_specs(&paths, &spec.name)
                } else {
                    members::remove_traces(&paths, &spec.name, spec.incarnation)
                }
            })
            .await;
        if let Err(error) = written {
            tracing::error!(%name, %error, "the end of a teammate could not be written");
        }
        let incarnation = charge.spec.incarnation;
        let kind = if verdict == Verdict::Lost { EventKind::Lost } else { EventKind::Exit };
        let fields = json!({ "state": verdict.state(), "exit": exit, "reason": reason });
        team.log(kind, name, incarnation, fields).await;
        if let Some(charge) = self.members.get_mut(name) {
            for waiter in charge.waiters.drain(..) {
                let _ = waiter.send(StopOutcome::Over(ended.clone()));
            }
        }
    }

    async fn close_asks(&self, name: &AgentName) {
        let Some(charge) = self.members.get(name) else { return };
        let (paths, reply_to, incarnation) =
            (self.parts.team.paths.clone(), name.clone(), charge.spec.incarnation);
        let dir = paths.asks_dir();
        let closed = self.parts.team.disk.run(&dir, move || {
            for (ask, status, _) in asks::list(&paths)? {
                let theirs = ask.reply_to == reply_to && ask.incarnation == incarnation;
                if theirs && status == crate::wire::ask::AskStatus::Open {
                    asks::close(&paths, &ask.id, "the asking agent has ended")?;
                }
            }
            Ok(())
        });
        if let Err(error) = closed.await {
            tracing::warn!(%name, %error, "the asks of an ended teammate could not be closed");
        }
        self.parts.team.hub.poke(Topic::Asks);
    }

    async fn tell(&mut self, name: &AgentName, note: Note) {
        let Some(charge) = self.members.get_mut(name) else { return };
        let (agent_id, incarnation) = (charge.spec.agent_id.clone(), charge.spec.incarnation);
        let draft = match note {
            Note::Refused { reason, overridden } => {
                if !overridden {
                    for waiter in charge.waiters.drain(..) {
                        let _ = waiter.send(StopOutcome::Refused(reason.clone()));
                    }
                }
                let what = if overridden { "It is shut down all the same." } else { "It goes on." };
                Draft::text(format!("{name} does not want to shut down: {reason}. {what}"))
            }
            // A teammate that never started was reported to its spawner; one that leaves with its
            // leader needs no obituary.
            Note::Ended { .. } if !charge.listed || charge.leaves => return,
            Note::Ended { verdict, exit, reason } => {
                let text = format!("{name} is {}: {reason} ({exit}).", verdict.state().as_str());
                let body = TeammateTerminated { agent_id, incarnation, exit, reason };
                let wake = if verdict == Verdict::Stopped { Wake::Queue } else { Wake::Turn };
                match Draft::frame(FrameType::TeammateTerminated, text, &body) {
                    Ok(draft) => draft.waking(wake),
                    Err(error) => return tracing::error!(%error, "a notice could not be encoded"),
                }
            }
        };
        let system = FileMailbox::new(self.parts.team.clone(), AgentName::system(), 1, None);
        if let Err(error) = system.post(&AgentName::team_lead(), draft, Sender::Trusted).await {
            tracing::error!(%name, %error, "the leader could not be told");
        }
    }
}

/// Resolves when the run record of a worker says that it is ready.
async fn ready(team: Team, name: AgentName, run_id: RunId) {
    let mut runs = team.hub.signal(Topic::Runs);
    loop {
        let (paths, who) = (team.paths.clone(), name.clone());
        let file = paths.run(&name);
        let found = team.disk.run(&file, move || run::load(&paths, &who)).await;
        let is_ready = matches!(found, Ok(Some(record))
            if record.run_id == run_id && record.state != AgentState::Starting && !record.state.is_over());
        if is_ready {
            return;
        }
        runs.changed().await;
    }
}
