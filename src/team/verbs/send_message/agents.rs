//! Messages to agents without a name in the team: by id, or by the name they were launched with.
//!
//! One that works gets the message before its next round; one that has ended goes on with it. One that
//! the user stopped is left to the user.

use super::SendMessage;
use crate::agent::subagent::resume::{NotResumed, known, resume};
use crate::store::slug;
use crate::team::context::latest;
use crate::tools::tool::ToolOutput;
use crate::wire::background::{StoppedBy, TaskRecord, TaskState};
use crate::wire::ids::{AgentId, AgentName, USER, is_subagent};
use crate::wire::mail::Draft;
use crate::wire::team::BackendType;

impl SendMessage {
    /// The agent without a name in the team that `to` is, if it is one. Living members come first.
    pub(super) async fn agent(&self, to: &str) -> Result<Option<AgentId>, String> {
        if to == "main" || to == USER || to == AgentName::team_lead().as_str() {
            return Ok(None);
        }
        if let Ok(name) = slug::agent_name(to)
            && self.mailbox.others().await.map_err(|e| e.what)?.contains(&name)
        {
            return Ok(None);
        }
        let background = &self.core.runtime.background;
        let found = background.find(&self.core.context, to).await.map_err(|e| e.to_string())?;
        if let Some(view) = found.filter(|view| view.record.kind.is_agent()) {
            return Ok(Some(AgentId::new(view.record.task_id.as_str())));
        }
        if !is_subagent(to) {
            return Ok(None);
        }
        let id = AgentId::new(to);
        Ok(known(&self.core, &id).await?.map(|_| id))
    }

    /// Sends to such an agent.
    pub(super) async fn send_to_agent(&self, id: &AgentId, draft: Draft) -> ToolOutput {
        if id == &self.core.context.id() {
            return ToolOutput::error("Not sent: that is you.");
        }
        let Ok(inbox) = AgentName::new(id.as_str()) else {
            return ToolOutput::error(format!("Not sent: {id} is no id of an agent."));
        };
        let background = &self.core.runtime.background;
        match background.reach(id, self.mailbox.send(&inbox, draft.clone())).await {
            Some(Ok(receipt)) => ToolOutput::ok(format!(
                "Stored in the inbox of {id} (message {}). It is at work and gets it before its next round.",
                receipt.id
            )),
            Some(Err(error)) => ToolOutput::error(format!("Not sent: {error}.")),
            None => self.go_on(id, &inbox, draft).await,
        }
    }

    /// Goes on with one that has ended.
    async fn go_on(&self, id: &AgentId, inbox: &AgentName, draft: Draft) -> ToolOutput {
        let background = &self.core.runtime.background;
        let record = match background.find(&self.core.context, id.as_str()).await {
            Ok(found) => found.map(|view| view.record),
            Err(error) => return ToolOutput::error(format!("Not sent: {error}.")),
        };
        if record.as_ref().is_some_and(stopped_by_user) {
            return ToolOutput::error(format!(
                "Not sent: the user stopped {id}, and only the user brings it back: with `/tasks resume {id}`."
            ));
        }
        let meta = match known(&self.core, id).await {
            Ok(Some(meta)) => meta,
            Ok(None) => return ToolOutput::error(format!("Not sent: nothing is known of {id} any more.")),
            Err(why) => return ToolOutput::error(format!("Not sent: {why}.")),
        };
        if let Some(root) = &meta.root
            && self.lives_elsewhere(root).await
        {
            return ToolOutput::error(format!("Not sent: {id} works below {root}; write to {root}."));
        }
        let before = meta.status.clone();
        match resume(&self.core, meta, self.mailbox.send(inbox, draft)).await {
            Ok(resumed) => {
                let mut text = format!(
                    "{id} was {before} and goes on in the background with your message (message {}). You are told in \
                     a <task-notification> when it has ended.\noutput_file: {}",
                    resumed.stored.id,
                    resumed.launched.output_file.display()
                );
                for note in resumed.notes {
                    text.push_str(&format!("\nNote: {note}."));
                }
                ToolOutput::ok(text)
            }
            Err(NotResumed { stored: true, why }) => ToolOutput::ok(format!(
                "Stored in the inbox of {id}, which does not go on by it: {}. It gets the message when it works \
                 again; do not send it twice.",
                why.trim_end_matches('.')
            )),
            Err(NotResumed { stored: false, why }) => {
                ToolOutput::error(format!("Not sent: {id} cannot go on: {}.", why.trim_end_matches('.')))
            }
        }
    }

    /// Whether a named agent lives in another process, which alone writes the transcripts below it.
    async fn lives_elsewhere(&self, root: &AgentName) -> bool {
        let here = &self.core.context.root;
        if root == here {
            return false;
        }
        let roster = match self.team.roster().await {
            Ok(roster) => roster,
            Err(error) => {
                tracing::warn!(%error, "the roster could not be read");
                return true;
            }
        };
        let alone = |name| latest(&roster, name).is_some_and(|m| m.backend_type != BackendType::InProcess);
        let lives = root.is_lead() || latest(&roster, root).is_some_and(|m| m.ended.is_none());
        lives && (alone(root) || alone(here))
    }

    /// The agents without a name that can be written to, as the end of an error; empty when there are none.
    pub(super) fn agents_listed(&self) -> String {
        let own = &self.core.context.id();
        let views = self.core.runtime.background.views();
        let agents: Vec<String> = views
            .iter()
            .filter(|v| v.record.kind.is_agent() && v.record.task_id.as_str() != own.as_str())
            .map(|v| format!("{} ({}, {})", v.record.task_id, v.record.description, v.record.state.as_str()))
            .collect();
        if agents.is_empty() { String::new() } else { format!(" Background agents: {}.", agents.join(", ")) }
    }
}

fn stopped_by_user(record: &TaskRecord) -> bool {
    record.state == TaskState::Cancelled && record.stopped_by == Some(StoppedBy::User)
}
