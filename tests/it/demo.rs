//! `festoon demo` in very different directories: what it reports is compared with what is there.

use crate::support::run::{Done, Running};
use crate::support::state::json_file;
use crate::support::wait::{self, PATIENCE};
use crate::support::world::{World, command_line};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// What a person says to the ask.
const APPROVE: &str = "approve";
const DENY: &str = "deny";

/// The report by label.
type Report = BTreeMap<String, String>;

fn report(done: &Done) -> Report {
    let page = done.stdout.split("\nWhat is in ").nth(1).unwrap_or_else(|| panic!("no report: {done:#?}"));
    let report = page.split("\n\n").nth(1).unwrap_or_default();
    let lines = report.lines().take_while(|line| line.starts_with("  "));
    let parts = |line: &str| {
        let (label, value) =
            line.trim_start().split_once("  ").unwrap_or_else(|| panic!("{line:?} in {}", done.stdout));
        (label.to_owned(), value.trim().to_owned())
    };
    lines.map(parts).collect()
}

/// The open ask, once there is one.
fn ask(world: &World) -> Value {
    wait::find("an ask", PATIENCE, || {
        let asks = world.teams().pop()?.join("asks");
        let all = fs::read_dir(asks).ok()?.flatten().map(|entry| entry.path());
        let is_ask = |path: &PathBuf| path.file_name().is_some_and(|n| n.as_bytes().starts_with(b"ask-"));
        all.into_iter().find(is_ask).map(|file| json_file(&file))
    })
}

/// Answers the demo's ask as a person in another terminal does.
fn decide(world: &World, decision: &str) {
    let id = ask(world)["id"].as_str().expect("id").to_owned();
    world.festoon(["ask", decision, &id]).run().code(0);
}

/// Runs the demo, answers its ask, and checks what holds of every run.
fn demo(world: &World, decision: &str) -> Report {
    let before = fingerprint(&world.project);
    let running = world.festoon(["demo"]).start();
    decide(world, decision);
    let done = running.wait();
    ended_well(world, &done);
    assert_eq!(fingerprint(&world.project), before, "the directory was changed");
    report(&done)
}

fn ended_well(world: &World, done: &Done) {
    done.code(0);
    assert_eq!(done.stderr, "");
    assert!(
        done.stdout.starts_with("festoon demo: a leader and three teammates look at\n"),
        "{}",
        done.stdout
    );
    world.all_gone();
    assert_eq!(world.check_transcripts(), 4);
    let ended: Vec<(String, String)> = world
        .members()
        .iter()
        .map(|m| (m["agentName"].to_string(), m["ended"]["state"].to_string()))
        .collect();
    let stopped = |name: &str| (format!("\"{name}\""), "\"stopped\"".to_owned());
    assert_eq!(ended, [stopped("scout"), stopped("reader"), stopped("historian")]);
}

/// Names, kinds, modes, times, links and contents of everything below a directory.
fn fingerprint(dir: &Path) -> Vec<(PathBuf, u32, i64, i64, Vec<u8>)> {
    let mut all = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(path) = todo.pop() {
        let meta = fs::symlink_metadata(&path).expect("meta");
        let content = match meta.file_type() {
            kind if kind.is_symlink() => fs::read_link(&path).expect("link").as_os_str().as_bytes().to_vec(),
            kind if kind.is_dir() => {
                todo.extend(fs::read_dir(&path).expect("list").flatten().map(|entry| entry.path()));
                Vec::new()
            }
            _ => fs::read(&path).expect("content"),
        };
        all.push((path, meta.mode(), meta.mtime(), meta.mtime_nsec(), content));
    }
    all.sort();
    all
}

/// What is in a directory, found out without any of the demo's tools.
struct Facts {
    files: Vec<Vec<u8>>,
    texts: Vec<(Vec<u8>, String)>,
}

impl Facts {
    /// `ignored`: beginnings of paths that git ignores.
    fn of(dir: &Path, ignored: &[&str]) -> Self {
        let mut files = Vec::new();
        let mut todo = vec![dir.to_owned()];
        while let Some(path) = todo.pop() {
            for entry in fs::read_dir(&path).expect("list").flatten().filter(|e| e.file_name() != ".git") {
                match entry.file_type().expect("kind") {
                    kind if kind.is_dir() => todo.push(entry.path()),
                    kind if kind.is_file() => {
                        let below =
                            entry.path().strip_prefix(dir).expect("below").as_os_str().as_bytes().to_vec();
                        files.push(below);
                    }
                    _ => {}
                }
            }
        }
        let kept = |name: &&Vec<u8>| !ignored.iter().any(|start| name.starts_with(start.as_bytes()));
        let text = |name: &Vec<u8>| {
            let content = fs::read(dir.join(OsStr::from_bytes(name))).expect("content");
            (name.clone(), String::from_utf8_lossy(&content).into_owned())
        };
        let texts = files.iter().filter(kept).map(text).filter(|(_, text)| !text.contains('\0')).collect();
        Self { files, texts }
    }

    fn ending(name: &[u8]) -> Option<String> {
        let base = name.rsplit(|b| *b == b'/').next()?;
        let dot = base.iter().rposition(|b| *b == b'.')?;
        let ending = &base[dot + 1..];
        let plain = |b: &u8| b.is_ascii_alphanumeric() || b"_+-".contains(b);
        let good =
            dot > 0 && base[dot - 1] != b'.' && (1..=12).contains(&ending.len()) && ending.iter().all(plain);
        good.then(|| String::from_utf8_lossy(ending).into_owned())
    }

    /// The most frequent, with their numbers.
    fn top(names: impl Iterator<Item = String>, most: usize) -> Vec<(String, usize)> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        names.for_each(|name| *counts.entry(name).or_default() += 1);
        let mut sorted: Vec<(String, usize)> = counts.into_iter().collect();
        sorted.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        sorted.truncate(most);
        sorted
    }

    fn listed(top: &[(String, usize)], mark: &str) -> String {
        top.iter().map(|(name, n)| format!("{mark}{name} ({n})")).collect::<Vec<_>>().join(", ")
    }

    /// The lines of the report that do not depend on what the files say of themselves.
    fn expected(&self) -> Report {
        let dirs = self.files.iter().filter_map(|name| {
            let end = name.iter().position(|b| *b == b'/')?;
            let shown: Vec<u8> = name[..end].iter().map(|b| if *b == b'\n' { b'?' } else { *b }).collect();
            Some(String::from_utf8_lossy(&shown).into_owned())
        });
        let all = self.texts.len();
        let kinds = Self::top(self.texts.iter().filter_map(|(name, _)| Self::ending(name)), 5);
        let lines = |wanted: &dyn Fn(&str) -> bool, ending: Option<&str>| {
            let chosen = self.texts.iter().filter(|(name, _)| {
                ending.is_none_or(|ending| name.ends_with(format!(".{ending}").as_bytes()))
            });
            let counts: Vec<usize> = chosen
                .map(|(_, text)| text.lines().filter(|line| wanted(line)).count())
                .filter(|n| *n > 0)
                .collect();
            (counts.iter().sum::<usize>(), counts.len())
        };
        let todo = |line: &str| {
            line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == "TODO" || w == "FIXME")
        };
        let top = kinds.first().map(|(ending, _)| ending.as_str());
        let place = top.map_or("in all files".to_owned(), |ending| format!("in .{ending} files"));
        let text = match lines(&|line| !line.trim().is_empty(), top) {
            (0, _) => "no lines of text".to_owned(),
            (1, files) => format!("1 line that is not blank (files: {files})"),
            (n, files) => format!("{n} lines that are not blank (files: {files})"),
        };
        let todo = match lines(&todo, None) {
            (0, _) => "no line says TODO or FIXME".to_owned(),
            (1, files) => format!("1 line says TODO or FIXME (files: {files})"),
            (n, files) => format!("{n} lines say TODO or FIXME (files: {files})"),
        };
        let or = |text: String, none: &str| if text.is_empty() { none.to_owned() } else { text };
        let kinds = or(Self::listed(&kinds, "."), "no name has an ending");
        [
            ("Files", format!("{} on disk, .git aside", self.files.len())),
            ("Where", or(Self::listed(&Self::top(dirs, 3), ""), "no file is in a directory below")),
            ("Kinds", format!("{kinds}; of {all} files not ignored by git")),
            ("Text", format!("{place}: {text}")),
            ("To do", todo),
        ]
        .map(|(label, value)| (label.to_owned(), value))
        .into()
    }
}

/// The whole report: what was found out here, and what is known because the test wrote it.
fn whole(facts: &Facts, known: &[(&str, &str)]) -> Report {
    let mut all = facts.expected();
    all.extend(known.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())));
    all
}

fn git(world: &World, date: &str, author: &str, args: &[&str]) {
    let done = Command::new("git")
        .current_dir(&world.project)
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .envs([("GIT_AUTHOR_NAME", author), ("GIT_COMMITTER_NAME", author)])
        .envs([("GIT_AUTHOR_EMAIL", "a@example.org"), ("GIT_COMMITTER_EMAIL", "c@example.org")])
        .envs([("GIT_AUTHOR_DATE", date), ("GIT_COMMITTER_DATE", date)])
        .output()
        .expect("git runs");
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn commit(world: &World, date: &str, author: &str, message: &str) {
    git(world, date, author, &["add", "-A"]);
    git(world, date, author, &["commit", "-q", "-m", message]);
}

/// Writes bytes under a name of bytes.
fn odd(world: &World, name: &[u8], content: &[u8]) {
    let path = world.project.join(OsStr::from_bytes(name));
    fs::create_dir_all(path.parent().expect("parent")).expect("dir");
    fs::write(path, content).expect("file");
}

fn date(path: &Path, seconds: u64) {
    let time = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    fs::File::options().write(true).open(path).expect("open").set_modified(time).expect("time");
}

#[test]
fn a_rust_repository() {
    let world = World::new();
    git(&world, "", "", &["init", "-q"]);
    world.file("README.md", "<!-- logo -->\n[![build](x)](y)\n\n# A **small** tool #1\n\nTODO: write more\n");
    world.file("README.de.md", "# Werkzeug\n");
    world.file("Cargo.toml", "[workspace]\nmembers = [\"x\"]\n\n[package]\n# its name\nversion = \"1.0.0\"\nname = \"small-tool\"\n");
    world.file(".gitignore", "/target\n");
    for n in 0..7 {
        world.file(&format!("src/m{n}.rs"), "fn f() {\n\n    // FIXME\n}\n// TODOS are none\n");
    }
    commit(&world, "2019-03-04T10:00:00+00:00", "Anna", "begin");
    world.file("tests/a.rs", "#[test]\nfn t() {} // TODO TODO\n");
    commit(&world, "2020-05-06T10:00:00+00:00", "Bert", "tests");
    world.file("tests/a.rs", "#[test]\nfn t() {}\n");
    fs::remove_file(world.project.join("src/m6.rs")).expect("remove");
    let subject = format!("say \"no\" to `m6` & <more>{}", "é".repeat(90));
    commit(&world, "2021-07-08T10:00:00+00:00", "Anna", &subject);
    for n in 0..20 {
        world.file(&format!("target/debug/{n}.o"), "TODO ignored\n");
    }
    let facts = Facts::of(&world.project, &["target/"]);
    // Ninety characters with the date and the space behind it.
    let shown: String = subject.chars().take(79).collect();
    let last = format!("2021-07-08: “{shown}…”");
    let (found, lines) = (
        demo(&world, APPROVE),
        [
            ("README", "README.md, begins with “A **small** tool #1”"),
            ("Manifest", "Cargo.toml, named “small-tool”"),
            ("History", "git: 3 commits, authors: 2, the oldest commit is of 2019-03-04"),
            ("Last", &last),
            // 6 + 1 + 7 + 1 + 7 · 5 lines, then 2, then 1 for 1 and 5 away.
            ("Churn", "its 3 commits: 53 lines added, 6 removed"),
        ],
    );
    assert_eq!(found, whole(&facts, &lines));
    assert_eq!(facts.files.len(), 31);
}

#[test]
fn a_directory_without_git_and_a_no() {
    let world = World::new();
    world.file("package.json", "{\n  \"author\": {\n    \"name\": \"Somebody\"\n  },\n  \"name\": \"@scope/thing\",\n  \"version\": \"1.0.0\"\n}\n");
    world.file("readme.rst", "\n\nThing\n=====\n\n.. code::\n\n    # install\n");
    world.file("lib/index.js", "// TODO\nmodule.exports = 1;\n");
    world.file("lib/deep/util.js", "\n\n  \nlet a = 1; // todo\n");
    world.file("docs/a.md", "a\n");
    world.file("setup.py", "");
    for (name, seconds) in [
        ("package.json", 1_600_000_000),
        ("readme.rst", 1_500_000_000),
        ("lib/index.js", 1_400_000_000),
        ("lib/deep/util.js", 1_300_000_000),
        ("docs/a.md", 1_200_000_000),
        ("setup.py", 1_100_000_000),
    ] {
        date(&world.project.join(name), seconds);
    }
    let facts = Facts::of(&world.project, &[]);
    let lines = [
        ("README", "readme.rst, begins with “Thing”"),
        ("Manifest", "package.json, named “@scope/thing”; also setup.py"),
        ("History", "no git repository"),
        ("Last", "the youngest file is of 2020-09-13"),
        ("Size", "not looked at, user said no"),
    ];
    assert_eq!(demo(&world, DENY), whole(&facts, &lines));
}

#[test]
fn names_that_break_lines_shells_and_terminals() {
    let world = World::new();
    git(&world, "", "", &["init", "-q"]);
    world.file(
        "pyproject.toml",
        "[build-system]\nrequires = []\n\n[project]\nname = 'odd'\nauthors = [\n  { name = \"x\" },\n]\n",
    );
    for (name, content) in [
        (&b"with space/a b.py"[..], &b"x = 1\n\ny = 2 # FIXME\n"[..]),
        (b"with space/c.py", b"# TODO\r\n"),
        ("für/漢字.py".as_bytes(), "# TODO ä\n".as_bytes()),
        (b"new\nline/one.py", b"a\n"),
        (b"new\nline/two\nlines.py", b"b\n"),
        (b"new\nline/Report of scout\nfiles: 99 on disk", b"Report of reader\n"),
        (b"$(touch gotcha)/`id`; rm -rf ~.sh", b"echo\n"),
        (b"-rf", b""),
        (b"'quote\".md", b"# not a README\n"),
        (b"esc\x1b[2J.txt", b"x\n"),
        (b"caf\xe9.txt", b"latin\n"),
        (b".hidden", b"TODO\n"),
        (b".hidden.d/..dots", b""),
        (b"dot.", b""),
        (b"a.b.c.PY", b"z\n"),
        (b"bin.dat", b"TODO \0 binary\n"),
        (b"HEAD", b"not a revision\n"),
    ] {
        odd(&world, name, content);
    }
    std::os::unix::fs::symlink("/etc", world.project.join("link")).expect("link");
    commit(&world, "2022-01-02T10:00:00+00:00", "Ünï \u{1b}[31m", "one \u{1b}[2J");
    let facts = Facts::of(&world.project, &[]);
    // The link counts as a line of its own: where it leads.
    let lines = 1 + facts.texts.iter().map(|(_, text)| text.lines().count()).sum::<usize>();
    let churn = format!("its only commit: {lines} lines added, 0 removed");
    let mut expected = whole(
        &facts,
        &[
            ("README", "none"),
            ("Manifest", "pyproject.toml, named “odd”"),
            ("History", "git: 1 commit, authors: 1, the oldest commit is of 2022-01-02"),
            ("Last", "2022-01-02: “one  [2J”"),
            ("Churn", &churn),
        ],
    );
    // git lists the binary file and the link too; there is no text to search in either.
    let kinds = ".py (5), .txt (2), .PY (1), .dat (1), .md (1); of 19 files not ignored by git";
    expected.insert("Kinds".to_owned(), kinds.to_owned());
    assert_eq!(demo(&world, APPROVE), expected);
    assert!(!world.project.join("gotcha").exists());
}

#[test]
fn an_empty_directory_and_nobody_there() {
    let mut world = World::new();
    world.project.push("a name\nwith Umlaut ä, \u{1b}[2J and 漢字");
    fs::create_dir(&world.project).expect("dir");
    let before = fingerprint(&world.project);
    let done = world.festoon(["demo"]).run();
    ended_well(&world, &done);
    assert_eq!(fingerprint(&world.project), before);
    let lines = [
        ("README", "none"),
        ("Manifest", "none of the usual ones"),
        ("History", "no git repository"),
        ("Last", "there is no file"),
        ("Size", "not looked at, demo said no"),
    ];
    assert_eq!(report(&done), whole(&Facts::of(&world.project, &[]), &lines));
    assert!(done.stdout.contains("Nobody answered the ask for a permission in time, so the demo said no"));
    let decision = world.events_of("decision").pop().expect("a decision");
    assert_eq!(
        (decision["by"].as_str(), decision["decision"].as_str(), decision["note"].as_str()),
        (Some("demo"), Some("deny"), Some("nobody answered within 5 s"))
    );
}

#[test]
fn without_git_in_a_repository_that_cannot_be_written() {
    let mut world = World::new();
    git(&world, "", "", &["init", "-q"]);
    world.file("a.txt", "one\n");
    commit(&world, "2022-01-02T10:00:00+00:00", "Anna", "one");
    let programs = world.outside().join("programs");
    fs::create_dir(&programs).expect("dir");
    for dir in std::env::split_paths(&world.env["PATH"]) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if !entry.file_name().as_bytes().starts_with(b"git") {
                // The first of a name counts, as in PATH.
                let _ = std::os::unix::fs::symlink(entry.path(), programs.join(entry.file_name()));
            }
        }
    }
    world.env.insert("PATH".to_owned(), programs.display().to_string());
    date(&world.project.join("a.txt"), 1_600_000_000);
    fs::set_permissions(&world.project, fs::Permissions::from_mode(0o555)).expect("mode");
    let lines = [
        ("README", "none"),
        ("Manifest", "none of the usual ones"),
        ("History", "there is no git program to ask"),
        ("Last", "the youngest file is of 2020-09-13"),
        ("Size", "4 bytes in all files together"),
    ];
    assert_eq!(demo(&world, APPROVE), whole(&Facts::of(&world.project, &[]), &lines));
    fs::set_permissions(&world.project, fs::Permissions::from_mode(0o755)).expect("mode");
}

#[test]
fn a_repository_without_a_commit_and_one_within_another() {
    let world = World::new();
    git(&world, "", "", &["init", "-q"]);
    world.file("go.mod", "// a module\n\nmodule example.org/x\n");
    date(&world.project.join("go.mod"), 1_600_000_000);
    let found = demo(&world, APPROVE);
    assert_eq!(found["History"], "a git repository without a commit");
    assert_eq!(found["Manifest"], "go.mod, named “example.org/x”");
    assert_eq!(found["Size"], "34 bytes in all files together");

    let mut inner = World::new();
    git(&inner, "", "", &["init", "-q"]);
    inner.file("part/a.txt", "one\n");
    commit(&inner, "2022-01-02T10:00:00+00:00", "Anna", "one");
    inner.project.push("part");
    let found = demo(&inner, DENY);
    assert_eq!(
        found["History"],
        "git: 1 commit, authors: 1, the oldest commit is of 2022-01-02 (this is part/ in a larger repository; the \
         numbers are for all of it)"
    );
    assert_eq!(found["Churn"], "its only commit: not looked at, user said no");
    assert_eq!(found["Files"], "1 on disk, .git aside");
}

#[test]
fn twenty_thousand_files_take_seconds() {
    let world = World::new();
    for dir in 0..200 {
        for file in 0..100 {
            let line = if file == 0 { "// TODO\n" } else { "x\n" };
            world.file(&format!("d{dir:03}/f{file}.c"), line);
        }
    }
    let started = Instant::now();
    let found = demo(&world, DENY);
    let took = started.elapsed();
    let expected = Facts::of(&world.project, &[]).expected();
    let of = |report: &Report| -> Report {
        expected.keys().map(|key| (key.clone(), report[key].clone())).collect()
    };
    assert_eq!(of(&found), expected);
    assert!(took < Duration::from_secs(45), "{took:?}");
}

#[test]
fn two_runs_have_two_teams() {
    let world = World::new();
    let first = demo(&world, DENY);
    let team = world.team();
    let kept = world.outside().join("first");
    fs::rename(&team, &kept).expect("moves");
    let sessions = world.home.join("projects");
    fs::remove_dir_all(&sessions).expect("removes");
    assert_eq!(demo(&world, DENY), first);
    assert_ne!(world.team().file_name(), team.file_name());
}

#[test]
fn a_signal_in_the_middle_sends_everyone_home() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let world = World::new();
        world.file("a.txt", "one\n");
        let before = fingerprint(&world.project);
        let running = world.festoon(["demo", "--ask-timeout", "600"]).start();
        ask(&world);
        running.signal(signal);
        let done = running.wait();
        done.code(130);
        assert_eq!(done.stderr, "error: the demo was interrupted; everyone has been sent home\n");
        world.all_gone();
        assert_eq!(fingerprint(&world.project), before);
        let states: BTreeSet<String> =
            world.members().iter().map(|m| m["ended"]["state"].to_string()).collect();
        assert_eq!(states, ["\"stopped\"".to_owned()].into());
        assert_eq!(world.check_transcripts(), 4);
    }
}

#[test]
fn what_cannot_work_is_said_before_anything_is_made() {
    let world = World::new();
    let done = world.festoon(["demo", "--model", "anthropic:x"]).run();
    done.code(2);
    assert!(done.stderr.contains("the demo plays its own script and takes no --model"), "{}", done.stderr);
    let done = world.festoon(["demo", "--teammate-mode", "tmux"]).env("PATH", "/nowhere").run();
    done.code(2);
    assert!(done.stderr.contains("tmux"), "{}", done.stderr);
    let done = world.festoon(["demo", "--teammate-mode", "moon"]).run();
    done.code(2);
    assert_eq!(world.teams(), Vec::<PathBuf>::new());
    let blocked = world.outside().join("blocked");
    fs::write(&blocked, "").expect("file");
    let done = world.festoon(["demo"]).env("FESTOON_HOME", &blocked.display().to_string()).run();
    done.code(1);
    assert!(done.stderr.contains("blocked"), "{}", done.stderr);
}

/// Whether there is a tmux to test with.
fn has_tmux() -> bool {
    Command::new("tmux").arg("-V").output().is_ok_and(|done| done.status.success())
}

/// The process that an agent says it is.
fn pid_of(world: &World, agent: &str) -> u32 {
    let file = world.team().join("run").join(format!("{agent}.json"));
    let record = json_file(&file);
    u32::try_from(record["pid"].as_u64().expect("a pid")).expect("a pid")
}

fn in_panes(world: &World) -> Running {
    let running = world.festoon(["demo", "--teammate-mode", "tmux", "--ask-timeout", "600"]).start();
    let ask = ask(world);
    assert_eq!(ask["replyTo"], "historian");
    running
}

#[test]
fn panes_are_real_and_gone_at_the_end() {
    if !has_tmux() {
        return;
    }
    let world = World::new();
    world.file("a.txt", "one\n");
    let before = fingerprint(&world.project);
    let running = in_panes(&world);
    assert!(command_line(pid_of(&world, "historian")).contains("teammate --spec"), "a worker of its own");
    decide(&world, APPROVE);
    let done = running.wait();
    ended_well(&world, &done);
    assert_eq!(report(&done)["Size"], "4 bytes in all files together");
    assert_eq!(fingerprint(&world.project), before);
}

#[test]
fn a_worker_that_is_killed_is_missed_and_the_others_go_on() {
    if !has_tmux() {
        return;
    }
    let world = World::new();
    world.file("a.txt", "one\n");
    let running = in_panes(&world);
    let killed = Instant::now();
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid_of(&world, "historian")).expect("pid"));
    nix::sys::signal::kill(pid, Signal::SIGKILL).expect("it runs");
    wait::until("the leader says so", || running.stdout().contains("historian is lost"));
    let took = killed.elapsed();
    let done = running.wait();
    done.code(0);
    let found = report(&done);
    assert_eq!(found["Files"], "1 on disk, .git aside");
    assert_eq!(found["History"], "not known: historian did not report");
    assert_eq!(found["Asked"], "not known: historian did not report");
    world.all_gone();
    assert!(took < Duration::from_secs(10), "{took:?}");
}

/// A tmux server of the test's own with one pane; ended when it is dropped.
struct Terminal<'a> {
    world: &'a World,
    socket: PathBuf,
}

impl<'a> Terminal<'a> {
    fn open(world: &'a World, command: &str) -> Self {
        let terminal =
            Self { world, socket: world.outside().join(uuid::Uuid::new_v4().simple().to_string()) };
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "90", "-y", "60", command]);
        terminal
    }

    fn tmux(&self, args: &[&str]) -> String {
        let done = Command::new("tmux")
            .arg("-S")
            .arg(&self.socket)
            .args(args)
            .current_dir(&self.world.project)
            .env_clear()
            .envs(&self.world.env)
            .output()
            .expect("tmux runs");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    fn wait_for(&self, text: &str) -> String {
        wait::find(text, PATIENCE, || {
            let shown = self.tmux(&["capture-pane", "-p", "-S", "-", "-J"]);
            shown.contains(text).then_some(shown)
        })
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn at_a_terminal_a_key_answers_and_the_terminal_is_given_back() {
    if !has_tmux() {
        return;
    }
    let world = World::new();
    world.file("a.txt", "one\n");
    let binary = env!("CARGO_BIN_EXE_festoon");
    let modes = "stty -a | tr ' ;' '\\n\\n' | grep -xE -- '-?(echo|icanon)' | tr '\\n' ' '";
    for (key, code, shown) in
        [("y", "0", "│ Size       4 bytes in all files together"), ("C-c", "130", "sent home")]
    {
        let command =
            format!("'{binary}' demo --teammate-mode in-process; echo status=$?=; {modes}; read wait");
        let terminal = Terminal::open(&world, &command);
        terminal.wait_for("press y for yes, n for no");
        terminal.tmux(&["send-keys", key]);
        let screen = terminal.wait_for("icanon");
        assert!(screen.contains(&format!("status={code}=")), "{screen}");
        assert!(screen.contains(shown), "{screen}");
        let modes = screen.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim();
        assert_eq!(modes, "icanon echo", "{screen}");
    }
}
