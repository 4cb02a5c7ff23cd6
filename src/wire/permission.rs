//! Permission modes, rules and answers, as they are written (spec §5).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How an agent's calls are decided when no rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PermissionMode {
    /// Ask for what changes something.
    #[default]
    Default,
    /// Edits inside the project run without asking.
    AcceptEdits,
    /// Read only, until the plan is approved.
    Plan,
    /// Run without asking what the sandbox contains.
    Auto,
    /// Deny instead of asking.
    DontAsk,
    /// Run everything that no rule denies.
    BypassPermissions,
}

impl PermissionMode {
    /// All modes with their names on the command line and in files.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("default", Self::Default),
        ("acceptEdits", Self::AcceptEdits),
        ("plan", Self::Plan),
        ("auto", Self::Auto),
        ("dontAsk", Self::DontAsk),
        ("bypassPermissions", Self::BypassPermissions),
    ];
    /// The mode with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(n, _)| *n == name).map(|(_, m)| *m)
    }
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::Auto => "auto",
            Self::DontAsk => "dontAsk",
            Self::BypassPermissions => "bypassPermissions",
        }
    }
}

/// What a rule does. Deny beats ask beats allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Behavior {
    /// Run without asking.
    Allow,
    /// Ask, whatever the mode allows.
    Ask,
    /// Never run.
    Deny,
}

/// Where a rule comes from, highest precedence first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RuleSource {
    /// Set by an administrator.
    Managed,
    /// `--allowed-tools`, `--disallowed-tools`.
    CommandLine,
    /// `.festoon/settings.local.json`.
    Local,
    /// `.festoon/settings.json`.
    Project,
    /// The user's settings.
    User,
    /// Said yes to "for this session", or a spawn's `allowedTools`.
    Session,
    /// `allowedPaths` of the team.
    Team,
}

/// A rule as written, `Tool` or `Tool(pattern)`, with its source.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rule {
    /// `Bash(git diff:*)`, `Edit(src/**)`, `Read`, `mcp__server__*` …
    pub text: String,
    /// What it does.
    pub behavior: Behavior,
    /// Where it stands.
    pub source: RuleSource,
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// Run it.
    Allow,
    /// Do not.
    Deny,
}

impl Decision {
    /// What was done, for a sentence: `allowed`, `denied`.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Allow => "allowed",
            Self::Deny => "denied",
        }
    }
}

/// For how long an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// This call.
    #[default]
    Once,
    /// The asking agent's session.
    Session,
    /// Written to `.festoon/settings.local.json`.
    Project,
}

impl Scope {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Project => "project",
        }
    }
}

/// A rule that an answer "always" would add.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Suggestion {
    /// The rule, e.g. `Bash(git log:*)`.
    pub rule: String,
    /// What it does.
    pub behavior: Behavior,
}
