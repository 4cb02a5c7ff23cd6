//! Taking over a team whose leader has died: adopt what lives, restart what ran inside the dead
//! process, and mark the rest as lost, with the reason (spec §18).

use super::place::found_and_ended;
use super::{Charge, Work};
use crate::agent::context::spawn_in;
use crate::os::process;
use crate::store::error::StoreError;
use crate::store::roster::Roster;
use crate::store::{clock, run, spec};
use crate::team::ending::{self, Whose, verdict_on_absent};
use crate::team::executor::TeammateHandle;
use crate::team::lifecycle::Lifecycle;
use crate::wire::event::EventKind;
use crate::wire::ids::{AgentId, AgentName, RunId};
use crate::wire::limits::{RESTART_WINDOW, RESTARTS};
use crate::wire::mail::Wake;
use crate::wire::open::Open;
use crate::wire::run::{AgentState, RunRecord};
use crate::wire::team::{BackendType, Ended, Member};
use crate::wire::time::Timestamp;
use crate::wire::worker::{WORKER_SPEC_VERSION, WorkerSpec};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot;

impl Work {
    /// Takes over every member that has not ended; one sentence for each, for the person.
    pub(super) async fn take_over(&mut self, done: oneshot::Sender<Vec<String>>) {
        let began = clock::now();
        let (lead, members): (AgentId, Vec<Member>) = match self.parts.team.roster().await {
            Ok(roster) => {
                let living = roster.members.iter().filter(|m| m.ended.is_none()).map(|m| m.known.clone());
                (roster.lead_agent_id.clone(), living.collect())
            }
            Err(error) => {
                let _ = done.send(vec![error.to_string()]);
                return;
            }
        };
        // Whoever goes on asks again for what it waited for; agents below it do when they are gone on with.
        let mut silent = vec![(AgentName::team_lead(), Whose::Below(lead, began.clone()))];
        let mut sentences = Vec::new();
        let mut left = Vec::new();
        for member in members {
            let (sentence, asks_on) = self.take_over_one(&member).await;
            sentences.push(sentence);
            let is_gone = !self.members.get(&member.agent_name).is_some_and(Charge::is_there);
            if !asks_on {
                let whose = match is_gone {
                    true => Whose::Any,
                    false => Whose::Below(member.agent_id, began.clone()),
                };
                silent.push((member.agent_name, whose));
            }
            if let Some(path) = member.worktree_path.filter(|_| is_gone && !asks_on) {
                left.push((sentences.len() - 1, PathBuf::from(path), PathBuf::from(member.cwd)));
            }
        }
        for (name, whose) in silent {
            let why = "the process that asked has ended";
            if let Err(error) = ending::close_asks(&self.parts.team, &name, whose, why).await {
                sentences.push(error.to_string());
            }
        }
        let nursery = self.parts.nursery.clone();
        // The worktrees of those that are gone, while the others go on.
        drop(spawn_in(&self.parts.lead, async move {
            for (at, path, cwd) in left {
                if let Some(place) = found_and_ended(&nursery, &path, &cwd).await {
                    sentences[at].push_str("; ");
                    sentences[at].push_str(&place);
                }
            }
            // The asker of this may have been interrupted.
            let _ = done.send(sentences);
        }));
    }

    /// What became of a member, and whether its open asks still have somebody who waits.
    async fn take_over_one(&mut self, member: &Member) -> (String, bool) {
        let name = &member.agent_name;
        let team = &self.parts.team;
        let (paths, who) = (team.paths.clone(), name.clone());
        let file = paths.run(name);
        let record = team.disk.run(&file, move || run::load(&paths, &who)).await;
        let record = match record {
            Ok(Some(record)) if record.incarnation == member.incarnation => record,
            Ok(_) => return (self.lose(member, "it never became ready").await, false),
            Err(error) => return (self.lose(member, &error.to_string()).await, false),
        };
        let (paths, who, run_id) = (team.paths.clone(), name.clone(), record.run_id.clone());
        let file = paths.spec(name, &run_id);
        let known = team.disk.run(&file, move || spec::read_spec(&paths.spec(&who, &run_id))).await;
        let known = match known {
            Ok(known) => known,
            Err(error) => return (self.lose(member, &error.to_string()).await, false),
        };
        if member.backend_type == BackendType::InProcess {
            return (self.restart(member, &record, known).await, false);
        }
        let found = match self.parts.backends.get(member.backend_type) {
            Some(executor) => executor.adopt(member, Some(&record.known)).await,
            None => None,
        };
        match found {
            Some(handle) => (self.adopt(&record, known, handle.into()).await, true),
            None if process::is_alive(&record.process()) => {
                let sentence = format!(
                    "{name} still runs (process {}) but could not be taken over; festoon team stop ends it",
                    record.pid
                );
                (sentence, true)
            }
            None => (self.absent(member, &record).await, false),
        }
    }

    async fn adopt(
        &mut self,
        record: &Open<RunRecord>,
        spec: WorkerSpec,
        handle: Arc<dyn TeammateHandle>,
    ) -> String {
        let name = spec.name.clone();
        let run_id = spec.run_id.clone();
        let evidence = handle.probe().await.evidence;
        let life = Lifecycle::adopted(record.state, Instant::now());
        let incarnation = spec.incarnation;
        self.members.insert(name.clone(), Charge::new(spec, life, Some(Arc::clone(&handle))));
        self.watch_exit(&name, &run_id, handle);
        self.list_member(&name);
        let fields = json!({ "reason": format!("found again by a new leader: {evidence}"), "runId": run_id });
        self.parts.team.log(EventKind::Ready, &name, incarnation, fields).await;
        format!("{name} was found alive and {} ({evidence})", record.state.as_str())
    }

    /// Starts a teammate of the dead process again from its transcript, as a new run of the same agent.
    async fn restart(&mut self, member: &Member, record: &RunRecord, old: WorkerSpec) -> String {
        if record.state.is_over() {
            return self.absent(member, record).await;
        }
        match self.count_restart(member, record).await {
            Ok(before) if before < RESTARTS => {}
            Ok(before) => {
                let minutes = RESTART_WINDOW.as_secs() / 60;
                let why = format!(
                    "it was started again {before} times within {minutes} minutes, and the leader died each time; it is \
                     not started again"
                );
                let ended = Ended::new(AgentState::Failed, clock::now(), "unknown", why.clone());
                let ended = ended.having_used(Some(record));
                self.bury(member, &ended).await;
                return format!("{} is failed: {why}", member.agent_name);
            }
            Err(error) => return self.lose(member, &error.to_string()).await,
        }
        let spec = WorkerSpec {
            version: WORKER_SPEC_VERSION,
            program_version: env!("CARGO_PKG_VERSION").to_owned(),
            run_id: RunId::generate(),
            asks: self.parts.defaults.asks,
            trusted: self.parts.defaults.trusted,
            // A plan may have been approved since, or the leader may have said something else.
            permission_mode: record.permission_mode.unwrap_or(old.permission_mode),
            ..old
        };
        let team = &self.parts.team;
        let (paths, fresh) = (team.paths.clone(), spec.clone());
        let file = paths.specs_dir();
        let written = team.disk.run(&file, move || {
            spec::remove_specs(&paths, &fresh.name)?;
            spec::write_spec(&paths, &fresh)
        });
        match written.await {
            Ok(spec_file) => {
                let name = spec.name.clone();
                let life = Lifecycle::starting(Instant::now());
                let mut charge = Charge::new(spec.clone(), life, None);
                charge.is_new = false;
                self.members.insert(name.clone(), charge);
                self.launch(spec, spec_file).await;
                format!("{name} is started again from its transcript")
            }
            Err(error) => self.lose(member, &error.to_string()).await,
        }
    }

    /// Notes in the roster that a member is started again; says how often that was lately. One that rested
    /// when its leader died had no part in that.
    async fn count_restart(&self, member: &Member, record: &RunRecord) -> Result<usize, StoreError> {
        let rested = matches!(record.state, AgentState::Idle | AgentState::Waiting);
        let paths = self.parts.team.paths.clone();
        let file = paths.team_file();
        let (name, incarnation) = (member.agent_name.clone(), member.incarnation);
        let note = move || {
            Roster::update(&paths, |team| {
                let is_it = |m: &&mut Open<Member>| m.agent_name == name && m.incarnation == incarnation;
                let Some(row) = team.members.iter_mut().find(is_it) else { return Ok(0) };
                let window = i64::try_from(RESTART_WINDOW.as_millis()).unwrap_or(i64::MAX);
                let is_recent = |at: &Timestamp| clock::millis_since(at).is_some_and(|ago| ago <= window);
                row.restarts.retain(|at| !rested && is_recent(at));
                let before = row.restarts.len();
                if !rested {
                    row.restarts.push(clock::now());
                }
                Ok(before)
            })
        };
        self.parts.team.disk.run(&file, note).await
    }

    async fn lose(&mut self, member: &Member, why: &str) -> String {
        let ended = Ended { reason: format!("lost with its leader: {why}"), ..verdict_on_absent(None) };
        self.bury(member, &ended).await;
        format!("{} is lost: {why}", member.agent_name)
    }

    /// Tells the leader's model of an end that nobody saw, as if it had been there, and writes the verdict.
    /// In this order: a leader that dies in between says it again, which the id makes harmless.
    async fn bury(&mut self, member: &Member, ended: &Ended) {
        let (team, name) = (&self.parts.team, &member.agent_name);
        let told = ending::tell_leader(team, &member.agent_id, member.incarnation, ended, Wake::Turn).await;
        if let Err(error) = told {
            tracing::error!(%name, %error, "the leader could not be told");
            self.unsaid.push(format!("the leader was not told of {name}: {error}"));
        }
        self.record_end(name, member.incarnation, true, ended).await;
    }

    /// One whose process is not there any more: by its own last word, or lost.
    async fn absent(&mut self, member: &Member, record: &RunRecord) -> String {
        let ended = verdict_on_absent(Some(record));
        self.bury(member, &ended).await;
        format!("{} is {}: {}", member.agent_name, ended.state.as_str(), ended.reason)
    }
}
