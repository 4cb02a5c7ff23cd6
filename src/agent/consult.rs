//! Tools that ask a person: the way to the queue of asks and back, with the words for each way out.

use super::core::AgentCore;
use super::events::AgentEvent;
use super::pipeline::NOT_BEGUN;
use super::ports::{Answer, AskRequest};
use super::tally::Denial;
use crate::tools::tool::{ToolCall, ToolOutput};
use crate::wire::access::{Access, Target};
use crate::wire::ask::AskKind;
use crate::wire::permission::{Decision, PermissionMode};
use crate::wire::question::QuestionAnswer;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a tool wants to know.
pub struct Inquiry<'a> {
    /// What is asked.
    pub kind: AskKind,
    /// The tool.
    pub tool: &'a str,
    /// What it is about, in a line for a person.
    pub summary: String,
    /// Why a person is asked.
    pub why: &'a str,
    /// For a plan: the modes to go on in.
    pub modes: Vec<PermissionMode>,
    /// What the model does when nobody answers.
    pub without: &'a str,
}

/// What a person said.
pub struct Said {
    /// Yes or no; a question that is answered is a yes.
    pub decision: Decision,
    /// A word beside it.
    pub note: Option<String>,
    /// Who.
    pub by: String,
    /// For a plan: the mode that was chosen.
    pub mode: Option<PermissionMode>,
    /// For a question: the answers.
    pub answers: Vec<QuestionAnswer>,
}

/// Asks and waits for the answer.
///
/// # Errors
/// The result of the call when nobody answered: cancelled, nobody there, or the ask could not be made.
pub async fn consult(
    core: &Arc<AgentCore>,
    call: &ToolCall,
    inquiry: Inquiry<'_>,
    cancel: &CancellationToken,
) -> Result<Said, ToolOutput> {
    let request = AskRequest {
        kind: inquiry.kind,
        context: Arc::clone(&core.context),
        tool_use_id: call.id.clone(),
        tool: inquiry.tool.to_owned(),
        input: Arc::clone(&call.raw),
        access: Access { tool: inquiry.tool.to_owned(), target: Target::Nothing, summary: inquiry.summary },
        rule: inquiry.why.to_owned(),
        suggestions: Vec::new(),
        hook: None,
        modes: inquiry.modes,
    };
    let observer = &core.runtime.observer;
    observer.event(&core.context, &AgentEvent::Waiting(true));
    let answer = core.broker.decide(request, cancel).await;
    observer.event(&core.context, &AgentEvent::Waiting(false));
    match answer {
        Answer::Decided { decision, note, by, mode, answers, .. } => {
            Ok(Said { decision, note, by, mode, answers })
        }
        Answer::Nobody(why) => {
            refuse(core, call, inquiry.tool, &why, true);
            Err(ToolOutput::error(format!("Nobody answered: {why}. {}", inquiry.without)))
        }
        Answer::Cancelled => Err(ToolOutput::error(NOT_BEGUN)),
        Answer::Failed(why) => {
            refuse(core, call, inquiry.tool, &why, true);
            Err(ToolOutput::error(format!("The person could not be asked: {why}. {}", inquiry.without)))
        }
    }
}

/// Notes that a call was refused, for the result of a headless run.
pub fn refuse(core: &AgentCore, call: &ToolCall, tool: &str, why: &str, nobody_to_ask: bool) {
    let denial = Denial {
        tool_name: tool.to_owned(),
        tool_use_id: call.id.clone(),
        tool_input: call.input.clone(),
        agent_id: core.context.id().to_string(),
        reason: why.to_owned(),
        nobody_to_ask,
    };
    note(core, denial);
}

/// Notes a denied call where the result of a run is made, in this process or another.
pub fn note(core: &AgentCore, denial: Denial) {
    core.runtime.observer.event(&core.context, &AgentEvent::Denied(Arc::new(denial.clone())));
    core.runtime.tally.deny(denial);
}
