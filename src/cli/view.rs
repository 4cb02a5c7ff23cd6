//! What agents do, as lines for a person: who, in its colour, and what.
//!
//! Owns the words and colours of the feed; where the lines go is the caller's business.

use crate::agent::context::{AgentContext, Tier};
use crate::agent::events::{AgentEvent, Observer};
use crate::model::provider::Delta;
use crate::wire::block::{ChatMessage, Role};
use crate::wire::worker::WorkerSpec;
use anstream::println;
use anstyle::{AnsiColor, Color, Style};

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

/// Lines for one event; empty when it is not for people.
pub fn lines(agent: &AgentContext, event: &AgentEvent) -> Vec<String> {
    let dim = Style::new().dimmed();
    let warn = Style::new().fg_color(Some(AnsiColor::Yellow.into()));
    match event {
        AgentEvent::Message { message, .. } if message.role == Role::Assistant => said(message),
        AgentEvent::ToolStarted { summary, .. } => vec![format!("{dim}·{dim:#} {summary}")],
        AgentEvent::ToolEnded { is_error: true, head, .. } => vec![format!("{warn}! {head}{warn:#}")],
        AgentEvent::Waiting(true) => vec![format!("{warn}waits for permission{warn:#}")],
        AgentEvent::MailDelivered(mail) => mail
            .iter()
            .map(|m| {
                let from = style_of(m.message.color.as_deref());
                let text = m.message.summary.as_deref().unwrap_or(&m.message.text);
                format!("{dim}mail from{dim:#} {from}{}{from:#}: {}", m.message.from, head(text))
            })
            .collect(),
        AgentEvent::Delta(Delta::Retry { attempt, of, after, why }) => {
            vec![format!("{warn}{why}; attempt {attempt} of {of} in {:.1} s{warn:#}", after.as_secs_f64())]
        }
        AgentEvent::ChildStarted(child, description) => {
            vec![format!("{dim}started{dim:#} {} {dim}({description}){dim:#}", child.agent_type)]
        }
        AgentEvent::Notice(text) => vec![format!("{warn}{text}{warn:#}")],
        AgentEvent::TurnEnded(_) if agent.tier == Tier::Teammate => vec![format!("{dim}idle{dim:#}")],
        _ => Vec::new(),
    }
}

fn said(message: &ChatMessage) -> Vec<String> {
    message.text().lines().map(str::to_owned).collect()
}

/// The first line, short.
pub fn head(text: &str) -> String {
    let line = text.lines().find(|l| !l.trim().is_empty()).unwrap_or_default().trim();
    if line.chars().count() <= 100 {
        return line.to_owned();
    }
    let cut: String = line.chars().take(99).collect();
    format!("{cut}…")
}

/// The plain view of a pane or a log: every line with its agent before it.
pub struct View {
    title: String,
}

impl View {
    /// The view in a teammate's own pane.
    pub fn of_teammate(spec: &WorkerSpec) -> Self {
        let style = style_of(Some(&spec.color));
        println!("{style}{}{style:#} of team {}: {}", spec.name, spec.team, spec.description);
        Self { title: spec.agent_id.to_string() }
    }
}

impl Observer for View {
    fn event(&self, agent: &AgentContext, event: &AgentEvent) {
        let style = style_of(agent.color.as_deref());
        let indent = if agent.id.as_str() == self.title { "" } else { "  " };
        for line in lines(agent, event) {
            println!("{indent}{style}{}{style:#} {line}", agent.label());
        }
    }
}
