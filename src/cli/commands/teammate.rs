//! `festoon teammate --spec FILE`: the worker mode of the program (spec §10).
//!
//! Starts over with exactly the leader's environment, takes its secrets out of the file, then lives
//! the same life as a teammate in the leader's process.

use crate::cli::args::Shared;
use crate::cli::compose;
use crate::cli::environment::Environment;
use crate::cli::error::CliError;
use crate::cli::insist::{self, Insisting};
use crate::cli::out::Printing;
use crate::cli::setup::Setup;
use crate::cli::signals::{self, Signalled};
use crate::cli::trust;
use crate::cli::view::View;
use crate::exec::tmux;
use crate::os::{process, replace};
use crate::store::{lock, spec};
use crate::team::executor::RunnerControl;
use crate::wire::error::ExitKind;
use crate::wire::worker::{WORKER_SPEC_VERSION, WorkerSpec};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Set when the program has started over: the run it is for.
const RUN_MARK: &str = "FESTOON_WORKER_RUN";
/// What a worker keeps of the environment its pane gave it.
const KEPT: [&str; 4] = ["TERM", "TMUX", "TMUX_PANE", "PWD"];

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The spec file.
    #[arg(long, value_name = "FILE")]
    pub spec: PathBuf,
}

/// Before the runtime starts: replaces this process by itself with the environment of the spec. Returns
/// only when that has happened already, or cannot.
pub fn start_over(args: &Args) -> Result<(), CliError> {
    let spec = read(args)?;
    if Environment::snapshot().get(RUN_MARK) == Some(spec.run_id.as_str()) {
        std::env::set_current_dir(&spec.cwd).map_err(|e| {
            CliError::new(
                ExitKind::Failed,
                "io",
                format!("{}: {e}", spec.cwd.display()),
                "the directory must exist",
            )
        })?;
        return Ok(());
    }
    process::lead_session().map_err(|e| CliError::new(ExitKind::Failed, "process", e.to_string(), ""))?;
    let here = Environment::snapshot();
    let mut environment = spec.environment.clone();
    environment.extend(KEPT.iter().filter_map(|key| Some(((*key).to_owned(), here.get(key)?.to_owned()))));
    environment.extend(identity(&spec));
    environment.insert(RUN_MARK.to_owned(), spec.run_id.to_string());
    Err(replace::with_self(&["teammate".as_ref(), "--spec".as_ref(), args.spec.as_os_str()], &environment)
        .into())
}

/// What a worker and its tools are told about who they are (contract §2).
fn identity(spec: &WorkerSpec) -> [(String, String); 5] {
    [
        ("FESTOON_AGENT_ID", spec.agent_id.to_string()),
        ("FESTOON_AGENT_NAME", spec.name.to_string()),
        ("FESTOON_TEAM_NAME", spec.team.to_string()),
        ("FESTOON_AGENT_COLOR", spec.color.clone()),
        ("FESTOON_LEADER_AGENT_ID", format!("team-lead@{}", spec.team)),
    ]
    .map(|(key, value)| (key.to_owned(), value))
}

fn read(args: &Args) -> Result<WorkerSpec, CliError> {
    let spec = spec::read_spec(&args.spec)?;
    if spec.version != WORKER_SPEC_VERSION || spec.program_version != env!("CARGO_PKG_VERSION") {
        return Err(CliError::new(
            ExitKind::Failed,
            "version",
            format!(
                "the leader is festoon {}, this worker is {}",
                spec.program_version,
                env!("CARGO_PKG_VERSION")
            ),
            "restart the leader with the program that is installed now",
        ));
    }
    Ok(spec)
}

/// Runs the teammate.
pub async fn run(args: Args, shared: Shared) -> Result<Option<ExitKind>, CliError> {
    let spec = read(&args)?;
    spec::strip_secrets(&args.spec)?;
    let mut setup = Setup::new(shared)?;
    if setup.paths.state_root() != spec.state_root {
        return Err(CliError::new(
            ExitKind::Failed,
            "state_root",
            format!(
                "the leader keeps its state in {}, this worker would use {}",
                spec.state_root.display(),
                setup.paths.state_root().display()
            ),
            "start workers through their leader only",
        ));
    }
    setup.loaded.settings = spec.settings.clone();
    setup.trust = trust::of_worker(&setup.paths, &spec);
    setup.loaded.settings.retry = spec.retry.clone();
    let team = spec.team.clone();
    let printing = Printing::start()?;
    let view = View::of_teammate(&spec, printing.lines());
    let cancel = CancellationToken::new();
    let (interrupt, interrupted) = watch::channel(0_u64);
    let control =
        RunnerControl { cancel: cancel.clone(), interrupt: interrupted, leaving: TaskTracker::new() };
    let mut signals = signals::listen()?;
    insist::watch(Insisting::End, &setup)?;
    let life = compose::worker(&setup, spec, vec![Arc::new(view)], control);
    tokio::pin!(life);
    let exit = loop {
        tokio::select! {
            biased;
            exit = &mut life => break exit,
            Some(signalled) = signals.recv() => match signalled {
                Signalled::Interrupt => interrupt.send_modify(|n| *n += 1),
                Signalled::End => cancel.cancel(),
            }
        }
    };
    printing.finish();
    // A leader reads the exit status from the pane; without one the pane would stay for long.
    if !lock::is_held(&setup.paths.team(&team).leader_lock())?
        && let Err(error) = tmux::release_own_pane(setup.environment.all(), std::process::id()).await
    {
        tracing::warn!(%error, "the pane of this worker could not be let go");
    }
    let exit = exit?;
    if exit.failed {
        return Err(CliError::new(ExitKind::Failed, "teammate", exit.exit, ""));
    }
    Ok(None)
}
