//! One line an agent: name, state, what it does, age, tokens, cost.
//!
//! Owns how agents are listed for a person who watches. What is shown is what each says of itself,
//! and the leader's verdict on those who are gone; nothing here asks the processes.

use super::teams::TeamView;
use super::teams::children::{Child, Places, Wanted};
use super::text::{clean, fit, pad};
use super::view::style_of;
use crate::agent::background::{Background, TaskView};
use crate::store::error::StoreError;
use crate::store::run::SeenRuns;
use crate::store::{clock, run};
use crate::team::context::Team;
use crate::wire::background::TaskState;
use crate::wire::ids::{AgentName, TEAM_LEAD};
use crate::wire::run::{AgentState, RunRecord};
use crate::wire::team::Member;
use crate::wire::time::Timestamp;
use crate::wire::usage::Money;
use anstyle::{AnsiColor, Style};
use std::sync::{Arc, Mutex, PoisonError};

/// An agent as it is listed.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentStatus {
    /// Its name, as given.
    pub name: String,
    /// Its colour.
    pub color: Option<String>,
    /// What it is doing.
    pub state: AgentState,
    /// Since when.
    pub since: Option<Timestamp>,
    /// The tool that runs, or why it ended.
    pub doing: String,
    /// Tokens so far.
    pub tokens: u64,
    /// Money so far.
    pub cost: Money,
}

impl AgentStatus {
    /// Whether the line changes by itself, as time goes by.
    pub fn is_busy(&self) -> bool {
        matches!(self.state, AgentState::Starting | AgentState::Working | AgentState::Stopping)
    }

    fn of(name: &str, color: Option<&str>, record: Option<&RunRecord>) -> Self {
        let known = record.cloned();
        Self {
            name: name.to_owned(),
            color: color.map(str::to_owned),
            state: known.as_ref().map_or(AgentState::Starting, |r| r.state),
            since: known.as_ref().map(|r| r.since.clone()),
            doing: known.as_ref().and_then(|r| r.current_tool.clone()).unwrap_or_default(),
            tokens: known.as_ref().map_or(0, |r| r.usage.total()),
            cost: known.map_or(Money::default(), |r| r.cost),
        }
    }

    /// A background task.
    pub fn of_task(view: &TaskView) -> Self {
        let (record, doing) = (&view.record, &view.doing);
        let what = match (&record.state, &doing.tool) {
            (TaskState::Queued, _) => format!("queued: {}", record.description),
            (TaskState::Running, Some(tool)) => tool.clone(),
            (TaskState::Running, None) => record.description.clone(),
            (state, _) => format!("{}: {}", state.as_str(), record.description),
        };
        Self {
            name: record.name.as_ref().map_or(record.task_id.as_str(), |name| name.as_str()).to_owned(),
            color: None,
            state: match record.state {
                TaskState::Queued => AgentState::Starting,
                TaskState::Running if doing.waiting > 0 => AgentState::Waiting,
                TaskState::Running => AgentState::Working,
                TaskState::Failed => AgentState::Failed,
                TaskState::Completed | TaskState::Cancelled => AgentState::Stopped,
            },
            since: Some(record.since.clone()),
            doing: what,
            tokens: doing.usage.total(),
            cost: doing.cost,
        }
    }

    fn of_child(child: &Child) -> Self {
        let row = &child.row;
        let states = [AgentState::Starting, AgentState::Working, AgentState::Waiting];
        let state = states.into_iter().find(|state| state.as_str() == row.state);
        Self {
            name: row.display.clone(),
            color: None,
            state: state.unwrap_or(AgentState::Lost),
            since: row.since.clone(),
            doing: row.task.clone().unwrap_or_default(),
            tokens: row.tokens,
            cost: row.cost,
        }
    }

    fn of_member(member: &Member, record: Option<&RunRecord>) -> Self {
        let record = record.filter(|r| r.incarnation == member.incarnation);
        let mut status = Self::of(&member.display_name, Some(&member.color), record);
        if let Some(ended) = &member.ended {
            status.state = ended.state;
            status.since = Some(ended.at.clone());
            status.doing.clone_from(&ended.reason);
            if record.is_none() {
                (status.tokens, status.cost) = (ended.usage.total(), ended.cost);
            }
        }
        status
    }
}

/// The run records that the looks of one who looks have read.
pub type SeenAgents = Arc<Mutex<SeenRuns>>;

/// The leader and every member of a team, those who ended last. Of the records those that changed are read.
pub async fn look(team: &Team, seen: &SeenAgents) -> Result<Vec<AgentStatus>, StoreError> {
    let roster = team.roster().await?;
    let (paths, seen) = (team.paths.clone(), Arc::clone(seen));
    let dir = paths.run_dir();
    let all = move || {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        // One that cannot be read says nothing; the supervisor tells of it.
        let mut record = |name: &AgentName| run::look(&paths, name, &mut seen).ok().flatten();
        let (living, ended): (Vec<_>, Vec<_>) = roster.members.iter().partition(|m| m.ended.is_none());
        let lead = record(&AgentName::team_lead());
        let mut all = vec![AgentStatus::of(TEAM_LEAD, None, lead.as_deref())];
        let members = living.into_iter().chain(ended);
        all.extend(members.map(|m| AgentStatus::of_member(m, record(&m.agent_name).as_deref())));
        Ok(all)
    };
    team.disk.run(&dir, all).await
}

/// Subagents at work that this process does not know of as its background tasks: in the foreground, or below
/// a member with a process of its own.
pub async fn others(team: &Team, tasks: &Background) -> Result<Vec<AgentStatus>, StoreError> {
    let known: Vec<_> = tasks.views().into_iter().map(|view| view.record.task_id).collect();
    let paths = team.paths.clone();
    let look = move || {
        let view = TeamView::look(paths.clone());
        let places = Places::find(paths.paths(), std::slice::from_ref(&view))?;
        Ok(places.children(&view, Wanted::AtWork))
    };
    let children = team.disk.run(&team.paths.dir(), look).await?;
    let unknown = |child: &&Child| known.iter().all(|id| id.as_str() != child.row.agent_id.as_str());
    Ok(children.iter().filter(unknown).map(AgentStatus::of_child).collect())
}

/// What is at work in the background in this process.
pub fn background(tasks: &Background) -> Vec<AgentStatus> {
    let at_work = |view: &&TaskView| !view.record.state.is_over();
    tasks.views().iter().filter(at_work).map(AgentStatus::of_task).collect()
}

/// The line; `mark` stands before it (a spinner, or nothing).
pub fn line(agent: &AgentStatus, mark: char, name_columns: usize, columns: usize) -> String {
    let style = style_of(agent.color.as_deref());
    let state_style = style_of_state(agent.state);
    let dim = Style::new().dimmed();
    let name = pad(&clean(&agent.name), name_columns);
    let state = pad(agent.state.as_str(), 8);
    let age = agent.since.as_ref().and_then(clock::millis_since).map_or_else(String::new, age);
    let numbers = format!("{age:>6} {:>7} {:>8}", tokens(agent.tokens), money(agent.cost));
    let used = 2 + name_columns + 1 + 8 + 1 + 1 + numbers.len();
    let room = columns.saturating_sub(used + 1);
    let doing = pad(&fit(&clean(&agent.doing), room), room);
    format!(
        "{state_style}{mark}{state_style:#} {style}{name}{style:#} {state_style}{state}{state_style:#} {doing} \
         {dim}{numbers}{dim:#}"
    )
}

/// How wide the names of these agents are, within reason.
pub fn name_columns(agents: &[AgentStatus]) -> usize {
    agents.iter().map(|a| super::text::width(&clean(&a.name))).max().unwrap_or(0).clamp(4, 20)
}

/// The colour of a state.
pub fn style_of_state(state: AgentState) -> Style {
    let color = match state {
        AgentState::Working => AnsiColor::Green,
        AgentState::Waiting => AnsiColor::Yellow,
        AgentState::Failed | AgentState::Lost => AnsiColor::Red,
        AgentState::Starting | AgentState::Stopping => AnsiColor::Cyan,
        AgentState::Idle | AgentState::Stopped => return Style::new().dimmed(),
    };
    Style::new().fg_color(Some(color.into()))
}

/// A time span, short: `4s`, `3m`, `2h05`, `3d`.
pub fn age(millis: i64) -> String {
    let seconds = millis.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h{:02}", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A number of tokens, short: `812`, `12.3k`, `4.56M`.
pub fn tokens(count: u64) -> String {
    let value = count as f64;
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{:.1}k", value / 1e3),
        _ => format!("{:.2}M", value / 1e6),
    }
}

/// An amount of money; `$?` when a price is not known.
pub fn money(amount: Money) -> String {
    match amount.0 {
        None => "$?".to_owned(),
        Some(dollars) if dollars < 0.995 => format!("${dollars:.3}"),
        Some(dollars) => format!("${dollars:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([0, 59_999, 60_000, 7_500_000, 200_000_000].map(age), ["0s", "59s", "1m", "2h05", "2d"]);
        assert_eq!([7, 1_250, 4_560_000].map(tokens), ["7", "1.2k", "4.56M"]);
        assert_eq!([Some(0.0), Some(12.345), None].map(|m| money(Money(m))), ["$0.000", "$12.35", "$?"]);
    }

    #[test]
    fn a_line_is_as_wide_as_the_terminal_whatever_the_name() {
        for name in ["anna", "漢字の名前", "a very long name that goes on and on"] {
            let agent = AgentStatus {
                name: name.into(),
                color: Some("blue".into()),
                state: AgentState::Working,
                since: None,
                doing: "Bash cargo test --workspace --all-features --no-fail-fast and more of it".into(),
                tokens: 123_456,
                cost: Money(Some(1.0)),
            };
            let columns = name_columns(std::slice::from_ref(&agent));
            let plain = anstream::adapter::strip_str(&line(&agent, '*', columns, 80)).to_string();
            assert_eq!(super::super::text::width(&plain), 79, "{plain}");
        }
    }
}
