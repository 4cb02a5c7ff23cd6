//! The decision about one call: allow, deny, or ask a person.
//!
//! Owns the order: closed part, deny rules, plan mode, ask rules, bypass, allow rules, mode. The same
//! call gets the same verdict in every process. Where a rule might apply but only the running shell
//! knows, a person is asked in every mode.

use super::facts::Facts;
use super::reach::Touches;
use super::suggest;
use crate::wire::access::Access;
use crate::wire::permission::{Behavior, PermissionMode, Rule, RuleSource, Suggestion};
use std::path::{Path, PathBuf};

/// Everything a decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// What the call would touch; paths absolute, links resolved.
    pub access: &'a Access,
    /// All rules that hold for the agent, in any order.
    pub rules: &'a [Rule],
    /// The agent's mode.
    pub mode: PermissionMode,
    /// The agent's directory, which relative words of commands are below; absolute, links resolved.
    pub cwd: &'a Path,
    /// The project's root, which relative rules are below, then the additional directories; absolute, links
    /// resolved. The agent's directory is in one of them.
    pub project: &'a [PathBuf],
    /// The user's home, for `~` in rules and commands.
    pub home: Option<&'a Path>,
    /// Directories no file tool may touch (the closed part of the state root).
    pub closed: &'a [PathBuf],
    /// The files that the call touches: of a command, as [`super::reach`] has found them with a look at
    /// the disk; of a file tool, its paths before links were resolved. `None` judges the words as they are written. Only rules that deny or ask about files need it.
    pub touches: Option<&'a Touches>,
    /// The agent's own output directory, which it may read although it lies in a closed one.
    pub own_output: &'a Path,
}

/// What becomes of a call. `why` and `rule` are sentences without a full stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It runs.
    Allow {
        /// The rule or mode that allows it.
        why: String,
    },
    /// It does not run; nobody is asked.
    Deny {
        /// The rule or mode that denies it, for a model to act on.
        why: String,
    },
    /// A person decides.
    Ask {
        /// The rule or mode that led here.
        rule: String,
        /// Rules that together would allow the call next time; empty when no rule can.
        suggestions: Vec<Suggestion>,
    },
}

/// Decides one call.
pub fn decide(query: &Query<'_>) -> Verdict {
    let facts = Facts::of(query);
    if let Some(path) = facts.closed() {
        let why = format!("{} belongs to the state of the agents and is closed to tools", path.display());
        return Verdict::Deny { why };
    }
    let (denied, maybe_denied) = facts.strongest(Behavior::Deny);
    if let Some(rule) = denied {
        return Verdict::Deny { why: format!("the rule {} denies it", named(rule)) };
    }
    if query.mode == PermissionMode::Plan
        && let Err(why) = facts.read_only()
    {
        let why = format!("plan mode only reads, and {why}; say what you would do instead");
        return Verdict::Deny { why };
    }
    let ask = |rule: String, suggestions: Vec<Suggestion>| match query.mode {
        PermissionMode::DontAsk => {
            Verdict::Deny { why: format!("{rule}, and dontAsk mode denies what would ask") }
        }
        _ => Verdict::Ask { rule, suggestions },
    };
    let (asked, maybe_asked) = facts.strongest(Behavior::Ask);
    if let Some(rule) = asked {
        return ask(format!("the rule {} asks", named(rule)), Vec::new());
    }
    if let Some(rule) = maybe_denied.or(maybe_asked) {
        return ask(
            format!("the rule {} may apply, which only the running shell knows", named(rule)),
            Vec::new(),
        );
    }
    if query.mode == PermissionMode::BypassPermissions {
        return Verdict::Allow { why: "bypassPermissions mode allows it".to_owned() };
    }
    if let Some(why) = facts.allowed() {
        return Verdict::Allow { why };
    }
    match facts.by_mode() {
        Ok(why) => Verdict::Allow { why },
        Err(why) => ask(why, suggest::suggestions(query, facts.script.as_ref(), &facts.uncovered())),
    }
}

/// A rule as people know it.
pub fn named(rule: &Rule) -> String {
    let source = match rule.source {
        RuleSource::Managed => "managed settings",
        RuleSource::CommandLine => "command line",
        RuleSource::Local => "local settings",
        RuleSource::Project => "project settings",
        RuleSource::User => "user settings",
        RuleSource::Session => "session",
        RuleSource::Team => "team",
    };
    format!("{} ({source})", rule.text)
}

#[cfg(test)]
pub(super) mod tests;
