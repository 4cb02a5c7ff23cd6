//! The members of a team without a leader: ended one by one, by what the system knows of them.
//!
//! Owns the part of a leader that is needed for that, and nothing more: the end of the process, the
//! verdict in the roster, the asks that nobody waits for any more. The caller holds the leader's lock
//! for all of it, so that the roster still has one writer. A process is signalled only when pid, start
//! time, boot and host say that it is the worker's own, and a pane is closed only when its executor
//! proves it.

use super::context::Team;
use super::ending::{self, verdict_on_absent};
use super::executor::{ExitReport, Grace, TeammateExecutor, TeammateHandle};
use crate::os::process;
use crate::store::error::StoreError;
use crate::store::{clock, run};
use crate::wire::run::{AgentState, RunRecord};
use crate::wire::team::{BackendType, Ended, Member};
use std::sync::Arc;

/// What became of a member.
#[derive(Debug, Clone, PartialEq)]
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
    let ended = match record.as_ref().filter(|record| process::is_alive(&record.process())) {
        None => verdict_on_absent(record.as_ref()),
        Some(record) if member.backend_type == BackendType::InProcess => {
            return Ok(LeaderlessEnd::Stays(format!(
                "it runs inside process {}, which holds no team any more; end that process",
                record.pid
            )));
        }
        Some(running) => match adopt(executors, member, running).await {
            None if process::is_alive(&running.process()) => {
                return Ok(LeaderlessEnd::Stays(format!("nothing here can end process {}", running.pid)));
            }
            None => verdict_on_absent(Some(running)),
            Some(handle) => {
                let report = handle.terminate(grace).await;
                if process::is_alive(&running.process()) {
                    return Ok(LeaderlessEnd::Stays(format!(
                        "process {} is still there after KILL",
                        running.pid
                    )));
                }
                stopped(report, by)
            }
        },
    };
    ending::record(team, &member.agent_name, member.incarnation, true, &ended).await?;
    let why = "the asking agent has ended";
    ending::close_asks(team, &member.agent_name, ending::Whose::Of(member.incarnation), why).await?;
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
    Ended::new(AgentState::Stopped, clock::now(), report.exit, reason)
}
