//! Settings files (contract §14): every key is optional, every key here is read by something.

use super::hooks::HookSettings;
use super::limits::{MAX_AGENTS, MAX_AGENTS_TOTAL, MAX_DEPTH, TOOL_CONCURRENCY};
use super::permission::PermissionMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One settings file, or several merged.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// The model when the command line and `FESTOON_MODEL` name none.
    pub model: Option<String>,
    /// Own names for models.
    pub aliases: BTreeMap<String, String>,
    /// Per provider.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// Rules and mode.
    pub permissions: PermissionSettings,
    /// Commands that run when something happens.
    #[serde(skip_serializing_if = "HookSettings::is_empty")]
    pub hooks: HookSettings,
    /// Longest answer asked of a model, in tokens; left out, what the list of models says.
    pub max_output_tokens: Option<u32>,
    /// How hard models think; left out, their own default.
    pub effort: Option<Effort>,
    /// When conversations are compacted.
    pub compaction: CompactionSettings,
    /// Days after which old sessions, logs and unused teams are removed; 0 keeps them.
    pub cleanup_days: Option<u32>,
    /// Variables for tool commands.
    pub env: BTreeMap<String, String>,
    /// MCP servers by name: `command`, `args`, `env` and `cwd`, or `url` and `headers`; also `timeout` in
    /// milliseconds, and `disabled`.
    pub mcp_servers: BTreeMap<String, serde_json::Value>,
    /// Directories that bring MCP servers (`.mcp.json`) and kinds of agents (`agents/*.md`).
    pub extensions: Vec<String>,
    /// False takes away the team tools.
    pub teams: Option<bool>,
    /// False turns background work off, whoever asks for it.
    pub background: Option<bool>,
    /// Where teammates run: `auto`, `in-process`, `process`, `tmux`, `iterm2`.
    pub teammate_mode: Option<String>,
    /// Whether and when agents may fork.
    pub fork: Option<ForkSetting>,
    /// What workers of their own process do when their leader is gone.
    pub orphaned_workers: OrphanedWorkers,
    /// Worktrees of isolated agents.
    pub worktree: WorktreeSettings,
    /// Bounds of the tree of agents.
    pub limits: LimitSettings,
    /// Retries of model requests.
    pub retry: RetrySettings,
    /// The shutdown ladder.
    pub shutdown: ShutdownSettings,
    /// `process` or `disk`: whether a stored message survives a power cut.
    pub durability: Option<Durability>,
    /// Prices of models that the shipped list lacks or has wrong, by model name.
    pub prices: BTreeMap<String, PriceSettings>,
}

/// What a model costs, in US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PriceSettings {
    /// Fresh input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from the cache; as fresh input when left out.
    pub cache_read: Option<f64>,
    /// Input written to the cache for five minutes; as fresh input when left out.
    #[serde(rename = "cacheWrite5m")]
    pub cache_write_5m: Option<f64>,
}

/// Where a provider is.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderSettings {
    /// Instead of the vendor's address.
    pub base_url: Option<String>,
    /// What `openai` and `ollama` speak; when left out, `responses` at the vendor's own address and
    /// `chat` everywhere else.
    pub wire: Option<OpenAiWire>,
    /// Sizes of models that the shipped list lacks or has wrong, by the provider's name of them; `*` is
    /// every other one of this provider.
    pub models: BTreeMap<String, ModelSettings>,
}

/// The sizes of a model, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelSettings {
    /// Input and output together.
    pub context_window: Option<u64>,
    /// Longest answer to ask for.
    pub max_output: Option<u32>,
}

/// Worktrees of isolated agents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorktreeSettings {
    /// Whether uncommitted changes come along; without it, a parent that has some is refused.
    pub carry: bool,
}

/// How hard a model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// Quick and cheap.
    Low,
    /// Between both.
    Medium,
    /// Thorough.
    High,
}

impl Effort {
    /// All, as they are written.
    pub const ALL: [(&'static str, Self); 3] =
        [("low", Self::Low), ("medium", Self::Medium), ("high", Self::High)];

    /// As it is written, and as both vendors' wires have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// From how it is written.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(own, _)| *own == name).map(|(_, effort)| effort)
    }
}

/// When conversations are compacted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CompactionSettings {
    /// Whether it happens by itself.
    pub enabled: bool,
    /// The share of a model's context that the next request may fill before it does.
    #[serde(deserialize_with = "a_share")]
    pub threshold: f64,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self { enabled: true, threshold: super::limits::COMPACTION_THRESHOLD }
    }
}

fn a_share<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let share = f64::deserialize(from)?;
    if share > 0.0 && share <= 1.0 {
        return Ok(share);
    }
    Err(serde::de::Error::custom(format_args!("{share} is no share: it is above 0 and at most 1")))
}

/// The two wires of OpenAI and of servers that are like it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OpenAiWire {
    /// Chat completions.
    Chat,
    /// Responses, in their stateless form.
    Responses,
}

/// Rules and mode.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PermissionSettings {
    /// Run without asking.
    pub allow: Vec<String>,
    /// Ask in any mode.
    pub ask: Vec<String>,
    /// Never run.
    pub deny: Vec<String>,
    /// The mode when the command line names none.
    pub default_mode: Option<PermissionMode>,
    /// Directories beside the working directory that count as the project.
    pub additional_directories: Vec<String>,
}

/// Bounds of the tree of agents, across all its processes. Without them tokens and money have none.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitSettings {
    /// The deepest agent that may exist; the main agent is 0.
    #[schemars(extend("default" = MAX_DEPTH))]
    pub max_depth: Option<u32>,
    /// Agents that run at once, the main agent not counted; more wait.
    #[schemars(extend("default" = MAX_AGENTS))]
    pub max_agents: Option<usize>,
    /// Agents that a session may start in its life; more are refused.
    #[schemars(extend("default" = MAX_AGENTS_TOTAL))]
    pub max_agents_total: Option<usize>,
    /// Tokens that all agents of a session may use in its life; then it ends in order.
    pub max_tokens_total: Option<u64>,
    /// US dollars that all agents of a session may cost in its life; then it ends in order.
    pub max_cost: Option<f64>,
    /// Concurrency-safe tool calls of one message that run at once.
    #[schemars(extend("default" = TOOL_CONCURRENCY))]
    pub tool_concurrency: Option<usize>,
}

/// Retries of model requests.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RetrySettings {
    /// Attempts in all.
    pub max_attempts: u32,
    /// First delay.
    pub base_delay_ms: u64,
    /// Longest delay.
    pub max_delay_ms: u64,
    /// A stream that is silent for so long is cut; one that sends only signs of life, after four times
    /// as long.
    pub stream_idle_timeout_ms: u64,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self { max_attempts: 8, base_delay_ms: 500, max_delay_ms: 60_000, stream_idle_timeout_ms: 90_000 }
    }
}

/// Deadlines of the shutdown ladder.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ShutdownSettings {
    /// For the model's answer.
    pub polite_ms: u64,
    /// For the turn to end after the interrupt.
    pub interrupt_ms: u64,
    /// From TERM to KILL.
    pub terminate_ms: u64,
}

impl Default for ShutdownSettings {
    fn default() -> Self {
        Self { polite_ms: 15_000, interrupt_ms: 5_000, terminate_ms: 5_000 }
    }
}

/// Whether and when an `Agent` call forks its caller's conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ForkSetting {
    /// When it says so.
    #[default]
    Explicit,
    /// Also when it names no type, in sessions with a terminal; every spawn runs in the background then.
    Implicit,
    /// Never.
    Off,
}

/// What a worker does when its leader is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OrphanedWorkers {
    /// Finishes its turn, then waits for a leader to come back.
    #[default]
    Park,
    /// Ends in order.
    Exit,
}

/// What "stored" survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// The death of every process.
    #[default]
    Process,
    /// A power cut too.
    Disk,
}
