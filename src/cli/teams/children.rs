//! Agents without a place in the roster: subagents, forks, and what works in the background, each below the
//! leader or the member in whose process it runs.
//!
//! Owns how they are found on disk and what their state rests on: that process, and that the run of it
//! which started them still goes on. Never asks the process itself, so that any terminal sees the same.

use super::TeamView;
use super::kept::{Files, Kept};
use super::row::{Row, Seen, see};
use crate::store::error::StoreError;
use crate::store::paths::{Paths, ProjectPaths};
use crate::store::{background, clock, lock, run, transcript, watch};
use crate::wire::ask::Ask;
use crate::wire::background::{TaskRecord, TaskState};
use crate::wire::ids::{AgentId, AgentName, BackgroundId, SessionId, TeamName, is_subagent};
use crate::wire::run::{AgentState, RunRecord};
use crate::wire::time::Timestamp;
use crate::wire::transcript::AgentMeta;
use crate::wire::usage::Money;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::MutexGuard;
use std::time::{Duration, SystemTime};

/// One of them.
#[derive(Debug, Clone)]
pub struct Child {
    /// Its line.
    pub row: Row,
    /// What it is.
    pub meta: AgentMeta,
    /// The leader or the member below which it works.
    pub root: AgentName,
    /// Its transcript.
    pub transcript: PathBuf,
}

/// Which of them are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Those at work, those that wait for a place, and those whose process went away under them.
    AtWork,
    /// Those that have ended as well.
    All,
}

/// Where sessions are, by the team they work for.
#[derive(Clone)]
pub struct Places {
    sessions: BTreeMap<TeamName, Vec<(ProjectPaths, SessionId)>>,
    kept: Kept,
}

impl Places {
    /// Looks for the sessions of these teams: those they name, and those that a living process has left for
    /// another conversation and whose agents may work on.
    pub fn find(paths: &Paths, teams: &[TeamView]) -> Result<Self, StoreError> {
        Self::find_again(paths, teams, Kept::default())
    }

    /// The same, with what earlier looks have read.
    pub fn find_again(paths: &Paths, teams: &[TeamView], kept: Kept) -> Result<Self, StoreError> {
        let mut found = BTreeMap::<TeamName, Vec<(ProjectPaths, SessionId)>>::new();
        let named: BTreeMap<&SessionId, &TeamName> = teams
            .iter()
            .filter_map(|team| team.roster.as_ref().map(|roster| (&roster.lead_session_id, team.name())))
            .collect();
        if named.is_empty() {
            return Ok(Self { sessions: found, kept });
        }
        let lives: HashSet<&TeamName> =
            teams.iter().filter(|team| team.lives()).map(TeamView::name).collect();
        for project in transcript::projects(paths)? {
            let mut leads_here = false;
            for (session, team) in &named {
                if project.sidechains(session).is_dir() {
                    leads_here |= lives.contains(team);
                    found.entry((*team).clone()).or_default().push((project.clone(), (*session).clone()));
                }
            }
            // A conversation is left for another of the same directory.
            if !leads_here {
                continue;
            }
            for (session, _) in transcript::sessions(&project)? {
                let open = !named.contains_key(&session)
                    && lock::is_held(&project.session_lock(&session)).unwrap_or(false);
                if let Some(team) = open.then(|| team_of(&project, &session)).flatten()
                    && lives.contains(&team)
                {
                    found.entry(team).or_default().push((project.clone(), session));
                }
            }
        }
        Ok(Self { sessions: found, kept })
    }

    /// The transcript of a leader or a member; `None` when it has none yet.
    pub fn transcript(&self, team: &TeamView, row: &Row) -> Option<PathBuf> {
        let roster = team.roster.as_ref()?;
        let same = roster.members.iter().filter(|member| member.agent_name == row.name);
        let incarnation = same.map(|member| member.incarnation).max();
        let of = |(project, session): &(ProjectPaths, SessionId)| match incarnation {
            None if *session == roster.lead_session_id => Some(project.transcript(session)),
            None => None,
            Some(incarnation) => Some(project.member_sidechain(session, &row.agent_id, incarnation)),
        };
        self.sessions.get(team.name())?.iter().filter_map(of).find(|path| path.is_file())
    }

    /// The agents of a team that have no row in its roster, those below one agent after one another and each
    /// behind the one that started it.
    pub fn children(&self, team: &TeamView, wanted: Wanted) -> Vec<Child> {
        let Some(sessions) = self.sessions.get(team.name()) else { return Vec::new() };
        let mut look = Look::at(team, self.kept.files());
        let mut all = Vec::new();
        for (project, session) in sessions {
            // A directory that cannot be read has nothing to show; its session says so.
            let metas = transcript::look_sidechains(project, session, &mut look.files.metas);
            let metas = metas.unwrap_or_default().into_iter();
            all.extend(metas.filter_map(|meta| look.child(project, session, &meta, wanted)));
        }
        let mut sorted = Vec::with_capacity(all.len());
        for row in &team.rows {
            let below = |child: &Child| child.root == row.name;
            let (mut here, rest): (Vec<Child>, Vec<Child>) = all.into_iter().partition(below);
            all = rest;
            descend(&row.agent_id, &mut here, &mut sorted);
            // Those whose parent is gone from the list.
            sorted.append(&mut here);
        }
        sorted
    }

    /// One agent that has no row in the roster, by its own files alone; `None` when there is none.
    pub fn child(&self, team: &TeamView, agent: &AgentId) -> Option<Child> {
        let mut look = Look::at(team, self.kept.files());
        self.sessions.get(team.name())?.iter().find_map(|(project, session)| {
            let file = project.sidechain_meta(session, agent);
            let meta = transcript::look_meta(&file, &mut look.files.metas).ok().flatten()?;
            look.child(project, session, &meta, Wanted::All)
        })
    }

    /// Whether the session that a team works in now is among these.
    pub fn knows(&self, team: &TeamView) -> bool {
        let sessions = self.sessions.get(team.name()).map(Vec::as_slice).unwrap_or_default();
        team.roster
            .as_ref()
            .is_some_and(|roster| sessions.iter().any(|(_, session)| *session == roster.lead_session_id))
    }
}

/// The children of one agent and theirs, taken out of `left`.
fn descend(parent: &AgentId, left: &mut Vec<Child>, sorted: &mut Vec<Child>) {
    let (mine, rest): (Vec<Child>, Vec<Child>) =
        std::mem::take(left).into_iter().partition(|child| child.meta.parent_agent_id == *parent);
    *left = rest;
    for child in mine {
        let id = child.meta.agent_id.clone();
        sorted.push(child);
        descend(&id, left, sorted);
    }
}

/// The team that a session's first line names.
fn team_of(project: &ProjectPaths, session: &SessionId) -> Option<TeamName> {
    let mut team = None;
    transcript::read_while(&project.transcript(session), |_, line| {
        team = line.ok().and_then(|line| line.team_name);
        false
    })
    .ok()?;
    team
}

/// What is looked at once for all children of a team.
struct Look<'a> {
    team: &'a TeamView,
    files: MutexGuard<'a, Files>,
    /// Read with the first of them that may wait for one.
    asks: Option<Vec<Ask>>,
    shared: bool,
}

impl<'a> Look<'a> {
    fn at(team: &'a TeamView, files: MutexGuard<'a, Files>) -> Self {
        Self { team, files, asks: None, shared: watch::is_network_fs(&team.paths.dir()) }
    }

    fn child(
        &mut self,
        project: &ProjectPaths,
        session: &SessionId,
        meta: &AgentMeta,
        wanted: Wanted,
    ) -> Option<Child> {
        let root = meta.root.clone()?;
        // Members have their row; and of those that have ended there are more and more.
        if !is_subagent(meta.agent_id.as_str()) || (wanted == Wanted::AtWork && is_over(&meta.status)) {
            return None;
        }
        let task = background::load(project, session, &BackgroundId::of_agent(&meta.agent_id)).ok().flatten();
        let status = task.as_ref().map_or(meta.status.as_str(), |task| task.state.as_str());
        if wanted == Wanted::AtWork && is_over(status) {
            return None;
        }
        let mut row = self.row(meta, &root, task.as_ref());
        if is_over(status) {
            row.state = if status == TaskState::Failed.as_str() { "failed" } else { "stopped" };
            row.evidence = format!("{status}, as its record says");
        } else {
            self.judge(&mut row, &root, status == TaskState::Queued.as_str());
        }
        let transcript = project.sidechain(session, &meta.agent_id);
        if row.tokens == 0 && row.lives {
            // The ledger keeps the rows of those that used most.
            row.tokens = self.files.tokens_of(&transcript);
            row.cost = if row.tokens == 0 { row.cost } else { Money(None) };
        }
        Some(Child { row, meta: meta.clone(), root, transcript })
    }

    /// The open ask of an agent.
    fn ask_of(&mut self, agent: &AgentId) -> Option<&Ask> {
        let (team, files) = (self.team, &mut self.files);
        // What cannot be read is among the troubles of the team.
        let look = || files.asks(team.name()).look(&team.paths).unwrap_or_default();
        self.asks.get_or_insert_with(look).iter().find(|ask| ask.agent_id == *agent)
    }

    fn row(&self, meta: &AgentMeta, root: &AgentName, task: Option<&TaskRecord>) -> Row {
        let name = meta.name.as_deref().unwrap_or(meta.agent_id.as_str());
        let used = self.team.ledger.as_ref();
        let used =
            used.and_then(|file| file.agents.iter().find(|row| row.agent_id == meta.agent_id.as_str()));
        let backend = self.team.rows.iter().find(|row| row.name == *root).and_then(|row| row.backend);
        Row {
            agent_id: meta.agent_id.clone(),
            name: AgentName::new(name).unwrap_or_else(|_| root.clone()),
            team: self.team.name().clone(),
            kind: Some(if meta.is_fork { "fork".to_owned() } else { meta.agent_type.clone() }),
            backend,
            state: AgentState::Working.as_str(),
            evidence: String::new(),
            model: Some(meta.model.clone()),
            task: Some(meta.description.clone()),
            tokens: used.map_or(0, |row| row.used.usage.total()),
            cost: used.map_or_else(Money::default, |row| row.used.cost),
            since: Some(task.map_or_else(|| meta.created_at.clone(), |task| task.since.clone())),
            pid: None,
            pane_id: None,
            parent: Some(meta.parent_agent_id.clone()),
            display: name.to_owned(),
            color: None,
            lives: false,
        }
    }

    /// Whether one that is said to work does: by the process of its root, and by when that one began.
    fn judge(&mut self, row: &mut Row, root: &AgentName, queued: bool) {
        let record = run::look(&self.team.paths, root, &mut self.files.runs);
        let Ok(Some(record)) = record else {
            row.state = AgentState::Lost.as_str();
            row.evidence = format!("nothing is known of {root}, below which it worked");
            return;
        };
        let earlier = row.since.as_ref().is_some_and(|since| is_before_run(since, &record));
        let seen = if record.state.is_over() { Seen::Gone } else { see(&record.process(), self.shared) };
        let pid = record.pid;
        match seen {
            Seen::Gone => row.evidence = format!("pid {pid} of {root} gone"),
            Seen::Running | Seen::Elsewhere if earlier => {
                row.evidence = format!("started by an earlier process of {root}, which is gone");
            }
            Seen::Running => {
                (row.lives, row.pid) = (true, Some(pid));
                row.evidence = format!("pid {pid} of {root} running");
            }
            Seen::Elsewhere => {
                row.lives = true;
                row.evidence = format!("said so on host {}, which cannot be seen from here", record.host);
            }
        }
        if !row.lives {
            row.state = AgentState::Lost.as_str();
        } else if queued {
            row.state = AgentState::Starting.as_str();
            row.task = row.task.take().map(|task| format!("waits for a place: {task}"));
        } else if let Some(ask) = self.ask_of(&row.agent_id) {
            row.state = AgentState::Waiting.as_str();
            row.since = Some(ask.created_at.clone());
            row.task = Some(ask.description.clone());
        }
    }
}

/// Whether something was begun before this run of an agent.
fn is_before_run(since: &Timestamp, record: &RunRecord) -> bool {
    let run = record.run_id.begun_ms().map(|ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms));
    clock::parse(since).zip(run).is_some_and(|(since, run)| since < run)
}

/// Whether a record says that its agent has come to its end.
fn is_over(status: &str) -> bool {
    ![TaskState::Queued, TaskState::Running].iter().any(|state| state.as_str() == status)
}

#[cfg(test)]
mod tests;
