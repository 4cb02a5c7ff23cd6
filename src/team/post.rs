//! The mail of agents without a name, and of tasks: inboxes beside those of the members, named by id.
//!
//! One delivery mechanism for everything (spec §11): a subagent has an inbox file like any member, so
//! what is stored for it survives every process. It is taken away again when nothing ever came.

use super::context::Team;
use super::mailbox::{FileMailbox, explain};
use crate::agent::context::AgentContext;
use crate::agent::ports::{BoxFuture, Letter, MailError, Mailbox, PostOffice};
use crate::store::error::StoreError;
use crate::store::members;
use crate::wire::ids::AgentName;
use std::sync::Arc;

/// The post office of one process.
pub struct TeamPost(Team);

impl TeamPost {
    /// For the agents of this team.
    pub fn new(team: Team) -> Self {
        Self(team)
    }

    async fn make(&self, name: &AgentName) -> Result<(), MailError> {
        let inbox = self.0.inbox(name);
        let path = self.0.paths.inbox(name);
        self.0.disk.run(&path, move || inbox.create()).await.map_err(|e| explain(&e))
    }
}

/// An agent's id as the name of its inbox.
pub fn inbox_name(id: &str) -> Result<AgentName, MailError> {
    AgentName::new(id).map_err(|e| MailError { kind: "no_such_member", what: e.to_string() })
}

impl PostOffice for TeamPost {
    fn mailbox<'a>(&'a self, agent: &'a AgentContext) -> BoxFuture<'a, Result<Arc<dyn Mailbox>, MailError>> {
        Box::pin(async move {
            let name = inbox_name(agent.id().as_str())?;
            self.make(&name).await?;
            let mailbox: Arc<dyn Mailbox> =
                Arc::new(FileMailbox::new(self.0.clone(), name, 1, agent.color.clone()));
            Ok(mailbox)
        })
    }

    fn close<'a>(&'a self, agent: &'a AgentContext) -> BoxFuture<'a, Result<(), MailError>> {
        Box::pin(async move {
            let name = inbox_name(agent.id().as_str())?;
            let (paths, inbox) = (self.0.paths.clone(), self.0.inbox(&name));
            let path = paths.inbox(&name);
            let close = move || match inbox.counts() {
                Ok(counts) if counts.last_seq == 0 => members::remove_traces(&paths, &name, 1),
                Ok(_) | Err(StoreError::NoSuchMember { .. }) => Ok(()),
                Err(error) => Err(error),
            };
            self.0.disk.run(&path, close).await.map_err(|e| explain(&e))
        })
    }

    fn notify(&self, letter: Letter) -> BoxFuture<'_, Result<(), MailError>> {
        Box::pin(async move {
            self.make(&letter.to).await?;
            let from = FileMailbox::new(self.0.clone(), inbox_name(letter.from.as_str())?, 1, None);
            from.store(letter.id, &letter.to, letter.incarnation, letter.draft).await.map(drop)
        })
    }
}
