use super::*;
use serde_json::json;
use std::fs;
use std::path::Path;

fn write(path: &Path, value: &serde_json::Value) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("dir");
    fs::write(path, value.to_string()).expect("writes");
}

/// A team of which nothing runs, with one session.
fn team(paths: &Paths) -> TeamView {
    let name = TeamName::new("review").expect("a name");
    let row = Row {
        agent_id: AgentId::new("team-lead@review"),
        name: AgentName::team_lead(),
        team: name.clone(),
        kind: None,
        backend: None,
        state: "lost",
        evidence: String::new(),
        model: None,
        task: None,
        tokens: 0,
        cost: Money::default(),
        since: None,
        pid: None,
        pane_id: None,
        parent: None,
        display: "team-lead".to_owned(),
        color: None,
        lives: false,
    };
    TeamView {
        paths: paths.team(&name),
        name,
        roster: None,
        leader_alive: false,
        rows: vec![row],
        ledger: None,
        troubles: Vec::new(),
    }
}

#[test]
fn of_agents_that_have_ended_only_what_they_are_is_looked_at() {
    let dir = tempfile::tempdir().expect("temp dir");
    let paths = Paths::from_home(dir.path());
    let team = team(&paths);
    let (project, session) = (paths.project(Path::new("/p")), SessionId::new("s"));
    let [ended, works, damaged] = ["a0000000000000001", "a0000000000000002", "a0000000000000003"];
    for (id, status) in
        [(ended, "completed"), (works, "running"), (damaged, "running"), ("anna@review", "running")]
    {
        let meta = json!({
            "agentId": id, "agentType": "Explore", "description": "look", "toolUseId": null,
            "parentAgentId": "team-lead@review", "parentSessionId": "s", "isFork": false, "depth": 1,
            "model": "m", "status": status, "permissionMode": "default", "cwd": "/p", "worktreePath": null,
            "createdAt": format!("2026-01-01T00:00:0{}.000Z", id.len() % 10), "root": "team-lead",
        });
        write(&project.sidechain_meta(&session, &AgentId::new(id)), &meta);
    }
    // Its record is not looked at: it would say that it works.
    let record = json!({
        "version": 1, "taskId": ended, "kind": "subagent", "runId": "r", "state": "running", "description": "look",
        "launchedBy": "team-lead@review", "root": "team-lead", "incarnation": 1, "toolUseId": "t",
        "outputFile": "o", "createdAt": "2026-01-01T00:00:00.000Z", "since": "2026-01-01T00:00:00.000Z",
    });
    write(&project.background(&session, &BackgroundId::of_agent(&AgentId::new(ended))), &record);
    fs::write(project.sidechain_meta(&session, &AgentId::new(damaged)), "{").expect("writes");

    let sessions = BTreeMap::from([(team.name().clone(), vec![(project.clone(), session.clone())])]);
    let places = Places { sessions, kept: Kept::default() };
    let seen = |wanted| {
        let children = places.children(&team, wanted).into_iter();
        children.map(|child| (child.row.agent_id.to_string(), child.row.state)).collect::<Vec<_>>()
    };
    assert_eq!(seen(Wanted::AtWork), [(works.to_owned(), "lost")]);
    assert_eq!(seen(Wanted::AtWork), [(works.to_owned(), "lost")], "again");
    // Who wants all of them has the records as well.
    assert_eq!(seen(Wanted::All), [(ended.to_owned(), "lost"), (works.to_owned(), "lost")]);

    // One alone, as it is in the list.
    let one = |id| places.child(&team, &AgentId::new(id)).map(|child| (child.row.state, child.row.evidence));
    let evidence = "nothing is known of team-lead, below which it worked".to_owned();
    assert_eq!(one(works), Some(("lost", evidence)));
    assert_eq!((one("a0000000000000009"), one("anna@review"), one(damaged)), (None, None, None));
    assert!(!places.knows(&team), "without a roster nobody knows its session");
}
