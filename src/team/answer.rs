//! Answering an ask, from any terminal: the decision file first, then word to the asking agent.

use super::context::Team;
use super::mailbox::{FileMailbox, Sender};
use super::wake::Topic;
use crate::store::error::StoreError;
use crate::store::{asks, clock, project_rules};
use crate::wire::ask::{Ask, AskKind, AskStatus, DecisionRecord};
use crate::wire::event::EventKind;
use crate::wire::frame::{FrameType, PermissionResponse};
use crate::wire::frame_asks::{PlanApprovalResponse, QuestionResponse};
use crate::wire::ids::{AgentName, AskId};
use crate::wire::mail::{Draft, Wake};
use crate::wire::permission::{Behavior, Decision, PermissionMode, Scope};
use crate::wire::question::QuestionAnswer;
use serde_json::json;
use serde_json::value::RawValue;
use std::path::PathBuf;

/// What a person said.
#[derive(Debug, Clone)]
pub struct Word {
    /// Yes or no.
    pub decision: Decision,
    /// For how long.
    pub scope: Scope,
    /// To the asking agent.
    pub note: Option<String>,
    /// Who says it: `user`, `demo`; `team-lead` for the leader's model …
    pub by: String,
    /// To a plan that is approved: the mode to go on in.
    pub mode: Option<PermissionMode>,
    /// To a question: one answer a question.
    pub answers: Vec<QuestionAnswer>,
}

impl Word {
    /// A yes or no for this once, by a person.
    pub fn once(decision: Decision, note: Option<String>, by: &str) -> Self {
        Self { decision, scope: Scope::Once, note, by: by.to_owned(), mode: None, answers: Vec::new() }
    }

    /// Why this is no answer to that ask.
    fn misfit(&self, ask: &Ask) -> Option<String> {
        let id = &ask.id;
        let yes = self.decision == Decision::Allow;
        if ask.kind != AskKind::Permission && ask.kind != AskKind::Sandbox && self.scope != Scope::Once {
            return Some(format!("{id} is answered once: a scope is for permissions"));
        }
        if let Some(mode) = self.mode.filter(|mode| !yes || !ask.modes.contains(mode)) {
            let modes: Vec<&str> = ask.modes.iter().map(|mode| mode.as_str()).collect();
            let which = match (ask.kind, yes) {
                (AskKind::Plan, true) => format!("these can be: {}", modes.join(", ")),
                _ => "a mode is for plans that are approved".to_owned(),
            };
            return Some(format!("the mode {} cannot be chosen for {id}; {which}", mode.as_str()));
        }
        match (ask.kind, yes) {
            (AskKind::Question, true) if self.answers.len() != ask.questions().len() => {
                Some(format!("{id} asks {} and got {}", ask.questions().len(), self.answers.len()))
            }
            (AskKind::Question, true) => None,
            _ if !self.answers.is_empty() => Some(format!("{id} is no question: it takes a yes or a no")),
            _ => None,
        }
    }
}

/// What became of an answer.
#[derive(Debug)]
pub enum Answered {
    /// It counts. Anything that did not reach the agent or the project's rules is named.
    Counts {
        /// The ask.
        ask: Box<Ask>,
        /// What went wrong after the decision stood; the agent finds the decision all the same.
        warnings: Vec<String>,
    },
    /// Somebody was first.
    TooLate(AskStatus),
    /// The ask is of another kind, or cannot be answered so; why. Nothing was decided.
    Unfit(String),
    /// There is no such ask.
    Unknown,
}

/// Answers an ask. The first decision counts; later ones are told so.
pub async fn answer(team: &Team, id: &AskId, word: Word) -> Result<Answered, StoreError> {
    answer_with(team, id, word, None).await
}

/// The same with an input that the call is to run with instead of its own.
pub async fn answer_with(
    team: &Team,
    id: &AskId,
    word: Word,
    updated_input: Option<Box<RawValue>>,
) -> Result<Answered, StoreError> {
    let (paths, wanted) = (team.paths.clone(), id.clone());
    let file = paths.ask(id);
    let found = team.disk.run(&file, move || asks::find(&paths, &wanted)).await?;
    let Some((ask, status, _)) = found else { return Ok(Answered::Unknown) };
    if status != AskStatus::Open {
        return Ok(Answered::TooLate(status));
    }
    if let Some(why) = word.misfit(&ask) {
        return Ok(Answered::Unfit(why));
    }
    let record = DecisionRecord {
        ask_id: id.clone(),
        decision: word.decision,
        scope: word.scope,
        note: word.note.clone(),
        updated_input: updated_input.clone(),
        permission_mode: word.mode,
        answers: word.answers.clone(),
        by: word.by.clone(),
        at: clock::now(),
        sig: String::new(),
    };
    let (paths, keys) = (team.paths.clone(), team.keys.clone());
    let first = match team.disk.run(&file, move || asks::decide(&paths, &keys, record)).await {
        Err(StoreError::Closed { .. }) => return Ok(Answered::TooLate(AskStatus::Closed)),
        decided => decided?,
    };
    if !first {
        return Ok(Answered::TooLate(AskStatus::Decided));
    }
    team.hub.poke(Topic::Asks);
    let mut warnings = Vec::new();
    if word.scope == Scope::Project && word.decision == Decision::Allow {
        warnings.extend(remember(team, &ask).await.err().map(|e| e.to_string()));
    }
    let mut fields = json!({ "askId": id, "kind": ask.kind, "decision": word.decision, "scope": word.scope,
                             "by": word.by, "agentId": ask.agent_id, "note": word.note });
    match ask.kind {
        AskKind::Plan => fields["permissionMode"] = json!(word.mode),
        AskKind::Question => fields["answers"] = json!(word.answers),
        AskKind::Permission | AskKind::Sandbox => {}
    }
    team.log(EventKind::Decision, &ask.reply_to, ask.incarnation, fields).await;
    warnings.extend(tell(team, &ask, &word, updated_input).await.err());
    Ok(Answered::Counts { ask: Box::new(ask), warnings })
}

/// Writes the suggested rules into the project's local settings.
async fn remember(team: &Team, ask: &Ask) -> Result<(), StoreError> {
    let rules: Vec<String> =
        ask.suggestions.iter().filter(|s| s.behavior == Behavior::Allow).map(|s| s.rule.clone()).collect();
    let cwd = PathBuf::from(ask.project.as_ref().unwrap_or(&ask.cwd));
    let (shown, paths) = (cwd.clone(), team.paths.paths().clone());
    team.disk.run(&shown, move || project_rules::allow(&paths, &cwd, &rules)).await
}

async fn tell(
    team: &Team,
    ask: &Ask,
    word: &Word,
    updated_input: Option<Box<RawValue>>,
) -> Result<(), String> {
    let text = format!("{} {} {}", word.by, word.decision.verb(), ask.id);
    let note = word.note.clone();
    let draft = match ask.kind {
        AskKind::Permission | AskKind::Sandbox => {
            let (decision, scope, by) = (word.decision, word.scope, word.by.clone());
            let response =
                PermissionResponse { ask_id: ask.id.clone(), decision, scope, updated_input, note, by };
            Draft::frame(FrameType::PermissionResponse, text, &response)
        }
        AskKind::Plan => {
            let response = PlanApprovalResponse {
                request_id: ask.id.clone(),
                approved: word.decision == Decision::Allow,
                feedback: note,
                permission_mode: word.mode,
            };
            Draft::frame(FrameType::PlanApprovalResponse, text, &response)
        }
        AskKind::Question => {
            let response = QuestionResponse { ask_id: ask.id.clone(), answers: word.answers.clone(), note };
            Draft::frame(FrameType::QuestionResponse, text, &response)
        }
    };
    let draft = draft.map_err(|e| e.to_string())?;
    let lead = AgentName::team_lead();
    let from = if word.by == lead.as_str() { lead } else { AgentName::user() };
    let mailbox = FileMailbox::new(team.clone(), from, 1, None);
    let sent = mailbox.post(&ask.reply_to, draft.waking(Wake::Queue), Sender::Trusted).await;
    sent.map(drop).map_err(|e| e.what)
}
