//! A team as one process sees it: its files, keys and wake-ups.

use super::wake::{Topic, WakeHub};
use crate::agent::context::TeamLabel;
use crate::agent::disk::Disk;
use crate::store::error::StoreError;
use crate::store::inbox::Inbox;
use crate::store::paths::TeamPaths;
use crate::store::roster::Roster;
use crate::store::sign::Keys;
use crate::store::{clock, events};
use crate::wire::event::{Event, EventKind};
use crate::wire::ids::{AgentName, TeamName};
use crate::wire::open::Open;
use crate::wire::settings::Durability;
use crate::wire::team::{BackendType, Member, TeamFile};
use serde_json::{Map, Value};

/// The shared handle.
#[derive(Clone)]
pub struct Team {
    /// Its name, as the agents of this process are told it.
    pub label: TeamLabel,
    /// Its files.
    pub paths: TeamPaths,
    /// Its keys.
    pub keys: Keys,
    /// The store thread.
    pub disk: Disk,
    /// Wake-ups.
    pub hub: WakeHub,
    /// What "stored" survives.
    pub durability: Durability,
}

impl Team {
    /// Its name; the leader may change it while nobody is in it.
    pub fn name(&self) -> TeamName {
        self.paths.name()
    }

    /// The inbox of an agent, whether or not there is one.
    pub fn inbox(&self, agent: &AgentName) -> Inbox {
        Inbox::new(&self.paths, agent, &self.keys, self.durability)
    }

    /// The roster as it is now.
    pub async fn roster(&self) -> Result<Open<TeamFile>, StoreError> {
        let paths = self.paths.clone();
        let file = paths.team_file();
        let missing = file.clone();
        let found = self.disk.run(&file, move || Roster::load(&paths)).await?;
        found.ok_or(StoreError::NotFound { path: missing })
    }

    /// The member with this name, of its latest incarnation.
    pub async fn member(&self, name: &AgentName) -> Result<Option<Member>, StoreError> {
        let roster = self.roster().await?;
        Ok(latest(&roster, name).cloned())
    }

    /// Those of `living` that cannot outlive their leader; the others have processes of their own.
    pub async fn bound_to_leader(&self, living: &[AgentName]) -> Result<Vec<AgentName>, StoreError> {
        let roster = self.roster().await?;
        let in_process = |name: &&AgentName| {
            latest(&roster, name).is_none_or(|m| m.backend_type == BackendType::InProcess)
        };
        Ok(living.iter().filter(in_process).cloned().collect())
    }

    /// Appends to the event log; a failure is logged and shown by `doctor`, never fatal.
    pub async fn log(&self, event: EventKind, agent: &AgentName, incarnation: u32, fields: Value) {
        let fields = match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        let line =
            Event { ts: clock::now(), event, team: self.name(), agent: agent.clone(), incarnation, fields };
        let paths = self.paths.clone();
        let written = self.disk.run(&self.paths.events(), move || events::append(&paths, &line)).await;
        self.hub.poke(Topic::Team);
        self.hub.poke(Topic::Log);
        if let Err(error) = written {
            tracing::warn!(%error, "the event log could not be written");
        }
    }
}

/// The member with this name that joined last.
pub fn latest<'a>(roster: &'a TeamFile, name: &AgentName) -> Option<&'a Member> {
    roster.members.iter().map(|m| &m.known).filter(|m| &m.agent_name == name).max_by_key(|m| m.incarnation)
}
