//! `/tasks`: what works in the background, and what the person does about it.
//!
//! The person may stop any task of this process, write to any of its agents, and is the only one who
//! brings back an agent that was stopped here.

use super::printer::Printer;
use crate::agent::background::TaskView;
use crate::agent::context::spawn_in;
use crate::agent::core::AgentCore;
use crate::agent::subagent::resume::{known, resume};
use crate::cli::status::{self, AgentStatus};
use crate::cli::text;
use crate::cli::view::{LineSink, style_of_warning};
use crate::os::terminal;
use crate::team::mailbox::{FileMailbox, Sender};
use crate::wire::background::{StoppedBy, TaskState};
use crate::wire::ids::{AgentId, AgentName, is_subagent};
use crate::wire::mail::Draft;
use std::sync::Arc;

/// What follows `/tasks`.
#[derive(Debug, PartialEq, Eq)]
pub enum Order<'a> {
    /// Nothing: show them.
    List,
    /// `stop ID`
    Stop(&'a str),
    /// `resume ID [TEXT]`
    Resume(&'a str, &'a str),
    /// Something else.
    Unclear,
}

/// What an agent is told that is brought back without a word.
const GO_ON: &str = "Go on where you were.";

/// Reads it.
pub fn order(rest: &str) -> Order<'_> {
    let (word, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let (id, text) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
    match word {
        "" => Order::List,
        "stop" if !id.is_empty() && text.is_empty() => Order::Stop(id),
        "resume" if !id.is_empty() => Order::Resume(id, text.trim()),
        _ => Order::Unclear,
    }
}

/// The tasks of a session, for its person.
pub struct Tasks {
    core: Arc<AgentCore>,
    printer: Printer,
}

impl Tasks {
    /// Those below the main agent and its teammates in this process.
    pub fn new(core: Arc<AgentCore>, printer: Printer) -> Self {
        Self { core, printer }
    }

    /// Carries an order out.
    pub async fn obey(&self, rest: &str, user: &FileMailbox) {
        match order(rest) {
            Order::List => self.list(),
            Order::Stop(id) => self.stop(id).await,
            Order::Resume(id, text) => {
                let text = if text.is_empty() { GO_ON } else { text };
                match self.agent(id).await {
                    Some(id) => self.write(&id, text, user).await,
                    None => self.warn(&format!("there is no background agent {id}; /tasks lists them")),
                }
            }
            Order::Unclear => self.warn("/tasks, /tasks stop ID, or /tasks resume ID [TEXT]"),
        }
    }

    /// The agent without a name in the team that a word means, if it means one.
    pub async fn agent(&self, word: &str) -> Option<AgentId> {
        let background = &self.core.runtime.background;
        if let Ok(Some(view)) = background.find(&self.core.context, word).await
            && view.record.kind.is_agent()
        {
            return Some(AgentId::new(view.record.task_id.as_str()));
        }
        is_subagent(word).then(|| AgentId::new(word))
    }

    /// A word to such an agent: it gets it before its next round, or goes on with it.
    pub async fn write(&self, id: &AgentId, text: &str, user: &FileMailbox) {
        let Ok(inbox) = AgentName::new(id.as_str()) else { return };
        let post = || user.post(&inbox, Draft::text(text), Sender::Trusted);
        let told = match self.core.runtime.background.reach(id, post()).await {
            Some(stored) => stored.map(|_| format!("{id} gets it before its next step")).map_err(|e| e.what),
            None => match known(&self.core, id).await {
                Ok(Some(meta)) => {
                    let gone_on = resume(&self.core, meta, post()).await;
                    gone_on.map(|_| format!("{id} goes on in the background")).map_err(|e| match e.stored {
                        true => format!("stored in the inbox of {id}, which does not go on: {}", e.why),
                        false => e.why,
                    })
                }
                Ok(None) => Err(format!("there is no agent {id}")),
                Err(why) => Err(why),
            },
        };
        match told {
            Ok(line) => self.printer.line(line),
            Err(why) => self.warn(&why),
        }
    }

    fn list(&self) {
        let views = self.core.runtime.background.views();
        if views.is_empty() {
            return self.printer.line("nothing works in the background".to_owned());
        }
        let columns = terminal::size().map_or(text::DEFAULT_COLUMNS, |s| s.columns).min(120);
        let all: Vec<AgentStatus> = views.iter().map(AgentStatus::of_task).collect();
        let names = status::name_columns(&all);
        let lines: Vec<String> = all.iter().map(|task| status::line(task, ' ', names, columns)).collect();
        self.printer.lines(&lines);
    }

    /// Stops one without making the person wait.
    async fn stop(&self, word: &str) {
        let background = self.core.runtime.background.clone();
        let found = background.find(&self.core.context, word).await;
        let Ok(Some(TaskView { record, .. })) = found else {
            return self.warn(&format!("there is no background task {word}; /tasks lists them"));
        };
        let printer = self.printer.clone();
        drop(spawn_in(&self.core.context, async move {
            let id = &record.task_id;
            printer.line(match background.stop(id, StoppedBy::User).await {
                Some(TaskState::Cancelled) if record.kind.is_agent() => {
                    format!("{id} is stopped; /tasks resume {id} brings it back")
                }
                Some(TaskState::Cancelled) => format!("{id} is stopped"),
                Some(state) => format!("{id} had ended: {}", state.as_str()),
                None => format!("{id} does not run here"),
            });
        }));
    }

    fn warn(&self, line: &str) {
        let warn = style_of_warning();
        self.printer.line(format!("{warn}{}{warn:#}", text::clean(line)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_and_others_are_not_guessed() {
        assert_eq!(order(""), Order::List);
        assert_eq!(order("stop a1"), Order::Stop("a1"));
        assert_eq!(order("resume a1"), Order::Resume("a1", ""));
        assert_eq!(order("resume  a1  look at b \n too"), Order::Resume("a1", "look at b \n too"));
        for unclear in ["stop", "resume", "stop a1 a2", "kill a1"] {
            assert_eq!(order(unclear), Order::Unclear, "{unclear}");
        }
    }
}
