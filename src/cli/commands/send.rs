//! `festoon send TO TEXT`: a message from the person to an agent, and what became of it.

use super::for_people;
use crate::agent::ports::MailError;
use crate::cli::args::Shared;
use crate::cli::environment::Environment;
use crate::cli::error::CliError;
use crate::cli::out::Out;
use crate::cli::setup::Setup;
use crate::cli::teams::{self, Target, TeamView, inbox_owner};
use crate::cli::{stdin, words};
use crate::team::mailbox::{FileMailbox, Sender};
use crate::team::session;
use crate::wire::error::ExitKind;
use crate::wire::ids::AgentName;
use crate::wire::mail::{Draft, Wake};
use serde_json::json;

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The agent: its name, or NAME@TEAM.
    pub to: String,
    /// What to say; - reads it from standard input.
    #[arg(allow_hyphen_values = true)]
    pub text: String,
    /// The agent's team; without it, the one that runs.
    #[arg(long, value_name = "TEAM")]
    pub team: Option<String>,
    /// Ends the agent's running turn first.
    #[arg(long)]
    pub interrupt: bool,
}

/// Runs it.
pub async fn run(args: Args, shared: Shared) -> Result<Option<ExitKind>, CliError> {
    for_people(&Environment::snapshot(), "send")?;
    let setup = Setup::new(shared)?;
    let said = if args.text == "-" { stdin::read(false)?.text } else { args.text.clone() };
    if said.trim().is_empty() {
        return Err(CliError::usage(
            "there is nothing to send",
            "festoon send NAME 'text', or pipe it into `festoon send NAME -`",
        ));
    }
    let (to, team) = match &args.team {
        Some(team) => (args.to.clone(), Some(team.clone())),
        None => match Target::parse(Some(&args.to)) {
            Target { team, agent: Some(agent) } => (agent, team),
            Target { .. } => (args.to.clone(), None),
        },
    };
    let view = teams::choose(&setup.paths, team.as_deref())?;
    let to = inbox_owner(&view, &to)?;
    let team = session::open_unwatched(&setup.paths, &setup.disk, view.name(), setup.durability())?;
    let user = FileMailbox::new(team, AgentName::user(), 1, None);
    let wake = if args.interrupt { Wake::Interrupt } else { Wake::Turn };
    let receipt = user.post(&to, Draft::text(said).waking(wake), Sender::Trusted).await.map_err(not_sent)?;
    // Looked at again: what matters is how the reader is now that it is stored.
    let view = TeamView::look(view.paths);
    let prospect = prospect(&view, &to, args.interrupt);
    let row = view.rows.iter().find(|row| row.name == to);
    let mut out = Out::default();
    if setup.shared.json {
        out.json(&json!({ "stored": true, "messageId": receipt.id, "seq": receipt.seq, "to": receipt.to,
            "team": view.name(), "state": row.map(|row| row.state), "evidence": row.map(|row| &row.evidence),
            "prospect": prospect }))?;
        return Ok(None);
    }
    out.line(format!(
        "stored in the inbox of {}, team {} (position {}, message {})",
        words::line(view.called(&to)),
        view.name(),
        receipt.seq,
        receipt.id
    ))?;
    out.line(words::line(&prospect))?;
    Ok(None)
}

/// When the reader will have it, in a sentence.
fn prospect(view: &TeamView, to: &AgentName, interrupt: bool) -> String {
    let name = view.called(to);
    let Some(row) = view.rows.iter().find(|row| row.name == *to) else {
        return format!("nothing is known of {name}");
    };
    if !row.lives {
        let when = if view.leader_alive { "if it is started again" } else { "when the team is resumed" };
        return format!("{name} is away ({}: {}); it reads this {when}", row.state, row.evidence);
    }
    let reads = match row.state {
        "idle" => "this wakes it",
        "working" | "waiting" if interrupt => "its turn is interrupted, and it reads this",
        "working" => "it reads this before its next round",
        "waiting" => "it waits for an answer to an ask (`festoon ask list`) and reads this after it",
        "starting" => "it reads this when it is ready",
        "stopping" => "it is ending, and may not read this any more",
        _ => "it reads this when it can",
    };
    let leader = if view.leader_alive || to.is_lead() { "" } else { "; its leader is away" };
    format!("{name} is {}: {reads}{leader}", row.state)
}

fn not_sent(error: MailError) -> CliError {
    let hint = match error.kind {
        "full" => "wait until it has read its mail",
        "too_large" => "put the text in a file and send its path",
        "stopped" => "`festoon ps` shows who runs",
        _ => "",
    };
    CliError::new(ExitKind::Failed, error.kind, format!("not sent: {}", error.what), hint)
}
