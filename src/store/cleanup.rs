//! Removing what is old: sessions, logs, and session teams that nobody used (contract §16, "Old things").
//!
//! Promises that nothing goes that holds work: what a living process has locked, a session whose team
//! is there, a team with a member, an ask, mail or a task. What cannot be looked at stays. At most once
//! a day, whoever starts; a process that dies in the middle leaves the rest to the next one.

use super::asks;
use super::atomic;
use super::error::StoreError;
use super::inbox::Inbox;
use super::lock::{self, Missing, Patience};
use super::own::{self, Open};
use super::paths::{Paths, ProjectPaths, TeamPaths};
use super::roster::Roster;
use super::sign::Keys;
use super::transcript;
use crate::wire::ids::{AgentName, SessionId};
use crate::wire::settings::Durability;
use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// How often it is worth looking.
const EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// How the teams are called that sessions make for themselves.
const SESSION_TEAM: &str = "session-";

/// How much was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Sessions with all their files.
    pub sessions: usize,
    /// Log files.
    pub logs: usize,
    /// Teams.
    pub teams: usize,
}

/// Removes what was last touched before `before`, unless that was done within a day; `None` then.
pub fn clean(paths: &Paths, before: SystemTime) -> Result<Option<Cleaned>, StoreError> {
    let stamp = paths.cleaned();
    let recent = |at: SystemTime| at.elapsed().is_ok_and(|age| age < EVERY);
    if stamp.metadata().and_then(|m| m.modified()).is_ok_and(recent) {
        return Ok(None);
    }
    let file = own::open_or_make(&stamp, Open::Update)?;
    file.set_modified(SystemTime::now()).map_err(|e| StoreError::io("write", &stamp, e))?;
    let mut cleaned = Cleaned { logs: logs(&paths.logs(), before), ..Cleaned::default() };
    let mut in_use = HashSet::new();
    for name in Roster::list(paths)? {
        let team = paths.team(&name);
        if is_old(&team.team_file(), before) && remove_team(&team).unwrap_or(false) {
            cleaned.teams += 1;
        } else if let Ok(Some(file)) = Roster::load(&team) {
            in_use.insert(file.known.lead_session_id);
            in_use.extend(of_members(&team));
        } else {
            // A roster that cannot be read may lead any session.
            return Ok(Some(cleaned));
        }
    }
    for project in transcript::projects(paths)? {
        for (session, at) in transcript::sessions(&project)? {
            if at < before
                && !in_use.contains(&session)
                && remove_session(&project, &session).unwrap_or(false)
            {
                cleaned.sessions += 1;
            }
        }
    }
    Ok(Some(cleaned))
}

/// The sessions below which the transcripts of a team's members lie: its leader may have begun another
/// one since.
fn of_members(team: &TeamPaths) -> Vec<SessionId> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        lead_session_id: SessionId,
    }
    let entries = std::fs::read_dir(team.specs_dir()).into_iter().flatten().flatten();
    let spec = |path: &Path| atomic::read_json::<Spec>(path).ok().flatten();
    entries.filter_map(|entry| spec(&entry.path())).map(|spec| spec.lead_session_id).collect()
}

fn is_old(path: &Path, before: SystemTime) -> bool {
    path.symlink_metadata().and_then(|m| m.modified()).is_ok_and(|at| at < before)
}

fn logs(dir: &Path, before: SystemTime) -> usize {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let old = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "log") && is_old(path, before));
    old.filter(|path| std::fs::remove_file(path).is_ok()).count()
}

/// Removes a session's team unless somebody leads it or it holds something.
fn remove_team(team: &TeamPaths) -> Result<bool, StoreError> {
    if !team.name().as_str().starts_with(SESSION_TEAM) {
        return Ok(false);
    }
    let removed = lock::with_locked_file(&team.leader_lock(), Missing::Make, Patience::Once, |_| {
        let members = Roster::load(team)?.is_none_or(|file| !file.known.members.is_empty());
        let inbox = Inbox::new(team, &AgentName::team_lead(), &Keys::load(team)?, Durability::Process);
        let holds = members
            || !asks::list(team)?.is_empty()
            || inbox.counts()?.last_seq > 0
            || team.tasks_dir().read_dir().is_ok_and(|mut tasks| tasks.next().is_some());
        if holds {
            return Ok(false);
        }
        Roster::remove_team(team)?;
        Ok(true)
    })?;
    Ok(removed.unwrap_or(false))
}

/// Removes a session unless a process has it open.
fn remove_session(project: &ProjectPaths, session: &SessionId) -> Result<bool, StoreError> {
    let lock_file = project.session_lock(session);
    let removed = lock::with_locked_file(&lock_file, Missing::Make, Patience::Once, |_| {
        let dir = project.session_dir(session);
        match std::fs::remove_dir_all(&dir) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(StoreError::io("remove", &dir, e)),
        }
        for path in [project.transcript(session), lock_file.clone()] {
            match std::fs::remove_file(&path) {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(StoreError::io("remove", &path, e)),
            }
        }
        Ok(())
    })?;
    Ok(removed.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{clock, slug};
    use crate::wire::ids::{AgentId, TeamName};
    use crate::wire::team::{TEAM_VERSION, TeamFile};
    use std::fs;

    fn age(path: &Path, days: u64) {
        let then = SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
        fs::File::open(path).and_then(|f| f.set_modified(then)).expect("ages");
    }

    fn session(paths: &Paths, id: &str, days: u64) -> SessionId {
        let (project, id) = (paths.project(Path::new("/p")), SessionId::new(id));
        project.make_session(&id).expect("makes");
        fs::write(project.transcript(&id), "{}\n").expect("writes");
        fs::write(project.output(&id, "t"), "long").expect("writes");
        age(&project.transcript(&id), days);
        id
    }

    fn team(paths: &Paths, name: &str, session: &SessionId, days: u64) -> TeamPaths {
        let name: TeamName = slug::team_name(name).expect("a name");
        let file = TeamFile {
            version: TEAM_VERSION,
            name: name.clone(),
            display_name: name.to_string(),
            description: String::new(),
            created_at: clock::now(),
            lead_agent_id: AgentId::member(&AgentName::team_lead(), &name),
            lead_session_id: session.clone(),
            hidden_pane_ids: Vec::new(),
            allowed_paths: Vec::new(),
            members: Vec::new(),
        };
        let team = Roster::create(paths, &file).expect("makes");
        let keys = Keys::create(&team).expect("keys");
        Inbox::new(&team, &AgentName::team_lead(), &keys, Durability::Process).create().expect("an inbox");
        age(&team.team_file(), days);
        team
    }

    #[test]
    fn what_is_old_goes_and_what_holds_work_stays() {
        let dir = tempfile::tempdir().expect("temp dir");
        let paths = Paths::from_home(dir.path());
        paths.ensure_root().expect("root");
        let project = paths.project(Path::new("/p"));
        let (old, young, open, leads) = (
            session(&paths, "old", 40),
            session(&paths, "young", 1),
            session(&paths, "open", 40),
            session(&paths, "leads", 40),
        );
        assert!(lock::hold_for_life(&project.session_lock(&open), "test").expect("locks"));
        let unused = team(&paths, "session-1", &old, 40);
        let asked = team(&paths, "session-2", &leads, 40);
        fs::write(asked.tasks_dir().join("1.json"), "{}").expect("writes");
        let led = team(&paths, "session-3", &young, 40);
        assert!(lock::hold_for_life(&led.leader_lock(), "test").expect("locks"));
        let named = team(&paths, "mine", &young, 40);
        let log = paths.logs().join("2026-01-01-7.log");
        fs::write(&log, "x").expect("writes");
        age(&log, 40);

        let before = SystemTime::now() - Duration::from_secs(30 * 24 * 60 * 60);
        let cleaned = clean(&paths, before).expect("cleans");
        assert_eq!(cleaned, Some(Cleaned { sessions: 1, logs: 1, teams: 1 }));
        let left = |id: &SessionId| {
            [project.transcript(id), project.session_dir(id), project.session_lock(id)].map(|p| p.exists())
        };
        assert_eq!(left(&old), [false; 3]);
        assert_eq!(left(&open), [true; 3]);
        for id in [&young, &leads] {
            assert_eq!(left(id)[..2], [true; 2], "{id}");
        }
        let there = [&unused, &asked, &led, &named].map(|team| team.dir().exists());
        assert_eq!(there, [false, true, true, true]);
        assert_eq!(clean(&paths, before).expect("looks"), None, "once a day");
    }
}
