//! What children get, by table and by property.

use super::*;
use crate::policy::decide::Verdict;
use crate::policy::decide::tests::{rules as written, verdict};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

#[test]
fn modes() {
    use PermissionMode::{AcceptEdits, Auto, BypassPermissions, Default, DontAsk, Plan};
    let table = [
        (Default, None, None, Default, None),
        (Default, Some(Plan), None, Plan, None),
        (
            Default,
            Some(DontAsk),
            Some(Plan),
            Plan,
            Some("mode dontAsk was not used: this kind of agent works in plan mode"),
        ),
        (
            BypassPermissions,
            Some(BypassPermissions),
            Some(Plan),
            Plan,
            Some("mode bypassPermissions was not used: this kind of agent works in plan mode"),
        ),
        (
            Default,
            Some(Default),
            Some(Plan),
            Plan,
            Some("mode default was not used: this kind of agent works in plan mode"),
        ),
        (Default, Some(DontAsk), None, DontAsk, None),
        (Default, Some(Plan), Some(DontAsk), Plan, None),
        (Default, None, Some(Plan), Plan, None),
        (
            Default,
            Some(BypassPermissions),
            None,
            Default,
            Some("mode bypassPermissions was not granted: it is wider than the parent's, default"),
        ),
        (
            Default,
            None,
            Some(AcceptEdits),
            Default,
            Some("mode acceptEdits was not granted: it is wider than the parent's, default"),
        ),
        (
            BypassPermissions,
            Some(Default),
            None,
            BypassPermissions,
            Some("mode default was not used: the parent's mode bypassPermissions holds for its children"),
        ),
        (
            AcceptEdits,
            Some(Auto),
            None,
            AcceptEdits,
            Some("mode auto was not used: the parent's mode acceptEdits holds for its children"),
        ),
        (BypassPermissions, Some(Plan), None, Plan, None),
        (Auto, None, None, Auto, None),
        (
            Plan,
            Some(Default),
            None,
            Plan,
            Some("mode default was not granted: it is wider than the parent's, plan"),
        ),
    ];
    for (parent, mode, definition, expected, note) in table {
        let found =
            narrow(Parent { mode: parent, rules: &[] }, Wish { mode, definition, allowed_tools: None });
        let expected = Narrowed {
            mode: expected,
            rules: Vec::new(),
            notes: note.map(str::to_owned).into_iter().collect(),
        };
        assert_eq!(found, expected, "{parent:?} {mode:?} {definition:?}");
    }
}

#[test]
fn allowed_tools_replace_what_the_parent_collected() {
    let rule = |text: &str, behavior, source| Rule { text: text.to_owned(), behavior, source };
    let parent = [
        rule("Bash(git:*)", Behavior::Allow, RuleSource::Session),
        rule("Edit(src/**)", Behavior::Allow, RuleSource::Project),
        rule("Read(//etc/**)", Behavior::Allow, RuleSource::CommandLine),
        rule("Bash(rm:*)", Behavior::Deny, RuleSource::Session),
        rule("WebFetch", Behavior::Ask, RuleSource::User),
    ];
    let tools = ["Bash".to_owned(), "Edit(src/a/**)".to_owned(), "WebSearch".to_owned(), "Bash(".to_owned()];
    let wish = Wish { allowed_tools: Some(&tools), ..Wish::default() };
    let expected = Narrowed {
        mode: PermissionMode::Default,
        rules: vec![
            parent[2].clone(),
            parent[3].clone(),
            parent[4].clone(),
            rule("Bash(git:*)", Behavior::Allow, RuleSource::Session),
            rule("Edit(src/a/**)", Behavior::Allow, RuleSource::Session),
        ],
        notes: vec![
            "WebSearch is not allowed beforehand: the parent has no rule for it, so the call is decided by the mode"
                .to_owned(),
            "\"Bash(\" is not a permission rule: it does not end in ')'".to_owned(),
        ],
    };
    assert_eq!(narrow(Parent { mode: PermissionMode::Default, rules: &parent }, wish), expected);
}

const RULES: &[&str] = &[
    "Bash",
    "Bash(git:*)",
    "Bash(git push:*)",
    "Bash(rm x)",
    "Bash(make > out)",
    "Bash(git *)",
    "Edit",
    "Edit(src/**)",
    "Edit(.git/**)",
    "Write(src/a)",
    "Edit(**)",
    "Read",
    "Read(//etc/**)",
    "Read(.env)",
    "WebFetch",
    "WebFetch(domain:example.org)",
    "WebFetch(domain:docs.example.org)",
    "mcp__db__*",
    "mcp__db__query",
    "Agent(Plan)",
    "Agent",
    "Bash(",
    "Bash(A=1 git:*)",
    "Bash(git log && rm x)",
];
const CALLS: &[&str] = &[
    "Bash:ls",
    "Bash:git log",
    "Bash:git push origin",
    "Bash:git log && rm x",
    "Bash:rm x",
    "Bash:make > out",
    "Bash:A=1 git push",
    "Bash:sudo git push",
    "Bash:$X",
    "Bash:cat .env",
    "Read:/p/a",
    "Read:/p/.env",
    "Grep:/etc/hosts",
    "Read:/h/state/teams/x",
    "Edit:/p/src/a",
    "Write:/p/src/a",
    "Edit:/p/b",
    "Edit:/p/.git/config",
    "Write:/p/src/.git/x",
    "Edit:/q/c",
    "WebFetch:https://example.org/",
    "WebFetch:https://docs.example.org/",
    "WebFetch:https://evil.com/",
    "mcp__db__query:",
    "mcp__x__y:",
    "Agent:Plan",
    "SendMessage:anna",
    "TodoWrite:",
];

fn any_mode() -> impl Strategy<Value = PermissionMode> {
    select(PermissionMode::NAMES.map(|(_, mode)| mode).to_vec())
}

fn any_rules() -> impl Strategy<Value = Vec<Rule>> {
    let source = select(vec![RuleSource::CommandLine, RuleSource::Project, RuleSource::Session]);
    let sign = select(vec!["+", "+", "+", "?", "-"]);
    let rule = (sign, select(RULES.to_vec()), source).prop_map(|(sign, text, source)| {
        let mut rule = written(&[&format!("{sign}{text}")]).remove(0);
        rule.source = source;
        rule
    });
    proptest::collection::vec(rule, 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn a_child_is_never_allowed_what_its_parent_is_not(
        mode in any_mode(),
        rules in any_rules(),
        wanted in proptest::option::of(any_mode()),
        definition in proptest::option::of(any_mode()),
        tools in proptest::option::of(subsequence(RULES.to_vec(), 0..4)),
    ) {
        let tools: Option<Vec<String>> = tools.map(|tools| tools.into_iter().map(str::to_owned).collect());
        let wish = Wish { mode: wanted, definition, allowed_tools: tools.as_deref() };
        let child = narrow(Parent { mode, rules: &rules }, wish);
        for call in CALLS {
            let (above, below) = (verdict(mode, &rules, call), verdict(child.mode, &child.rules, call));
            if matches!(below, Verdict::Allow { .. }) {
                prop_assert!(matches!(above, Verdict::Allow { .. }), "{call}: parent {above:?}, child {below:?}, {child:?}");
            }
            if matches!(above, Verdict::Deny { .. }) {
                prop_assert!(!matches!(below, Verdict::Allow { .. }), "{call}");
            }
        }
    }

    #[test]
    fn deny_beats_everything_in_any_order(
        mode in any_mode(),
        rules in any_rules(),
        denied in select(vec!["Bash(git push:*)", "Edit(src/**)", "Read(.env)", "mcp__db__*", "WebFetch(domain:example.org)"]),
        at in any::<proptest::sample::Index>(),
    ) {
        let mut with = rules.clone();
        with.insert(at.index(rules.len() + 1), written(&[&format!("-{denied}")]).remove(0));
        let hit = ["Bash:ls; sudo git push", "Edit:/p/src/a", "Read:/p/.env", "mcp__db__query:", "WebFetch:https://example.org/"];
        let parsed = Parsed::new(denied).expect("rule");
        let call = hit.iter().find(|call| parsed.names(call.split(':').next().expect("tool"))).expect("call");
        let found = verdict(mode, &with, call);
        prop_assert!(matches!(found, Verdict::Deny { .. }), "{found:?}");
    }

    #[test]
    fn the_order_of_rules_does_not_matter(mode in any_mode(), rules in any_rules(), call in select(CALLS.to_vec())) {
        let kind = |verdict: Verdict| std::mem::discriminant(&verdict);
        let reversed: Vec<Rule> = rules.iter().rev().cloned().collect();
        prop_assert_eq!(kind(verdict(mode, &rules, call)), kind(verdict(mode, &reversed, call)));
    }
}
