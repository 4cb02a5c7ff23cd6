//! The queue of asks at the prompt: shown one at a time, oldest first, answered by a letter.
//!
//! The files are the truth: whatever was answered or closed elsewhere leaves the queue with a line.

use super::printer::Printer;
use crate::cli::ask_dialog::{self, Place};
use crate::cli::error::CliError;
use crate::cli::feed::Faces;
use crate::cli::text;
use crate::cli::view::{LineSink, head, style_of_warning};
use crate::os::terminal;
use crate::store::asks::{self, OpenAsks};
use crate::team::answer::{Answered, Word, answer};
use crate::team::ask_hooks::AskHooks;
use crate::team::context::Team;
use crate::wire::ask::{Ask, DecisionRecord};
use crate::wire::ids::{AskId, USER};
use crate::wire::permission::{Decision, Scope};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A dialog that has taken another's place is not answered by what was typed for that one.
const TOO_QUICK: Duration = Duration::from_millis(700);

/// The queue.
pub struct Asks {
    team: Team,
    queue: Arc<OpenAsks>,
    hooks: Arc<AskHooks>,
    open: Vec<Ask>,
    shown: Option<AskId>,
    mine: HashSet<AskId>,
    /// When the dialog on the screen took the place of one that was answered elsewhere.
    replaced: Option<Instant>,
    faces: Faces,
}

/// An answer as it was typed.
#[derive(Debug, PartialEq, Eq)]
struct Typed {
    decision: Decision,
    scope: Scope,
    note: Option<String>,
}

/// `y`, `s`, `p` or `n`, alone or with a note after it, and `yes` alone. Whatever begins with the word
/// no is a no: it would be worse to take it for something else than to have to say yes again.
fn parse(line: &str) -> Option<Typed> {
    let line = line.trim();
    let (word, note) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let note = Some(note.trim()).filter(|n| !n.is_empty());
    let bare = word.trim_end_matches([',', '.', ';', ':', '!']);
    if bare.eq_ignore_ascii_case("no") {
        return Some(Typed { decision: Decision::Deny, scope: Scope::Once, note: note.map(str::to_owned) });
    }
    let (decision, scope) = match (word, note) {
        ("y", _) | ("yes", None) => (Decision::Allow, Scope::Once),
        ("s", _) => (Decision::Allow, Scope::Session),
        ("p", _) => (Decision::Allow, Scope::Project),
        ("n", _) => (Decision::Deny, Scope::Once),
        _ => return None,
    };
    Some(Typed { decision, scope, note: note.map(str::to_owned) })
}

impl Asks {
    /// The queue of a team; what its hooks have not seen is not shown yet.
    pub fn new(team: Team, hooks: Arc<AskHooks>) -> Self {
        let (open, mine) = (Vec::new(), HashSet::new());
        Self {
            team,
            hooks,
            queue: Arc::default(),
            open,
            shown: None,
            mine,
            replaced: None,
            faces: Faces::default(),
        }
    }

    /// Whether an ask is on the screen and waits for an answer.
    pub fn is_shown(&self) -> bool {
        self.shown.is_some()
    }

    /// Takes the queue as it is on disk, and shows what is new.
    pub async fn look(&mut self, printer: &Printer) -> Result<(), CliError> {
        let paths = self.team.paths.clone();
        let dir = paths.asks_dir();
        let (queue, before) = (Arc::clone(&self.queue), self.open.clone());
        let hooks = Arc::clone(&self.hooks);
        let looked = move || {
            let mut open = queue.look(&paths)?;
            open.retain(|ask| !hooks.holds(&ask.id));
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
        let others = self.open.iter().enumerate().skip(1).filter(|(_, a)| !known.contains(&a.id));
        let waiting: Vec<String> = others.map(|(i, _)| self.headline(i)).collect();
        if front != self.shown {
            self.shown = front;
            self.show(printer);
        }
        if self.open.is_empty() {
            self.replaced = None;
        }
        waiting.into_iter().for_each(|line| printer.line(line));
        Ok(())
    }

    fn place(&self, index: usize) -> Place {
        Place { number: index + 1, of: self.open.len() }
    }

    fn headline(&self, index: usize) -> String {
        let ask = &self.open[index];
        let line = ask_dialog::headline(ask, self.faces.color(ask.reply_to.as_str()), self.place(index));
        format!("{line}: {}", head(&ask.description))
    }

    /// Shows the first ask in full, with a bell.
    fn show(&self, printer: &Printer) {
        let Some(ask) = self.open.first() else { return };
        let columns = terminal::size().map_or(text::DEFAULT_COLUMNS, |s| s.columns);
        let color = self.faces.color(ask.reply_to.as_str());
        let mut lines = ask_dialog::dialog(ask, color, self.place(0), columns);
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
        (1..self.open.len()).for_each(|i| printer.line(self.headline(i)));
    }

    /// Takes a line if it answers the ask that is shown; false when it is something else.
    pub async fn take(&mut self, line: &str, printer: &Printer) -> Result<bool, CliError> {
        let (Some(ask), Some(typed)) = (self.open.first().cloned(), parse(line)) else { return Ok(false) };
        if self.replaced.take().is_some_and(|at| at.elapsed() < TOO_QUICK) {
            let warn = style_of_warning();
            printer.line(format!("{warn}not taken: this ask has just come in place of another{warn:#}"));
            return Ok(true);
        }
        let word =
            Word { decision: typed.decision, scope: typed.scope, note: typed.note, by: USER.to_owned() };
        self.mine.insert(ask.id.clone());
        match answer(&self.team, &ask.id, word).await? {
            Answered::Counts { warnings, .. } => {
                let what = match (typed.decision, typed.scope) {
                    (Decision::Deny, _) => "denied",
                    (Decision::Allow, Scope::Once) => "allowed once",
                    (Decision::Allow, Scope::Session) => "allowed for this session",
                    (Decision::Allow, Scope::Project) => "allowed for this project",
                };
                printer.line(format!("{}: {what}", ask_dialog::who(&ask)));
                let warn = style_of_warning();
                for warning in warnings {
                    printer.line(format!("{warn}{}{warn:#}", head(&warning)));
                }
            }
            Answered::TooLate(_) | Answered::Unknown => {
                self.mine.remove(&ask.id);
                printer.line(format!("{}: somebody answered before you", ask_dialog::who(&ask)));
            }
        }
        self.look(printer).await?;
        Ok(true)
    }
}

/// What is said of an ask that was answered or closed elsewhere.
fn over(ask: &Ask, decision: Option<&DecisionRecord>) -> String {
    let who = ask_dialog::who(ask);
    let what = head(&ask.description);
    match (decision, &ask.closed) {
        (Some(record), _) => {
            let word = if record.decision == Decision::Allow { "allowed" } else { "denied" };
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
            Some(Typed { decision, scope, note: note.map(str::to_owned) })
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
}
