//! The members of a team without a leader: ended one by one, by what the system knows of them.
//!
//! Owns the part of a leader that is needed for that, and nothing more: the end of the process, the
//! verdict in the roster, the asks that nobody waits for any more. The caller holds the leader's lock
//! for all of it, so that the roster still has one writer. A process is signalled only when pid, start
//! time, boot and host say that it is the worker's own, and a pane is closed only when its executor
//! proves it.

use super::context::Team;
use super::executor::{ExitReport, Grace, TeammateExecutor, TeammateHandle};
use crate::os::process;
use crate::store::error::StoreError;
use crate::store::roster::Roster;
use crate::store::{asks, clock, run, spec};
use crate::wire::ask::AskStatus;
use crate::wire::event::EventKind;
use crate::wire::run::{AgentState, RunRecord};
use crate::wire::team::{BackendType, Ended, Member};
use serde_json::json;
use std::sync::Arc;

/// What became of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaderlessEnd {
    /// It is over, and the roster says so.
    Over(Ended),
    /// It still runs, and this is why; nothing was written.
    Stays(String),
}

/// Ends one member: TERM, then KILL after `grace`, and its pane where one of `executors` proves it.
pub async fn end(
    team: &Team,
    executors: &[Arc<dyn TeammateExecutor>],
    member: &Member,
    by: &str,
    grace: Grace,
) -> Result<LeaderlessEnd, StoreError> {
    let record = run::load(&team.paths, &member.agent_name)?
        .map(|record| record.known)
        .filter(|record| record.incarnation == member.incarnation);
    let ended = match record.filter(|record| process::is_alive(&record.process())) {
        None => gone(team, member)?,
        Some(record) if member.backend_type == BackendType::InProcess => {
            return Ok(LeaderlessEnd::Stays(format!(
                "it runs inside process {}, which holds no team any more; end that process",
                record.pid
            )));
        }
        Some(record) => match adopt(executors, member, &record).await {
            None if process::is_alive(&record.process()) => {
                return Ok(LeaderlessEnd::Stays(format!("nothing here can end process {}", record.pid)));
            }
            None => gone(team, member)?,
            Some(handle) => {
                let report = handle.terminate(grace).await;
                if process::is_alive(&record.process()) {
                    return Ok(LeaderlessEnd::Stays(format!(
                        "process {} is still there after KILL",
                        record.pid
                    )));
                }
                stopped(report, by)
            }
        },
    };
    write(team, member, &ended).await?;
    Ok(LeaderlessEnd::Over(ended))
}

/// The handle that knows most: one that proves the pane comes before one that has the process alone.
async fn adopt(
    executors: &[Arc<dyn TeammateExecutor>],
    member: &Member,
    record: &RunRecord,
) -> Option<Box<dyn TeammateHandle>> {
    let mut found: Option<Box<dyn TeammateHandle>> = None;
    for executor in executors {
        let Some(handle) = executor.adopt(member, Some(record)).await else { continue };
        if handle.record().pane_id.is_some() {
            return Some(handle);
        }
        found.get_or_insert(handle);
    }
    found
}

fn stopped(report: ExitReport, by: &str) -> Ended {
    let reason = format!("stopped by {by}, without a leader");
    Ended { state: AgentState::Stopped, at: clock::now(), exit: report.exit, reason }
}

/// The verdict on one whose process is not there.
fn gone(team: &Team, member: &Member) -> Result<Ended, StoreError> {
    let record = run::load(&team.paths, &member.agent_name)?;
    let record = record.filter(|record| record.incarnation == member.incarnation);
    let (state, reason) = match &record {
        Some(record) if record.state.is_over() => (record.state, "it ended by itself".to_owned()),
        Some(record) => (AgentState::Lost, format!("its process was gone (pid {})", record.pid)),
        None => (AgentState::Lost, "it never said that it was ready".to_owned()),
    };
    Ok(Ended { state, at: clock::now(), exit: "unknown".to_owned(), reason }) // nobody saw the exit
}

async fn write(team: &Team, member: &Member, ended: &Ended) -> Result<(), StoreError> {
    let is_it = |m: &Member| m.agent_name == member.agent_name && m.incarnation == member.incarnation;
    Roster::update(&team.paths, |file| {
        if let Some(row) = file.members.iter_mut().find(|m| is_it(&m.known)) {
            row.ended = Some(ended.clone());
        }
        Ok(())
    })?;
    spec::remove_specs(&team.paths, &member.agent_name)?;
    for (ask, status, _) in asks::list(&team.paths)? {
        let theirs = ask.reply_to == member.agent_name && ask.incarnation == member.incarnation;
        if theirs && status == AskStatus::Open {
            asks::close(&team.paths, &ask.id, "the asking agent has ended")?;
        }
    }
    let kind = if ended.state == AgentState::Lost { EventKind::Lost } else { EventKind::Exit };
    let fields = json!({ "state": ended.state, "exit": ended.exit, "reason": ended.reason });
    team.log(kind, &member.agent_name, member.incarnation, fields).await;
    Ok(())
}
