//! The leader's side of every teammate's life: one task owns the members and the roster.
//!
//! Everything else sends it messages. The rules are in [`super::lifecycle`]; here their effects are
//! carried out, slow ones (executors, timers, all that `git` does) in tasks of their own that report back,
//! so that no member waits for another's. The roster is written here alone.

mod effects;
mod member_task;
mod naming;
mod offers;
mod panes;
mod place;
mod reconcile;
mod start;

use super::context::Team;
use super::executor::{ExitReport, TeammateHandle};
use super::lifecycle::{Effect, Event, Insistence, Ladder, Lifecycle, Stop, Verdict};
use super::registry::BackendRegistry;
use super::spawn::{SpawnDefaults, TeammateRequest};
use super::wake::{ChangedRuns, Topic};
use crate::agent::background::{Background, Registration};
use crate::agent::context::{AgentContext, spawn_in};
use crate::agent::gates::Gates;
use crate::agent::limits::Started;
use crate::agent::worktree::{Nursery, WorktreeLease};
use crate::store::clock;
use crate::store::run::{self, SeenRuns};
use crate::wire::event::EventKind;
use crate::wire::frame::ShutdownRequest;
use crate::wire::ids::{AgentName, RunId};
use crate::wire::settings::ShutdownSettings;
use crate::wire::team::{Ended, Member};
use crate::wire::worker::WorkerSpec;
use naming::{Named, NewName};
use offers::{Offered, Offers};
pub use panes::Sight;
use panes::{Moved, Seen};
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
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
#[derive(Debug, Clone, PartialEq)]
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
    Isolated { name: AgentName, run_id: RunId, outcome: Result<(WorktreeLease, Vec<String>), String> },
    Spawned { name: AgentName, run_id: RunId, outcome: Result<Arc<dyn TeammateHandle>, String> },
    Stop { name: AgentName, stop: Stop, leaves: bool, done: Option<oneshot::Sender<StopOutcome>> },
    Name(NewName, oneshot::Sender<Named>),
    Delete(oneshot::Sender<Named>),
    Pane { name: AgentName, sight: Sight, done: oneshot::Sender<Seen> },
    PaneMoved(Moved),
    TakeOver(oneshot::Sender<Vec<String>>),
    Unsaid(oneshot::Sender<Vec<String>>),
    Living(oneshot::Sender<Vec<AgentName>>),
    Answered { from: AgentName, request_id: String, refused: Option<String> },
    RunsChanged,
    Look(oneshot::Sender<()>),
    Exited { name: AgentName, run_id: RunId, report: ExitReport },
    Timer { name: AgentName, run_id: RunId, epoch: u64 },
    Settled { name: AgentName, run_id: RunId, place: Option<String>, effects: Vec<Effect> },
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
    /// Where they are listed beside other background tasks.
    pub background: Background,
    /// Where teammates can run.
    pub backends: BackendRegistry,
    /// What is the same for all of them.
    pub defaults: SpawnDefaults,
    /// Deadlines of the ladder.
    pub shutdown: ShutdownSettings,
    /// Where isolated teammates work.
    pub nursery: Nursery,
    /// The hooks that hear of worktrees.
    pub gates: Arc<dyn Gates>,
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
        let work = Work {
            parts: Arc::new(parts),
            orders,
            handle: supervisor.clone(),
            members: HashMap::new(),
            unsaid: Vec::new(),
            offers: Offers::default(),
            seen: Arc::default(),
        };
        drop(spawn_in(&lead, work.run(inbox, cancel)));
        supervisor
    }

    /// Orders a teammate; the future ends once it is ready, or failed and cleaned up. Members join in the
    /// order in which they were ordered, whenever their futures are awaited.
    pub fn spawn(&self, request: TeammateRequest) -> impl Future<Output = Result<Spawned, String>> + use<> {
        let (done, outcome) = oneshot::channel();
        self.order(Order::Spawn(request, done));
        async {
            outcome.await.unwrap_or_else(|_| Err("the leader is ending; nothing was started".to_owned()))
        }
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

    /// Takes over the members that a dead leader left behind; one sentence for each.
    pub async fn take_over(&self) -> Vec<String> {
        let (done, sentences) = oneshot::channel();
        self.order(Order::TakeOver(done));
        sentences.await.unwrap_or_default()
    }

    /// What could not be told to the leader or written into the roster, a sentence each: a run in which
    /// that happened has not gone well, whatever its last answer says.
    pub async fn unsaid(&self) -> Vec<String> {
        let (done, sentences) = oneshot::channel();
        self.order(Order::Unsaid(done));
        sentences.await.unwrap_or_default()
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

    /// Returns once all that can be seen now has led to what it leads to, such as the offer of a task.
    pub async fn look(&self) {
        let (done, looked) = oneshot::channel();
        self.order(Order::Look(done));
        // Dropped when the leader is ending: nothing follows then.
        let _ = looked.await;
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
    /// Whether somebody asked for its end, and it did not refuse.
    asked: bool,
    /// Whether it agreed to a request that came from somewhere else: `festoon team stop`.
    agreed_elsewhere: bool,
    /// Whether it was started anew here; a restarted one has a history to lose when it fails again.
    is_new: bool,
    /// Its count among all that were started, until it is ready.
    counted: Option<Started>,
    listed: bool,
    notes: Vec<String>,
    unanswered: Option<String>,
    offers: Offered,
    /// Its place in the list of background tasks, as long as it lives.
    task: Option<Registration>,
    /// Its worktree, from when it is made here.
    lease: Option<WorktreeLease>,
    /// Whether its worktree is being made: it has no process yet that could be ended.
    isolating: bool,
    /// Whether it is over, and its worktree is looked at before that is written.
    settling: bool,
    /// What became of its worktree, for the reason of its end.
    place: Option<String>,
}

impl Charge {
    fn new(spec: WorkerSpec, life: Lifecycle, handle: Option<Arc<dyn TeammateHandle>>) -> Self {
        Self {
            spec,
            life,
            handle,
            spawner: None,
            waiters: Vec::new(),
            leaves: false,
            asked: false,
            agreed_elsewhere: false,
            is_new: true,
            counted: None,
            listed: true,
            notes: Vec::new(),
            unanswered: None,
            offers: Offered::default(),
            task: None,
            lease: None,
            isolating: false,
            settling: false,
            place: None,
        }
    }
}

impl Charge {
    /// Whether its end is not written yet.
    fn is_there(&self) -> bool {
        !self.life.is_over() || self.settling
    }

    /// Why it ended: the lifecycle does not see requests that came from elsewhere.
    fn reason(&self, verdict: Verdict, reason: String) -> String {
        let reason = if self.agreed_elsewhere && verdict == Verdict::Stopped {
            "stopped on request".to_owned()
        } else {
            reason
        };
        match &self.place {
            None => reason,
            Some(place) => format!("{reason}; {place}"),
        }
    }
}

struct Work {
    parts: Arc<SupervisorParts>,
    orders: mpsc::UnboundedSender<Order>,
    handle: Supervisor,
    members: HashMap<AgentName, Charge>,
    /// What the leader or the roster should have been told and could not be.
    unsaid: Vec<String>,
    offers: Offers,
    /// Run records as they were read last.
    seen: Arc<Mutex<SeenRuns>>,
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
            Order::Isolated { name, run_id, outcome } => self.isolated(&name, &run_id, outcome).await,
            Order::Spawned { name, run_id, outcome } => self.spawned(&name, &run_id, outcome).await,
            Order::Stop { name, stop, leaves, done } => self.stop(&name, stop, leaves, done).await,
            Order::Name(new, done) => {
                // The asker may be gone.
                let _ = done.send(self.name_team(new).await);
            }
            Order::Delete(done) => {
                // The asker may be gone.
                let _ = done.send(self.delete_team().await);
            }
            Order::Pane { name, sight, done } => self.pane(name, sight, done),
            Order::PaneMoved(moved) => self.pane_moved(moved).await,
            Order::TakeOver(done) => self.take_over(done).await,
            Order::Unsaid(done) => {
                // The asker may be gone.
                let _ = done.send(self.unsaid.clone());
            }
            Order::Living(done) => {
                let living = self.members.iter().filter(|(_, c)| c.is_there()).map(|(n, _)| n.clone());
                // The asker may be gone.
                let _ = done.send(living.collect());
            }
            Order::Answered { from, request_id, refused } => {
                if let Some(charge) = self.members.get_mut(&from)
                    && refused.is_none()
                    && !charge.asked
                {
                    charge.asked = true;
                    charge.agreed_elsewhere = true;
                }
                let event = match refused {
                    None => Event::ShutdownApproved { request_id },
                    Some(reason) => Event::ShutdownRejected { request_id, reason },
                };
                self.step(&from, event).await;
            }
            Order::RunsChanged => {
                let changed = self.parts.team.hub.take_changed_runs();
                self.look_at_runs(changed).await;
            }
            Order::Look(done) => {
                self.look_at_runs(ChangedRuns::Any).await;
                // The asker may be gone.
                let _ = done.send(());
            }
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
            Order::Settled { name, run_id, place, effects } => {
                if self.is_current(&name, &run_id) {
                    self.settled(&name, place, effects).await;
                }
            }
        }
    }

    fn is_current(&self, name: &AgentName, run_id: &RunId) -> bool {
        self.members.get(name).is_some_and(|c| &c.spec.run_id == run_id)
    }

    async fn stop(
        &mut self,
        name: &AgentName,
        stop: Stop,
        leaves: bool,
        done: Option<oneshot::Sender<StopOutcome>>,
    ) {
        let Some(charge) = self.members.get_mut(name).filter(|c| c.is_there()) else {
            if let Some(done) = done {
                let _ = done.send(StopOutcome::NotThere);
            }
            return;
        };
        let hurries = leaves && !charge.leaves && charge.asked;
        charge.leaves |= leaves;
        charge.asked = true;
        charge.waiters.extend(done);
        if charge.settling {
            return;
        }
        let fields = json!({ "requestId": stop.request_id, "by": stop.by, "reason": stop.reason });
        let incarnation = charge.spec.incarnation;
        self.parts.team.log(EventKind::Shutdown, name, incarnation, fields).await;
        if self.members.get(name).is_some_and(|charge| charge.isolating) {
            self.not_started(name, format!("it was stopped by {} before that", stop.by)).await;
            return;
        }
        let again = hurries.then(|| ShutdownRequest {
            request_id: stop.request_id.clone(),
            deadline: clock::in_future(stop.ladder.polite),
            reason: Some(stop.reason.clone()),
            leader_leaves: true,
        });
        self.step(name, Event::StopAsked(stop)).await;
        if let Some(request) = again {
            // Its model has been asked before and may be slow; its runtime is asked now.
            self.send_request(name, &request).await;
        }
    }

    /// Takes what living members say of themselves.
    async fn look_at_runs(&mut self, changed: ChangedRuns) {
        let paths = self.parts.team.paths.clone();
        let dir = paths.run_dir();
        let names: Vec<AgentName> = match changed {
            ChangedRuns::Any => self.members.keys().cloned().collect(),
            ChangedRuns::These(names) => {
                names.into_iter().filter(|name| self.members.contains_key(name)).collect()
            }
        };
        let seen = Arc::clone(&self.seen);
        let look = move || {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let mut record = |name: AgentName| run::look(&paths, &name, &mut seen).map_err(|e| e.to_string());
            Ok(names.into_iter().map(|name| (name.clone(), record(name))).collect::<Vec<_>>())
        };
        let records = match self.parts.team.disk.run(&dir, look).await {
            Ok(records) => records,
            Err(error) => {
                self.parts.team.hub.runs_unread();
                tracing::warn!(%error, "run records could not be read");
                return;
            }
        };
        for (name, record) in records {
            let record = match record {
                Ok(Some(record)) => record,
                Ok(None) => continue,
                Err(error) => {
                    self.parts.team.hub.runs_unread();
                    tracing::warn!(%name, %error, "a run record could not be read");
                    continue;
                }
            };
            if !self.is_current(&name, &record.run_id) {
                continue;
            }
            if let Some(charge) = self.members.get_mut(&name) {
                charge.offers.turns = record.turns;
            }
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
        self.offer_tasks().await;
    }

    async fn step(&mut self, name: &AgentName, event: Event) {
        let Some(charge) = self.members.get_mut(name) else { return };
        let (life, effects) = charge.life.clone().step(event, Instant::now());
        charge.life = life;
        self.carry_out_all(name, effects).await;
    }
}
