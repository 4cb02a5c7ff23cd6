//! `EnterPlanMode` and `ExitPlanMode`: read only until a plan is approved.
//!
//! Going in needs nobody, since it only takes away. The way out is an ask: the plan is shown to the
//! person, and a teammate's to the leader as well.

use crate::agent::consult::{Inquiry, Said, consult};
use crate::agent::core::AgentCore;
use crate::agent::modes;
use crate::tools::context::ToolContext;
use crate::tools::tool::{BoxFuture, Concurrency, Tool, ToolCall, ToolOutput, ToolSpec};
use crate::wire::access::{Access, Target};
use crate::wire::ask::AskKind;
use crate::wire::permission::{Decision, PermissionMode};
use serde_json::Value;
use std::path::Path;
use std::sync::{Arc, LazyLock};

static ENTER: LazyLock<ToolSpec> = LazyLock::new(|| {
    ToolSpec {
    name: "EnterPlanMode".to_owned(),
    description: "Begins plan mode: you only read until the person has approved a plan, which you present with \
                  ExitPlanMode. Use it before a change that is large, hard to undo, or could be made in ways the \
                  person may see differently. Not for small or clearly described changes, nor for questions."
        .to_owned(),
    schema: r#"{"type":"object","properties":{},"additionalProperties":false}"#.into(),
}
});

static EXIT: LazyLock<ToolSpec> = LazyLock::new(|| {
    ToolSpec {
    name: modes::EXIT_PLAN_MODE.to_owned(),
    description: "Ends plan mode by presenting the plan for approval. The result says whether it was approved, in \
                  which mode you go on, and what the person adds. Only in plan mode, and only for work that changes \
                  something; findings are reported as text."
        .to_owned(),
    schema: r#"{"type":"object","properties":{"plan":{"type":"string","minLength":1,"description":"The whole plan, in Markdown: what changes where, in which order, how it is checked"}},"required":["plan"],"additionalProperties":false}"#
        .into(),
}
});

/// Begins plan mode.
pub struct EnterPlanMode(Arc<AgentCore>);

impl EnterPlanMode {
    /// For one agent.
    pub fn new(core: Arc<AgentCore>) -> Self {
        Self(core)
    }
}

impl Tool for EnterPlanMode {
    fn spec(&self) -> &ToolSpec {
        &ENTER
    }

    fn access(&self, _: &Value, _: &Path) -> Access {
        Access {
            tool: ENTER.name.clone(),
            target: Target::Nothing,
            summary: "Plan before changing anything".to_owned(),
        }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Exclusive
    }

    fn run<'a>(&'a self, _: ToolCall, _: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            if self.0.permissions.mode() == PermissionMode::Plan {
                return ToolOutput::ok(format!("You are in plan mode already.\n\n{}", modes::plan_text()));
            }
            modes::change(&self.0, PermissionMode::Plan);
            // This result says it.
            self.0.permissions.take_mode_news();
            ToolOutput::ok(modes::plan_text())
        })
    }
}

/// Presents a plan.
pub struct ExitPlanMode(Arc<AgentCore>);

impl ExitPlanMode {
    /// For one agent.
    pub fn new(core: Arc<AgentCore>) -> Self {
        Self(core)
    }

    async fn present(&self, call: ToolCall, context: &ToolContext) -> ToolOutput {
        let core = &self.0;
        let mode = core.permissions.mode();
        if mode != PermissionMode::Plan {
            return ToolOutput::error(format!(
                "You are not in plan mode but in {}, so there is nothing to approve. Go on with the work.",
                mode.as_str()
            ));
        }
        let plan = call.input.get("plan").and_then(Value::as_str).unwrap_or_default();
        if plan.trim().is_empty() {
            return ToolOutput::error(
                "The plan is empty, and nobody was asked. Send it with the plan in it.",
            );
        }
        let inquiry = Inquiry {
            kind: AskKind::Plan,
            tool: modes::EXIT_PLAN_MODE,
            summary: summary(plan),
            why: "plan mode ends when the plan is approved",
            modes: modes::after_plan(core).await,
            without: "You stay in plan mode: put the plan into your final answer, and say that it was not approved.",
        };
        match consult(core, &call, inquiry, &context.cancel).await {
            Err(output) => output,
            Ok(Said { decision: Decision::Allow, note, by, mode, .. }) => {
                let mode = modes::leave_plan(core, mode).await;
                let mut text =
                    format!("The plan was approved by {by}. You are in {} mode now", mode.as_str());
                text.push_str(match mode {
                    PermissionMode::Plan => {
                        ", since nobody may go further than the leader, which is in plan mode itself: tell it, and wait."
                    }
                    _ => ": carry the plan out.",
                });
                if let Some(note) = note {
                    text.push_str(&format!(" They add: {note}"));
                }
                ToolOutput::ok(text)
            }
            Ok(Said { note, by, .. }) => {
                let words = note.map(|note| format!(" They say: {note}")).unwrap_or_default();
                ToolOutput::error(format!(
                    "The plan was not approved by {by}.{words} You stay in plan mode: change the plan accordingly and \
                     present it again, or ask what is wanted."
                ))
            }
        }
    }
}

/// A plan in a line: its first words that are no mark-up.
fn summary(plan: &str) -> String {
    let head =
        plan.lines().map(|line| line.trim_start_matches(['#', '*', '-', ' ']).trim()).find(|l| !l.is_empty());
    let head: String = head.unwrap_or_default().chars().take(120).collect();
    format!("Carry out the plan: {head}")
}

impl Tool for ExitPlanMode {
    fn spec(&self) -> &ToolSpec {
        &EXIT
    }

    fn access(&self, input: &Value, _: &Path) -> Access {
        let plan = input.get("plan").and_then(Value::as_str).unwrap_or_default();
        Access { tool: EXIT.name.clone(), target: Target::Nothing, summary: summary(plan) }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Exclusive
    }

    fn run<'a>(&'a self, call: ToolCall, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        Box::pin(self.present(call, context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_named_by_its_first_words() {
        assert_eq!(summary("\n## **Rename** the type\n1. …"), "Carry out the plan: Rename** the type");
        assert_eq!(summary("- one\n- two"), "Carry out the plan: one");
        assert_eq!(summary("#\n\n"), "Carry out the plan: ");
    }
}
