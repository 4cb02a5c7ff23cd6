//! Where a conversation is cut: what is summarized before, what stays after.
//!
//! Pure. Promises that no call is parted from its result and that something is left to summarize.

use crate::agent::context_size;
use crate::wire::block::{BlockKind, ChatMessage, Role};

/// A place to cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    /// The first message that stays; the length of the history when none does.
    pub(super) start: usize,
}

impl Cut {
    /// The place that keeps at most so many rounds and, within them, so many tokens. `None` when nothing
    /// the model said would be summarized.
    pub(super) fn find(history: &[ChatMessage], rounds: usize, tokens: u64) -> Option<Self> {
        let first_answer = history.iter().position(|m| m.role == Role::Assistant)?;
        let latest = latest(history);
        let mut best = (latest > first_answer).then_some(latest);
        let (mut kept_rounds, mut kept_tokens) = (0, 0);
        for (at, message) in history.iter().enumerate().rev() {
            kept_tokens += context_size::of_message(message);
            kept_rounds += usize::from(message.role == Role::Assistant);
            if kept_rounds > rounds || kept_tokens > tokens || at <= first_answer {
                break;
            }
            if at <= latest && may_begin(message) {
                best = Some(at);
            }
        }
        best.map(|start| Self { start })
    }
}

/// Whether a conversation is so short that all of it would stay: no more than so many rounds, and no more
/// tokens behind its first message.
pub(super) fn is_all_kept(history: &[ChatMessage], rounds: usize, tokens: u64) -> bool {
    let said = history.iter().filter(|message| message.role == Role::Assistant).count();
    said <= rounds && context_size::of_messages(history.get(1..).unwrap_or_default()) <= tokens
}

/// The latest place where the history may be cut.
fn latest(history: &[ChatMessage]) -> usize {
    let Some(answer) = history.iter().rposition(|m| m.role == Role::Assistant) else { return history.len() };
    let is_open = history[answer].blocks.iter().any(|b| b.kind() == BlockKind::ToolUse);
    if is_open { answer } else { answer + 1 }
}

/// Whether the rest of a conversation may begin with this message.
fn may_begin(message: &ChatMessage) -> bool {
    message.role == Role::Assistant || !message.blocks.iter().any(|b| b.kind() == BlockKind::ToolResult)
}

/// The beginning of a conversation and as much of its end as fits in so many tokens, when that is less
/// than all of it: what is left to summarize when all of it is too long.
pub(super) fn shortened(head: &[ChatMessage], tokens: u64) -> Option<Vec<ChatMessage>> {
    let first = head.first()?;
    let mut kept = context_size::of_message(first);
    let mut start = None;
    for (at, message) in head.iter().enumerate().skip(1).rev() {
        kept += context_size::of_message(message);
        if kept > tokens {
            break;
        }
        if may_begin(message) {
            start = Some(at);
        }
    }
    let start = start.filter(|at| *at > 1)?;
    Some(std::iter::once(first).chain(&head[start..]).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::block::Block;
    use proptest::prelude::*;

    /// `u` a prompt, `m` mail after results, `c` an answer with a call, `r` its result, `a` a plain answer.
    fn history(shape: &str) -> Vec<ChatMessage> {
        let call = Block::parse(r#"{"type":"tool_use","id":"t","name":"T","input":{}}"#).expect("a block");
        shape
            .chars()
            .map(|c| match c {
                'c' => ChatMessage::assistant(vec![Block::thinking("t", "s"), call.clone()]),
                'a' => ChatMessage::assistant(vec![Block::text("answer")]),
                'r' => ChatMessage::user(vec![Block::tool_result("t", "x", false)]),
                _ => ChatMessage::user(vec![Block::text("text")]),
            })
            .collect()
    }

    fn find(shape: &str, rounds: usize, tokens: u64) -> Option<(&str, &str)> {
        Cut::find(&history(shape), rounds, tokens).map(|cut| shape.split_at(cut.start))
    }

    #[test]
    fn the_last_rounds_stay_whole() {
        const MANY: u64 = 1_000_000;
        for (shape, rounds, tokens, wanted) in [
            ("ucrcrcrcr", 2, MANY, Some(("ucrcr", "crcr"))),
            // A new prompt: the rounds of the turn before stay with it.
            ("ucrau", 1, MANY, Some(("ucr", "au"))),
            ("ucrau", 4, MANY, Some(("ucr", "au"))),
            ("uauau", 1, MANY, Some(("ua", "uau"))),
            // Between turns, on demand.
            ("ucracra", 1, MANY, Some(("ucracr", "a"))),
            // No room for more than what must stay.
            ("ucrcrcr", 3, 0, Some(("ucrcr", "cr"))),
            ("ucrau", 3, 0, Some(("ucra", "u"))),
            ("ua", 3, MANY, Some(("ua", ""))),
            ("ucrm", 3, MANY, None),
            ("ucr", 3, MANY, None),
            ("u", 3, MANY, None),
            ("uu", 3, MANY, None),
            ("", 3, MANY, None),
        ] {
            assert_eq!(find(shape, rounds, tokens), wanted, "{shape}");
        }
    }

    #[test]
    fn a_short_conversation_stays_whole() {
        const MANY: u64 = 1_000_000;
        for (shape, rounds, tokens, wanted) in [
            ("", 2, MANY, true),
            ("ua", 2, MANY, true),
            ("ucra", 2, MANY, true),
            ("ucrau", 2, MANY, true),
            ("ucracra", 2, MANY, false),
            ("ucra", 2, 1, false),
        ] {
            assert_eq!(is_all_kept(&history(shape), rounds, tokens), wanted, "{shape}");
        }
    }

    #[test]
    fn what_is_too_long_is_shortened_in_its_middle() {
        let head = history("ucrcrcr");
        let round = context_size::of_messages(&head[1..3]);
        let first = context_size::of_message(&head[0]);
        let short = shortened(&head, first + 2 * round).expect("shorter");
        assert_eq!(short, [&head[..1], &head[3..]].concat());
        assert_eq!(shortened(&head, 1_000_000), None);
        assert_eq!(shortened(&head, 1), None);
    }

    proptest! {
        #[test]
        fn no_result_ever_loses_its_call(turns in proptest::collection::vec("u(cr|crm){0,4}a", 0..5), open in "u?(cr){0,3}m?", rounds in 0usize..6, tokens in 0u64..200) {
            let shape = format!("{}{open}", turns.concat());
            if let Some((head, tail)) = find(&shape, rounds, tokens) {
                prop_assert!(head.contains(['a', 'c']), "{head}|{tail}");
                prop_assert!(!tail.starts_with('r'), "{head}|{tail}");
                prop_assert!(!head.ends_with('c'), "{head}|{tail}");
            }
        }
    }
}
