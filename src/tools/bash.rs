//! `Bash`: a shell command below a guard of its own, streamed, with a timeout.
//!
//! Promises that a command that timed out or was cancelled is gone with everything it started before
//! the result is given, and that what a finished one left running lives until the agent ends.

use super::background_shell::BackgroundShell;
use super::context::ToolContext;
use super::spool::Spool;
use super::tool::{BoxFuture, Concurrency, Tool, ToolCall, ToolOutput, ToolSpec};
use super::{shells, work};
use crate::os::command::{self, CommandEvent, CommandSpec, Exit, RunningCommand};
use crate::wire::access::{Access, Target};
use crate::wire::limits::{BASH_TIMEOUT, BASH_TIMEOUT_MAX};
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::time::Instant;

/// Pause between two reports of progress.
const PROGRESS_PAUSE: Duration = Duration::from_millis(200);
/// Characters of a command in a summary.
const SUMMARY_CHARS: usize = 200;
/// Looked for in this order, by name in the command's `PATH`, then here.
const SHELLS: [&str; 3] = ["bash", "/bin/bash", "/bin/sh"];

static SPEC: LazyLock<ToolSpec> = LazyLock::new(|| {
    ToolSpec {
    name: "Bash".to_owned(),
    description: format!(
        "Runs a command with bash in your directory and returns what it wrote (standard output and error together). \
         With run_in_background you go on at once, its output goes to a file, and you are told when it has ended. \
         Each call is a new shell: a `cd` or variable does not last; use absolute paths or `cd dir && …`. There is no \
         terminal and no input, so pass flags that avoid questions. `timeout` is in milliseconds, default {}, at most \
         {}; when it is over, the command is ended. A process left running with `&` lives until you end, and its later \
         output is lost unless you redirect it to a file. To read, search or change files use Read, Grep, Glob, Edit \
         and Write instead of cat, grep, find and sed. Quote paths with spaces.",
        BASH_TIMEOUT.as_millis(),
        BASH_TIMEOUT_MAX.as_millis()
    ),
    schema: r#"{"type":"object","properties":{"command":{"type":"string","minLength":1,"description":"The command."},"timeout":{"type":"integer","minimum":1,"description":"Milliseconds."},"description":{"type":"string","description":"What it does, in five to ten words, for the person who watches."},"run_in_background":{"type":"boolean","description":"True for what takes long or never ends: servers, builds. It then has no timeout unless you give one."}},"required":["command"],"additionalProperties":false}"#.into(),
}
});

/// The tool.
#[derive(Debug, Default, Clone, Copy)]
pub struct Bash;

#[derive(Deserialize)]
struct Input {
    command: String,
    timeout: Option<u64>,
    description: Option<String>,
    #[serde(default)]
    run_in_background: bool,
}

impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &SPEC
    }

    fn access(&self, input: &Value, _: &Path) -> Access {
        let text = |name| input.get(name).and_then(Value::as_str).unwrap_or_default();
        let command = text("command");
        let mut lines = command.lines();
        let mut summary: String = lines.next().unwrap_or_default().chars().take(SUMMARY_CHARS).collect();
        if summary.len() < command.trim_end().len() {
            summary.push_str(" …");
        }
        if !text("description").is_empty() {
            summary = format!("{summary} — {}", text("description"));
        }
        Access { tool: SPEC.name.clone(), target: Target::Command(command.to_owned()), summary }
    }

    fn concurrency(&self, _: &Value) -> Concurrency {
        Concurrency::Exclusive
    }

    fn run<'a>(&'a self, call: ToolCall, ctx: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        work::run(async move {
            let input: Input = work::input(&SPEC, call)?;
            if input.command.contains('\0') {
                return Err(ToolOutput::error("A command cannot hold a NUL character."));
            }
            if input.run_in_background
                && let Some(why) = ctx.background.refusal()
            {
                return Err(ToolOutput::error(format!(
                    "Nothing was run: {why}. Leave run_in_background out."
                )));
            }
            let running = start(&input.command, ctx).await;
            let running = running.map_err(|error| ToolOutput::error(format!("{error}. Nothing was run.")))?;
            if input.run_in_background {
                return Ok(leave(running, input, ctx).await);
            }
            Ok(watch(running, timeout(&input), ctx).await)
        })
    }
}

/// Lets it go on beside the agent.
async fn leave(running: RunningCommand, input: Input, ctx: &ToolContext) -> ToolOutput {
    let first = || input.command.lines().next().unwrap_or_default().chars().take(SUMMARY_CHARS).collect();
    let shell = BackgroundShell {
        mask: ctx.mask.clone(),
        running,
        description: input.description.clone().unwrap_or_else(first),
        timeout: input.timeout.map(Duration::from_millis),
        shells: Arc::clone(&ctx.shells),
    };
    match ctx.background.adopt(shell).await {
        Ok(text) => ToolOutput::ok(text),
        Err(why) => ToolOutput::error(format!("The command was started and ended again: {why}.")),
    }
}

fn timeout(input: &Input) -> Duration {
    input.timeout.map_or(BASH_TIMEOUT, Duration::from_millis).min(BASH_TIMEOUT_MAX)
}

async fn start(text: &str, ctx: &ToolContext) -> Result<RunningCommand, crate::os::error::OsError> {
    let mut result = None;
    for shell in SHELLS {
        let mut spec = CommandSpec::new([shell, "-c", text], &ctx.cwd, (*ctx.environment).clone());
        spec.guard = ctx.shells.guard().to_owned();
        match command::start(spec).await {
            Ok(running) => return Ok(running),
            // The first error is of the shell that should be there.
            Err(error) => result = result.or(Some(error)),
        }
    }
    Err(result.unwrap_or_else(|| crate::os::error::OsError::Start {
        program: "a shell".to_owned(),
        why: "there is none".to_owned(),
    }))
}

/// Why a command was ended by us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    TimedOut,
    Cancelled,
}

async fn watch(mut running: RunningCommand, timeout: Duration, ctx: &ToolContext) -> ToolOutput {
    let mut spool = Spool::new(ctx.output_dir.clone(), ctx.tool_use_id.clone());
    let mut mask = ctx.mask.stream();
    let until = Instant::now() + timeout;
    let mut progress_at = Instant::now();
    let mut cut = None;
    let exit = loop {
        let event = tokio::select! {
            event = running.event() => event,
            () = ctx.cancel.cancelled(), if cut.is_none() => {
                cut = Some(Cut::Cancelled);
                running.end(shells::GRACE);
                continue;
            }
            () = tokio::time::sleep_until(until), if cut.is_none() => {
                cut = Some(Cut::TimedOut);
                running.end(shells::GRACE);
                continue;
            }
        };
        match event {
            CommandEvent::Output(data) | CommandEvent::Stderr(data) => spool.push(&mask.push(&data)),
            CommandEvent::Exited { exit, left } if cut.is_none() => break Some((exit, left)),
            CommandEvent::Exited { .. } => {}
            CommandEvent::Gone => break None,
        }
        if Instant::now() >= progress_at {
            ctx.progress.progress(&spool.last_line());
            progress_at = Instant::now() + PROGRESS_PAUSE;
        }
    };
    spool.push(&mask.finish());
    let output = spool.finish();
    match (exit, cut) {
        (Some((exit, left)), _) => {
            if left {
                ctx.shells.keep(running);
            }
            finished(exit, left, output)
        }
        (None, Some(Cut::Cancelled)) => ToolOutput::error(format!(
            "Cancelled: the command and everything it had started were ended.\n{output}"
        )),
        (None, Some(Cut::TimedOut) | None) => ToolOutput::error(format!(
            "Timed out after {} ms: the command and everything it had started were ended.\n{output}",
            timeout.as_millis()
        )),
    }
}

fn finished(exit: Exit, left: bool, output: String) -> ToolOutput {
    let mut text = output;
    if left {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str("[the command left processes running; they live until you end]");
    }
    if exit.is_success() {
        return ToolOutput::ok(text);
    }
    let exit = match exit {
        Exit::Code(code) => format!("Exit status {code}"),
        Exit::Signal(_) | Exit::Lost => format!("The command was {exit}"),
    };
    ToolOutput::error(if text.is_empty() { exit } else { format!("{exit}\n{text}") })
}
