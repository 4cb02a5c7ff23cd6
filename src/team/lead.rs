//! The leader: the main agent with its mail, its team, and the question whether all is quiet.

use super::context::Team;
use super::mailbox::FileMailbox;
use super::plans;
use super::pump::{Control, Pump};
use super::reporter::{Reporter, Reporters};
use super::supervisor::Supervisor;
use super::wake::Topic;
use crate::agent::compact::Compacted;
use crate::agent::context::spawn_in;
use crate::agent::events::AgentEvent;
use crate::agent::turn::{Agent, TurnEnd, TurnInput, TurnStatus};
use crate::store::asks::OpenAsks;
use crate::store::error::StoreError;
use crate::store::inbox::InboxCounts;
use crate::store::run::{self, SeenRuns};
use crate::store::seen::Seen;
use crate::wire::ask::{Ask, AskKind};
use crate::wire::ids::{AgentName, AskId, RunId};
use crate::wire::run::AgentState;
use crate::wire::worker::AskPolicy;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What waiting came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Mail starts a turn.
    Mail,
    /// No background agent works, every teammate is idle, nothing is unread, nothing is asked.
    Quiet,
}

/// The main agent and its team.
pub struct Lead {
    /// The agent.
    pub agent: Agent,
    /// Its mail.
    pub mailbox: Arc<FileMailbox>,
    /// Its teammates.
    pub supervisor: Supervisor,
    /// Its run record.
    pub reporter: Arc<Reporter>,
    /// The run records of all agents in this process.
    reporters: Arc<Reporters>,
    interrupts: watch::Receiver<u64>,
    asks: Arc<OpenAsks>,
    /// What the last looks at the team have read.
    seen: Arc<Mutex<SeenTeam>>,
    /// Whether the last turn ended at a budget: mail starts none then, for its answer would not begin.
    held: bool,
    /// Who answers asks beside the model.
    policy: AskPolicy,
}

/// Files of the members, as far as they did not change.
#[derive(Default)]
struct SeenTeam {
    runs: SeenRuns,
    mail: Seen<InboxCounts>,
}

/// What one look at the team saw; two equal looks in a row are one consistent picture, since every
/// change raises a number.
#[derive(Debug, Default, PartialEq, Eq)]
struct Picture {
    members: Vec<(AgentName, RunId, AgentState, u64, u64, u64)>,
    lead_seq: u64,
    open_asks: usize,
    /// Plans that only the leader's model could decide about, which it was shown and left alone.
    left_alone: Vec<AskId>,
    busy: bool,
    /// Members whose record cannot be read, and why. Whether they live, the supervisor knows.
    damaged: Vec<(AgentName, String)>,
}

impl Lead {
    /// Starts the leader's pump.
    pub fn new(
        agent: Agent,
        mailbox: Arc<FileMailbox>,
        supervisor: Supervisor,
        reporter: Arc<Reporter>,
        reporters: Arc<Reporters>,
        policy: AskPolicy,
        cancel: &CancellationToken,
    ) -> Self {
        let interrupts = Self::listen(&agent, &mailbox, &supervisor, cancel);
        Self {
            agent,
            mailbox,
            supervisor,
            reporter,
            reporters,
            interrupts,
            asks: Arc::default(),
            seen: Arc::default(),
            held: false,
            policy,
        }
    }

    /// Puts another agent in the place of this one, whose pump has been ended.
    pub fn renew(&mut self, agent: Agent, cancel: &CancellationToken) {
        self.interrupts = Self::listen(&agent, &self.mailbox, &self.supervisor, cancel);
        self.agent = agent;
        self.held = false;
    }

    /// Reads the agent's control frames until `cancel`.
    fn listen(
        agent: &Agent,
        mailbox: &Arc<FileMailbox>,
        supervisor: &Supervisor,
        cancel: &CancellationToken,
    ) -> watch::Receiver<u64> {
        let (out, mut controls) = mpsc::unbounded_channel();
        let (interrupt, interrupts) = watch::channel(0);
        let context = Arc::clone(&agent.core().context);
        let pump = Pump::new(Arc::clone(mailbox), agent.transcript().clone(), out);
        drop(spawn_in(&context, pump.run(cancel.clone())));
        let members = supervisor.clone();
        drop(spawn_in(&context, async move {
            while let Some(word) = controls.recv().await {
                match word {
                    Control::ShutdownAnswer { from, request_id, refused } => {
                        members.answered(from, request_id, refused);
                    }
                    Control::Interrupt => interrupt.send_modify(|n| *n += 1),
                    // It ends with its process, and takes no orders.
                    Control::Leave { .. } | Control::StopTask(_) | Control::Mode(_) | Control::Rules(_) => {}
                }
            }
        }));
        interrupts
    }

    fn team(&self) -> &Team {
        self.mailbox.team()
    }

    /// One turn, with the run record kept true. `cancel` ends it; so does an interrupt by mail.
    pub async fn turn(
        &mut self,
        input: TurnInput,
        cancel: &CancellationToken,
    ) -> Result<TurnEnd, StoreError> {
        self.reporter.set_state(AgentState::Working).await?;
        let mut end = self.one_turn(input, cancel).await;
        // Interrupted by mail that the model has not answered yet; a person's interrupt is obeyed.
        while end.owes_answer && matches!(end.status, TurnStatus::Cancelled) && !cancel.is_cancelled() {
            end = self.one_turn(TurnInput::Continue, cancel).await;
        }
        self.held = end.is_limit();
        self.mailbox.after_turn(end.rounds > 0).await;
        let delivered = self.mailbox.delivered_seq();
        self.reporter.change(|r| r.delivered_seq = r.delivered_seq.max(delivered)).await?;
        self.reporter.set_state(AgentState::Idle).await?;
        Ok(end)
    }

    /// Goes on from a summary of the conversation, with the run record kept true.
    pub async fn compact(
        &mut self,
        focus: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<Compacted, StoreError> {
        self.reporter.set_state(AgentState::Working).await?;
        let outcome = self.agent.compact_now(focus, cancel).await;
        self.reporter.set_state(AgentState::Idle).await?;
        Ok(outcome)
    }

    async fn one_turn(&mut self, input: TurnInput, cancel: &CancellationToken) -> TurnEnd {
        self.interrupts.borrow_and_update();
        let mine = cancel.child_token();
        let turn = self.agent.turn(input, &mine);
        tokio::pin!(turn);
        let mut listens = true;
        loop {
            tokio::select! {
                biased;
                end = &mut turn => return end,
                changed = self.interrupts.changed(), if listens => {
                    listens = changed.is_ok();
                    if listens { mine.cancel() }
                }
            }
        }
    }

    /// Whether mail waits that starts a turn; none does once a budget is used up.
    pub async fn has_mail(&self) -> bool {
        !self.held && self.mailbox.wakes().await
    }

    /// Waits until mail starts a turn.
    pub async fn mail(&self) {
        let mut inbox = self.team().hub.signal(Topic::Inbox(AgentName::team_lead()));
        while !self.has_mail().await {
            inbox.changed().await;
        }
    }

    /// Waits until mail starts a turn or the whole team is quiet.
    pub async fn settle(&self) -> Result<Settled, StoreError> {
        let hub = &self.team().hub;
        let mut inbox = hub.signal(Topic::Inbox(AgentName::team_lead()));
        let mut runs = hub.signal(Topic::Runs);
        let mut asks = hub.signal(Topic::Asks);
        let mut team = hub.signal(Topic::Team);
        let mut tasks = self.agent.core().runtime.background.changes();
        let mut told = HashSet::new();
        loop {
            if self.has_mail().await {
                return Ok(Settled::Mail);
            }
            let first = self.look().await?;
            for (name, why) in &first.damaged {
                if self.reporters.write_again(name).await || !told.insert(name.clone()) {
                    continue;
                }
                let core = self.agent.core();
                let notice = format!("{name} counts as busy as long as its process lives: {why}");
                core.runtime.observer.event(&core.context, &AgentEvent::Notice(notice));
            }
            if !first.busy {
                self.supervisor.look().await;
                if first == self.look().await? && !self.has_mail().await {
                    if first.left_alone.is_empty() {
                        return Ok(Settled::Quiet);
                    }
                    plans::close(self.team(), first.left_alone).await?;
                    continue;
                }
            }
            tokio::select! {
                () = inbox.changed() => {}
                () = runs.changed() => {}
                () = asks.changed() => {}
                () = team.changed() => {}
                // Never closed as long as this agent lives.
                _ = tasks.changed() => {}
            }
        }
    }

    async fn look(&self) -> Result<Picture, StoreError> {
        // Before the mail: what such an agent has to tell is stored before it counts as over.
        let background = self.agent.core().runtime.background.all_at_work();
        if background > 0 {
            return Ok(Picture { busy: true, ..Picture::default() });
        }
        let living = self.supervisor.living().await;
        let (team, queue) = (self.team().clone(), Arc::clone(&self.asks));
        let (mailbox, by_model) = (Arc::clone(&self.mailbox), self.policy == AskPolicy::Deny);
        let dir = team.paths.dir();
        let disk = team.disk.clone();
        // At a budget nobody begins anything; what is unread stays.
        let held = self.held;
        let seen = Arc::clone(&self.seen);
        disk.run(&dir, move || {
            let SeenTeam { runs, mail } = &mut *seen.lock().unwrap_or_else(PoisonError::into_inner);
            let mut picture = Picture::default();
            let open = queue.look(&team.paths)?;
            let left_alone =
                |ask: &&Ask| by_model && ask.kind == AskKind::Plan && mailbox.shown_plans().has(&ask.id);
            picture.open_asks = open.len();
            picture.left_alone = open.iter().filter(left_alone).map(|ask| ask.id.clone()).collect();
            let waits_in_vain =
                |name: &AgentName| open.iter().filter(left_alone).any(|ask| &ask.reply_to == name);
            for name in living {
                if picture.busy {
                    // One is enough, however many there are.
                    return Ok(picture);
                }
                let inbox = team.inbox(&name);
                let counts = match mail.read(inbox.path(), || inbox.counts()) {
                    Ok(counts) => counts,
                    // Its owner is about to set the file aside; that ends no run.
                    Err(StoreError::Corrupt { .. }) => {
                        picture.busy = true;
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                match run::look(&team.paths, &name, runs) {
                    Ok(Some(record)) => {
                        let waits = record.state == AgentState::Waiting && waits_in_vain(&name);
                        let will_work = counts.waiting_turn > 0 && !held;
                        let begins = record.state != AgentState::Idle || will_work;
                        picture.busy |= record.background > 0 || (!waits && begins);
                        picture.members.push((
                            name,
                            record.run_id.clone(),
                            record.state,
                            record.turns,
                            record.delivered_seq,
                            counts.last_seq,
                        ));
                    }
                    Ok(None) => picture.busy = true,
                    Err(error) => {
                        picture.busy = true;
                        picture.damaged.push((name, error.to_string()));
                    }
                }
            }
            picture.lead_seq = team.inbox(&AgentName::team_lead()).counts()?.last_seq;
            picture.busy |= picture.open_asks > picture.left_alone.len();
            picture.members.sort_by(|a, b| a.0.cmp(&b.0));
            Ok(picture)
        })
        .await
    }
}
