//! Which tools are not for every tier of agents: one table, with the reasons (spec §4).
//!
//! Subagents of all kinds are bound by it. From ordinary ones such a tool is taken away when they are
//! built; a fork keeps its parent's declarations, byte for byte, and is refused when it tries. Main
//! agents and teammates are never bound by it.

use super::context::Tier;
use crate::wire::permission::PermissionMode;

/// How far a tool is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// Always.
    Always,
    /// Unless the agent is in plan mode.
    OutsidePlanMode,
    /// For what the agent has not started itself; the tool checks that.
    ForOthers,
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The tool.
    pub tool: &'static str,
    /// How far it is closed.
    pub closed: Closed,
    /// Why, and what to do instead: for a model.
    pub why: &'static str,
}

/// The table.
pub const NOT_FOR_SUBAGENTS: &[Row] = &[
    Row {
        tool: "AskUserQuestion",
        closed: Closed::Always,
        why: "You cannot ask the person: you were started for one task, by another agent. Choose what fits best, or \
              stop, and put the question into your report.",
    },
    Row {
        tool: "EnterPlanMode",
        closed: Closed::Always,
        why: "Plan mode ends with a person's approval, and you have no conversation with one. Do your task, or report \
              a plan as your result.",
    },
    Row {
        tool: "ExitPlanMode",
        closed: Closed::OutsidePlanMode,
        why: "You are not in plan mode, so there is nothing to approve. Do your task, or report a plan as your result.",
    },
    Row {
        tool: "TaskOutput",
        closed: Closed::Always,
        why: "What runs in the background reports to the agent that started it; waiting for it is not your task. \
              Report what you have.",
    },
    Row {
        tool: "TaskStop",
        closed: Closed::ForOthers,
        why: "You may stop only what you started yourself. Say in your report what should be stopped, and why.",
    },
];

fn row(tool: &str, tier: Tier) -> Option<&'static Row> {
    let free = matches!(tier, Tier::Main | Tier::Teammate);
    NOT_FOR_SUBAGENTS.iter().find(|row| row.tool == tool).filter(|_| !free)
}

/// Why an agent may not use a tool at all, in the mode it is in now; `None` when it may.
pub fn refusal(tool: &str, tier: Tier, mode: PermissionMode) -> Option<&'static str> {
    let row = row(tool, tier)?;
    match row.closed {
        Closed::Always => Some(row.why),
        Closed::OutsidePlanMode => (mode != PermissionMode::Plan).then_some(row.why),
        Closed::ForOthers => None,
    }
}

/// Why an agent may use a tool only on what it started itself; `None` when it may on all.
pub fn only_own(tool: &str, tier: Tier) -> Option<&'static str> {
    row(tool, tier).filter(|row| row.closed == Closed::ForOthers).map(|row| row.why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use PermissionMode::{Default, Plan};

    #[test]
    fn subagents_are_bound_and_others_are_free() {
        let refused = |tier, mode| -> Vec<&str> {
            let tools = NOT_FOR_SUBAGENTS.iter().map(|row| row.tool).chain(["Read"]);
            tools.filter(|tool| refusal(tool, tier, mode).is_some()).collect()
        };
        let bound = ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "TaskOutput"];
        assert_eq!(refused(Tier::Subagent, Default), bound);
        assert_eq!(refused(Tier::Subagent, Plan), [bound[0], bound[1], bound[3]]);
        for tier in [Tier::Main, Tier::Teammate] {
            assert!(refused(tier, Default).is_empty() && only_own("TaskStop", tier).is_none());
        }
        assert!(only_own("TaskStop", Tier::Subagent).is_some() && only_own("Read", Tier::Subagent).is_none());
    }
}
