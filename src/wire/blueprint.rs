//! A team blueprint, `teams/*.toml` (documented in `docs/formats/blueprint.md`).

use serde::{Deserialize, Serialize};

/// Where the task stands in [`Blueprint::lead_prompt`].
pub const TASK: &str = "{task}";
/// Where the list of members stands in [`Blueprint::lead_prompt`].
pub const MEMBERS: &str = "{members}";

/// A roster that `festoon demo` and `festoon up` start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The members.
    #[serde(rename = "member")]
    pub members: Vec<BlueprintMember>,
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
}
