//! A team in a temporary directory, for the tests of this layer.
//!
//! Compiled for tests only.

use crate::store::clock;
use crate::store::inbox::Inbox;
use crate::store::paths::{Paths, TeamPaths};
use crate::store::roster::Roster;
use crate::store::sign::Keys;
use crate::wire::frame::FrameType;
use crate::wire::ids::{AgentId, AgentName, MessageId, RunId, SessionId, TeamName};
use crate::wire::mail::{Message, Wake};
use crate::wire::run::{AgentState, RunRecord};
use crate::wire::settings::Durability;
use crate::wire::team::{TEAM_VERSION, TeamFile};
use crate::wire::usage::{Money, Usage};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// The team `review` with its keys.
pub(in crate::store) struct Team {
    pub home: TempDir,
    pub paths: Paths,
    pub team: TeamPaths,
    pub keys: Keys,
}

impl Team {
    pub(in crate::store) fn new() -> Self {
        let home = tempfile::tempdir().expect("temp dir");
        let paths = Paths::from_home(home.path());
        let team = Roster::create(&paths, &team_file("review")).expect("makes a team");
        let keys = Keys::create(&team).expect("makes keys");
        Self { home, paths, team, keys }
    }

    /// An inbox that is there, with the key of its owner.
    pub(in crate::store) fn inbox(&self, agent: &str) -> Inbox {
        let agent = name(agent);
        self.keys.add_worker(&agent).expect("makes a key");
        let inbox = Inbox::new(&self.team, &agent, &self.keys, Durability::Process);
        inbox.create().expect("makes an inbox");
        inbox
    }
}

/// A named pipe.
pub(in crate::store) fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().expect("runs mkfifo");
    assert!(made.success());
}

pub(in crate::store) fn name(slug: &str) -> AgentName {
    AgentName::new(slug).expect("slug")
}

pub(in crate::store) fn team_file(team: &str) -> TeamFile {
    let name = TeamName::new(team).expect("slug");
    TeamFile {
        version: TEAM_VERSION,
        display_name: team.to_owned(),
        description: String::new(),
        created_at: clock::now(),
        lead_agent_id: AgentId::member(&AgentName::team_lead(), &name),
        lead_session_id: SessionId::new("s"),
        hidden_pane_ids: Vec::new(),
        allowed_paths: Vec::new(),
        members: Vec::new(),
        name,
    }
}

pub(in crate::store) fn message(from: &str, text: &str) -> Message {
    Message {
        id: Some(MessageId::generate()),
        seq: 0,
        kind: FrameType::PeerDm,
        from: from.to_owned(),
        to: None,
        text: text.to_owned(),
        payload: None,
        timestamp: clock::now(),
        read: false,
        color: None,
        summary: None,
        wake: Wake::Turn,
        incarnation: Some(1),
        sig: None,
    }
}

pub(in crate::store) fn run_record(agent: &str, run: &str, state: AgentState) -> RunRecord {
    RunRecord {
        agent_id: AgentId::new(format!("{agent}@review")),
        incarnation: 1,
        run_id: RunId::new(run),
        model: None,
        permission_mode: None,
        state,
        since: clock::now(),
        pid: 1,
        start_time: 2,
        boot_id: "b".to_owned(),
        host: "h".to_owned(),
        heartbeat: None,
        current_tool: None,
        usage: Usage::default(),
        cost: Money::default(),
        delivered_seq: 0,
        turns: 0,
        background: 0,
        unanswered_shutdown: None,
        version: "1".to_owned(),
    }
}
