//! What one agent may do: its mode, its rules, and the answers it has been given.
//!
//! Belongs to one agent alone. A child gets its own, narrowed from a snapshot, so that neither can
//! change anything of the other's.

use crate::policy::decide::{Query, Verdict, decide};
use crate::wire::access::Access;
use crate::wire::permission::{Behavior, PermissionMode, Rule, RuleSource};
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

/// The permissions of one agent.
#[derive(Debug)]
pub struct Permissions {
    mode: PermissionMode,
    rules: RwLock<Vec<Rule>>,
    /// The working directory and what counts as the project beside it; links resolved.
    pub project: Vec<PathBuf>,
    /// The person's home, for `~/` in rules.
    pub home: Option<PathBuf>,
    /// Directories that no tool may touch.
    pub closed: Vec<PathBuf>,
    /// The one directory below them that the agent may read: where its long outputs go.
    pub own_output: PathBuf,
}

impl Permissions {
    /// Starts from a mode and rules that are already narrowed.
    pub fn new(
        mode: PermissionMode,
        rules: Vec<Rule>,
        project: Vec<PathBuf>,
        home: Option<PathBuf>,
        closed: Vec<PathBuf>,
        own_output: PathBuf,
    ) -> Self {
        Self { mode, rules: RwLock::new(rules), project, home, closed, own_output }
    }

    /// The mode.
    pub fn mode(&self) -> PermissionMode {
        self.mode
    }

    /// The rules as they are now.
    pub fn rules(&self) -> Vec<Rule> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds what a person allowed for the session.
    pub fn allow_for_session(&self, rules: impl IntoIterator<Item = String>) {
        let mut all = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        for text in rules {
            let rule = Rule { text, behavior: Behavior::Allow, source: RuleSource::Session };
            if !all.contains(&rule) {
                all.push(rule);
            }
        }
    }

    /// Decides about a call whose paths are resolved.
    pub fn decide(&self, access: &Access) -> Verdict {
        let rules = self.rules();
        decide(&Query {
            access,
            rules: &rules,
            mode: self.mode,
            project: &self.project,
            home: self.home.as_deref(),
            closed: &self.closed,
            own_output: &self.own_output,
        })
    }
}
