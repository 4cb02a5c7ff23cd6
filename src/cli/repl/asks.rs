//! The queue of asks at the prompt: shown one at a time, oldest first, answered by a letter, a number
//! or a text. Several agents that want the same call are one dialog and get one answer.
//!
//! The files are the truth: whatever was answered or closed elsewhere leaves the queue with a line.

use super::printer::Printer;
use crate::cli::ask_answer;
use crate::cli::ask_dialog::{self, Place, Shown, plan};
use crate::cli::ask_group::groups;
use crate::cli::error::CliError;
use crate::cli::feed::Faces;
use crate::cli::text;
use crate::cli::view::{LineSink, head, style_of_warning};
use crate::os::terminal;
use crate::store::asks::{self, OpenAsks};
use crate::team::answer::{Answered, Word, answer};
use crate::team::ask_hooks::AskHooks;
use crate::team::context::Team;
use crate::wire::ask::{Ask, AskKind, DecisionRecord};
use crate::wire::ids::{AgentId, AgentName, AskId, USER};
use crate::wire::permission::{Decision, PermissionMode, Scope};
use crate::wire::question::QuestionAnswer;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A dialog that has taken another's place is not answered by what was typed for that one.
const TOO_QUICK: Duration = Duration::from_millis(700);

/// The queue.
pub struct Asks {
    team: Team,
    queue: Arc<OpenAsks>,
    whose: Whose,
    /// Those of this process; elsewhere they run where the leader is.
    hooks: Option<Arc<AskHooks>>,
    open: Vec<Ask>,
    shown: Option<AskId>,
    /// Answers so far to the questions of the ask that is shown.
    given: Vec<QuestionAnswer>,
    /// What stood in the line when a question came: that line is no answer to it.
    begun: Option<String>,
    mine: HashSet<AskId>,
    /// When the dialog on the screen took the place of one that was answered elsewhere.
    replaced: Option<Instant>,
    faces: Faces,
}

/// Whose asks are shown.
#[derive(Debug, Clone)]
pub enum Whose {
    /// All of the team.
    Everybody,
    /// Those of one agent.
    Of {
        /// Its id.
        agent: AgentId,
        /// Its name in the team: what works below it and has no name asks through it.
        name: Option<AgentName>,
    },
}

impl Whose {
    fn has(&self, ask: &Ask) -> bool {
        match self {
            Self::Everybody => true,
            Self::Of { agent, name } => ask.agent_id == *agent || name.as_ref() == Some(&ask.reply_to),
        }
    }
}

/// An answer as it was typed.
#[derive(Debug, PartialEq, Eq)]
struct Typed {
    decision: Decision,
    scope: Scope,
    note: Option<String>,
    mode: Option<PermissionMode>,
}

/// What a line is to the ask that is shown.
enum Reading {
    /// Its answer.
    Word(Box<Word>),
    /// Dealt with; it is still open.
    Taken,
    /// Something else.
    Other,
}

/// `y`, `s`, `p` or `n`, alone or with a note after it, and `yes` alone. Whatever begins with the word
/// no is a no: it would be worse to take it for something else than to have to say yes again.
fn parse(line: &str) -> Option<Typed> {
    let line = line.trim();
    let (word, note) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let note = Some(note.trim()).filter(|n| !n.is_empty());
    let bare = word.trim_end_matches([',', '.', ';', ':', '!']);
    if bare.eq_ignore_ascii_case("no") {
        let note = note.map(str::to_owned);
        return Some(Typed { decision: Decision::Deny, scope: Scope::Once, note, mode: None });
    }
    let (decision, scope) = match (word, note) {
        ("y", _) | ("yes", None) => (Decision::Allow, Scope::Once),
        ("s", _) => (Decision::Allow, Scope::Session),
        ("p", _) => (Decision::Allow, Scope::Project),
        ("n", _) => (Decision::Deny, Scope::Once),
        _ => return None,
    };
    Some(Typed { decision, scope, note: note.map(str::to_owned), mode: None })
}

/// The same for a plan: `y` and the letters of other modes approve, `n` and `no` do not.
fn parse_for_plan(ask: &Ask, line: &str) -> Option<Typed> {
    let (word, note) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
    let choice = plan::choices(ask).into_iter().find(|(letter, _)| *letter == word);
    if let Some((_, mode)) = choice {
        let note = Some(note.trim().to_owned()).filter(|n| !n.is_empty());
        return Some(Typed { decision: Decision::Allow, scope: Scope::Once, note, mode: Some(mode) });
    }
    parse(line).filter(|typed| typed.scope == Scope::Once)
}

impl Asks {
    /// The queue of a team; what its hooks have not seen is not shown yet.
    pub fn new(team: Team, hooks: Arc<AskHooks>) -> Self {
        Self { hooks: Some(hooks), ..Self::of(team, Whose::Everybody) }
    }

    /// The asks of some, looked at from another process than the leader's.
    pub fn of(team: Team, whose: Whose) -> Self {
        Self {
            team,
            whose,
            hooks: None,
            queue: Arc::default(),
            open: Vec::new(),
            shown: None,
            given: Vec::new(),
            begun: None,
            mine: HashSet::new(),
            replaced: None,
            faces: Faces::default(),
        }
    }

    /// What answers the ask on the screen, in a few words; `None` when none is there.
    pub fn hint(&self) -> Option<&'static str> {
        self.shown.as_ref()?;
        Some(match self.open.first()?.kind {
            AskKind::Permission | AskKind::Sandbox => "y, s, p or n answers it",
            AskKind::Plan => "y or n answers it",
            AskKind::Question => "the next line answers it",
        })
    }

    /// Takes the queue as it is on disk, and shows what is new. `typed` is what stands in the line.
    pub async fn look(&mut self, printer: &Printer, typed: &str) -> Result<(), CliError> {
        let paths = self.team.paths.clone();
        let dir = paths.asks_dir();
        let (queue, before) = (Arc::clone(&self.queue), self.open.clone());
        let (hooks, whose) = (self.hooks.clone(), self.whose.clone());
        let looked = move || {
            let mut open = queue.look(&paths)?;
            open.retain(|ask| whose.has(ask) && hooks.as_ref().is_none_or(|hooks| !hooks.holds(&ask.id)));
            let gone = before.iter().filter(|ask| open.iter().all(|o| o.id != ask.id));
            let gone = gone.map(|ask| asks::find(&paths, &ask.id)).collect::<Result<Vec<_>, _>>()?;
            Ok((open, gone))
        };
        let (open, gone) = self.team.disk.run(&dir, looked).await?;
        for (ask, _, decision) in gone.iter().flatten() {
            if !self.mine.remove(&ask.id) {
                printer.line(over(ask, decision.as_ref()));
                if self.shown.as_ref() == Some(&ask.id) {
                    self.replaced = Some(Instant::now());
                }
            }
        }
        let known: HashSet<AskId> = self.open.iter().map(|a| a.id.clone()).collect();
        self.open = open;
        if self.open.iter().any(|a| !known.contains(&a.id)) {
            self.faces.learn(&self.team).await?;
        }
        let front = self.open.first().map(|a| a.id.clone());
        let is_new_front = front != self.shown;
        let joined = self.joined(&known, is_new_front);
        if is_new_front {
            self.shown = front;
            self.given.clear();
            self.show(printer);
            let is_question = self.open.first().is_some_and(|ask| ask.kind == AskKind::Question);
            self.begun = Some(typed.to_owned()).filter(|typed| is_question && !typed.trim().is_empty());
        }
        if self.open.is_empty() {
            self.replaced = None;
        }
        joined.into_iter().for_each(|line| printer.line(line));
        Ok(())
    }

    /// A line for every ask that is new and not shown in full: it waits behind, or joins one that is there.
    fn joined(&self, known: &HashSet<AskId>, is_new_front: bool) -> Vec<String> {
        let groups = self.groups();
        let mut lines = Vec::new();
        for (place, group) in groups.iter().enumerate() {
            let new: Vec<usize> =
                group.iter().copied().filter(|index| !known.contains(&self.open[*index].id)).collect();
            let all_new = new.len() == group.len();
            match (place == 0 && is_new_front, all_new) {
                (true, _) => {}
                (false, true) => lines.push(self.headline(place)),
                (false, false) => lines.extend(new.iter().map(|index| {
                    let ask = &self.open[*index];
                    let who = ask_dialog::who(ask);
                    format!("{who} asks for the same: {}", head(&ask.description))
                })),
            }
        }
        lines
    }

    /// The open asks, those together that one answer serves.
    fn groups(&self) -> Vec<Vec<usize>> {
        groups(&self.open.iter().collect::<Vec<_>>())
    }

    fn place(&self, index: usize) -> Place {
        Place { number: index + 1, of: self.groups().len() }
    }

    fn headline(&self, place: usize) -> String {
        let groups = self.groups();
        let Some(group) = groups.get(place) else { return String::new() };
        let ask = &self.open[group[0]];
        let same: Vec<&Ask> = group[1..].iter().map(|index| &self.open[*index]).collect();
        let shown = Shown { ask, same: &same, at: 0 };
        let line = ask_dialog::headline(shown, self.faces.color(ask.reply_to.as_str()), self.place(place));
        format!("{line}: {}", head(&ask.description))
    }

    /// Shows the first ask in full, with a bell.
    fn show(&self, printer: &Printer) {
        let Some(ask) = self.open.first() else { return };
        let columns = terminal::size().map_or(text::DEFAULT_COLUMNS, |s| s.columns);
        let color = self.faces.color(ask.reply_to.as_str());
        let groups = self.groups();
        let same: Vec<&Ask> =
            groups.first().into_iter().flatten().skip(1).map(|index| &self.open[*index]).collect();
        let shown = Shown { ask, same: &same, at: self.given.len() };
        let mut lines = ask_dialog::dialog(shown, color, self.place(0), columns);
        if terminal::size().is_some() {
            lines[0].insert(0, '\x07');
        }
        printer.lines(&lines);
    }

    /// Shows all of them: the first in full, the others in a line each.
    pub fn list(&self, printer: &Printer) {
        if self.open.is_empty() {
            printer.line("nothing waits for your answer".to_owned());
            return;
        }
        self.show(printer);
        (1..self.groups().len()).for_each(|place| printer.line(self.headline(place)));
    }

    /// Takes a line if it answers the ask that is shown; false when it is something else.
    pub async fn take(&mut self, line: &str, printer: &Printer) -> Result<bool, CliError> {
        let Some(ask) = self.open.first().cloned() else { return Ok(false) };
        let begun = self.begun.take();
        let word = match self.read(&ask, line, begun, printer) {
            Reading::Word(word) => *word,
            Reading::Taken => return Ok(true),
            Reading::Other => return Ok(false),
        };
        let group: Vec<Ask> = self.groups()[0].iter().map(|index| self.open[*index].clone()).collect();
        for ask in group {
            self.answer(&ask, word.clone(), printer).await?;
        }
        self.look(printer, "").await?;
        Ok(true)
    }

    /// What a line is to the ask that is shown.
    fn read(&mut self, ask: &Ask, line: &str, begun: Option<String>, printer: &Printer) -> Reading {
        let typed = match ask.kind {
            AskKind::Permission | AskKind::Sandbox => parse(line),
            AskKind::Plan => parse_for_plan(ask, line),
            AskKind::Question => None,
        };
        if typed.is_none() && ask.kind != AskKind::Question {
            return Reading::Other;
        }
        if self.replaced.take().is_some_and(|at| at.elapsed() < TOO_QUICK) {
            warn(printer, "not taken: this ask has just come in place of another");
            return Reading::Taken;
        }
        if let Some(Typed { decision, scope, note, mode }) = typed {
            return Reading::Word(Box::new(Word { scope, mode, ..Word::once(decision, note, USER) }));
        }
        // The line was begun before the question was there.
        if begun.is_some_and(|begun| line.starts_with(&begun)) {
            return Reading::Other;
        }
        self.read_answer(ask, line, printer)
    }

    /// One answer to one question; the word when it was the last.
    fn read_answer(&mut self, ask: &Ask, line: &str, printer: &Printer) -> Reading {
        let (first, note) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        if first == "skip" {
            let note = Some(note.trim().to_owned()).filter(|note| !note.is_empty());
            return Reading::Word(Box::new(Word::once(Decision::Deny, note, USER)));
        }
        let questions = ask.questions();
        if let Some(question) = questions.get(self.given.len()) {
            match ask_answer::one(question, line) {
                Ok(answer) => self.given.push(answer),
                Err(why) => {
                    warn(printer, &why);
                    return Reading::Taken;
                }
            }
        }
        if self.given.len() < questions.len() {
            self.show(printer);
            return Reading::Taken;
        }
        let answers = std::mem::take(&mut self.given);
        Reading::Word(Box::new(Word { answers, ..Word::once(Decision::Allow, None, USER) }))
    }

    async fn answer(&mut self, ask: &Ask, word: Word, printer: &Printer) -> Result<(), CliError> {
        self.mine.insert(ask.id.clone());
        let what = said(ask, &word);
        match answer(&self.team, &ask.id, word).await? {
            Answered::Counts { warnings, .. } => {
                printer.line(format!("{}: {what}", ask_dialog::who(ask)));
                warnings.iter().for_each(|warning| warn(printer, &head(warning)));
            }
            Answered::Unfit(why) => {
                self.mine.remove(&ask.id);
                warn(printer, &why);
            }
            Answered::TooLate(_) | Answered::Unknown => {
                self.mine.remove(&ask.id);
                printer.line(format!("{}: somebody answered before you", ask_dialog::who(ask)));
            }
        }
        Ok(())
    }
}

/// What was said, in a few words.
fn said(ask: &Ask, word: &Word) -> String {
    match (ask.kind, word.decision, word.scope) {
        (AskKind::Plan, Decision::Allow, _) => {
            let mode = word.mode.map(|mode| format!(", to go on in {} mode", mode.as_str()));
            format!("plan approved{}", mode.unwrap_or_default())
        }
        (AskKind::Plan, Decision::Deny, _) => "plan not approved".to_owned(),
        (AskKind::Question, Decision::Allow, _) => {
            let answers: Vec<String> = word.answers.iter().map(QuestionAnswer::words).collect();
            format!("answered: {}", head(&answers.join(" · ")))
        }
        (AskKind::Question, Decision::Deny, _) => "not answered".to_owned(),
        (_, Decision::Deny, _) => "denied".to_owned(),
        (_, Decision::Allow, Scope::Once) => "allowed once".to_owned(),
        (_, Decision::Allow, Scope::Session) => "allowed for this session".to_owned(),
        (_, Decision::Allow, Scope::Project) => "allowed for this project".to_owned(),
    }
}

fn warn(printer: &Printer, text: &str) {
    let warn = style_of_warning();
    printer.line(format!("{warn}{}{warn:#}", text::clean(text)));
}

/// What is said of an ask that was answered or closed elsewhere.
fn over(ask: &Ask, decision: Option<&DecisionRecord>) -> String {
    let who = ask_dialog::who(ask);
    let what = head(&ask.description);
    match (decision, &ask.closed) {
        (Some(record), _) => {
            let word = match (ask.kind, record.decision) {
                (AskKind::Question, Decision::Allow) => "answered",
                (AskKind::Plan, Decision::Allow) => "approved",
                (AskKind::Plan, Decision::Deny) => "not approved",
                (_, Decision::Allow) => "allowed",
                (_, Decision::Deny) => "denied",
            };
            format!("{who}: {what} — {word} elsewhere by {}", head(&record.by))
        }
        (None, Some(closed)) => format!("{who}: {what} — no longer asked: {}", head(&closed.reason)),
        (None, None) => format!("{who}: {what} — no longer asked"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_letter_and_what_follows_is_its_note() {
        let typed = |decision, scope, note: Option<&str>| {
            Some(Typed { decision, scope, note: note.map(str::to_owned), mode: None })
        };
        assert_eq!(parse("y"), typed(Decision::Allow, Scope::Once, None));
        assert_eq!(parse(" s but only here "), typed(Decision::Allow, Scope::Session, Some("but only here")));
        assert_eq!(parse("p"), typed(Decision::Allow, Scope::Project, None));
        assert_eq!(parse("n use ls"), typed(Decision::Deny, Scope::Once, Some("use ls")));
        assert_eq!(parse("no"), typed(Decision::Deny, Scope::Once, None));
        assert_eq!(parse("No, not that"), typed(Decision::Deny, Scope::Once, Some("not that")));
        for text in ["nothing", "yes please", "project it", "say y", "Y", ""] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_plan_is_approved_with_the_letter_of_a_mode() {
        let mut ask = ask_dialog::tests::ask("ExitPlanMode", serde_json::json!({ "plan": "x" }));
        ask.kind = AskKind::Plan;
        ask.modes = vec![PermissionMode::Default, PermissionMode::AcceptEdits];
        let read = |line: &str| parse_for_plan(&ask, line).map(|t| (t.decision, t.mode, t.note));
        let note = |text: &str| Some(text.to_owned());
        assert_eq!(read("y"), Some((Decision::Allow, Some(PermissionMode::Default), None)));
        assert_eq!(
            read("a go on"),
            Some((Decision::Allow, Some(PermissionMode::AcceptEdits), note("go on")))
        );
        assert_eq!(read("n smaller steps"), Some((Decision::Deny, None, note("smaller steps"))));
        assert_eq!(read("no, not that"), Some((Decision::Deny, None, note("not that"))));
        for text in ["s", "p", "d", "also this", ""] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
