//! Where a session goes on: which one it is, and the last exchanges, short.

use crate::cli::{text, words};
use crate::wire::block::{Block, BlockKind, ChatMessage, Role};
use crate::wire::ids::USER;

/// Exchanges that are shown.
const SHOWN: usize = 3;
/// Rows of one answer.
const ROWS: usize = 3;

/// The end of a conversation, each line no longer than `columns`: what the person said and what was
/// answered, the last few times.
pub fn lines(history: &[ChatMessage], columns: usize) -> Vec<String> {
    let mut exchanges: Vec<(String, String)> = Vec::new();
    for message in history {
        match message.role {
            Role::User => exchanges.extend(said(message.blocks.iter()).map(|said| (said, String::new()))),
            Role::Assistant => {
                let text = message.text();
                if let Some((_, answer)) = exchanges.last_mut()
                    && !text.trim().is_empty()
                {
                    *answer = text;
                }
            }
        }
    }
    let from = exchanges.len().saturating_sub(SHOWN);
    let mut lines = Vec::new();
    for (said, answer) in &exchanges[from..] {
        lines.push(text::fit(&format!("> {}", words::line(said)), columns).into_owned());
        let rows: Vec<&str> = answer.lines().map(str::trim_end).filter(|row| !row.is_empty()).collect();
        let shown = rows.iter().take(ROWS).map(|row| format!("  {}", text::clean(row)));
        lines.extend(shown.map(|row| text::fit(&row, columns).into_owned()));
        if rows.len() > ROWS {
            lines.push(format!("  … {} more", words::number(rows.len() - ROWS, "line")));
        }
    }
    lines
}

/// What the person said in a message: its last text, or mail of theirs, when it is no result and no summary.
pub fn said<'a>(blocks: impl Iterator<Item = &'a Block>) -> Option<String> {
    let mut texts: Vec<String> = Vec::new();
    for block in blocks {
        if block.kind() == BlockKind::ToolResult {
            return None;
        }
        texts.extend(block.as_text().map(|text| text.to_string()));
    }
    if texts.iter().any(|text| text.starts_with("<conversation-summary>")) {
        return None;
    }
    let own = |text: String| match mail(&text) {
        // Typed while the agent worked.
        Some((from, said)) => (from == USER).then_some(said),
        None if text.starts_with('<') || text.starts_with("A UserPromptSubmit hook adds:") => None,
        None => Some(text),
    };
    texts.into_iter().rev().find_map(own)
}

/// Who a delivered message is from, and what it says.
pub fn mail(text: &str) -> Option<(String, String)> {
    let body = || {
        let inner = text.split_once('>')?.1;
        Some(inner.rsplit_once("</").map_or(inner, |(inner, _)| inner).trim().to_owned())
    };
    if let Some(rest) = text.strip_prefix("<teammate-message ") {
        let id = rest.split_once("teammate_id=\"")?.1.split('"').next()?;
        return Some((words::line(id), unescaped(&body()?)));
    }
    let summary = text.strip_prefix("<task-notification>")?.split_once("<summary>")?.1;
    Some(("background work".to_owned(), unescaped(summary.split("</summary>").next()?)))
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(texts: &[&str]) -> ChatMessage {
        ChatMessage::user(texts.iter().map(|text| Block::text(text)).collect())
    }

    fn assistant(text: &str) -> ChatMessage {
        ChatMessage::assistant(vec![Block::text(text)])
    }

    #[test]
    fn the_last_exchanges_are_shown_short() {
        let history = [
            user(&["# Environment", "one"]),
            assistant("1"),
            user(&["two"]),
            assistant("I look."),
            ChatMessage::user(vec![Block::tool_result("t", "x", false)]),
            assistant("a\n\nb\nc\nd\ne\n"),
            user(&["<teammate-message>mail</teammate-message>"]),
            user(&["three\nlines of it", "A UserPromptSubmit hook adds:\nx"]),
            assistant("a long answer of one line\u{1b}[2J"),
            user(&["<teammate-message teammate_id=\"user\">\nfo &lt; ur\n</teammate-message>"]),
        ];
        assert_eq!(
            lines(&history, 20),
            [
                "> two",
                "  a",
                "  b",
                "  c",
                "  … 2 lines more",
                "> three lines of it",
                "  a long answer of …",
                "> fo < ur"
            ]
        );
        assert_eq!(lines(&[], 20), Vec::<String>::new());
    }
}
