//! The line editor: a thread of its own that reads lines and never does anything else.
//!
//! It asks for the next line at once, so that the prompt is always there and whatever is printed
//! appears above it. What is read goes to the session's loop through a channel.

use super::printer::Live;
use super::slash;
use crate::cli::text::{DEFAULT_COLUMNS, width};
use crate::os::process::{self, Signal};
use crate::os::terminal;
use crate::store::history;
use crate::store::paths::Paths;
use rustyline::completion::Completer;
use rustyline::config::{BellStyle, Config};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{
    Cmd, ColorMode, CompletionType, ConditionalEventHandler, Context, Editor, Event, EventContext,
    EventHandler, Helper, KeyCode, KeyEvent, Modifiers, RepeatCount,
};
use std::borrow::Cow;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// The prompt, without colour.
const PROMPT: &str = "> ";
/// Entries of the history that can be reached.
const HISTORY: usize = 1000;
/// How long an escape key waits for the rest of a key sequence, in milliseconds.
const ESCAPE_WAIT: u16 = 100;

/// How often and how long the editor is asked to end.
const CLOSE_TRIES: u32 = 20;
const CLOSE_PAUSE: Duration = Duration::from_millis(50);

/// What the person did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A complete line, or several joined by a `\` at the end.
    Line(String),
    /// Ctrl-C; whether it took away a line that was begun.
    Interrupt {
        /// There was something in the line.
        typed: bool,
    },
    /// Esc.
    Escape,
    /// Shift+Tab.
    NextMode,
    /// Ctrl-D, or the end of standard input.
    End,
    /// The terminal is gone or cannot be read.
    Broken(String),
}

/// What the editor's thread and the session's loop both look at.
#[derive(Clone, Default)]
pub struct Shared {
    /// Whether a line is being edited.
    pub live: Live,
    /// Whether the agent works: Ctrl-C then means the agent, and the line begun stays.
    pub working: Arc<AtomicBool>,
    /// Names that `@` completes.
    pub names: Arc<Mutex<Vec<String>>>,
    line: Arc<Mutex<String>>,
    closing: Arc<AtomicBool>,
}

impl Shared {
    /// Ends the editor's thread, which gives the terminal back and wipes its prompt; false when it does
    /// not answer.
    pub fn close(&self) -> bool {
        self.closing.store(true, Ordering::Release);
        let Ok(me) = process::current() else { return false };
        // The editor reads the terminal and nothing else ends that; while it does, it has a handler for
        // this signal. Between two lines it has none, and the signal is sent again.
        (0..CLOSE_TRIES).any(|_| {
            // An error shows in the wait.
            let _ = process::signal(&me, Signal::Interrupt);
            self.live.has_ended(CLOSE_PAUSE)
        })
    }

    /// What stands in the line now.
    pub fn typed(&self) -> String {
        self.line().clone()
    }

    fn line(&self) -> MutexGuard<'_, String> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Completes, joins lines, and keeps an eye on what is typed.
struct Assistant(Shared);

impl Helper for Assistant {}

impl Completer for Assistant {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = &line[..pos];
        if typed.contains(char::is_whitespace) {
            return Ok((pos, Vec::new()));
        }
        if let Some(name) = typed.strip_prefix('@') {
            let names = self.0.names.lock().unwrap_or_else(PoisonError::into_inner);
            let fit = names.iter().filter(|n| n.starts_with(name)).map(|n| format!("@{n} "));
            return Ok((0, fit.collect()));
        }
        let fit = slash::names().filter(|n| typed.starts_with('/') && n.starts_with(typed));
        Ok((0, fit.map(|n| (*n).to_owned()).collect()))
    }
}

impl Hinter for Assistant {
    type Hint = String;

    /// Gives no hints, but is called whenever the line is drawn.
    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        line.clone_into(&mut self.0.line());
        self.0.live.begins();
        None
    }
}

impl Highlighter for Assistant {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        Cow::Owned(format!("\x1b[1;36m{prompt}\x1b[0m"))
    }
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if goes_on(context.input()) {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

/// Whether a text ends in a backslash that is not itself escaped.
pub fn goes_on(text: &str) -> bool {
    text.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1
}

/// The text without the backslashes that joined its lines.
pub fn joined(text: &str) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    let last = lines.len() - 1;
    let mut out = String::with_capacity(text.len());
    for (i, line) in lines.iter().enumerate() {
        if i == last {
            out.push_str(line);
        } else if goes_on(line) {
            out.push_str(&line[..line.len() - 1]);
            out.push('\n');
        } else {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// A key that says something at once, and leaves the line as it is.
struct OnKey(mpsc::UnboundedSender<Input>, Input);

impl ConditionalEventHandler for OnKey {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, _: &EventContext) -> Option<Cmd> {
        let _ = self.0.send(self.1.clone());
        Some(Cmd::Noop)
    }
}

type LineEditor = Editor<Assistant, DefaultHistory>;

/// Starts the thread. An error means that there is no terminal to edit on.
pub fn start(
    paths: &Paths,
    shared: &Shared,
    colors: bool,
    out: mpsc::UnboundedSender<Input>,
) -> rustyline::Result<impl rustyline::ExternalPrinter + Send + use<>> {
    let config = Config::builder()
        .max_history_size(HISTORY)?
        .history_ignore_dups(true)?
        .completion_type(CompletionType::List)
        .keyseq_timeout(Some(ESCAPE_WAIT))
        .bell_style(BellStyle::None)
        .color_mode(if colors { ColorMode::Enabled } else { ColorMode::Disabled })
        .build();
    let mut editor: LineEditor = Editor::with_config(config)?;
    let printer = editor.create_external_printer()?;
    editor.set_helper(Some(Assistant(shared.clone())));
    for (key, input) in [(KeyCode::Esc, Input::Escape), (KeyCode::BackTab, Input::NextMode)] {
        editor.bind_sequence(
            KeyEvent(key, Modifiers::NONE),
            EventHandler::Conditional(Box::new(OnKey(out.clone(), input))),
        );
    }
    // A history that cannot be read is as good as none.
    for entry in history::load(paths).unwrap_or_default() {
        editor.add_history_entry(entry)?;
    }
    let (paths, shared) = (paths.clone(), shared.clone());
    std::thread::Builder::new().name("editor".to_owned()).spawn(move || {
        read(&mut editor, &paths, &shared, &out);
        shared.live.ends();
    })?;
    Ok(printer)
}

fn read(editor: &mut LineEditor, paths: &Paths, shared: &Shared, out: &mpsc::UnboundedSender<Input>) {
    let mut draft = String::new();
    while !shared.closing.load(Ordering::Acquire) {
        let begun = std::mem::take(&mut draft);
        let read = editor.readline_with_initial(PROMPT, (&begun, ""));
        shared.live.pauses();
        let typed = std::mem::take(&mut *shared.line());
        if shared.closing.load(Ordering::Acquire) {
            wipe(&typed);
            return;
        }
        let input = match read {
            Ok(line) => {
                remember(editor, paths, &line);
                Input::Line(joined(&line))
            }
            Err(ReadlineError::Interrupted) => {
                if shared.working.load(Ordering::Acquire) {
                    draft.clone_from(&typed);
                }
                Input::Interrupt { typed: !typed.is_empty() }
            }
            Err(ReadlineError::Eof) => Input::End,
            Err(error) => {
                let _ = out.send(Input::Broken(error.to_string()));
                return;
            }
        };
        if out.send(input).is_err() {
            return;
        }
    }
}

/// Takes away the prompt with what was typed, above the cursor by now.
fn wipe(typed: &str) {
    let columns = terminal::size().map_or(DEFAULT_COLUMNS, |size| size.columns);
    let rows: usize = format!("{PROMPT}{typed}").split('\n').map(|l| width(l) / columns + 1).sum();
    let mut stdout = std::io::stdout().lock();
    // A terminal that is gone shows nothing.
    let _ = write!(stdout, "\x1b[{rows}A\r\x1b[J").and_then(|()| stdout.flush());
}

fn remember(editor: &mut LineEditor, paths: &Paths, line: &str) {
    // As shells do it: what begins with a space is not for the history. Answers of one letter neither.
    if line.trim().chars().count() < 2 || line.starts_with(' ') {
        return;
    }
    let is_new = editor.add_history_entry(line).unwrap_or(false);
    if is_new && let Err(error) = history::append(paths, line) {
        tracing::warn!(%error, "a line could not be added to the history");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backslash_at_the_end_joins_lines() {
        assert!(goes_on("a \\") && !goes_on("a \\\\") && !goes_on("a"));
        assert_eq!(joined("one\\\ntwo\\\\\nthree"), "one\ntwo\\\\\nthree");
        assert_eq!(joined("pasted\ntext"), "pasted\ntext");
    }

    #[test]
    fn commands_and_names_are_completed_at_the_start_of_a_line() {
        let shared = Shared::default();
        shared.names.lock().expect("lock").extend(["anna".to_owned(), "bob".to_owned()]);
        let assistant = Assistant(shared);
        let history = DefaultHistory::new();
        let complete =
            |line: &str| assistant.complete(line, line.len(), &Context::new(&history)).expect("completes").1;
        assert_eq!(complete("/te"), ["/team"]);
        assert_eq!(complete("@a"), ["@anna "]);
        assert_eq!(complete("see /te"), Vec::<String>::new());
        assert_eq!(complete(""), Vec::<String>::new());
    }
}
