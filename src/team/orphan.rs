//! A worker without a leader: noticed at once, by the leader's process, not by silence.

use super::context::Team;
use super::wake::Topic;
use crate::os::process;
use crate::store::run;
use crate::wire::event::EventKind;
use crate::wire::ids::AgentName;
use crate::wire::run::ProcessId;
use crate::wire::settings::OrphanedWorkers;
use serde_json::json;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long one wait for the leader's end lasts before it is begun anew; costs nothing meanwhile.
const WATCH: Duration = Duration::from_secs(3_600);

/// Watches the leader's process on behalf of `worker`. With [`OrphanedWorkers::Exit`] its death cancels
/// `end`; otherwise it is logged, and the next leader is watched as soon as it has a record.
pub async fn watch(
    team: Team,
    worker: AgentName,
    incarnation: u32,
    what: OrphanedWorkers,
    end: CancellationToken,
) {
    let mut runs = team.hub.signal(Topic::Runs);
    let mut gone: Option<ProcessId> = None;
    loop {
        let leader = leader(&team).await;
        match leader {
            Some(process) if gone.as_ref() != Some(&process) => {
                while !process::wait_gone(&process, WATCH).await {}
                let does = match what {
                    OrphanedWorkers::Park => "it finishes its turn and waits for a leader to come back",
                    OrphanedWorkers::Exit => "it ends",
                };
                let fields = json!({ "reason": format!("the leader (pid {}) is gone; {does}", process.pid) });
                team.log(EventKind::Notice, &worker, incarnation, fields).await;
                if what == OrphanedWorkers::Exit {
                    return end.cancel();
                }
                gone = Some(process);
            }
            _ => runs.changed().await,
        }
    }
}

/// Whether the leader's process is gone, and nobody reads how its workers end.
pub async fn is_alone(team: &Team) -> bool {
    leader(team).await.is_some_and(|leader| !process::is_alive(&leader))
}

async fn leader(team: &Team) -> Option<ProcessId> {
    let (paths, name) = (team.paths.clone(), AgentName::team_lead());
    let file = paths.run(&name);
    let record = team.disk.run(&file, move || run::load(&paths, &name)).await.ok()??;
    Some(record.process())
}
