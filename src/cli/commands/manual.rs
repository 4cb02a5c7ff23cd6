//! `festoon completions SHELL` and `festoon man [COMMAND]`: made from the command line itself.

use crate::cli::args::Cli;
use crate::cli::error::CliError;
use crate::cli::out::Out;
use crate::wire::error::ExitKind;
use clap::CommandFactory;
use clap_complete::Shell;

/// The arguments of `completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionArgs {
    /// Which shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

/// The arguments of `man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// The page of this command, such as `team stop`.
    pub command: Vec<String>,
}

/// Prints a completion script.
pub fn completions(args: &CompletionArgs) -> Result<Option<ExitKind>, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "festoon", &mut script);
    Out::default().bytes(&script)?;
    Ok(None)
}

/// Prints a page in the language of `man`.
pub fn man(args: &ManArgs) -> Result<Option<ExitKind>, CliError> {
    let mut root = Cli::command();
    root.build();
    let mut command = root;
    for word in &args.command {
        let names: Vec<String> =
            command.get_subcommands().filter(|c| !c.is_hide_set()).map(|c| c.get_name().to_owned()).collect();
        let found = command.find_subcommand(word).filter(|c| !c.is_hide_set()).cloned();
        command = found.ok_or_else(|| {
            CliError::usage(format!("{word:?} is no command"), format!("one of {}", names.join(", ")))
        })?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Out::default().bytes(&page)?;
    Ok(None)
}
