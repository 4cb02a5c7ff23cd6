//! The mailbox of one agent on the inbox files: checks the recipient, stores, wakes.

use super::context::{Team, latest};
use super::plans::{self, ShownPlans};
use super::rate::SendRate;
use super::wake::{Signal, Topic};
use crate::agent::ports::{BoxFuture, MailError, Mailbox};
use crate::store::clock;
use crate::store::error::StoreError;
use crate::store::inbox::InboxNotice;
use crate::wire::event::EventKind;
use crate::wire::frame::{FrameType, ShutdownAnswer, ShutdownRequest};
use crate::wire::ids::{AgentName, AskId, MessageId, is_subagent};
use crate::wire::mail::{Claimed, Draft, MAX_SUMMARY_CHARS, MAX_TEXT_CHARS, Message, Origin, Receipt, Wake};
use crate::wire::permission::Decision;
use crate::wire::team::{BackendType, TeamFile};
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::sync::CancellationToken;

/// How long mail that could not be delivered starts no turn.
const STUCK_FOR: Duration = Duration::from_secs(30);

/// Whose drafts are limited in number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// A model: a burst, then one a second to each recipient.
    Model,
    /// A person or the runtime.
    Trusted,
}

/// The mailbox.
pub struct FileMailbox {
    team: Team,
    me: AgentName,
    incarnation: u32,
    color: Option<String>,
    backend: BackendType,
    rate: Mutex<SendRate>,
    changes: AsyncMutex<Signal>,
    /// Positions of messages that wait, by id.
    seen: Mutex<HashMap<MessageId, u64>>,
    /// What could not be delivered, and since when.
    stuck: Mutex<Option<(Instant, HashSet<MessageId>)>>,
    delivered_seq: AtomicU64,
    shutdown: Mutex<Option<String>>,
    plans: ShownPlans,
    leaving: CancellationToken,
}

impl FileMailbox {
    /// The mailbox of `me`.
    pub fn new(team: Team, me: AgentName, incarnation: u32, color: Option<String>) -> Self {
        let changes = AsyncMutex::new(team.hub.signal(Topic::Inbox(me.clone())));
        Self {
            team,
            me,
            incarnation,
            color,
            backend: BackendType::InProcess,
            rate: Mutex::new(SendRate::default()),
            changes,
            seen: Mutex::new(HashMap::new()),
            stuck: Mutex::new(None),
            delivered_seq: AtomicU64::new(0),
            shutdown: Mutex::new(None),
            plans: ShownPlans::default(),
            leaving: CancellationToken::new(),
        }
    }

    /// The same for an agent that runs in `backend`.
    pub fn running_in(mut self, backend: BackendType) -> Self {
        self.backend = backend;
        self
    }

    /// The team.
    pub fn team(&self) -> &Team {
        &self.team
    }

    /// Whose mailbox it is.
    pub fn me(&self) -> &AgentName {
        &self.me
    }

    /// Which agent of that name.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// The highest position whose message the model has been shown.
    pub fn delivered_seq(&self) -> u64 {
        self.delivered_seq.load(Ordering::Acquire)
    }

    /// The shutdown request the model has been shown and has not answered.
    pub fn open_shutdown(&self) -> Option<String> {
        self.shutdown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Closes it without an answer.
    pub fn drop_shutdown(&self) -> Option<String> {
        self.shutdown.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The plans that the model has been shown.
    pub fn shown_plans(&self) -> &ShownPlans {
        &self.plans
    }

    /// Cancelled once this agent has agreed to end.
    pub fn leaving(&self) -> CancellationToken {
        self.leaving.clone()
    }

    /// Unread mail as it stands in the file. What other programs wrote is given its place and a damaged
    /// file is set aside first; else nothing is changed.
    pub async fn peek(&self) -> Result<Vec<Claimed>, MailError> {
        let mut waiting = self.unread().await;
        if matches!(waiting, Ok(None) | Err(StoreError::Corrupt { .. })) {
            self.put_in_order(0).await?;
            waiting = self.unread().await;
        }
        let waiting = waiting.map_err(|e| explain(&e))?.unwrap_or_default();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend(waiting.iter().map(|c| (c.id.clone(), c.message.seq)));
        Ok(waiting)
    }

    /// Whether mail waits that starts a turn.
    pub async fn wakes(&self) -> bool {
        let waiting = match self.peek().await {
            Ok(waiting) => waiting,
            Err(error) => {
                tracing::warn!(%error, "mail could not be read");
                return false;
            }
        };
        let stuck = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        let is_stuck =
            |id| stuck.as_ref().is_some_and(|(since, ids)| since.elapsed() < STUCK_FOR && ids.contains(id));
        waiting.iter().any(|c| is_for_model(c) && c.message.wake != Wake::Queue && !is_stuck(&c.id))
    }

    /// To be told whether a turn that was to deliver mail showed the model anything. When it did not (a
    /// disk that refuses), the same mail starts no turn for a while, so that nothing runs in circles.
    pub async fn after_turn(&self, showed_something: bool) {
        let ids = match (showed_something, self.peek().await) {
            (false, Ok(waiting)) if !waiting.is_empty() => {
                Some((Instant::now(), waiting.into_iter().map(|c| c.id).collect()))
            }
            _ => None,
        };
        *self.stuck.lock().unwrap_or_else(PoisonError::into_inner) = ids;
    }

    async fn unread(&self) -> Result<Option<Vec<Claimed>>, StoreError> {
        let (inbox, incarnation) = (self.team.inbox(&self.me), self.incarnation);
        let path = self.team.paths.inbox(&self.me);
        self.team.disk.run(&path, move || inbox.peek(incarnation)).await
    }

    /// Claims up to `max` messages, and tells the log what was found wrong on the way.
    async fn put_in_order(&self, max: usize) -> Result<Vec<Claimed>, MailError> {
        let (inbox, incarnation) = (self.team.inbox(&self.me), self.incarnation);
        let path = self.team.paths.inbox(&self.me);
        let claim = self.team.disk.attempt(&path, move || inbox.try_claim(incarnation, max)).await;
        let claim = claim.map_err(|e| explain(&e))?;
        for notice in &claim.notices {
            self.report(notice).await;
        }
        Ok(claim.messages)
    }

    /// Stores a message from this agent.
    pub async fn post(&self, to: &AgentName, draft: Draft, sender: Sender) -> Result<Receipt, MailError> {
        check(&draft)?;
        let roster = self.team.roster().await.map_err(|e| explain(&e))?;
        // One without a name has an inbox and no row.
        let incarnation = if to.is_lead() || is_subagent(to.as_str()) {
            1
        } else {
            let member = latest(&roster, to).ok_or_else(|| unknown(to, &roster.known, &self.me))?;
            if let Some(ended) = &member.ended {
                return Err(MailError {
                    kind: "stopped",
                    what: format!(
                        "{to} is {} since {} ({}), so the message was not stored; start a teammate of that name again \
                         to reach it",
                        ended.state.as_str(),
                        ended.at,
                        ended.reason
                    ),
                });
            }
            member.incarnation
        };
        if sender == Sender::Model {
            self.rate.lock().unwrap_or_else(PoisonError::into_inner).take(to).map_err(|wait| MailError {
                kind: "rate_limited",
                what: format!(
                    "too many messages to {to}: 30 at once, then one a second; the message was not stored. Wait \
                     {:.1} s, or put what you have to say in one message",
                    wait.as_secs_f64()
                ),
            })?;
        }
        self.store(MessageId::generate(), to, incarnation, draft).await
    }

    /// A frame without a good signature is only text; that somebody tried is in the log.
    async fn note_forged(&self, claimed: &Claimed) {
        let kind = &claimed.message.kind;
        if claimed.origin == Origin::Team || *kind == FrameType::PeerDm {
            return;
        }
        let fields = json!({ "messageId": claimed.id, "type": kind.as_str(), "claims": claimed.message.from,
                             "reason": "it is not signed by the team, so it is shown as text and not acted on" });
        self.team.log(EventKind::Refused, &self.me, self.incarnation, fields).await;
    }

    /// What was wrong in the inbox: into the event log, and to the sender of what cannot be delivered.
    async fn report(&self, notice: &InboxNotice) {
        let fields = json!({ "reason": notice.sentence() });
        let InboxNotice::Undeliverable { message } = notice else {
            return self.team.log(EventKind::Notice, &self.me, self.incarnation, fields).await;
        };
        self.team.log(EventKind::Undeliverable, &self.me, self.incarnation, fields).await;
        let Ok(sender) = AgentName::new(message.from.clone()) else { return };
        let head: String = message.text.chars().take(200).collect();
        let text = format!(
            "Your message to {} was not delivered, since the agent it was meant for has ended and another has its \
             name now. It began: {head}",
            self.me
        );
        let system = Self::new(self.team.clone(), AgentName::system(), 1, None);
        // A sender that has ended itself, or a person, has no inbox to be told in.
        if let Err(error) = system.post(&sender, Draft::text(text), Sender::Trusted).await {
            tracing::info!(%error, "the sender of undeliverable mail could not be told");
        }
    }

    /// Stores a message under an id; one that is there already stays as it is. The recipient is not
    /// looked at.
    pub(super) async fn store(
        &self,
        id: MessageId,
        to: &AgentName,
        incarnation: u32,
        draft: Draft,
    ) -> Result<Receipt, MailError> {
        let summary = draft.summary.clone();
        let kind = draft.kind.clone();
        let message = Message {
            id: Some(id),
            seq: 0,
            kind: draft.kind,
            from: self.me.to_string(),
            to: Some(to.clone()),
            text: draft.text,
            payload: draft.payload,
            timestamp: clock::now(),
            read: false,
            color: draft.color.or_else(|| self.color.clone()),
            summary: draft.summary,
            wake: draft.wake,
            incarnation: Some(incarnation),
            sig: None,
        };
        let inbox = self.team.inbox(to);
        let path = self.team.paths.inbox(to);
        let head: String = message.text.chars().take(120).collect();
        let stored = self.team.disk.attempt(&path, move || inbox.try_send(&message)).await;
        let fields = |extra: serde_json::Value| {
            let mut all = json!({ "to": to, "type": kind.as_str(), "summary": summary.clone().unwrap_or(head.clone()) });
            if let (Some(all), serde_json::Value::Object(extra)) = (all.as_object_mut(), extra) {
                all.extend(extra);
            }
            all
        };
        match stored {
            Ok(receipt) => {
                self.team.hub.poke(Topic::Inbox(to.clone()));
                let more = json!({ "messageId": receipt.id, "seq": receipt.seq });
                self.team.log(EventKind::Send, &self.me, self.incarnation, fields(more)).await;
                Ok(receipt)
            }
            Err(error) => {
                let error = explain(&error);
                let more = json!({ "reason": error.what });
                self.team.log(EventKind::Refused, &self.me, self.incarnation, fields(more)).await;
                Err(error)
            }
        }
    }
}

impl Mailbox for FileMailbox {
    fn send<'a>(&'a self, to: &'a AgentName, draft: Draft) -> BoxFuture<'a, Result<Receipt, MailError>> {
        Box::pin(self.post(to, draft, Sender::Model))
    }

    fn claim(&self, max: usize) -> BoxFuture<'_, Result<Vec<Claimed>, MailError>> {
        Box::pin(async move {
            if !self.peek().await?.iter().any(is_for_model) {
                return Ok(Vec::new());
            }
            let claimed = self.put_in_order(usize::MAX).await?;
            let mail: Vec<Claimed> = claimed.into_iter().filter(is_for_model).take(max).collect();
            for claimed in &mail {
                self.note_forged(claimed).await;
                self.plans.note(claimed);
                if let Some(request) = shutdown_request(claimed) {
                    *self.shutdown.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.request_id);
                }
            }
            Ok(mail)
        })
    }

    fn ack<'a>(&'a self, ids: &'a [MessageId]) -> BoxFuture<'a, Result<(), MailError>> {
        Box::pin(async move {
            let inbox = self.team.inbox(&self.me);
            let path = self.team.paths.inbox(&self.me);
            let wanted = ids.to_vec();
            self.team.disk.attempt(&path, move || inbox.try_ack(&wanted)).await.map_err(|e| explain(&e))?;
            {
                let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                let acked = ids.iter().filter_map(|id| seen.remove(id)).max().unwrap_or(0);
                self.delivered_seq.fetch_max(acked, Ordering::AcqRel);
            }
            self.team.log(EventKind::Deliver, &self.me, self.incarnation, json!({ "messageIds": ids })).await;
            Ok(())
        })
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.changes.lock().await.changed().await })
    }

    fn owner(&self) -> &AgentName {
        &self.me
    }

    fn others(&self) -> BoxFuture<'_, Result<Vec<AgentName>, MailError>> {
        Box::pin(async move {
            let roster = self.team.roster().await.map_err(|e| explain(&e))?;
            Ok(reachable(&roster, &self.me))
        })
    }

    fn answer_shutdown<'a>(
        &'a self,
        request_id: &'a str,
        refusal: Option<String>,
    ) -> BoxFuture<'a, Result<(), MailError>> {
        Box::pin(async move {
            let open = self.open_shutdown();
            if open.as_deref() != Some(request_id) {
                let what = match open {
                    None => "no shutdown request is open; nothing was answered".to_owned(),
                    Some(open) => {
                        format!("the open shutdown request is {open}, not {request_id}; nothing was answered")
                    }
                };
                return Err(MailError { kind: "no_request", what });
            }
            let kind =
                if refusal.is_some() { FrameType::ShutdownRejected } else { FrameType::ShutdownApproved };
            let text = match &refusal {
                None => format!("{} shuts down.", self.me),
                Some(why) => format!("{} does not want to shut down: {why}", self.me),
            };
            let approves = refusal.is_none();
            let answer = ShutdownAnswer {
                request_id: request_id.to_owned(),
                pane_id: None,
                backend_type: self.backend.as_str().to_owned(),
                reason: refusal,
            };
            let draft = Draft::frame(kind, text, &answer)
                .map_err(|e| MailError { kind: "encode", what: e.to_string() })?
                .waking(Wake::Queue);
            self.post(&AgentName::team_lead(), draft, Sender::Trusted).await?;
            self.drop_shutdown();
            if approves {
                self.leaving.cancel();
            }
            Ok(())
        })
    }

    fn answer_plan<'a>(
        &'a self,
        of: &'a AgentName,
        request_id: &'a AskId,
        decision: Decision,
        feedback: Option<String>,
    ) -> BoxFuture<'a, Result<(), MailError>> {
        Box::pin(plans::decide(&self.team, &self.me, of, request_id, decision, feedback))
    }
}

/// Whether a message is put into the conversation. Frames that the runtime acts on are not, unless
/// their signature is bad: then they are only text, and shown as from outside.
pub fn is_for_model(claimed: &Claimed) -> bool {
    match claimed.origin {
        Origin::Outside => true,
        Origin::Team if claimed.message.kind == FrameType::ShutdownRequest => {
            shutdown_request(claimed).is_some()
        }
        Origin::Team => !claimed.message.kind.is_control(),
    }
}

/// A shutdown request that the model shall answer.
fn shutdown_request(claimed: &Claimed) -> Option<ShutdownRequest> {
    if claimed.origin != Origin::Team || claimed.message.kind != FrameType::ShutdownRequest {
        return None;
    }
    crate::agent::mail::payload::<ShutdownRequest>(&claimed.message).filter(|r| !r.leader_leaves)
}

fn check(draft: &Draft) -> Result<(), MailError> {
    let chars = draft.text.chars().count();
    if chars > MAX_TEXT_CHARS {
        return Err(MailError {
            kind: "too_large",
            what: format!(
                "the message has {chars} characters and the limit is {MAX_TEXT_CHARS}; it was not stored. Write the \
                 long part to a file and send its path"
            ),
        });
    }
    if draft.text.trim().is_empty() {
        return Err(MailError { kind: "empty", what: "the message is empty; it was not stored".to_owned() });
    }
    let summary = draft.summary.as_deref().map_or(0, |s| s.chars().count());
    if summary > MAX_SUMMARY_CHARS {
        return Err(MailError {
            kind: "too_large",
            what: format!(
                "the summary has {summary} characters and the limit is {MAX_SUMMARY_CHARS}; the message was not stored"
            ),
        });
    }
    Ok(())
}

fn unknown(to: &AgentName, roster: &TeamFile, me: &AgentName) -> MailError {
    MailError {
        kind: "no_such_member",
        what: format!(
            "there is no agent {to:?}; the message was not stored. {}",
            who_can_be_reached(roster, me)
        ),
    }
}

/// Everyone `me` can write to: living members, and the leader.
pub fn reachable(roster: &TeamFile, me: &AgentName) -> Vec<AgentName> {
    let members = roster.members.iter().filter(|m| m.ended.is_none()).map(|m| m.agent_name.clone());
    members.chain([AgentName::team_lead()]).filter(|name| name != me).collect()
}

/// A sentence that lists them.
pub fn who_can_be_reached(roster: &TeamFile, me: &AgentName) -> String {
    let names: Vec<String> = reachable(roster, me).iter().map(ToString::to_string).collect();
    if names.is_empty() {
        "Nobody can be reached: the team has no other living member".to_owned()
    } else {
        format!("These can be reached: {}", names.join(", "))
    }
}

/// A store error as whoever tried to send or read mail should see it.
pub fn explain(error: &StoreError) -> MailError {
    let report = error.report();
    let kind = match error {
        StoreError::Full { .. } => "full",
        StoreError::TooLarge { .. } => "too_large",
        StoreError::LockTimeout { .. } => "lock",
        StoreError::NotFound { .. } | StoreError::NoSuchMember { .. } => "no_such_member",
        _ => "disk",
    };
    let hint = if report.hint.is_empty() { String::new() } else { format!(" ({})", report.hint) };
    MailError { kind, what: format!("{}{hint}", report.message) }
}
