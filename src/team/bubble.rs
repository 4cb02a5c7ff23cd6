//! Asks on their way to whoever answers: each is a file, and so is its decision.
//!
//! The asking process makes the ask file and waits for the decision file; that one is signed, created
//! once, and the only truth. A response by mail, a watch and a slow look all only say: look now.

use super::context::Team;
use super::wake::{Signal, Topic};
use crate::agent::ports::{
    Answer, AskPlace, AskRequest, BoxFuture, HOOK, HookWord, Mailbox, PermissionBroker,
};
use crate::store::error::StoreError;
use crate::store::{asks, clock};
use crate::wire::ask::{Ask, AskKind, Closed, DecisionRecord};
use crate::wire::event::EventKind;
use crate::wire::frame::{FrameType, PermissionRequest};
use crate::wire::ids::{AgentName, AskId};
use crate::wire::mail::{Draft, Wake};
use crate::wire::permission::Scope;
use crate::wire::worker::AskPolicy;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Why an ask is closed when nobody could be asked; counted at the end of a headless run.
pub const NOBODY: &str = "nobody is there to answer";

/// The broker of all agents of one process.
pub struct FileBroker {
    team: Team,
    policy: AskPolicy,
    /// The mailbox through which the leader is told; `None` in the leader's own process.
    mail: Option<Arc<dyn Mailbox>>,
}

impl FileBroker {
    /// A broker; `mail` is given in worker processes.
    pub fn new(team: Team, policy: AskPolicy, mail: Option<Arc<dyn Mailbox>>) -> Self {
        Self { team, policy, mail }
    }

    async fn ask(&self, request: AskRequest, cancel: &CancellationToken) -> Result<Answer, StoreError> {
        let ask = make(&request);
        let id = ask.id.clone();
        let mut signal = self.team.hub.signal(Topic::Asks);
        if let Some(word) = request.hook {
            return self.decided(ask, word).await;
        }
        if self.policy == AskPolicy::Deny {
            let closed = Closed { at: clock::now(), reason: NOBODY.to_owned() };
            self.store(Ask { closed: Some(closed), ..ask }).await?;
            return Ok(Answer::Nobody(
                "nobody is there to answer (headless, without --ask-timeout)".to_owned(),
            ));
        }
        let message = self.tell_leader(&ask);
        self.store(ask).await?;
        if let (Some(mail), Some(draft)) = (&self.mail, message)
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
            by: HOOK.to_owned(),
            at: clock::now(),
            sig: String::new(),
        };
        let (agent, incarnation) = (ask.reply_to.clone(), ask.incarnation);
        let fields = json!({ "askId": ask.id, "decision": record.decision, "scope": record.scope, "by": record.by,
                             "agentId": ask.agent_id, "note": record.note });
        let (paths, keys, file) =
            (self.team.paths.clone(), self.team.keys.clone(), self.team.paths.ask(&ask.id));
        let mut told = ask_fields(&ask);
        told["decided"] = json!(HOOK);
        let signed = record.clone();
        let put = move || {
            asks::create(&paths, &ask)?;
            asks::decide(&paths, &keys, signed)
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
        let (paths, ask, reason) = (self.team.paths.clone(), id.clone(), reason.to_owned());
        let file = paths.ask(id);
        self.team.disk.run(&file, move || asks::close(&paths, &ask, &reason)).await?;
        self.team.hub.poke(Topic::Asks);
        Ok(self.look(id).await?.unwrap_or(answer))
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
            Err(error @ (StoreError::Invalid { .. } | StoreError::Corrupt { .. })) => {
                tracing::warn!(%error, "a decision is ignored");
                None
            }
            found => found?,
        };
        Ok(found.map(|record| Answer::Decided {
            decision: record.decision,
            scope: record.scope,
            note: record.note,
            updated_input: record.updated_input,
            by: record.by,
        }))
    }

    fn tell_leader(&self, ask: &Ask) -> Option<Draft> {
        self.mail.as_ref()?;
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
        let text = format!("{} asks to {}", ask.agent_id, ask.description);
        Draft::frame(FrameType::PermissionRequest, text, &request).ok().map(|d| d.waking(Wake::Queue))
    }
}

/// What the event log says of an ask.
fn ask_fields(ask: &Ask) -> serde_json::Value {
    json!({ "askId": ask.id, "agentId": ask.agent_id, "tool": ask.tool, "summary": ask.description,
            "reason": ask.rule, "closed": ask.closed.as_ref().map(|c| c.reason.clone()) })
}

fn make(request: &AskRequest) -> Ask {
    let context = &request.context;
    Ask {
        id: AskId::generate(),
        kind: AskKind::Permission,
        agent_id: context.id.clone(),
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
        created_at: clock::now(),
        closed: None,
    }
}

impl PermissionBroker for FileBroker {
    fn decide<'a>(&'a self, ask: AskRequest, cancel: &'a CancellationToken) -> BoxFuture<'a, Answer> {
        Box::pin(async move { self.ask(ask, cancel).await.unwrap_or_else(|e| Answer::Failed(e.to_string())) })
    }

    fn place(&self) -> AskPlace {
        match (self.policy, &self.mail) {
            (AskPolicy::Deny, _) | (AskPolicy::Wait | AskPolicy::WaitSeconds(_), None) => AskPlace::Here,
            (AskPolicy::Wait | AskPolicy::WaitSeconds(_), Some(_)) => AskPlace::Elsewhere,
        }
    }
}
