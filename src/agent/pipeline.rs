//! One tool call from the model's wish to its result (spec §3).
//!
//! In this order: known tool, not cancelled, input matches the schema, hooks, permission (before a person is
//! asked, a look whether the call must fail), run, hooks, cap. Every way out is a `tool_result`; whatever goes wrong is an error text a model can act on.

mod gated;
mod left;
mod precheck;

pub use left::finish_calls;

use super::background::shells::ShellLauncher;
use super::checkpoint::Keeper;
use super::consult;
use super::core::AgentCore;
use super::events::AgentEvent;
use super::fork::guard;
use super::gates::GateCall;
use super::modes;
use super::ports::{Answer, AskRequest};
use super::reach;
use super::resolve::resolve_access;
use super::tally::Denial;
use super::todos;
use super::tool_rules;
use super::web;
use crate::policy::decide::Verdict;
use crate::tools::cap;
use crate::tools::context::{ProgressSink, ToolContext};
use crate::tools::schema;
use crate::tools::set::ToolSet;
use crate::tools::tool::{Concurrency, Tool, ToolCall, ToolContent, ToolOutput};
use crate::wire::ask::AskKind;
use crate::wire::block::{Block, ToolUse};
use crate::wire::limits::TOOL_RESULT_CHARS;
use crate::wire::permission::{Behavior, Decision, Scope, Suggestion};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use gated::{Gated, Halt};
use serde_json::Value;
use serde_json::value::RawValue;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// What a cancelled call answers.
pub const CANCELLED: &str = "The call was cancelled before it was done; it may have had some effect. \
                             Do not repeat it unless you are asked to.";

/// What a call answers that was cancelled before it began.
pub const NOT_BEGUN: &str = "The call was cancelled before it began: nothing was run. Do not repeat it unless you are \
                             asked to.";

/// Runs the calls of one assistant message: safe neighbours together, the others alone. One
/// `tool_result` a call, in the order of the calls. The second value says why a hook wants the agent to
/// stop; the calls after that one were not run.
pub async fn run_calls(
    core: &Arc<AgentCore>,
    tools: &ToolSet,
    calls: Vec<ToolUse>,
    cancel: &CancellationToken,
) -> (Vec<Block>, Option<String>) {
    run_on(core, tools, calls, cancel, Halt::default()).await
}

async fn run_on(
    core: &Arc<AgentCore>,
    tools: &ToolSet,
    calls: Vec<ToolUse>,
    cancel: &CancellationToken,
    halt: Halt,
) -> (Vec<Block>, Option<String>) {
    let places = Arc::new(Semaphore::new(core.runtime.tool_concurrency.max(1)));
    let mut results = Vec::with_capacity(calls.len());
    let mut calls = calls.into_iter().peekable();
    while let Some(call) = calls.next() {
        if !is_safe(tools, &call) {
            results.push(run_call(core, tools, call, cancel, &halt).await);
            continue;
        }
        let mut together = FuturesOrdered::new();
        let mut next = Some(call);
        while let Some(call) = next {
            let (places, halt) = (Arc::clone(&places), &halt);
            together.push_back(async move {
                let _place = places.acquire().await;
                run_call(core, tools, call, cancel, halt).await
            });
            next = calls.next_if(|call| is_safe(tools, call));
        }
        while let Some(result) = together.next().await {
            results.push(result);
        }
    }
    (results, halt.into_inner())
}

fn is_safe(tools: &ToolSet, call: &ToolUse) -> bool {
    let input: Value = serde_json::from_str(call.input.get()).unwrap_or(Value::Null);
    tools.get(&call.name).is_some_and(|tool| tool.concurrency(&input) == Concurrency::Safe)
}

async fn run_call(
    core: &Arc<AgentCore>,
    tools: &ToolSet,
    call: ToolUse,
    cancel: &CancellationToken,
    halt: &Halt,
) -> Block {
    let id = call.id.clone();
    let mut output = match tools.get(&call.name) {
        None => ToolOutput::error(
            guard::not_here(&core.context, &call.name, &core.tool_names()).unwrap_or_else(|| {
                let names = core.tool_names().join(", ");
                format!("There is no tool named {:?} here. The tools are: {names}.", call.name)
            }),
        ),
        Some(_) if cancel.is_cancelled() => ToolOutput::error(NOT_BEGUN),
        Some(tool) => match halt.get() {
            Some(why) => gated::halted(why),
            None => checked(core, tool, &call, cancel, halt).await.unwrap_or_else(|refusal| refusal),
        },
    };
    if let Some(news) = modes::news(core) {
        append(&mut output, &news);
    }
    let output = without_keys(core, output);
    let output = cap::cap(output, TOOL_RESULT_CHARS, &core.permissions.own_output, &id).await;
    observe_end(core, &call, &output);
    match output.content {
        ToolContent::Text(text) => Block::tool_result(&id, &text, output.is_error),
        ToolContent::Blocks(blocks) => Block::tool_result_blocks(&id, &blocks, output.is_error),
    }
}

/// Before anything of it is kept: the history and all files hold the same bytes.
fn without_keys(core: &AgentCore, output: ToolOutput) -> ToolOutput {
    let mask = &core.runtime.mask;
    let content = match output.content {
        ToolContent::Text(text) => ToolContent::Text(mask.text(text)),
        ToolContent::Blocks(blocks) => ToolContent::Blocks(mask.blocks(blocks)),
    };
    ToolOutput { content, ..output }
}

fn observe_end(core: &AgentCore, call: &ToolUse, output: &ToolOutput) {
    let head = match &output.content {
        ToolContent::Text(text) => text.lines().find(|l| !l.trim().is_empty()).unwrap_or("").to_owned(),
        ToolContent::Blocks(blocks) => format!("{} blocks", blocks.len()),
    };
    let event = AgentEvent::ToolEnded {
        id: call.id.clone(),
        tool: call.name.clone(),
        is_error: output.is_error,
        head: head.chars().take(200).collect(),
    };
    core.runtime.observer.event(&core.context, &event);
}

/// The steps from the schema on; `Err` is a refusal before the tool ran.
async fn checked(
    core: &Arc<AgentCore>,
    tool: &Arc<dyn Tool>,
    call: &ToolUse,
    cancel: &CancellationToken,
    halt: &Halt,
) -> Result<ToolOutput, ToolOutput> {
    if let Some(text) = &call.malformed {
        return Err(ToolOutput::error(format!(
            "The input of {} is not a JSON object, so nothing was run. It began with: {}. Send it again, complete.",
            call.name,
            text.chars().take(200).collect::<String>()
        )));
    }
    if let Some(why) = guard::refusal(&core.context, &call.name) {
        core.refusals.note(&guard::limit(why));
        return Err(ToolOutput::error(why));
    }
    if let Some(why) = tool_rules::refusal(&call.name, core.context.tier, core.permissions.mode()) {
        return Err(ToolOutput::error(why));
    }
    let Gated { mut raw, mut input, verdict, context: mut more } =
        gated::before(core, tool, call, cancel, halt).await?;
    let written = tool.access(&input, &core.context.cwd);
    let touches = reach::touches(core, &written, cancel).await;
    let access = resolve_access(&core.runtime.disk, written).await;
    let mut summary = access.summary.clone();
    let mut approved = access.target.paths().to_vec();
    let mut note = None;
    let decided = core.permissions.decide(&access, touches.as_ref());
    let decided = gated::weighed(decided, &verdict, core.permissions.mode());
    let is_answered = halt.is_answered(&call.id);
    match if is_answered { gated::answered(decided) } else { decided } {
        Verdict::Allow { .. } => {}
        Verdict::Deny { why } => {
            deny(core, call, &input, &why, false);
            return Err(ToolOutput::error(format!(
                "Permission denied: {why}. Do not try to reach the same by another way; go on without it or say \
                 what you would need."
            )));
        }
        Verdict::Ask { rule, suggestions } => {
            let looked = ToolCall { id: call.id.clone(), raw: Arc::clone(&raw), input: input.clone() };
            if let Some(failure) = precheck::doomed(core, tool, looked, &access, cancel).await {
                return Err(failure);
            }
            let mut ask = AskRequest {
                kind: AskKind::Permission,
                context: Arc::clone(&core.context),
                tool_use_id: call.id.clone(),
                tool: call.name.clone(),
                input: Arc::clone(&raw),
                access,
                rule,
                suggestions: suggestions.clone(),
                hook: None,
                modes: Vec::new(),
            };
            if !is_answered {
                gated::request(core, &mut ask, cancel).await;
            }
            let granted = asked(core, call, &input, ask, suggestions, cancel).await?;
            note = granted.note;
            if let Some(changed) = granted.input {
                raw = changed.into();
                input = parsed(tool, &raw)?;
                (approved, summary) = decide_again(core, tool, call, &input, cancel).await?;
            }
        }
    }
    let started = AgentEvent::ToolStarted { id: call.id.clone(), tool: call.name.clone(), summary };
    core.runtime.observer.event(&core.context, &started);
    let context = tool_context(core, &call.id, approved, cancel);
    let call_input = ToolCall { id: call.id.clone(), raw: Arc::clone(&raw), input };
    let mut output = tool.run(call_input, &context).await;
    let ran = GateCall { tool: &call.name, input: &raw, id: &call.id };
    more.extend(gated::after(core, ran, &output, cancel, halt).await);
    more.extend(note.map(|n| format!("The person who allowed this call adds: {n}")));
    for addition in more {
        append(&mut output, &addition);
    }
    Ok(output)
}

fn parsed(tool: &Arc<dyn Tool>, raw: &RawValue) -> Result<Value, ToolOutput> {
    let mut input: Value = serde_json::from_str(raw.get())
        .map_err(|e| ToolOutput::error(format!("The input is not valid JSON: {e}. Nothing was run.")))?;
    schema::whole_numbers(&mut input);
    schema::validate(tool.spec(), &input).map_err(ToolOutput::error)?;
    Ok(input)
}

/// An input that came with a yes is judged anew. Only a denial stops it now: whoever sent it, a person or a
/// hook, has said yes to this very input, which spares a question and lifts no denial. Returns the paths it
/// names now, and what it would do.
async fn decide_again(
    core: &AgentCore,
    tool: &Arc<dyn Tool>,
    call: &ToolUse,
    input: &Value,
    cancel: &CancellationToken,
) -> Result<(Vec<PathBuf>, String), ToolOutput> {
    let written = tool.access(input, &core.context.cwd);
    let touches = reach::touches(core, &written, cancel).await;
    let access = resolve_access(&core.runtime.disk, written).await;
    if let Verdict::Deny { why } = core.permissions.decide(&access, touches.as_ref()) {
        deny(core, call, input, &why, false);
        return Err(ToolOutput::error(format!("Permission denied for the changed input: {why}.")));
    }
    Ok((access.target.paths().to_vec(), access.summary))
}

struct Granted {
    note: Option<String>,
    input: Option<Box<RawValue>>,
}

async fn asked(
    core: &Arc<AgentCore>,
    call: &ToolUse,
    input: &Value,
    ask: AskRequest,
    suggestions: Vec<Suggestion>,
    cancel: &CancellationToken,
) -> Result<Granted, ToolOutput> {
    let observer = &core.runtime.observer;
    observer.event(&core.context, &AgentEvent::Waiting(true));
    let answer = core.broker.decide(ask, cancel).await;
    observer.event(&core.context, &AgentEvent::Waiting(false));
    match answer {
        Answer::Decided { decision: Decision::Allow, scope, note, updated_input, .. } => {
            if scope != Scope::Once {
                let allowed = suggestions.into_iter().filter(|s| s.behavior == Behavior::Allow);
                core.permissions.allow_for_session(allowed.map(|s| s.rule));
            }
            Ok(Granted { note, input: updated_input })
        }
        Answer::Decided { decision: Decision::Deny, note, by, .. } => {
            let words = note
                .map(|n| {
                    let stop = if n.trim_end().ends_with(['.', '!', '?']) { "" } else { "." };
                    format!(" They say: {}{stop}", n.trim())
                })
                .unwrap_or_default();
            deny(core, call, input, &format!("denied by {by}"), false);
            Err(ToolOutput::error(format!(
                "The call was denied by {by}.{words} Do not try to reach the same by another way."
            )))
        }
        Answer::Nobody(why) => {
            deny(core, call, input, &why, true);
            Err(ToolOutput::error(format!(
                "Permission denied: this call needs a person's yes, and {why}. Go on without it, and say in your \
                 report what was left undone."
            )))
        }
        Answer::Cancelled => Err(ToolOutput::error(NOT_BEGUN)),
        Answer::Failed(why) => {
            deny(core, call, input, &why, true);
            Err(ToolOutput::error(format!("Permission could not be asked for: {why}. Nothing was run.")))
        }
    }
}

fn deny(core: &AgentCore, call: &ToolUse, input: &Value, why: &str, nobody_to_ask: bool) {
    let denial = Denial {
        tool_name: call.name.clone(),
        tool_use_id: call.id.clone(),
        tool_input: input.clone(),
        agent_id: core.context.id().to_string(),
        reason: why.to_owned(),
        nobody_to_ask,
    };
    consult::note(core, denial);
}

fn append(output: &mut ToolOutput, addition: &str) {
    match &mut output.content {
        ToolContent::Text(text) => {
            text.push_str("\n\n");
            text.push_str(addition);
        }
        ToolContent::Blocks(blocks) => blocks.push(Block::text(addition)),
    }
}

struct Progress {
    core: Arc<AgentCore>,
    id: String,
}

impl ProgressSink for Progress {
    fn progress(&self, text: &str) {
        let event = AgentEvent::ToolProgress { id: self.id.clone(), text: text.to_owned() };
        self.core.runtime.observer.event(&self.core.context, &event);
    }
}

fn tool_context(
    core: &Arc<AgentCore>,
    id: &str,
    approved: Vec<PathBuf>,
    cancel: &CancellationToken,
) -> ToolContext {
    ToolContext {
        cwd: core.context.cwd.clone(),
        tool_use_id: id.to_owned(),
        cancel: cancel.child_token(),
        files: Arc::clone(&core.files),
        shells: Arc::clone(&core.shells),
        background: Arc::new(ShellLauncher::new(Arc::clone(core), id)),
        environment: Arc::clone(&core.runtime.environment),
        closed: core.permissions.closed.clone().into(),
        approved: approved.into(),
        output_dir: core.permissions.own_output.clone(),
        kept_back: kept_back(Arc::clone(core)),
        mask: core.runtime.mask.clone(),
        web: Arc::new(web::OwnWeb(Arc::clone(core))),
        todos: Arc::new(todos::Own(Arc::clone(core))),
        checkpoints: Arc::new(Keeper(Arc::clone(core))),
        progress: Arc::new(Progress { core: Arc::clone(core), id: id.to_owned() }),
    }
}

/// What rules keep from being read, worked out when a search first asks: most calls never do.
fn kept_back(core: Arc<AgentCore>) -> Arc<dyn Fn(&Path) -> bool + Send + Sync> {
    let kept = OnceLock::new();
    Arc::new(move |path| kept.get_or_init(|| core.permissions.kept()).keeps(path))
}

#[cfg(test)]
mod tests;
