//! `/mode`, Shift+Tab and `/permissions`: the person changes what agents may do.
//!
//! The leader's mode and rules change here; teammates are told by a signed frame. A teammate never gets
//! a wider mode than the leader has, and keeps its own when the leader's becomes narrower.

use super::Desk;
use crate::agent::modes;
use crate::cli::error::CliError;
use crate::cli::text::clean;
use crate::policy::narrow::is_wider;
use crate::policy::{decide, rule};
use crate::store::{run, slug};
use crate::team::mailbox::Sender;
use crate::wire::frame::FrameType;
use crate::wire::frame_asks::{ModeSetRequest, TeamPermissionUpdate};
use crate::wire::ids::AgentName;
use crate::wire::mail::{Draft, Wake};
use crate::wire::permission::{Behavior, PermissionMode, Rule, RuleSource};
use serde::Serialize;

/// Where Shift+Tab goes from a mode; from those that are not among these it goes to the first.
const ROUND: [PermissionMode; 3] =
    [PermissionMode::Default, PermissionMode::AcceptEdits, PermissionMode::Plan];

impl Desk {
    /// `/mode`, `/mode MODE`, `/mode MODE NAME`.
    pub(super) async fn mode(&self, rest: &str) -> Result<(), CliError> {
        let mut words = rest.split_whitespace();
        let (mode, name) = (words.next(), words.next());
        let Some(mode) = mode else { return self.show_modes().await };
        let Some(mode) = PermissionMode::from_name(mode).filter(|_| words.next().is_none()) else {
            let names = PermissionMode::NAMES.map(|(name, _)| name);
            self.warn(&format!("/mode takes one of {}, and then a teammate's name", names.join(", ")));
            return Ok(());
        };
        match name {
            None => self.set_own_mode(mode),
            Some(name) => self.set_mode_of(name, mode).await,
        }
        Ok(())
    }

    /// The next mode.
    pub(super) fn next_mode(&self) {
        let at = ROUND.iter().position(|mode| *mode == self.core.permissions.mode());
        self.set_own_mode(ROUND[at.map_or(0, |at| (at + 1) % ROUND.len())]);
    }

    fn set_own_mode(&self, mode: PermissionMode) {
        if self.core.permissions.mode() == mode {
            self.say(&format!("mode: {} already", mode.as_str()));
            return;
        }
        // The view says so, as for every change.
        modes::change(&self.core, mode);
    }

    async fn set_mode_of(&self, name: &str, mode: PermissionMode) {
        let living = self.supervisor.living().await;
        let wanted = slug::agent_name(name.trim_start_matches('@')).ok();
        let Some(to) = wanted.filter(|name| living.contains(name)) else {
            let names: Vec<&str> = living.iter().map(AgentName::as_str).collect();
            let names = if names.is_empty() { "there is none".to_owned() } else { names.join(", ") };
            self.warn(&format!("{} is no living teammate; {names}", clean(name)));
            return;
        };
        let own = self.core.permissions.mode();
        if is_wider(mode, own) {
            self.warn(&format!(
                "{to} cannot have {}: it is wider than the leader's mode, {}",
                mode.as_str(),
                own.as_str()
            ));
            return;
        }
        let text = format!("Your permission mode is {} from now on.", mode.as_str());
        if self.order(&to, FrameType::ModeSetRequest, text, &ModeSetRequest { mode }).await {
            self.say(&format!("{to}: mode {}", mode.as_str()));
        }
    }

    async fn show_modes(&self) -> Result<(), CliError> {
        let names = PermissionMode::NAMES.map(|(name, _)| name);
        self.say(&format!("mode: {} (of {})", self.core.permissions.mode().as_str(), names.join(", ")));
        let living = self.supervisor.living().await;
        let paths = self.team.paths.clone();
        let dir = paths.run_dir();
        let records = self.team.disk.run(&dir, move || run::load_all(&paths)).await?;
        for (name, record) in records {
            let mode = record.ok().and_then(|record| record.permission_mode);
            if let Some(mode) = mode.filter(|_| living.contains(&name)) {
                self.say(&format!("{name}: {}", mode.as_str()));
            }
        }
        Ok(())
    }

    /// `/permissions`, `/permissions allow|ask|deny RULE`.
    pub(super) async fn permissions(&self, rest: &str) -> Result<(), CliError> {
        let (word, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let behavior = match word {
            "" => {
                self.show_rules();
                return Ok(());
            }
            "allow" => Behavior::Allow,
            "ask" => Behavior::Ask,
            "deny" => Behavior::Deny,
            _ => {
                self.warn("/permissions shows the rules; /permissions allow RULE (or ask, or deny) adds one");
                return Ok(());
            }
        };
        let text = text.trim();
        if let Err(error) = rule::check(text) {
            self.warn(&format!("{error}; for example Bash(git log:*)"));
            return Ok(());
        }
        let rule = Rule { text: text.to_owned(), behavior, source: RuleSource::Session };
        self.core.permissions.add_rules([rule]);
        let update = TeamPermissionUpdate { rules: vec![text.to_owned()], behavior, path: None };
        let mut told = vec![AgentName::team_lead().to_string()];
        for to in self.supervisor.living().await {
            let sentence = format!("A rule for the whole team: {word} {text}");
            if self.order(&to, FrameType::TeamPermissionUpdate, sentence, &update).await {
                told.push(to.to_string());
            }
        }
        self.say(&format!("{word} {} for this session: {}", clean(text), told.join(", ")));
        Ok(())
    }

    fn show_rules(&self) {
        self.say(&format!("mode: {}", self.core.permissions.mode().as_str()));
        let rules = self.core.permissions.rules();
        if rules.is_empty() {
            self.say("no rules");
        }
        for rule in rules {
            let behavior = match rule.behavior {
                Behavior::Allow => "allow",
                Behavior::Ask => "ask",
                Behavior::Deny => "deny",
            };
            self.say(&format!("{behavior:<5} {}", clean(&decide::named(&rule))));
        }
    }

    /// Tells a teammate's runtime; what could not be sent is said.
    async fn order<P: Serialize>(&self, to: &AgentName, kind: FrameType, text: String, payload: &P) -> bool {
        let draft = match Draft::frame(kind, text, payload) {
            Ok(draft) => draft.waking(Wake::Queue),
            Err(error) => {
                self.warn(&error.to_string());
                return false;
            }
        };
        match self.leader.post(to, draft, Sender::Trusted).await {
            Ok(_) => true,
            Err(error) => {
                self.warn(&error.what);
                false
            }
        }
    }
}
