//! Standard input as a part of the prompt of a headless run.

use super::error::CliError;
use std::io::{IsTerminal, Read};
use std::sync::mpsc;
use std::time::Duration;

/// How long a silent pipe is listened to when there is a prompt without it (contract §16).
const SILENCE: Duration = Duration::from_secs(3);

/// What was piped in, and a warning when a pipe was left alone.
#[derive(Debug, Default)]
pub struct Piped {
    /// The text; empty when there was none.
    pub text: String,
    /// What a person should know.
    pub warning: Option<String>,
}

/// Reads standard input unless it is a terminal. With `optional`, a pipe that stays silent is left alone.
pub fn read(optional: bool) -> Result<Piped, CliError> {
    if std::io::stdin().is_terminal() {
        return Ok(Piped::default());
    }
    let (sender, pieces) = mpsc::channel();
    std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let piece = match stdin.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => Ok(buffer[..count].to_vec()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let failed = piece.is_err();
            if sender.send(piece).is_err() || failed {
                return;
            }
        }
    })?;
    let mut bytes = Vec::new();
    if optional {
        match pieces.recv_timeout(SILENCE) {
            Ok(piece) => bytes.extend(piece?),
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(Piped::default()),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let warning = format!(
                    "standard input is a pipe that stayed silent for {} s; it was left alone (redirect it from \
                     /dev/null to say so at once)",
                    SILENCE.as_secs()
                );
                return Ok(Piped { text: String::new(), warning: Some(warning) });
            }
        }
    }
    while let Ok(piece) = pieces.recv() {
        bytes.extend(piece?);
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| CliError::usage("standard input is not UTF-8 text", "convert it first"))?;
    Ok(Piped { text, warning: None })
}
