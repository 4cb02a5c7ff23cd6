//! The tools a background subagent may have: one table, each with its reason (spec §4).
//!
//! A list and not a ban, so that a new tool has to be thought about before an agent that nobody watches
//! gets it.

/// A tool and why nobody has to watch it.
pub const ALLOWED: &[(&str, &str)] = &[
    ("Read", "changes nothing"),
    ("Glob", "changes nothing"),
    ("Grep", "changes nothing"),
    ("WebFetch", "changes nothing here; hosts are decided by rules or asked for at the root"),
    ("WebSearch", "changes nothing"),
    ("TodoWrite", "a list of its own, which nobody else sees"),
    ("Edit", "as its mode allows; what needs a person is asked at the root, or denied when nobody is there"),
    ("Write", "as Edit"),
    ("NotebookEdit", "as Edit"),
    ("Bash", "as Edit; its commands end with it"),
    ("Agent", "down to the limit of depth; what it launches is listed at the root"),
    ("SendMessage", "the way to say something before its end"),
    ("TaskStop", "only what it has launched itself"),
];

/// Tools of MCP servers: their effect is unknown, so every call that no rule allows is asked for at the
/// root, as for any agent.
const MCP: &str = "mcp__";

/// Whether a background subagent may have the tool, if its parent has it.
pub fn may_have(tool: &str) -> bool {
    tool.starts_with(MCP) || ALLOWED.iter().any(|(name, _)| *name == tool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_a_person_beside_it_or_reads_of_others_is_not_on_the_list() {
        let none = [
            "TaskOutput",
            "AskUserQuestion",
            "EnterPlanMode",
            "ExitPlanMode",
            "TaskCreate",
            "TaskUpdate",
            "TeamCreate",
            "TeamDelete",
            "SomethingNew",
        ];
        assert!(none.iter().all(|tool| !may_have(tool)));
        assert!(["Read", "Bash", "Agent", "mcp__docs__search"].iter().all(|tool| may_have(tool)));
        assert!(ALLOWED.iter().all(|(_, why)| !why.is_empty()));
    }
}
