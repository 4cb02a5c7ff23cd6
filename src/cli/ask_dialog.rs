//! How an ask is shown, wherever a person may answer it: who, what exactly, where, and why.
//!
//! Shows everything that will run, as it will run: characters that could hide or reorder a part of
//! it are written out, and what is too long says how much is missing and where the whole is.

use super::status;
use super::text::{clean, rows};
use super::view::style_of;
use crate::store::clock;
use crate::wire::ask::Ask;
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

/// The block of lines that asks a person, with the choices as keys.
pub fn dialog(ask: &Ask, color: Option<&str>, place: Place, columns: usize) -> Vec<String> {
    let frame = Style::new().fg_color(Some(AnsiColor::Yellow.into()));
    let dim = Style::new().dimmed();
    let key = Style::new().bold();
    let mut lines = vec![headline(ask, color, place)];
    let bar = format!("{frame}│{frame:#} ");
    let room = columns.saturating_sub(3).max(20);
    let mut action = Vec::new();
    for (mark, text) in parts(ask) {
        let style = mark.style();
        for line in clean(&text).lines() {
            // The sign stands where a line of the text begins, not where the terminal's width broke it.
            action.extend(rows(line, room - 2).into_iter().enumerate().map(|(i, row)| {
                let sign = if i == 0 { mark.sign() } else { ' ' };
                format!("{bar}{style}{sign} {row}{style:#}")
            }));
        }
    }
    let hidden = action.len().saturating_sub(MAX_ROWS);
    if hidden > 0 {
        action.truncate(MAX_ROWS);
        action.push(format!("{bar}{dim}… {hidden} more rows: festoon ask show {}{dim:#}", ask.id));
    }
    lines.extend(action);
    for (label, text) in [("in", &ask.cwd), ("why", &ask.rule)] {
        let text = clean(text);
        let text = text.replace('\n', " ");
        lines.extend(rows(&format!("{label}: {text}"), room).iter().map(|r| format!("{bar}{dim}{r}{dim:#}")));
    }
    let always = always(ask);
    let scopes = if always.is_empty() {
        String::new()
    } else {
        format!(" {dim}·{dim:#} {key}s{key:#} session {dim}·{dim:#} {key}p{key:#} project")
    };
    lines.push(format!(
        "{frame}└{frame:#} {key}y{key:#} once{scopes} {dim}·{dim:#} {key}n{key:#} no {dim}— a note may follow{dim:#}"
    ));
    if !always.is_empty() {
        let text = format!("s and p allow: {}", always.join(", "));
        lines.extend(rows(&clean(&text), room).iter().map(|r| format!("  {dim}{r}{dim:#}")));
    }
    lines
}

/// One line about an ask, for lists and feeds.
pub fn headline(ask: &Ask, color: Option<&str>, place: Place) -> String {
    let frame = Style::new().fg_color(Some(AnsiColor::Yellow.into()));
    let dim = Style::new().dimmed();
    let style = style_of(color);
    let age = clock::millis_since(&ask.created_at).map(status::age).unwrap_or_default();
    let count = if place.of > 1 { format!(" ({} of {})", place.number, place.of) } else { String::new() };
    format!(
        "{frame}┌{frame:#} {style}{}{style:#} asks for {}{count} {dim}{age} ago{dim:#}",
        who(ask),
        clean(&ask.tool)
    )
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
mod tests {
    use super::*;
    use crate::wire::ask::AskKind;
    use crate::wire::ids::{AgentId, AgentName, AskId};
    use crate::wire::permission::Suggestion;
    use serde_json::json;

    fn ask(tool: &str, input: Value) -> Ask {
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
            created_at: clock::now(),
            closed: None,
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
    fn an_edit_is_what_goes_and_what_comes() {
        let input = json!({"file_path": "/a", "old_string": "x\ny", "new_string": ""});
        let shown = plain(&ask("Edit", input), 80);
        assert!(shown.contains("│   /a\n│ - x\n│ - y\n│ + (empty)\n"), "{shown}");
    }

    #[test]
    fn long_input_is_wrapped_and_says_what_is_missing() {
        let shown = plain(&ask("Bash", json!({"command": "漢".repeat(2000)})), 40);
        assert!(shown.contains("more rows: festoon ask show a1"), "{shown}");
        assert_eq!(shown.matches('$').count(), 1, "one line has one sign: {shown}");
        assert!(shown.lines().all(|l| super::super::text::width(l) <= 60), "{shown}");
    }
}
