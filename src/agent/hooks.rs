//! Hooks: commands of the person, the project and definitions that run when something happens.
//!
//! Promises that identical commands run once and all of them together, each below a guard of its own and
//! for no longer than its timeout; that the order of the files decides nothing but which changed input
//! counts; and that a hook which fails is a notice while the work goes on. Never decides what a refusal
//! means: that is the loop's.

mod input;
mod output;
mod run;
#[cfg(test)]
mod tests;

use super::gates::{GateEvent, GateOutcome, GateVerdict, Gates, Scene};
use super::ports::BoxFuture;
use crate::os::command::Exit;
use crate::os::guard;
use crate::wire::hooks::{HookCommand, HookEvent, HookGroup, HookKind, HookSettings};
use futures_util::future::join_all;
use output::Said;
use regex::Regex;
use run::{Ran, Running};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a hook may take that names no `timeout`. Other agents use the same.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// Characters of a hook's text that reach the model.
const CONTEXT_CHARS: usize = 10_000;
/// Characters of a command by which it is named.
const NAME_CHARS: usize = 60;
/// Where a hook finds the directory of the session.
const PROJECT_DIR: &str = "FESTOON_PROJECT_DIR";

/// The hooks of one process.
pub struct Hooks {
    settings: HookSettings,
    environment: Arc<BTreeMap<String, String>>,
    guard: PathBuf,
}

impl Hooks {
    /// Those of the settings; definitions bring theirs with each event. `environment` is that of tool
    /// commands, which holds no keys.
    pub fn new(settings: HookSettings, environment: Arc<BTreeMap<String, String>>) -> Self {
        Self { settings, environment, guard: PathBuf::from(guard::SELF_EXE) }
    }

    /// What runs, each command once, those of the settings first.
    fn chosen<'a>(&'a self, scene: &Scene<'a>, event: &GateEvent<'_>) -> Vec<&'a HookCommand> {
        let subject = input::subject(scene, event);
        // The end of a definition's own agent, whatever it runs as.
        let ends = matches!(event.kind(), HookEvent::SubagentStop | HookEvent::TeammateIdle);
        let at_end = if ends { scene.own.at(HookEvent::Stop) } else { &[] };
        let groups = self.settings.at(event.kind()).iter().chain(scene.own.at(event.kind()));
        let fits = |group: &&HookGroup| subject.is_none_or(|subject| fits(group.matcher.as_deref(), subject));
        let mut chosen: Vec<&HookCommand> = Vec::new();
        for hook in groups.filter(fits).chain(at_end).flat_map(|group| &group.hooks) {
            if !chosen.iter().any(|known| known.command == hook.command) {
                chosen.push(hook);
            }
        }
        chosen
    }

    async fn one(
        &self,
        hook: &HookCommand,
        scene: &Scene<'_>,
        input: &[u8],
        cancel: &CancellationToken,
    ) -> Ran {
        let HookKind::Command = hook.kind;
        let mut environment = (*self.environment).clone();
        environment.insert(PROJECT_DIR.to_owned(), scene.project.display().to_string());
        let running = Running {
            command: &hook.command,
            // A worktree may be gone when its agent's last hooks run.
            cwd: if scene.cwd.is_dir() { scene.cwd } else { scene.project },
            environment,
            input: input.to_vec(),
            guard: &self.guard,
            timeout: hook.timeout.map_or(TIMEOUT, Duration::from_secs),
            shells: scene.shells,
        };
        run::run(running, cancel).await
    }
}

impl Gates for Hooks {
    fn pass<'a>(
        &'a self,
        scene: &'a Scene<'a>,
        event: GateEvent<'a>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, GateOutcome> {
        Box::pin(async move {
            let hooks = self.chosen(scene, &event);
            if hooks.is_empty() {
                return GateOutcome::default();
            }
            let input = input::encode(scene, &event);
            let ran = join_all(hooks.iter().map(|hook| self.one(hook, scene, &input, cancel))).await;
            let mut together = Together::new(event.kind());
            for (hook, ran) in hooks.iter().zip(ran) {
                together.add(hook, ran);
            }
            together.outcome
        })
    }

    fn listens(&self, event: HookEvent) -> bool {
        !self.settings.at(event).is_empty()
    }
}

/// Whether a matcher fits a name: one that is written with letters, digits, `_`, `-` and `|` is a list of
/// names, anything else a regular expression that is searched for.
fn fits(matcher: Option<&str>, name: &str) -> bool {
    match matcher.map(str::trim) {
        None | Some("" | "*") => true,
        Some(names) if is_list(names) => names.split('|').any(|one| one == name),
        Some(expression) => Regex::new(expression).is_ok_and(|expression| expression.is_match(name)),
    }
}

fn is_list(matcher: &str) -> bool {
    matcher.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '|'))
}

/// Looks for what a type cannot forbid.
///
/// # Errors
/// The key and what is wrong with it.
pub fn check(hooks: &HookSettings) -> Result<(), String> {
    for event in HookEvent::ALL {
        for (at, group) in hooks.at(event).iter().enumerate() {
            let key = format!("{}[{at}]", event.as_str());
            let matcher = group.matcher.as_deref().map(str::trim).unwrap_or_default();
            if matcher != "*" && !is_list(matcher) {
                let wrong = |error: regex::Error| {
                    let text = error.to_string();
                    format!(
                        "{key}.matcher: {matcher:?} is no regular expression: {}",
                        text.lines().last().unwrap_or_default()
                    )
                };
                Regex::new(matcher).map_err(wrong)?;
            }
            for (at, hook) in group.hooks.iter().enumerate() {
                if hook.command.trim().is_empty() || hook.command.contains('\0') {
                    return Err(format!("{key}.hooks[{at}].command: there is none"));
                }
                if hook.timeout == Some(0) {
                    return Err(format!("{key}.hooks[{at}].timeout: it is a number of seconds from 1"));
                }
            }
        }
    }
    Ok(())
}

/// What several hooks say, as one outcome.
struct Together {
    event: HookEvent,
    outcome: GateOutcome,
}

impl Together {
    fn new(event: HookEvent) -> Self {
        Self { event, outcome: GateOutcome::default() }
    }

    fn add(&mut self, hook: &HookCommand, ran: Ran) {
        match ran {
            Ran::Cancelled => {}
            Ran::Failed(why) => self.notice(hook, &why),
            Ran::Ended(Exit::Code(0), out) => match output::read(self.event, &out.stdout, out.is_cut) {
                Ok(said) => self.take(hook, said),
                Err(why) => self.notice(hook, &why),
            },
            Ran::Ended(Exit::Code(2), out) => {
                let reason = cut(String::from_utf8_lossy(&out.stderr).trim());
                self.weigh(GateVerdict::Block(if reason.is_empty() {
                    "it gives no reason".to_owned()
                } else {
                    reason
                }));
            }
            Ran::Ended(exit, out) => {
                let words = String::from_utf8_lossy(&out.stderr);
                let words = words.trim().lines().last().unwrap_or_default();
                let words = if words.is_empty() { String::new() } else { format!(": {words}") };
                let how = match exit {
                    Exit::Code(code) => format!("it ended with exit status {code}"),
                    Exit::Signal(_) | Exit::Lost => format!("it was {exit}"),
                };
                self.notice(hook, &format!("{how}{words}"));
            }
        }
    }

    fn take(&mut self, hook: &HookCommand, said: Said) {
        self.weigh(said.verdict);
        let outcome = &mut self.outcome;
        outcome.stop = outcome.stop.take().or(said.stop);
        outcome.context.extend(said.context.map(|text| cut(&text)));
        if let Some(message) = said.message {
            self.notice(hook, &message);
        }
        match (&self.outcome.updated_input, said.updated_input) {
            (_, None) => {}
            (None, changed) => self.outcome.updated_input = changed,
            (Some(first), Some(other)) if first.get() == other.get() => {}
            (Some(_), Some(_)) => {
                self.notice(hook, "another hook has changed the input before, and that counts")
            }
        }
    }

    fn weigh(&mut self, verdict: GateVerdict) {
        let rank = |verdict: &GateVerdict| match verdict {
            GateVerdict::Pass => 0,
            GateVerdict::Allow => 1,
            GateVerdict::Ask(_) => 2,
            GateVerdict::Block(_) => 3,
        };
        if rank(&verdict) > rank(&self.outcome.verdict) {
            self.outcome.verdict = verdict;
        }
    }

    fn notice(&mut self, hook: &HookCommand, what: &str) {
        let mut name: String =
            hook.command.trim().lines().next().unwrap_or_default().chars().take(NAME_CHARS).collect();
        if name.len() < hook.command.trim().len() {
            name.push_str(" …");
        }
        // The command comes last: a short screen cuts it first.
        self.outcome.notices.push(format!("{} hook: {} (`{name}`)", self.event.as_str(), cut(what)));
    }
}

fn cut(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(CONTEXT_CHARS) else { return text.to_owned() };
    format!("{}\n[cut after {CONTEXT_CHARS} characters]", &text[..end])
}
