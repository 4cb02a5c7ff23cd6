//! The subcommands, one file each.

pub mod agents;
pub mod ask;
pub mod attach;
pub mod demo;
pub mod doctor;
pub mod inbox;
pub mod log;
pub mod manual;
pub mod paths;
pub mod ps;
pub mod send;
pub mod task;
pub mod team;
pub mod teammate;
pub mod timeline;
pub mod top;
pub mod up;

use super::args::Shared;
use super::environment::{Environment, TOOL_MARK};
use super::error::CliError;
use crate::os::guard;
use crate::wire::error::ExitKind;
use clap::Subcommand;

/// What can be done beside talking to the agent.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Shows a real team at work on the current directory: offline, without a key.
    Demo(demo::Args),
    /// Starts a team from a blueprint: a file, or one that ships.
    Up(up::Args),
    /// Looks at a running agent and talks to it, from any terminal.
    Attach(attach::Args),
    /// Shows all teams live: agents, asks, tasks, budgets.
    Top,
    /// Lists every agent: state, what that rests on, model, tokens, cost.
    Ps(ps::Args),
    /// Looks at teams, and ends them.
    Team(team::Args),
    /// Sends a message to an agent, and says what became of it.
    Send(send::Args),
    /// Looks into the agents' mail.
    Inbox(inbox::Args),
    /// Shows what agents ask, and answers.
    Ask(ask::Args),
    /// Shows a team's tasks, and changes them.
    Task(task::Args),
    /// Shows the kinds of agents there are, and checks their files.
    Agents(agents::Args),
    /// Draws who did and said what, when: one page for one team.
    Timeline(timeline::Args),
    /// Reads transcripts.
    Log(log::Args),
    /// Says what works here, what does not, and what to do about it.
    Doctor(doctor::Args),
    /// Prints where everything is.
    Paths,
    /// Prints a completion script for a shell.
    Completions(manual::CompletionArgs),
    /// Prints a manual page.
    Man(manual::ManArgs),
    /// Runs one teammate from its spec file (started by a leader, not by hand).
    #[command(hide = true)]
    Teammate(teammate::Args),
}

impl Command {
    /// Runs it.
    pub async fn run(self, shared: Shared) -> Result<Option<ExitKind>, CliError> {
        match self {
            Self::Demo(args) => demo::run(args, shared).await,
            Self::Up(args) => up::run(args, shared).await,
            Self::Attach(args) => attach::run(args, shared).await,
            Self::Top => top::run(&shared).await,
            Self::Ps(args) => ps::run(&args, &shared),
            Self::Team(args) => team::run(args, shared).await,
            Self::Send(args) => send::run(args, shared).await,
            Self::Inbox(args) => inbox::run(args, &shared).await,
            Self::Ask(args) => ask::run(args, shared).await,
            Self::Task(args) => task::run(args, shared).await,
            Self::Agents(args) => agents::run(&args, shared),
            Self::Timeline(args) => timeline::run(&args, &shared),
            Self::Log(args) => log::run(&args, &shared),
            Self::Doctor(args) => doctor::run(&args, shared).await,
            Self::Paths => paths::run(&shared),
            Self::Completions(args) => manual::completions(&args),
            Self::Man(args) => manual::man(&args),
            Self::Teammate(args) => teammate::run(args, shared).await,
        }
    }
}

/// Refuses what only a person may do when a tool, a hook or another command of an agent does it
/// (contract §16). A changed environment does not help: the ancestors are looked at, too.
pub fn for_people(environment: &Environment, command: &str) -> Result<(), CliError> {
    if environment.get(TOOL_MARK).is_none() && !guard::is_below_guard() {
        return Ok(());
    }
    Err(CliError::new(
        ExitKind::Usage,
        "below_a_tool",
        format!("`festoon {command}` is for people, and this is a command that an agent started"),
        "run it in a terminal of your own",
    ))
}
