//! What a child agent inherits: a mode and rules that never allow more than its parent's.

use super::rule::Parsed;
use crate::wire::permission::{Behavior, PermissionMode, Rule, RuleSource};

/// What the parent has.
#[derive(Debug, Clone, Copy)]
pub struct Parent<'a> {
    /// Its mode.
    pub mode: PermissionMode,
    /// All its rules.
    pub rules: &'a [Rule],
}

/// What the spawn asks for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish<'a> {
    /// The spawn's `mode`.
    pub mode: Option<PermissionMode>,
    /// The definition's `permissionMode`.
    pub definition: Option<PermissionMode>,
    /// The spawn's `allowedTools`: rules such as `Bash(git diff:*)`.
    pub allowed_tools: Option<&'a [String]>,
}

/// What the child gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Narrowed {
    /// Its mode.
    pub mode: PermissionMode,
    /// Its rules.
    pub rules: Vec<Rule>,
    /// What was asked for and not granted, one sentence each, for the one who spawned it.
    pub notes: Vec<String>,
}

/// How much a mode lets through without a person; a child's is never higher than its parent's.
fn width(mode: PermissionMode) -> u8 {
    match mode {
        PermissionMode::Plan => 0,
        PermissionMode::DontAsk => 1,
        PermissionMode::Default => 2,
        PermissionMode::AcceptEdits => 3,
        PermissionMode::Auto => 4,
        PermissionMode::BypassPermissions => 5,
    }
}

/// Whether `wanted` lets more through without a person than `own`.
pub fn is_wider(wanted: PermissionMode, own: PermissionMode) -> bool {
    width(wanted) > width(own)
}

/// `wanted`, or `own` where that is narrower.
pub fn narrower(wanted: PermissionMode, own: PermissionMode) -> PermissionMode {
    if is_wider(wanted, own) { own } else { wanted }
}

/// Narrows mode and rules for a child.
///
/// `plan` is always honoured, whether the spawn or the definition says it: a kind of agent that only reads
/// is not made to write by the call that starts it. Else a parent in `bypassPermissions`, `acceptEdits` or
/// `auto` gives its own mode; else the spawn's mode counts, then the definition's, unless it is wider.
/// With `allowed_tools` the allow rules are replaced by what it names and the parent may do; rules of
/// the command line and of managed settings stay, and rules that deny or ask always do.
pub fn narrow(parent: Parent<'_>, wish: Wish<'_>) -> Narrowed {
    let mut notes = Vec::new();
    let mode = mode(parent.mode, wish, &mut notes);
    let rules = match wish.allowed_tools {
        None => parent.rules.to_vec(),
        Some(tools) => rules(parent, tools, &mut notes),
    };
    Narrowed { mode, rules, notes }
}

fn mode(parent: PermissionMode, wish: Wish<'_>, notes: &mut Vec<String>) -> PermissionMode {
    use PermissionMode::{AcceptEdits, Auto, BypassPermissions, Plan};
    let Some(wanted) = wish.mode.or(wish.definition) else { return parent };
    if wish.definition == Some(Plan) && wanted != Plan {
        notes.push(format!("mode {} was not used: this kind of agent works in plan mode", wanted.as_str()));
    }
    if [wish.mode, wish.definition].contains(&Some(Plan)) {
        return Plan;
    }
    if wanted == parent {
        return wanted;
    }
    let (wanted_name, parent_name) = (wanted.as_str(), parent.as_str());
    if matches!(parent, BypassPermissions | AcceptEdits | Auto) {
        notes.push(format!(
            "mode {wanted_name} was not used: the parent's mode {parent_name} holds for its children"
        ));
        return parent;
    }
    if is_wider(wanted, parent) {
        notes.push(format!(
            "mode {wanted_name} was not granted: it is wider than the parent's, {parent_name}"
        ));
        return parent;
    }
    wanted
}

fn rules(parent: Parent<'_>, tools: &[String], notes: &mut Vec<String>) -> Vec<Rule> {
    let stays = |rule: &&Rule| {
        rule.behavior != Behavior::Allow
            || matches!(rule.source, RuleSource::CommandLine | RuleSource::Managed)
    };
    let mut rules: Vec<Rule> = parent.rules.iter().filter(stays).cloned().collect();
    let allowed: Vec<(&Rule, Parsed)> = parent
        .rules
        .iter()
        .filter(|rule| rule.behavior == Behavior::Allow)
        .filter_map(|rule| Some((rule, Parsed::new(&rule.text).ok()?)))
        .collect();
    for tool in tools {
        let wanted = match Parsed::new(tool) {
            Ok(wanted) => wanted,
            Err(error) => {
                notes.push(error.to_string());
                continue;
            }
        };
        let everything = parent.mode == PermissionMode::BypassPermissions;
        if everything || allowed.iter().any(|(_, rule)| rule.covers(&wanted)) {
            push(&mut rules, tool);
            continue;
        }
        let parts: Vec<&Rule> =
            allowed.iter().filter(|(_, rule)| wanted.covers(rule)).map(|(rule, _)| *rule).collect();
        if parts.is_empty() {
            notes.push(format!("{tool} is not allowed beforehand: the parent has no rule for it, so the call is decided by the mode"));
        }
        parts.iter().for_each(|rule| push(&mut rules, &rule.text));
    }
    rules
}

fn push(rules: &mut Vec<Rule>, text: &str) {
    let rule = Rule { text: text.to_owned(), behavior: Behavior::Allow, source: RuleSource::Session };
    if !rules.contains(&rule) {
        rules.push(rule);
    }
}

#[cfg(test)]
mod tests;
