//! What one query comes to: its command taken apart, its rules parsed, and which of them apply.

use super::command::{Match, like};
use super::decide::{Query, named};
use super::path::{PathPattern, inside, resolve};
use super::readonly::{Places, read_only, reason};
use super::rule::{PROTECTED, Parsed, Pattern, host, in_domain};
use super::shell::{self, Script, Simple, Word};
use super::unwrap::{Readings, readings};
use crate::wire::access::Target;
use crate::wire::permission::{Behavior, PermissionMode, Rule};
use std::path::{Path, PathBuf};

/// A query with everything that is derived from it once.
pub(super) struct Facts<'a> {
    query: &'a Query<'a>,
    places: Places<'a>,
    /// The command, when the call is one.
    pub script: Option<Script>,
    readings: Readings,
    rules: Vec<(&'a Rule, Option<Parsed>)>,
}

impl<'a> Facts<'a> {
    pub(super) fn of(query: &'a Query<'a>) -> Self {
        let script = match &query.access.target {
            Target::Command(command) => Some(shell::parse(command)),
            _ => None,
        };
        let readings = script.as_ref().map(readings).unwrap_or_default();
        let places =
            Places { cwd: query.cwd, project: query.project, home: query.home, closed: query.closed };
        let rules = query.rules.iter().map(|rule| (rule, Parsed::new(&rule.text).ok())).collect();
        Self { query, places, script, readings, rules }
    }

    fn root(&self) -> &'a Path {
        self.query.project.first().map_or(Path::new("/"), PathBuf::as_path)
    }

    fn own_output(&self) -> [PathBuf; 1] {
        [self.query.own_output.to_owned()]
    }

    /// The first path of the call that is closed.
    pub(super) fn closed(&self) -> Option<PathBuf> {
        let own = self.own_output();
        let is_own = |path: &Path| inside(path, &own);
        let closed = |path: &Path| inside(path, self.query.closed);
        match &self.query.access.target {
            Target::Read(paths) => paths.iter().find(|path| closed(path) && !is_own(path)).cloned(),
            Target::Edit(paths) => paths.iter().find(|path| closed(path)).cloned(),
            Target::Command(_) => {
                let words = self.words().filter_map(|word| {
                    let text = word.text.split_once('=').map_or(word.text.as_str(), |(_, value)| value);
                    resolve(text, self.query.cwd, self.query.home)
                });
                words.into_iter().find(|path| closed(path) && !is_own(path))
            }
            _ => None,
        }
    }

    /// Every word of the command, redirections included, that is known now.
    fn words(&self) -> impl Iterator<Item = &Word> {
        let read = self.readings.words.iter().flatten();
        let redirected = self.script.iter().flat_map(|script| script.reads.iter().chain(&script.writes));
        read.chain(redirected).filter(|word| word.literal)
    }

    /// The rule of this behaviour that applies, and one that may.
    pub(super) fn strongest(&self, behavior: Behavior) -> (Option<&'a Rule>, Option<&'a Rule>) {
        let mut maybe = None;
        for (rule, parsed) in self.rules.iter().filter(|(rule, _)| rule.behavior == behavior) {
            match self.bites(rule, parsed.as_ref()) {
                Match::Yes => return (Some(rule), maybe),
                Match::Maybe => maybe = maybe.or(Some(*rule)),
                Match::No => {}
            }
        }
        (None, maybe)
    }

    /// Whether a rule that denies or asks applies: it does when it fits any part of the call.
    fn bites(&self, rule: &Rule, parsed: Option<&Parsed>) -> Match {
        let tool = &self.query.access.tool;
        let Some(parsed) = parsed else {
            // Nobody knows what a malformed rule was to stop.
            let about = rule.text.split('(').next().unwrap_or_default().trim();
            return if about == tool { Match::Maybe } else { Match::No };
        };
        let yes = |fits: bool| if fits { Match::Yes } else { Match::No };
        match (&self.query.access.target, parsed.pattern_ref()) {
            (Target::Command(_), Pattern::Path(pattern)) => yes(self.command_touches(parsed, pattern)),
            _ if !parsed.names(tool) => Match::No,
            (_, Pattern::Any) => Match::Yes,
            (Target::Command(command), Pattern::Command(text, pattern)) => {
                if command.trim() == text {
                    return Match::Yes;
                }
                let found = self.readings.words.iter().map(|words| pattern.matches(words)).max();
                match found.unwrap_or(Match::No) {
                    Match::No if !self.readings.doubts.is_empty() => Match::Maybe,
                    found => found,
                }
            }
            (Target::Read(paths) | Target::Edit(paths), Pattern::Path(pattern)) => {
                yes(paths.iter().any(|path| self.path_fits(pattern, path)))
            }
            (Target::Fetch(url), Pattern::Domain(domain)) => match host(url) {
                Some(host) => yes(in_domain(&host, domain)),
                None => Match::Maybe,
            },
            (Target::Agent(name) | Target::Message(name), Pattern::Name(pattern)) => yes(like(pattern, name)),
            _ => Match::No,
        }
    }

    /// Whether a rule about files applies to a command that reads (or redirects into) one of them.
    fn command_touches(&self, parsed: &Parsed, pattern: &str) -> bool {
        let Some(script) = &self.script else { return false };
        let fits = |word: &Word| {
            resolve(&word.text, self.query.cwd, self.query.home)
                .is_some_and(|path| self.path_fits(pattern, &path))
        };
        let reads = |words: &Vec<Word>| words.first().is_some_and(|name| reason(&name.text).is_some());
        (parsed.names("Read")
            && (script.reads.iter().any(fits)
                || self
                    .readings
                    .words
                    .iter()
                    .filter(|words| reads(words))
                    .any(|words| words.iter().any(fits))))
            || (parsed.names("Edit") && script.writes.iter().any(fits))
    }

    fn path_fits(&self, pattern: &str, path: &Path) -> bool {
        PathPattern::bind(pattern, self.root(), self.query.home).is_ok_and(|pattern| pattern.matches(path))
    }

    /// Why allow rules let the whole call run; they must cover every part of it.
    pub(super) fn allowed(&self) -> Option<String> {
        let rules = || {
            let allow = self.rules.iter().filter(|(rule, _)| rule.behavior == Behavior::Allow);
            allow.filter_map(|(rule, parsed)| parsed.as_ref().map(|parsed| (*rule, parsed)))
        };
        let tool = &self.query.access.tool;
        let by = |rule: &Rule| format!("the rule {} allows it", named(rule));
        let about = || rules().filter(|(_, parsed)| parsed.names(tool));
        match &self.query.access.target {
            Target::Command(command) => {
                let whole = about().find(|(_, parsed)| match parsed.pattern_ref() {
                    Pattern::Any => true,
                    Pattern::Command(text, _) => command.trim() == text,
                    _ => false,
                });
                if let Some((rule, _)) = whole {
                    return Some(by(rule));
                }
                let script = self.script.as_ref().filter(|script| is_plain(script))?;
                let mut first = None;
                for command in &script.commands {
                    let rule =
                        about().find(|(_, parsed)| command_allowed(parsed, command)).map(|(rule, _)| rule);
                    let harmless = || {
                        let alone = Script { commands: vec![command.clone()], ..Script::default() };
                        read_only(&alone, self.places).is_ok()
                    };
                    if rule.is_none() && !harmless() {
                        return None;
                    }
                    first = first.or(rule);
                }
                first.map(by)
            }
            Target::Read(paths) | Target::Edit(paths) => {
                let covered = |path: &PathBuf| {
                    about().find(|(rule, parsed)| match parsed.pattern_ref() {
                        Pattern::Any => self.protected(path).is_none(),
                        Pattern::Path(pattern) => {
                            self.path_fits(pattern, path)
                                && self.protected(path).is_none_or(|part| rule.text.contains(part))
                        }
                        _ => false,
                    })
                };
                let mut first = None;
                for path in paths {
                    let (rule, _) = covered(path)?;
                    first = first.or(Some(rule));
                }
                first.map(by)
            }
            Target::Fetch(url) => {
                let host = host(url)?;
                let fits = |parsed: &Parsed| match parsed.pattern_ref() {
                    Pattern::Any => true,
                    Pattern::Domain(domain) => in_domain(&host, domain),
                    _ => false,
                };
                about().find(|(_, parsed)| fits(parsed)).map(|(rule, _)| by(rule))
            }
            Target::Agent(name) | Target::Message(name) => {
                let fits = |parsed: &Parsed| match parsed.pattern_ref() {
                    Pattern::Any => true,
                    Pattern::Name(pattern) => like(pattern, name),
                    _ => false,
                };
                about().find(|(_, parsed)| fits(parsed)).map(|(rule, _)| by(rule))
            }
            Target::Search(_) | Target::Named | Target::Nothing => about()
                .find(|(_, parsed)| matches!(parsed.pattern_ref(), Pattern::Any))
                .map(|(rule, _)| by(rule)),
        }
    }

    /// The protected part that an edited path lies in. Reading is free.
    fn protected(&self, path: &Path) -> Option<&'static str> {
        if !matches!(self.query.access.target, Target::Edit(_)) {
            return None;
        }
        let has = |part: &&&str| path.components().any(|component| component.as_os_str() == **part);
        PROTECTED.iter().find(has).copied()
    }

    /// The simple commands that neither a rule nor the table of harmless ones covers.
    pub(super) fn uncovered(&self) -> Vec<&Simple> {
        let Some(script) = &self.script else { return Vec::new() };
        let allow = |command: &Simple| {
            self.rules.iter().any(|(rule, parsed)| {
                rule.behavior == Behavior::Allow
                    && parsed.as_ref().is_some_and(|p| p.names("Bash") && command_allowed(p, command))
            })
        };
        let harmless = |command: &Simple| {
            let alone = Script { commands: vec![command.clone()], ..Script::default() };
            read_only(&alone, self.places).is_ok()
        };
        script.commands.iter().filter(|command| !allow(command) && !harmless(command)).collect()
    }

    /// Whether the call changes nothing; the error says what it would do.
    pub(super) fn read_only(&self) -> Result<(), String> {
        match &self.query.access.target {
            Target::Nothing
            | Target::Read(_)
            | Target::Fetch(_)
            | Target::Search(_)
            | Target::Agent(_)
            | Target::Message(_) => Ok(()),
            Target::Edit(_) => Err(format!("{} edits files", self.query.access.tool)),
            Target::Named => Err(format!("{} is not known to be read-only", self.query.access.tool)),
            Target::Command(_) => match &self.script {
                Some(script) => read_only(script, self.places),
                None => Ok(()),
            },
        }
    }

    /// What the mode says where no rule does: why it allows, or why it asks.
    pub(super) fn by_mode(&self) -> Result<String, String> {
        let mode = self.query.mode;
        let asks = |what: String| match mode {
            PermissionMode::Auto => {
                format!("{what} (auto mode without a sandbox asks like default mode)")
            }
            _ => what,
        };
        match &self.query.access.target {
            Target::Nothing => Ok("it touches nothing outside the agent".to_owned()),
            Target::Agent(_) => Ok("starting an agent needs no permission; its own calls do".to_owned()),
            Target::Message(_) => Ok("sending a message needs no permission".to_owned()),
            Target::Read(paths) => {
                let own = self.own_output();
                let asks_for = |path: &&PathBuf| !inside(path, self.query.project) && !inside(path, &own);
                match paths.iter().find(asks_for) {
                    None => Ok("reading inside the project needs no permission".to_owned()),
                    Some(path) => Err(asks(format!("{} is outside the project", path.display()))),
                }
            }
            Target::Edit(paths) => {
                if mode != PermissionMode::AcceptEdits {
                    return Err(asks("editing files asks".to_owned()));
                }
                for path in paths {
                    if let Some(part) = self.protected(path) {
                        return Err(format!("{} is in {part}, which is protected", path.display()));
                    }
                    if !inside(path, self.query.project) {
                        return Err(format!("{} is outside the project", path.display()));
                    }
                }
                Ok("acceptEdits mode allows edits inside the project".to_owned())
            }
            Target::Command(_) => match self.read_only() {
                Ok(()) => Ok("the command is known to be read-only".to_owned()),
                Err(why) => Err(asks(format!("the command asks: {why}"))),
            },
            Target::Fetch(_) => Err(asks("reaching the network asks".to_owned())),
            Target::Search(_) => Err(asks("searching the web asks".to_owned())),
            Target::Named => Err(asks(format!("{} asks", self.query.access.tool))),
        }
    }
}

/// Whether a script's text shows all it does, and it redirects nothing into a file.
fn is_plain(script: &Script) -> bool {
    script.doubts.is_empty()
        && script.writes.is_empty()
        && !script.commands.is_empty()
        && script.reads.iter().all(|word| word.literal && !word.text.starts_with("/dev/"))
}

/// Whether an allow rule fits one simple command with the variables it sets.
fn command_allowed(parsed: &Parsed, command: &Simple) -> bool {
    let Pattern::Command(_, pattern) = parsed.pattern_ref() else {
        return matches!(parsed.pattern_ref(), Pattern::Any);
    };
    let set = command.assignments.iter().map(|text| Word { text: text.clone(), literal: true, glob: false });
    let words: Vec<Word> = set.chain(command.words.iter().cloned()).collect();
    pattern.matches(&words) == Match::Yes
}
