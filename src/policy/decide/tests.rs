//! Whole verdicts.

use super::*;
use crate::policy::reach::{How, Touched};
use crate::wire::access::Target;
use PermissionMode::{AcceptEdits, Auto, BypassPermissions, Default, DontAsk, Plan};

/// Rules as `+Bash(ls)`, `?Edit`, `-Read(x)`: allow, ask, deny.
pub(in crate::policy) fn rules(texts: &[&str]) -> Vec<Rule> {
    let rule = |text: &&str| {
        let (behavior, text) = match text.split_at(1) {
            ("+", text) => (Behavior::Allow, text),
            ("?", text) => (Behavior::Ask, text),
            (_, text) => (Behavior::Deny, text),
        };
        Rule { text: text.to_owned(), behavior, source: RuleSource::Project }
    };
    texts.iter().map(rule).collect()
}

/// A call as `Bash:ls`, `Read:/p/a`, `Agent:Plan`, `mcp__a__b:`.
pub(in crate::policy) fn access(text: &str) -> Access {
    let (tool, rest) = text.split_once(':').expect("tool:target");
    let paths = || rest.split(',').map(PathBuf::from).collect();
    let target = match tool {
        "Bash" => Target::Command(rest.to_owned()),
        "Read" | "Glob" | "Grep" => Target::Read(paths()),
        "Edit" | "Write" | "NotebookEdit" => Target::Edit(paths()),
        "WebFetch" => Target::Fetch(rest.to_owned()),
        "Agent" => Target::Agent(rest.to_owned()),
        "SendMessage" => Target::Message(rest.to_owned()),
        "TodoWrite" => Target::Nothing,
        _ => Target::Named,
    };
    Access { tool: tool.to_owned(), target, summary: String::new() }
}

pub(in crate::policy) fn verdict(mode: PermissionMode, rules: &[Rule], call: &str) -> Verdict {
    decide(&Query {
        access: &access(call),
        rules,
        mode,
        cwd: Path::new("/p"),
        project: &[PathBuf::from("/p")],
        home: Some(Path::new("/h")),
        closed: &[PathBuf::from("/h/state/teams"), PathBuf::from("/h/state/projects")],
        touches: None,
        own_output: Path::new("/h/state/projects/x/s/output"),
    })
}

/// A verdict in one line: `allow: …`, `deny: …`, `ask: … [suggestions]`.
fn line(mode: PermissionMode, texts: &[&str], call: &str) -> String {
    match verdict(mode, &rules(texts), call) {
        Verdict::Allow { why } => format!("allow: {why}"),
        Verdict::Deny { why } => format!("deny: {why}"),
        Verdict::Ask { rule, suggestions } => {
            let rules: Vec<String> = suggestions.into_iter().map(|suggestion| suggestion.rule).collect();
            format!("ask: {rule} {rules:?}")
        }
    }
}

#[test]
fn default_mode() {
    let table: &[(&[&str], &str, &str)] = &[
        (&[], "Read:/p/a", "allow: reading inside the project needs no permission"),
        (&[], "Read:/etc/hosts", "ask: /etc/hosts is outside the project [\"Read(//etc/**)\"]"),
        (&[], "Edit:/p/src/a", "ask: editing files asks [\"Edit(src/**)\"]"),
        (&[], "Write:/p/a[1]", "ask: editing files asks [\"Edit(a[[]1[]])\"]"),
        (&[], "Bash:ls", "allow: the command is known to be read-only"),
        (
            &[],
            "Bash:cargo test --all && ls",
            "ask: the command asks: cargo is not known to be read-only [\"Bash(cargo test:*)\"]",
        ),
        (
            &[],
            "WebFetch:https://Docs.example.org/x",
            "ask: reaching the network asks [\"WebFetch(domain:docs.example.org)\"]",
        ),
        (&[], "Agent:Plan", "allow: starting an agent needs no permission; its own calls do"),
        (&[], "SendMessage:anna", "allow: sending a message needs no permission"),
        (&[], "TodoWrite:", "allow: it touches nothing outside the agent"),
        (&[], "mcp__db__query:", "ask: mcp__db__query asks [\"mcp__db__query\"]"),
        (&["+mcp__db__*"], "mcp__db__query:", "allow: the rule mcp__db__* (project settings) allows it"),
        (&["+Edit(src/**)"], "Write:/p/src/a", "allow: the rule Edit(src/**) (project settings) allows it"),
        (
            &["+Edit(src/**)"],
            "Write:/p/src/a,/p/b",
            "ask: editing files asks [\"Edit(src/**)\", \"Edit(b)\"]",
        ),
        (&["+Write"], "Edit:/p/a", "ask: editing files asks [\"Edit(a)\"]"),
        (&["+Edit"], "Edit:/p/.git/config", "ask: editing files asks [\"Edit(.git/**)\"]"),
        (
            &["+Edit(.git/**)"],
            "Edit:/p/.git/config",
            "allow: the rule Edit(.git/**) (project settings) allows it",
        ),
        (&["+Read(//etc/**)"], "Grep:/etc", "allow: the rule Read(//etc/**) (project settings) allows it"),
        (&["-Read(.env)"], "Read:/p/.env", "deny: the rule Read(.env) (project settings) denies it"),
        (&["-Read(.env)"], "Bash:cat .env", "deny: the rule Read(.env) (project settings) denies it"),
        (
            &["-Edit(gen/**)"],
            "Bash:cat x > gen/y",
            "deny: the rule Edit(gen/**) (project settings) denies it",
        ),
        (&["-Agent(Explore)"], "Agent:Explore", "deny: the rule Agent(Explore) (project settings) denies it"),
        (&["?Read"], "Read:/p/a", "ask: the rule Read (project settings) asks []"),
        (
            &["+WebFetch(domain:example.org)"],
            "WebFetch:https://docs.example.org/",
            "allow: the rule WebFetch(domain:example.org) (project settings) allows it",
        ),
        (
            &["+WebFetch(domain:example.org)"],
            "WebFetch:https://example.org@evil.com/",
            "ask: reaching the network asks [\"WebFetch(domain:evil.com)\"]",
        ),
    ];
    for (rules, call, expected) in table {
        assert_eq!(line(Default, rules, call), *expected, "{rules:?} {call}");
    }
}

#[test]
fn allow_rules_need_every_command_and_no_redirection() {
    let table: &[(&[&str], &str, bool)] = &[
        (&["+Bash(git diff:*)"], "git diff --stat", true),
        (&["+Bash(git diff:*)"], "git diff; rm x", false),
        (&["+Bash(git diff:*)"], "git diff\nrm x", false),
        (&["+Bash(git diff:*)"], "git diff & rm x", false),
        (&["+Bash(git diff:*)"], "git diff | sh", false),
        (&["+Bash(git diff:*)"], "git diff $(rm x)", false),
        (&["+Bash(git diff:*)"], "git diff \"`rm x`\"", false),
        (&["+Bash(git diff:*)"], "git diff <(rm x)", false),
        (&["+Bash(git diff:*)"], "git diff > x", false),
        (&["+Bash(git diff:*)"], "git diff 2>/dev/null", true),
        (&["+Bash(git diff:*)"], "X=1 git diff", false),
        (&["+Bash(X=1 git diff:*)"], "X=1 git diff a", true),
        (&["+Bash(git diff:*)"], "sudo git diff", false),
        (&["+Bash(git diff:*)"], "bash -c 'git diff'", false),
        (&["+Bash(git diff:*)"], "git() { rm x; }; git diff", false),
        (&["+Bash(make:*)", "+Bash(npm run:*)"], "make x && npm run y | grep z", true),
        (&["+Bash(make:*)"], "make x && npm run y", false),
        (&["+Bash(make:*)"], "make 'a", false),
        (&["+Bash"], "anything > x; $Y", true),
        (&["+Bash(make > out && cat out)"], "make > out && cat out", true),
        (&["+Bash(make > out && cat out)"], "make > out2 && cat out", false),
        (&["+Bash(make:*)"], "make < /dev/tcp/a/1", false),
        (&["+Bash(find:*)"], "find . -name x", true),
        (&["+Bash(find:*)"], "find . -exec rm {} +", false),
        (&["+Bash(find:*)"], "find . -exec grep x {} +", true),
        (&["+Bash(find:*)", "+Bash(rm:*)"], "find . -exec rm {} +", true),
        (&["+Bash(find . -exec rm:*)"], "find . -exec rm x +", true),
        (&["+Bash(timeout:*)"], "timeout 5 rm x", false),
        (&["+Bash(timeout:*)", "+Bash(make:*)"], "timeout 5 make x", true),
        (&["+Bash(timeout 5 make:*)"], "timeout 5 make x", true),
        (&["+Bash(env:*)"], "env A=b rm x", false),
        (&["+Bash(xargs:*)"], "ls | xargs rm", false),
        (&["+Bash(nohup *)"], "nohup rm x", false),
        (&["+Bash(git:*)"], "git push", true),
        (&["+Bash(git:*)"], "git -C sub push", true),
        (&["+Bash(git:*)"], "git -c alias.x='!rm x' x", false),
        (&["+Bash(git log:*)"], "git log --ext-diff -p", false),
        (&["+Bash(git rebase:*)"], "git rebase -x 'rm x' main", false),
        (&["+Bash(awk:*)"], "awk '{ print $1 }' x", true),
        (&["+Bash(awk:*)"], "awk 'BEGIN { system(\"rm x\") }'", false),
        (&["+Bash(tar:*)"], "tar -xf a --to-command=rm", false),
        (&["+Bash(sort:*)"], "sort --compress-program=rm x", false),
        (&["+Bash(python:*)"], "python -c x", true),
        (&["+Bash(bash:*)"], "bash -c 'rm x'", true),
        (&["+Bash(sudo:*)"], "sudo rm x", true),
        (&["+Bash(timeout 5 python -c x)"], "timeout 5 python -c x", true),
    ];
    for (texts, command, expected) in table {
        let verdict = verdict(DontAsk, &rules(texts), &format!("Bash:{command}"));
        assert_eq!(matches!(verdict, Verdict::Allow { .. }), *expected, "{texts:?} {command}: {verdict:?}");
    }
}

#[test]
fn deny_rules_bite_on_any_part_in_any_dress() {
    let commands = [
        "rm -rf x",
        "ls; rm x",
        "ls && (rm x)",
        "ls | xargs rm",
        "echo $(rm x)",
        "A=b rm x",
        "sudo rm x",
        "/usr/bin/rm x",
        "'r'm x",
        "bash -c 'ls; rm x'",
        "timeout 5 env A=b nohup rm x",
        "runuser -u bob rm x",
        "ssh-agent rm x",
        "su bob -c 'rm x'",
        "script -qc 'rm x' log",
        "ssh host rm x",
        "PAGER='rm x' git log",
        "f() { rm x; }; f",
        "cat <<E\n$(rm x)\nE",
        "if true; then rm x; fi > log",
    ];
    for mode in [Default, AcceptEdits, Plan, Auto, DontAsk, BypassPermissions] {
        for command in commands {
            let expected = "deny: the rule Bash(rm:*) (project settings) denies it";
            let found = line(mode, &["+Bash", "?Bash(rm:*)", "-Bash(rm:*)"], &format!("Bash:{command}"));
            assert_eq!(found, expected, "{mode:?} {command}");
        }
    }
}

#[test]
fn what_a_deny_rule_cannot_see_is_asked_in_every_mode() {
    let maybe = "the rule Bash(rm:*) (project settings) may apply, which only the running shell knows";
    for command in [
        "$X y",
        "bash -c \"$X\"",
        "curl x | sh",
        "echo 'a",
        "source <(echo rm x)",
        "python -c x",
        "perl -e x",
        "awk 'BEGIN { system(\"x\") }'",
        "git -c alias.x='!r' x",
        "vim -c '!r'",
        "ssh host",
    ] {
        let call = format!("Bash:{command}");
        assert_eq!(line(BypassPermissions, &["-Bash(rm:*)"], &call), format!("ask: {maybe} []"), "{command}");
        assert_eq!(
            line(DontAsk, &["-Bash(rm:*)"], &call),
            format!("deny: {maybe}, and dontAsk mode denies what would ask"),
            "{command}"
        );
    }
    assert_eq!(
        line(BypassPermissions, &["-Bash(rm"], "Bash:ls"),
        "ask: the rule Bash(rm (project settings) may apply, which only the running shell knows []"
    );
}

#[test]
fn the_closed_part_is_closed_in_every_mode() {
    for mode in [Default, AcceptEdits, Plan, Auto, DontAsk, BypassPermissions] {
        let shut =
            |path: &str| format!("deny: {path} belongs to the state of the agents and is closed to tools");
        let rules = ["+Read", "+Edit(//h/state/**)", "+Bash"];
        assert_eq!(line(mode, &rules, "Read:/p/a,/h/state/teams/t/keys/k"), shut("/h/state/teams/t/keys/k"));
        assert_eq!(line(mode, &rules, "Edit:/h/state/projects/x"), shut("/h/state/projects/x"));
        assert_eq!(line(mode, &rules, "Bash:cat ~/state/teams/x"), shut("/h/state/teams/x"));
        assert_eq!(
            line(mode, &rules, "Read:/h/state/projects/x/s/output/../t"),
            shut("/h/state/projects/x/s/output/../t")
        );
        let own = "/h/state/projects/x/s/output/task.txt";
        assert_eq!(line(mode, &rules, &format!("Edit:{own}")), shut(own));
        assert!(matches!(verdict(mode, &[], &format!("Read:{own}")), Verdict::Allow { .. }), "{mode:?}");
    }
}

#[test]
fn modes() {
    let edit = "Edit:/p/src/a";
    let table: &[(PermissionMode, &[&str], &str, &str)] = &[
        (AcceptEdits, &[], edit, "allow: acceptEdits mode allows edits inside the project"),
        (AcceptEdits, &[], "Edit:/q/a", "ask: /q/a is outside the project [\"Edit(//q/**)\"]"),
        (
            AcceptEdits,
            &[],
            "Edit:/p/.git/hooks/x",
            "ask: /p/.git/hooks/x is in .git, which is protected [\"Edit(.git/hooks/**)\"]",
        ),
        (
            AcceptEdits,
            &[],
            "Edit:/p/.festoon/settings.json",
            "ask: /p/.festoon/settings.json is in .festoon, which is protected [\"Edit(.festoon/**)\"]",
        ),
        (AcceptEdits, &["?Edit"], edit, "ask: the rule Edit (project settings) asks []"),
        (
            Plan,
            &["+Edit"],
            edit,
            "deny: plan mode only reads, and Edit edits files; say what you would do instead",
        ),
        (
            Plan,
            &["+Bash"],
            "Bash:make",
            "deny: plan mode only reads, and make is not known to be read-only; say what you would do instead",
        ),
        (Plan, &[], "Bash:ls", "allow: the command is known to be read-only"),
        (Plan, &[], "Read:/p/a", "allow: reading inside the project needs no permission"),
        (
            Auto,
            &[],
            edit,
            "ask: editing files asks (auto mode without a sandbox asks like default mode) [\"Edit(src/**)\"]",
        ),
        (DontAsk, &[], edit, "deny: editing files asks, and dontAsk mode denies what would ask"),
        (DontAsk, &["+Edit"], edit, "allow: the rule Edit (project settings) allows it"),
        (
            DontAsk,
            &["?Edit"],
            edit,
            "deny: the rule Edit (project settings) asks, and dontAsk mode denies what would ask",
        ),
        (BypassPermissions, &[], "Bash:rm -rf $X", "allow: bypassPermissions mode allows it"),
        (BypassPermissions, &["-Edit"], edit, "deny: the rule Edit (project settings) denies it"),
        (BypassPermissions, &["?Edit"], edit, "ask: the rule Edit (project settings) asks []"),
    ];
    for (mode, rules, call, expected) in table {
        assert_eq!(line(*mode, rules, call), *expected, "{mode:?} {rules:?} {call}");
    }
}

#[test]
fn suggestions_allow_the_call_and_stay_small() {
    let table: &[(&str, &[&str])] = &[
        ("git push origin main", &["Bash(git push:*)"]),
        ("npm run build -- --x && npm test", &["Bash(npm run build:*)", "Bash(npm test:*)"]),
        ("rm -rf x", &["Bash(rm -rf x)"]),
        ("python x.py", &["Bash(python x.py)"]),
        ("pytest -q tests", &["Bash(pytest:*)"]),
        ("make", &["Bash(make)"]),
        ("make > out", &["Bash(make > out)"]),
        ("A=1 make", &["Bash(A=1 make)"]),
        ("git commit -m 'a b'", &["Bash(git commit:*)"]),
        ("a\nrm b", &[]),
        ("rm *", &[]),
    ];
    for (command, expected) in table {
        let call = format!("Bash:{command}");
        let Verdict::Ask { suggestions, .. } = verdict(Default, &[], &call) else { panic!("{command} runs") };
        let texts: Vec<&str> = suggestions.iter().map(|suggestion| suggestion.rule.as_str()).collect();
        assert_eq!(texts, *expected, "{command}");
        let rules: Vec<String> = texts.iter().map(|text| format!("+{text}")).collect();
        let rules = super::tests::rules(&rules.iter().map(String::as_str).collect::<Vec<_>>());
        if !texts.is_empty() {
            assert!(matches!(verdict(Default, &rules, &call), Verdict::Allow { .. }), "{command}");
        }
    }
}

#[test]
fn rules_are_below_the_root_and_words_below_the_directory_of_work() {
    let decide_in = |call: &str, texts: &[&str]| {
        decide(&Query {
            access: &access(call),
            rules: &rules(texts),
            mode: Default,
            cwd: Path::new("/p/sub"),
            project: &[PathBuf::from("/p")],
            home: None,
            closed: &[],
            touches: None,
            own_output: Path::new("/none"),
        })
    };
    let allowed = |call: &str, texts: &[&str]| matches!(decide_in(call, texts), Verdict::Allow { .. });
    let denied = |call: &str, texts: &[&str]| matches!(decide_in(call, texts), Verdict::Deny { .. });
    assert!(allowed("Bash:cat ../a", &[]));
    assert!(!allowed("Bash:cat ../../a", &[]));
    assert!(allowed("Edit:/p/src/a", &["+Edit(src/**)"]));
    assert!(!allowed("Edit:/p/sub/src/a", &["+Edit(src/**)"]));
    assert!(denied("Read:/p/.env", &["-Read(.env)"]));
    assert!(denied("Bash:cat ../.env", &["-Read(.env)"]));
    assert!(allowed("Bash:cat .env", &["-Read(.env)"]));
    assert!(denied("Bash:cat .env", &["-Read(sub/.env)"]));
}

#[test]
fn rules_about_files_hold_for_commands_however_they_name_them() {
    let denied = "deny: the rule Read(.env) (project settings) denies it";
    let maybe =
        "ask: the rule Read(.env) (project settings) may apply, which only the running shell knows []";
    for (command, expected) in [
        ("cat .env", denied),
        ("cat ./sub/../.env", denied),
        ("cat 'a' .env | head", denied),
        ("< .env cat", denied),
        ("sed -n p .env", denied),
        ("base64 .env", denied),
        ("cd sub && cat ../.env", denied),
        ("sudo cat .env", denied),
        ("bash -c 'cat < .env'", denied),
        ("echo $(<.env)", denied),
        ("git show HEAD:.env", denied),
        ("grep -f.env x", denied),
        ("cat $X", maybe),
        ("cat {.env,x}", maybe),
        ("cat ~bob/x", maybe),
        ("cd $X && cat a", maybe),
        ("(cd sub); cat .env", maybe),
        ("ls -a | xargs cat", maybe),
        ("find . -name x -exec cat {} +", maybe),
        ("cp .env x", maybe),
        ("python -c x", maybe),
    ] {
        let call = format!("Bash:{command}");
        assert_eq!(line(BypassPermissions, &["-Read(.env)"], &call), expected, "{command}");
    }
    let bypass = "allow: bypassPermissions mode allows it";
    for command in
        ["cat x", "echo .env $X", "make $X", "ls", "cd sub && cat .env", "for f in a b; do echo $f; done"]
    {
        let call = format!("Bash:{command}");
        let expected = if command.starts_with("cd") { maybe } else { bypass };
        assert_eq!(line(BypassPermissions, &["-Read(.env)"], &call), expected, "{command}");
    }
    for command in ["cat .env", "cat $X", "cd $X && cat a"] {
        let call = format!("Bash:{command}");
        assert_eq!(line(BypassPermissions, &["-Read", "-Bash(rm:*)"], &call), bypass, "{command}");
    }
    let edits =
        "ask: the rule Edit(gen/**) (project settings) may apply, which only the running shell knows []";
    for (command, expected) in [
        ("cat x > gen/y", "deny: the rule Edit(gen/**) (project settings) denies it"),
        ("rm gen/y", edits),
        ("sed -i s/a/b/ gen/y", edits),
        ("cat gen/y", bypass),
    ] {
        let call = format!("Bash:{command}");
        assert_eq!(line(BypassPermissions, &["-Edit(gen/**)"], &call), expected, "{command}");
    }
}

#[test]
fn what_a_look_at_the_disk_found_counts() {
    let touched = |path: &str, sure| Touched { path: path.into(), how: How::Read, sure };
    let judged = |all: Vec<Touched>, doubt: Option<&str>| {
        decide(&Query {
            access: &access("Bash:cat lnk"),
            rules: &rules(&["-Read(.env)"]),
            mode: Default,
            cwd: Path::new("/p"),
            project: &[PathBuf::from("/p")],
            home: None,
            closed: &[],
            touches: Some(&Touches { all, doubt: doubt.map(str::to_owned) }),
            own_output: Path::new("/none"),
        })
    };
    assert!(matches!(judged(vec![touched("/p/lnk", true)], None), Verdict::Allow { .. }));
    assert!(matches!(
        judged(vec![touched("/p/lnk", true), touched("/p/.env", true)], None),
        Verdict::Deny { .. }
    ));
    assert!(matches!(judged(vec![touched("/p/.env", false)], None), Verdict::Ask { .. }));
    assert!(matches!(judged(Vec::new(), Some("too many")), Verdict::Ask { .. }));
}
