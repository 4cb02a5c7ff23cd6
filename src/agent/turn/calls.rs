//! Calls as a history can hold them: each with an id of its own and a name that may be sent back.
//!
//! Servers that imitate a wire repeat ids or leave names empty, and the next request would be refused for
//! it, now and at every resume. Blocks that are in order keep their bytes.

use crate::wire::block::{Block, BlockKind};
use std::collections::HashSet;

/// In place of a name that no wire takes back: 1 to 128 letters, digits, `_` or `-` (Messages API).
const NAMELESS: &str = "unnamed_tool";
const LONGEST_NAME: usize = 128;

/// Gives calls ids that are not in `seen`, which takes them, and legal names. Returns the blocks and what
/// was renamed: the old id and the new one.
pub(super) fn in_order(
    blocks: Vec<Block>,
    seen: &mut HashSet<String>,
) -> (Vec<Block>, Vec<(String, String)>) {
    let mut renamed = Vec::new();
    let mut fixed = Vec::with_capacity(blocks.len());
    for block in blocks {
        let Some(call) = (block.kind() == BlockKind::ToolUse).then(|| block.as_tool_use()).flatten() else {
            fixed.push(block);
            continue;
        };
        let id = free_id(&call.id, seen);
        let name = legal(&call.name);
        if id == call.id && name == call.name {
            fixed.push(block);
        } else {
            fixed.push(Block::tool_use(&id, &name, &call.input));
        }
        if id != call.id {
            renamed.push((call.id, id.clone()));
        }
        seen.insert(id);
    }
    (fixed, renamed)
}

fn free_id(id: &str, seen: &HashSet<String>) -> String {
    let base = if id.is_empty() { "call" } else { id };
    if !id.is_empty() && !seen.contains(id) {
        return id.to_owned();
    }
    let mut number = 2;
    loop {
        let next = format!("{base}__{number}");
        if !seen.contains(&next) {
            return next;
        }
        number += 1;
    }
}

fn legal(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' })
        .take(LONGEST_NAME)
        .collect();
    if plain.is_empty() { NAMELESS.to_owned() } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, name: &str) -> Block {
        Block::parse(&format!(r#"{{"type":"tool_use", "id":"{id}","name":"{name}","input":{{"a": 1e2}}}}"#))
            .expect("a block")
    }

    #[test]
    fn what_is_in_order_keeps_its_bytes_and_the_rest_is_made_legal() {
        let mut seen = HashSet::from(["old".to_owned()]);
        let good = call("a", "Read");
        let (blocks, renamed) = in_order(
            vec![good.clone(), call("a", "Read"), call("old", "x y"), call("", ""), Block::text("t")],
            &mut seen,
        );
        assert_eq!(blocks[0].raw(), good.raw());
        let calls: Vec<_> = blocks.iter().filter_map(Block::as_tool_use).map(|c| (c.id, c.name)).collect();
        let pair = |id: &str, name: &str| (id.to_owned(), name.to_owned());
        assert_eq!(
            calls,
            [pair("a", "Read"), pair("a__2", "Read"), pair("old__2", "x_y"), pair("call__2", NAMELESS)]
        );
        assert_eq!(renamed.len(), 3);
        assert_eq!(blocks[1].as_tool_use().expect("a call").input.get(), r#"{"a": 1e2}"#);
        assert_eq!(in_order(vec![call("a", "Read")], &mut seen).1, [pair("a", "a__3")]);
    }
}
