//! The subcommands, one file each.

pub mod teammate;

use super::args::Shared;
use super::error::CliError;
use super::setup::Setup;
use crate::wire::error::ExitKind;
use clap::Subcommand;

/// What can be done beside talking to the agent.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Runs one teammate from its spec file (started by a leader, not by hand).
    #[command(hide = true)]
    Teammate(teammate::Args),
}

impl Command {
    /// Runs it.
    pub async fn run(self, shared: Shared) -> Result<Option<ExitKind>, CliError> {
        match self {
            Self::Teammate(args) => teammate::run(args, shared).await,
        }
    }
}

/// The setup of a command that only looks.
pub fn setup(shared: Shared) -> Result<Setup, CliError> {
    Setup::new(shared)
}
