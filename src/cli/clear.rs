//! `/clear`: a new conversation in the same process, with the same team.
//!
//! The old session stays on disk and can be resumed. Teammates, background work and the inbox go on;
//! mail that waits is for the new conversation. Rules that were allowed for the session are not taken
//! along; the mode is.

use super::compose::{Session, claim_session, lead_context, main_plan};
use super::error::CliError;
use super::setup::Setup;
use crate::agent::build::build;
use crate::agent::gates::{SessionEnding, SessionSource};
use crate::agent::transcript::{NewLine, RUN_ENDED};
use crate::store::roster::Roster;
use crate::team::ask_hooks::AskHooks;
use crate::wire::ids::{RunId, SessionId};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What became of it.
pub struct Cleared {
    /// The session that was left.
    pub before: SessionId,
    /// Messages that wait for the new conversation.
    pub waiting: usize,
    /// What a person should know.
    pub notices: Vec<String>,
}

impl Session {
    /// Whether this process has left that session by `/clear`.
    pub fn has_left(&self, id: &SessionId) -> bool {
        self.left.contains(id)
    }

    /// Begins a new conversation. After an error the old one goes on.
    pub async fn clear(&mut self, setup: &Setup, cancel: &CancellationToken) -> Result<Cleared, CliError> {
        let id = SessionId::generate();
        claim_session(setup, &id, false).await?;
        let old = Arc::clone(self.lead.agent.core());
        let context = lead_context(setup, &self.team, &id);
        let (mode, mailbox) = (old.permissions.mode(), Arc::clone(&self.lead.mailbox));
        let run_id = RunId::generate();
        let plan =
            main_plan(setup, &self.origin, &self.runtime, &context, mode, Arc::clone(&mailbox), &run_id)?;
        let built = build(&self.runtime, plan).await?;
        let (paths, leads) = (self.team.paths.clone(), id.clone());
        let file = paths.team_file();
        let noted = self.team.disk.run(&file, move || {
            Roster::update(&paths, |team| {
                team.lead_session_id = leads;
                Ok(())
            })
        });
        noted.await?;
        self.lead.agent.session_ends(SessionEnding::Clear, cancel).await;
        old.let_go().await;
        let mut notices = built.notices;
        let ended = self.lead.agent.transcript().append(vec![NewLine::system(RUN_ENDED, "cleared")]);
        notices.extend(ended.await.err().map(|error| error.to_string()));
        self.life.cancel();
        self.life = self.stop.child_token();
        self.runtime.checkpoints.keep_in(setup.paths.project(&setup.cwd).checkpoints(&id), None);
        self.lead.renew(built.agent, &self.life);
        let core = self.lead.agent.core();
        let core = Arc::clone(core);
        self.ask_hooks = AskHooks::start(self.team.clone(), core, self.life.clone());
        self.lead.agent.session_starts(SessionSource::Clear, cancel).await;
        let before = std::mem::replace(&mut self.id, id);
        self.left.push(before.clone());
        let waiting = mailbox.peek().await.map_or(0, |waiting| waiting.len());
        Ok(Cleared { before, waiting, notices })
    }
}
