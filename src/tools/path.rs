//! Paths of tool inputs: made absolute without a look at the disk, refused where closed, shown short.

use super::context::{ToolContext, shows_process};
use super::tool::ToolOutput;
use crate::os::error::OsError;
use crate::os::file::normalize;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Similarity (0 to 1) from which a name is worth suggesting.
const SIMILAR: f64 = 0.85;
/// Entries of a directory that are looked at for a suggestion.
const MAX_ENTRIES: usize = 10_000;

/// What an input names, absolute. `access` and `run` of a tool both use it, so that what was judged is
/// what is touched.
pub(super) fn absolute(text: &str, cwd: &Path) -> PathBuf {
    normalize(&cwd.join(text))
}

/// The path in a field of an input; the directory itself where there is none.
pub(super) fn field(input: &Value, name: &str, cwd: &Path) -> PathBuf {
    absolute(input.get(name).and_then(Value::as_str).unwrap_or_default(), cwd)
}

/// Relative to `cwd` where it is below.
pub(super) fn shown(path: &Path, cwd: &Path) -> String {
    let short = path.strip_prefix(cwd).ok().filter(|short| !short.as_os_str().is_empty());
    short.unwrap_or(path).display().to_string()
}

/// Refuses a path (real, without links) in a closed directory.
pub(super) fn refuse_closed(ctx: &ToolContext, real: &Path) -> Result<(), ToolOutput> {
    match ctx.closed_by(real) {
        None => Ok(()),
        Some(_) if shows_process(real) => Err(ToolOutput::error(format!(
            "{} shows the memory or the environment of a process, where keys are, and is closed to tools. Nothing was \
             read.",
            real.display()
        ))),
        Some(closed) => Err(ToolOutput::error(format!(
            "{} lies in {}, which holds this program's own state and is closed to tools. Nothing was touched; do not \
             try to reach it in another way.",
            real.display(),
            closed.display()
        ))),
    }
}

/// Refuses a path (real, without links) that is not one of those the call was judged by: a link on the way
/// was changed in between.
pub(super) fn refuse_other(ctx: &ToolContext, real: &Path) -> Result<(), ToolOutput> {
    if ctx.approved.iter().any(|approved| approved == real) {
        return Ok(());
    }
    Err(ToolOutput::error(format!(
        "{} was not what this call was allowed for: something on the way to it was moved or replaced by a link at this \
         moment. Nothing was touched; make the call again.",
        real.display()
    )))
}

/// A failure to open a file, with the nearest name when there is none.
pub(super) fn open_failed(ctx: &ToolContext, path: &Path, error: &OsError) -> ToolOutput {
    if !error.is_not_found() {
        return ToolOutput::error(format!("Nothing was done: {error}."));
    }
    let hint = nearest(ctx, path).map_or_else(
        || format!(" The agent's directory is {}.", ctx.cwd.display()),
        |near| format!(" Did you mean {}?", near.display()),
    );
    ToolOutput::error(format!("There is no file {}.{hint}", path.display()))
}

/// The most similar name in the same directory.
fn nearest(ctx: &ToolContext, path: &Path) -> Option<PathBuf> {
    let wanted = path.file_name()?.to_str()?.to_lowercase();
    let dir = fs::canonicalize(path.parent()?).ok().filter(|dir| ctx.closed_by(dir).is_none())?;
    let mut best: Option<(f64, String)> = None;
    for entry in fs::read_dir(&dir).ok()?.take(MAX_ENTRIES).filter_map(Result::ok) {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let score = strsim::jaro_winkler(&name.to_lowercase(), &wanted);
        if score >= SIMILAR && best.as_ref().is_none_or(|(high, _)| score > *high) {
            best = Some((score, name));
        }
    }
    best.map(|(_, name)| path.with_file_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_absolute_and_shown_short() {
        let cwd = Path::new("/home/a");
        assert_eq!(absolute("b/../c", cwd), Path::new("/home/a/c"));
        assert_eq!(absolute("/x/./y", cwd), Path::new("/x/y"));
        assert_eq!(absolute("", cwd), Path::new("/home/a"));
        assert_eq!(absolute("../../../..", cwd), Path::new("/"));
        assert_eq!(shown(Path::new("/home/a/c"), cwd), "c");
        assert_eq!(shown(Path::new("/home/b"), cwd), "/home/b");
        assert_eq!(shown(cwd, cwd), "/home/a");
    }
}
