//! A team blueprint, `teams/*.toml` (documented in `docs/formats/blueprint.md`).

use super::definition::Isolation;
use super::permission::PermissionMode;
use serde::{Deserialize, Serialize};

/// Where the task stands in [`Blueprint::lead_prompt`].
pub const TASK: &str = "{task}";
/// Where the list of members stands in [`Blueprint::lead_prompt`].
pub const MEMBERS: &str = "{members}";
/// Where the list of tasks may stand in [`Blueprint::lead_prompt`].
pub const TASKS: &str = "{tasks}";

/// A roster that `festoon demo` and `festoon up` start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Blueprint {
    /// The team's name.
    pub name: String,
    /// What the team is for.
    pub description: String,
    /// What the leader is told, with [`TASK`] and [`MEMBERS`] in it.
    pub lead_prompt: String,
    /// The task when the user gives none.
    #[serde(default)]
    pub default_task: Option<String>,
    /// A script that plays the model of all its agents; a file beside the blueprint.
    #[serde(default)]
    pub script: Option<String>,
    /// What the whole team may use, where neither the command line nor a setting says it.
    #[serde(default)]
    pub budget: BlueprintBudget,
    /// The members.
    #[serde(rename = "member")]
    pub members: Vec<BlueprintMember>,
    /// What stands in the team's task list before its leader begins.
    #[serde(rename = "task", default)]
    pub tasks: Vec<BlueprintTask>,
}

/// Limits of a team (spec §17), by the names they have in the settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct BlueprintBudget {
    /// Tokens of all agents, cached ones included.
    pub max_tokens_total: Option<u64>,
    /// US dollars of all agents.
    pub max_cost: Option<f64>,
    /// Agents at once.
    pub max_agents: Option<usize>,
    /// Agents in all.
    pub max_agents_total: Option<usize>,
}

/// One member of a blueprint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BlueprintMember {
    /// Its name.
    pub name: String,
    /// The role file below `roles/`, without `.md`: an agent definition.
    pub role: String,
    /// What it does in this team, for the leader's prompt.
    pub duty: String,
    /// A model or alias in place of its role's.
    #[serde(default)]
    pub model: Option<String>,
    /// A mode in place of its role's; `plan` means that a plan is approved before it changes anything.
    #[serde(default)]
    pub permission_mode: Option<PermissionMode>,
    /// Where it works in place of what its role says.
    #[serde(default)]
    pub isolation: Option<Isolation>,
}

/// One task of a blueprint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BlueprintTask {
    /// What is to be done, in a line.
    pub subject: String,
    /// All that whoever does it has to know; [`TASK`] in it becomes the task of the run.
    pub description: String,
    /// The member that is to do it; nobody means whoever is free.
    #[serde(default)]
    pub owner: Option<String>,
    /// Subjects of tasks above it that it waits for.
    #[serde(default)]
    pub blocked_by: Vec<String>,
}
