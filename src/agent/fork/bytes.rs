//! The bytes that a fork's first message is made of.
//!
//! One user message: for every call of the parent's last message the same result, then the directive.
//! Everything but the directive is equal for all forks of that message. Pure functions.

use crate::model::provider::Anchor;
use crate::wire::block::{Block, BlockKind, ChatMessage, Role};

/// The result that stands for every call of the message that forked (contract §13).
pub const PLACEHOLDER: &str = "Fork started — processing in background";
/// How a directive opens (contract §13).
pub const MARKER: &str = "<fork-boilerplate>";
/// A directive's raw bytes begin so: it is written by [`Block::text`] and by nothing else.
const MARKED_BLOCK: &str = r#"{"type":"text","text":"<fork-boilerplate>"#;

/// A result for each call of a message, in their order.
pub fn placeholders(message: &ChatMessage, text: &str) -> Vec<Block> {
    message.tool_uses().iter().map(|call| Block::tool_result(&call.id, text, false)).collect()
}

/// The directive: our rules, where the fork stands when that is not where its parent does, and the task.
pub fn directive(task: &str, place: Option<&str>) -> Block {
    let rules = include_str!("../prompts/fork.md").trim();
    let place = place.map(|place| format!("# Where you are\n\n{place}\n\n")).unwrap_or_default();
    let task = if task.trim().is_empty() { "(no task was given: report that)" } else { task.trim() };
    Block::text(&format!("{rules}\n\n{place}# Task\n\n{task}"))
}

/// What a fork is told that works elsewhere than its parent.
pub fn place(own: &str, parents: &str) -> String {
    format!(
        "You work in {own}, the conversation above took place in {parents}. Paths in it mean the same places below \
         your directory: translate them, read a file again before you edit it, and change nothing outside."
    )
}

/// Whether somebody's words in this conversation are a fork's directive.
pub fn has_directive(messages: &[ChatMessage]) -> bool {
    let users = messages.iter().filter(|m| m.role == Role::User);
    users.flat_map(|m| m.blocks.iter()).any(is_directive)
}

fn is_directive(block: &Block) -> bool {
    block.kind() == BlockKind::Text && block.raw().starts_with(MARKED_BLOCK)
}

/// Where a fork's first request is marked beside its end: after the last block that its siblings share.
/// `first` is the index of the fork's first message, which begins with so many `placeholders`.
pub fn last_shared(first: usize, placeholders: usize) -> Option<Anchor> {
    match placeholders.checked_sub(1) {
        Some(block) => Some(Anchor::after(first, block)),
        None => first.checked_sub(1).map(Anchor::end_of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> Block {
        Block::parse(&format!(r#"{{"type":"tool_use","id":"{id}","name":"Agent","input":{{}}}}"#))
            .expect("parses")
    }

    #[test]
    fn every_call_gets_the_same_result_in_order() {
        let message = ChatMessage::assistant(vec![Block::text("On."), call("b"), call("a")]);
        let raw: Vec<String> =
            placeholders(&message, PLACEHOLDER).iter().map(|b| b.raw().to_owned()).collect();
        assert_eq!(
            raw,
            ["b", "a"].map(|id| format!(
                r#"{{"type":"tool_result","tool_use_id":"{id}","content":"Fork started — processing in background"}}"#
            ))
        );
        let silent = ChatMessage::assistant(vec![Block::text("Nothing to call.")]);
        assert_eq!(placeholders(&silent, PLACEHOLDER), []);
        assert_eq!(last_shared(4, 2), Some(Anchor::after(4, 1)));
        assert_eq!(last_shared(4, 0), Some(Anchor::end_of(3)));
    }

    #[test]
    fn a_directive_opens_with_its_mark_and_says_what_it_must() {
        let block = directive("Count {place} the {task}s.", Some(&place("/w", "/p")));
        let text = block.as_text().expect("text");
        assert!(text.starts_with(MARKER) && text.ends_with("# Task\n\nCount {place} the {task}s."), "{text}");
        for said in [
            "you are a fork",
            "further up say about forking",
            "Start no agents",
            "Ask nothing",
            "do not comment",
            "Reach for the tools at once",
            "commit the change and name the commit",
            "no text between",
            "task below is all",
            "fewer than 500 words",
            "first word is `Scope:`",
            "ends with the last fact",
            "\nScope:",
            "\nResult:",
            "\nKey files:",
            "\nFiles changed:",
            "\nIssues:",
            "You work in /w, the conversation above took place in /p",
        ] {
            assert!(text.contains(said), "{said:?} is not in {text}");
        }
        assert!(text.split_whitespace().count() < 400, "{}", text.split_whitespace().count());
        assert!(!directive("x", None).as_text().expect("text").contains("Where you are"));
    }

    #[test]
    fn a_directive_is_found_and_nothing_that_only_speaks_of_one() {
        let user = |block: Block| vec![ChatMessage::user(vec![Block::text("x"), block])];
        assert!(has_directive(&user(directive("x", None))));
        assert!(!has_directive(&user(Block::text("what does <fork-boilerplate> mean?"))));
        assert!(!has_directive(&user(Block::tool_result("t", MARKER, false))));
        assert!(!has_directive(&[ChatMessage::assistant(vec![directive("x", None)])]));
    }
}
