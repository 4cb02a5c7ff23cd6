//! The tools of one agent, in the order in which a model sees them.

use super::tool::Tool;
use crate::wire::definition::ToolChoice;
use std::sync::Arc;

/// An ordered collection of tools with distinct names. Cloning copies pointers.
#[derive(Clone, Default)]
pub struct ToolSet {
    tools: Vec<Arc<dyn Tool>>,
}

impl std::fmt::Debug for ToolSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl ToolSet {
    /// These tools; of two with one name the first stays.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        let mut set = Self::default();
        for tool in tools {
            set.add(tool);
        }
        set
    }

    /// Adds one at the end; `false` when its name is taken.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> bool {
        let is_new = self.get(&tool.spec().name).is_none();
        if is_new {
            self.tools.push(tool);
        }
        is_new
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.spec().name == name)
    }

    /// All, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Arc<dyn Tool>> {
        self.tools.iter()
    }

    /// Their names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.spec().name.as_str())
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The part of this set that a definition chooses; see [`choose`].
    ///
    /// # Errors
    /// The names that led nowhere, when no tool is left.
    pub fn select(
        &self,
        choice: &ToolChoice,
        disallowed: &[String],
    ) -> Result<(Self, Vec<String>), Vec<String>> {
        let names: Vec<&str> = self.names().collect();
        let (chosen, missing) = choose(&names, choice, disallowed)?;
        let kept = |tool: &&Arc<dyn Tool>| chosen.contains(&tool.spec().name.as_str());
        Ok((Self { tools: self.tools.iter().filter(kept).cloned().collect() }, missing))
    }
}

impl<'a> IntoIterator for &'a ToolSet {
    type Item = &'a Arc<dyn Tool>;
    type IntoIter = std::slice::Iter<'a, Arc<dyn Tool>>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// What a definition chooses of the tools with these names (spec §4), in their order, with the names
/// it asked for but did not get or that were taken away, for the notice at spawn.
///
/// `disallowed` is applied first. A list means exactly these; `*` in it means all; entries
/// `!Name` take away, and a list of nothing else starts from all. A name may be a rule
/// (`Bash(git:*)`) and then means the tool: taking part of a tool away takes it away whole, which
/// errs on the safe side. `mcp__server` and `mcp__server__*` mean all tools of a server.
///
/// # Errors
/// The names that led nowhere, when no tool is left.
pub fn choose<'a>(
    names: &[&'a str],
    choice: &ToolChoice,
    disallowed: &[String],
) -> Result<(Vec<&'a str>, Vec<String>), Vec<String>> {
    let listed: &[String] = match choice {
        ToolChoice::All => &[],
        ToolChoice::List(names) => names,
    };
    let (wanted, unwanted): (Vec<&str>, Vec<&str>) =
        listed.iter().map(String::as_str).partition(|name| !name.starts_with('!'));
    let refused: Vec<&str> =
        disallowed.iter().map(String::as_str).chain(unwanted.iter().map(|name| &name[1..])).collect();
    let all = match choice {
        ToolChoice::All => true,
        ToolChoice::List(names) => !names.is_empty() && (wanted.is_empty() || wanted.contains(&"*")),
    };
    let is_refused = |name: &str| refused.iter().any(|pattern| means(pattern, name));
    let is_wanted = |name: &str| all || wanted.iter().any(|pattern| means(pattern, name));
    let chosen: Vec<&str> =
        names.iter().copied().filter(|name| is_wanted(name) && !is_refused(name)).collect();
    let mut missing: Vec<String> = wanted
        .iter()
        .filter(|name| **name != "*" && !chosen.iter().any(|has| means(name, has)))
        .map(|name| (*name).to_owned())
        .collect();
    for name in names.iter().filter(|name| is_wanted(name) && is_refused(name)) {
        if !missing.iter().any(|known| known == name) {
            missing.push((*name).to_owned());
        }
    }
    if chosen.is_empty() { Err(missing) } else { Ok((chosen, missing)) }
}

/// Whether a choice could include a tool whose name begins with `start` (`mcp__server__`): whether it is
/// worth while to find out which tools there are.
pub fn may_choose(choice: &ToolChoice, disallowed: &[String], start: &str) -> bool {
    let listed: &[String] = match choice {
        ToolChoice::All => &[],
        ToolChoice::List(names) => names,
    };
    let (wanted, unwanted): (Vec<&str>, Vec<&str>) =
        listed.iter().map(String::as_str).partition(|name| !name.starts_with('!'));
    let mut refused = disallowed.iter().map(String::as_str).chain(unwanted.iter().map(|name| &name[1..]));
    // A name that no rule for single tools can mean.
    let any = format!("{start}*");
    if refused.any(|entry| means(entry, &any)) {
        return false;
    }
    let all = match choice {
        ToolChoice::All => true,
        ToolChoice::List(names) => !names.is_empty() && wanted.is_empty(),
    };
    let one_of = |entry: &str| entry.split(['(', '*']).next().is_some_and(|name| name.starts_with(start));
    all || wanted.iter().any(|entry| means(entry, &any) || one_of(entry))
}

/// Whether an entry of a list means the tool of this name.
fn means(entry: &str, name: &str) -> bool {
    let entry = entry.split('(').next().unwrap_or(entry).trim();
    if entry == name || entry == "*" {
        return true;
    }
    if let Some(start) = entry.strip_suffix('*') {
        return name.starts_with(start);
    }
    let is_server = entry.strip_prefix("mcp__").is_some_and(|rest| !rest.contains("__"));
    is_server && name.strip_prefix(entry).is_some_and(|rest| rest.starts_with("__"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::context::ToolContext;
    use crate::tools::tool::{BoxFuture, Concurrency, ToolCall, ToolOutput, ToolSpec};
    use crate::wire::access::{Access, Target};
    use serde_json::Value;
    use std::path::Path;

    struct Named(ToolSpec);
    impl Tool for Named {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }
        fn access(&self, _: &Value, _: &Path) -> Access {
            Access { tool: self.0.name.clone(), target: Target::Nothing, summary: String::new() }
        }
        fn concurrency(&self, _: &Value) -> Concurrency {
            Concurrency::Safe
        }
        fn run<'a>(&'a self, _: ToolCall, _: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
            Box::pin(async { ToolOutput::ok("") })
        }
    }

    const NAMES: [&str; 6] = ["Read", "Write", "Bash", "mcp__db__get", "mcp__db__put", "mcp__dbx__get"];

    fn set() -> ToolSet {
        ToolSet::new(NAMES.map(|name| {
            let spec = ToolSpec { name: name.into(), description: String::new(), schema: "{}".into() };
            Arc::new(Named(spec)) as Arc<dyn Tool>
        }))
    }

    fn list(names: &[&str]) -> ToolChoice {
        ToolChoice::List(names.iter().map(|&name| name.into()).collect())
    }

    type Names = Vec<String>;
    fn select(choice: &ToolChoice, disallowed: &[&str]) -> Result<(Names, Names), Names> {
        let disallowed: Vec<String> = disallowed.iter().map(|&name| name.into()).collect();
        let (chosen, missing) = set().select(choice, &disallowed)?;
        Ok((chosen.names().map(str::to_owned).collect(), missing))
    }

    fn names(names: &[&str]) -> Names {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn all_lists_and_all_but() {
        type Case<'a> = (ToolChoice, &'a [&'a str], &'a [&'a str], &'a [&'a str]);
        let cases: [Case; 10] = [
            (ToolChoice::All, &[], &NAMES, &[]),
            (list(&["*"]), &[], &NAMES, &[]),
            (ToolChoice::All, &["Bash", "Nope"], &["Read", "Write", NAMES[3], NAMES[4], NAMES[5]], &["Bash"]),
            (list(&["Write", "Read"]), &[], &["Read", "Write"], &[]),
            (list(&["Read", "Nope", "Bash"]), &["Bash"], &["Read"], &["Nope", "Bash"]),
            (list(&["!Bash", "!mcp__db"]), &[], &["Read", "Write", NAMES[5]], &["Bash", NAMES[3], NAMES[4]]),
            (list(&["Read", "Write", "!Write"]), &[], &["Read"], &["Write"]),
            (list(&["Bash(git:*)", "mcp__db__*"]), &[], &["Bash", NAMES[3], NAMES[4]], &[]),
            (ToolChoice::All, &["Bash(rm:*)", "mcp__*"], &["Read", "Write"], &NAMES[2..]),
            (list(&["read", "Read"]), &[], &["Read"], &["read"]),
        ];
        for (choice, disallowed, chosen, missing) in cases {
            assert_eq!(
                select(&choice, disallowed),
                Ok((names(chosen), names(missing))),
                "{choice:?} without {disallowed:?}"
            );
        }
    }

    #[test]
    fn a_choice_of_nothing_is_an_error_with_the_names() {
        assert_eq!(select(&list(&["Nope", "Never"]), &[]), Err(names(&["Nope", "Never"])));
        assert_eq!(select(&list(&["Read"]), &["Read"]), Err(names(&["Read"])));
        assert_eq!(select(&list(&[]), &[]), Err(Vec::new()));
        assert_eq!(select(&ToolChoice::All, &["*"]), Err(names(&NAMES)));
    }

    #[test]
    fn a_server_that_cannot_be_chosen_is_known() {
        let chosen = |choice: &ToolChoice, disallowed: &[&str]| {
            let disallowed: Vec<String> = disallowed.iter().map(|&name| name.into()).collect();
            may_choose(choice, &disallowed, "mcp__db__")
        };
        assert!(chosen(&ToolChoice::All, &["Bash", "mcp__db__get", "mcp__dbx"]));
        for one in ["*", "mcp__*", "mcp__db", "mcp__db__*"] {
            assert!(chosen(&list(&["Read", one]), &["Read"]), "{one}");
            assert!(!chosen(&ToolChoice::All, &[one]), "{one}");
        }
        assert!(chosen(&list(&["mcp__db__get"]), &["mcp__db__put"]) && chosen(&list(&["!Bash"]), &[]));
        assert!(chosen(&list(&["mcp__db__g*"]), &[]));
        for other in ["Read", "mcp__dbx", "mcp__dbx__get", "mcp__d__get"] {
            assert!(!chosen(&list(&[other]), &[]), "{other}");
        }
        assert!(!chosen(&list(&["!mcp__db"]), &[]) && !chosen(&list(&[]), &[]));
    }

    #[test]
    fn the_first_of_two_with_one_name_stays() {
        let mut all = set();
        let first = Arc::clone(all.get("Read").expect("is there"));
        assert!(!all.add(Arc::clone(set().get("Read").expect("is there"))));
        assert_eq!(all.len(), NAMES.len());
        assert!(Arc::ptr_eq(all.get("Read").expect("is there"), &first));
    }
}
