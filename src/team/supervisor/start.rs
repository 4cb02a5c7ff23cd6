//! Starting a teammate: everything written before it runs, everything taken back when it does not.

use super::{Charge, Order, Spawned, Work};
use crate::agent::context::spawn_in;
use crate::agent::limits::{Started, count_child};
use crate::store::roster::Roster;
use crate::store::{members, run, spec};
use crate::team::context::Team;
use crate::team::executor::{HandleRecord, Launch, TeammateHandle};
use crate::team::lifecycle::{Event, Lifecycle};
use crate::team::spawn::{Resolved, TeammateRequest, isolation, resolve};
use crate::team::wake::{ChangedRuns, Topic};
use crate::wire::definition::Isolation;
use crate::wire::event::EventKind;
use crate::wire::ids::{AgentName, RunId};
use crate::wire::limits::READY_DEADLINE;
use crate::wire::run::AgentState;
use crate::wire::team::Member;
use crate::wire::worker::WorkerSpec;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot;

impl Work {
    pub(super) async fn spawn(
        &mut self,
        request: TeammateRequest,
        done: oneshot::Sender<Result<Spawned, String>>,
    ) {
        match self.prepare(&request).await {
            Ok((spec, notes, counted)) => {
                let life = Lifecycle::starting(Instant::now());
                let name = spec.name.clone();
                let isolation = isolation(&request, &spec);
                let mut charge = Charge::new(spec, life, None);
                charge.spawner = Some(done);
                charge.notes = notes;
                charge.counted = Some(counted);
                charge.isolating = isolation.is_some();
                self.members.insert(name.clone(), charge);
                match isolation {
                    Some(Isolation::Worktree) => self.isolate(&name),
                    None => self.begin(&name).await,
                }
            }
            Err(why) => {
                let _ = done.send(Err(why));
            }
        }
    }

    /// Has the executor start it, in a task that reports back.
    pub(super) async fn launch(&self, spec: WorkerSpec, spec_file: PathBuf) {
        let team = &self.parts.team;
        let fields = json!({ "backend": spec.backend.as_str(), "model": spec.model, "summary": spec.description,
                             "agentId": spec.agent_id, "runId": spec.run_id });
        team.log(EventKind::Spawn, &spec.name, spec.incarnation, fields).await;
        let (name, run_id) = (spec.name.clone(), spec.run_id.clone());
        let ready = Box::pin(ready(team.clone(), name.clone(), run_id.clone()));
        let launch = Launch { spec, spec_file, ready, deadline: READY_DEADLINE };
        let orders = self.orders.clone();
        let backends = self.parts.backends.clone();
        drop(spawn_in(&self.parts.lead, async move {
            let outcome = match backends.require(launch.spec.backend) {
                Ok(executor) => executor.spawn(launch).await,
                Err(error) => Err(error),
            };
            let outcome = outcome
                .map(Arc::from)
                .map_err(|e| if e.hint.is_empty() { e.to_string() } else { format!("{e} ({})", e.hint) });
            let _ = orders.send(Order::Spawned { name, run_id, outcome });
        }));
    }

    /// Takes the name, with key, inbox and a row in the order of the calls. Whatever fails takes back what
    /// was done.
    async fn prepare(
        &mut self,
        request: &TeammateRequest,
    ) -> Result<(WorkerSpec, Vec<String>, Started), String> {
        let counted = count_child(&request.parent).await?;
        let (spec, notes) = self.join(request).await?;
        Ok((spec, notes, counted))
    }

    async fn join(&self, request: &TeammateRequest) -> Result<(WorkerSpec, Vec<String>), String> {
        let team = &self.parts.team;
        let roster = team.roster().await.map_err(|e| e.to_string())?;
        let Resolved { spec, member, notes } = resolve(team, &roster, request, &self.parts.defaults)?;
        let (paths, keys, inbox) = (team.paths.clone(), team.keys.clone(), team.inbox(&spec.name));
        let written = spec.clone();
        let row = member.clone();
        let file = paths.team_file();
        let made = team
            .disk
            .run(&file, move || {
                keys.add_worker(&written.name)?;
                inbox.create()?;
                Roster::update(&paths, |team| {
                    team.members
                        .retain(|m| m.agent_name != row.agent_name || m.incarnation != row.incarnation);
                    team.members.push(row.clone().into());
                    Ok(())
                })
            })
            .await;
        match made {
            Ok(()) => Ok((spec, notes)),
            Err(error) => {
                self.take_back(&member).await;
                Err(error.to_string())
            }
        }
    }

    /// Writes what its worker reads, and starts it.
    pub(super) async fn begin(&mut self, name: &AgentName) {
        let Some(charge) = self.members.get(name) else { return };
        let spec = charge.spec.clone();
        let (paths, written) = (self.parts.team.paths.clone(), spec.clone());
        let file = paths.specs_dir();
        let made = self.parts.team.disk.run(&file, move || {
            if let Some(worktree) = &written.worktree {
                Roster::update(&paths, |team| {
                    let is_it =
                        |m: &Member| m.agent_name == written.name && m.incarnation == written.incarnation;
                    if let Some(row) = team.members.iter_mut().find(|m| is_it(&m.known)) {
                        row.cwd = written.cwd.display().to_string();
                        row.worktree_path = Some(worktree.display().to_string());
                    }
                    Ok(())
                })?;
            }
            spec::write_spec(&paths, &written)
        });
        match made.await {
            Ok(spec_file) => self.launch(spec, spec_file).await,
            Err(error) => self.not_started(name, error.to_string()).await,
        }
    }

    /// It did not come to be: its spawner is told, and what was made for it goes.
    pub(super) async fn not_started(&mut self, name: &AgentName, why: String) {
        let Some(charge) = self.members.get_mut(name) else { return };
        charge.isolating = false;
        if let Some(spawner) = charge.spawner.take() {
            // The caller may have been interrupted.
            let _ = spawner.send(Err(format!("{name} was not started: {why}")));
        }
        charge.counted = None;
        if charge.is_new {
            charge.listed = false;
        }
        self.step(name, Event::SpawnFailed { why }).await;
    }

    /// Removes every trace of a member that did not come to be.
    async fn take_back(&self, member: &Member) {
        let team = &self.parts.team;
        let (paths, member) = (team.paths.clone(), member.clone());
        let file = paths.team_file();
        let removed = team
            .disk
            .run(&file, move || {
                Roster::update(&paths, |team| {
                    team.members
                        .retain(|m| m.agent_name != member.agent_name || m.incarnation != member.incarnation);
                    Ok(())
                })?;
                members::remove_traces(&paths, &member.agent_name, member.incarnation)
            })
            .await;
        if let Err(error) = removed {
            tracing::warn!(%error, "a teammate that did not start could not be removed from the roster");
        }
    }

    pub(super) async fn spawned(
        &mut self,
        name: &AgentName,
        run_id: &RunId,
        outcome: Result<Arc<dyn TeammateHandle>, String>,
    ) {
        if !self.is_current(name, run_id) {
            return;
        }
        let Some(charge) = self.members.get_mut(name) else { return };
        match outcome {
            Ok(handle) => {
                let record = handle.record();
                charge.handle = Some(Arc::clone(&handle));
                if let Some(lease) = &charge.lease {
                    lease.lives();
                }
                if let Some(counted) = charge.counted.take() {
                    counted.stays();
                }
                let spec = charge.spec.clone();
                let member = self.note_pane(&spec, record.clone()).await;
                let fields =
                    json!({ "agentId": spec.agent_id, "runId": spec.run_id, "paneId": record.pane_id });
                self.parts.team.log(EventKind::Ready, name, spec.incarnation, fields).await;
                self.watch_exit(name, run_id, handle);
                self.list_member(name);
                self.reply(name, member);
                self.step(name, Event::SpawnSucceeded).await;
                self.look_at_runs(ChangedRuns::Any).await;
            }
            Err(why) => self.not_started(name, why).await,
        }
    }

    async fn note_pane(&self, spec: &WorkerSpec, record: HandleRecord) -> Result<Member, String> {
        let paths = self.parts.team.paths.clone();
        let file = paths.team_file();
        let (name, incarnation) = (spec.name.clone(), spec.incarnation);
        let noted = self.parts.team.disk.run(&file, move || {
            Roster::update(&paths, |team| {
                let row =
                    team.members.iter_mut().find(|m| m.agent_name == name && m.incarnation == incarnation);
                if let Some(row) = row {
                    row.pane_id = record.pane_id;
                    row.pane_server = record.pane_server;
                    return Ok(Some(row.known.clone()));
                }
                Ok(None)
            })
        });
        match noted.await {
            Ok(Some(member)) => Ok(member),
            Ok(None) => Err(format!("{} is not in the roster any more", spec.name)),
            Err(error) => Err(error.to_string()),
        }
    }

    fn reply(&mut self, name: &AgentName, member: Result<Member, String>) {
        let Some(charge) = self.members.get_mut(name) else { return };
        let notes = std::mem::take(&mut charge.notes);
        if let Some(spawner) = charge.spawner.take() {
            // The caller may have been interrupted; the teammate lives all the same.
            let _ = spawner.send(member.map(|member| Spawned { member, notes }));
        }
    }

    pub(super) fn watch_exit(&self, name: &AgentName, run_id: &RunId, handle: Arc<dyn TeammateHandle>) {
        let (orders, name, run_id) = (self.orders.clone(), name.clone(), run_id.clone());
        drop(spawn_in(&self.parts.lead, async move {
            let report = handle.exited().await;
            let _ = orders.send(Order::Exited { name, run_id, report });
        }));
    }
}

/// Resolves when the run record of a worker says that it is ready.
async fn ready(team: Team, name: AgentName, run_id: RunId) {
    let mut runs = team.hub.signal(Topic::Run(name.clone()));
    loop {
        let (paths, who) = (team.paths.clone(), name.clone());
        let file = paths.run(&name);
        let found = team.disk.run(&file, move || run::load(&paths, &who)).await;
        let is_ready = matches!(found, Ok(Some(record))
            if record.run_id == run_id && record.state != AgentState::Starting && !record.state.is_over());
        if is_ready {
            return;
        }
        runs.changed().await;
    }
}
