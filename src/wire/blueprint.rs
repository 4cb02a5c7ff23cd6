//! A team blueprint, `teams/*.toml` (documented in `docs/formats/blueprint.md`).

use serde::{Deserialize, Serialize};

/// A roster that `festoon demo` (and later `festoon up`) starts.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Blueprint {
    /// The team's name.
    pub name: String,
    /// What the team is for.
    pub description: String,
    /// What the leader is told; `{task}` is replaced by the user's text.
    pub lead_prompt: String,
    /// The task when the user gives none.
    #[serde(default)]
    pub default_task: Option<String>,
    /// The members.
    #[serde(rename = "member")]
    pub members: Vec<BlueprintMember>,
}

/// One member of a blueprint.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BlueprintMember {
    /// Its name.
    pub name: String,
    /// The role file below `roles/`, without `.md`: an agent definition.
    pub role: String,
    /// What it does in this team, for the leader's prompt.
    pub duty: String,
}
