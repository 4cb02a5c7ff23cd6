//! What agents do, as lines for a person: who, in its colour, and what.
//!
//! Owns the words and colours; where the lines go is the sink's business. Whatever agents wrote is
//! made harmless before it is shown.

use super::status::tokens;
use super::{text, todos};
use crate::agent::context::{AgentContext, Tier};
use crate::agent::events::{AgentEvent, Observer};
use crate::model::provider::Delta;
use crate::tools::todo_write;
use crate::wire::block::{ChatMessage, Role};
use crate::wire::mail::{Claimed, Origin};
use crate::wire::worker::WorkerSpec;
use anstyle::{AnsiColor, Color, Style};

/// Characters of a heading.
const HEAD: usize = 100;

/// Takes lines; must not block.
pub trait LineSink: Send + Sync {
    /// One more line.
    fn line(&self, text: String);
}

/// What else tells the reader of these lines what happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// Nothing: everything is told here.
    Nothing,
    /// The team's event log: mail, spawns and idleness are told there.
    Log,
}

/// The style of an agent's name.
pub fn style_of(color: Option<&str>) -> Style {
    let color: Color = match color {
        Some("blue") => AnsiColor::BrightBlue.into(),
        Some("green") => AnsiColor::Green.into(),
        Some("yellow") => AnsiColor::Yellow.into(),
        Some("magenta") => AnsiColor::Magenta.into(),
        Some("cyan") => AnsiColor::Cyan.into(),
        Some("red") => AnsiColor::BrightRed.into(),
        Some("orange") => anstyle::Ansi256Color(208).into(),
        Some("purple") => anstyle::Ansi256Color(141).into(),
        _ => return Style::new().bold(),
    };
    Style::new().bold().fg_color(Some(color))
}

/// The style of what needs attention.
pub fn style_of_warning() -> Style {
    Style::new().fg_color(Some(AnsiColor::Yellow.into()))
}

/// Lines for one event; empty when it is not for people.
pub fn lines(agent: &AgentContext, event: &AgentEvent, beside: Beside) -> Vec<String> {
    let dim = Style::new().dimmed();
    let warn = style_of_warning();
    let told = beside == Beside::Log;
    match event {
        AgentEvent::Message { message, .. } if message.role == Role::Assistant => said(message),
        AgentEvent::Todos(todos) => todos::lines(todos),
        // The list itself says it.
        AgentEvent::ToolStarted { tool, .. } if tool == todo_write::NAME => Vec::new(),
        AgentEvent::ToolStarted { summary, .. } => vec![format!("{dim}·{dim:#} {}", head(summary))],
        AgentEvent::ToolEnded { is_error: true, head: text, .. } => {
            vec![format!("{warn}! {}{warn:#}", head(text))]
        }
        AgentEvent::Waiting(true) if !told => vec![format!("{warn}waits for a person{warn:#}")],
        AgentEvent::ModeChanged(mode) => vec![format!("{dim}mode:{dim:#} {}", mode.as_str())],
        AgentEvent::MailDelivered(mail) => {
            mail.iter().filter(|m| !told || m.origin == Origin::Outside).map(arrived).collect()
        }
        AgentEvent::Delta(delta) => retry(delta).into_iter().collect(),
        AgentEvent::ChildStarted(child, description) if !told || child.tier != Tier::Teammate => {
            vec![format!("{dim}started{dim:#} {} {dim}({}){dim:#}", child.agent_type, head(description))]
        }
        AgentEvent::Compacting(_) => vec![format!("{dim}· compacting the conversation …{dim:#}")],
        AgentEvent::Compacted(done) => vec![format!(
            "{dim}· compacted: about {} tokens were, {} are{dim:#}",
            tokens(done.pre_tokens),
            tokens(done.post_tokens)
        )],
        AgentEvent::TaskLaunched(task) if !task.kind.is_agent() => {
            vec![format!(
                "{dim}runs beside it:{dim:#} {} {dim}({}){dim:#}",
                head(&task.description),
                task.task_id
            )]
        }
        AgentEvent::TaskEnded(task) => match &task.outcome {
            Some(outcome) => vec![format!("{dim}·{dim:#} {}", head(&outcome.summary))],
            None => Vec::new(),
        },
        AgentEvent::ForkReceipt(receipt) if !told => {
            vec![format!("{dim}{}{dim:#}", receipt.sentence())]
        }
        AgentEvent::Notice(text) => vec![format!("{warn}{}{warn:#}", head(text))],
        AgentEvent::TurnEnded(_) if agent.tier == Tier::Teammate && !told => {
            vec![format!("{dim}idle{dim:#}")]
        }
        _ => Vec::new(),
    }
}

/// A retry, with why and when.
pub fn retry(delta: &Delta) -> Option<String> {
    let warn = style_of_warning();
    match delta {
        Delta::Retry { attempt, of, after, why } => Some(format!(
            "{warn}{}; attempt {attempt} of {of} in {:.1} s{warn:#}",
            head(why),
            after.as_secs_f64()
        )),
        _ => None,
    }
}

fn arrived(claimed: &Claimed) -> String {
    let dim = Style::new().dimmed();
    let message = &claimed.message;
    let from = style_of(message.color.as_deref());
    let outside = if claimed.origin == Origin::Outside { " (from outside, name not proved)" } else { "" };
    let text = message.summary.as_deref().unwrap_or(&message.text);
    format!("{dim}mail from{dim:#} {from}{}{from:#}{outside}: {}", text::clean(&message.from), head(text))
}

fn said(message: &ChatMessage) -> Vec<String> {
    text::clean(&message.text()).trim_end().lines().map(str::to_owned).collect()
}

/// The first line, short and harmless.
pub fn head(text: &str) -> String {
    text::head(text, HEAD)
}

/// An agent's line with its name before it.
pub fn prefixed(name: &str, color: Option<&str>, line: &str) -> String {
    let style = style_of(color);
    format!("{style}{}{style:#} {line}", text::clean(name))
}

/// Sends what agents of this process do to a sink, every line with its agent before it.
pub struct View<S> {
    sink: S,
    beside: Beside,
    /// The agent whose lines are not indented; without it, those of named agents are not.
    title: Option<String>,
}

impl<S: LineSink> View<S> {
    /// A view of all agents.
    pub fn new(sink: S, beside: Beside) -> Self {
        Self { sink, beside, title: None }
    }

    /// The view in a teammate's own pane, with its heading.
    pub fn of_teammate(spec: &WorkerSpec, sink: S) -> Self {
        let heading = format!("of team {}: {}", spec.team, head(&spec.description));
        sink.line(prefixed(spec.name.as_str(), Some(&spec.color), &heading));
        Self { sink, beside: Beside::Nothing, title: Some(spec.agent_id.to_string()) }
    }
}

impl<S: LineSink> Observer for View<S> {
    fn event(&self, agent: &AgentContext, event: &AgentEvent) {
        let is_main = match &self.title {
            Some(title) => agent.id().as_str() == title,
            None => agent.name.is_some(),
        };
        let indent = if is_main { "" } else { "  " };
        for line in lines(agent, event, self.beside) {
            self.sink.line(format!("{indent}{}", prefixed(agent.label(), agent.color.as_deref(), &line)));
        }
    }
}
