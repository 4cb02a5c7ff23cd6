//! Where the person is: a terminal with a line editor, a terminal without one, or a pipe.
//!
//! Owns the terminal for the length of the session and gives it back whatever the way out.

use super::editor::{self, Input, Shared, goes_on};
use super::printer::{AboveTheLine, Plain, Printer};
use crate::cli::out;
use crate::os::terminal::Modes;
use crate::store::paths::Paths;
use std::io::{BufRead, IsTerminal, Write};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long the last lines may take to reach the terminal.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A person, with a line editor.
    Editor,
    /// A person at a terminal that cannot edit, or whose output goes elsewhere.
    Lines,
    /// A file or a program: lines are worked on in order, and nobody answers asks.
    Piped,
}

/// The two ways.
pub struct Console {
    /// What kind it is.
    pub kind: Kind,
    /// What was typed.
    pub input: mpsc::UnboundedReceiver<Input>,
    /// What is shown.
    pub printer: Printer,
    /// What the editor looks at.
    pub shared: Shared,
    modes: Option<Modes>,
}

impl Console {
    /// Takes the terminal, or the pipe.
    pub fn open(paths: &Paths) -> std::io::Result<Self> {
        let (typed, input) = mpsc::unbounded_channel();
        let shared = Shared::default();
        if !std::io::stdin().is_terminal() {
            read_lines(typed)?;
            let printer = Printer::start(Plain)?;
            return Ok(Self { kind: Kind::Piped, input, printer, shared, modes: None });
        }
        let modes = Modes::remember();
        match editor::start(paths, &shared, out::has_colors(), typed.clone()) {
            Ok(printer) => {
                let printer = Printer::start(AboveTheLine::new(printer, shared.live.clone()))?;
                Ok(Self { kind: Kind::Editor, input, printer, shared, modes })
            }
            Err(error) => {
                tracing::info!(%error, "no line editor on this terminal");
                read_lines(typed)?;
                let printer = Printer::start(Plain)?;
                Ok(Self { kind: Kind::Lines, input, printer, shared, modes: None })
            }
        }
    }

    /// Shows the last lines and gives the terminal back.
    pub async fn close(self) {
        // A terminal that is stopped or gone must not keep the program.
        let _ = tokio::time::timeout(LAST_LINES, self.printer.flush()).await;
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        if self.kind != Kind::Editor || self.shared.close() {
            return;
        }
        self.shared.live.ends();
        if let Some(modes) = &self.modes {
            // The editor is stuck: its modes are undone here.
            let _ = modes.restore();
            let mut stdout = std::io::stdout().lock();
            let _ = stdout.write_all(b"\r\x1b[J\x1b[?2004l").and_then(|()| stdout.flush());
        }
    }
}

/// Reads lines until the end of standard input, those that end in `\` joined with the next.
fn read_lines(typed: mpsc::UnboundedSender<Input>) -> std::io::Result<()> {
    std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut text = String::new();
        loop {
            let mut bytes = Vec::new();
            let last = match stdin.read_until(b'\n', &mut bytes) {
                Ok(count) => count == 0,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    let _ = typed.send(Input::Broken(error.to_string()));
                    return;
                }
            };
            let line = String::from_utf8_lossy(&bytes);
            let line = line.trim_end_matches(['\n', '\r']);
            if goes_on(line) && !last {
                text.push_str(&line[..line.len() - 1]);
                text.push('\n');
                continue;
            }
            text.push_str(line);
            let whole = std::mem::take(&mut text);
            if (!last || !whole.is_empty()) && typed.send(Input::Line(whole)).is_err() {
                return;
            }
            if last {
                let _ = typed.send(Input::End);
                return;
            }
        }
    })?;
    Ok(())
}
