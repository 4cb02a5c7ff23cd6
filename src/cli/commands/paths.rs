//! `festoon paths`: where everything is, whether or not it is there yet.

use crate::cli::args::Shared;
use crate::cli::error::CliError;
use crate::cli::out::Out;
use crate::cli::teams::Desk;
use crate::cli::words;
use crate::wire::error::ExitKind;
use serde_json::{Map, Value};

/// Runs it.
pub fn run(shared: &Shared) -> Result<Option<ExitKind>, CliError> {
    let desk = Desk::new()?;
    let cwd = std::env::current_dir().and_then(|dir| dir.canonicalize())?;
    let all = desk.paths.all(&cwd);
    let mut out = Out::default();
    if shared.json {
        let object: Map<String, Value> =
            all.iter().map(|(name, path)| ((*name).to_owned(), path.display().to_string().into())).collect();
        out.json(&object)?;
        return Ok(None);
    }
    let dim = anstyle::Style::new().dimmed();
    for (name, path) in all {
        out.line(format!("{dim}{name:<10}{dim:#} {}", words::line(&path.display().to_string())))?;
    }
    Ok(None)
}
