//! The subcommands, one file each.

pub mod demo;
pub mod teammate;

use super::args::Shared;
use super::error::CliError;
use super::setup::Setup;
use crate::wire::error::ExitKind;
use clap::Subcommand;

/// What can be done beside talking to the agent.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Shows a real team at work on the current directory: offline, without a key.
    Demo(demo::Args),
    /// Runs one teammate from its spec file (started by a leader, not by hand).
    #[command(hide = true)]
    Teammate(teammate::Args),
}

impl Command {
    /// Runs it.
    pub async fn run(self, shared: Shared) -> Result<Option<ExitKind>, CliError> {
        match self {
            Self::Demo(args) => demo::run(args, shared).await,
            Self::Teammate(args) => teammate::run(args, shared).await,
        }
    }
}

/// The setup of a command that only looks.
pub fn setup(shared: Shared) -> Result<Setup, CliError> {
    Setup::new(shared)
}
