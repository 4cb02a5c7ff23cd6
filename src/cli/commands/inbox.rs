//! `festoon inbox`: a look into the agents' mail, and the mending of it.
//!
//! Looking takes no lock and marks nothing as read.

mod mend;
mod show;
mod watch;

use super::for_people;
use crate::cli::args::Shared;
use crate::cli::environment::Environment;
use crate::cli::error::CliError;
use crate::cli::teams::{self, Desk, Target, TeamView, inbox_owner};
use crate::store::inbox::{Inbox, owners};
use crate::store::sign::Keys;
use crate::wire::error::ExitKind;
use crate::wire::ids::AgentName;
use crate::wire::settings::Durability;
use clap::Subcommand;

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Which inboxes.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// A team, or one agent of it; without it, the team that runs.
    #[arg(value_name = "TEAM[/AGENT]")]
    pub which: Option<String>,
}

/// What can be done with inboxes.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Lists inboxes, with what waits in them and what was delivered; of all teams, unless one is named.
    List(Which),
    /// Shows what waits, and what was read last.
    Show {
        /// Which.
        #[command(flatten)]
        which: Which,
        /// Older mail, too.
        #[arg(long)]
        archive: bool,
    },
    /// Shows messages as they arrive, until it is interrupted.
    Watch(Which),
    /// Looks for everything that should not be; status 1 when something is found.
    Verify(Which),
    /// Sets damaged mail aside, and puts the rest in order.
    Repair(Which),
}

/// Runs it.
pub async fn run(args: Args, shared: &Shared) -> Result<Option<ExitKind>, CliError> {
    let environment = Environment::snapshot();
    if matches!(args.verb, Verb::Repair(_)) {
        for_people(&environment, "inbox repair")?;
    }
    let desk = Desk::new()?;
    match args.verb {
        Verb::List(which) => show::list(&desk, shared, which.which.as_deref()),
        Verb::Show { which, archive } => show::show(&open(&desk, &which)?, shared, archive),
        Verb::Watch(which) => watch::watch(&open(&desk, &which)?, shared).await,
        Verb::Verify(which) => mend::verify(&open(&desk, &which)?, shared),
        Verb::Repair(which) => mend::repair(&open(&desk, &which)?, shared),
    }
}

/// The inboxes that are meant.
struct Opened {
    view: TeamView,
    inboxes: Vec<Inbox>,
    /// Whether no agent was named, so that those who join belong to it.
    everybody: bool,
}

fn open(desk: &Desk, which: &Which) -> Result<Opened, CliError> {
    let target = Target::parse(which.which.as_deref());
    let view = teams::choose(&desk.paths, target.team.as_deref())?;
    let everybody = target.agent.is_none();
    let names = match target.agent {
        Some(agent) => vec![inbox_owner(&view, &agent)?],
        None => owners(&view.paths)?,
    };
    let inboxes = inboxes(&view, names)?;
    Ok(Opened { view, inboxes, everybody })
}

fn inboxes(view: &TeamView, names: Vec<AgentName>) -> Result<Vec<Inbox>, CliError> {
    let keys = Keys::load(&view.paths)?;
    Ok(names.iter().map(|name| Inbox::new(&view.paths, name, &keys, Durability::Process)).collect())
}
