//! `festoon agents`: which kinds of agents there are, where they stand, and what they resolve to.

mod effective;
mod page;

use crate::agent::definition_sources::{Discovery, Found, Source, discover};
use crate::agent::definitions::Kinds;
use crate::cli::args::Shared;
use crate::cli::error::CliError;
use crate::cli::mcp;
use crate::cli::out::Out;
use crate::cli::setup::Setup;
use crate::cli::words;
use crate::wire::error::ExitKind;
use clap::Subcommand;
use effective::Tier;
use serde_json::{Map, Value, json};

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What can be done with definitions.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Lists them by precedence; of equal names the first one counts.
    List,
    /// Shows one as it would run, with its system prompt.
    Show {
        /// Its name.
        name: String,
    },
    /// Checks the files; exit status 1 when one cannot be used.
    Check,
}

/// Runs it.
pub fn run(args: &Args, shared: Shared) -> Result<Option<ExitKind>, CliError> {
    let as_json = shared.json;
    let given = shared.agents.clone();
    let setup = Setup::new(shared)?;
    let extensions = mcp::extensions(&setup.cwd, &setup.loaded, &setup.environment);
    let discovery = discover(&setup.paths.user_agents(), &setup.cwd, given.as_deref());
    let discovery = discovery.with_extensions(&extensions);
    let all = everything(&discovery);
    let mut out = Out::default();
    match &args.verb {
        Verb::List => {
            let rows: Vec<Value> = all.iter().map(row).collect();
            if as_json {
                out.json(&rows)?;
            } else {
                let dim = anstyle::Style::new().dimmed();
                for found in &all {
                    let name = words::line(&found.definition.name);
                    let what = words::line(&found.definition.description);
                    out.line(format!("{name:<20} {dim}{:<12}{dim:#} {what}", found.source.as_str()))?;
                }
            }
            complain(&discovery);
            Ok(None)
        }
        Verb::Show { name } => {
            let Some(found) = all.iter().find(|f| &f.definition.name == name) else {
                let names: Vec<&str> = all.iter().map(|f| f.definition.name.as_str()).collect();
                return Err(CliError::usage(format!("there is no agent {name:?}"), names.join(", ")));
            };
            show(&mut out, &setup, found, as_json)?;
            Ok(None)
        }
        Verb::Check => {
            for line in discovery.errors.iter().chain(&discovery.warnings) {
                out.line(line)?;
            }
            if discovery.errors.is_empty() {
                out.line(format!("{} definitions can be used", all.len()))?;
                return Ok(None);
            }
            Ok(Some(ExitKind::Failed))
        }
    }
}

fn everything(discovery: &Discovery) -> Vec<Found> {
    let built_in = Kinds::new(Vec::new());
    let more = built_in.iter().map(|d| Found { definition: d.clone(), source: Source::BuiltIn, path: None });
    discovery.found.iter().cloned().chain(more).collect()
}

fn complain(discovery: &Discovery) {
    for line in discovery.errors.iter().chain(&discovery.warnings) {
        crate::cli::out::warning(line);
    }
}

/// A row of the listing (contract §15).
fn row(found: &Found) -> Value {
    let definition = &found.definition;
    let tools = effective::tools(definition, Tier::Subagent).unwrap_or_default();
    json!({
        "name": definition.name, "source": found.source.as_str(), "path": found.path,
        "description": definition.description, "tools": tools,
        "model": definition.model.as_deref().unwrap_or("inherit"), "permissionMode": definition.permission_mode,
    })
}

/// One with everything it says, what that comes to here, and its prompt last.
fn show(out: &mut Out, setup: &Setup, found: &Found, as_json: bool) -> Result<(), CliError> {
    let mut value = row(found);
    if let Some(value) = value.as_object_mut() {
        effective::add(value, setup, found)?;
    }
    if as_json {
        out.json(&value)?;
        return Ok(());
    }
    page::show(out, found, value.as_object().unwrap_or(&Map::new()))
}
