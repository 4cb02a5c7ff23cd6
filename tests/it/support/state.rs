//! What a run left on disk: transcripts, teams, inboxes, events; with the rules they must obey.

use super::model_server::refuse;
use super::world::World;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a JSONL file; every one must be an object.
pub fn jsonl(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert!(text.is_empty() || text.ends_with('\n'), "{} ends in the middle of a line", path.display());
    text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect();
    all.sort();
    all
}

fn with_extension(dir: &Path, extension: &str) -> Vec<PathBuf> {
    entries(dir).into_iter().filter(|p| p.extension().is_some_and(|e| e == extension)).collect()
}

impl World {
    /// The transcripts of all main sessions.
    pub fn sessions(&self) -> Vec<PathBuf> {
        entries(&self.home.join("projects")).iter().flat_map(|dir| with_extension(dir, "jsonl")).collect()
    }

    /// The lines of the only main session.
    pub fn transcript(&self) -> Vec<Value> {
        let sessions = self.sessions();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        jsonl(&sessions[0])
    }

    /// The transcripts of everyone below the main sessions, by file name.
    pub fn sidechains(&self) -> Vec<PathBuf> {
        let sessions = entries(&self.home.join("projects")).into_iter().flat_map(|dir| entries(&dir));
        sessions.flat_map(|dir| with_extension(&dir.join("subagents"), "jsonl")).collect()
    }

    /// The sidechain of a teammate.
    pub fn sidechain_of(&self, name: &str) -> Vec<Value> {
        let start = format!("agent-{name}@");
        let found = self
            .sidechains()
            .into_iter()
            .find(|p| p.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with(&start)));
        jsonl(&found.unwrap_or_else(|| panic!("no transcript of {name}: {:?}", self.sidechains())))
    }

    /// The directories of all teams.
    pub fn teams(&self) -> Vec<PathBuf> {
        entries(&self.home.join("teams")).into_iter().filter(|p| p.is_dir()).collect()
    }

    /// The directory of the only team.
    pub fn team(&self) -> PathBuf {
        let teams = self.teams();
        assert_eq!(teams.len(), 1, "{teams:?}");
        teams[0].clone()
    }

    /// The roster's members.
    pub fn members(&self) -> Vec<Value> {
        let team = json_file(&self.team().join("team.json"));
        team["members"].as_array().expect("members").clone()
    }

    /// An agent's inbox file with everything that was archived before it, in order.
    pub fn mail(&self, agent: &str) -> Vec<Value> {
        let inboxes = self.team().join("inboxes");
        let archive = inboxes.join(format!("{agent}.archive.jsonl"));
        let mut all = if archive.exists() { jsonl(&archive) } else { Vec::new() };
        let inbox = json_file(&inboxes.join(format!("{agent}.json")));
        all.extend(inbox.as_array().expect("an array").iter().cloned());
        let mut seen = BTreeSet::new();
        all.retain(|m| seen.insert(m["id"].as_str().unwrap_or_default().to_owned()));
        all
    }

    /// The event log.
    pub fn events(&self) -> Vec<Value> {
        jsonl(&self.team().join("events.jsonl"))
    }

    /// Events of one kind.
    pub fn events_of(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|e| e["event"] == kind).collect()
    }

    /// Checks every transcript there is; returns how many.
    pub fn check_transcripts(&self) -> usize {
        self.check(Ending::InOrder)
    }

    /// The same where agents had no time to record the results of their last calls.
    pub fn check_cut_transcripts(&self) -> usize {
        self.check(Ending::Cut)
    }

    fn check(&self, ending: Ending) -> usize {
        let all: Vec<PathBuf> = self.sessions().into_iter().chain(self.sidechains()).collect();
        for path in &all {
            check_transcript(path, &jsonl(path), ending);
        }
        all.len()
    }
}

/// A file that is one JSON value.
pub fn json_file(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The messages that a transcript adds up to, as a model would get them.
pub fn history(lines: &[Value]) -> Vec<Value> {
    let message = |line: &Value| {
        let content: Vec<Value> = line["message"]["content"].as_array().expect("blocks").clone();
        json!({ "role": line["message"]["role"], "content": content })
    };
    lines.iter().filter(|l| l["type"] != "system").map(message).collect()
}

/// How the writer of a transcript ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With time for its last line.
    InOrder,
    /// In the middle.
    Cut,
}

/// The rules of contract §8 and spec §19, whatever happened.
pub fn check_transcript(path: &Path, lines: &[Value], ending: Ending) {
    let at = path.display();
    let mut uuids = BTreeSet::new();
    let mut parent = Value::Null;
    for (n, line) in lines.iter().enumerate() {
        let n = n + 1;
        for key in ["type", "uuid", "sessionId", "timestamp", "cwd", "gitBranch", "version"] {
            assert!(line[key].is_string(), "{at}:{n}: no {key}: {line}");
        }
        assert_eq!(line["parentUuid"], parent, "{at}:{n}: the chain is broken");
        assert!(line.get("parentUuid").is_some(), "{at}:{n}: parentUuid must be there");
        assert!(uuids.insert(line["uuid"].as_str().expect("text").to_owned()), "{at}:{n}: uuid used twice");
        let side = path.parent().is_some_and(|p| p.ends_with("subagents"));
        assert_eq!(line["isSidechain"], side, "{at}:{n}");
        assert_eq!(line["agentId"].is_string(), side, "{at}:{n}");
        parent = line["uuid"].clone();
        match line["type"].as_str() {
            Some("system") => assert!(line["subtype"].is_string(), "{at}:{n}: no subtype"),
            Some(kind @ ("user" | "assistant")) => {
                assert_eq!(line["message"]["role"], kind, "{at}:{n}");
                let own: &[&str] =
                    if kind == "assistant" { &["model", "id", "usage", "stop_reason"] } else { &[] };
                for key in own {
                    assert!(!line["message"][*key].is_null(), "{at}:{n}: no {key}");
                }
            }
            other => panic!("{at}:{n}: type {other:?}"),
        }
    }
    check_mail(path, lines);
    let mut messages = history(lines);
    if messages.last().is_some_and(|m| m["role"] == "assistant") {
        let calls = messages.last().expect("one")["content"].as_array().expect("blocks").clone();
        let whole = ending == Ending::Cut || calls.iter().all(|b| b["type"] != "tool_use");
        assert!(whole, "{at}: ends with a call without its result");
        messages.pop();
    }
    if !messages.is_empty() {
        refuse::messages(&messages).unwrap_or_else(|why| panic!("{at}: {why}"));
    }
}

/// What an element of mail begins with.
const MAIL: [&str; 3] = ["<teammate-message ", "<shutdown-request ", "<task-notification>"];

/// Mail stands in a user line of its own, right after a line that names its ids; nothing comes twice.
fn check_mail(path: &Path, lines: &[Value]) {
    let mut delivered = BTreeSet::new();
    let is_mail = |line: &Value| {
        let blocks = line["message"]["content"].as_array().cloned().unwrap_or_default();
        let element =
            |b: &Value| b["text"].as_str().is_some_and(|t| MAIL.iter().any(|start| t.starts_with(start)));
        line["type"] == "user" && blocks.iter().any(element)
    };
    for (n, line) in lines.iter().enumerate() {
        if line["subtype"] == "mail_delivered" {
            let ids = line["messageIds"].as_array().expect("ids");
            assert!(!ids.is_empty(), "{}:{}", path.display(), n + 1);
            for id in ids {
                let new = delivered.insert(id.as_str().expect("text").to_owned());
                assert!(new, "{}:{}: {id} was delivered twice", path.display(), n + 1);
            }
        }
        if is_mail(line) {
            let before = n.checked_sub(1).map(|b| &lines[b]);
            let named = before.filter(|b| b["subtype"] == "mail_delivered").map(|b| &b["messageIds"]);
            let count = named.and_then(Value::as_array).map_or(0, Vec::len);
            let blocks = line["message"]["content"].as_array().expect("blocks").len();
            assert_eq!(count, blocks, "{}:{}: mail without its line of ids", path.display(), n + 1);
        }
    }
}
