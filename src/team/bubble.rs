//! Asks on their way to whoever answers: each is a file, and so is its decision.
//!
//! The asking process makes the ask file and waits for the decision file; that one is signed, created
//! once, and the only truth. A response by mail, a watch and a slow look all only say: look now.
//! The plan of a teammate is put before the leader's model as well, which may decide like a person.

use super::context::Team;
use super::wake::{Signal, Topic};
use crate::agent::context::{AgentContext, Tier};
use crate::agent::ports::{
    Answer, AskPlace, AskRequest, BoxFuture, HOOK, HookWord, LeftCall, Mailbox, PermissionBroker,
};
use crate::store::error::StoreError;
use crate::store::{asks, clock, run};
use crate::wire::ask::{Ask, AskKind, AskStatus, Closed, DecisionRecord};
use crate::wire::event::EventKind;
use crate::wire::frame::{FrameType, PermissionRequest};
use crate::wire::frame_asks::{PlanApprovalRequest, QuestionRequest};
use crate::wire::ids::{AgentId, AgentName, AskId};
use crate::wire::mail::{Draft, MAX_SUMMARY_CHARS, Wake};
use crate::wire::permission::{Decision, PermissionMode, Scope};
use crate::wire::worker::AskPolicy;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Why an ask is closed when nobody could be asked; counted at the end of a headless run.
pub const NOBODY: &str = "nobody is there to answer";

/// Why an ask is closed when nobody waits for it.
const ENDED: &str = "the asking agent has ended";

/// Who hears of an ask by mail, beside the file that everyone finds.
#[derive(Clone)]
pub enum Tell {
    /// Nobody: the leader itself asks.
    Nobody,
    /// The leader's model, of plans: the leader's process sees the files.
    Plans(Arc<dyn Mailbox>),
    /// The leader, of everything: it is another process.
    All(Arc<dyn Mailbox>),
}

/// The broker of all agents of one process.
pub struct FileBroker {
    team: Team,
    policy: AskPolicy,
    tell: Tell,
    /// Asks of earlier processes that are to be gone on with.
    left: Mutex<Vec<Ask>>,
    /// Asks with a decision that was refused: said once.
    refused: Mutex<HashSet<AskId>>,
}

impl FileBroker {
    /// A broker.
    pub fn new(team: Team, policy: AskPolicy, tell: Tell) -> Self {
        Self { team, policy, tell, left: Mutex::default(), refused: Mutex::default() }
    }

    async fn ask(&self, request: AskRequest, cancel: &CancellationToken) -> Result<Answer, StoreError> {
        let mut signal = self.team.hub.signal(Topic::Asks);
        let ask = self.again(make(&request)).await?;
        let id = ask.id.clone();
        // Somebody may have answered while nobody ran.
        if let Some(answer) = self.look(&id).await? {
            return Ok(answer);
        }
        if let Some(word) = request.hook {
            return self.decided(ask, word).await;
        }
        // With nobody at a terminal the leader's model can still look at a teammate's plan.
        let by_leader = ask.kind == AskKind::Plan && request.context.tier == Tier::Teammate;
        if self.policy == AskPolicy::Deny && !by_leader {
            let closed = Closed { at: clock::now(), reason: NOBODY.to_owned() };
            self.store(Ask { closed: Some(closed), ..ask }).await?;
            // One that was there already.
            self.close(&id, NOBODY).await?;
            return Ok(Answer::Nobody(
                "nobody is there to answer (headless, without --ask-timeout)".to_owned(),
            ));
        }
        let message = match &self.tell {
            Tell::All(mail) => draft(&ask).map(|draft| (mail, draft)),
            Tell::Plans(mail) if by_leader => draft(&ask).map(|draft| (mail, draft)),
            Tell::Plans(_) | Tell::Nobody => None,
        };
        // Also when whoever asks is cut off in the middle: nobody would wait for the answer.
        let _closes = Asked { team: &self.team, id: &id };
        self.store(ask).await?;
        if let Some((mail, draft)) = message
            && let Err(error) = mail.send(&AgentName::team_lead(), draft).await
        {
            // The file stands and every terminal lists it; the leader's own watch finds it too.
            tracing::warn!(%error, "the leader could not be told of an ask");
        }
        match self.wait(&id, &mut signal, cancel).await {
            Ok(answer) => Ok(answer),
            Err(error) => {
                // Nobody can answer an ask whose decision cannot be read, so nobody should wait for it.
                let closed = self.give_up(&id, "its decision could not be read", Answer::Cancelled).await;
                if let Err(error) = closed {
                    tracing::warn!(ask = %id, %error, "an ask could not be closed");
                }
                Err(error)
            }
        }
    }

    /// Puts an ask on record that a hook has decided before anybody was asked.
    async fn decided(&self, ask: Ask, word: HookWord) -> Result<Answer, StoreError> {
        let record = DecisionRecord {
            ask_id: ask.id.clone(),
            decision: word.decision,
            scope: Scope::Once,
            note: word.note,
            updated_input: word.updated_input,
            permission_mode: None,
            answers: Vec::new(),
            by: HOOK.to_owned(),
            at: clock::now(),
            sig: String::new(),
        };
        let (agent, incarnation) = (ask.reply_to.clone(), ask.incarnation);
        let fields = json!({ "askId": ask.id, "kind": ask.kind, "decision": record.decision, "scope": record.scope, "by": record.by,
                             "agentId": ask.agent_id, "note": record.note });
        let (paths, keys, file) =
            (self.team.paths.clone(), self.team.keys.clone(), self.team.paths.ask(&ask.id));
        let mut told = ask_fields(&ask);
        told["decided"] = json!(HOOK);
        let signed = record.clone();
        let put = move || {
            asks::create(&paths, &ask)?;
            let is_yes = signed.decision == Decision::Allow;
            asks::decide(&paths, &keys, signed)?;
            if is_yes { asks::begin(&paths, &ask.id) } else { Ok(()) }
        };
        self.team.disk.run(&file, put).await?;
        self.team.log(EventKind::Ask, &agent, incarnation, told).await;
        self.team.log(EventKind::Decision, &agent, incarnation, fields).await;
        Ok(Answer::Decided {
            decision: record.decision,
            scope: record.scope,
            note: record.note,
            updated_input: record.updated_input,
            by: record.by,
            mode: None,
            answers: Vec::new(),
        })
    }

    /// Waits for the decision, the deadline, or the end of the call.
    async fn wait(
        &self,
        id: &AskId,
        signal: &mut Signal,
        cancel: &CancellationToken,
    ) -> Result<Answer, StoreError> {
        let deadline = match self.policy {
            AskPolicy::WaitSeconds(seconds) => {
                Some(tokio::time::Instant::now() + Duration::from_secs(seconds))
            }
            AskPolicy::Wait | AskPolicy::Deny => None,
        };
        loop {
            if let Some(answer) = self.look(id).await? {
                return Ok(answer);
            }
            if let Some(answer) = self.closed(id).await? {
                return Ok(answer);
            }
            let over = async {
                match deadline {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = cancel.cancelled() => return self.give_up(id, "the call was cancelled", Answer::Cancelled).await,
                () = over => {
                    let seconds = match self.policy { AskPolicy::WaitSeconds(s) => s, _ => 0 };
                    let why = format!("nobody answered within {seconds} s");
                    tracing::info!(ask = %id, "{why}");
                    return self.give_up(id, NOBODY, Answer::Nobody(why)).await;
                }
                () = signal.changed() => {}
            }
        }
    }

    /// Closes the ask, unless an answer came first.
    async fn give_up(&self, id: &AskId, reason: &str, answer: Answer) -> Result<Answer, StoreError> {
        self.close(id, reason).await?;
        Ok(self.look(id).await?.unwrap_or(answer))
    }

    async fn close(&self, id: &AskId, reason: &str) -> Result<(), StoreError> {
        let (paths, ask, reason) = (self.team.paths.clone(), id.clone(), reason.to_owned());
        let file = paths.ask(id);
        self.team.disk.run(&file, move || asks::close(&paths, &ask, &reason)).await?;
        self.team.hub.poke(Topic::Asks);
        Ok(())
    }

    /// What it means that somebody else closed the ask.
    async fn closed(&self, id: &AskId) -> Result<Option<Answer>, StoreError> {
        let (paths, ask) = (self.team.paths.clone(), id.clone());
        let file = paths.ask(id);
        let found = self.team.disk.run(&file, move || asks::load(&paths, &ask)).await?;
        let Some(closed) = found.and_then(|ask| ask.known.closed) else { return Ok(None) };
        // An answer may have come between the two looks.
        let answer = match closed.reason.as_str() {
            NOBODY => Answer::Nobody("nobody is there to answer, and the leader did not".to_owned()),
            _ => Answer::Cancelled,
        };
        Ok(Some(self.look(id).await?.unwrap_or(answer)))
    }

    /// The ask that an earlier process left for this very call, open again, or else this one.
    async fn again(&self, ask: Ask) -> Result<Ask, StoreError> {
        let found = {
            let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
            let at = left.iter().position(|left| left.is_again(&ask));
            at.map(|at| left.swap_remove(at))
        };
        let Some(found) = found else { return Ok(ask) };
        let (paths, id, file) = (self.team.paths.clone(), found.id.clone(), self.team.paths.ask(&found.id));
        self.team.disk.run(&file, move || asks::reopen(&paths, &id)).await?;
        Ok(Ask { closed: None, ..found })
    }

    /// Keeps the asks of these calls that can be gone on with, and closes the others.
    async fn find_left(
        &self,
        agent: &AgentId,
        incarnation: u32,
        calls: &[String],
    ) -> Result<Vec<LeftCall>, StoreError> {
        let (paths, agent, dir) = (self.team.paths.clone(), agent.clone(), self.team.paths.asks_dir());
        let all = self.team.disk.run(&dir, move || asks::list(&paths)).await?;
        let theirs: Vec<_> = all
            .into_iter()
            .filter(|(ask, ..)| ask.agent_id == agent && ask.incarnation <= incarnation)
            .collect();
        let has_begun = |id: &String| theirs.iter().any(|(a, ..)| a.tool_use_id == *id && a.begun.is_some());
        let mut calls: HashSet<&String> = calls.iter().filter(|id| !has_begun(id)).collect();
        let mut found = Vec::new();
        // The last ask of a call is the one that it waited for.
        for (ask, status, _) in theirs.iter().rev() {
            if ask.incarnation == incarnation && calls.remove(&ask.tool_use_id) {
                let answered = *status == AskStatus::Decided;
                found.push(LeftCall { tool_use_id: ask.tool_use_id.clone(), answered });
                self.left.lock().unwrap_or_else(PoisonError::into_inner).push(ask.clone());
            } else if *status == AskStatus::Open {
                self.close(&ask.id, ENDED).await?;
            }
        }
        Ok(found)
    }

    async fn store(&self, ask: Ask) -> Result<(), StoreError> {
        let agent = ask.reply_to.clone();
        let incarnation = ask.incarnation;
        let fields = ask_fields(&ask);
        let paths = self.team.paths.clone();
        let file = paths.ask(&ask.id);
        self.team.disk.run(&file, move || asks::create(&paths, &ask)).await?;
        self.team.log(EventKind::Ask, &agent, incarnation, fields).await;
        self.team.hub.poke(Topic::Asks);
        Ok(())
    }

    async fn look(&self, id: &AskId) -> Result<Option<Answer>, StoreError> {
        let (paths, keys, ask) = (self.team.paths.clone(), self.team.keys.clone(), id.clone());
        let file = paths.decision(id);
        let found = self.team.disk.run(&file, move || asks::decision(&paths, &keys, &ask)).await;
        let found = match found {
            // Nobody of us signed it, so it decides nothing; a real answer moves it aside.
            Err(
                error
                @ (StoreError::Invalid { .. } | StoreError::Corrupt { .. } | StoreError::NotOurs { .. }),
            ) => {
                self.refuse(id, &error).await;
                None
            }
            found => found?,
        };
        if found.as_ref().is_some_and(|record| record.decision == Decision::Allow) {
            let (paths, ask, file) = (self.team.paths.clone(), id.clone(), self.team.paths.ask(id));
            self.team.disk.run(&file, move || asks::begin(&paths, &ask)).await?;
        }
        Ok(found.map(|record| Answer::Decided {
            decision: record.decision,
            scope: record.scope,
            note: record.note,
            updated_input: record.updated_input,
            by: record.by,
            mode: record.permission_mode,
            answers: record.answers,
        }))
    }
}

impl FileBroker {
    /// Puts on record that a decision is ignored, once for each ask.
    async fn refuse(&self, id: &AskId, error: &StoreError) {
        if !self.refused.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone()) {
            return;
        }
        tracing::warn!(%error, "a decision is ignored");
        let (paths, ask) = (self.team.paths.clone(), id.clone());
        let file = paths.ask(id);
        let Ok(Some(ask)) = self.team.disk.run(&file, move || asks::load(&paths, &ask)).await else { return };
        let reason = format!("a decision about {id} is ignored, and the ask stays open: {error}");
        let fields =
            json!({ "askId": id, "agentId": ask.agent_id, "summary": ask.description, "reason": reason });
        self.team.log(EventKind::Refused, &ask.reply_to, ask.incarnation, fields).await;
    }
}

/// Closes an ask that is still open when nobody waits for it any more.
struct Asked<'a> {
    team: &'a Team,
    id: &'a AskId,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let (team, id) = (self.team.clone(), self.id.clone());
        let file = team.paths.ask(&id);
        self.team.disk.later(&file, move || match asks::close(&team.paths, &id, ENDED) {
            Ok(()) | Err(StoreError::NotFound { .. }) => Ok(Some(())),
            Err(error) => Err(error),
        });
    }
}

/// Word to the leader that an ask is there.
fn draft(ask: &Ask) -> Option<Draft> {
    let who = ask.agent_id.as_str();
    let name = who.split_once('@').map_or(who, |(name, _)| name);
    let draft = match ask.kind {
        AskKind::Permission | AskKind::Sandbox => {
            let request = PermissionRequest {
                ask_id: ask.id.clone(),
                tool_name: ask.tool.clone(),
                tool_use_id: ask.tool_use_id.clone(),
                input: ask.input.clone(),
                description: ask.description.clone(),
                rule: ask.rule.clone(),
                suggestions: ask.suggestions.clone(),
                cwd: ask.cwd.clone(),
            };
            let text = format!("{who} asks to {}", ask.description);
            Draft::frame(FrameType::PermissionRequest, text, &request).map(|d| d.waking(Wake::Queue))
        }
        AskKind::Question => {
            let request = QuestionRequest { ask_id: ask.id.clone(), questions: ask.questions() };
            let text = format!("{who} asks: {}", ask.description);
            Draft::frame(FrameType::QuestionRequest, text, &request).map(|d| d.waking(Wake::Queue))
        }
        AskKind::Plan => {
            let request =
                PlanApprovalRequest { request_id: ask.id.clone(), plan: ask.plan().unwrap_or_default() };
            let text = format!("{name} asks for approval of its plan and waits.");
            let summary: String = ask.description.chars().take(MAX_SUMMARY_CHARS).collect();
            Draft::frame(FrameType::PlanApprovalRequest, text, &request)
                .map(|draft| Draft { summary: Some(summary), ..draft })
        }
    };
    draft.inspect_err(|error| tracing::error!(%error, "an ask could not be encoded")).ok()
}

/// What the event log says of an ask.
fn ask_fields(ask: &Ask) -> Value {
    let mut fields = json!({ "askId": ask.id, "kind": ask.kind, "agentId": ask.agent_id, "tool": ask.tool,
                             "summary": ask.description, "reason": ask.rule,
                             "closed": ask.closed.as_ref().map(|c| c.reason.clone()) });
    match ask.kind {
        AskKind::Plan => {
            fields["plan"] = json!(ask.plan());
            fields["modes"] = json!(ask.modes);
        }
        AskKind::Question => {
            let input: Value = serde_json::from_str(ask.input.get()).unwrap_or_default();
            fields["questions"] = input["questions"].clone();
        }
        AskKind::Permission | AskKind::Sandbox => {}
    }
    fields
}

fn make(request: &AskRequest) -> Ask {
    let context = &request.context;
    Ask {
        id: AskId::generate(),
        kind: request.kind,
        agent_id: context.id().clone(),
        reply_to: context.root.clone(),
        incarnation: context.incarnation,
        tool: request.tool.clone(),
        tool_use_id: request.tool_use_id.clone(),
        input: (*request.input).to_owned(),
        description: request.access.summary.clone(),
        cwd: context.cwd.display().to_string(),
        project: Some(context.session_cwd.display().to_string()),
        rule: request.rule.clone(),
        suggestions: request.suggestions.clone(),
        modes: request.modes.clone(),
        created_at: clock::now(),
        closed: None,
        begun: None,
    }
}

impl PermissionBroker for FileBroker {
    fn decide<'a>(&'a self, ask: AskRequest, cancel: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(async move { self.ask(ask, cancel).await.unwrap_or_else(|e| Answer::Failed(e.to_string())) })
    }

    fn left<'a>(
        &'a self,
        context: &'a AgentContext,
        calls: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<LeftCall>, StoreError>> {
        Box::pin(async move { self.find_left(&context.id(), context.incarnation, calls).await })
    }

    fn close_left<'a>(&'a self, context: &'a AgentContext) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let me = context.id();
            let theirs: Vec<Ask> = {
                let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
                left.extract_if(.., |ask| ask.agent_id == me).collect()
            };
            for ask in theirs {
                if let Err(error) = self.close(&ask.id, "its call went on without an answer").await {
                    tracing::warn!(ask = %ask.id, %error, "an ask could not be closed");
                }
            }
        })
    }

    fn place(&self) -> AskPlace {
        match (self.policy, &self.tell) {
            (AskPolicy::Wait | AskPolicy::WaitSeconds(_), Tell::All(_)) => AskPlace::Elsewhere,
            (AskPolicy::Deny, _) | (_, Tell::Nobody | Tell::Plans(_)) => AskPlace::Here,
        }
    }

    fn leaders_mode(&self) -> BoxFuture<'_, PermissionMode> {
        Box::pin(async {
            let paths = self.team.paths.clone();
            let file = paths.run(&AgentName::team_lead());
            let record = self.team.disk.run(&file, move || run::load(&paths, &AgentName::team_lead())).await;
            let record = record.inspect_err(|error| tracing::warn!(%error, "the leader's mode is not known"));
            record.ok().flatten().and_then(|record| record.permission_mode).unwrap_or_default()
        })
    }
}
