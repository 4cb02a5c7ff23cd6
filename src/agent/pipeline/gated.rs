//! Hooks around one call: before it is decided, when a person would be asked, after it has run.
//!
//! A refusal of a hook is a result like any other. A changed input is checked against the schema here and
//! decided about by the caller, as if the model had sent it.

use super::{NOT_BEGUN, deny, parsed};
use crate::agent::core::AgentCore;
use crate::agent::gates::{GateCall, GateEvent, GateOutcome, GateVerdict};
use crate::agent::ports::{AskPlace, AskRequest, HookWord};
use crate::policy::decide::Verdict;
use crate::tools::tool::{Tool, ToolContent, ToolOutput};
use crate::wire::block::ToolUse;
use crate::wire::permission::{Decision, PermissionMode};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;

/// What the calls of one message share.
#[derive(Debug, Default)]
pub(super) struct Halt {
    /// Set once a hook has said that the agent is to stop; nothing further runs then.
    why: OnceLock<String>,
    /// Calls that somebody has answered about already, in the life of an earlier process.
    answered: HashSet<String>,
}

impl Halt {
    /// With these calls answered.
    pub(super) fn with_answered(answered: HashSet<String>) -> Self {
        Self { why: OnceLock::new(), answered }
    }

    /// Why nothing further runs.
    pub(super) fn get(&self) -> Option<&String> {
        self.why.get()
    }

    /// Nothing further runs; the first reason stays.
    pub(super) fn set(&self, why: String) {
        let _ = self.why.set(why);
    }

    /// Whether the answer about a call is there.
    pub(super) fn is_answered(&self, call: &str) -> bool {
        self.answered.contains(call)
    }

    /// The reason, at the end.
    pub(super) fn into_inner(self) -> Option<String> {
        self.why.into_inner()
    }
}

/// The answer of calls that come after that.
pub(super) fn halted(why: &str) -> ToolOutput {
    ToolOutput::error(format!("Not run: a hook has stopped the work: {why}"))
}

/// A call as it will run.
pub(super) struct Gated {
    pub raw: Arc<RawValue>,
    pub input: Value,
    /// What the hooks say about asking.
    pub verdict: GateVerdict,
    /// What the model should know, added to the result.
    pub context: Vec<String>,
}

/// Lets the call pass the `PreToolUse` hooks; `Err` is a refusal.
pub(super) async fn before(
    core: &AgentCore,
    tool: &Arc<dyn Tool>,
    call: &ToolUse,
    cancel: &CancellationToken,
    halt: &Halt,
) -> Result<Gated, ToolOutput> {
    let raw: Arc<RawValue> = call.input.clone().into();
    let input = parsed(tool, &raw)?;
    let event = GateEvent::PreToolUse(GateCall { tool: &call.name, input: &raw, id: &call.id });
    let GateOutcome { verdict, stop, updated_input, context, .. } = core.gate(event, cancel).await;
    if cancel.is_cancelled() {
        return Err(ToolOutput::error(NOT_BEGUN));
    }
    if let GateVerdict::Block(why) = &verdict {
        deny(core, call, &input, &format!("a hook refused it: {why}"), false);
    }
    if let Some(why) = stop {
        let refusal = halted(&why);
        // Another call of the same message may have been first.
        halt.set(why);
        return Err(refusal);
    }
    if let GateVerdict::Block(why) = verdict {
        return Err(ToolOutput::error(format!("A hook refused this call: {why}")));
    }
    let Some(changed) = updated_input else { return Ok(Gated { raw, input, verdict, context }) };
    let raw: Arc<RawValue> = changed.into();
    let input = parsed(tool, &raw).map_err(|refusal| {
        let why = text_of(&refusal);
        ToolOutput::error(format!(
            "Nothing was run: a hook changed the input of this call to one that does not fit. {why}"
        ))
    })?;
    Ok(Gated { raw, input, verdict, context })
}

/// The decision about a call with what the hooks say: they can spare a question or want one, and never lift
/// a refusal. In `dontAsk` mode wanting one is a refusal.
pub(super) fn weighed(decided: Verdict, said: &GateVerdict, mode: PermissionMode) -> Verdict {
    match (decided, said) {
        (Verdict::Ask { rule, .. }, GateVerdict::Allow) => {
            Verdict::Allow { why: format!("a hook allows it ({rule})") }
        }
        (Verdict::Allow { .. }, GateVerdict::Ask(why)) if mode == PermissionMode::DontAsk => Verdict::Deny {
            why: format!("a hook wants a person to decide, and nobody is asked in this mode: {why}"),
        },
        (Verdict::Allow { .. }, GateVerdict::Ask(why)) => {
            Verdict::Ask { rule: format!("a hook asks: {why}"), suggestions: Vec::new() }
        }
        (decided, _) => decided,
    }
}

/// The decision about a call that somebody has answered: that word counts, also where nobody would be asked
/// now; a refusal stays one.
pub(super) fn answered(decided: Verdict) -> Verdict {
    match decided {
        Verdict::Allow { why } => Verdict::Ask { rule: why, suggestions: Vec::new() },
        decided @ (Verdict::Ask { .. } | Verdict::Deny { .. }) => decided,
    }
}

/// Lets the hooks answer an ask, unless it is decided in another process: they run there then.
pub(super) async fn request(core: &AgentCore, ask: &mut AskRequest, cancel: &CancellationToken) {
    if core.broker.place() == AskPlace::Elsewhere {
        return;
    }
    let call = GateCall { tool: &ask.tool, input: &ask.input, id: &ask.tool_use_id };
    let event = GateEvent::PermissionRequest { call, rule: &ask.rule, suggestions: &ask.suggestions };
    let outcome = core.gate(event, cancel).await;
    ask.hook = HookWord::of(outcome);
}

impl HookWord {
    /// The decision in what `PermissionRequest` hooks say; `None` leaves it to a person.
    pub fn of(outcome: GateOutcome) -> Option<Self> {
        let (decision, note) = match (outcome.verdict, outcome.stop) {
            (GateVerdict::Block(why), _) | (_, Some(why)) => (Decision::Deny, Some(why)),
            (GateVerdict::Allow, None) => (Decision::Allow, None),
            (GateVerdict::Pass | GateVerdict::Ask(_), None) => return None,
        };
        Some(Self {
            decision,
            note,
            updated_input: outcome.updated_input.filter(|_| decision == Decision::Allow),
        })
    }
}

/// Lets the result pass the `PostToolUse` hooks; returns what is to be added to it.
pub(super) async fn after(
    core: &AgentCore,
    call: GateCall<'_>,
    output: &ToolOutput,
    cancel: &CancellationToken,
    halt: &Halt,
) -> Vec<String> {
    let event = GateEvent::PostToolUse { call, response: &text_of(output), is_error: output.is_error };
    let outcome = core.gate(event, cancel).await;
    if let Some(why) = outcome.stop {
        halt.set(why);
    }
    let mut more = outcome.context;
    if let GateVerdict::Block(why) = outcome.verdict {
        more.push(format!("A hook objects to what this call did: {why}"));
    }
    more
}

fn text_of(output: &ToolOutput) -> String {
    match &output.content {
        ToolContent::Text(text) => text.clone(),
        ToolContent::Blocks(blocks) => {
            let texts: Vec<String> =
                blocks.iter().filter_map(|block| block.as_text().map(|t| t.to_string())).collect();
            texts.join("\n")
        }
    }
}
