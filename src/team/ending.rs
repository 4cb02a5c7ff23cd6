//! The last entries about a member: the verdict, the roster, the log, its tasks, the asks nobody waits
//! for.
//!
//! One place for all who write them: the supervisor, the leader that takes over, and the command that
//! ends a team without a leader.

use super::context::Team;
use super::mailbox::FileMailbox;
use super::tasks;
use super::wake::Topic;
use crate::store::error::StoreError;
use crate::store::roster::Roster;
use crate::store::{asks, clock, members, run, spec};
use crate::wire::ask::AskStatus;
use crate::wire::event::EventKind;
use crate::wire::frame::{FrameType, TeammateTerminated};
use crate::wire::ids::{AgentId, AgentName, MessageId};
use crate::wire::mail::{Draft, Wake};
use crate::wire::run::{AgentState, RunRecord};
use crate::wire::team::{Ended, Member};
use crate::wire::time::Timestamp;
use serde_json::json;

/// The verdict on a member whose process is not there; `record` is what it last said of itself.
pub fn verdict_on_absent(record: Option<&RunRecord>) -> Ended {
    let (state, reason) = match record {
        Some(record) if record.state.is_over() => (record.state, "it ended by itself".to_owned()),
        Some(record) => (AgentState::Lost, format!("its process was gone (pid {})", record.pid)),
        None => (AgentState::Lost, "it never said that it was ready".to_owned()),
    };
    // Nobody saw the exit.
    Ended::new(state, clock::now(), "unknown", reason).having_used(record)
}

/// Writes a verdict into the roster and the log. A row that was never `listed` to anyone is taken out
/// instead, with all files of the member.
pub async fn record(
    team: &Team,
    name: &AgentName,
    incarnation: u32,
    listed: bool,
    ended: &Ended,
) -> Result<(), StoreError> {
    let paths = team.paths.clone();
    let file = paths.team_file();
    let (who, row) = (name.clone(), ended.clone());
    team.disk
        .run(&file, move || {
            let used = run::of_incarnation(&paths, &who, incarnation);
            Roster::update(&paths, |team| {
                let is_it = |m: &Member| m.agent_name == who && m.incarnation == incarnation;
                // tmux gives the ids of panes anew when its server does.
                if let Some(pane) =
                    team.members.iter().find(|m| is_it(&m.known)).and_then(|m| m.pane_id.clone())
                {
                    team.hidden_pane_ids.retain(|hidden| *hidden != pane);
                }
                if !listed {
                    team.members.retain(|m| !is_it(&m.known));
                } else if let Some(member) = team.members.iter_mut().find(|m| is_it(&m.known)) {
                    member.ended = Some(row.having_used(used.as_ref()));
                }
                Ok(())
            })?;
            if listed {
                spec::remove_specs(&paths, &who)
            } else {
                members::remove_traces(&paths, &who, incarnation)
            }
        })
        .await?;
    let kind = if ended.state == AgentState::Lost { EventKind::Lost } else { EventKind::Exit };
    let fields = json!({ "state": ended.state, "exit": ended.exit, "reason": ended.reason });
    team.log(kind, name, incarnation, fields).await;
    let why = format!("{name} worked on it and is {}: {}", ended.state.as_str(), ended.reason);
    if let Err(error) = tasks::release(team, name, incarnation, &why).await {
        // The member has ended all the same; its tasks can be freed by hand.
        tracing::error!(%name, %error, "the tasks of an ended member could not be freed");
    }
    Ok(())
}

/// Tells the leader that a member is over, by the mail that a living leader gets at once: under one id for
/// each end, so that saying it again is harmless.
pub async fn tell_leader(
    team: &Team,
    agent: &AgentId,
    incarnation: u32,
    ended: &Ended,
    wake: Wake,
) -> Result<(), StoreError> {
    let lead = AgentName::team_lead();
    let draft = obituary(agent, incarnation, ended.state, &ended.exit, &ended.reason)
        .map_err(|e| StoreError::Corrupt { path: team.paths.inbox(&lead), why: e.to_string() })?;
    let id = MessageId::new(format!("ended-{agent}-{incarnation}"));
    let system = FileMailbox::new(team.clone(), AgentName::system(), 1, None);
    let sent = system.store(id, &lead, 1, draft.waking(wake)).await;
    sent.map(drop).map_err(|e| StoreError::Io {
        doing: "tell the leader in",
        path: team.paths.inbox(&lead),
        source: std::io::Error::other(e.what),
    })
}

/// What the leader is told of a member that is over.
pub fn obituary(
    agent: &AgentId,
    incarnation: u32,
    state: AgentState,
    exit: &str,
    reason: &str,
) -> serde_json::Result<Draft> {
    let (name, _) = agent.as_str().split_once('@').unwrap_or((agent.as_str(), ""));
    let text = format!("{name} is {}: {reason} ({exit}).", state.as_str());
    let body = TeammateTerminated {
        agent_id: agent.clone(),
        incarnation,
        exit: exit.to_owned(),
        reason: reason.to_owned(),
    };
    Draft::frame(FrameType::TeammateTerminated, text, &body)
}

/// Which asks that lead to an agent.
pub enum Whose {
    /// All.
    Any,
    /// Those of one incarnation.
    Of(u32),
    /// Those of agents below this one that were made before; its own are its own business.
    Below(AgentId, Timestamp),
}

/// Closes open asks that lead to an agent.
pub async fn close_asks(
    team: &Team,
    agent: &AgentName,
    whose: Whose,
    reason: &str,
) -> Result<(), StoreError> {
    let (paths, agent, reason) = (team.paths.clone(), agent.clone(), reason.to_owned());
    let dir = paths.asks_dir();
    team.disk
        .run(&dir, move || {
            for (ask, status, _) in asks::list(&paths)? {
                let theirs = match &whose {
                    Whose::Any => true,
                    Whose::Of(incarnation) => ask.incarnation == *incarnation,
                    Whose::Below(own, before) => ask.agent_id != *own && ask.created_at < *before,
                };
                if theirs && ask.reply_to == agent && status == AskStatus::Open {
                    asks::close(&paths, &ask.id, &reason)?;
                }
            }
            Ok(())
        })
        .await?;
    team.hub.poke(Topic::Asks);
    Ok(())
}
