//! Which agent is meant, and where it is.

use crate::cli::error::CliError;
use crate::cli::teams::children::{Child, Places, Wanted};
use crate::cli::teams::row::Row;
use crate::cli::teams::{self, TeamView};
use crate::store::paths::Paths;
use crate::store::slug;
use crate::wire::error::ExitKind;
use crate::wire::ids::AgentName;
use crate::wire::run::AgentState;
use std::path::PathBuf;

/// Letters of an id from which on it counts.
const ID_LETTERS: usize = 4;
/// Agents that an error names.
const NAMED: usize = 20;

/// An agent.
#[derive(Debug, Clone)]
pub struct Target {
    /// How it is.
    pub row: Row,
    /// Whose inbox takes what is said to it: its own name, or its id when it has none in the team.
    pub inbox: AgentName,
    /// Whether it has a place in the team.
    pub is_member: bool,
    /// The leader or the member in whose process it runs.
    root: AgentName,
    /// Its transcript; a member that has said nothing yet has none.
    pub transcript: Option<PathBuf>,
}

/// Finds it by its name, its id or the beginning of that, in one team or in all that run.
pub fn find(paths: &Paths, team: Option<&str>, typed: &str) -> Result<Target, CliError> {
    let teams = match team {
        Some(team) => vec![teams::choose(paths, Some(team))?],
        None => {
            let all = teams::all(paths)?;
            let running: Vec<TeamView> = all.into_iter().filter(TeamView::lives).collect();
            // None: the error of the choice says what there is.
            if running.is_empty() { vec![teams::choose(paths, None)?] } else { running }
        }
    };
    let places = Places::find(paths, &teams)?;
    let mut found: Vec<Target> = teams.iter().flat_map(|team| matching(team, &places, typed)).collect();
    // A whole name or id is not the beginning of another.
    if found.iter().any(|target| is_exactly(&target.row, typed)) {
        found.retain(|target| is_exactly(&target.row, typed));
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(nobody(&teams, &places, typed)),
        _ => {
            let all: Vec<String> =
                found.iter().map(|target| format!("{}@{}", target.row.name, target.row.team)).collect();
            let message = format!("{typed:?} may be {}", all.join(" or "));
            Err(CliError::usage(message, "say which: NAME@TEAM, or more of the id"))
        }
    }
}

/// One who looks at an agent again and again, at its own files alone.
#[derive(Clone)]
pub struct Watch {
    paths: Paths,
    places: Option<Places>,
}

impl Watch {
    /// Nothing is known yet.
    pub fn new(paths: Paths) -> Self {
        Self { paths, places: None }
    }

    /// How an agent is now; `None` when it is gone.
    pub fn look(&mut self, target: &Target) -> Option<Target> {
        let team = TeamView::look_at(self.paths.team(&target.row.team), &target.root);
        // Where its session is, all sessions are searched for: once, and when the leader began another one.
        let places = match self.places.take().filter(|places| places.knows(&team)) {
            Some(places) => places,
            None => Places::find(&self.paths, std::slice::from_ref(&team)).ok()?,
        };
        let now = match target.is_member {
            true => team
                .rows
                .iter()
                .find(|row| row.name == target.row.name)
                .map(|row| member(&team, &places, row)),
            false => places.child(&team, &target.row.agent_id).map(child),
        };
        self.places = Some(places);
        now
    }
}

fn all(team: &TeamView, places: &Places) -> Vec<Target> {
    let members = team.rows.iter().map(|row| member(team, places, row));
    members.chain(places.children(team, Wanted::All).into_iter().map(child)).collect()
}

fn member(team: &TeamView, places: &Places, row: &Row) -> Target {
    Target {
        row: row.clone(),
        inbox: row.name.clone(),
        is_member: true,
        root: row.name.clone(),
        transcript: places.transcript(team, row),
    }
}

fn child(Child { row, transcript, root, .. }: Child) -> Target {
    let inbox = AgentName::new(row.agent_id.as_str()).unwrap_or_else(|_| row.name.clone());
    Target { inbox, row, is_member: false, root, transcript: Some(transcript) }
}

fn matching(team: &TeamView, places: &Places, typed: &str) -> Vec<Target> {
    let slug = match typed.trim() {
        "main" | "leader" => Some(AgentName::team_lead()),
        typed => slug::agent_name(typed).ok().or_else(|| AgentName::new(typed).ok()),
    };
    let fits = |target: &Target| {
        let row = &target.row;
        let begins = typed.len() >= ID_LETTERS && row.agent_id.as_str().starts_with(typed);
        Some(&row.name) == slug.as_ref() || row.display == typed || (!target.is_member && begins)
    };
    all(team, places).into_iter().filter(fits).collect()
}

fn is_exactly(row: &Row, typed: &str) -> bool {
    row.agent_id.as_str() == typed || row.name.as_str() == typed || row.display == typed
}

fn nobody(teams: &[TeamView], places: &Places, typed: &str) -> CliError {
    let living = teams.iter().flat_map(|team| all(team, places)).filter(|target| target.row.lives);
    let mut names: Vec<String> = living.map(|target| target.row.display).collect();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    if more > 0 {
        names.push(format!("and {more} more (`festoon ps`)"));
    }
    let hint =
        if names.is_empty() { "nobody runs".to_owned() } else { format!("there is: {}", names.join(", ")) };
    CliError::new(ExitKind::Failed, "not_found", format!("there is no agent {typed:?}"), hint)
}

/// Whether it has come to its end.
pub fn is_over(row: &Row) -> bool {
    let over = [AgentState::Stopped, AgentState::Failed, AgentState::Lost];
    !row.lives && over.iter().any(|state| state.as_str() == row.state)
}
