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

/// How an agent is now; `None` when it is gone from the listing.
pub fn look_again(paths: &Paths, target: &Target) -> Option<Target> {
    let team = TeamView::look(paths.team(&target.row.team));
    let places = Places::find(paths, std::slice::from_ref(&team)).ok()?;
    all(&team, &places).into_iter().find(|other| other.row.agent_id == target.row.agent_id)
}

fn all(team: &TeamView, places: &Places) -> Vec<Target> {
    let member = |row: &Row| Target {
        row: row.clone(),
        inbox: row.name.clone(),
        is_member: true,
        transcript: places.transcript(team, row),
    };
    let child = |Child { row, transcript, .. }: Child| {
        let inbox = AgentName::new(row.agent_id.as_str()).unwrap_or_else(|_| row.name.clone());
        Target { inbox, row, is_member: false, transcript: Some(transcript) }
    };
    let members = team.rows.iter().map(member);
    members.chain(places.children(team, Wanted::All).into_iter().map(child)).collect()
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
