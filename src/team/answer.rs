//! Answering an ask, from any terminal: the decision file first, then word to the asking agent.

use super::context::Team;
use super::mailbox::{FileMailbox, Sender};
use super::wake::Topic;
use crate::store::error::StoreError;
use crate::store::{asks, clock, project_rules};
use crate::wire::ask::{Ask, AskStatus, DecisionRecord};
use crate::wire::event::EventKind;
use crate::wire::frame::{FrameType, PermissionResponse};
use crate::wire::ids::{AgentName, AskId};
use crate::wire::mail::{Draft, Wake};
use crate::wire::permission::{Behavior, Decision, Scope};
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
    /// Who says it: `user`, `demo` …
    pub by: String,
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
    let record = DecisionRecord {
        ask_id: id.clone(),
        decision: word.decision,
        scope: word.scope,
        note: word.note.clone(),
        updated_input: updated_input.clone(),
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
    let fields = json!({ "askId": id, "decision": word.decision, "scope": word.scope, "by": word.by,
                         "agentId": ask.agent_id, "note": word.note });
    team.log(EventKind::Decision, &ask.reply_to, ask.incarnation, fields).await;
    warnings.extend(tell(team, &ask, &word, updated_input).await.err());
    Ok(Answered::Counts { ask: Box::new(ask), warnings })
}

/// Writes the suggested rules into the project's local settings.
async fn remember(team: &Team, ask: &Ask) -> Result<(), StoreError> {
    let rules: Vec<String> =
        ask.suggestions.iter().filter(|s| s.behavior == Behavior::Allow).map(|s| s.rule.clone()).collect();
    let cwd = PathBuf::from(ask.project.as_ref().unwrap_or(&ask.cwd));
    let shown = cwd.clone();
    team.disk.run(&shown, move || project_rules::allow(&cwd, &rules)).await
}

async fn tell(
    team: &Team,
    ask: &Ask,
    word: &Word,
    updated_input: Option<Box<RawValue>>,
) -> Result<(), String> {
    let response = PermissionResponse {
        ask_id: ask.id.clone(),
        decision: word.decision,
        scope: word.scope,
        updated_input,
        note: word.note.clone(),
        by: word.by.clone(),
    };
    let text = format!("{} {} {}", word.by, word.decision.verb(), ask.id);
    let draft = Draft::frame(FrameType::PermissionResponse, text, &response).map_err(|e| e.to_string())?;
    let user = FileMailbox::new(team.clone(), AgentName::user(), 1, None);
    let sent = user.post(&ask.reply_to, draft.waking(Wake::Queue), Sender::Trusted).await;
    sent.map(drop).map_err(|e| e.what)
}
