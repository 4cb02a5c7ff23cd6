//! `festoon ask answer ID TEXT`: the answer to a question, from any terminal.

use super::{counted, find};
use crate::cli::ask_answer;
use crate::cli::ask_dialog::question::plain;
use crate::cli::error::CliError;
use crate::cli::out::Out;
use crate::cli::setup::Setup;
use crate::cli::words;
use crate::team::answer::{Word, answer};
use crate::team::session;
use crate::wire::ask::AskKind;
use crate::wire::error::ExitKind;
use crate::wire::ids::USER;
use crate::wire::permission::Decision;
use serde_json::json;

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The question, or the beginning of its id.
    pub id: String,
    /// A number or a label chooses (1,3 where several may be chosen), anything else is the answer in your own
    /// words. Several questions take a TEXT each, or one TEXT with a line or a part between semicolons each.
    #[arg(required_unless_present = "answers", conflicts_with = "answers")]
    pub text: Vec<String>,
    /// The answers as JSON: an array in the order of the questions, or an object by question or header.
    #[arg(long, value_name = "JSON")]
    pub answers: Option<String>,
    /// A word beside the answers.
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
}

/// Answers.
pub async fn run(setup: &Setup, args: &Args) -> Result<Option<ExitKind>, CliError> {
    let found = find(&setup.paths, &args.id)?;
    let (ask, id) = (&found.ask, &found.ask.id);
    if ask.kind != AskKind::Question {
        return Err(CliError::usage(
            format!("{id} is no question: it takes a yes or a no"),
            format!("festoon ask approve {id}, or festoon ask deny {id} --note TEXT"),
        ));
    }
    let questions = ask.questions();
    let read = match &args.answers {
        Some(json) => ask_answer::from_json(&questions, json),
        None => ask_answer::all(&questions, &args.text),
    };
    let answers = read.map_err(|why| {
        let asked: Vec<String> = questions.iter().flat_map(plain).map(|line| words::line(&line)).collect();
        // Indented, the lines below the first are a list under it.
        CliError::usage(why, asked.join("\n").replace('\n', "\n  "))
    })?;
    let team = session::open_unwatched(&setup.paths, &setup.disk, &found.team.name(), setup.durability())?;
    let word = Word { answers: answers.clone(), ..Word::once(Decision::Allow, args.note.clone(), USER) };
    let ask = counted(&team, id, answer(&team, id, word).await?)?;
    let mut out = Out::default();
    if setup.shared.json {
        out.json(&json!({ "id": id, "team": team.name(), "agentId": ask.agent_id, "kind": ask.kind,
            "answers": answers, "note": args.note, "by": USER }))?;
        return Ok(None);
    }
    let agent = words::line(ask.agent_id.as_str());
    for answer in &answers {
        let (question, said) = (words::line(&answer.question), words::line(&answer.words()));
        out.line(format!("answered {id} of {agent}: {question} {said}"))?;
    }
    Ok(None)
}
