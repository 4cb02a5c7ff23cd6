//! Teams as a terminal sees them: found, looked at, chosen, without changing or watching anything.
//!
//! A damaged file never hides the rest: what it could have said is missing, and the file is named.

pub mod children;
pub mod kept;
pub mod row;

use super::environment::Environment;
use super::error::CliError;
use super::out::warning;
use crate::store::error::StoreError;
use crate::store::paths::{HOME_VARIABLE, Paths, TeamPaths};
use crate::store::roster::Roster;
use crate::store::{asks, inbox, ledger, lock, run, slug, watch};
use crate::wire::ask::AskStatus;
use crate::wire::error::ExitKind;
use crate::wire::ids::{AgentName, TeamName};
use crate::wire::ledger::LedgerFile;
use crate::wire::open::Open;
use crate::wire::run::AgentState;
use crate::wire::team::{Member, TeamFile};
use row::{Known, Row, Seen, judge, see};
use std::collections::BTreeMap;

/// Teams that a hint names.
const NAMED_TEAMS: usize = 10;

/// Where a command that only looks starts from: no settings are read, so a mistake in them is not in
/// its way.
pub struct Desk {
    /// The environment.
    pub environment: Environment,
    /// Where everything is.
    pub paths: Paths,
}

impl Desk {
    /// Reads the environment.
    pub fn new() -> Result<Self, CliError> {
        let environment = Environment::snapshot();
        environment.check(&[HOME_VARIABLE])?;
        let paths = Paths::resolve(&|key| environment.get_os(key))?;
        Ok(Self { environment, paths })
    }
}

/// One team as it is now.
pub struct TeamView {
    /// Its files.
    pub paths: TeamPaths,
    name: TeamName,
    /// Its roster; `None` when that cannot be read.
    pub roster: Option<Open<TeamFile>>,
    /// Whether a process holds the leader's lock, or its record's process lives.
    pub leader_alive: bool,
    /// The leader, then the members in the order they joined, the latest of each name.
    pub rows: Vec<Row>,
    /// What all of it has used, and its bounds; `None` for teams that keep no ledger.
    pub ledger: Option<LedgerFile>,
    /// What could not be read.
    pub troubles: Vec<StoreError>,
}

impl TeamView {
    /// Looks.
    pub fn look(paths: TeamPaths) -> Self {
        Self::look_for(paths, run::load_all, &|_| true)
    }

    /// Looks at the leader and at one other, as if nobody else were there.
    pub fn look_at(paths: TeamPaths, agent: &AgentName) -> Self {
        let lead = AgentName::team_lead();
        let of = |paths: &TeamPaths| {
            let mut both = Vec::from([lead.clone(), agent.clone()]);
            both.dedup();
            let loaded = both.into_iter().map(|name| (run::load(paths, &name), name));
            // One without a record has said nothing.
            Ok(loaded.filter_map(|(loaded, name)| Some((name, loaded.transpose()?))).collect())
        };
        Self::look_for(paths, of, &|name| name == agent)
    }

    /// Looks at the leader and those of the others that are wanted, by these records.
    fn look_for(
        paths: TeamPaths,
        records: impl FnOnce(&TeamPaths) -> Result<Vec<(AgentName, run::Loaded)>, StoreError>,
        wanted: &dyn Fn(&AgentName) -> bool,
    ) -> Self {
        let mut troubles = Vec::new();
        let mut keep = |error: StoreError| troubles.push(error);
        let roster = Roster::load(&paths).unwrap_or_else(|error| {
            keep(error);
            None
        });
        // Not one that is being removed just now.
        if roster.is_none() && troubles.is_empty() && paths.dir().is_dir() {
            troubles.push(StoreError::NotFound { path: paths.team_file() });
        }
        let mut keep = |error: StoreError| troubles.push(error);
        let said: BTreeMap<AgentName, run::Loaded> =
            records(&paths).map(BTreeMap::from_iter).unwrap_or_else(|error| {
                keep(error);
                BTreeMap::new()
            });
        let ledger = ledger::kept(&paths.ledger()).unwrap_or_else(|error| {
            keep(error);
            None
        });
        let shared = watch::is_network_fs(&paths.dir());
        let lead = AgentName::team_lead();
        // A lock whose holder's process is gone is that of a new leader, or is about to be let go.
        let lead_gone = match said.get(&lead) {
            Some(Ok(record)) => see(&record.process(), shared) == Seen::Gone,
            Some(Err(_)) | None => false,
        };
        let look = if lead_gone { lock::stays_held } else { lock::is_held };
        let holds = look(&paths.leader_lock()).unwrap_or_else(|error| {
            keep(error);
            false
        });
        let team = paths.name();
        let judged = |name: &AgentName, member: Option<&Member>| {
            let known = Known { team: &team, name, member, leader_holds: holds };
            judge(&known, said.get(name), |process| see(process, shared))
        };
        let mut rows = vec![judged(&lead, None)];
        match &roster {
            Some(roster) => {
                let latest = latest(roster).into_iter().filter(|member| wanted(&member.agent_name));
                rows.extend(latest.map(|member| judged(&member.agent_name, Some(member))));
            }
            // The agents that have said something are there all the same.
            None => rows.extend(said.keys().filter(|name| !name.is_lead()).map(|name| judged(name, None))),
        }
        // Of an agent that said nothing that can be read, the system may still know a process.
        let says = |row: &Row| matches!(said.get(&row.name), Some(Ok(_))) || row.name.is_lead();
        if rows.iter().any(|row| !says(row)) {
            let workers = row::workers(&paths);
            for row in rows.iter_mut().filter(|row| !says(row)) {
                if let Some((_, pid)) = workers.iter().find(|(name, _)| name == row.name.as_str()) {
                    (row.lives, row.pid) = (true, Some(*pid));
                    if row.state == AgentState::Lost.as_str() {
                        row.state = "unknown";
                    }
                    row.evidence = format!("pid {pid} runs with its spec; {}", row.evidence);
                }
            }
        }
        troubles.extend(said.into_values().filter_map(Result::err));
        // What a waiting agent waits for is in its ask, not in its own record.
        if rows.iter().any(|row| row.state == AgentState::Waiting.as_str()) {
            for (ask, status, _) in asks::list(&paths).unwrap_or_default() {
                let waits =
                    |row: &&mut Row| row.name == ask.reply_to && row.state == AgentState::Waiting.as_str();
                if status == AskStatus::Open
                    && let Some(row) = rows.iter_mut().find(waits)
                {
                    row.task = Some(ask.description);
                }
            }
        }
        let leader_alive = holds || rows[0].lives;
        Self { name: team, paths, roster, leader_alive, rows, ledger, troubles }
    }

    /// Its name.
    pub fn name(&self) -> &TeamName {
        &self.name
    }
    /// The name as given.
    pub fn display(&self) -> &str {
        self.roster.as_ref().map_or(self.name().as_str(), |roster| &roster.display_name)
    }
    /// The leader's row.
    pub fn leader(&self) -> &Row {
        &self.rows[0] // `look` puts it there
    }
    /// The rows of the others.
    pub fn members(&self) -> &[Row] {
        &self.rows[1..]
    }
    /// The name of an agent as it was given.
    pub fn called<'a>(&'a self, name: &'a AgentName) -> &'a str {
        self.rows.iter().find(|row| row.name == *name).map_or(name.as_str(), |row| &row.display)
    }
    /// Whether anything of it runs.
    pub fn lives(&self) -> bool {
        self.leader_alive || self.rows.iter().any(|row| row.lives)
    }
    /// `running`; `leaderless`: members live and no leader; `lost`: nothing lives and something ended
    /// without a word; `stopped`.
    pub fn state(&self) -> &'static str {
        // A verdict "lost" has been said and read; only what nobody has noted yet counts.
        let unnoted = |row: &Row| row.state == AgentState::Lost.as_str() && !self.is_noted(&row.name);
        match (self.leader_alive, self.lives()) {
            (true, _) => "running",
            (false, true) => "leaderless",
            (false, false) if self.rows.iter().any(unnoted) => "lost",
            (false, false) => "stopped",
        }
    }

    fn is_noted(&self, name: &AgentName) -> bool {
        let member = self.roster.as_ref().and_then(|r| latest(r).into_iter().find(|m| &m.agent_name == name));
        member.is_some_and(|member| member.ended.is_some())
    }
    /// Names every file that could not be read, on standard error; whether there was one.
    pub fn warn(&self) -> bool {
        self.troubles.iter().for_each(warning);
        !self.troubles.is_empty()
    }
}

/// The latest of each name, in the order they joined.
fn latest(roster: &TeamFile) -> Vec<&Member> {
    let members = || roster.members.iter().map(|m| &m.known);
    members()
        .filter(|m| !members().any(|o| o.agent_name == m.agent_name && o.incarnation > m.incarnation))
        .collect()
}

/// All teams, by name.
pub fn all(paths: &Paths) -> Result<Vec<TeamView>, CliError> {
    let names = Roster::list(paths)?;
    Ok(names.iter().map(|name| TeamView::look(paths.team(name))).collect())
}

/// The team that is meant: the one named, else the one that runs.
pub fn choose(paths: &Paths, wanted: Option<&str>) -> Result<TeamView, CliError> {
    let names = Roster::list(paths)?;
    if let Some(wanted) = wanted {
        let name = slug::team_name(wanted).ok().filter(|name| names.contains(name));
        return match name {
            Some(name) => Ok(TeamView::look(paths.team(&name))),
            None => Err(not_found(format!("there is no team {wanted:?}"), "team", &names)),
        };
    }
    let mut live: Vec<TeamView> =
        names.iter().map(|name| TeamView::look(paths.team(name))).filter(TeamView::lives).collect();
    match live.len() {
        1 => Ok(live.remove(0)),
        0 if names.is_empty() => Err(not_found("no team is running".to_owned(), "team", &names)),
        0 => {
            let mut ended: Vec<String> = names.iter().take(NAMED_TEAMS).map(ToString::to_string).collect();
            if names.len() > NAMED_TEAMS {
                ended.push(format!("and {} more (`festoon team list`)", names.len() - NAMED_TEAMS));
            }
            let hint = format!("say which of those that have ended: {}", ended.join(", "));
            Err(CliError::new(ExitKind::Failed, "not_found", "no team is running", hint))
        }
        _ => {
            let names: Vec<String> = live.iter().map(|team| team.name().to_string()).collect();
            let message = format!("several teams are running: {}", names.join(", "));
            Err(CliError::usage(message, "say which: --team NAME, or NAME before the agent"))
        }
    }
}

/// Something that is not there, with what is.
pub fn not_found<T: ToString>(message: String, what: &str, there: &[T]) -> CliError {
    let there: Vec<String> = there.iter().map(ToString::to_string).collect();
    let hint = if there.is_empty() {
        format!("there is no {what} at all; `festoon demo` shows a team at work")
    } else {
        format!("there is: {}", there.join(", "))
    };
    CliError::new(ExitKind::Failed, "not_found", message, hint)
}

/// `TEAM`, `TEAM/AGENT` or `AGENT@TEAM`, as typed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Target {
    /// The team.
    pub team: Option<String>,
    /// The agent.
    pub agent: Option<String>,
}

impl Target {
    /// Splits it.
    pub fn parse(text: Option<&str>) -> Self {
        let owned = |text: &str| Some(text.to_owned()).filter(|t| !t.is_empty());
        match text {
            None => Self::default(),
            Some(text) => match (text.split_once('/'), text.split_once('@')) {
                (Some((team, agent)), _) | (None, Some((agent, team))) => {
                    Self { team: owned(team), agent: owned(agent) }
                }
                (None, None) => Self { team: owned(text), agent: None },
            },
        }
    }
}

/// The inbox that is meant by a name as typed.
pub fn inbox_owner(view: &TeamView, typed: &str) -> Result<AgentName, CliError> {
    let owners = inbox::owners(&view.paths)?;
    let found = match typed.trim() {
        "main" => Some(AgentName::team_lead()),
        typed => match AgentName::new(typed) {
            Ok(name) if owners.contains(&name) => Some(name),
            Ok(_) | Err(_) => slug::agent_name(typed).ok(),
        },
    };
    found.filter(|name| owners.contains(name)).ok_or_else(|| {
        let names: Vec<&str> = owners.iter().map(|name| view.called(name)).collect();
        not_found(format!("team {} has no agent {typed:?}", view.name()), "agent", &names)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_written_in_three_ways() {
        let target = |text| {
            let Target { team, agent } = Target::parse(text);
            (team.unwrap_or_default(), agent.unwrap_or_default())
        };
        let pair = |team: &str, agent: &str| (team.to_owned(), agent.to_owned());
        assert_eq!(target(None), pair("", ""));
        assert_eq!(target(Some("review")), pair("review", ""));
        assert_eq!(target(Some("review/anna")), pair("review", "anna"));
        assert_eq!(target(Some("anna@review")), pair("review", "anna"));
        assert_eq!(target(Some("/anna")), pair("", "anna"));
    }
}
