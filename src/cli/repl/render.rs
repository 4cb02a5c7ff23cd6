//! What the agents of this process do, as the REPL shows it.
//!
//! The main agent's answer streams; its tools are a line each. Of other agents only what needs
//! attention is shown here: the rest is told once by the team's event log, so that many agents never
//! flood the screen.

use super::printer::Printer;
use crate::agent::context::{AgentContext, Tier};
use crate::agent::events::{AgentEvent, Observer};
use crate::cli::view::{Beside, LineSink, lines, prefixed, retry, style_of_warning};
use crate::model::provider::Delta;
use crate::wire::block::Role;
use std::sync::atomic::{AtomicBool, Ordering};

/// The observer.
pub struct Render {
    printer: Printer,
    /// Shows the tools of subagents too.
    verbose: bool,
    /// Whether the message that is coming in has been shown piece by piece.
    streamed: AtomicBool,
}

impl Render {
    /// Shows on `printer`.
    pub fn new(printer: Printer, verbose: bool) -> Self {
        Self { printer, verbose, streamed: AtomicBool::new(false) }
    }

    fn main(&self, agent: &AgentContext, event: &AgentEvent) {
        match event {
            AgentEvent::Delta(Delta::Text(text)) => {
                self.streamed.store(true, Ordering::Relaxed);
                self.printer.piece(text);
                return;
            }
            AgentEvent::Delta(delta @ Delta::Retry { .. }) => {
                self.printer.end_of_text();
                if self.streamed.swap(false, Ordering::Relaxed) {
                    let warn = style_of_warning();
                    self.printer.line(format!("{warn}(this answer broke off and begins again){warn:#}"));
                }
                retry(delta).into_iter().for_each(|line| self.printer.line(line));
                return;
            }
            AgentEvent::RoundStarted(_) => self.streamed.store(false, Ordering::Relaxed),
            AgentEvent::Message { message, .. } if message.role == Role::Assistant => {
                self.printer.end_of_text();
                if self.streamed.swap(false, Ordering::Relaxed) {
                    return;
                }
            }
            AgentEvent::TurnEnded(_) => self.printer.end_of_text(),
            _ => {}
        }
        lines(agent, event, Beside::Log).into_iter().for_each(|line| self.printer.line(line));
    }
}

impl Observer for Render {
    fn event(&self, agent: &AgentContext, event: &AgentEvent) {
        let needs_attention = matches!(event, AgentEvent::Delta(Delta::Retry { .. }) | AgentEvent::Notice(_));
        match agent.tier {
            Tier::Main => self.main(agent, event),
            Tier::Subagent if self.verbose => self.other(agent, event),
            Tier::Subagent | Tier::Teammate if needs_attention => self.other(agent, event),
            Tier::Subagent | Tier::Teammate => {}
        }
    }
}

impl Render {
    fn other(&self, agent: &AgentContext, event: &AgentEvent) {
        for line in lines(agent, event, Beside::Log) {
            let line = prefixed(agent.label(), agent.color.as_deref(), &line);
            self.printer.line(format!("  {line}"));
        }
    }
}
