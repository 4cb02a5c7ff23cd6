//! The inbox with real files: what is stored, what comes, what others may do to it.

mod interleavings;
mod stress;

use super::entries::{EMPTY, FOOT, HEAD};
use super::*;
use crate::store::run;
use crate::store::tests::team::{Team, make_pipe, message, name, run_record};
use crate::wire::frame::FrameType;
use crate::wire::limits::{INBOX_BYTES, INBOX_MESSAGES};
use crate::wire::mail::{Origin, Wake};
use crate::wire::run::AgentState;
use serde_json::json;
use serde_json::value::RawValue;
use std::os::unix::fs::symlink;
use std::path::Path;

fn text(inbox: &Inbox) -> String {
    std::fs::read_to_string(inbox.path()).expect("reads")
}

fn values(inbox: &Inbox) -> Vec<Value> {
    serde_json::from_str(&text(inbox)).expect("is a JSON array")
}

fn put(inbox: &Inbox, content: &str) {
    let temp = inbox.path().with_extension("other");
    std::fs::write(&temp, content).expect("writes");
    std::fs::rename(&temp, inbox.path()).expect("renames");
}

/// Texts with their origin, in the order of delivery.
fn claimed(inbox: &Inbox) -> Vec<(String, Origin)> {
    let claim = inbox.claim(1, usize::MAX).expect("claims");
    claim.messages.into_iter().map(|c| (c.message.text, c.origin)).collect()
}

fn aside(inbox: &Inbox, kind: &str) -> Vec<PathBuf> {
    let begin = format!("{}.{kind}-", inbox.agent());
    let mut found: Vec<PathBuf> = std::fs::read_dir(&inbox.0.dir)
        .expect("lists")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&begin)))
        .collect();
    found.sort();
    found
}

fn archived(inbox: &Inbox) -> Vec<(u64, String)> {
    inbox.archive().expect("reads").map(|entry| (entry.seq, entry.known.text)).collect()
}

#[test]
fn the_layout_is_one_message_a_line() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    assert_eq!(text(&inbox).as_bytes(), EMPTY);
    let first = message("ben", "one\ntwo");
    let receipt = inbox.send(first.clone()).expect("sends");
    assert_eq!(receipt, Receipt { id: first.id.clone().expect("id"), seq: 1, to: name("anna") });
    inbox.send(message("ben", "three")).expect("sends");
    let lines: Vec<String> = text(&inbox).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!((lines[0].as_str(), lines[3].as_str()), ("[", "]"));
    let parsed: Value = serde_json::from_str(lines[1].trim_end_matches(',')).expect("a line is an object");
    let sig = parsed["sig"].as_str().expect("is signed").to_owned();
    let expected = json!({
        "id": receipt.id, "seq": 1, "type": "peer_dm", "from": "ben", "to": "anna", "text": "one\ntwo",
        "timestamp": first.timestamp, "read": false, "wake": "turn", "incarnation": 1, "sig": sig,
    });
    assert_eq!(parsed, expected);
    assert_eq!(inbox.verify().expect("verifies"), Vec::<String>::new());
}

#[test]
fn mail_comes_until_it_is_acknowledged() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    let ids: Vec<MessageId> =
        (1..=3).map(|i| inbox.send(message("ben", &format!("m{i}"))).expect("sends").id).collect();
    let all = |n: usize| (n..=3).map(|i| (format!("m{i}"), Origin::Team)).collect::<Vec<_>>();
    assert_eq!(claimed(&inbox), all(1));
    assert_eq!(claimed(&inbox), all(1));
    assert_eq!(inbox.claim(1, 2).expect("claims").messages.len(), 2);
    inbox.ack(&ids[..1]).expect("acknowledges");
    inbox.ack(&[ids[0].clone(), MessageId::new("nobody's")]).expect("again is harmless");
    assert_eq!(claimed(&inbox), all(2));
    assert_eq!(inbox.counts().expect("counts"), InboxCounts { waiting: 2, waiting_turn: 2, last_seq: 3 });
    inbox.ack(&ids).expect("acknowledges");
    assert_eq!(claimed(&inbox), []);
    assert_eq!(inbox.peek(1).expect("peeks").map(|mail| mail.len()), Some(0));
    assert_eq!(inbox.messages().expect("reads").len(), 3);
}

#[test]
fn delivery_has_an_order() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    put(&inbox, r#"[{"from":"user","text":"says it is the user","timestamp":"t","read":false}]"#);
    for (from, text) in [("ben", "peer 1"), ("cleo", "peer 2"), ("team-lead", "leader"), ("user", "user")] {
        inbox.send(message(from, text)).expect("sends");
    }
    let mut shutdown = message("team-lead", "shutdown");
    shutdown.kind = FrameType::ShutdownRequest;
    inbox.send(shutdown).expect("sends");
    inbox.send(message("ben", "peer 3")).expect("sends");
    assert!(inbox.peek(1).expect("peeks").is_none(), "the one from outside has no place yet");
    let texts: Vec<String> = claimed(&inbox).into_iter().map(|(text, _)| text).collect();
    let expected = ["shutdown", "user", "leader", "peer 1", "peer 2", "peer 3", "says it is the user"];
    assert_eq!(texts, expected);
    let peeked: Vec<String> =
        inbox.peek(1).expect("peeks").expect("all in order").into_iter().map(|c| c.message.text).collect();
    assert_eq!(peeked, expected);
}

#[test]
fn only_the_last_twenty_read_stay_and_the_archive_has_the_rest_once() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    for i in 1..=50 {
        let id = inbox.send(message("ben", &format!("m{i}"))).expect("sends").id;
        inbox.ack(&[id]).expect("acknowledges");
    }
    let kept: Vec<u64> = inbox.messages().expect("reads").iter().map(|m| m.seq).collect();
    assert_eq!(kept, (31..=50).collect::<Vec<_>>());
    assert_eq!(archived(&inbox), (1..=30).map(|i| (i, format!("m{i}"))).collect::<Vec<_>>());
    assert!(inbox.archive().expect("reads").all(|entry| entry.read));
    assert_eq!(inbox.verify().expect("verifies"), Vec::<String>::new());
}

#[test]
fn a_death_between_archive_and_inbox_repeats_nothing() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    let send = |n: usize| -> Vec<MessageId> {
        (0..n).map(|i| inbox.send(message("ben", &format!("m{i}"))).expect("sends").id).collect()
    };
    let ids = send(30);
    let (saved, stamp) = (inbox.path().with_extension("saved"), std::fs::read(&inbox.0.lock).expect("reads"));
    std::fs::hard_link(inbox.path(), &saved).expect("links");
    inbox.ack(&ids[..25]).expect("acknowledges");
    assert_eq!(archived(&inbox).len(), 5);
    // The state before the rename: the archive has its lines, inbox and stamp are the old ones.
    std::fs::rename(&saved, inbox.path()).expect("renames");
    std::fs::write(&inbox.0.lock, stamp).expect("writes");
    assert_eq!(inbox.counts().expect("counts").waiting, 30);
    send(1);
    inbox.ack(&ids[..26]).expect("acknowledges");
    let seqs: Vec<u64> = archived(&inbox).into_iter().map(|(seq, _)| seq).collect();
    assert_eq!(seqs, (1..=6).collect::<Vec<_>>());
    assert_eq!(inbox.verify().expect("verifies"), Vec::<String>::new());
}

#[test]
fn positions_are_never_used_again() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    let seqs: Vec<u64> = (0..25).map(|_| inbox.send(message("ben", "x")).expect("sends").seq).collect();
    let ids: Vec<MessageId> =
        inbox.claim(1, usize::MAX).expect("claims").messages.into_iter().map(|c| c.id).collect();
    inbox.ack(&ids).expect("acknowledges");
    assert_eq!(seqs, (1..=25).collect::<Vec<_>>());
    // Emptied by another program: the stamp remembers.
    put(&inbox, "[]");
    assert_eq!(inbox.send(message("ben", "x")).expect("sends").seq, 26);
    // The lock file lost too: the archive remembers what went there.
    put(&inbox, "[]");
    std::fs::remove_file(&inbox.0.lock).expect("removes");
    assert_eq!(inbox.send(message("ben", "x")).expect("sends").seq, 6);
    // And the run record what was delivered.
    let mut record = run_record("anna", "r", AgentState::Idle);
    record.delivered_seq = 100;
    run::begin(&team.team, &record).expect("writes");
    put(&inbox, "[]");
    std::fs::remove_file(&inbox.0.lock).expect("removes");
    assert_eq!(inbox.send(message("ben", "x")).expect("sends").seq, 101);
}

#[test]
fn an_unknown_name_gets_the_valid_ones_and_no_file() {
    let team = Team::new();
    let _ = (team.inbox("anna"), team.inbox("ben"));
    let nobody = Inbox::new(&team.team, &name("annna"), &team.keys, Durability::Process);
    for result in [
        nobody.send(message("ben", "x")).map(drop),
        nobody.try_claim(1, 1).map(drop),
        nobody.ack(&[]),
        nobody.counts().map(drop),
        nobody.peek(1).map(drop),
    ] {
        let error = result.expect_err("is not there").to_string();
        assert_eq!(error, "team review has no member annna; it has anna, ben");
    }
    let mut files: Vec<_> = std::fs::read_dir(team.team.inboxes())
        .expect("lists")
        .map(|e| e.expect("entry").file_name().into_string().expect("text"))
        .collect();
    files.sort();
    assert_eq!(files, ["anna.json", "anna.lock", "ben.json", "ben.lock"]);
}

#[test]
fn entries_of_other_programs_are_understood_in_any_layout() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    inbox.send(message("ben", "ours")).expect("sends");
    let mut all = values(&inbox);
    all.push(json!({"from": "script", "text": "hello", "timestamp": "2026-01-01T00:00:00Z", "read": false}));
    all.push(json!({"from": "x", "text": "old", "timestamp": "t", "read": true, "extra": {"n": [1, 2]}}));
    put(&inbox, &format!("\u{feff}{}", serde_json::to_string_pretty(&all).expect("writes")));
    assert_eq!(inbox.counts().expect("counts").waiting, 2);
    inbox.send(message("ben", "later")).expect("sends");
    assert_eq!(text(&inbox).lines().count(), 6, "{}", text(&inbox));
    let expected = [("ours", Origin::Team), ("later", Origin::Team), ("hello", Origin::Outside)]
        .map(|(t, o)| (t.to_owned(), o));
    assert_eq!(claimed(&inbox), expected);
    let after = values(&inbox);
    let seqs: Vec<&Value> = after.iter().map(|v| &v["seq"]).collect();
    assert_eq!(seqs, [&json!(1), &json!(3), &json!(4), &json!(2)]);
    assert_eq!(after[2]["extra"], json!({"n": [1, 2]}));
    assert!(after.iter().all(|v| v["id"].is_string()));
    let again = values(&inbox);
    claimed(&inbox);
    assert_eq!(values(&inbox), again, "ids are given once");
    let hello = MessageId::new(after[1]["id"].as_str().expect("id"));
    inbox.ack(&[hello]).expect("acknowledges");
    assert_eq!(values(&inbox)[1]["read"], json!(true));
}

#[test]
fn a_rewrite_by_another_program_keeps_signatures_good() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    let mut frame = message("team-lead", "a number and ünïcode");
    frame.kind = FrameType::IdleNotification;
    let payload = r#"{"b":1e2,"a":[1.50,"\u00e9",{"z":null,"y":12345678901234567890}]}"#;
    frame.payload = Some(RawValue::from_string(payload.to_owned()).expect("raw"));
    inbox.send(frame).expect("sends");
    assert!(text(&inbox).contains(payload), "our own file keeps the bytes");
    let rewritten: Vec<Value> = values(&inbox);
    put(&inbox, &serde_json::to_string_pretty(&rewritten).expect("writes"));
    assert_eq!(claimed(&inbox), [("a number and ünïcode".to_owned(), Origin::Team)]);
    let mut forged = rewritten;
    forged[0]["from"] = json!("user");
    put(&inbox, &serde_json::to_string(&forged).expect("writes"));
    assert_eq!(claimed(&inbox), [("a number and ünïcode".to_owned(), Origin::Outside)]);
}

#[test]
fn a_message_copied_from_another_inbox_is_from_outside() {
    let team = Team::new();
    let (anna, ben) = (team.inbox("anna"), team.inbox("ben"));
    anna.send(message("user", "for anna")).expect("sends");
    put(&ben, &text(&anna));
    assert_eq!(claimed(&ben), [("for anna".to_owned(), Origin::Outside)]);
}

#[test]
fn malformed_entries_are_set_aside_one_by_one() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    inbox.send(message("ben", "good")).expect("sends");
    let good = values(&inbox).remove(0);
    let copy = good.clone();
    put(
        &inbox,
        &json!([1, {"from": 3}, good, "x", copy, {"from": "s", "text": "too", "timestamp": "t"}]).to_string(),
    );
    let claim = inbox.claim(1, usize::MAX).expect("claims");
    let texts: Vec<&str> = claim.messages.iter().map(|c| c.message.text.as_str()).collect();
    assert_eq!(texts, ["good", "too"]);
    assert_eq!(claim.notices.len(), 4, "{:?}", claim.notices);
    let files = aside(&inbox, "malformed");
    let contents: Vec<String> =
        files.iter().map(|path| std::fs::read_to_string(path).expect("reads")).collect();
    assert_eq!(contents.len(), 4);
    assert!(contents.iter().any(|c| c == "{\"from\":3}\n"), "{contents:?}");
    assert_eq!(inbox.claim(1, usize::MAX).expect("claims").notices.len(), 0, "said once");
    assert_eq!(inbox.verify().expect("verifies").len(), 4 + 1, "{:?}", inbox.verify());
}

#[test]
fn a_damaged_file_is_set_aside_and_the_send_goes_on() {
    let team = Team::new();
    for damage in ["", "not JSON", "{}", "[1,2", "\0\0\0", "null", "[]]"] {
        let inbox = team.inbox("anna");
        put(&inbox, damage);
        inbox.send(message("ben", "after")).expect("sends");
        assert_eq!(claimed(&inbox), [("after".to_owned(), Origin::Team)], "{damage:?}");
        let files = aside(&inbox, "corrupt");
        assert_eq!(files.len(), 1, "{damage:?}");
        assert_eq!(std::fs::read_to_string(&files[0]).expect("reads"), damage);
        std::fs::remove_file(&files[0]).expect("removes");
        put(&inbox, "[]");
    }
    let events: Vec<Event> = events::read(&team.team).expect("reads").collect();
    assert_eq!(events.len(), 7);
    assert!(events.iter().all(|e| e.event == EventKind::Notice && e.agent == name("anna")));
}

#[test]
fn what_can_be_read_of_a_damaged_file_stays() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    let ids: Vec<MessageId> =
        (0..3).map(|i| inbox.send(message("ben", &format!("m{i}"))).expect("sends").id).collect();
    inbox.ack(&ids[..1]).expect("acknowledges");
    let whole = text(&inbox);
    let pretty = serde_json::to_string_pretty(&values(&inbox)).expect("writes");
    for damaged in [&whole[..whole.len() - 40], &whole[2..], &pretty[1..pretty.len() - 30]] {
        put(&inbox, damaged);
        let claim = inbox.claim(1, usize::MAX).expect("claims");
        let kept = inbox.messages().expect("reads").len();
        assert!(kept >= 2, "{damaged}");
        let found = matches!(&claim.notices[..], [InboxNotice::Corrupt { kept: k, .. }] if *k == kept);
        assert!(found, "{:?}", claim.notices);
        assert!(claim.messages.iter().any(|c| c.message.text == "m1" && c.origin == Origin::Team));
        assert!(claim.messages.iter().all(|c| c.message.text != "m0"), "read mail stays read");
    }
    assert_eq!(aside(&inbox, "corrupt").len(), 3);
    assert_eq!(inbox.send(message("ben", "next")).expect("sends").seq, 4);
}

#[test]
fn what_is_no_file_of_ours_is_refused() {
    let team = Team::new();
    let elsewhere = team.home.path().join("elsewhere");
    std::fs::write(&elsewhere, "[]").expect("writes");
    type Make = fn(&Path, &Path);
    let kinds: [(&str, Make); 3] = [
        ("link", |path, target| symlink(target, path).expect("links")),
        ("dir", |path, _| std::fs::create_dir(path).expect("makes")),
        ("pipe", |path, _| {
            make_pipe(path);
        }),
    ];
    for (kind, make) in kinds {
        for which in ["file", "lock", "archive"] {
            let inbox = team.inbox(&format!("{kind}-{which}"));
            let id = inbox.send(message("ben", "x")).expect("sends").id;
            let path = match which {
                "file" => &inbox.0.file,
                "lock" => &inbox.0.lock,
                _ => &inbox.0.archive,
            };
            drop(std::fs::remove_file(path));
            make(path, &elsewhere);
            let refused = match which {
                "archive" => {
                    put(&inbox, "[]"); // so that the archive has to be looked at
                    inbox.send(message("ben", "x")).map(drop)
                }
                "lock" => inbox.ack(&[id]),
                _ => inbox.claim(1, 1).map(drop),
            };
            assert!(
                matches!(&refused, Err(StoreError::NotOurs { path: p, .. }) if p == path),
                "{kind} {which}: {refused:?}"
            );
        }
    }
    assert_eq!(std::fs::read_to_string(&elsewhere).expect("reads"), "[]");
}

#[test]
fn a_failed_read_is_an_error_and_nothing_is_written() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    inbox.send(message("ben", "kept")).expect("sends");
    let before = text(&inbox);
    let real = team.home.path().join("inboxes");
    std::fs::rename(team.team.inboxes(), &real).expect("moves");
    std::fs::write(team.team.inboxes(), "").expect("a file in the directory's place");
    for result in
        [inbox.send(message("ben", "x")).map(drop), inbox.counts().map(drop), inbox.claim(1, 1).map(drop)]
    {
        assert!(matches!(result, Err(StoreError::NotOurs { .. })), "{result:?}");
    }
    std::fs::remove_file(team.team.inboxes()).expect("removes");
    std::fs::rename(&real, team.team.inboxes()).expect("moves back");
    assert_eq!(text(&inbox), before);
}

#[test]
fn full_is_said_at_the_cap_and_read_mail_gives_way() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    let line = |i: usize, read: bool| {
        format!(r#"{{"id":"i{i}","seq":{},"from":"s","text":"","timestamp":"t","read":{read}}}"#, i + 1)
    };
    let file = |n: usize| format!("[{}]", (0..n).map(|i| line(i, false)).collect::<Vec<_>>().join(","));
    put(&inbox, &file(INBOX_MESSAGES - 1));
    assert_eq!(inbox.send(message("ben", "fits")).expect("sends").seq, INBOX_MESSAGES as u64);
    let full = inbox.send(message("ben", "does not"));
    assert!(matches!(&full, Err(StoreError::Full { messages: INBOX_MESSAGES, .. })), "{full:?}");
    inbox.ack(&[MessageId::new("i7")]).expect("acknowledges");
    inbox.send(message("ben", "fits again")).expect("sends");

    let big = "x".repeat(1_000_000);
    put(&inbox, "[]");
    let mut ids: Vec<MessageId> =
        (0..4).map(|_| inbox.send(message("ben", &big)).expect("sends").id).collect();
    let full = inbox.send(message("ben", &big));
    assert!(matches!(full, Err(StoreError::Full { messages: 4, .. })), "{full:?}");
    inbox.send(message("ben", "small")).expect("sends");
    // Read but not gone, as another program might leave it: it gives way.
    let mut all = values(&inbox);
    all[0]["read"] = json!(true);
    put(&inbox, &serde_json::to_string(&all).expect("writes"));
    inbox.send(message("ben", &big)).expect("sends");
    assert!(text(&inbox).len() <= INBOX_BYTES);
    assert_eq!(archived(&inbox).len(), 1);
    ids.remove(0);
    inbox.ack(&ids).expect("acknowledges");
    assert!(text(&inbox).len() < 1_100_000, "long read mail does not stay");
}

#[test]
fn what_could_never_fit_is_too_large() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    let chars = inbox.send(message("ben", &"x".repeat(1_000_001)));
    assert!(
        matches!(chars, Err(StoreError::TooLarge { unit: "characters", size: 1_000_001, .. })),
        "{chars:?}"
    );
    // Allowed as characters, but each takes six bytes.
    let bytes = inbox.send(message("ben", &"\u{1}".repeat(900_000)));
    assert!(matches!(bytes, Err(StoreError::TooLarge { unit: "bytes", .. })), "{bytes:?}");
    inbox.send(message("ben", &"🐝".repeat(1_000_000))).expect("a million characters fit");
}

#[test]
fn mail_for_an_ended_incarnation_is_archived_and_said() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    inbox.send(message("ben", "for the first")).expect("sends");
    let mut second = message("ben", "for the second");
    second.incarnation = Some(2);
    inbox.send(second).expect("sends");
    assert_eq!(claimed(&inbox), [("for the first".to_owned(), Origin::Team)], "not the later one's");
    let claim = inbox.claim(2, usize::MAX).expect("claims");
    let texts: Vec<&str> = claim.messages.iter().map(|c| c.message.text.as_str()).collect();
    assert_eq!(texts, ["for the second"]);
    match &claim.notices[..] {
        [InboxNotice::Undeliverable { message }] => {
            assert_eq!((message.from.as_str(), message.text.as_str()), ("ben", "for the first"));
        }
        other => panic!("{other:?}"),
    }
    let entry = inbox.archive().expect("reads").next().expect("archived");
    assert_eq!((entry.text.as_str(), entry.read), ("for the first", false));
    assert!(entry.unknown.get("undeliverable").is_some());
    assert_eq!(inbox.claim(2, usize::MAX).expect("claims").notices.len(), 0);
}

#[test]
fn sending_the_same_message_again_changes_nothing() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    let twice = message("ben", "once");
    let first = inbox.send(twice.clone()).expect("sends");
    inbox.send(message("ben", "between")).expect("sends");
    assert_eq!(inbox.send(twice).expect("sends"), first);
    assert_eq!(claimed(&inbox).len(), 2);
    let for_another = Message { to: Some(name("ben")), ..message("ben", "x") };
    assert!(matches!(inbox.send(for_another), Err(StoreError::Invalid { .. })));
}

#[test]
fn a_held_lock_makes_a_try_come_back_empty() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    let later = message("ben", "later");
    lock::with_lock(&inbox.0.lock, LOCK_DEADLINE, || {
        assert_eq!(inbox.try_send(&later)?, None);
        assert!(inbox.try_claim(1, 1)?.is_none());
        assert_eq!(inbox.try_ack(&[])?, None);
        assert_eq!(inbox.counts()?.waiting, 0, "looking needs no lock");
        Ok(())
    })
    .expect("holds");
    assert!(inbox.try_send(&later).expect("sends").is_some());
    assert_eq!(inbox.try_claim(1, 9).expect("claims").expect("free").messages.len(), 1);
}

#[test]
fn a_send_does_not_read_what_waits_or_the_archive() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    inbox.send(message("ben", "first")).expect("sends");
    // A line break turned into another space inside a line would be lost by parsing; the same length
    // and time keep the stamp right, so only a copy of the bytes keeps it.
    let odd = text(&inbox).replacen("\"from\":\"ben\",\"to\"", "\"from\" :\"be\",\"to\"", 1);
    let found = std::fs::metadata(inbox.path()).expect("stat");
    let file = std::fs::OpenOptions::new().write(true).open(inbox.path()).expect("opens");
    std::os::unix::fs::FileExt::write_all_at(&file, odd.as_bytes(), 0).expect("writes");
    file.set_modified(found.modified().expect("time")).expect("sets the time");
    std::fs::create_dir(&inbox.0.archive).expect("an archive that cannot be read");
    inbox.send(message("ben", "second")).expect("sends");
    let mut expected = odd.into_bytes();
    expected.truncate(expected.len() - FOOT.len());
    assert!(text(&inbox).as_bytes().starts_with(&expected));
    assert!(text(&inbox).as_bytes().starts_with(HEAD));
}

#[test]
fn queue_only_mail_waits_but_starts_no_turn() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    inbox.send(Message { wake: Wake::Queue, ..message("ben", "status") }).expect("sends");
    let expected = InboxCounts { waiting: 1, waiting_turn: 0, last_seq: 1 };
    assert_eq!(inbox.counts().expect("counts"), expected);
    put(&inbox, &text(&inbox));
    assert_eq!(inbox.counts().expect("counts"), expected, "also without the stamp");
}

#[test]
fn a_leftover_of_a_killed_writer_is_in_nobodys_way() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    std::fs::write(&inbox.0.temp, "[\n{\"half").expect("writes");
    inbox.send(message("ben", "x")).expect("sends");
    assert!(!inbox.0.temp.exists());
    assert_eq!(claimed(&inbox).len(), 1);
}

#[test]
fn durable_to_the_disk_works_the_same() {
    let team = Team::new();
    let _ = team.inbox("anna");
    let inbox = Inbox::new(&team.team, &name("anna"), &team.keys, Durability::Disk);
    let ids: Vec<MessageId> = (0..22).map(|_| inbox.send(message("ben", "x")).expect("sends").id).collect();
    inbox.ack(&ids).expect("acknowledges");
    assert_eq!(archived(&inbox).len(), 2);
}

#[test]
fn repair_gives_our_layout_and_reads_nothing() {
    let team = Team::new();
    let inbox = team.inbox("anna");
    put(&inbox, r#"[ {"from":"s","text":"a","timestamp":"t"}, 5 ]"#);
    assert_eq!(inbox.repair().expect("repairs").len(), 1);
    assert_eq!(text(&inbox).lines().count(), 3);
    let wrong = inbox.verify().expect("verifies");
    assert_eq!(wrong.len(), 2, "{wrong:?}"); // from outside, and what was set aside
    assert_eq!(inbox.counts().expect("counts").waiting, 1);
}
