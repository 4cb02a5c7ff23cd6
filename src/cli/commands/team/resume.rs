//! `festoon team resume`: the session that leads a team goes on, where it was.
//!
//! Owns the way from a team to its leader's session and directory; what follows is `--resume` there: who
//! lives is adopted, who ran inside the dead leader is started again, open asks and mail are found.

use crate::cli::args::{OutputFormat, Shared};
use crate::cli::error::CliError;
use crate::cli::input::Prompts;
use crate::cli::setup::Setup;
use crate::cli::teams::{self, TeamView};
use crate::cli::{headless, repl};
use crate::store::transcript;
use crate::wire::error::ExitKind;
use crate::wire::ids::SessionId;
use std::path::{Path, PathBuf};

/// How the team goes on.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The team.
    pub team: String,
    /// Says this to the leader and ends with its answer, without a terminal.
    #[arg(short = 'p', long = "print", value_name = "PROMPT")]
    pub print: Option<String>,
    /// What -p prints.
    #[arg(long, value_enum, default_value_t = OutputFormat::Text, value_name = "FORMAT")]
    pub output_format: OutputFormat,
}

/// Runs it.
pub async fn run(args: Args, shared: Shared) -> Result<Option<ExitKind>, CliError> {
    let here = Setup::new(shared.clone())?;
    let view = teams::choose(&here.paths, Some(&args.team))?;
    let session = session_of(&here, &view)?;
    let home = home(&here, &session)?;
    let shared = shared.anchored(&here.cwd);
    std::env::set_current_dir(&home).map_err(|error| {
        let what = format!("the team worked in {}, which cannot be entered: {error}", home.display());
        CliError::new(ExitKind::Failed, "io", what, "make that directory again, or delete the team")
    })?;
    let setup = Setup::for_agents(shared)?;
    match args.print {
        None => repl::run(&setup, None, Some(session)).await,
        Some(prompt) => {
            headless::answer(&setup, Prompts::one(&prompt), args.output_format, Some(&session)).await
        }
    }
}

/// The session that leads the team, when it may go on.
fn session_of(setup: &Setup, view: &TeamView) -> Result<SessionId, CliError> {
    let name = view.name();
    let refused = |kind, message: String, hint: String| CliError::new(ExitKind::Failed, kind, message, hint);
    if view.leader_alive {
        let who = view.leader().pid.map_or("another process".to_owned(), |pid| format!("process {pid}"));
        let hint = format!(
            "`festoon send team-lead TEXT --team {name}` reaches it; end that process to lead the team"
        );
        return Err(refused("team_in_use", format!("the team {name} is led by {who}"), hint));
    }
    let unreadable = || {
        let message = format!("the roster of the team {name} cannot be read");
        refused("corrupt", message, "`festoon doctor` says what is wrong with it".to_owned())
    };
    let file = view.roster.as_ref().ok_or_else(unreadable)?;
    let session = &file.lead_session_id;
    // A session that goes on takes its newest team.
    let all = teams::all(&setup.paths)?;
    let theirs = all.iter().filter_map(|team| Some((team.name(), team.roster.as_ref()?)));
    let later =
        theirs.filter(|(_, team)| team.lead_session_id == *session && team.created_at > file.created_at);
    match later.map(|(name, _)| name).next() {
        None => Ok(session.clone()),
        Some(newer) => Err(refused(
            "team_left",
            format!("the session of the team {name} leads {newer} now"),
            format!("`festoon team resume {newer}`, or `festoon team delete {name}`"),
        )),
    }
}

/// The directory a session belongs to.
fn home(setup: &Setup, session: &SessionId) -> Result<PathBuf, CliError> {
    let file = transcript::projects(&setup.paths)?
        .into_iter()
        .map(|project| project.transcript(session))
        .find(|file| file.is_file());
    file.as_deref().and_then(first_directory).ok_or_else(|| {
        let message = format!("the transcript of the session {session}, which led the team, was not found");
        CliError::new(
            ExitKind::Failed,
            "not_found",
            message,
            "its members can be ended with `festoon team stop`",
        )
    })
}

fn first_directory(transcript: &Path) -> Option<PathBuf> {
    let mut found = None;
    // One that cannot be read has none.
    let _ = transcript::read_while(transcript, |_, line| {
        found = line.ok().map(|line| PathBuf::from(line.cwd));
        found.is_none()
    });
    found
}
