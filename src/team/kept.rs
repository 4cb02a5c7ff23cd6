//! What a named agent must not forget of its team when its conversation is compacted.

use super::context::Team;
use crate::agent::core::AgentCore;
use crate::agent::kept::{Kept, KeptContext};
use crate::agent::mail::escape;
use crate::agent::ports::BoxFuture;
use crate::store::error::StoreError;
use crate::store::{run, tasks};
use crate::wire::ids::AgentName;
use crate::wire::task::TaskStatus;
use crate::wire::team::Member;
use std::fmt::Write as _;

/// The team, as far as an agent works with it.
pub struct KeptTeam {
    team: Team,
}

impl KeptTeam {
    /// Of this team.
    pub fn new(team: Team) -> Self {
        Self { team }
    }

    async fn look(&self, me: &AgentName) -> Result<Option<Kept>, StoreError> {
        let roster = self.team.roster().await?;
        let members: Vec<Member> =
            roster.known.members.into_iter().map(|m| m.known).filter(|m| &m.agent_name != me).collect();
        if members.is_empty() && me.is_lead() {
            return Ok(None);
        }
        let mut text = format!("You are {me} in the team {}.", self.team.name());
        text.push_str(if me.is_lead() {
            " Your teammates, whom SendMessage reaches by name:\n"
        } else {
            " team-lead leads it. The others:\n"
        });
        let paths = self.team.paths.clone();
        let dir = paths.run_dir();
        let lines = self
            .team
            .disk
            .run(&dir, move || Ok(members.iter().map(|member| line(member, &paths)).collect::<Vec<_>>()));
        for line in lines.await? {
            let _ = writeln!(text, "- {line}");
        }
        Ok(Some(Kept { title: "Your team".to_owned(), text }))
    }

    /// The tasks that are not done.
    async fn tasks(&self) -> Result<Option<Kept>, StoreError> {
        let paths = self.team.paths.clone();
        let dir = paths.tasks_dir();
        let (all, _) = self.team.disk.run(&dir, move || tasks::list(&paths)).await?;
        let mut text = String::new();
        for task in all.iter().filter(|task| task.status != TaskStatus::Completed) {
            let _ = write!(text, "- {} ({}", task.id, task.status.as_str());
            if let Some(owner) = &task.owner {
                let _ = write!(text, ", {owner}");
            }
            let waits = tasks::open_blockers(&all, task);
            if !waits.is_empty() {
                let waits: Vec<String> = waits.iter().map(ToString::to_string).collect();
                let _ = write!(text, ", waits for {}", waits.join(", "));
            }
            let _ = writeln!(text, "): {}", escape(&task.subject));
        }
        Ok((!text.is_empty()).then(|| Kept { title: "Open tasks of the team".to_owned(), text }))
    }
}

fn line(member: &Member, paths: &crate::store::paths::TeamPaths) -> String {
    let mut line = format!("{} ({}): ", escape(&member.display_name), escape(&member.agent_type));
    if let Some(ended) = &member.ended {
        let _ = write!(line, "{} since {}: {}", ended.state.as_str(), ended.at, escape(&ended.reason));
        return line;
    }
    match run::of_incarnation(paths, &member.agent_name, member.incarnation) {
        Some(record) => {
            let _ = write!(line, "{} since {}", record.state.as_str(), record.since);
            if let Some(tool) = &record.current_tool {
                let _ = write!(line, ", at: {}", escape(tool));
            }
        }
        None => line.push_str("starting"),
    }
    line
}

impl KeptContext for KeptTeam {
    fn kept<'a>(&'a self, agent: &'a AgentCore) -> BoxFuture<'a, Vec<Kept>> {
        Box::pin(async move {
            let Some(me) = &agent.context.name else { return Vec::new() };
            let mut kept = Vec::new();
            for part in [self.look(me).await, self.tasks().await] {
                match part {
                    Ok(part) => kept.extend(part),
                    Err(error) => tracing::warn!(%error, "the team is missing from what a compaction keeps"),
                }
            }
            kept
        })
    }
}
