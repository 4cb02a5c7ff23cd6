//! A teammate that panics or is cut off leaves what one leaves that ends in order: nothing.

use super::*;
use crate::agent::testing::{Bench, PATIENCE, until};
use crate::store::run as record_of;
use crate::team::session::{self, TeamTitle};
use crate::wire::settings::Durability;
use crate::wire::testing::worker_spec;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// `Bash` leaves something running, `Glob` panics, `Grep` hears no cancel.
const SCRIPT: &str = r#"
[[rule]]
agent = "anna"
reply = [{ tool = "Bash", input = {} }]
[[rule]]
agent = "anna"
prompt = "ID:panicked"
reply = [{ tool = "Glob", input = {} }]
[[rule]]
agent = "anna"
prompt = "ID:cut"
reply = [{ tool = "Grep", input = {} }]
[[rule]]
agent = "anna"
prompt = "ID:agreed"
reply = [{ text = "Ready." }]
"#;

async fn host(bench: &Bench) -> Host {
    let (paths, disk) = (&bench.runtime.paths, &bench.runtime.disk);
    let title = TeamTitle::Named { name: "two", description: "" };
    let session = &bench.main.core().context.session;
    let team = session::create(paths, disk, title, session, Durability::Process).await.expect("a team");
    Host { runtime: Arc::clone(&bench.runtime), team, reporters: Arc::default(), asks: AskRoute::Memory }
}

#[tokio::test]
async fn a_teammate_leaves_nothing_however_it_ends() {
    for (end, exit, state) in [
        ("agreed", Some("cancelled"), AgentState::Stopped),
        ("panicked", Some("panicked: on purpose"), AgentState::Failed),
        ("cut", None, AgentState::Failed),
    ] {
        let bench = Bench::new(SCRIPT).await;
        let host = host(&bench).await;
        let cwd = &bench.main.core().context.cwd;
        let mut spec = worker_spec("anna", "two", cwd);
        spec.prompt = format!("ID:{end}");
        spec.permission_mode = PermissionMode::BypassPermissions;
        spec.lead_session_id = bench.main.core().context.session.clone();
        let (cancel, leaving) = (CancellationToken::new(), TaskTracker::new());
        let (_interrupt, interrupt) = watch::channel(0);
        let control = RunnerControl { cancel: cancel.clone(), interrupt, leaving: leaving.clone() };
        let lead = Arc::clone(&bench.main.core().context);
        let mut life = spawn_in(&lead, run(host.clone(), spec.clone(), control));
        let name = spec.name.clone();
        let record = || record_of::load(&host.team.paths, &name).expect("reads").expect("a record");
        match end {
            "agreed" => {
                until("it is idle", || {
                    let found = record_of::load(&host.team.paths, &name).expect("reads");
                    found.is_some_and(|record| record.state == AgentState::Idle)
                })
                .await;
                cancel.cancel();
            }
            "cut" => {
                until("it is deaf", || bench.seen.started("Grep")).await;
                life.abort();
            }
            _ => {}
        }
        let ended = tokio::time::timeout(PATIENCE, &mut life).await.expect("in time");
        assert_eq!(ended.ok().map(|exit| exit.exit).as_deref(), exit, "{end}");
        leaving.close();
        tokio::time::timeout(PATIENCE, leaving.wait()).await.expect("its finalizer ends");

        assert_eq!(*bench.kit.ended.lock().expect("ended"), 1, "{end}: its command");
        assert_eq!(record().state, state, "{end}");
        assert!(!host.reporters.write_again(&name).await, "{end}: nobody writes its record any more");
        let core = Arc::clone(&bench.kit.cores.lock().expect("cores")[1]);
        assert!(core.place.get().is_none() && core.shells.kept() == 0, "{end}");
        let project = host.runtime.paths.project(cwd);
        let lines = project.member_sidechain(&spec.lead_session_id, &spec.agent_id, 1);
        let lines = std::fs::read_to_string(lines).expect("lines");
        assert!(lines.lines().last().is_some_and(|line| line.contains("run_ended")), "{end}: {lines}");
        let meta = project.member_sidechain_meta(&spec.lead_session_id, &spec.agent_id, 1);
        let meta: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(meta).expect("meta")).expect("JSON");
        assert_eq!(
            meta["status"],
            if state == AgentState::Stopped { "completed" } else { "failed" },
            "{end}"
        );
    }
}
