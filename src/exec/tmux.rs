//! Teammates in tmux panes: beside the leader when it sits in tmux, else in a server of their own.
//!
//! Owns the panes from the split to the verified end of their processes. A worker is the pane's own
//! process, given to tmux as separate arguments, so that no shell is involved; everything long or
//! secret is in its spec file. Promises that panes are made one after the other, that the focus never
//! moves, that a spawn which fails leaves nothing behind, and that a pane is touched only when our tag,
//! the server's pid and the pane's pid prove it ours. Never types into a pane, and reads one only for
//! the last words of a worker that did not start.

mod handle;
mod layout;
mod server;
mod socket;

pub use server::{PRIVATE, TmuxError, TmuxTarget};
pub use socket::path as socket_path;

use crate::exec::worker::{self, FAILED_SPAWN_GRACE, LAST_WORDS};
use crate::os::process;
use crate::team::executor::{BoxFuture, Launch, SpawnError, TeammateExecutor, TeammateHandle};
use crate::team::registry::TmuxVersion;
use crate::wire::ids::{AgentId, RunId};
use crate::wire::run::RunRecord;
use crate::wire::team::{BackendType, Member};
use crate::wire::worker::WorkerSpec;
use handle::{Pane, PaneHandle, Proof};
use layout::{PaneBox, Place};
use server::{PaneFacts, Server};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What helps when there is no pane to be had.
const HINT: &str = "--teammate-mode in-process needs no pane";

/// What the executor is told by the composition root.
#[derive(Debug, Clone)]
pub struct TmuxOptions {
    /// Our own program, absolute.
    pub program: PathBuf,
    /// The leader's environment. tmux gets the few variables it needs to run, and workers none of it:
    /// theirs is in their spec.
    pub env: BTreeMap<String, String>,
    /// How long the news of an end may be held back to learn its exit status from tmux.
    pub status_wait: Duration,
}

impl TmuxOptions {
    /// With the usual wait, so that the end of a worker is known within a second.
    pub fn new(program: PathBuf, env: BTreeMap<String, String>) -> Self {
        Self { program, env, status_wait: Duration::from_millis(800) }
    }
}

/// What tmux there is, for `team::registry::choose`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TmuxSurroundings {
    /// The leader sits in a pane of a server that answers and knows this pane.
    pub inside: bool,
    /// The tmux in the `PATH`.
    pub version: Option<TmuxVersion>,
}

/// Looks at the surroundings: runs `tmux -V` and asks the server around us, if there is one.
pub async fn look(env: &BTreeMap<String, String>) -> TmuxSurroundings {
    let none = TmuxTarget::Private { socket_name: String::new() };
    let printed = Server::new(none, env).version().await;
    let version = printed.ok().and_then(|printed| TmuxVersion::parse(&printed));
    let inside = match TmuxTarget::from_env(env) {
        Some(target) => sees_leader(&Server::new(target, env)).await,
        None => false,
    };
    TmuxSurroundings { inside, version }
}

/// For a worker whose leader is gone, before it ends: its pane closes with it. With a leader, a dead
/// pane stays until the leader has read the exit status; without one, it might stay for long.
/// Does nothing unless the pane around us is one of ours and `pid` is its process.
pub async fn release_own_pane(env: &BTreeMap<String, String>, pid: u32) -> Result<(), TmuxError> {
    let (Some(target), Some(pane)) = (TmuxTarget::from_env(env), env.get("TMUX_PANE")) else {
        return Ok(());
    };
    let server = Server::new(target, env);
    let panes = server.panes().await?;
    let own =
        panes.iter().find(|facts| facts.id == *pane && facts.pid == pid && team_of(&facts.tag).is_some());
    match own {
        Some(facts) => server.let_go(&facts.id).await,
        None => Ok(()),
    }
}

async fn sees_leader(server: &Server) -> bool {
    let TmuxTarget::Inside { pane, .. } = server.target() else { return false };
    server.panes().await.is_ok_and(|panes| panes.iter().any(|facts| facts.id == *pane))
}

/// Starts teammates in panes.
pub struct TmuxExecutor {
    shared: Arc<Shared>,
    /// Servers that teammates of earlier leaders are in.
    others: std::sync::Mutex<HashMap<PathBuf, Arc<Shared>>>,
}

/// What the executor and its handles share.
struct Shared {
    server: Server,
    program: PathBuf,
    status_wait: Duration,
    /// Held while panes are made, moved or removed, so that each step sees the result of the last.
    layout: Mutex<()>,
    tasks: TaskTracker,
}

impl TmuxExecutor {
    /// An executor for this server. Nothing is started before the first spawn.
    pub fn new(target: TmuxTarget, options: TmuxOptions) -> Self {
        let server = Server::new(target, &options.env);
        let shared = Shared {
            server,
            program: options.program,
            status_wait: options.status_wait,
            layout: Mutex::new(()),
            tasks: TaskTracker::new(),
        };
        Self { shared: Arc::new(shared), others: std::sync::Mutex::default() }
    }

    /// The server that a member's pane is in: the recorded one, else ours.
    fn serving(&self, recorded: Option<&str>) -> Arc<Shared> {
        let elsewhere = recorded.map(PathBuf::from).filter(|socket| *socket != self.shared.server.socket());
        let Some(socket) = elsewhere else { return Arc::clone(&self.shared) };
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(others.entry(socket.clone()).or_insert_with(|| {
            let Shared { server, program, status_wait, .. } = &*self.shared;
            Arc::new(Shared {
                server: server.at(socket),
                program: program.clone(),
                status_wait: *status_wait,
                layout: Mutex::new(()),
                tasks: TaskTracker::new(),
            })
        }))
    }
    /// An executor for the server around us, else for a private one with this socket name.
    pub fn detect(private_socket: &str, options: TmuxOptions) -> Self {
        let private = || TmuxTarget::Private { socket_name: private_socket.to_owned() };
        Self::new(TmuxTarget::from_env(&options.env).unwrap_or_else(private), options)
    }
    /// Which server.
    pub fn target(&self) -> &TmuxTarget {
        self.shared.server.target()
    }
    /// What a person types to see the panes; `None` when they are beside the leader.
    pub fn attach_command(&self) -> Option<String> {
        match self.target() {
            TmuxTarget::Inside { .. } | TmuxTarget::At { .. } => None,
            TmuxTarget::Private { socket_name } => Some(format!("tmux -L {socket_name} attach")),
        }
    }
}

impl TeammateExecutor for TmuxExecutor {
    fn backend(&self) -> BackendType {
        BackendType::Tmux
    }

    fn spawn(&self, launch: Launch) -> BoxFuture<'_, Result<Box<dyn TeammateHandle>, SpawnError>> {
        Box::pin(async move {
            let start = |given_up| start(Arc::clone(&self.shared), launch, given_up);
            let pane = worker::guarded(&self.shared.tasks, HINT, start).await?;
            Ok(Box::new(PaneHandle(pane)) as Box<dyn TeammateHandle>)
        })
    }

    fn adopt<'a>(
        &'a self,
        member: &'a Member,
        run: Option<&'a RunRecord>,
    ) -> BoxFuture<'a, Option<Box<dyn TeammateHandle>>> {
        Box::pin(async move {
            let run = run?;
            let pane = self.serving(member.pane_server.as_deref()).adopt(member, run).await?;
            Some(Box::new(PaneHandle(pane)) as Box<dyn TeammateHandle>)
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let others =
                self.others.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
            let all: Vec<Arc<Shared>> = [vec![Arc::clone(&self.shared)], others].concat();
            for server in all.iter().map(|shared| &shared.server).filter(|server| server.is_private()) {
                // Panes that are there belong to teammates that stay.
                if matches!(server.panes().await, Ok(panes) if panes.iter().any(|pane| !pane.dead)) {
                    continue;
                }
                socket::remove_when_dead(server.socket()).await;
            }
        })
    }
}

/// Starts one worker, waits until it is ready, and undoes everything when it does not get there.
async fn start(
    shared: Arc<Shared>,
    launch: Launch,
    given_up: CancellationToken,
) -> Result<Arc<Pane>, SpawnError> {
    let argv = worker::command_line(&shared.program, &launch.spec, &launch.spec_file)
        .map_err(|why| failed("prepare worker", why))?;
    let facts = shared.make_pane(&launch.spec, &argv).await?;
    let pane = Pane::watch(
        Arc::clone(&shared),
        launch.spec.agent_id.clone(),
        launch.spec.run_id.clone(),
        worker::identity(facts.pid),
        Some(Proof::of(&facts)),
    );
    let end = async { pane.end().await.report };
    let Err(why) = worker::ready(launch.ready, launch.deadline, end, &given_up).await else {
        return Ok(pane);
    };
    let seen = shared.server.last_lines(&facts.id, LAST_WORDS).await.unwrap_or_default();
    pane.terminate(FAILED_SPAWN_GRACE).await;
    let said = pane.end().await.said;
    let words = if said.is_empty() { seen } else { said };
    Err(failed("wait for ready", worker::quoting(why, &words)))
}

fn failed(step: &'static str, why: impl Into<String>) -> SpawnError {
    SpawnError { step, why: why.into(), hint: HINT.to_owned() }
}

fn refused(step: &'static str) -> impl Fn(TmuxError) -> SpawnError {
    move |error| failed(step, error.to_string())
}

/// What our panes carry: whose they are, and of which run. Team and name are slugs.
fn tag_of(agent: &AgentId, run: &RunId) -> String {
    format!("{agent}/{run}")
}

/// The team in a tag.
fn team_of(tag: &str) -> Option<&str> {
    Some(tag.split_once('@')?.1.split_once('/')?.0)
}

impl Shared {
    /// Makes a pane with the worker in it. On failure there is none.
    async fn make_pane(&self, spec: &WorkerSpec, argv: &[String]) -> Result<PaneFacts, SpawnError> {
        let _one_at_a_time = self.layout.lock().await;
        let made = self.make_empty_pane(spec).await?;
        let tag = tag_of(&spec.agent_id, &spec.run_id);
        let filled = async {
            self.server.tag(&made.id, &tag, spec.name.as_str()).await?;
            self.server.replace_program(&made.id, argv).await
        };
        match filled.await {
            Ok(facts) if facts.tag == tag && facts.server_pid == made.server_pid => Ok(facts),
            Ok(facts) => {
                let why = format!("pane {} carries {:?} instead of {tag:?}", facts.id, facts.tag);
                self.close_made(&made).await;
                Err(failed("start worker", why))
            }
            Err(error) => {
                self.close_made(&made).await;
                Err(failed("start worker", error.to_string()))
            }
        }
    }

    /// Removes a pane that was just made. When that fails too, its placeholder ends by itself.
    async fn close_made(&self, made: &PaneFacts) {
        if let Err(error) = self.server.close(&made.id).await {
            tracing::warn!(pane = made.id, %error, "a pane that was just made could not be removed");
        }
    }

    async fn make_empty_pane(&self, spec: &WorkerSpec) -> Result<PaneFacts, SpawnError> {
        let step = "create pane";
        let panes = self.server.panes().await.map_err(refused(step))?;
        let leader = self.leader(&panes)?;
        let boxes = boxes(&panes, spec.team.as_str(), None);
        let place = layout::place(&boxes, leader.map(|facts| facts.id.as_str()));
        let session = leader.or(panes.first()).map(|facts| facts.session.as_str());
        let zoomed = |place: &Place| match place {
            Place::Split { pane, .. } => panes.iter().any(|facts| facts.id == *pane && facts.zoomed),
            Place::Window => false,
        };
        // The user may have changed the window since we looked; the server may have ended.
        let mut attempts = vec![(place, session), (Place::Window, session)];
        if leader.is_none() {
            attempts.push((Place::Window, None));
        }
        attempts.dedup();
        let mut outcome = Err(failed(step, "tmux has no place for a pane"));
        for (place, session) in attempts {
            match self.server.create(&place, zoomed(&place), session, &spec.cwd).await {
                Ok(made) => return Ok(made),
                Err(error @ (TmuxError::Refused { .. } | TmuxError::NoServer(_))) => {
                    outcome = Err(failed(step, error.to_string()));
                }
                Err(error) => return Err(failed(step, error.to_string())),
            }
        }
        outcome
    }

    /// The leader's own pane, when it is in this server.
    fn leader<'a>(&self, panes: &'a [PaneFacts]) -> Result<Option<&'a PaneFacts>, SpawnError> {
        match self.server.target() {
            TmuxTarget::Private { .. } | TmuxTarget::At { .. } => Ok(None),
            TmuxTarget::Inside { socket, pane } => {
                let found = panes.iter().find(|facts| facts.id == *pane);
                let gone = || {
                    let socket = socket.display();
                    failed(
                        "create pane",
                        format!("the leader's pane {pane} is not in the server at {socket}"),
                    )
                };
                found.map(Some).ok_or_else(gone)
            }
        }
    }

    async fn adopt(self: &Arc<Self>, member: &Member, run: &RunRecord) -> Option<Arc<Pane>> {
        let process = run.process();
        let tag = tag_of(&member.agent_id, &run.run_id);
        let panes = self.server.panes().await.unwrap_or_default();
        let pane = panes.iter().find(|facts| {
            facts.tag == tag && facts.pid == process.pid && member.pane_id.as_deref() == Some(&facts.id)
        });
        if process::is_alive(&process) {
            let (agent, run) = (member.agent_id.clone(), run.run_id.clone());
            // Without a pane it can still be ended; the server removes the pane by itself then.
            return Some(Pane::watch(Arc::clone(self), agent, run, process, pane.map(Proof::of)));
        }
        if let Some(dead) = pane.filter(|facts| facts.dead)
            && let Err(error) = self.server.close(&dead.id).await
        {
            tracing::warn!(pane = dead.id, %error, "the pane of a dead teammate could not be removed");
        }
        None
    }
}

/// The panes as far as their places matter; `without` is one that is about to be moved.
fn boxes(panes: &[PaneFacts], team: &str, without: Option<&str>) -> Vec<PaneBox> {
    let ours = |facts: &PaneFacts| team_of(&facts.tag) == Some(team) && !facts.hidden && !facts.dead;
    let others = panes.iter().filter(|facts| Some(facts.id.as_str()) != without);
    others
        .map(|facts| PaneBox {
            id: facts.id.clone(),
            window: facts.window.clone(),
            width: facts.width,
            height: facts.height,
            ours: ours(facts),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_the_team_the_agent_and_the_run() {
        let tag = tag_of(&AgentId::new("anna@review"), &RunId::new("0199-a"));
        assert_eq!((tag.as_str(), team_of(&tag)), ("anna@review/0199-a", Some("review")));
        assert_eq!((team_of(""), team_of("some/tag"), team_of("a@b")), (None, None, None));
    }
}
