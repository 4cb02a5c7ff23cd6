//! Hooks at asks, in the process where asks are decided: the leader's.
//!
//! An agent of the leader's own process has let its hooks answer before it asks; for asks of workers in
//! processes of their own that happens here. Owns which asks the hooks have seen: a dialog shows the
//! others later. An ask that is open afterwards is told to `Notification` hooks. Nothing is held back once
//! this has ended, however that came.

use super::answer::{Word, answer_with};
use super::context::{Team, latest};
use super::wake::Topic;
use crate::agent::context::spawn_in;
use crate::agent::core::AgentCore;
use crate::agent::events::AgentEvent;
use crate::agent::gates::{GateCall, GateEvent, Scene};
use crate::agent::ports::{HOOK, HookWord};
use crate::store::asks::OpenAsks;
use crate::store::error::StoreError;
use crate::store::transcript;
use crate::wire::ask::{Ask, AskKind};
use crate::wire::hooks::{HookEvent, HookSettings};
use crate::wire::ids::AskId;
use crate::wire::permission::PermissionMode;
use crate::wire::team::BackendType;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// What the hooks have seen.
#[derive(Debug, Default)]
pub struct AskHooks(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// False when there are no such hooks, or nobody runs them any more.
    holds: bool,
    done: HashSet<AskId>,
}

impl AskHooks {
    /// Watches the asks of a team until `stop`, if any hook wants to know of them.
    pub fn start(team: Team, lead: Arc<AgentCore>, stop: CancellationToken) -> Arc<Self> {
        let this = Arc::new(Self::default());
        let events = [HookEvent::PermissionRequest, HookEvent::Notification];
        let gates = &lead.runtime.gates;
        let own =
            |event: HookEvent| lead.runtime.definitions.kinds().iter().any(|d| !d.hooks.at(event).is_empty());
        if !events.into_iter().any(|event| gates.listens(event) || own(event)) {
            return this;
        }
        this.seen().holds = true;
        let watch = Watch { team, lead: Arc::clone(&lead), seen: Arc::clone(&this), stop };
        drop(spawn_in(&lead.context, watch.run()));
        this
    }

    /// Whether hooks have yet to say something about an ask.
    pub fn holds(&self, ask: &AskId) -> bool {
        let seen = self.seen();
        seen.holds && !seen.done.contains(ask)
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets go of everything when it is dropped.
struct Watch {
    team: Team,
    lead: Arc<AgentCore>,
    seen: Arc<AskHooks>,
    stop: CancellationToken,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.seen.seen().holds = false;
        self.team.hub.poke(Topic::Asks);
    }
}

impl Watch {
    async fn run(self) {
        let queue = Arc::new(OpenAsks::default());
        let mut begun = HashSet::new();
        let mut changed = self.team.hub.signal(Topic::Asks);
        loop {
            match self.open(&queue).await {
                Ok(open) => {
                    for ask in open.into_iter().filter(|ask| begun.insert(ask.id.clone())) {
                        let one = One {
                            team: self.team.clone(),
                            lead: Arc::clone(&self.lead),
                            seen: Arc::clone(&self.seen),
                            stop: self.stop.child_token(),
                        };
                        drop(spawn_in(&self.lead.context, one.look_at(ask)));
                    }
                }
                Err(error) => tracing::warn!(%error, "hooks cannot look at the asks"),
            }
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = changed.changed() => {}
            }
        }
    }

    async fn open(&self, queue: &Arc<OpenAsks>) -> Result<Vec<Ask>, StoreError> {
        let (paths, queue, dir) = (self.team.paths.clone(), Arc::clone(queue), self.team.paths.asks_dir());
        self.team.disk.run(&dir, move || queue.look(&paths)).await
    }
}

/// The hooks at one ask.
struct One {
    team: Team,
    lead: Arc<AgentCore>,
    seen: Arc<AskHooks>,
    stop: CancellationToken,
}

impl One {
    async fn look_at(self, ask: Ask) {
        let id = ask.id.clone();
        // Also when a hook or its answer fails: the person is asked then.
        let _done = Done { seen: Arc::clone(&self.seen), team: self.team.clone(), id: id.clone() };
        let asker = self.asker(&ask).await;
        let is_decided = match &asker {
            Asker::Here => false,
            Asker::Worker(who) => ask.kind == AskKind::Permission && self.decide(&ask, who).await,
        };
        if is_decided {
            return;
        }
        self.seen.seen().done.insert(id);
        self.team.hub.poke(Topic::Asks);
        let (kind, message) = notification(&ask);
        self.lead.gate(GateEvent::Notification { kind, message: &message }, &self.stop).await;
    }

    /// Runs the hooks of the leader and of the asking agent's definition; true when they have answered.
    async fn decide(&self, ask: &Ask, who: &Who) -> bool {
        let context = &self.lead.context;
        let none = HookSettings::default();
        let kinds = self.lead.runtime.definitions.kinds();
        let definition = kinds.get(&who.agent_type);
        let scene = Scene {
            agent_id: ask.agent_id.clone(),
            agent_type: &who.agent_type,
            session: &context.session,
            transcript: who.transcript.clone(),
            cwd: Path::new(&ask.cwd),
            project: &context.session_cwd,
            mode: who.mode,
            own: definition.map_or(&none, |definition| &definition.hooks),
            shells: None,
        };
        let call = GateCall { tool: &ask.tool, input: &ask.input, id: &ask.tool_use_id };
        let event = GateEvent::PermissionRequest { call, rule: &ask.rule, suggestions: &ask.suggestions };
        let outcome = self.lead.runtime.gates.pass(&scene, event, &self.stop).await;
        for notice in &outcome.notices {
            self.notice(notice.clone());
        }
        let Some(said) = HookWord::of(outcome) else { return false };
        let word = Word::once(said.decision, said.note, HOOK);
        match answer_with(&self.team, &ask.id, word, said.updated_input).await {
            // A person may have been faster, from another terminal.
            Ok(_) => true,
            Err(error) => {
                self.notice(format!("the answer of a hook to {} was not stored: {error}", ask.agent_id));
                false
            }
        }
    }

    fn notice(&self, what: String) {
        self.lead.runtime.observer.event(&self.lead.context, &AgentEvent::Notice(what));
    }

    async fn asker(&self, ask: &Ask) -> Asker {
        let Ok(roster) = self.team.roster().await else { return Asker::Here };
        let Some(member) = latest(&roster, &ask.reply_to) else { return Asker::Here };
        if member.backend_type == BackendType::InProcess {
            return Asker::Here;
        }
        let context = &self.lead.context;
        let project = self.lead.runtime.paths.project(&context.session_cwd);
        let (session, id) = (&context.session, &ask.agent_id);
        if *id == member.agent_id {
            return Asker::Worker(Who {
                agent_type: member.agent_type.clone(),
                mode: member.permission_mode,
                transcript: project.member_sidechain(session, id, member.incarnation),
            });
        }
        let (file, read) = (project.sidechain_meta(session, id), project.sidechain_meta(session, id));
        let meta = self.team.disk.run(&file, move || transcript::read_meta(&read)).await.ok().flatten();
        Asker::Worker(Who {
            agent_type: meta.as_ref().map(|meta| meta.agent_type.clone()).unwrap_or_default(),
            mode: meta.as_ref().map_or(member.permission_mode, |meta| meta.permission_mode),
            transcript: project.sidechain(session, id),
        })
    }
}

/// Who asks.
enum Asker {
    /// An agent of this process, whose hooks have run.
    Here,
    /// One of another process.
    Worker(Who),
}

struct Who {
    agent_type: String,
    mode: PermissionMode,
    transcript: PathBuf,
}

/// Shows the ask, whatever came of the hooks.
struct Done {
    seen: Arc<AskHooks>,
    team: Team,
    id: AskId,
}

impl Drop for Done {
    fn drop(&mut self) {
        if self.seen.seen().done.insert(self.id.clone()) {
            self.team.hub.poke(Topic::Asks);
        }
    }
}

/// What `Notification` hooks are told of an open ask: a word and a sentence.
fn notification(ask: &Ask) -> (&'static str, String) {
    let who = &ask.agent_id;
    match ask.kind {
        AskKind::Permission => {
            ("permission_prompt", format!("{who} needs your permission: {}", ask.description))
        }
        AskKind::Sandbox => {
            ("permission_prompt", format!("{who} needs your permission for the network: {}", ask.description))
        }
        AskKind::Question => ("question_prompt", format!("{who} has a question: {}", ask.description)),
        AskKind::Plan => ("plan_prompt", format!("{who} has a plan for you to approve: {}", ask.description)),
    }
}
