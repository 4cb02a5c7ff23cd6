//! The team every session has: made at its start, removed at a clean end if nobody needed it.

use super::context::Team;
use super::left;
use super::wake::WakeHub;
use crate::agent::context::TeamLabel;
use crate::agent::disk::Disk;
use crate::store::error::StoreError;
use crate::store::inbox::Inbox;
use crate::store::paths::Paths;
use crate::store::roster::Roster;
use crate::store::sign::Keys;
use crate::store::{asks, atomic, clock, lock, slug};
use crate::wire::ids::{AgentId, AgentName, SessionId, TeamName};
use crate::wire::settings::Durability;
use crate::wire::team::{TEAM_VERSION, TeamFile};
use std::path::Path;
use uuid::Uuid;

/// What a new team is called.
pub enum TeamTitle<'a> {
    /// `session-` and eight characters.
    Session,
    /// As the user or a blueprint says.
    Named {
        /// The display name.
        name: &'a str,
        /// What it is for.
        description: &'a str,
    },
}

/// Makes a team with this process as its leader.
pub async fn create(
    paths: &Paths,
    disk: &Disk,
    title: TeamTitle<'_>,
    session: &SessionId,
    durability: Durability,
) -> Result<Team, StoreError> {
    let file = team_file(title, session)?;
    let all = paths.clone();
    let team_paths = paths.team(&file.name);
    let made = team_paths.clone();
    let keys = disk
        .run(&team_paths.dir(), move || {
            all.ensure_root()?;
            Roster::create(&all, &file)?;
            let keys = Keys::create(&made)?;
            Inbox::new(&made, &AgentName::team_lead(), &keys, durability).create()?;
            if !lock::hold_for_life(&made.leader_lock(), &format!("leader of {}", made.dir().display()))? {
                return Err(StoreError::Exists { path: made.leader_lock() });
            }
            Ok(keys)
        })
        .await?;
    let hub = WakeHub::start(&team_paths);
    Ok(Team {
        label: TeamLabel::new(team_paths.name()),
        paths: team_paths,
        keys,
        disk: disk.clone(),
        hub,
        durability,
    })
}

/// The file of a new team of `session`.
pub fn team_file(title: TeamTitle<'_>, session: &SessionId) -> Result<TeamFile, StoreError> {
    let (name, display_name, description) = match title {
        TeamTitle::Session => {
            let text = format!("session-{}", &Uuid::new_v4().simple().to_string()[..8]);
            (slug::team_name(&text)?, text, String::new())
        }
        TeamTitle::Named { name, description } => {
            (slug::team_name(name)?, name.trim().to_owned(), description.to_owned())
        }
    };
    Ok(TeamFile {
        version: TEAM_VERSION,
        name: name.clone(),
        display_name,
        description,
        created_at: clock::now(),
        lead_agent_id: AgentId::member(&AgentName::team_lead(), &name),
        lead_session_id: session.clone(),
        hidden_pane_ids: Vec::new(),
        allowed_paths: Vec::new(),
        members: Vec::new(),
    })
}

/// Takes over the newest team that `session`, whose transcript is given, led, if it left one; `None` when it
/// did not.
///
/// # Errors
/// When it is led by another process, or cannot be read ([`left::find`]).
pub async fn take_over(
    paths: &Paths,
    disk: &Disk,
    transcript: &Path,
    session: &SessionId,
    durability: Durability,
) -> Result<Option<Team>, StoreError> {
    let (all, file, wanted) = (paths.clone(), transcript.to_owned(), session.clone());
    let dir = paths.teams();
    let found = disk.run(&dir, move || {
        let Some(name) = left::find(&all, &file, &wanted)? else { return Ok(None) };
        let lock = all.team(&name).leader_lock();
        if !lock::hold_for_life(&lock, &format!("leader of {name}"))? {
            return Err(StoreError::Exists { path: lock });
        }
        let team = all.team(&name);
        for dir in [team.dir(), team.inboxes(), team.run_dir(), team.asks_dir()] {
            atomic::sweep(&dir)?;
        }
        Ok(Some(name))
    });
    match found.await? {
        Some(name) => open(paths, disk, &name, durability).await.map(Some),
        None => Ok(None),
    }
}

/// Opens a team that is there, as a worker or a terminal that looks at it.
pub async fn open(
    paths: &Paths,
    disk: &Disk,
    name: &TeamName,
    durability: Durability,
) -> Result<Team, StoreError> {
    let team_paths = paths.team(name);
    let load = team_paths.clone();
    let keys = disk.run(&team_paths.dir(), move || Keys::load(&load)).await?;
    let hub = WakeHub::start(&team_paths);
    Ok(Team {
        label: TeamLabel::new(team_paths.name()),
        paths: team_paths,
        keys,
        disk: disk.clone(),
        hub,
        durability,
    })
}

/// The same without a watch, for a command that says one word and ends. Needs no place among the
/// watchers of the system, and makes no file.
pub fn open_unwatched(
    paths: &Paths,
    disk: &Disk,
    name: &TeamName,
    durability: Durability,
) -> Result<Team, StoreError> {
    let team_paths = paths.team(name);
    let keys = Keys::load(&team_paths)?;
    let hub = WakeHub::unwatched(&team_paths);
    Ok(Team {
        label: TeamLabel::new(team_paths.name()),
        paths: team_paths,
        keys,
        disk: disk.clone(),
        hub,
        durability,
    })
}

/// Removes a session's team unless it had a member, a task, an ask or mail; says whether it did. `keep` runs
/// right before that; when it fails, the team stays.
///
/// # Errors
/// Of `keep`, or when the team cannot be read or removed.
pub async fn remove_if_unused(
    team: &Team,
    keep: impl Fn() -> Result<(), StoreError> + Send + 'static,
) -> Result<bool, StoreError> {
    let (paths, inbox) = (team.paths.clone(), team.inbox(&AgentName::team_lead()));
    let dir = paths.dir();
    team.disk
        .run(&dir, move || {
            let team = Roster::load(&paths)?;
            let had_members = team.is_some_and(|r| !r.members.is_empty());
            let had_tasks = paths.tasks_counter().exists();
            if had_members || had_tasks || !asks::list(&paths)?.is_empty() || inbox.counts()?.last_seq > 0 {
                return Ok(false);
            }
            keep()?;
            Roster::remove_team(&paths)?;
            Ok(true)
        })
        .await
}

/// Removes a team of which nobody but this process knows.
pub async fn remove(team: &Team) -> Result<(), StoreError> {
    let paths = team.paths.clone();
    team.disk.run(&paths.dir(), move || Roster::remove_team(&paths)).await
}
