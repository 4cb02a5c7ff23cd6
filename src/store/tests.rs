//! Rosters, run records, asks, transcripts, events, specs and signatures, with real files.

pub(super) mod team;

use super::error::StoreError;
use super::roster::Roster;
use super::transcript::{self, BadLine};
use super::{asks, atomic, clock, events, run, spec};
use crate::wire::ask::{Ask, AskKind, AskStatus, DecisionRecord};
use crate::wire::block::{Block, Role};
use crate::wire::definition::AgentDefinition;
use crate::wire::event::{Event, EventKind};
use crate::wire::frame::FrameType;
use crate::wire::ids::{AgentId, AgentName, AskId, LineId, MessageId, RunId, SessionId};
use crate::wire::mcp::{McpServer, McpTransport};
use crate::wire::open::RawMap;
use crate::wire::permission::{Decision, PermissionMode, Scope};
use crate::wire::question::QuestionAnswer;
use crate::wire::run::AgentState;
use crate::wire::settings::{RetrySettings, Settings};
use crate::wire::team::BackendType;
use crate::wire::transcript::{AgentMeta, Line, LineMessage, LineType, StoredBlock};
use crate::wire::worker::{AskPolicy, WORKER_SPEC_VERSION, WorkerSpec};
use serde_json::json;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use team::{Team, message, name, run_record, team_file};

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).expect("JSON")
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("stat").permissions().mode() & 0o777
}

// Rosters

#[test]
fn a_team_is_made_once_and_listed() {
    let team = Team::new();
    let again = Roster::create(&team.paths, &team_file("review"));
    assert!(matches!(again, Err(StoreError::Exists { .. })), "{again:?}");
    Roster::create(&team.paths, &team_file("build")).expect("another name");
    std::fs::create_dir(team.paths.teams().join("no-team")).expect("makes");
    let names: Vec<String> =
        Roster::list(&team.paths).expect("lists").iter().map(|n| n.as_str().to_owned()).collect();
    assert_eq!(names, ["build", "review"]);
    assert_eq!(mode(&team.team.team_file()), 0o600);
    let loaded = Roster::load(&team.team).expect("loads").expect("is there");
    assert_eq!(loaded.name, team_file("review").name);
}

#[test]
fn an_update_keeps_what_others_put_there_and_an_error_changes_nothing() {
    let team = Team::new();
    let path = team.team.team_file();
    let mut map: RawMap = atomic::read_json(&path).expect("reads").expect("is there");
    map.0.push(("theirs".to_owned(), raw(r#"{"n":1e2}"#)));
    std::fs::write(&path, serde_json::to_vec(&map).expect("writes")).expect("writes");
    Roster::update(&team.team, |file| {
        file.description = "new".to_owned();
        Ok(())
    })
    .expect("updates");
    let loaded = Roster::load(&team.team).expect("loads").expect("is there");
    assert_eq!(loaded.description, "new");
    assert_eq!(loaded.unknown.get("theirs").map(RawValue::get), Some(r#"{"n":1e2}"#));
    let before = std::fs::read(&path).expect("reads");
    let failed: Result<(), StoreError> = Roster::update(&team.team, |file| {
        file.description.clear();
        Err(StoreError::NoHome)
    });
    assert!(matches!(failed, Err(StoreError::NoHome)));
    assert_eq!(std::fs::read(&path).expect("reads"), before);
    std::fs::write(&path, "{").expect("damages");
    let damaged = Roster::update(&team.team, |_| Ok(()));
    assert!(matches!(damaged, Err(StoreError::Corrupt { .. })), "{damaged:?}");
    assert_eq!(std::fs::read(&path).expect("reads"), b"{", "a failed read is no empty team");
}

#[test]
fn updates_of_many_are_all_there() {
    let team = Team::new();
    std::thread::scope(|scope| {
        for i in 0..4 {
            let place = &team.team;
            scope.spawn(move || {
                for j in 0..10 {
                    Roster::update(place, |file| {
                        file.hidden_pane_ids.push(format!("{i}-{j}"));
                        Ok(())
                    })
                    .expect("updates");
                }
            });
        }
    });
    let loaded = Roster::load(&team.team).expect("loads").expect("is there");
    assert_eq!(loaded.hidden_pane_ids.len(), 40);
}

#[test]
fn removing_a_team_follows_no_link() {
    let team = Team::new();
    let outside = team.home.path().join("outside");
    std::fs::create_dir(&outside).expect("makes");
    std::fs::write(outside.join("kept"), "").expect("writes");
    symlink(&outside, team.team.tasks_dir().join("link")).expect("links");
    Roster::remove_team(&team.team).expect("removes");
    Roster::remove_team(&team.team).expect("again is fine");
    assert!(outside.join("kept").exists());
    assert_eq!(std::fs::read_dir(team.paths.teams()).expect("lists").count(), 0);
    assert!(Roster::load(&team.team).expect("loads").is_none());
    let gone = Roster::update(&team.team, |_| Ok(()));
    assert!(matches!(gone, Err(StoreError::NotFound { .. })), "{gone:?}");
    symlink(&outside, team.team.dir()).expect("links");
    assert!(matches!(Roster::remove_team(&team.team), Err(StoreError::NotOurs { .. })));
    assert!(outside.join("kept").exists());
}

// Run records

#[test]
fn an_old_run_cannot_write_over_a_new_one() {
    let team = Team::new();
    let record = |run: &str, state| run_record("anna", run, state);
    run::write(&team.team, &record("one", AgentState::Idle)).expect("first");
    run::write(&team.team, &record("one", AgentState::Working)).expect("the same run");
    run::begin(&team.team, &record("two", AgentState::Idle)).expect("takes over");
    let late = run::write(&team.team, &record("one", AgentState::Working));
    assert!(matches!(&late, Err(StoreError::Fenced { by, .. }) if by.as_str() == "two"), "{late:?}");
    run::write(&team.team, &record("three", AgentState::Starting)).expect("a start takes over");
    run::write(&team.team, &record("three", AgentState::Stopped)).expect("ends");
    run::write(&team.team, &record("four", AgentState::Working)).expect("after an end anyone may");
    let all = run::load_all(&team.team).expect("loads");
    let all: Vec<_> =
        all.into_iter().map(|(agent, record)| (agent, record.expect("good").known.run_id)).collect();
    assert_eq!(all, [(name("anna"), RunId::new("four"))]);
}

#[test]
fn a_record_keeps_what_others_put_there_and_a_damaged_one_is_an_error() {
    let team = Team::new();
    let path = team.team.run(&name("anna"));
    run::begin(&team.team, &run_record("anna", "one", AgentState::Idle)).expect("writes");
    let mut map: RawMap = atomic::read_json(&path).expect("reads").expect("is there");
    map.0.push(("theirs".to_owned(), raw("1e2")));
    std::fs::write(&path, serde_json::to_vec(&map).expect("writes")).expect("writes");
    run::write(&team.team, &run_record("anna", "one", AgentState::Working)).expect("writes");
    let loaded = run::load(&team.team, &name("anna")).expect("loads").expect("is there");
    assert_eq!(loaded.unknown.get("theirs").map(RawValue::get), Some("1e2"));
    std::fs::write(&path, "{").expect("damages");
    let all = run::load_all(&team.team).expect("loads");
    assert!(matches!(&all[..], [(_, Err(StoreError::Corrupt { .. }))]), "{all:?}");
    assert!(run::load(&team.team, &name("ben")).expect("loads").is_none());
}

// Asks

fn ask(id: &str) -> Ask {
    Ask {
        id: AskId::new(id),
        kind: AskKind::Permission,
        agent_id: AgentId::new("anna@review"),
        reply_to: name("anna"),
        incarnation: 1,
        tool: "Bash".to_owned(),
        tool_use_id: "t".to_owned(),
        input: raw(r#"{"command":"rm  -rf","n":1e2}"#),
        description: "d".to_owned(),
        cwd: "/".to_owned(),
        project: None,
        rule: "r".to_owned(),
        suggestions: Vec::new(),
        modes: Vec::new(),
        created_at: clock::now(),
        closed: None,
        begun: None,
    }
}

fn decision(id: &str, decision: Decision) -> DecisionRecord {
    DecisionRecord {
        ask_id: AskId::new(id),
        decision,
        scope: Scope::Once,
        note: Some("nöte".to_owned()),
        permission_mode: Some(PermissionMode::AcceptEdits),
        answers: vec![QuestionAnswer {
            question: "ä?".to_owned(),
            selected: Vec::new(),
            text: Some("ö".to_owned()),
        }],
        updated_input: Some(raw(r#"{"n":1e2,"big":123456789012345678901}"#)),
        by: "user".to_owned(),
        at: clock::now(),
        sig: String::new(),
    }
}

#[test]
fn the_first_decision_counts() {
    let team = Team::new();
    let id = AskId::new("a1");
    assert!(matches!(
        asks::decide(&team.team, &team.keys, decision("a1", Decision::Deny)),
        Err(StoreError::NotFound { .. })
    ));
    assert!(asks::create(&team.team, &ask("a1")).expect("creates"));
    assert!(!asks::create(&team.team, &ask("a1")).expect("is there"));
    assert!(asks::decision(&team.team, &team.keys, &id).expect("reads").is_none());
    let answers: Vec<bool> = std::thread::scope(|scope| {
        let tries: Vec<_> = (0..6)
            .map(|i| {
                let team = &team;
                let said = if i % 2 == 0 { Decision::Allow } else { Decision::Deny };
                scope.spawn(move || {
                    asks::decide(&team.team, &team.keys, decision("a1", said)).expect("decides")
                })
            })
            .collect();
        tries.into_iter().map(|t| t.join().expect("joins")).collect()
    });
    assert_eq!(answers.iter().filter(|first| **first).count(), 1);
    let won = answers.iter().position(|first| *first).expect("one");
    let found = asks::decision(&team.team, &team.keys, &id).expect("reads").expect("is there");
    assert_eq!(found.decision, if won % 2 == 0 { Decision::Allow } else { Decision::Deny });
    let input = found.updated_input.expect("input");
    assert_eq!(
        serde_json::from_str::<RawMap>(input.get()).expect("map").get("n").map(RawValue::get),
        Some("1e2")
    );
    let listed = asks::list(&team.team).expect("lists");
    assert!(matches!(&listed[..], [(a, AskStatus::Decided, Some(_))] if a.id == id), "{listed:?}");
}

#[test]
fn a_decision_that_nobody_of_us_signed_decides_nothing() {
    let team = Team::new();
    let id = AskId::new("a1");
    asks::create(&team.team, &ask("a1")).expect("creates");
    asks::create(&team.team, &ask("a2")).expect("creates");
    let path = team.team.decision(&id);
    let mut signed = decision("a2", Decision::Allow);
    team.keys.sign_decision(&mut signed).expect("signs");
    let mut tampered = signed.clone();
    tampered.ask_id = id.clone();
    let unsigned = decision("a1", Decision::Allow);
    for forged in [
        serde_json::to_string(&unsigned).expect("writes"),
        serde_json::to_string(&tampered).expect("writes"),
        serde_json::to_string(&signed).expect("writes"), // good, but for another ask
        "{".to_owned(),
    ] {
        std::fs::write(&path, &forged).expect("writes");
        assert!(asks::decision(&team.team, &team.keys, &id).is_err(), "{forged}");
        assert!(asks::decide(&team.team, &team.keys, decision("a1", Decision::Deny)).expect("decides"));
        let found = asks::decision(&team.team, &team.keys, &id).expect("reads").expect("is there");
        assert_eq!(found.decision, Decision::Deny);
        std::fs::remove_file(&path).expect("removes");
    }
}

#[test]
fn a_closed_ask_takes_no_decision() {
    let team = Team::new();
    let id = AskId::new("a1");
    asks::create(&team.team, &ask("a1")).expect("creates");
    asks::close(&team.team, &id, "stopped").expect("closes");
    asks::close(&team.team, &id, "again").expect("closes");
    let late = asks::decide(&team.team, &team.keys, decision("a1", Decision::Allow));
    assert!(matches!(&late, Err(StoreError::Closed { reason, .. }) if reason == "stopped"), "{late:?}");
    let listed = asks::list(&team.team).expect("lists");
    assert!(matches!(&listed[..], [(_, AskStatus::Closed, None)]), "{listed:?}");
    assert_eq!(listed[0].0.input.get(), ask("a1").input.get());
}

#[test]
fn a_decided_ask_is_not_closed() {
    let team = Team::new();
    let id = AskId::new("a1");
    asks::create(&team.team, &ask("a1")).expect("creates");
    assert!(asks::decide(&team.team, &team.keys, decision("a1", Decision::Allow)).expect("decides"));
    asks::close(&team.team, &id, "too late").expect("leaves it");
    let (ask, status, found) = asks::find(&team.team, &id).expect("looks").expect("is there");
    assert_eq!((ask.closed, status), (None, AskStatus::Decided));
    assert_eq!(found.expect("decided").decision, Decision::Allow);
    assert!(asks::find(&team.team, &AskId::new("a2")).expect("looks").is_none());
}

#[test]
fn an_answer_and_the_end_of_the_wait_never_both_win() {
    let team = Team::new();
    for n in 0..40 {
        let id = AskId::new(format!("a{n}"));
        asks::create(&team.team, &ask(id.as_str())).expect("creates");
        let start = std::sync::Barrier::new(2);
        let answered = std::thread::scope(|scope| {
            let answer = scope.spawn(|| {
                start.wait();
                asks::decide(&team.team, &team.keys, decision(id.as_str(), Decision::Allow))
            });
            start.wait();
            asks::close(&team.team, &id, "nobody").expect("closes or leaves it");
            answer.join().expect("joins")
        });
        let (ask, status, _) = asks::find(&team.team, &id).expect("looks").expect("is there");
        match answered {
            Ok(true) => assert_eq!((ask.closed, status), (None, AskStatus::Decided)),
            Err(StoreError::Closed { .. }) => assert_eq!(status, AskStatus::Closed),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_is_decided_is_read_once_and_what_is_closed_can_be_opened_again() {
    let team = Team::new();
    let queue = asks::OpenAsks::default();
    let open = || -> Vec<String> {
        let open = queue.look(&team.team).expect("looks");
        open.into_iter().map(|ask| ask.id.to_string()).collect()
    };
    assert_eq!(open(), Vec::<String>::new());
    for id in ["a1", "a2", "a3"] {
        asks::create(&team.team, &ask(id)).expect("creates");
    }
    assert_eq!(open(), ["a1", "a2", "a3"]);
    asks::decide(&team.team, &team.keys, decision("a1", Decision::Deny)).expect("decides");
    asks::close(&team.team, &AskId::new("a2"), "nobody").expect("closes");
    assert_eq!(open(), ["a3"]);
    // Whoever read it again would find it open.
    std::fs::remove_file(team.team.decision(&AskId::new("a1"))).expect("removes");
    assert_eq!(open(), ["a3"]);
    asks::reopen(&team.team, &AskId::new("a2")).expect("opens");
    assert_eq!(open(), ["a2", "a3"]);
    asks::begin(&team.team, &AskId::new("a3")).expect("begins");
    let begun: Vec<bool> =
        asks::list(&team.team).expect("lists").iter().map(|(a, ..)| a.begun.is_some()).collect();
    assert_eq!(begun, [false, false, true]);
    assert_eq!(asks::list(&team.team).expect("lists").len(), 3);
}

// Signatures

#[test]
fn control_frames_need_the_key_of_their_worker() {
    let team = Team::new();
    let mut order = message("team-lead", "stop");
    order.kind = FrameType::ShutdownRequest;
    order.to = Some(name("anna"));
    let missing = team.keys.sign_message(&mut order);
    assert!(matches!(missing, Err(StoreError::NotFound { .. })), "{missing:?}");
    team.keys.add_worker(&name("anna")).expect("makes a key");
    team.keys.add_worker(&name("ben")).expect("makes a key");
    team.keys.sign_message(&mut order).expect("signs");
    assert!(team.keys.verify_message(&order));
    let mut for_ben = order.clone();
    for_ben.to = Some(name("ben"));
    assert!(!team.keys.verify_message(&for_ben));
    let mut as_mail = order.clone();
    as_mail.kind = FrameType::PeerDm;
    team.keys.sign_message(&mut as_mail).expect("signs");
    as_mail.kind = FrameType::ShutdownRequest;
    assert!(!team.keys.verify_message(&as_mail), "the team's key gives no orders");
    std::fs::remove_file(team.team.keys_dir().join("agent.anna.key")).expect("removes");
    assert!(!team.keys.verify_message(&order), "a missing key verifies nothing");
}

#[test]
fn every_signed_member_is_covered_and_no_other() {
    let team = Team::new();
    let mut signed = message("ben", "text");
    signed.to = Some(name("anna"));
    signed.payload = Some(raw(r#"{"a":1,"b":"é"}"#));
    team.keys.sign_message(&mut signed).expect("signs");
    type Change = fn(&mut crate::wire::mail::Message);
    let covered: [Change; 8] = [
        |m| m.id = Some(MessageId::generate()),
        |m| m.kind = FrameType::IdleNotification,
        |m| m.from = "cleo".to_owned(),
        |m| m.to = None,
        |m| m.incarnation = Some(2),
        |m| m.timestamp = crate::wire::time::Timestamp::new("x"),
        |m| m.text.push('.'),
        |m| m.payload = Some(raw(r#"{"a":2,"b":"é"}"#)),
    ];
    for change in covered {
        let mut changed = signed.clone();
        change(&mut changed);
        assert!(!team.keys.verify_message(&changed), "{changed:?}");
    }
    let free: [Change; 3] =
        [|m| m.read = true, |m| m.seq = 7, |m| m.payload = Some(raw("{ \"b\": \"\\u00e9\",\n \"a\": 1.0 }"))];
    for change in free {
        let mut changed = signed.clone();
        change(&mut changed);
        assert!(team.keys.verify_message(&changed), "{changed:?}");
    }
    for sig in [None, Some(""), Some("zz"), Some("00")] {
        let changed = crate::wire::mail::Message { sig: sig.map(str::to_owned), ..signed.clone() };
        assert!(!team.keys.verify_message(&changed));
    }
}

#[test]
fn keys_are_closed_kept_and_differ_between_teams() {
    let team = Team::new();
    let other = Team::new();
    let key = team.team.keys_dir().join("team.key");
    assert_eq!((mode(&key), mode(&team.team.keys_dir())), (0o600, 0o700));
    let before = std::fs::read(&key).expect("reads");
    let again = super::sign::Keys::create(&team.team).expect("creates");
    assert_eq!(std::fs::read(&key).expect("reads"), before);
    let mut signed = message("ben", "x");
    team.keys.sign_message(&mut signed).expect("signs");
    assert!(again.verify_message(&signed));
    assert!(!other.keys.verify_message(&signed));
    assert!(!format!("{:?}", team.keys).contains(std::str::from_utf8(&before).expect("hex")));
    std::fs::write(&key, "short").expect("damages");
    assert!(matches!(super::sign::Keys::load(&team.team), Err(StoreError::Invalid { .. })));
}

/// The signature as `docs` promise it to other implementations: known key, known message.
#[test]
fn a_signature_can_be_checked_by_others() {
    let team = Team::new();
    std::fs::write(team.team.keys_dir().join("team.key"), "00".repeat(32)).expect("writes");
    let keys = super::sign::Keys::load(&team.team).expect("loads");
    let mut signed = message("ben", "hi");
    signed.id = Some(MessageId::new("i"));
    signed.to = Some(name("anna"));
    signed.timestamp = crate::wire::time::Timestamp::new("2026-01-01T00:00:00.000Z");
    keys.sign_message(&mut signed).expect("signs");
    assert_eq!(
        signed.sig.as_deref(),
        Some("9f3e743da932d9ceb4cda8ee35cb1af387e3781c73435a959a0d3be0bab7d764")
    );
}

// Transcripts

fn line(text: &str, parent: Option<&Line>) -> Line {
    Line {
        kind: LineType::User,
        uuid: LineId::generate(),
        parent_uuid: parent.map(|p| p.uuid.clone()),
        session_id: SessionId::new("s"),
        agent_id: None,
        is_sidechain: false,
        timestamp: clock::now(),
        cwd: "/".to_owned(),
        git_branch: String::new(),
        version: "1".to_owned(),
        team_name: None,
        message: Some(LineMessage {
            role: Role::User,
            content: vec![StoredBlock(Block::text(text))],
            model: None,
            id: None,
            usage: None,
            stop_reason: None,
        }),
        subtype: None,
        text: None,
        message_ids: Vec::new(),
        data: Some(raw("{\n\"a\":\r\n1e2}")),
    }
}

fn read(path: &Path) -> Vec<(usize, Result<String, BadLine>)> {
    let mut all = Vec::new();
    transcript::read(path, |number, line| {
        let text = |line: Line| line.message.expect("message").content[0].0.as_text().expect("text");
        all.push((number, line.map(text)));
    })
    .expect("reads");
    all
}

#[test]
fn lines_come_back_and_bad_ones_are_told_from_a_torn_tail() {
    let team = Team::new();
    let path = team.home.path().join("projects/p/s.jsonl");
    let mut file = transcript::open_append(&path).expect("opens");
    let first = line("one\ntwo", None);
    file.append(&[first.clone(), line("three", Some(&first))]).expect("appends");
    file.append(&[]).expect("nothing to append");
    let tear = |bytes: &[u8]| {
        let mut other = std::fs::OpenOptions::new().append(true).open(&path).expect("opens");
        other.write_all(bytes).expect("writes");
    };
    tear(b"{\"type\":\"user\",\"uu");
    let torn = read(&path);
    assert_eq!(torn.last(), Some(&(3, Err(BadLine::Torn))));
    file.append(&[line("four", None)]).expect("appends");
    tear(b"\n\xff\xfe\n");
    file.append(&[line("five", None)]).expect("appends");
    let all = read(&path);
    let good: Vec<(usize, &str)> =
        all.iter().filter_map(|(n, line)| Some((*n, line.as_deref().ok()?))).collect();
    assert_eq!(good, [(1, "one\ntwo"), (2, "three"), (4, "four"), (7, "five")]);
    let bad: Vec<usize> =
        all.iter().filter(|(_, l)| matches!(l, Err(BadLine::Malformed(_)))).map(|(n, _)| *n).collect();
    assert_eq!(bad, [3, 6]);
    assert_eq!((mode(&path), mode(path.parent().expect("parent"))), (0o600, 0o700));
    let none = transcript::read(&path.with_extension("none"), |_, _| {});
    assert!(matches!(none, Err(StoreError::NotFound { .. })), "{none:?}");
}

#[test]
fn a_full_last_line_without_newline_counts() {
    let team = Team::new();
    let path = team.home.path().join("s.jsonl");
    let whole = serde_json::to_vec(&Line { data: None, ..line("whole", None) }).expect("writes");
    std::fs::write(&path, &whole).expect("writes");
    assert_eq!(read(&path), [(1, Ok("whole".to_owned()))]);
}

#[test]
fn what_an_agent_is_can_be_found_again() {
    let team = Team::new();
    let project = team.paths.project(Path::new("/p"));
    let session = SessionId::new("s1");
    project.make_session(&session).expect("makes");
    let meta = |id: &str, status: &str| AgentMeta {
        agent_id: AgentId::new(id),
        agent_type: "Explore".to_owned(),
        description: String::new(),
        tool_use_id: None,
        parent_agent_id: AgentId::new("team-lead@review"),
        parent_session_id: session.clone(),
        is_fork: false,
        depth: 1,
        model: "m".to_owned(),
        name: None,
        status: status.to_owned(),
        permission_mode: PermissionMode::Default,
        cwd: "/p".to_owned(),
        worktree_path: None,
        created_at: clock::now(),
        root: None,
        allowed_tools: None,
        prefix_sha256: None,
    };
    for id in ["b", "a"] {
        let path = project.sidechain_meta(&session, &AgentId::new(id));
        transcript::write_meta(&path, &meta(id, "running")).expect("writes");
        let mut map: RawMap = atomic::read_json(&path).expect("reads").expect("is there");
        map.0.push(("theirs".to_owned(), raw("7")));
        std::fs::write(&path, serde_json::to_vec(&map).expect("writes")).expect("writes");
        transcript::write_meta(&path, &meta(id, "completed")).expect("writes");
        let found = transcript::read_meta(&path).expect("reads").expect("is there");
        assert_eq!(found.status, "completed");
        assert_eq!(found.unknown.get("theirs").map(RawValue::get), Some("7"));
    }
    std::fs::write(project.sidechains(&session).join("agent-c.meta.json"), "{").expect("writes");
    let mut ids: Vec<String> = transcript::sidechains(&project, &session)
        .expect("lists")
        .into_iter()
        .map(|m| m.agent_id.as_str().to_owned())
        .collect();
    ids.sort();
    assert_eq!(ids, ["a", "b"]);
    transcript::open_append(&project.transcript(&session)).expect("opens");
    let sessions: Vec<SessionId> =
        transcript::sessions(&project).expect("lists").into_iter().map(|(id, _)| id).collect();
    assert_eq!(sessions, [session]);
}

// Events

#[test]
fn events_of_many_writers_are_whole_lines() {
    let team = Team::new();
    let event = |text: String| Event {
        ts: clock::now(),
        event: EventKind::Notice,
        team: team.team.name().clone(),
        agent: AgentName::team_lead(),
        incarnation: 1,
        fields: json!({"reason": text}).as_object().cloned().expect("object"),
    };
    assert_eq!(events::read(&team.team).expect("reads").count(), 0);
    std::fs::write(team.team.events(), "{\"torn").expect("writes");
    std::thread::scope(|scope| {
        for i in 0..4 {
            let (team, event) = (&team, &event);
            scope.spawn(move || {
                for j in 0..25 {
                    let text = format!("{i}-{j}\n{}", "x".repeat(5_000));
                    events::append(&team.team, &event(text)).expect("appends");
                }
            });
        }
    });
    let mut heads: Vec<String> = events::read(&team.team)
        .expect("reads")
        .map(|e| e.fields["reason"].as_str().expect("text").lines().next().expect("head").to_owned())
        .collect();
    heads.sort();
    heads.dedup();
    assert_eq!(heads.len(), 100);
}

// Specs

#[test]
fn a_spec_loses_its_secrets_and_nothing_else() {
    let team = Team::new();
    let written = WorkerSpec {
        version: WORKER_SPEC_VERSION,
        program_version: "1".to_owned(),
        state_root: team.paths.state_root().to_owned(),
        team: team.team.name().clone(),
        name: name("anna"),
        agent_id: AgentId::new("anna@review"),
        incarnation: 1,
        run_id: RunId::new("run-1"),
        lead_session_id: SessionId::new("s"),
        lead_cwd: PathBuf::from("/"),
        session_id: SessionId::new("t"),
        tool_use_id: None,
        description: String::new(),
        prompt: "p".repeat(200_000),
        definition: serde_json::from_value::<AgentDefinition>(
            json!({"name": "n", "description": "d", "systemPrompt": "s"}),
        )
        .expect("definition"),
        model: "m".to_owned(),
        permission_mode: PermissionMode::Default,
        rules: Vec::new(),
        project_root: PathBuf::from("/"),
        additional_directories: Vec::new(),
        cwd: PathBuf::from("/"),
        worktree: None,
        color: "blue".to_owned(),
        backend: BackendType::Process,
        depth: 1,
        asks: AskPolicy::Wait,
        retry: RetrySettings::default(),
        settings: Settings::default(),
        trusted: true,
        mcp_servers: vec![McpServer {
            name: "far".to_owned(),
            origin: "f".to_owned(),
            transport: McpTransport::Http {
                url: "http://x".to_owned(),
                headers: BTreeMap::from([("a".to_owned(), "secret-value".to_owned())]),
            },
            timeout_ms: None,
        }],
        environment: BTreeMap::from([("KEY".to_owned(), "secret-value".to_owned())]),
    };
    let path = spec::write_spec(&team.team, &written).expect("writes");
    assert_eq!(mode(&path), 0o600);
    let as_json = |spec: &WorkerSpec| serde_json::to_value(spec).expect("value");
    assert_eq!(as_json(&spec::read_spec(&path).expect("reads")), as_json(&written));
    spec::strip_secrets(&path).expect("strips");
    let expected = WorkerSpec { mcp_servers: Vec::new(), environment: BTreeMap::new(), ..written };
    assert_eq!(as_json(&spec::read_spec(&path).expect("reads")), as_json(&expected));
    assert!(!std::fs::read_to_string(&path).expect("reads").contains("secret-value"));
    spec::remove_specs(&team.team, &name("ann")).expect("removes nothing");
    assert!(path.exists());
    spec::remove_specs(&team.team, &name("anna")).expect("removes");
    assert!(matches!(spec::read_spec(&path), Err(StoreError::NotFound { .. })));
}
