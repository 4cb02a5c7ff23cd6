//! The commands that look at teams and act on them, on the real binary, from outside.

#![expect(clippy::expect_used, reason = "a test says what it expected by failing")]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use unicode_width::UnicodeWidthStr;

/// How long anything here may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// A leader that starts two teammates: `bo` is idle after a turn, `Änna` works until the gate opens.
const TWO: &str = r#"
gate-deadline-ms = 120_000

[[rule]]
agent = "team-lead"
reply = [
  { tool = "Agent", input = { name = "Änna", description = "count", prompt = "Count." } },
  { tool = "Agent", input = { name = "bo", description = "wait", prompt = "Wait." } },
]
[[rule]]
agent = "bo"
contains = "make it"
reply = [{ tool = "Bash", input = { command = "touch made.txt", description = "make a file" } }]
[[rule]]
agent = "bo"
times = "always"
reply = [{ text = "bo is ready" }]
[[rule]]
agent = "team-lead"
times = "always"
reply = [{ text = "noted" }]
[[rule]]
times = "always"
reply = [{ gate = "go" }, { text = "counted" }]
"#;

/// A state directory and a project, gone with the test.
struct Place {
    dir: TempDir,
    env: BTreeMap<String, String>,
}

impl Place {
    fn new() -> Self {
        let dir = TempDir::new().expect("temp dir");
        fs::create_dir(dir.path().join("project")).expect("project");
        let text = |path: PathBuf| path.to_str().expect("UTF-8").to_owned();
        let env = [
            ("PATH", std::env::var("PATH").expect("PATH")),
            ("HOME", text(dir.path().join("user"))),
            ("FESTOON_HOME", text(dir.path().join("home"))),
            ("TMUX_TMPDIR", text(dir.path().to_owned())),
            ("TERM", "xterm-256color".to_owned()),
            ("TZ", "UTC".to_owned()),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value)).into();
        Self { dir, env }
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }
    fn project(&self) -> PathBuf {
        self.dir.path().join("project").canonicalize().expect("path")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_festoon"));
        command.args(args).current_dir(self.project()).env_clear().envs(&self.env).stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::from(self.command(args).output().expect("runs"))
    }

    /// What a command prints that ends well.
    fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{args:?}: {}", ran.stdout);
        ran.stdout
    }

    /// The JSON a command prints that ends well.
    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[args, &["--json"]].concat())).expect("JSON")
    }

    /// All files below the state directory, without their content.
    fn files(&self) -> Vec<PathBuf> {
        let mut all = Vec::new();
        let mut next = vec![self.home()];
        while let Some(dir) = next.pop() {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                all.push(entry.path());
                if entry.file_type().expect("type").is_dir() {
                    next.push(entry.path());
                }
            }
        }
        // The living write meanwhile: what is about to be renamed is nobody's leaving.
        all.retain(|path| path.extension().is_none_or(|end| end != "tmp"));
        all.sort();
        all
    }

    fn team_dir(&self, team: &str) -> PathBuf {
        self.home().join("teams").join(team)
    }

    /// Says something to each tmux server of this place; what they answer.
    fn tmux(&self, args: &[&str]) -> String {
        let sockets = fs::read_dir(self.dir.path())
            .expect("sockets")
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("tmux-"));
        let mut said = String::new();
        for socket in sockets.flat_map(|dir| fs::read_dir(dir.path()).into_iter().flatten().flatten()) {
            let mut tmux = Command::new("tmux");
            tmux.arg("-S").arg(socket.path()).args(args).env_clear().envs(&self.env);
            said.push_str(&String::from_utf8_lossy(&tmux.output().expect("tmux runs").stdout));
        }
        said
    }

    /// The panes of all tmux servers of this place.
    fn panes(&self) -> String {
        self.tmux(&["list-panes", "-a"])
    }

    /// A headless leader that plays a script, with more arguments.
    fn lead(&self, script: &str, more: &[&str]) -> Leader<'_> {
        let file = self.project().join("script.toml");
        fs::write(&file, script).expect("script");
        let args = ["-p", "go", "--model", "scripted:script.toml"];
        let child =
            self.command(&[&args, more].concat()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Leader { place: self, child: Some(child.expect("starts")) }
    }
}

impl Drop for Place {
    /// Workers outlive their leader by design; a test that failed half-way must not leave them.
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// What a command did.
#[derive(Debug)]
struct Ran {
    status: i32,
    stdout: String,
    stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        let status = output.status.code().unwrap_or(-1);
        Self { status, stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Ran {
    /// The error object of a command that was refused.
    fn error(&self) -> Value {
        let value: Value = serde_json::from_str(&self.stderr).expect("an error object");
        value["error"].clone()
    }
}

/// A leader at work; killed with the test.
struct Leader<'a> {
    place: &'a Place,
    child: Option<Child>,
}

impl Leader<'_> {
    fn pid(&self) -> u32 {
        self.child.as_ref().expect("runs").id()
    }

    /// The rows of `ps` without what differs from run to run, once `ready` says so.
    fn rows(&self, ready: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let mut rows = Vec::new();
        wait(|| {
            rows = self.place.json(&["ps"]).as_array().expect("rows").clone();
            ready(&rows)
        });
        rows
    }

    /// The name of its team, once it has this member in this state.
    fn team_with(&self, name: &str, state: &str) -> String {
        let fits = |row: &Value| row["name"] == name && row["state"] == state;
        let rows = self.rows(|rows| rows.iter().any(fits));
        rows[0]["team"].as_str().expect("a team").to_owned()
    }

    fn open_gate(&self) {
        let dir = self.place.project().join("script.toml.gate");
        fs::create_dir_all(&dir).expect("gates");
        fs::write(dir.join("go"), "").expect("gate");
    }

    fn end(mut self) -> Ran {
        let child = self.child.take().expect("runs");
        Ran::from(child.wait_with_output().expect("ends"))
    }

    /// KILL, and nobody reaps it: it stays a zombie as long as the test.
    fn kill(&mut self) {
        self.child.as_mut().expect("runs").kill().expect("kill");
        let stat = format!("/proc/{}/stat", self.pid());
        wait(|| fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z ")));
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn wait(mut ready: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !ready() {
        assert!(Instant::now() < until, "it did not come to that in time");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// A row without its times and tokens, which are checked to be there.
fn steady(mut row: Value) -> Value {
    assert!(row["since"].as_str().is_some_and(|since| since.ends_with('Z')), "{row}");
    assert!(row["tokens"].is_u64(), "{row}");
    let members = row.as_object_mut().expect("a row");
    members.remove("since");
    members.remove("tokens");
    row
}

fn model(place: &Place) -> String {
    format!("scripted:{}/script.toml", place.project().display())
}

fn slug_of_anna(rows: &[Value]) -> String {
    let anna = rows.iter().find_map(|row| row["name"].as_str().filter(|name| name.starts_with("anna-")));
    anna.expect("Änna is there").to_owned()
}

#[test]
fn nothing_is_there_and_nothing_is_made_by_looking() {
    let place = Place::new();
    assert_eq!(place.ok(&["ps"]), "no team is running; `festoon demo` shows one\n");
    for listing in [
        &["ps"][..],
        &["team", "list"],
        &["inbox", "list"],
        &["ask", "list"],
        &["log", "list"],
        &["log", "list", "--all"],
    ] {
        assert_eq!(place.json(listing), json!([]), "{listing:?}");
        assert!(!place.ok(listing).is_empty(), "{listing:?} says that there is nothing");
    }
    let home = place.home();
    let project = format!("{}", place.project().display()).replace('/', "-");
    assert_eq!(
        place.json(&["paths"]),
        json!({
            "state": home, "config": home, "settings": home.join("settings.json"), "agents": home.join("agents"),
            "teams": home.join("teams"), "projects": home.join("projects"),
            "project": home.join("projects").join(project),
            "worktrees": home.join("worktrees"), "logs": home.join("logs"), "trust": home.join("trust.json"),
        })
    );
    let sent = place.run(&["send", "anna", "hello", "--json"]);
    assert_eq!(sent.status, 1);
    assert_eq!(
        sent.error(),
        json!({ "kind": "not_found", "message": "no team is running",
                "hint": "there is no team at all; `festoon demo` shows a team at work" })
    );
    assert!(!home.exists(), "{:?}", place.files());
}

#[test]
fn a_live_team_is_listed_with_evidence_and_ends_clean() {
    let place = Place::new();
    let leader = place.lead(TWO, &[]);
    let team = leader.team_with("bo", "idle");
    let rows = leader.rows(|rows| rows.len() == 3 && rows[0]["state"] == "idle");
    let anna = slug_of_anna(&rows);
    let row = |name: &str, kind: &str, state: &str| {
        json!({
            "agentId": format!("{name}@{team}"), "name": name, "team": team, "type": kind, "backend": "in-process",
            "state": state, "evidence": format!("pid {} running", leader.pid()), "model": model(&place),
            "task": null, "cost": 0.0, "pid": leader.pid(), "paneId": null,
        })
    };
    let expected = [
        row("team-lead", "main", "idle"),
        row(&anna, "general-purpose", "working"),
        row("bo", "general-purpose", "idle"),
    ];
    assert_eq!(rows.into_iter().map(steady).collect::<Vec<_>>(), expected);

    let session = place.json(&["team", "list"])[0]["leader"]["sessionId"].clone();
    let listed = json!({
        "name": team, "displayName": team, "state": "running", "members": [anna, "bo"],
        "leader": { "agentId": format!("team-lead@{team}"), "state": "idle", "pid": leader.pid(), "sessionId": session },
    });
    assert_eq!(place.json(&["team", "list"]), json!([listed]));
    let mut shown = place.json(&["team", "show"]);
    let members = shown.as_object_mut().expect("an object");
    assert!(members.remove("createdAt").is_some_and(|at| at.as_str().is_some_and(|at| at.ends_with('Z'))));
    assert_eq!(members.remove("agents").expect("agents").as_array().map(Vec::len), Some(3));
    let mut expected = listed.clone();
    expected["description"] = "".into();
    expected["directory"] = json!(place.team_dir(&team));
    expected["openAsks"] = json!([]);
    expected["waiting"] = json!({ "team-lead": 0, "bo": 0, anna.as_str(): 0 });
    assert_eq!(shown, expected);

    let refused = place.run(&["team", "delete", &team, "--json"]);
    assert_eq!((refused.status, refused.error()["kind"].clone()), (1, json!("team_lives")));
    assert!(place.team_dir(&team).is_dir());

    for listing in [&["ps"][..], &["team", "list"], &["inbox", "list"], &["log", "list", "--all"]] {
        for line in place.ok(listing).lines() {
            assert!(line.width() <= 80, "{listing:?}: {} columns: {line}", line.width());
        }
    }
    let table = place.ok(&["ps"]);
    assert!(
        table.contains("Änna") && table.contains("working") && table.contains("scripted:script"),
        "{table}"
    );

    leader.open_gate();
    let ended = leader.end();
    assert_eq!((ended.status, ended.stdout.as_str(), ended.stderr.as_str()), (0, "noted\n", ""));
    let rows = place.json(&["ps"]);
    let states: Vec<&Value> = rows.as_array().expect("rows").iter().map(|row| &row["state"]).collect();
    assert_eq!(states, ["stopped", "stopped", "stopped"]);
    assert_eq!(rows[2]["evidence"], "agreed to shut down: stopped by team-lead: the leader ends");
    assert_eq!((&rows[2]["pid"], &rows[2]["paneId"]), (&Value::Null, &Value::Null));
    assert_eq!(
        place.ok(&["ps"]),
        "no team is running; `festoon demo` shows one\n1 team ended: `festoon team list`, `festoon ps --all`\n"
    );
    assert!(place.ok(&["ps", "--all"]).contains("bo"));
    // What needs a team says which there are.
    for command in [&["timeline", "-o", "-"][..], &["task", "list"]] {
        let error = place.run(&[command, &["--json"]].concat()).error();
        let hint = format!("say which of those that have ended: {team}");
        assert_eq!(error, json!({ "kind": "not_found", "message": "no team is running", "hint": hint }));
    }
    assert_eq!(place.json(&["team", "delete", &team, "--force"]), json!({ "team": team, "deleted": true }));
    assert_eq!(place.json(&["team", "list"]), json!([]));
}

#[test]
fn a_killed_leader_is_lost_and_its_mail_is_kept() {
    let place = Place::new();
    let mut leader = place.lead(TWO, &[]);
    let team = leader.team_with("bo", "idle");
    let gone = format!("pid {} gone", leader.pid());
    leader.kill();
    let rows = place.json(&["ps"]);
    let seen: Vec<Value> = rows
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| json!([row["state"], row["evidence"], row["pid"], row["task"]]))
        .collect();
    assert_eq!(seen, vec![json!(["lost", gone, null, null]); 3], "a zombie is dead");
    assert_eq!(place.json(&["team", "list"])[0]["state"], "lost");

    let doctor = place.json(&["doctor"]);
    let found: Vec<&Value> =
        doctor.as_array().expect("checks").iter().filter(|check| check["check"] == "team").collect();
    assert_eq!(
        found,
        [&json!({ "check": "team", "status": "note",
            "message": format!("{team} ended without a word: its leader is gone ({gone})"),
            "hint": format!("`festoon team resume {team}` goes on with it, `festoon team delete {team}` removes it") })]
    );

    // Nobody runs, so the team has to be named; the mail waits for whoever resumes it.
    assert_eq!(place.run(&["send", "bo", "later"]).status, 1);
    let sent = place.json(&["send", "bo", "later", "--team", &team]);
    assert_eq!(
        json!([sent["stored"], sent["seq"], sent["to"], sent["state"], sent["prospect"]]),
        json!([
            true,
            1,
            "bo",
            "lost",
            format!("bo is away (lost: {gone}); it reads this when the team is resumed")
        ])
    );

    let stopped = place.json(&["team", "stop", &team, "bo"]);
    assert_eq!(
        stopped,
        json!([{ "team": team, "name": "bo", "stopped": true, "state": "lost", "exit": "unknown",
                 "reason": format!("its process was gone (pid {})", leader.pid()) }])
    );
    let refused = place.run(&["send", "bo", "too late", "--team", &team, "--json"]);
    assert_eq!((refused.status, refused.error()["kind"].clone()), (1, json!("stopped")));
    assert_eq!(place.json(&["team", "delete", &team, "--force"]), json!({ "team": team, "deleted": true }));
    assert_eq!(place.json(&["ps"]), json!([]));
}

#[test]
fn a_message_is_stored_or_refused_with_the_names_that_exist() {
    let place = Place::new();
    let leader = place.lead(TWO, &[]);
    let team = leader.team_with("bo", "idle");
    let before = place.files();
    let refused = place.run(&["send", "boo", "hello", "--json"]);
    assert_eq!(refused.status, 1);
    assert_eq!(
        refused.error(),
        json!({ "kind": "not_found", "message": format!("team {team} has no agent \"boo\""),
                "hint": "there is: Änna, bo, team-lead" })
    );
    for nobody in ["user", "system", "*", "../bo", "", "bo/../x"] {
        assert_eq!(place.run(&["send", nobody, "hello"]).status, 1, "{nobody:?}");
    }
    assert_eq!(place.run(&["send", "bo", "hello", "--team", "other"]).status, 1);
    assert_eq!(place.run(&["send", "bo", " \n"]).status, 2);
    assert_eq!(place.files(), before, "a refused message leaves nothing");

    let mut sent = place.json(&["send", "Änna", "hello"]);
    let id = sent["messageId"].take();
    let anna = slug_of_anna(place.json(&["ps"]).as_array().expect("rows"));
    assert_eq!(
        sent,
        json!({ "stored": true, "messageId": null, "seq": 1, "to": anna, "team": team, "state": "working",
                "evidence": format!("pid {} running", leader.pid()),
                "prospect": "Änna is working: it reads this before its next round" })
    );
    let mut shown = place.json(&["inbox", "show", &format!("{team}/Änna")]);
    let message = &mut shown[0];
    assert!(message["sig"].take().is_string() && message["timestamp"].take().is_string());
    assert_eq!(
        shown,
        json!([{ "id": id, "seq": 1, "type": "peer_dm", "from": "user", "to": anna, "text": "hello",
                 "timestamp": null, "read": false, "wake": "turn", "incarnation": 1, "sig": null }])
    );

    let mut child = place
        .command(&["send", &format!("bo@{team}"), "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    child.stdin.take().expect("a pipe").write_all("übrigens\n".as_bytes()).expect("writes");
    let ran = Ran::from(child.wait_with_output().expect("ends"));
    assert!(ran.status == 0 && ran.stdout.starts_with("stored in the inbox of bo, team "), "{ran:?}");
    wait(|| {
        let listed = place.json(&["inbox", "list", &format!("{team}/bo")]);
        let file = place.team_dir(&team).join("inboxes/bo.json");
        listed == json!([{ "team": team, "agent": "bo", "waiting": 0, "delivered": 1, "file": file }])
    });
    assert_eq!(place.json(&["inbox", "show", &format!("{team}/bo")])[0]["text"], "übrigens\n");
}

#[test]
fn several_live_teams_have_to_be_told_apart() {
    let place = Place::new();
    let leader = place.lead(TWO, &[]);
    let team = leader.team_with("bo", "idle");
    let other = Place { dir: TempDir::new().expect("temp dir"), env: place.env.clone() };
    fs::create_dir(other.dir.path().join("project")).expect("project");
    let second = other.lead(TWO, &[]);
    wait(|| {
        let rows = place.json(&["ps"]);
        let idle = |row: &&Value| row["name"] == "bo" && row["state"] == "idle";
        rows.as_array().expect("rows").iter().filter(idle).count() == 2
    });
    let refused = place.run(&["send", "bo", "hello", "--json"]);
    let mut names: Vec<Value> =
        place.json(&["team", "list"]).as_array().expect("teams").iter().map(|t| t["name"].clone()).collect();
    names.sort_by_key(Value::to_string);
    let [first, last] = names.as_slice() else { panic!("two teams: {names:?}") };
    assert!(*first == team.as_str() || *last == team.as_str());
    let (first, last) = (first.as_str().expect("name"), last.as_str().expect("name"));
    assert_eq!(refused.status, 2);
    assert_eq!(refused.error()["message"], format!("several teams are running: {first}, {last}"));
    assert_eq!(place.json(&["send", "bo", "hello", "--team", &team])["team"], team);
    drop(second);
}

#[test]
fn an_ask_is_answered_once_from_anywhere() {
    let place = Place::new();
    let leader = place.lead(TWO, &["--ask-timeout", "120"]);
    let team = leader.team_with("bo", "idle");
    place.ok(&["send", "bo", "make it"]);
    leader.team_with("bo", "waiting");
    let mut listed = place.json(&["ask", "list"]);
    assert!(listed[0]["createdAt"].take().is_string());
    let id = listed[0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(
        listed,
        json!([{
            "id": id, "team": team, "agentId": format!("bo@{team}"), "kind": "permission", "tool": "Bash",
            "input": { "command": "touch made.txt", "description": "make a file" },
            "description": "touch made.txt — make a file", "cwd": place.project(), "createdAt": null,
            "rule": "the command asks: touch is not known to be read-only", "status": "open",
        }])
    );
    let waiting = leader.rows(|rows| rows[2]["state"] == "waiting");
    assert_eq!(waiting[2]["task"], "touch made.txt — make a file");
    let unknown = place.run(&["ask", "approve", "ask-zz", "--json"]);
    assert_eq!(
        (unknown.status, unknown.error()),
        (
            1,
            json!({ "kind": "not_found", "message": "there is no ask \"ask-zz\"", "hint": format!("open: {id}") })
        )
    );

    // A decision that nobody of us signed decides nothing.
    let forged = place.team_dir(&team).join(format!("asks/{id}.decision.json"));
    let word = json!({ "askId": id, "decision": "allow", "scope": "once", "by": "user", "at": "2026-01-01T00:00:00.000Z", "sig": "00" });
    fs::write(&forged, word.to_string()).expect("forges");
    assert_eq!(place.json(&["ask", "show", &id])["status"], "open");

    let begin = &id["ask-".len().."ask-".len() + 4];
    let answered = place.json(&["ask", "approve", begin, "--scope", "project", "--note", "go ahead"]);
    assert_eq!(
        answered,
        json!({ "id": id, "team": team, "agentId": format!("bo@{team}"), "decision": "allow", "scope": "project",
                "note": "go ahead", "by": "user", "rules": ["Bash(touch:*)"] })
    );
    let second = place.run(&["ask", "deny", &id, "--json"]);
    let error = second.error();
    assert_eq!((second.status, error["kind"].clone()), (1, json!("decided")));
    assert!(
        error["message"].as_str().is_some_and(|m| m.starts_with(&format!("{id} was allowed by user at "))),
        "{error}"
    );
    assert_eq!(place.json(&["ask", "list"])[0]["status"], "decided");
    let shown = place.json(&["ask", "show", &id]);
    assert_eq!(
        json!([shown["status"], shown["decision"]["note"], shown["decision"]["by"]]),
        json!(["decided", "go ahead", "user"])
    );
    wait(|| place.project().join("made.txt").exists());
    let settings =
        fs::read_to_string(place.project().join(".festoon/settings.local.json")).expect("settings");
    assert_eq!(
        serde_json::from_str::<Value>(&settings).expect("JSON"),
        json!({ "permissions": { "allow": ["Bash(touch:*)"] } })
    );
}

#[test]
fn a_member_is_stopped_by_the_user_while_its_leader_goes_on() {
    let place = Place::new();
    let leader = place.lead(TWO, &[]);
    let team = leader.team_with("bo", "idle");
    leader.rows(|rows| rows.len() == 3 && rows[1]["state"] == "working");
    assert_eq!(place.run(&["team", "stop", &team, "team-lead"]).status, 2);
    assert_eq!(place.run(&["team", "stop", &team, "nobody"]).status, 1);
    let stopped = place.json(&["team", "stop", &team, "bo"]);
    assert_eq!(
        stopped,
        json!([{ "team": team, "name": "bo", "stopped": true, "state": "stopped", "exit": "agreed to shut down",
                 "reason": "stopped on request" }])
    );
    assert_eq!(place.json(&["team", "stop", &team, "bo"]), json!([]));
    let again = place.ok(&["team", "stop", &team, "bo"]);
    assert_eq!(again, "bo is stopped already: agreed to shut down: stopped on request\n");
    let rows = place.json(&["ps"]);
    assert_eq!(
        json!([rows[0]["state"], rows[1]["state"], rows[2]["state"]]),
        json!([rows[0]["state"], "working", "stopped"])
    );
    assert_eq!(rows[0]["pid"], leader.pid());
    let all = place.json(&["team", "stop", &team]);
    assert_eq!(
        json!([all[0]["stopped"], all.as_array().map(Vec::len)]),
        json!([true, 1]),
        "in the middle of its turn"
    );
    let ended = leader.end();
    assert_eq!(ended.status, 0, "{ended:?}");
}

#[test]
fn workers_in_panes_outlive_their_leader_and_are_ended_by_evidence() {
    let place = Place::new();
    let mut leader = place.lead(TWO, &["--teammate-mode", "tmux"]);
    let team = leader.team_with("bo", "idle");
    let placed = |row: &Value| row["paneId"].is_string();
    let settled = |row: &Value| row["paneId"].is_string() && row["state"] == "idle";
    let rows = leader.rows(|rows| rows.len() == 3 && placed(&rows[1]) && settled(&rows[2]));
    let (pid, pane) = (rows[2]["pid"].clone(), rows[2]["paneId"].clone());
    assert_ne!(pid, leader.pid());
    assert!(pane.as_str().is_some_and(|pane| pane.starts_with('%')), "{}", rows[2]);
    assert_eq!(place.panes().lines().count(), 2);
    // Who sits in a pane is found there: all of the command but its last word needs no terminal.
    let shown = place.json(&["attach", "bo"]);
    let command = shown["pane"].as_str().expect("a command").to_owned();
    let pane_id = pane.as_str().expect("an id");
    let roster = fs::read(place.team_dir(&team).join("team.json")).expect("reads");
    let roster: Value = serde_json::from_slice(&roster).expect("JSON");
    let server = roster["members"][1]["paneServer"].clone();
    let server = server.as_str().expect("a server");
    assert!(command.starts_with(&format!("tmux -S {server} ")), "{command}");
    assert!(
        command.ends_with(&format!("select-window -t {pane_id} \\; select-pane -t {pane_id} \\; attach"))
    );
    let select = command.strip_suffix(" \\; attach").expect("attaches last");
    let mut shell = Command::new("sh");
    let done = shell.args(["-c", select]).env_clear().envs(&place.env).output().expect("sh runs");
    assert!(done.status.success(), "{command}: {done:?}");
    assert_eq!(place.tmux(&["display-message", "-p", "#{pane_id}"]).trim(), pane_id);
    leader.kill();
    let rows = place.json(&["ps"]);
    assert_eq!(
        json!([rows[0]["state"], rows[2]["state"], rows[2]["evidence"], rows[2]["pid"], rows[2]["paneId"]]),
        json!(["lost", "idle", format!("pid {pid} running"), pid, pane])
    );
    assert_eq!(place.json(&["team", "list"])[0]["state"], "leaderless");
    let refused = place.run(&["team", "delete", &team, "--json"]);
    assert_eq!((refused.status, refused.error()["kind"].clone()), (1, json!("team_lives")));

    // A worker whose record says nothing is still found. It is idle and leaves its file alone. (To hold
    // it still would not do: tmux continues what is stopped in its panes.)
    let record = place.team_dir(&team).join("run/bo.json");
    let whole = fs::read(&record).expect("reads");
    for damaged in [Some("{ not json"), None] {
        match damaged {
            Some(text) => fs::write(&record, text).expect("damages"),
            None => fs::remove_file(&record).expect("removes"),
        }
        let refused = place.run(&["team", "delete", &team, "--force", "--json"]);
        let error = refused.error();
        assert_eq!((refused.status, error["kind"].clone()), (1, json!("team_lives")));
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains(&format!("bo (pid {pid} runs with its spec; ")), "{message}");
        let hint = error["hint"].as_str().expect("a hint");
        assert!(hint.contains(&format!("`kill {pid}`")), "{hint}");
    }
    fs::write(&record, "{ not json").expect("damages");
    let listed = place.run(&["ps"]);
    assert!(
        listed.stderr.contains("run/bo.json is damaged") && !listed.stderr.contains("inbox"),
        "{listed:?}"
    );
    fs::write(&record, whole).expect("mends");

    // The one live team, though its leader is away.
    let sent = place.json(&["send", "team-lead", "hello"]);
    assert_eq!(json!([sent["stored"], sent["to"], sent["team"]]), json!([true, "team-lead", team]));

    let stopped = place.json(&["team", "stop", &team]);
    let seen: Vec<Value> = stopped
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| json!([row["stopped"], row["state"], row["reason"]]))
        .collect();
    assert_eq!(seen, vec![json!([true, "stopped", "stopped by user, without a leader"]); 2]);
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
    wait(|| place.panes().is_empty());
    assert_eq!(place.json(&["team", "delete", &team, "--force"]), json!({ "team": team, "deleted": true }));
}

#[test]
fn what_is_damaged_is_named_and_hides_nothing_else() {
    let place = Place::new();
    let mut leader = place.lead(TWO, &[]);
    let team = leader.team_with("bo", "idle");
    let dir = place.team_dir(&team);
    // Those who run would mend their files by themselves.
    leader.kill();
    let record = dir.join("run/bo.json");
    let whole = fs::read(&record).expect("reads");
    fs::write(&record, "{ not json").expect("damages");
    let listed = place.run(&["ps", "--json"]);
    let rows: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    assert_eq!(listed.status, 1);
    assert!(listed.stderr.contains(record.to_str().expect("UTF-8")), "{}", listed.stderr);
    assert_eq!(json!([rows[2]["name"], rows[2]["state"]]), json!(["bo", "unknown"]));
    assert_eq!(rows.as_array().map(Vec::len), Some(3));

    fs::write(&record, whole).expect("mends");
    let inbox = dir.join("inboxes/bo.json");
    fs::write(&inbox, "[ {\"from\": \"x\"").expect("damages");
    let counted = place.run(&["inbox", "list", "--json"]);
    let rows: Value = serde_json::from_str(&counted.stdout).expect("JSON");
    assert_eq!((counted.status, rows.as_array().map(Vec::len)), (1, Some(2)));
    assert!(counted.stderr.contains(inbox.to_str().expect("UTF-8")), "{}", counted.stderr);
    let verified = place.run(&["inbox", "verify", &format!("{team}/bo"), "--json"]);
    assert_eq!(verified.status, 1);
    let found: Value = serde_json::from_str(&verified.stdout).expect("JSON");
    let problem = found[0]["problems"][0].as_str().expect("a problem").to_owned();
    assert!(problem.starts_with("it is not a JSON array: "), "{problem}");
    assert_eq!(
        found,
        json!([{ "team": team, "agent": "bo", "file": inbox, "problems": [problem], "error": null }])
    );
    let repaired = place.json(&["inbox", "repair", &format!("{team}/bo")]);
    assert_eq!(repaired[0]["repaired"].as_array().map(Vec::len), Some(1), "{repaired}");
    assert_eq!(fs::read_to_string(&inbox).expect("reads"), "[\n]\n");
    let kept = place.run(&["inbox", "verify", &format!("{team}/bo")]).stdout;
    assert!(kept.starts_with("bo: bo.corrupt-") && kept.ends_with(".json was set aside\n"), "{kept}");
    assert_eq!(place.ok(&["inbox", "verify", &format!("{team}/team-lead")]), "team-lead: in order\n");

    fs::write(dir.join("team.json"), "[]").expect("damages");
    let listed = place.run(&["team", "list", "--json"]);
    let teams: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    assert_eq!((listed.status, teams[0]["name"].clone()), (1, json!(team)));
    assert!(listed.stderr.contains("team.json"), "{}", listed.stderr);
    let doctor = place.run(&["doctor", "--json"]);
    assert_eq!(doctor.status, 1);
    assert!(doctor.stdout.contains("team.json is damaged"), "{}", doctor.stdout);
}

#[test]
fn what_is_for_people_is_refused_below_a_tool() {
    let place = Place::new();
    let verbs = [
        &["ask", "list"][..],
        &["ask", "approve", "ask-1"],
        &["send", "bo", "hello"],
        &["team", "stop", "review"],
        &["team", "delete", "review"],
        &["inbox", "repair"],
    ];
    for verb in verbs {
        let ran = Ran::from(
            place
                .command(&[verb, &["--json"]].concat())
                .env("FESTOON_TOOL_OF", "review")
                .output()
                .expect("runs"),
        );
        assert_eq!((ran.status, ran.error()["kind"].clone()), (2, json!("below_a_tool")), "{verb:?}");
    }
    // With the mark taken away, the ancestors still tell.
    let script = format!(
        r#"
[[rule]]
reply = [{{ tool = "Bash", input = {{ command = "env -i FESTOON_HOME=$FESTOON_HOME {} ask list; echo status $?; {} ps", description = "try" }} }}]
[[rule]]
reply = [{{ text = "{{{{result}}}}" }}]
"#,
        env!("CARGO_BIN_EXE_festoon"),
        env!("CARGO_BIN_EXE_festoon"),
    );
    let ran = place.lead(&script, &["--permission-mode", "bypassPermissions"]).end();
    assert!(
        ran.status == 0 && ran.stdout.contains("status 2") && ran.stdout.contains("is for people"),
        "{ran:?}"
    );
    assert!(ran.stdout.contains("team-lead"), "looking is for everybody: {}", ran.stdout);
}

#[test]
fn mail_is_watched_as_it_arrives() {
    let place = Place::new();
    let leader = place.lead(TWO, &[]);
    let team = leader.team_with("bo", "idle");
    let mut watch = place
        .command(&["inbox", "watch", &format!("{team}/bo"), "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    for n in 1..=30 {
        place.ok(&["send", "bo", &format!("message {n}")]);
    }
    let mut seen: Vec<u64> = Vec::new();
    while seen.last() != Some(&30) {
        let line = lines.next().expect("goes on").expect("reads");
        let message: Value = serde_json::from_str(&line).expect("JSON");
        seen.push(message["seq"].as_u64().expect("a position"));
    }
    watch.kill().expect("kill");
    watch.wait().expect("reaped");
    // What was read before the watch began is history; everything after is shown once, in order.
    let first = seen[0];
    assert_eq!(seen, (first..=30).collect::<Vec<u64>>());
}

#[test]
fn transcripts_are_found_and_read() {
    let place = Place::new();
    let leader = place.lead(TWO, &[]);
    let team = leader.team_with("bo", "idle");
    leader.open_gate();
    assert_eq!(leader.end().status, 0);
    let mut listed = place.json(&["log", "list"]);
    let session = listed[0]["session"].as_str().expect("a session").to_owned();
    for time in ["startedAt", "updatedAt"] {
        assert!(listed[0][time].take().is_string());
    }
    listed[0]["agents"].as_array_mut().expect("agents").sort_by_key(Value::to_string);
    let anna = slug_of_anna(place.json(&["ps"]).as_array().expect("rows"));
    let file =
        place.json(&["paths"])["project"].as_str().map(|dir| Path::new(dir).join(format!("{session}.jsonl")));
    assert_eq!(
        listed,
        json!([{
            "session": session, "cwd": place.project(), "team": team, "startedAt": null, "updatedAt": null,
            "prompt": "go", "agents": [format!("{anna}@{team}"), format!("bo@{team}")], "file": file,
        }])
    );
    let raw = place.ok(&["log", "show", "--json"]);
    assert_eq!(raw, fs::read_to_string(file.expect("a file")).expect("reads"), "the lines as they are");
    let shown = place.ok(&["log", "show", &session[..13]]);
    assert!(shown.contains("Agent {") && shown.contains("noted"), "{shown}");
    let shown = place.ok(&["log", "show", &format!("{session}/bo")]);
    assert!(shown.contains("Wait.") && shown.contains("bo is ready"), "{shown}");
    let unknown = place.run(&["log", "show", &format!("{session}/nobody"), "--json"]);
    assert_eq!((unknown.status, unknown.error()["kind"].clone()), (1, json!("not_found")));
    let elsewhere =
        Ran::from(place.command(&["log", "list", "--json"]).current_dir("/").output().expect("runs"));
    assert_eq!(elsewhere.stdout, "[]\n");
}

#[test]
fn a_reader_that_goes_away_and_wrong_settings_break_nothing() {
    let place = Place::new();
    for command in [
        &["completions", "bash"][..],
        &["completions", "fish"],
        &["man"],
        &["man", "team", "stop"],
        &["paths"],
    ] {
        assert!(!place.ok(command).trim().is_empty(), "{command:?}");
        let mut child =
            place.command(command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        drop(child.stdout.take());
        let ran = Ran::from(child.wait_with_output().expect("ends"));
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{command:?}");
    }
    assert_eq!(place.run(&["man", "teammate"]).status, 2);
    fs::create_dir(place.project().join(".festoon")).expect("dir");
    fs::write(place.project().join(".festoon/settings.json"), r#"{"model": 7}"#).expect("settings");
    assert_eq!(place.json(&["ps"]), json!([]));
    let doctor = place.run(&["doctor", "--json"]);
    let checks: Value = serde_json::from_str(&doctor.stdout).expect("JSON");
    let problems: Vec<&Value> =
        checks.as_array().expect("checks").iter().filter(|check| check["status"] == "problem").collect();
    assert_eq!(doctor.status, 1);
    assert!(
        problems.len() == 1
            && problems[0]["message"].as_str().is_some_and(|m| m.contains("settings.json: model: ")),
        "{problems:?}"
    );
    // A state directory that a run would refuse: every check is made all the same.
    let teams = place.home().join("teams");
    let checked = || {
        let ran = place.run(&["doctor", "--json"]);
        let checks: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        let named =
            |name: &str| checks.as_array().expect("checks").iter().find(|c| c["check"] == name).cloned();
        let state = named("state").expect("state");
        assert!(named("git").is_some() && named("watching").is_some() && named("sandbox").is_some());
        (ran.status, state["status"].clone(), state["message"].as_str().expect("text").to_owned())
    };
    fs::create_dir_all(place.home()).expect("state root");
    assert!(Command::new("mkfifo").arg(&teams).status().expect("mkfifo runs").success());
    let refused = format!("{} is refused: it is not a directory", teams.display());
    assert_eq!(checked(), (1, json!("problem"), refused));
    fs::remove_file(&teams).expect("removes");
    fs::set_permissions(place.home(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("opens");
    let refused = format!("{} is refused: everybody may write to it (mode 777)", place.home().display());
    assert_eq!(checked(), (1, json!("problem"), refused));
    fs::set_permissions(place.home(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("closes");
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("opens");
    let ran = Ran::from(place.command(&["paths"]).stdout(full).output().expect("runs"));
    assert!(ran.status == 1 && ran.stderr.contains("standard output"), "{ran:?}");
}
