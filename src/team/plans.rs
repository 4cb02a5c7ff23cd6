//! Plans of teammates before the leader's model: which it was shown, and what it says to them.
//!
//! A person may answer the same ask; the first decision counts. Where nobody is at a terminal, a plan
//! that the model was shown and left alone is closed once nothing else goes on.

use super::answer::{Answered, Word, answer};
use super::context::Team;
use super::mailbox::explain;
use super::wake::Topic;
use crate::agent::mail::payload;
use crate::agent::ports::MailError;
use crate::store::asks;
use crate::store::error::StoreError;
use crate::team::bubble::NOBODY;
use crate::wire::ask::{AskKind, AskStatus};
use crate::wire::frame::FrameType;
use crate::wire::frame_asks::PlanApprovalRequest;
use crate::wire::ids::{AgentId, AgentName, AskId};
use crate::wire::mail::{Claimed, Origin};
use crate::wire::permission::Decision;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// The plans that a model was shown.
#[derive(Debug, Default)]
pub struct ShownPlans(Mutex<HashSet<AskId>>);

impl ShownPlans {
    /// Notes a plan that comes before the model with this message.
    pub fn note(&self, claimed: &Claimed) {
        let is_plan = claimed.message.kind == FrameType::PlanApprovalRequest;
        if !is_plan || claimed.origin != Origin::Team {
            return;
        }
        if let Some(request) = payload::<PlanApprovalRequest>(&claimed.message) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(request.request_id);
        }
    }

    /// Whether it was shown this one.
    pub fn has(&self, id: &AskId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }
}

/// The leader's model decides about the plan of the teammate `of`.
pub(super) async fn decide(
    team: &Team,
    me: &AgentName,
    of: &AgentName,
    id: &AskId,
    decision: Decision,
    feedback: Option<String>,
) -> Result<(), MailError> {
    let no = |kind, what| Err(MailError { kind, what });
    if !me.is_lead() {
        return no("not_the_leader", "only the leader approves plans; nothing was answered".to_owned());
    }
    // Looked for among the files there are: the id is a model's text.
    let paths = team.paths.clone();
    let dir = paths.asks_dir();
    let all = team.disk.run(&dir, move || asks::list(&paths)).await.map_err(|e| explain(&e))?;
    let owner = AgentId::member(of, &team.name());
    let mut plans = all.iter().filter(|(ask, ..)| ask.kind == AskKind::Plan && ask.agent_id == owner);
    let Some((ask, ..)) = plans.clone().find(|(ask, ..)| ask.id == *id) else {
        let open: Vec<&str> = plans
            .by_ref()
            .filter(|(_, status, _)| *status == AskStatus::Open)
            .map(|(ask, ..)| ask.id.as_str())
            .collect();
        let open =
            if open.is_empty() { "none is open".to_owned() } else { format!("open: {}", open.join(", ")) };
        return no("no_request", format!("{of} has asked for no plan with the request_id {id:?}; {open}"));
    };
    let word = Word::once(decision, feedback.filter(|text| !text.trim().is_empty()), me.as_str());
    match answer(team, &ask.id, word).await.map_err(|e| explain(&e))? {
        Answered::Counts { warnings, .. } => {
            warnings.iter().for_each(|warning| tracing::warn!(%warning, "after a plan was decided"));
            Ok(())
        }
        Answered::Unfit(why) => no("unfit", why),
        Answered::Unknown => no("no_request", format!("there is no ask {id}")),
        Answered::TooLate(AskStatus::Decided) => {
            no("decided", format!("somebody has already decided about {id}, and the first decision counts"))
        }
        Answered::TooLate(_) => no("closed", format!("{of} does not wait for {id} any more")),
    }
}

/// Closes plans that nobody will decide about: their agents go on without an approval.
pub(super) async fn close(team: &Team, ids: Vec<AskId>) -> Result<(), StoreError> {
    let paths = team.paths.clone();
    let dir = paths.asks_dir();
    team.disk.run(&dir, move || ids.iter().try_for_each(|id| asks::close(&paths, id, NOBODY))).await?;
    team.hub.poke(Topic::Asks);
    Ok(())
}
