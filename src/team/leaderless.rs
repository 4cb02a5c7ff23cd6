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
use crate::store::paths::TeamPaths;
use crate::store::{clock, run, spec};
use crate::wire::ids::{AgentName, SessionId};
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
    let ended = match end_process(executors, member, record.as_ref(), by, grace).await {
        LeaderlessEnd::Over(ended) => ended,
        stays @ LeaderlessEnd::Stays(_) => return Ok(stays),
    };
    ending::record(team, &member.agent_name, member.incarnation, true, &ended).await?;
    let why = "the asking agent has ended";
    ending::close_asks(team, &member.agent_name, ending::Whose::Of(member.incarnation), why).await?;
    Ok(LeaderlessEnd::Over(ended))
}

/// The members of a team whose roster cannot be read, as far as they run and say so themselves.
pub fn by_records(team: &TeamPaths) -> Result<Vec<(Member, RunRecord)>, StoreError> {
    let all = run::load_all(team)?;
    let said = || all.iter().filter_map(|(name, record)| Some((name, &record.as_ref().ok()?.known)));
    let lead = said().find(|(name, _)| name.is_lead()).map(|(_, record)| record.process());
    let living = said().filter(|(name, record)| !name.is_lead() && process::is_alive(&record.process()));
    let member = |(name, record): (&AgentName, &RunRecord)| {
        let spec = spec::read_spec(&team.spec(name, &record.run_id)).ok();
        let shares = lead.as_ref() == Some(&record.process());
        let unknown = if shares { BackendType::InProcess } else { BackendType::Process };
        let member = Member {
            agent_id: record.agent_id.clone(),
            agent_name: name.clone(),
            display_name: name.to_string(),
            agent_type: spec.as_ref().map(|spec| spec.definition.name.clone()).unwrap_or_default(),
            model: record.model.clone().unwrap_or_default(),
            color: spec.as_ref().map(|spec| spec.color.clone()).unwrap_or_default(),
            backend_type: spec.as_ref().map_or(unknown, |spec| spec.backend),
            pane_id: None,
            pane_server: None,
            incarnation: record.incarnation,
            permission_mode: record.permission_mode.unwrap_or_default(),
            plan_mode_required: false,
            cwd: spec.as_ref().map(|spec| spec.cwd.display().to_string()).unwrap_or_default(),
            worktree_path: spec.as_ref().and_then(|spec| Some(spec.worktree.as_ref()?.display().to_string())),
            session_id: spec.map_or_else(SessionId::generate, |spec| spec.session_id),
            joined_at: record.since.clone(),
            restarts: Vec::new(),
            ended: None,
        };
        (member, record.clone())
    };
    Ok(living.map(member).collect())
}

/// Ends the process of one member and writes nothing: TERM, then KILL after `grace`.
pub async fn end_process(
    executors: &[Arc<dyn TeammateExecutor>],
    member: &Member,
    record: Option<&RunRecord>,
    by: &str,
    grace: Grace,
) -> LeaderlessEnd {
    let ended = match record.filter(|record| process::is_alive(&record.process())) {
        None => verdict_on_absent(record),
        Some(record) if member.backend_type == BackendType::InProcess => {
            return LeaderlessEnd::Stays(format!(
                "it runs inside process {}, which holds no team any more; end that process",
                record.pid
            ));
        }
        Some(running) => match adopt(executors, member, running).await {
            None if process::is_alive(&running.process()) => {
                return LeaderlessEnd::Stays(format!("nothing here can end process {}", running.pid));
            }
            None => verdict_on_absent(Some(running)),
            Some(handle) => {
                let report = handle.terminate(grace).await;
                if process::is_alive(&running.process()) {
                    return LeaderlessEnd::Stays(format!(
                        "process {} is still there after KILL",
                        running.pid
                    ));
                }
                stopped(report, by)
            }
        },
    };
    LeaderlessEnd::Over(ended)
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
