//! What one query comes to: its command taken apart, its rules parsed, and which of them apply.

use super::command::{Match, like};
use super::decide::{Query, named};
use super::hidden::is_open;
use super::path::{PathPattern, inside, resolve};
use super::reach::{self, How, Touches};
use super::readonly::{Places, read_only};
use super::rule::{PROTECTED, Parsed, Pattern, host, in_domain};
use super::shell::{self, Script, Simple, Word};
use super::unwrap::{Readings, behind, readings};
use crate::wire::access::Target;
use crate::wire::permission::{Behavior, PermissionMode, Rule};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// A query with everything that is derived from it once.
pub(super) struct Facts<'a> {
    query: &'a Query<'a>,
    places: Places<'a>,
    /// The command, when the call is one.
    pub script: Option<Script>,
    readings: Readings,
    touches: Cow<'a, Touches>,
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
        let touches = match (query.touches, &script) {
            (Some(touches), _) => Cow::Borrowed(touches),
            (None, Some(script)) if reach::matters(query.rules) => {
                let mentions = reach::of(script, &readings, query.cwd, query.home);
                Cow::Owned(Touches::as_written(mentions))
            }
            (None, _) => Cow::default(),
        };
        let rules = query.rules.iter().map(|rule| (rule, Parsed::new(&rule.text).ok())).collect();
        Self { query, places, script, readings, touches, rules }
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
        let redirected = redirected.chain(&self.readings.reads).chain(&self.readings.writes);
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
            (Target::Command(_), Pattern::Path(pattern)) => self.command_touches(parsed, pattern),
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
                let written = self.touches.all.iter().map(|touched| &touched.path);
                yes(paths.iter().chain(written).any(|path| self.path_fits(pattern, path)))
            }
            (Target::Fetch(url), Pattern::Domain(domain)) => match host(url) {
                Some(host) => yes(in_domain(&host, domain)),
                None => Match::Maybe,
            },
            (Target::Agent(name) | Target::Message(name), Pattern::Name(pattern)) => yes(like(pattern, name)),
            _ => Match::No,
        }
    }

    /// Whether a rule about files applies to a command: it does when the command certainly touches one of them
    /// in the rule's way, and may when nobody can say.
    fn command_touches(&self, parsed: &Parsed, pattern: &str) -> Match {
        let Ok(bound) = PathPattern::bind(pattern, self.root(), self.query.home) else { return Match::Maybe };
        let (reads, edits) = (parsed.names("Read"), parsed.names("Edit"));
        let found = self.touches.all.iter().filter(|touched| bound.matches(&touched.path));
        let bites = found.map(|touched| match (touched.how, touched.sure) {
            (How::Read, true) if reads => Match::Yes,
            (How::Write, true) if edits => Match::Yes,
            (How::Read, false) if reads => Match::Maybe,
            (How::Write, false) if edits => Match::Maybe,
            (How::Either, _) if reads || edits => Match::Maybe,
            _ => Match::No,
        });
        match bites.max().unwrap_or(Match::No) {
            Match::No if self.touches.doubt.is_some() && (reads || edits) => Match::Maybe,
            bites => bites,
        }
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
                    let rule = self.rule_for(command, 0);
                    if rule.is_none() && !self.is_harmless(command) {
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
        let covered = |command: &Simple| self.rule_for(command, 0).is_some() || self.is_harmless(command);
        script.commands.iter().filter(|command| !covered(command)).collect()
    }

    fn is_harmless(&self, command: &Simple) -> bool {
        let alone = Script { commands: vec![command.clone()], ..Script::default() };
        read_only(&alone, self.places).is_ok()
    }

    /// The rule that allows one simple command. What the command runs beside itself must be allowed as well,
    /// unless the rule says it: `Bash(find:*)` is no word about what `find -exec` runs.
    fn rule_for(&self, command: &Simple, depth: usize) -> Option<&'a Rule> {
        let tool = &self.query.access.tool;
        let allow = |(rule, parsed): &&(&'a Rule, Option<Parsed>)| {
            rule.behavior == Behavior::Allow
                && parsed.as_ref().is_some_and(|p| p.names(tool) && command_allowed(p, command))
        };
        let mut fitting = self.rules.iter().filter(allow).peekable();
        fitting.peek()?;
        let behind = behind(command);
        let says = |(_, parsed): &&(&'a Rule, Option<Parsed>)| {
            let Some(Pattern::Command(_, pattern)) = parsed.as_ref().map(Parsed::pattern_ref) else {
                return parsed.is_some();
            };
            let reach = pattern.fixed();
            let opens = pattern.program().is_some_and(is_open);
            let said = |hidden: &Simple| {
                let count = hidden.words.len().max(1);
                let at = command.words.windows(count).rposition(|words| words == hidden.words);
                at.is_some_and(|at| at > 0 && reach > at)
                    || hidden.words.first().is_none_or(|word| is_amount(&word.text))
                    || (depth < MAX_HIDDEN
                        && (self.rule_for(hidden, depth + 1).is_some() || self.is_harmless(hidden)))
            };
            opens
                || reach == usize::MAX
                || (behind.doubts.is_empty() && behind.writes.is_empty() && behind.hidden.iter().all(said))
        };
        fitting.find(says).map(|(rule, _)| *rule)
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

/// Commands in the arguments of commands are held against allow rules so deep.
const MAX_HIDDEN: usize = 3;

/// Whether a word is a number or a duration: an argument of a wrapper, not the name of a command.
fn is_amount(text: &str) -> bool {
    let text = text.trim_end_matches(['s', 'm', 'h', 'd']);
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
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
