//! The judgement on every combination of word, verdict and evidence.

use super::*;
use crate::wire::ids::RunId;
use crate::wire::team::Ended;
use crate::wire::usage::Usage;
use serde_json::{Value, json};

fn member(backend: &str, ended: Option<AgentState>) -> Member {
    let mut member: Member = serde_json::from_value(json!({
        "agentId": "anna@review", "agentName": "anna", "displayName": "Änna", "agentType": "Explore",
        "model": "scripted:x", "color": "blue", "backendType": backend, "paneId": "%3", "incarnation": 2,
        "permissionMode": "default", "cwd": "/", "worktreePath": null, "sessionId": "s",
        "joinedAt": "2026-01-01T00:00:00.000Z",
    }))
    .expect("member");
    member.ended = ended.map(|state| Ended {
        state,
        at: Timestamp::new("2026-01-01T00:00:09.000Z"),
        exit: "exit 0".to_owned(),
        reason: "done".to_owned(),
        usage: Usage { input_tokens: 5, ..Usage::default() },
        cost: Money(Some(0.5)),
    });
    member
}

fn record(state: AgentState) -> Open<RunRecord> {
    let process = ProcessId { pid: 4711, start_time: 1, boot_id: "b".to_owned(), host: "far".to_owned() };
    let id = AgentId::new("anna@review");
    let now = Timestamp::new("2026-01-01T00:00:05.000Z");
    let mut record = RunRecord::starting(&id, 2, &RunId::new("r"), process, now);
    record.state = state;
    record.current_tool = Some("Bash ls".to_owned());
    record.usage.input_tokens = 7;
    record.into()
}

fn row(member: Option<&Member>, said: Said<'_>, leader_holds: bool, seen: Seen) -> Row {
    let team = TeamName::new("review").expect("slug");
    let name = member.map_or_else(AgentName::team_lead, |m| m.agent_name.clone());
    judge(&Known { team: &team, name: &name, member, leader_holds }, said, |_| seen)
}

/// State, evidence, task, pid, pane and whether it lives.
fn short(row: &Row) -> Value {
    json!([row.state, row.evidence, row.task, row.pid, row.pane_id, row.lives])
}

#[test]
fn a_row_has_exactly_the_members_of_the_contract() {
    let (anna, said) = (member("tmux", None), Ok(record(AgentState::Working)));
    let shown = serde_json::to_value(row(Some(&anna), Some(&said), true, Seen::Running)).expect("json");
    assert_eq!(
        shown,
        json!({
            "agentId": "anna@review", "name": "anna", "team": "review", "type": "Explore", "backend": "tmux",
            "state": "working", "evidence": "pid 4711 running", "model": "scripted:x", "task": "Bash ls",
            "tokens": 7, "cost": 0.0, "since": "2026-01-01T00:00:05.000Z", "pid": 4711, "paneId": "%3",
        })
    );
}

#[test]
fn a_word_counts_only_as_long_as_the_process_is_there() {
    let anna = member("tmux", None);
    let judged = |state, seen| short(&row(Some(&anna), Some(&Ok(record(state))), false, seen));
    assert_eq!(
        judged(AgentState::Waiting, Seen::Running),
        json!(["waiting", "pid 4711 running", "Bash ls", 4711, "%3", true])
    );
    assert_eq!(
        judged(AgentState::Idle, Seen::Running),
        json!(["idle", "pid 4711 running", null, 4711, "%3", true])
    );
    for state in [AgentState::Starting, AgentState::Working, AgentState::Idle, AgentState::Waiting] {
        assert_eq!(judged(state, Seen::Gone), json!(["lost", "pid 4711 gone", null, null, null, false]));
    }
    assert_eq!(
        judged(AgentState::Stopped, Seen::Gone),
        json!(["stopped", "it said so", null, null, null, false])
    );
    assert_eq!(
        judged(AgentState::Failed, Seen::Running),
        json!(["failed", "it said so; pid 4711 is ending", null, 4711, "%3", true])
    );
    assert_eq!(
        judged(AgentState::Working, Seen::Elsewhere),
        json!(["working", "said so on host far, which cannot be seen from here", null, null, "%3", true])
    );
}

#[test]
fn the_verdict_of_the_leader_stands_and_a_process_that_defies_it_is_named() {
    let verdict = |backend, seen| {
        let anna = member(backend, Some(AgentState::Stopped));
        short(&row(Some(&anna), Some(&Ok(record(AgentState::Working))), true, seen))
    };
    let over = json!(["stopped", "exit 0: done", null, null, null, false]);
    assert_eq!(verdict("tmux", Seen::Gone), over);
    assert_eq!(verdict("in-process", Seen::Running), over, "the process is the leader's");
    assert_eq!(
        verdict("tmux", Seen::Running),
        json!(["stopped", "pid 4711 still runs; exit 0: done", null, 4711, "%3", true])
    );
}

#[test]
fn silence_another_incarnation_and_damage() {
    let anna = member("tmux", None);
    assert_eq!(
        short(&row(Some(&anna), None, true, Seen::Gone)),
        json!(["starting", "it has not said a word yet", null, null, "%3", true])
    );
    let mut older = record(AgentState::Idle);
    older.incarnation = 1;
    assert_eq!(
        short(&row(Some(&anna), Some(&Ok(older)), false, Seen::Running)),
        json!(["lost", "it never said that it was ready", null, null, null, false])
    );
    let damaged = Err(StoreError::Corrupt { path: "/x/anna.json".into(), why: "eof".to_owned() });
    assert_eq!(
        short(&row(Some(&anna), Some(&damaged), false, Seen::Gone)),
        json!(["unknown", "/x/anna.json is damaged: eof", null, null, null, false])
    );
}

#[test]
fn a_leader_is_a_row_too() {
    let mut said = record(AgentState::Working);
    (said.incarnation, said.model) = (1, Some("scripted:y".to_owned()));
    let lead = row(None, Some(&Ok(said)), true, Seen::Running);
    assert_eq!(
        (lead.kind.as_deref(), lead.backend, lead.model.as_deref(), lead.display.as_str()),
        (Some("main"), Some("in-process"), Some("scripted:y"), "team-lead")
    );
    assert_eq!(short(&lead), json!(["working", "pid 4711 running", "Bash ls", 4711, null, true]));
}

#[test]
fn a_process_of_another_host_is_gone_unless_it_may_share_the_files_or_the_kernel() {
    let here = process::current().expect("we live");
    let far = |boot: &str| ProcessId { host: "far".to_owned(), boot_id: boot.to_owned(), ..here.clone() };
    assert_eq!(see(&here, true), Seen::Running);
    assert_eq!(see(&far("other"), true), Seen::Elsewhere);
    assert_eq!(see(&far("other"), false), Seen::Gone);
    assert_eq!(see(&far(&here.boot_id), false), Seen::Elsewhere);
    assert_eq!(see(&ProcessId { start_time: 0, ..here }, true), Seen::Gone);
}
