//! Requests that an agent makes beside its conversation: for its web tools.
//!
//! Promises that a budget which is used up holds for them too, and that their tokens and money count as the
//! agent's: in the tally, the ledger and for observers at once, in its own sum and its transcript when the
//! round ends.

use super::core::AgentCore;
use super::events::AgentEvent;
use super::runtime::Model;
use super::transcript::NewLine;
use crate::model::provider::{
    Anchor, Delta, DeltaSink, ModelRequest, ModelResponse, PromptPrefix, RequestTag,
};
use crate::wire::block::ChatMessage;
use crate::wire::ledger::Used;
use crate::wire::usage::{Money, Usage};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

/// The subtype of the line that says what such a request has used.
pub const SIDE_REQUEST: &str = "side_request";

/// What one request has used.
#[derive(Debug, Clone)]
pub(super) struct SideUse {
    /// What for, as requests are tagged.
    what: &'static str,
    model: String,
    pub(super) usage: Usage,
    pub(super) cost: Money,
}

/// What a line of a transcript says of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Noted {
    /// `provider:name`.
    pub(super) model: String,
    /// Its tokens.
    pub(super) usage: Usage,
}

impl SideUse {
    pub(super) fn line(&self) -> NewLine {
        let text = format!("{} asked {}", self.what, self.model);
        let noted = Noted { model: self.model.clone(), usage: self.usage };
        NewLine::system(SIDE_REQUEST, text).with_data(&noted)
    }
}

/// What was used and is not in the agent's books yet.
#[derive(Debug, Default)]
pub struct SideBook(Mutex<Vec<SideUse>>);

impl SideBook {
    fn add(&self, used: SideUse) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(used);
    }

    /// All of it, once.
    pub(super) fn take(&self) -> Vec<SideUse> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One request. `what` is its name towards scripts, recordings and the transcript. The error is one
/// sentence.
pub(super) async fn ask(
    core: &AgentCore,
    what: &'static str,
    model: &Model,
    prefix: &Arc<PromptPrefix>,
    messages: &[ChatMessage],
) -> Result<ModelResponse, String> {
    core.runtime.budget.admit().await.map_err(|error| error.to_string())?;
    let request = ModelRequest {
        prefix: Arc::clone(prefix),
        messages: Arc::new(messages.to_vec()),
        anchors: vec![Anchor::end_of(messages.len().saturating_sub(1))],
        tag: RequestTag { agent: what.to_owned(), round: 1 },
    };
    let response = model.provider.respond(&request, &Retries(core)).await;
    let response = response.map_err(|error| error.to_string())?;
    let usage = response.usage;
    let cost = core.runtime.prices.cost(&model.full, &usage);
    core.runtime.tally.count(&model.full, usage, cost);
    let counted = core.runtime.budget.count(&core.context, &model.full, Used { usage, cost }).await;
    if let Err(error) = counted {
        let notice = format!("what a request has used was not counted: {error}");
        core.runtime.observer.event(&core.context, &AgentEvent::Notice(notice));
    }
    core.side.add(SideUse { what, model: model.full.clone(), usage, cost });
    core.runtime.observer.event(&core.context, &AgentEvent::SideRequest(usage, cost));
    Ok(response)
}

/// Shows that a request is made again; its text is nobody's but the tool's.
struct Retries<'a>(&'a AgentCore);

impl DeltaSink for Retries<'_> {
    fn delta(&self, delta: Delta) {
        if matches!(delta, Delta::Retry { .. }) {
            self.0.runtime.observer.event(&self.0.context, &AgentEvent::Delta(delta));
        }
    }
}
