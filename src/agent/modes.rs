//! Changes of an agent's mode, and what its model is told of them.
//!
//! Owns the way out of plan mode: back to the mode before it, or to the one that was chosen, never
//! wider than the leader's or the parent's. The system prompt stays as it is whatever the mode: the
//! word on plan mode travels with the next user message or tool result.

use super::context::Tier;
use super::core::AgentCore;
use super::events::AgentEvent;
use super::permissions::ModeNews;
use crate::policy::narrow::{Parent, Wish, narrow, narrower};
use crate::wire::permission::PermissionMode;

/// The tool without which plan mode has no end that the agent itself could reach.
pub const EXIT_PLAN_MODE: &str = "ExitPlanMode";

/// What a model is told of plan mode.
pub fn plan_text() -> &'static str {
    include_str!("prompts/plan-mode.md").trim()
}

/// Changes the mode, and says so to whoever looks on.
pub fn change(core: &AgentCore, mode: PermissionMode) {
    if core.permissions.set_mode(mode) {
        core.runtime.observer.event(&core.context, &AgentEvent::ModeChanged(mode));
    }
}

/// The widest mode that an approved plan may lead to; `None` for the main agent, which only a person
/// bounds.
async fn ceiling(core: &AgentCore) -> Option<PermissionMode> {
    if core.context.tier == Tier::Main {
        return None;
    }
    let leaders = core.broker.leaders_mode().await;
    Some(core.permissions.ceiling.map_or(leaders, |parents| narrower(leaders, parents)))
}

/// The mode that plan mode goes back to: the one before it. An agent that was started in plan mode gets
/// `default`, a child what it would have been started in otherwise.
fn home(core: &AgentCore, ceiling: Option<PermissionMode>) -> PermissionMode {
    core.permissions.mode_before_plan().unwrap_or_else(|| {
        let Some(most) = ceiling else { return PermissionMode::Default };
        let definition = core.definition.permission_mode.filter(|mode| *mode != PermissionMode::Plan);
        narrow(Parent { mode: most, rules: &[] }, Wish { definition, ..Wish::default() }).mode
    })
}

/// The modes in which the agent may go on once its plan is approved: the one before plan mode first.
pub async fn after_plan(core: &AgentCore) -> Vec<PermissionMode> {
    let ceiling = ceiling(core).await;
    let before = home(core, ceiling);
    let mut modes = Vec::new();
    for mode in [before, PermissionMode::AcceptEdits, PermissionMode::Default] {
        let mode = ceiling.map_or(mode, |most| narrower(mode, most));
        if !modes.contains(&mode) {
            modes.push(mode);
        }
    }
    modes
}

/// Ends plan mode after an approval; the mode now. Outside of plan mode nothing changes.
pub async fn leave_plan(core: &AgentCore, chosen: Option<PermissionMode>) -> PermissionMode {
    let permissions = &core.permissions;
    let most = ceiling(core).await;
    let wanted = chosen.unwrap_or_else(|| home(core, most));
    if permissions.mode() == PermissionMode::Plan {
        change(core, most.map_or(wanted, |most| narrower(wanted, most)));
    }
    // The result of the call says so.
    permissions.take_mode_news();
    permissions.mode()
}

/// The word on plan mode for a conversation that has lost it; `None` outside of plan mode.
pub fn reminder(core: &AgentCore) -> Option<&'static str> {
    (can_present(core) && core.permissions.mode() == PermissionMode::Plan).then(plan_text)
}

fn can_present(core: &AgentCore) -> bool {
    core.tool_names().iter().any(|name| name == EXIT_PLAN_MODE)
}

/// What the model does not know yet of its mode. Agents that cannot end plan mode are told by their
/// prompt what they may do.
pub fn news(core: &AgentCore) -> Option<String> {
    if !can_present(core) {
        return None;
    }
    Some(match core.permissions.take_mode_news()? {
        ModeNews::Begins => plan_text().to_owned(),
        ModeNews::Over(mode) => format!(
            "<plan-mode>\nPlan mode is over: you are in {} mode and may change things within it. A plan that was not \
             approved is still not approved.\n</plan-mode>",
            mode.as_str()
        ),
    })
}
