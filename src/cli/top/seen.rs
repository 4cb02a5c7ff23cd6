//! One look at all teams that run: agents, asks, tasks.

use crate::cli::error::CliError;
use crate::cli::teams::children::{Child, Places, Wanted};
use crate::cli::teams::kept::Kept;
use crate::cli::teams::row::Row;
use crate::cli::teams::{self, TeamView};
use crate::store::paths::Paths;
use crate::store::tasks;
use crate::wire::ask::Ask;
use crate::wire::run::AgentState;
use crate::wire::task::TaskStatus;
use serde_json::{Value, json};
use std::path::PathBuf;

/// What was seen.
pub struct Seen {
    /// Teams that run, or whose end nobody has noted, by name.
    pub teams: Vec<Part>,
    /// Teams that have ended.
    pub ended: usize,
}

/// One team.
pub struct Part {
    /// Its roster, rows and ledger.
    pub view: TeamView,
    /// Agents without a place in the roster.
    pub children: Vec<Child>,
    /// Open asks, oldest first.
    pub asks: Vec<Ask>,
    /// Tasks that are pending, in progress, completed.
    pub tasks: [usize; 3],
}

impl Seen {
    /// Looks, with what earlier looks have read.
    pub fn look(paths: &Paths, kept: &Kept) -> Result<Self, CliError> {
        let all = teams::all(paths)?;
        let places = Places::find_again(paths, &all, kept.clone())?;
        let (shown, ended): (Vec<TeamView>, Vec<TeamView>) =
            all.into_iter().partition(|team| team.state() != "stopped");
        let teams = shown.into_iter().map(|view| Part::look(view, &places, kept)).collect();
        Ok(Self { teams, ended: ended.len() })
    }

    /// All agents, each team's after one another.
    pub fn agents(&self) -> impl Iterator<Item = &Row> {
        self.teams.iter().flat_map(Part::agents)
    }

    /// Whether a line changes by itself as time goes by: only an agent at work has a clock.
    pub fn is_busy(&self) -> bool {
        let busy = [AgentState::Starting, AgentState::Working, AgentState::Stopping];
        self.agents().any(|row| row.lives && busy.iter().any(|state| state.as_str() == row.state))
    }

    /// The directories in which something happens when one of them changes.
    pub fn places(&self, paths: &Paths) -> Vec<PathBuf> {
        let mut dirs = vec![paths.teams()];
        for Part { view, children, .. } in &self.teams {
            let team = &view.paths;
            dirs.extend([team.dir(), team.run_dir(), team.asks_dir(), team.tasks_dir()]);
            // Where the records of subagents are.
            dirs.extend(children.iter().filter_map(|child| child.transcript.parent().map(PathBuf::from)));
        }
        dirs.sort();
        dirs.dedup();
        dirs
    }

    /// The same for programs.
    pub fn json(&self) -> Value {
        let team = |part: &Part| {
            let total = part.view.ledger.as_ref().map(|ledger| ledger.total());
            let limits = part.view.ledger.as_ref().map(|ledger| &ledger.limits);
            let [pending, in_progress, completed] = part.tasks;
            json!({
                "name": part.view.name(), "displayName": part.view.display(), "state": part.view.state(),
                "agents": part.agents().collect::<Vec<_>>(),
                "asks": part.asks.iter().map(|ask| &ask.id).collect::<Vec<_>>(),
                "tasks": { "pending": pending, "inProgress": in_progress, "completed": completed },
                "tokens": total.map(|used| used.usage.total()), "cost": total.map(|used| used.cost),
                "maxTokensTotal": limits.and_then(|limits| limits.max_tokens_total),
                "maxCost": limits.and_then(|limits| limits.max_cost),
            })
        };
        json!({ "teams": self.teams.iter().map(team).collect::<Vec<_>>(), "ended": self.ended })
    }
}

impl Part {
    fn look(view: TeamView, places: &Places, kept: &Kept) -> Self {
        let children = places.children(&view, Wanted::AtWork);
        let open = kept.files().asks(view.name());
        // What cannot be read is shown as nothing here; `festoon ps` and `doctor` name the file.
        let asks = open.look(&view.paths).unwrap_or_default();
        let all = tasks::list(&view.paths).map(|(tasks, _)| tasks).unwrap_or_default();
        let count = |status| all.iter().filter(|task| task.status == status).count();
        let tasks = [TaskStatus::Pending, TaskStatus::InProgress, TaskStatus::Completed].map(count);
        Self { view, children, asks, tasks }
    }

    /// Its agents: each member, then those that work below it.
    pub fn agents(&self) -> impl Iterator<Item = &Row> {
        self.view.rows.iter().flat_map(|row| {
            let below = self.children.iter().filter(|child| child.root == row.name);
            std::iter::once(row).chain(below.map(|child| &child.row))
        })
    }
}
