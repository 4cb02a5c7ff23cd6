//! The program's own log: a file below the state root, never the screen.
//!
//! `FESTOON_LOG` is a filter (`debug`, `festoon::team=trace` …); without it warnings are kept. The
//! file is made when the first line comes, so that a run without trouble leaves none.

use super::error::CliError;
use crate::store::clock;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Mutex;
use tracing_subscriber::EnvFilter;

/// A file that is opened for the first line.
struct Lazy {
    path: PathBuf,
    file: Option<File>,
}

impl Write for Lazy {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
                none.insert(opened)
            }
        };
        file.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), File::flush)
    }
}

/// Starts the log in `dir`, which must exist by the time of the first line. A second start in one
/// process changes nothing.
pub fn start(dir: &std::path::Path, filter: Option<&str>) -> Result<(), CliError> {
    let text = filter.unwrap_or("warn");
    let filter = EnvFilter::try_new(text).map_err(|e| {
        CliError::usage(
            format!("FESTOON_LOG={text:?} is no filter: {e}"),
            "for example FESTOON_LOG=festoon=debug",
        )
    })?;
    let day = clock::now().as_str().chars().take(10).collect::<String>();
    let path = dir.join(format!("{day}-{}.log", std::process::id()));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        // A line that cannot be written is lost; standard error belongs to the person.
        .log_internal_errors(false)
        .with_writer(Mutex::new(Lazy { path, file: None }))
        .finish();
    // Only a second start fails.
    let _ = tracing::subscriber::set_global_default(log);
    Ok(())
}
