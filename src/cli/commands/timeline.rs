//! `festoon timeline TEAM -o FILE`: one page that shows who did and said what, when.
//!
//! The page stands alone: a picture drawn from the team's event log, a row for each agent, and below it
//! every event in words. It loads nothing and runs nothing.

mod page;
mod story;

use crate::cli::args::Shared;
use crate::cli::error::CliError;
use crate::cli::out::Out;
use crate::cli::teams::{self, Desk};
use crate::store::events;
use crate::wire::error::ExitKind;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use story::Story;

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The team; without it, the one that runs.
    pub team: Option<String>,
    /// The file to write; `-` prints the page.
    #[arg(long, short, value_name = "FILE", default_value = "timeline.html")]
    pub output: PathBuf,
}

/// Runs it.
pub fn run(args: &Args, shared: &Shared) -> Result<Option<ExitKind>, CliError> {
    let desk = Desk::new()?;
    let view = teams::choose(&desk.paths, args.team.as_deref())?;
    let all: Vec<_> = events::read(&view.paths)?.collect();
    let (count, story) = (all.len(), Story::of(all));
    let page = page::render(view.display(), &story);
    let mut out = Out::default();
    if args.output.as_os_str() == "-" {
        out.write(&page)?;
        return Ok(None);
    }
    let failed = |e: std::io::Error| {
        let what = format!("cannot write {}: {e}", args.output.display());
        CliError::new(ExitKind::Failed, "io", what, "name another file with -o, or print it with -o -")
    };
    let mut file = std::fs::File::create(&args.output).map_err(failed)?;
    file.write_all(page.as_bytes()).map_err(failed)?;
    if shared.json {
        out.json(&json!({ "team": view.name(), "events": count, "file": args.output }))?;
    } else {
        out.line(format!("{count} events of {} are drawn in {}", view.name(), args.output.display()))?;
    }
    Ok(None)
}
