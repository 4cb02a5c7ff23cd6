//! L6: the face: arguments, commands, what is printed, and the composition root.
//!
//! The only layer that prints, reads the environment, or wires the others together.

pub mod args;
pub mod ask_answer;
pub mod ask_dialog;
pub mod ask_group;
pub mod attach;
pub mod backends;
mod background;
pub mod blueprint;
pub mod cleanup;
pub mod clear;
pub mod commands;
pub mod compose;
mod ending;
pub mod environment;
pub mod error;
pub mod feed;
pub mod forks;
pub mod headless;
pub mod input;
mod insist;
pub mod kinds;
pub mod logging;
pub mod mcp;
pub mod numbers;
pub mod out;
pub mod output;
mod refused;
pub mod repl;
pub mod screen;
pub mod sessions;
pub mod settings;
pub mod setup;
pub mod signals;
pub mod spent;
pub mod status;
pub mod stdin;
pub mod table;
pub mod teams;
pub mod text;
mod todos;
pub mod top;
pub mod trust;
mod unquoted;
pub mod view;
pub mod words;
mod worktree;
pub mod wrap;

use args::{Cli, OutputFormat};
use clap::Parser;
use commands::Command;
use error::CliError;
use out::Out;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

/// The whole program behind the guard: parses, runs, shows the error, returns the status.
pub fn run() -> ExitCode {
    let parsed = Cli::try_parse();
    if let Err(error) = unquoted::refuse(&parsed) {
        error.show(wants_json(std::env::args_os()));
        return ExitCode::from(error.exit.code());
    }
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let as_json = cli.shared.json || (cli.print.is_some() && cli.output_format != OutputFormat::Text);
    let ended = execute(cli);
    if let Err(error) = &ended {
        error.show(as_json);
    }
    let status = ended.unwrap_or_else(|error| error.exit.code());
    let lost = out::lost();
    if let Some(error) = &lost {
        error.show(as_json);
    }
    ExitCode::from(if status == 0 { lost.map_or(0, |error| error.exit.code()) } else { status })
}

/// Wrong arguments, help and version.
fn refuse(error: &clap::Error) -> ExitCode {
    let wants_json = wants_json(std::env::args_os());
    let refused = if !error.use_stderr() {
        match Out::default().write(&error.render().ansi().to_string()) {
            Ok(()) => return ExitCode::SUCCESS,
            Err(error) => error,
        }
    } else if let Some(odd) = not_text(error) {
        CliError::usage(format!("the argument {odd:?} is not UTF-8 text"), "festoon --help")
    } else if wants_json {
        let text = error.to_string();
        // What is wrong, with the arguments it names below; the usage comes behind an empty line.
        let wrong: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
        let message = wrong.join(" ").trim_start_matches("error: ").to_owned();
        CliError::usage(message, "festoon --help")
    } else {
        // Nowhere to print to means nothing to print.
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    };
    refused.show(wants_json);
    ExitCode::from(refused.exit.code())
}

/// Whether the arguments, which cannot be parsed, ask for errors as JSON.
fn wants_json(arguments: impl Iterator<Item = OsString>) -> bool {
    let words: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
    let is_json = |format: &str| matches!(format, "json" | "stream-json");
    words.iter().zip(words.iter().skip(1)).any(|(flag, value)| flag == "--output-format" && is_json(value))
        || words
            .iter()
            .any(|word| word == "--json" || word.strip_prefix("--output-format=").is_some_and(is_json))
}

/// The argument that is no text, when that is what is wrong.
fn not_text(error: &clap::Error) -> Option<OsString> {
    let is_it = error.kind() == clap::error::ErrorKind::InvalidUtf8;
    std::env::args_os().skip(1).find(|word| is_it && word.to_str().is_none())
}

fn execute(cli: Cli) -> Result<u8, CliError> {
    if let Some(Command::Teammate(args)) = &cli.command {
        commands::teammate::start_over(args)?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome = runtime.block_on(dispatch(cli));
    // Whatever still runs in the background has been told to end; nothing waits for it.
    runtime.shutdown_background();
    Ok(outcome?.map_or(0, |exit| exit.code()))
}

async fn dispatch(cli: Cli) -> Result<Option<crate::wire::error::ExitKind>, CliError> {
    if let Some(command) = cli.command {
        return command.run(cli.shared).await;
    }
    if let Some(first) = cli.print {
        // Words that were not put in quotes are one prompt here, too.
        let words: Vec<String> = std::iter::once(first).chain(cli.prompt).filter(|w| !w.is_empty()).collect();
        let prompt = words.join(" ");
        let setup = setup::Setup::for_agents(cli.shared)?;
        let resume = sessions::chosen(&setup, cli.go_on, cli.resume.as_deref())?;
        let formats = (cli.input_format, cli.output_format);
        let (setup, own) = worktree::enter(setup).await?;
        let ended = headless::run(&setup, &prompt, formats, resume.as_ref()).await;
        return worktree::left(own, ended).await;
    }
    unquoted::suggest(&cli.prompt)?;
    let prompt = (!cli.prompt.is_empty()).then(|| cli.prompt.join(" "));
    if prompt.is_some() && !std::io::stdin().is_terminal() {
        return Err(CliError::usage(
            "a prompt begins a session at a terminal, and standard input is none",
            "festoon -p 'TEXT' answers and exits; lines from a pipe need no prompt",
        ));
    }
    let setup = setup::Setup::for_agents(cli.shared)?;
    let resume = sessions::chosen(&setup, cli.go_on, cli.resume.as_deref())?;
    let (setup, own) = worktree::enter(setup).await?;
    let ended = repl::run(&setup, prompt, resume).await;
    worktree::left(own, ended).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
