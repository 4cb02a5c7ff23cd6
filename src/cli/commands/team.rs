//! `festoon team`: looks at teams, ends their members, goes on with them, removes them.

mod resume;
mod show;
mod stop;

use super::for_people;
use crate::cli::args::Shared;
use crate::cli::environment::Environment;
use crate::cli::error::CliError;
use crate::cli::setup::Setup;
use crate::cli::teams::Desk;
use crate::wire::error::ExitKind;
use clap::Subcommand;

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What can be done with teams.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Lists all teams.
    List,
    /// Shows one team: its agents, mail and asks.
    Show {
        /// The team; without it, the one that runs.
        team: Option<String>,
    },
    /// Ends the members of a team, or one of them; the leader goes on.
    Stop {
        /// The team.
        team: String,
        /// One member.
        agent: Option<String>,
        /// How long each may take to end in order before it is ended by force.
        #[arg(long, value_name = "SECONDS")]
        grace: Option<u64>,
    },
    /// Goes on with the session that led a team: who lives is found again, the rest restarted.
    Resume(resume::Args),
    /// Removes a team in which nothing lives or waits, with its mail, asks and event log.
    Delete {
        /// The team.
        team: String,
        /// Also with open asks, unread mail or tasks that are not done, and when agents were last seen on a host
        /// that cannot be looked at from here.
        #[arg(long)]
        force: bool,
    },
}

/// Runs it.
pub async fn run(args: Args, shared: Shared) -> Result<Option<ExitKind>, CliError> {
    match args.verb {
        Verb::List => show::list(&Desk::new()?, &shared),
        Verb::Show { team } => show::show(&Desk::new()?, &shared, team.as_deref()),
        Verb::Stop { team, agent, grace } => {
            for_people(&Environment::snapshot(), "team stop")?;
            stop::stop(&Setup::new(shared)?, &team, agent.as_deref(), grace).await
        }
        Verb::Resume(args) => resume::run(args, shared).await,
        Verb::Delete { team, force } => {
            for_people(&Environment::snapshot(), "team delete")?;
            stop::delete(&Desk::new()?, &shared, &team, force)
        }
    }
}
