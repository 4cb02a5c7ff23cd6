//! The command line: what can be written, and what it means before anything is looked up.

use super::commands::Command;
use super::forks::ForkFlag;
use super::numbers;
use crate::model::registry::ModelRef;
use clap::{Args, Parser, ValueEnum};
use std::path::{Path, PathBuf};

/// One coding agent or a whole team of them, kept alive, reachable, affordable and honest.
#[derive(Debug, Parser)]
#[command(name = "festoon", version, about, max_term_width = 100)]
#[command(args_conflicts_with_subcommands = false, subcommand_negates_reqs = true)]
pub struct Cli {
    /// What to do; without it, the prompt goes to the agent.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The first prompt of an interactive session; several words are one prompt.
    pub prompt: Vec<String>,
    /// Runs without a terminal: answer PROMPT and exit. Without a value, or when something is piped in,
    /// standard input is (added to) the prompt.
    #[arg(short = 'p', long = "print", value_name = "PROMPT", num_args = 0..=1, default_missing_value = "")]
    pub print: Option<String>,
    /// Goes on with the latest session of this directory.
    #[arg(long = "continue", conflicts_with = "resume")]
    pub go_on: bool,
    /// Goes on with this session; without an ID, lists them.
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "")]
    pub resume: Option<String>,
    /// What -p prints.
    #[arg(long, value_enum, default_value_t = OutputFormat::Text, value_name = "FORMAT")]
    pub output_format: OutputFormat,
    /// How -p is told what to do: `text`, or `stream-json` for a message a line on standard input.
    #[arg(long, value_enum, default_value_t = InputFormat::Text, value_name = "FORMAT", requires = "print")]
    pub input_format: InputFormat,
    /// What every command takes.
    #[command(flatten)]
    pub shared: Shared,
}

/// How `-p` is told what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum InputFormat {
    /// A prompt.
    Text,
    /// A message of the user a line.
    StreamJson,
}

/// What `-p` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// The final answer.
    Text,
    /// The result object.
    Json,
    /// One JSON object a line, as things happen.
    StreamJson,
}

/// Flags that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Session options")]
pub struct Shared {
    /// The model: PROVIDER:NAME (anthropic:…, scripted:FILE) or an alias (default, strong, fast).
    #[arg(long, global = true, value_name = "MODEL")]
    pub model: Option<String>,
    /// How calls are decided that no rule decides: default, acceptEdits, plan, auto,
    /// dontAsk, bypassPermissions.
    #[arg(long, global = true, value_name = "MODE")]
    pub permission_mode: Option<String>,
    /// Rules that allow, such as `Bash(git log:*)`; may be repeated or separated by commas.
    #[arg(long, global = true, value_name = "RULES")]
    pub allowed_tools: Vec<String>,
    /// Rules that deny.
    #[arg(long, global = true, value_name = "RULES")]
    pub disallowed_tools: Vec<String>,
    /// Rounds a turn may take.
    #[arg(long, global = true, value_name = "N", allow_negative_numbers = true, value_parser = numbers::at_least_one::<u32>)]
    pub max_turns: Option<u32>,
    /// Deepest agent that may exist; the main agent is 0, so 0 forbids others.
    #[arg(long, global = true, value_name = "N", allow_negative_numbers = true, value_parser = numbers::whole::<u32>)]
    pub max_depth: Option<u32>,
    /// Subagents that run at once; more wait.
    #[arg(long, global = true, value_name = "N", allow_negative_numbers = true, value_parser = numbers::agents)]
    pub max_agents: Option<usize>,
    /// Agents that may be started; more are refused. 0 forbids them.
    #[arg(long, global = true, value_name = "N", allow_negative_numbers = true, value_parser = numbers::whole::<usize>)]
    pub max_agents_total: Option<usize>,
    /// Tokens that all agents of the session may use in its life: input, output, cache reads and writes.
    #[arg(long, global = true, value_name = "N", allow_negative_numbers = true, value_parser = numbers::whole::<u64>)]
    pub max_tokens_total: Option<u64>,
    /// US dollars that all agents of the session may cost in its life.
    #[arg(long, global = true, value_name = "DOLLARS", allow_negative_numbers = true, value_parser = numbers::dollars)]
    pub max_cost: Option<f64>,
    /// Headless: keeps an ask open for so long, to be answered with `festoon ask`.
    #[arg(long, global = true, value_name = "SECONDS", allow_negative_numbers = true, value_parser = numbers::seconds)]
    pub ask_timeout: Option<u64>,
    /// The main agent only plans and delegates (also with `FESTOON_COORDINATOR_MODE=1`).
    #[arg(long, global = true)]
    pub coordinator: bool,
    /// Leaves teammates in panes running at the end.
    #[arg(long, global = true)]
    pub keep_team: bool,
    /// Where teammates run: auto, in-process, process, tmux, iterm2.
    #[arg(long, global = true, value_name = "MODE")]
    pub teammate_mode: Option<String>,
    /// Whether agents may fork: explicit (a call that says so), implicit (in the REPL also a call that names
    /// no type), off.
    #[arg(long, global = true, value_name = "WHEN", value_enum)]
    pub fork: Option<ForkFlag>,
    /// A further directory that counts as the project.
    #[arg(long, global = true, value_name = "DIR")]
    pub add_dir: Vec<PathBuf>,
    /// Works in a git worktree of its own, which goes at the end when nothing in it is new.
    #[arg(long, global = true)]
    pub worktree: bool,
    /// A settings file, or settings as JSON text.
    #[arg(long, global = true, value_name = "FILE|JSON")]
    pub settings: Option<String>,
    /// Trusts this directory for this run: hooks, MCP servers, and all that its settings files set.
    #[arg(long, global = true)]
    pub trust: bool,
    /// MCP servers for this session, beside those of settings and .mcp.json: a file, or JSON text
    /// {"mcpServers": {"name": {"command": "…", "args": []}}}; may be repeated.
    #[arg(long, global = true, value_name = "FILE|JSON")]
    pub mcp_config: Vec<String>,
    /// Names the session; must be new. Letters, digits, `.`, `_` and `-`.
    #[arg(long, global = true, value_name = "ID", value_parser = session_id)]
    pub session_id: Option<String>,
    /// The kind of agent that the main agent is.
    #[arg(long, global = true, value_name = "NAME")]
    pub agent: Option<String>,
    /// Kinds of agents for this session, as JSON: {"name": {"description": "…", "prompt": "…"}}.
    #[arg(long, global = true, value_name = "JSON")]
    pub agents: Option<String>,
    /// Instead of the built-in system prompt.
    #[arg(long, global = true, value_name = "TEXT")]
    pub system_prompt: Option<String>,
    /// Added to the system prompt.
    #[arg(long, global = true, value_name = "TEXT")]
    pub append_system_prompt: Option<String>,
    /// Headless: how long to wait for teammates, in all, from the first answer on.
    #[arg(long, global = true, value_name = "SECONDS", allow_negative_numbers = true, value_parser = numbers::seconds)]
    pub wait: Option<u64>,
    /// Records what the model answers, as a script that plays it back (teammates in this process only).
    #[arg(long, global = true, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Listings and errors as JSON.
    #[arg(long, global = true, help_heading = None::<&str>)]
    pub json: bool,
    /// Shows more of what happens.
    #[arg(long, global = true, help_heading = None::<&str>)]
    pub verbose: bool,
}

impl Shared {
    /// The same with every path that is relative meant from `directory`, to be read in any other.
    pub fn anchored(mut self, directory: &Path) -> Self {
        let at = |path: &mut PathBuf| *path = directory.join(&path);
        self.add_dir.iter_mut().for_each(at);
        self.record.iter_mut().for_each(at);
        // A file, unless it is JSON text.
        let texts = self.settings.iter_mut().chain(&mut self.mcp_config);
        for text in texts.filter(|text| !text.trim_start().starts_with('{')) {
            *text = directory.join(&text).to_string_lossy().into_owned();
        }
        if let Some(model) = &mut self.model
            && let Ok(found) = model.parse::<ModelRef>()
        {
            *model = found.anchored(directory).to_string();
        }
        self
    }
}

/// Characters of a session's name that a person chooses.
const SESSION_ID: usize = 100;

/// A name for a session that is its file's name as it stands.
fn session_id(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let fits = (1..=SESSION_ID).contains(&text.chars().count());
    if fits && text.chars().all(plain) && !text.starts_with('.') {
        return Ok(text.to_owned());
    }
    Err(format!(
        "1 to {SESSION_ID} ASCII letters, digits, '.', '_' and '-' are a session id, and no dot comes first"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_flags_mean_the_same_in_another_directory() {
        let line = [
            "festoon",
            "--settings",
            "my.json",
            "--add-dir",
            "../b",
            "--add-dir",
            "/c",
            "--record",
            "r.toml",
            "--mcp-config",
            " {}",
            "--mcp-config",
            "m.json",
            "--model",
            "scripted:s.toml",
        ];
        let shared = Cli::try_parse_from(line).expect("parses").shared.anchored(Path::new("/a"));
        assert_eq!(shared.settings.as_deref(), Some("/a/my.json"));
        assert_eq!(shared.add_dir, [PathBuf::from("/a/../b"), PathBuf::from("/c")]);
        assert_eq!(shared.record, Some(PathBuf::from("/a/r.toml")));
        assert_eq!(shared.mcp_config, [" {}", "/a/m.json"]);
        assert_eq!(shared.model.as_deref(), Some("scripted:/a/s.toml"));
        let line = ["festoon", "--settings", "{}", "--model", "strong"];
        let shared = Cli::try_parse_from(line).expect("parses").shared.anchored(Path::new("/a"));
        assert_eq!((shared.settings.as_deref(), shared.model.as_deref()), (Some("{}"), Some("strong")));
    }

    #[test]
    fn a_session_id_is_a_plain_file_name() {
        let long = "x".repeat(SESSION_ID);
        for good in ["a", "0.1_b-C", "-x", long.as_str()] {
            assert_eq!(session_id(good).as_deref(), Ok(good));
        }
        let longer = format!("{long}x");
        for bad in ["", ".x", "a b", "a/b", "../x", "ä", "a\nb", "a=2e", longer.as_str()] {
            assert!(session_id(bad).is_err(), "{bad:?}");
        }
    }
}
