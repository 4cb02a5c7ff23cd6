//! The kinds of agents that can be started. Built in: `general-purpose`, `Explore` and `Plan`.

use crate::wire::definition::{AgentDefinition, ToolChoice};
use crate::wire::hooks::HookSettings;

/// What the main agent runs.
pub const MAIN: &str = "main";
/// What the main agent runs in coordinator mode.
pub const COORDINATOR: &str = "coordinator";
/// What a missing `subagent_type` means.
pub const GENERAL_PURPOSE: &str = "general-purpose";
/// The read-only searcher.
pub const EXPLORE: &str = "Explore";

/// The read-only planner.
pub const PLAN: &str = "Plan";

/// All definitions, built in ones last.
#[derive(Debug, Clone)]
pub struct Definitions {
    all: Vec<AgentDefinition>,
}

impl Definitions {
    /// What is built in, after `more` (roles of a blueprint), which win by name.
    pub fn new(more: Vec<AgentDefinition>) -> Self {
        let mut all = more;
        for definition in built_in() {
            if !all.iter().any(|d| d.name == definition.name) {
                all.push(definition);
            }
        }
        Self { all }
    }

    /// The definition with this name.
    pub fn get(&self, name: &str) -> Option<&AgentDefinition> {
        self.all.iter().find(|d| d.name == name)
    }

    /// All names, in order.
    pub fn names(&self) -> Vec<&str> {
        self.all.iter().map(|d| d.name.as_str()).collect()
    }

    /// All definitions, in order.
    pub fn iter(&self) -> impl Iterator<Item = &AgentDefinition> {
        self.all.iter()
    }
}

/// What requests of an agent of this kind are counted as: `agent:builtin:<type>` for what ships with the
/// program, else `agent:custom:<name>` (contract §13).
pub fn query_source(definition: &AgentDefinition) -> String {
    // A role or a file may take a name that ships; its prompt tells it apart. A spawner may have changed
    // tools and model.
    let ships =
        built_in().iter().any(|d| d.name == definition.name && d.system_prompt == definition.system_prompt);
    format!("agent:{}:{}", if ships { "builtin" } else { "custom" }, definition.name)
}

/// The definition of the main agent.
pub fn main_agent() -> AgentDefinition {
    AgentDefinition {
        name: MAIN.to_owned(),
        description: "The agent the user talks to.".to_owned(),
        tools: ToolChoice::All,
        disallowed_tools: Vec::new(),
        mcp_servers: None,
        model: None,
        permission_mode: None,
        max_turns: None,
        background: None,
        effort: None,
        isolation: None,
        color: None,
        one_shot: false,
        omit_instructions: false,
        hooks: HookSettings::default(),
        system_prompt: include_str!("prompts/main.md").to_owned(),
    }
}

/// The definition of a main agent that only plans and delegates; what its workers have is put into its
/// prompt when it is built.
pub fn coordinator() -> AgentDefinition {
    let tools =
        ["Agent", "SendMessage", "TaskOutput", "TaskStop", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate"];
    AgentDefinition {
        name: COORDINATOR.to_owned(),
        tools: ToolChoice::List(tools.map(str::to_owned).to_vec()),
        system_prompt: include_str!("prompts/coordinator.md").to_owned(),
        ..main_agent()
    }
}

fn built_in() -> Vec<AgentDefinition> {
    let general = AgentDefinition {
        name: GENERAL_PURPOSE.to_owned(),
        description:
            "Works on any task of several steps: searching, reading, changing files, running commands."
                .to_owned(),
        system_prompt: include_str!("prompts/general-purpose.md").to_owned(),
        ..main_agent()
    };
    let explore = AgentDefinition {
        name: EXPLORE.to_owned(),
        description: "Searches and reads quickly, changes nothing. Say what to find and how thorough to be."
            .to_owned(),
        disallowed_tools: ["Agent", "Edit", "Write", "NotebookEdit", "ExitPlanMode"]
            .map(str::to_owned)
            .to_vec(),
        model: Some("fast".to_owned()),
        permission_mode: Some(crate::wire::permission::PermissionMode::Plan),
        one_shot: true,
        omit_instructions: true,
        system_prompt: include_str!("prompts/explore.md").to_owned(),
        ..main_agent()
    };
    let plan = AgentDefinition {
        name: PLAN.to_owned(),
        description:
            "Studies the code and lays out how a change should be made, changes nothing. Say what is \
                      wanted and what must stay."
                .to_owned(),
        model: None,
        system_prompt: include_str!("prompts/plan.md").to_owned(),
        ..explore.clone()
    };
    vec![general, explore, plan]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_planner_is_the_explorer_with_its_parents_model() {
        let definitions = Definitions::new(Vec::new());
        let get = |name: &str| definitions.get(name).cloned().expect("a definition");
        let (explore, plan) = (get(EXPLORE), get(PLAN));
        assert_eq!((explore.model.as_deref(), plan.model.as_deref()), (Some("fast"), None));
        assert_eq!(
            AgentDefinition { model: None, ..explore },
            AgentDefinition {
                name: EXPLORE.to_owned(),
                description: get(EXPLORE).description,
                system_prompt: get(EXPLORE).system_prompt,
                ..plan
            }
        );
    }

    #[test]
    fn built_in_kinds_are_there_and_can_be_replaced_by_name() {
        let own = AgentDefinition { description: "mine".into(), name: EXPLORE.into(), ..main_agent() };
        let definitions = Definitions::new(vec![own]);
        assert_eq!(definitions.names(), [EXPLORE, GENERAL_PURPOSE, PLAN]);
        assert_eq!(definitions.get(EXPLORE).map(|d| d.description.as_str()), Some("mine"));
        let source = |name: &str| query_source(definitions.get(name).expect("a definition"));
        assert_eq!(source(EXPLORE), "agent:custom:Explore");
        assert_eq!(source(GENERAL_PURPOSE), "agent:builtin:general-purpose");
    }
}
