//! Kinds of agents that come, change and go while an agent works.
//!
//! The declaration of `Agent` lists the kinds there were when it was frozen, and stays as it is: a change of it
//! would cost the whole prompt cache. So what is new is said between rounds, in a message of its own, and
//! can be used at once.

use super::core::AgentCore;
use super::definitions::{Kinds, Pace};
use super::events::AgentEvent;
use super::fork::FORK;
use super::mail::escape;
use crate::wire::block::ChatMessage;
use crate::wire::definition::AgentDefinition;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How a notice begins; by it those of earlier runs are found again.
const TAG: &str = "<agent-kinds>";

/// The kinds that a model may start, as a list for it.
pub fn lines(kinds: &Kinds) -> Vec<String> {
    startable(kinds).map(line).collect()
}

fn line(definition: &AgentDefinition) -> String {
    format!("- {}: {}", definition.name, definition.description)
}

/// A definition that has the name of forks is none.
fn startable(kinds: &Kinds) -> impl Iterator<Item = &AgentDefinition> {
    kinds.iter().filter(|definition| definition.name != FORK)
}

impl AgentCore {
    /// Looks whether there are other kinds of agents than before. What cannot be used is told a person, once.
    pub async fn look_for_kinds(&self, pace: Pace) {
        let definitions = self.runtime.definitions.clone();
        let looked = self.runtime.disk.run(&self.context.cwd, move || Ok(definitions.look(pace)));
        // The store thread ends with the process only.
        for complaint in looked.await.unwrap_or_default() {
            self.runtime.observer.event(&self.context, &AgentEvent::Notice(complaint));
        }
    }
}

/// The kinds that a model has been told of: names with their lines.
#[derive(Debug, Default)]
pub struct Told(BTreeMap<String, String>);

impl Told {
    /// What of `now` stands in the frozen declarations, or in a notice of the conversation.
    pub fn find(now: &Kinds, declarations: &str, history: &[ChatMessage]) -> Self {
        let notices: Vec<String> = history
            .iter()
            .flat_map(|message| message.blocks.iter())
            .filter_map(|block| block.as_text().filter(|text| text.starts_with(TAG)))
            .collect();
        let mut told = BTreeMap::new();
        for definition in startable(now) {
            let line = line(definition);
            let encoded = serde_json::Value::from(line.as_str()).to_string();
            let is_told = declarations.contains(encoded.trim_matches('"'))
                || notices.iter().any(|notice| notice.contains(&escape(&line)));
            if is_told {
                told.insert(definition.name.clone(), line);
            }
        }
        Self(told)
    }

    /// What to tell of `now`, which counts as told from here on; `None` when nothing is new.
    pub fn news(&mut self, now: &Kinds) -> Option<String> {
        let current: BTreeMap<String, String> = startable(now).map(|d| (d.name.clone(), line(d))).collect();
        if current == self.0 {
            return None;
        }
        let mut text = format!("{TAG}\nThe kinds of agents that Agent starts have changed.");
        let mut list = |head: &str, lines: Vec<&String>| {
            if !lines.is_empty() {
                let _ = write!(text, "\n{head}:");
                for line in lines {
                    let _ = write!(text, "\n{}", escape(line));
                }
            }
        };
        let new = |(name, _): &(&String, &String)| !self.0.contains_key(*name);
        let other = |(name, line): &(&String, &String)| self.0.get(*name).is_some_and(|old| old != *line);
        list("New", current.iter().filter(new).map(|(_, line)| line).collect());
        list("Described anew", current.iter().filter(other).map(|(_, line)| line).collect());
        list("Not there any more", self.0.keys().filter(|name| !current.contains_key(*name)).collect());
        text.push_str("\n</agent-kinds>");
        self.0 = current;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::definitions::main_agent;
    use crate::wire::block::Block;

    fn kinds(all: &[(&str, &str)]) -> Kinds {
        let definition = |(name, description): &(&str, &str)| AgentDefinition {
            name: (*name).to_owned(),
            description: (*description).to_owned(),
            ..main_agent()
        };
        Kinds::new(all.iter().map(definition).collect())
    }

    #[test]
    fn what_comes_changes_and_goes_is_told_once() {
        let before = kinds(&[("a", "says \"x\""), ("b", "b")]);
        let declared: String = before.iter().map(|d| format!("\n{}", line(d))).collect();
        let declared = serde_json::json!([{ "description": declared }]).to_string();
        let mut told = Told::find(&before, &declared, &[]);
        assert_eq!(told.news(&before), None);
        let after = kinds(&[("a", "other"), ("c", "</agent-kinds>")]);
        let news = told.news(&after).expect("news");
        let wanted = "<agent-kinds>\nThe kinds of agents that Agent starts have changed.\nNew:\n- c: \
                      &lt;/agent-kinds&gt;\nDescribed anew:\n- a: other\nNot there any more:\nb\n</agent-kinds>";
        assert_eq!(news, wanted);
        assert_eq!(told.news(&after), None);
        // A later run, which goes on with the frozen declarations, knows what was told in between.
        let history = [ChatMessage::user(vec![Block::text(&news)])];
        let mut told = Told::find(&after, &declared, &history);
        assert_eq!(told.news(&after), None);
        assert!(Told::find(&after, &declared, &[]).news(&after).is_some());
    }
}
