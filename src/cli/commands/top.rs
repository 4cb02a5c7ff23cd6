//! `festoon top`: a live dashboard of all teams; one picture of it where nothing can be drawn.

use crate::cli::args::Shared;
use crate::cli::error::CliError;
use crate::cli::out::Out;
use crate::cli::signals::{self, Signalled};
use crate::cli::table;
use crate::cli::teams::Desk;
use crate::cli::teams::kept::Kept;
use crate::cli::top::frame::Page;
use crate::cli::top::live;
use crate::cli::top::seen::Seen;
use crate::wire::error::ExitKind;
use std::io::IsTerminal;

/// Runs it.
pub async fn run(shared: &Shared) -> Result<Option<ExitKind>, CliError> {
    let desk = Desk::new()?;
    let mut out = Out::default();
    if shared.json {
        out.json(&Seen::look(&desk.paths, &Kept::default())?.json())?;
        return Ok(None);
    }
    let dumb = desk.environment.get("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    if dumb || !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        for line in Page::new(&Seen::look(&desk.paths, &Kept::default())?, table::columns()).whole() {
            out.line(line)?;
        }
        return Ok(None);
    }
    let mut signals = signals::listen()?;
    let (chosen, signalled) = live::run(&desk.paths, &mut signals).await?;
    if let Some(chosen) = chosen {
        let id = chosen.agent.as_str();
        // Members are named with their team, others by an id that nobody else has.
        out.line(format!("festoon attach {id}"))?;
    }
    Ok(matches!(signalled, Some(Signalled::End)).then_some(ExitKind::Interrupted))
}
