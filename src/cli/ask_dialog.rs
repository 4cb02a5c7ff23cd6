//! How an ask is shown, wherever a person may answer it: who, what exactly, where, and why.
//!
//! Shows everything that will run, as it will run: characters that could hide or reorder a part of
//! it are written out, and what is too long says how much is missing and where the whole is.

pub mod plan;
pub mod question;

use super::ask_group::together;
use super::status;
use super::text::{clean, rows};
use super::view::style_of;
use super::wrap::wrap;
use crate::store::clock;
use crate::wire::ask::{Ask, AskKind};
use crate::wire::permission::Behavior;
use anstyle::{AnsiColor, Style};
use serde_json::{Map, Value};

/// Rows of the action that are shown.
const MAX_ROWS: usize = 40;

/// The place of an ask in the queue.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// From 1.
    pub number: usize,
    /// Open asks in all.
    pub of: usize,
}

/// What is on the screen: an ask, those beside it that the same answer serves, and how far it is.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// The ask.
    pub ask: &'a Ask,
    /// Others that want the same.
    pub same: &'a [&'a Ask],
    /// Of several questions the one that is asked now, from 0.
    pub at: usize,
}

impl<'a> From<&'a Ask> for Shown<'a> {
    fn from(ask: &'a Ask) -> Self {
        Self { ask, same: &[], at: 0 }
    }
}

/// The left edge of a dialog.
struct Bar {
    edge: String,
    room: usize,
}

impl Bar {
    fn line(&self, text: &str) -> String {
        format!("{}{text}", self.edge)
    }

    /// Leaves out what is too much, and says where the whole is.
    fn cut(&self, lines: &mut Vec<String>, most: usize, ask: &Ask) {
        let hidden = lines.len().saturating_sub(most);
        if hidden > 0 {
            let dim = Style::new().dimmed();
            lines.truncate(most);
            lines.push(self.line(&format!("{dim}… {hidden} more rows: festoon ask show {}{dim:#}", ask.id)));
        }
    }
}

fn frame() -> Style {
    Style::new().fg_color(Some(AnsiColor::Yellow.into()))
}

/// The last line of a dialog: keys with what they do, and a word after them.
fn key_line(keys: &[(String, String)], word: &str) -> String {
    let (frame, dim, bold) = (frame(), Style::new().dimmed(), Style::new().bold());
    let keys: Vec<String> = keys.iter().map(|(key, does)| format!("{bold}{key}{bold:#} {does}")).collect();
    format!("{frame}└{frame:#} {} {dim}— {word}{dim:#}", keys.join(&format!(" {dim}·{dim:#} ")))
}

/// The block of lines that asks a person, with the choices as keys.
pub fn dialog<'a>(
    shown: impl Into<Shown<'a>>,
    color: Option<&str>,
    place: Place,
    columns: usize,
) -> Vec<String> {
    let shown = shown.into();
    let ask = shown.ask;
    let (frame, dim) = (frame(), Style::new().dimmed());
    let bar = Bar { edge: format!("{frame}│{frame:#} "), room: columns.saturating_sub(3).max(20) };
    let mut lines = vec![headline(shown, color, place)];
    let notes = |lines: &mut Vec<String>, notes: &[(&str, &str)]| {
        for (label, text) in notes {
            let text = clean(text).replace('\n', " ");
            let text = format!("{label}: {text}");
            lines.extend(wrap(&text, bar.room).iter().map(|r| bar.line(&format!("{dim}{r}{dim:#}"))));
        }
    };
    match ask.kind {
        AskKind::Permission | AskKind::Sandbox => {
            lines.extend(action(ask, &bar));
            notes(&mut lines, &[("in", &ask.cwd), ("why", &ask.rule)]);
            lines.extend(permission_footer(ask, bar.room));
        }
        AskKind::Plan => {
            lines.extend(plan::body(ask, &bar));
            notes(&mut lines, &[("in", &ask.cwd)]);
            lines.push(plan::footer(ask));
        }
        AskKind::Question => {
            let questions = ask.questions();
            lines.extend(question::body(questions.get(shown.at), &bar));
            lines.push(question::footer(questions.get(shown.at)));
        }
    }
    lines
}

/// What would be done, line by line.
fn action(ask: &Ask, bar: &Bar) -> Vec<String> {
    let mut action = Vec::new();
    for (mark, text) in parts(ask) {
        let style = mark.style();
        for line in clean(&text).lines() {
            // The sign stands where a line of the text begins, not where the terminal's width broke it.
            action.extend(rows(line, bar.room - 2).into_iter().enumerate().map(|(i, row)| {
                let sign = if i == 0 { mark.sign() } else { ' ' };
                bar.line(&format!("{style}{sign} {row}{style:#}"))
            }));
        }
    }
    bar.cut(&mut action, MAX_ROWS, ask);
    action
}

fn permission_footer(ask: &Ask, room: usize) -> Vec<String> {
    let dim = Style::new().dimmed();
    let always = always(ask);
    let mut keys = vec![("y", "once")];
    if !always.is_empty() {
        keys.extend([("s", "session"), ("p", "project")]);
    }
    keys.push(("n", "no"));
    let keys: Vec<_> = keys.into_iter().map(|(key, does)| (key.to_owned(), does.to_owned())).collect();
    let mut lines = vec![key_line(&keys, "a note may follow")];
    if !always.is_empty() {
        let text = format!("s and p allow: {}", always.join(", "));
        lines.extend(wrap(&clean(&text), room).iter().map(|r| format!("  {dim}{r}{dim:#}")));
    }
    lines
}

/// One line about an ask, for lists and feeds.
pub fn headline<'a>(shown: impl Into<Shown<'a>>, color: Option<&str>, place: Place) -> String {
    let shown = shown.into();
    let ask = shown.ask;
    let (frame, dim) = (frame(), Style::new().dimmed());
    let style = style_of(color);
    let age = clock::millis_since(&ask.created_at).map(status::age).unwrap_or_default();
    let count = if place.of > 1 { format!(" ({} of {})", place.number, place.of) } else { String::new() };
    let names: Vec<String> = [ask].into_iter().chain(shown.same.iter().copied()).map(who).collect();
    let many = names.len() > 1;
    let wants = match ask.kind {
        AskKind::Permission | AskKind::Sandbox if many => format!("ask for the same {}", clean(&ask.tool)),
        AskKind::Permission | AskKind::Sandbox => format!("asks for {}", clean(&ask.tool)),
        AskKind::Plan => "presents a plan".to_owned(),
        AskKind::Question => match ask.questions().len() {
            0 | 1 => "asks you".to_owned(),
            all => format!("asks you, question {} of {all}", shown.at + 1),
        },
    };
    format!("{frame}┌{frame:#} {style}{}{style:#} {wants}{count} {dim}{age} ago{dim:#}", together(&names))
}

/// The asking agent by name; one below a teammate or the leader with whom it works for.
pub fn who(ask: &Ask) -> String {
    match ask.agent_id.as_str().split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => format!("{} (for {})", ask.agent_id, ask.reply_to),
    }
}

/// What "always" would allow.
pub fn always(ask: &Ask) -> Vec<String> {
    ask.suggestions.iter().filter(|s| s.behavior == Behavior::Allow).map(|s| s.rule.clone()).collect()
}

#[derive(Clone, Copy)]
enum Mark {
    Command,
    Field,
    Removed,
    Added,
}

impl Mark {
    fn sign(self) -> char {
        match self {
            Self::Command => '$',
            Self::Field => ' ',
            Self::Removed => '-',
            Self::Added => '+',
        }
    }
    fn style(self) -> Style {
        match self {
            Self::Command => Style::new().bold(),
            Self::Field => Style::new(),
            Self::Removed => Style::new().fg_color(Some(AnsiColor::Red.into())),
            Self::Added => Style::new().fg_color(Some(AnsiColor::Green.into())),
        }
    }
}

/// The exact input, in the form that is easiest to judge: a command as a command, an edit as what
/// goes and what comes, anything else field by field.
fn parts(ask: &Ask) -> Vec<(Mark, String)> {
    let Ok(Value::Object(mut input)) = serde_json::from_str::<Value>(ask.input.get()) else {
        return vec![(Mark::Field, ask.input.get().to_owned())];
    };
    let mut parts = Vec::new();
    let mut take = |parts: &mut Vec<_>, mark, key: &str, label: bool| {
        if let Some(text) = take_text(&mut input, key) {
            parts.push((mark, if label { format!("{key}: {text}") } else { text }));
        }
    };
    take(&mut parts, Mark::Command, "command", false);
    take(&mut parts, Mark::Field, "file_path", false);
    take(&mut parts, Mark::Removed, "old_string", false);
    take(&mut parts, Mark::Added, "new_string", false);
    take(&mut parts, Mark::Added, "content", false);
    for (key, value) in input {
        let text = match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        parts.push((Mark::Field, format!("{key}: {text}")));
    }
    parts
}

fn take_text(input: &mut Map<String, Value>, key: &str) -> Option<String> {
    if !input.get(key)?.is_string() {
        return None;
    }
    match input.remove(key) {
        Some(Value::String(text)) if text.is_empty() => Some(String::from("(empty)")),
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::wire::ids::{AgentId, AgentName, AskId};
    use crate::wire::permission::{PermissionMode, Suggestion};
    use serde_json::json;

    pub fn ask(tool: &str, input: Value) -> Ask {
        Ask {
            id: AskId::new("a1"),
            kind: AskKind::Permission,
            agent_id: AgentId::new("anna@t"),
            reply_to: AgentName::new("anna").expect("a name"),
            incarnation: 1,
            tool: tool.into(),
            tool_use_id: "c1".into(),
            input: serde_json::value::to_raw_value(&input).expect("json"),
            description: "d".into(),
            cwd: "/src".into(),
            project: None,
            rule: "mode default".into(),
            suggestions: vec![Suggestion { rule: "Bash(ls:*)".into(), behavior: Behavior::Allow }],
            modes: Vec::new(),
            created_at: clock::now(),
            closed: None,
            begun: None,
        }
    }

    fn plain(ask: &Ask, columns: usize) -> String {
        let text = dialog(ask, Some("blue"), Place { number: 1, of: 2 }, columns).join("\n");
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn a_command_is_shown_whole_and_nothing_in_it_can_hide() {
        let shown =
            plain(&ask("Bash", json!({"command": "ls \u{1b}[8m; rm -r x\nsecond", "timeout": 5})), 80);
        assert_eq!(
            shown,
            "┌ anna asks for Bash (1 of 2) 0s ago\n\
             │ $ ls \\u{1b}[8m; rm -r x\n\
             │ $ second\n\
             │   timeout: 5\n\
             │ in: /src\n\
             │ why: mode default\n\
             └ y once · s session · p project · n no — a note may follow\n\
             \u{20} s and p allow: Bash(ls:*)"
        );
    }

    #[test]
    fn a_plan_is_shown_whole_with_the_modes_to_go_on_in() {
        let mut plan = ask("ExitPlanMode", json!({"plan": "# Do\n\n1. this\u{1b}[1m\n"}));
        plan.kind = AskKind::Plan;
        plan.modes = vec![PermissionMode::Default, PermissionMode::AcceptEdits];
        assert_eq!(
            plain(&plan, 80),
            "┌ anna presents a plan (1 of 2) 0s ago\n\
             │ # Do\n\
             │ \n\
             │ 1. this\\u{1b}[1m\n\
             │ in: /src\n\
             └ y yes, go on in default mode · a yes, go on in acceptEdits mode · n no — what follows goes to the agent"
        );
    }

    #[test]
    fn a_question_has_numbers_and_comes_one_by_one() {
        let two = json!({"questions": [
            {"question": "Which?", "header": "Store", "options": [
                {"label": "A", "description": "fast"}, {"label": "B"}], "multiSelect": true},
            {"question": "Why?", "options": []},
        ]});
        let mut asked = ask("AskUserQuestion", two);
        asked.kind = AskKind::Question;
        let at = |at| {
            let shown = Shown { ask: &asked, same: &[], at };
            let text = dialog(shown, None, Place { number: 1, of: 1 }, 80).join("\n");
            anstream::adapter::strip_str(&text).to_string()
        };
        assert_eq!(
            at(0),
            "┌ anna asks you, question 1 of 2 0s ago\n\
             │ [Store] Which?\n\
             │   1  A — fast\n\
             │   2  B\n\
             └ skip no answer — numbers, as in 1,3, or your own words"
        );
        assert_eq!(
            at(1),
            "┌ anna asks you, question 2 of 2 0s ago\n│ Why?\n└ skip no answer — answer in your own words"
        );
    }

    #[test]
    fn an_edit_is_what_goes_and_what_comes() {
        let input = json!({"file_path": "/a", "old_string": "x\ny", "new_string": ""});
        let shown = plain(&ask("Edit", input), 80);
        assert!(shown.contains("│   /a\n│ - x\n│ - y\n│ + (empty)\n"), "{shown}");
    }

    #[test]
    fn what_is_said_about_a_call_is_broken_by_words_and_the_call_itself_where_it_is_full() {
        let mut asked = ask("Bash", json!({"command": "echo one two threefour"}));
        asked.rule = "mode default asks for every command".into();
        let shown = plain(&asked, 23);
        assert!(shown.contains("│ $ echo one two three\n│   four\n"), "{shown}");
        assert!(shown.contains("│ why: mode default\n│ asks for every\n│ command\n"), "{shown}");
    }

    #[test]
    fn long_input_is_wrapped_and_says_what_is_missing() {
        let shown = plain(&ask("Bash", json!({"command": "漢".repeat(2000)})), 40);
        assert!(shown.contains("more rows: festoon ask show a1"), "{shown}");
        assert_eq!(shown.matches('$').count(), 1, "one line has one sign: {shown}");
        assert!(shown.lines().all(|l| super::super::text::width(l) <= 60), "{shown}");
    }
}
