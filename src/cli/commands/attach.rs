//! `festoon attach AGENT`: looks at a running agent and talks to it, from any terminal.
//!
//! Without a terminal, or with `--json`, prints the end of its transcript and is done.

use super::demo::quoted;
use super::for_people;
use crate::cli::args::Shared;
use crate::cli::attach::lines::Shower;
use crate::cli::attach::session::{Attached, state_line};
use crate::cli::attach::target::{self, Target, is_over};
use crate::cli::backends::socket_of;
use crate::cli::environment::Environment;
use crate::cli::error::CliError;
use crate::cli::out::Out;
use crate::cli::setup::Setup;
use crate::cli::signals;
use crate::cli::teams;
use crate::exec::tmux;
use crate::store::roster::Roster;
use crate::store::transcript;
use crate::team::context::latest;
use crate::wire::error::ExitKind;
use crate::wire::transcript::Line;
use serde_json::json;
use std::io::IsTerminal;

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The agent: a name, NAME@TEAM, or the id of a subagent or the beginning of it.
    pub agent: String,
    /// The agent's team; without it, all that run.
    #[arg(long, value_name = "TEAM")]
    pub team: Option<String>,
}

/// Runs it.
pub async fn run(args: Args, shared: Shared) -> Result<Option<ExitKind>, CliError> {
    for_people(&Environment::snapshot(), "attach")?;
    let setup = Setup::new(shared)?;
    let (agent, team) = match &args.team {
        Some(team) => (args.agent.clone(), Some(team.clone())),
        None => match teams::Target::parse(Some(&args.agent)) {
            teams::Target { agent: Some(agent), team } => (agent, team),
            teams::Target { .. } => (args.agent.clone(), None),
        },
    };
    let target = target::find(&setup.paths, team.as_deref(), &agent)?;
    let note = pane(&setup, &target);
    let at_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if setup.shared.json || !at_terminal || is_over(&target.row) {
        return show(&target, note, setup.shared.json);
    }
    let mut signals = signals::listen()?;
    let mut notes =
        vec![format!("attached to {}; /quit leaves it at work, /help says what else", target.row.name)];
    notes.extend(note.map(|command| format!("its pane: {command}")));
    Attached::open(&setup, target).await?.run(&notes, &mut signals).await
}

/// The end of the transcript, and how the agent is.
fn show(target: &Target, pane: Option<String>, as_json: bool) -> Result<Option<ExitKind>, CliError> {
    let tail: Vec<Line> = match target.transcript.as_deref().filter(|path| path.exists()) {
        Some(path) => transcript::read_tail(path)?.0,
        None => Vec::new(),
    };
    let mut out = Out::default();
    if as_json {
        out.json(
            &json!({ "agent": target.row, "transcript": target.transcript, "lines": tail, "pane": pane }),
        )?;
        return Ok(None);
    }
    let shower = Shower::default();
    for line in tail.iter().flat_map(|line| shower.lines(line)) {
        out.line(line)?;
    }
    out.line(state_line(&target.row))?;
    if let Some(pane) = pane {
        out.line(format!("its pane: {pane}"))?;
    }
    Ok(None)
}

/// The command that shows the pane it sits in, when it sits in one.
fn pane(setup: &Setup, target: &Target) -> Option<String> {
    let pane = target.row.pane_id.as_deref().filter(|_| target.row.backend == Some("tmux"))?;
    // Ids of panes are `%` and digits; anything else is no word for a shell.
    if !pane.strip_prefix('%').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit())) {
        return None;
    }
    let team = setup.paths.team(&target.row.team);
    let roster = Roster::load(&team).ok().flatten();
    let recorded = roster.and_then(|roster| latest(&roster, &target.row.name)?.pane_server.clone());
    let environment = setup.environment.all();
    let inside = environment.get("TMUX").and_then(|tmux| tmux.split(',').next());
    let server = match recorded.as_deref() {
        // Whoever is in that server needs no word of it.
        Some(path) if inside == Some(path) => "tmux".to_owned(),
        Some(path) => format!("tmux -S {}", quoted(path)),
        None => {
            let private = Some(socket_of(&team)).filter(|n| tmux::socket_path(n, environment).exists());
            private.map_or_else(|| "tmux".to_owned(), |name| format!("tmux -L {name}"))
        }
    };
    Some(format!("{server} select-window -t {pane} \\; select-pane -t {pane} \\; attach"))
}
