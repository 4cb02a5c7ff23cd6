//! Blueprints: those that ship, and what is wrong with others.

use super::*;
use crate::wire::blueprint::BlueprintMember;
use std::collections::BTreeSet;
use std::fs;

fn files(dir: &Path, below: &str, all: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).expect("a directory").filter_map(Result::ok) {
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        match entry.path().is_dir() {
            true => files(&entry.path(), &format!("{name}/"), all),
            false => drop(all.insert(name)),
        }
    }
}

#[test]
fn every_file_of_teams_ships_and_is_used() {
    let teams = Path::new(env!("CARGO_MANIFEST_DIR")).join("teams");
    let mut there = BTreeSet::new();
    files(&teams, "", &mut there);
    let embedded: BTreeSet<String> = SHIPPED.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(embedded, there, "what is embedded is what stands in teams/");
    let mut used = BTreeSet::new();
    for name in shipped_names() {
        let team = shipped(name).expect(name);
        assert_eq!(team.blueprint.name, name);
        assert_eq!(team.warnings, Vec::<String>::new());
        used.insert(format!("{name}.toml"));
        used.extend(team.roles.iter().map(|role| format!("roles/{}.md", role.name)));
        used.extend(team.blueprint.script.clone());
        let from_file = load(&Shelf::Directory(teams.clone()), &format!("{name}.toml")).expect(name);
        assert_eq!(from_file.blueprint, team.blueprint);
        assert_eq!(from_file.roles, team.roles);
    }
    assert_eq!(used, there, "nobody uses a file of teams/");
}

/// A directory with a blueprint and two roles.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("temp");
        fs::create_dir(dir.path().join("roles")).expect("dir");
        let place = Self(dir);
        place.write("roles/a.md", "---\nname: a\ndescription: A.\nwibble: 1\n---\nYou are a.\n");
        place.write("roles/other.md", "---\nname: b\ndescription: B.\n---\nYou are b.\n");
        place.write("roles/bad.md", "---\nname: bad\n---\nYou are bad.\n");
        place
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).expect("write");
    }

    /// What is wrong with a blueprint, the directory cut away.
    fn refusal(&self, text: &str) -> String {
        self.write("t.toml", text);
        let path = self.0.path().join("t.toml").display().to_string();
        let error = find(&path, Path::new("/")).expect_err(text);
        assert_eq!(error.exit, ExitKind::Usage);
        error.report.message.replace(&format!("{}/", self.0.path().display()), "")
    }
}

const GOOD: &str = "name = \"x\"
description = \"d\"
lead-prompt = \"\"\"
Do {task} with
{members}
\"\"\"

[[member]]
name = \"Anna\"
role = \"a\"
duty = \"first\"

[[member]]
name = \"bert\"
role = \"a\"
duty = \"second\"
";

#[test]
fn a_blueprint_of_ones_own_is_read_with_its_roles() {
    let place = Place::new();
    place.write("t.toml", &format!("\u{feff}{}", GOOD.replace('\n', "\r\n")));
    let team = find(&place.0.path().join("t.toml").display().to_string(), Path::new("/")).expect("good");
    let member = |name: &str, duty: &str| BlueprintMember {
        name: name.to_owned(),
        role: "a".to_owned(),
        duty: duty.to_owned(),
        model: None,
        permission_mode: None,
        isolation: None,
    };
    assert_eq!(team.blueprint.members, [member("Anna", "first"), member("bert", "second")]);
    assert_eq!(team.roles.iter().map(|role| role.name.as_str()).collect::<Vec<_>>(), ["a"]);
    let roles = place.0.path().join("roles/a.md");
    assert_eq!(team.warnings, [format!("{}:4: unknown key `wibble`", roles.display())]);
    assert_eq!(
        team.lead_prompt(" count {members}\n").replace("\r\n", "\n"),
        "Do count {members} with\n- name `Anna`, subagent_type `a`: first\n- name `bert`, subagent_type `a`: second"
    );
}

#[test]
fn what_is_wrong_is_named_with_file_line_and_reason() {
    let place = Place::new();
    let cases = [
        (GOOD.replace("name = \"x\"", "name = \"\""), "t.toml:1: \"\" cannot be a name: it is empty"),
        (GOOD.replace("{task}", "it"), "t.toml:3: `lead-prompt` has no place for the task: {task}"),
        (GOOD.replace("bert", "ANNA"), "t.toml:13: there are two members named `anna`"),
        (GOOD.replace("bert", "team-lead"), "t.toml:13: \"team-lead\" cannot be a name: it is reserved"),
        (
            GOOD.replace("role = \"a\"\nduty = \"second\"", "role = \"nobody\"\nduty = \"\""),
            "t.toml:13: it names roles/nobody.md, and there is no such file",
        ),
        (
            GOOD.replacen("role = \"a\"", "role = \"../a\"", 1),
            "t.toml:8: `role` is the plain name of a file, not \"../a\"",
        ),
        (
            GOOD.replacen("role = \"a\"", "role = \"other\"", 1),
            "roles/other.md: `name` is `b`; a role has the name of its file",
        ),
        (
            GOOD.replacen("role = \"a\"", "role = \"bad\"", 1),
            "roles/bad.md:3: the front matter has no `description`",
        ),
        (format!("script = \"s.toml\"\n{GOOD}"), "t.toml:1: it names s.toml, and there is no such file"),
        (GOOD.split("[[").next().unwrap_or_default().to_owned(), "t.toml:1: missing field `member`"),
        (
            format!("member = []\n{}", GOOD.split("[[").next().unwrap_or_default()),
            "t.toml:1: there is no [[member]]",
        ),
    ];
    for (text, why) in cases {
        assert_eq!(place.refusal(&text), why, "{text}");
    }
    let unknown = place.refusal(&GOOD.replace("duty = \"second\"", "duty = \"second\"\ncolour = 1"));
    assert!(unknown.starts_with("t.toml:17: unknown field `colour`"), "{unknown}");
    place.write("s.toml", "[[rule]]\nreply = [{ text = \"{{nope}}\" }]");
    let script = place.refusal(&format!("script = \"s.toml\"\n{GOOD}"));
    assert!(script.starts_with("s.toml:2: `{{nope}}`: unknown source"), "{script}");
}

#[test]
fn a_blueprint_that_is_not_there_is_answered_with_those_that_are() {
    let error = find("revue", Path::new("/")).expect_err("none");
    assert_eq!(error.report.message, "there is no blueprint \"revue\"");
    assert_eq!(
        error.report.hint,
        "these ship: demo, review, feature, investigate; a file is named with its path"
    );
    let error = find("no/such.toml", Path::new("/nowhere")).expect_err("none");
    assert_eq!(error.report.message, "/nowhere/no/such.toml: there is no such file");
}

#[test]
fn the_example_of_the_documentation_is_a_blueprint() {
    let page = include_str!("../../../docs/formats/blueprint.md");
    let example =
        page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let place = Place::new();
    for role in ["writer", "checker"] {
        let text = format!("---\nname: {role}\ndescription: D.\n---\nYou.\n");
        place.write(&format!("roles/{role}.md"), &text);
    }
    place.write("t.toml", example);
    let team = find("./t.toml", place.0.path()).expect("a blueprint");
    assert_eq!((team.blueprint.name.as_str(), team.roles.len()), ("docs", 2));
    for name in shipped_names() {
        assert!(page.contains(&format!("| `{name}` |")), "{name} is not described");
    }
}
