//! The calls of a message whose process died while some of them waited for an answer.
//!
//! What waited has not begun and passes through the pipeline again; so has what stands behind it, since calls
//! run in their order. What stands before it or was to run beside it may have begun, and is told so. Never
//! runs anything twice.

use super::gated::Halt;
use super::{is_safe, run_on};
use crate::agent::build::INTERRUPTED;
use crate::agent::core::AgentCore;
use crate::agent::ports::LeftCall;
use crate::tools::set::ToolSet;
use crate::wire::block::{Block, ToolUse};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Ends the calls of a message of which `left` waited for an answer; otherwise as
/// [`run_calls`](super::run_calls).
pub async fn finish_calls(
    core: &Arc<AgentCore>,
    tools: &ToolSet,
    calls: Vec<ToolUse>,
    left: &[LeftCall],
    cancel: &CancellationToken,
) -> (Vec<Block>, Option<String>) {
    let safe: Vec<bool> = calls.iter().map(|call| is_safe(tools, call)).collect();
    let waits: Vec<bool> =
        calls.iter().map(|call| left.iter().any(|left| left.tool_use_id == call.id)).collect();
    let runs = runs(&safe, &waits);
    let ids: Vec<String> = calls.iter().map(|call| call.id.clone()).collect();
    let again = calls.into_iter().zip(&runs).filter(|(_, runs)| **runs).map(|(call, _)| call).collect();
    let answered = left.iter().filter(|left| left.answered).map(|left| left.tool_use_id.clone()).collect();
    let (results, halted) = run_on(core, tools, again, cancel, Halt::with_answered(answered)).await;
    let mut results = results.into_iter();
    let interrupted = |id: &String| Block::tool_result(id, INTERRUPTED, true);
    let all = ids.iter().zip(runs).map(|(id, runs)| match runs {
        true => results.next().unwrap_or_else(|| interrupted(id)),
        false => interrupted(id),
    });
    (all.collect(), halted)
}

/// Which calls run, of those that are `safe` beside their neighbours and those that waited.
fn runs(safe: &[bool], waits: &[bool]) -> Vec<bool> {
    let Some(first) = waits.iter().position(|waits| *waits) else { return vec![false; safe.len()] };
    // Neighbours begin together.
    let together = if safe[first] { safe[first..].iter().take_while(|safe| **safe).count() } else { 1 };
    waits.iter().enumerate().map(|(at, waits)| *waits || at >= first + together).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_have_begun_runs() {
        let of = |text: &str| text.chars().map(|c| c.is_ascii_uppercase()).collect::<Vec<bool>>();
        // Upper case: safe; waits; runs.
        for (safe, waits, expected) in [
            ("a", "a", "a"),
            ("a", "A", "A"),
            ("aaa", "aAa", "aAA"),
            ("AAAa", "aaAa", "aaAA"),
            ("AAAaA", "aAaaa", "aAaAA"),
            ("aAA", "aAA", "aAA"),
            ("aaa", "Aaa", "AAA"),
        ] {
            assert_eq!(runs(&of(safe), &of(waits)), of(expected), "{safe} {waits}");
        }
    }
}
