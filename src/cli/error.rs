//! Errors at the edge: every layer's error becomes kind, message, hint and an exit status, once, here.

use super::out;
use super::text;
use crate::agent::build::BuildError;
use crate::model::provider::{ModelError, ModelErrorKind};
use crate::store::error::StoreError;
use crate::wire::error::{ErrorReport, ExitKind};
use serde_json::json;

/// An error that ends the program.
#[derive(Debug)]
pub struct CliError {
    /// The exit status.
    pub exit: ExitKind,
    /// What is shown.
    pub report: ErrorReport,
}

impl CliError {
    /// From its parts.
    pub fn new(exit: ExitKind, kind: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            exit,
            report: ErrorReport { kind: kind.to_owned(), message: message.into(), hint: hint.into() },
        }
    }

    /// Wrong use: exit status 2.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(ExitKind::Usage, "usage", message, hint)
    }

    /// The same, about something: `standard output: no space left`.
    pub fn about(mut self, what: &str) -> Self {
        self.report.message = format!("{what}: {}", self.report.message);
        self
    }

    /// Prints it to standard error: a sentence and a hint, or an object.
    pub fn show(&self, as_json: bool) {
        if as_json {
            out::error(json!({ "error": self.report }));
            return;
        }
        let bold = anstyle::Style::new().bold().fg_color(Some(anstyle::AnsiColor::Red.into()));
        out::error(format_args!("{bold}error:{bold:#} {}", text::sentence(&self.report.message)));
        if !self.report.hint.is_empty() {
            let dim = anstyle::Style::new().dimmed();
            out::error(format_args!("{dim} hint:{dim:#} {}", text::sentence(&self.report.hint)));
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        Self { exit: ExitKind::Failed, report: error.report() }
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        Self::new(ExitKind::Failed, "io", error.to_string(), "")
    }
}

impl From<BuildError> for CliError {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Store(error) => error.into(),
            BuildError::NoTools { .. } => {
                Self::usage(error.to_string(), "mend the tool list of the definition")
            }
        }
    }
}

impl From<&ModelError> for CliError {
    fn from(error: &ModelError) -> Self {
        let (exit, kind, hint) = match error.kind {
            ModelErrorKind::Credentials => (
                ExitKind::NoModel,
                "credentials",
                "check the key and the address, or try `festoon demo`, which needs neither",
            ),
            ModelErrorKind::Refused => {
                (ExitKind::Failed, "refused", "the provider's words say what it did not like")
            }
            ModelErrorKind::ContextExceeded => (
                ExitKind::Failed,
                "context_exceeded",
                "say it in fewer words or in parts; /rewind takes the last message back, /compact shortens the rest",
            ),
            ModelErrorKind::RateLimited => {
                (ExitKind::Failed, "rate_limited", "wait a little, or use another model")
            }
            ModelErrorKind::Unavailable => {
                (ExitKind::Failed, "unavailable", "the provider is overloaded or broken; try again later")
            }
            ModelErrorKind::Connection => {
                (ExitKind::Failed, "connection", "check the network, the address and the proxy")
            }
            ModelErrorKind::Protocol => (
                ExitKind::Failed,
                "protocol",
                "the server does not speak the expected wire format; check the address",
            ),
            ModelErrorKind::Script => {
                (ExitKind::Failed, "script", "docs/formats/script.md describes the format")
            }
        };
        Self::new(exit, kind, error.to_string(), hint)
    }
}

impl From<ModelError> for CliError {
    fn from(error: ModelError) -> Self {
        Self::from(&error)
    }
}
