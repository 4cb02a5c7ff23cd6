//! Prompts that were not put in quotes: which words among them are commands.
//!
//! Promises that a prompt is never dropped because one of its words is the name of a command, and that no
//! prompt of several words is refused for beginning like one, unless it is a command's whole line.

use super::args::Cli;
use super::error::CliError;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory, Parser};
use std::ffi::OsString;

/// Letters of a name that counts before other words: people begin sentences with words near to shorter ones.
const LONG_NAME: usize = 5;

/// Refuses a command behind words of a prompt, or behind `-p`: one of the two would not happen. `parsed` is
/// what the arguments came to; what follows the command may be no arguments of it, since it is prose.
pub fn refuse(parsed: &Result<Cli, clap::Error>) -> Result<(), CliError> {
    if parsed.as_ref().is_ok_and(|cli| cli.command.is_none()) {
        return Ok(());
    }
    match command_in_prompt(std::env::args_os()) {
        None => Ok(()),
        Some(name) => Err(CliError::usage(
            format!("{name:?} is a command, and a prompt stands before it"),
            "put the prompt in quotes: festoon -p 'TEXT'",
        )),
    }
}

/// The command behind a prompt in these arguments, however wrong the rest of them is.
fn command_in_prompt(args: impl Iterator<Item = OsString>) -> Option<String> {
    let anything = Arg::new("words").num_args(0..).trailing_var_arg(true).allow_hyphen_values(true);
    // Its own `help` would end the look with a page.
    let lenient = Cli::command()
        .disable_help_flag(true)
        .disable_version_flag(true)
        .disable_help_subcommand(true)
        .subcommand(Command::new("help").arg(anything))
        .ignore_errors(true);
    let matches = lenient.try_get_matches_from(args).ok()?;
    let given = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
    let name = matches.subcommand().map(|(name, _): (&str, &ArgMatches)| name.to_owned())?;
    (given("print") || given("prompt")).then_some(name)
}

/// Refuses a word that is nearly a command: a lone one (contract §4), and the first of several where the rest
/// are arguments of that command and its name is no short one.
pub fn suggest(words: &[String]) -> Result<(), CliError> {
    let Some((word, rest)) = words.split_first() else { return Ok(()) };
    if word.split_whitespace().count() != 1 {
        return Ok(());
    }
    let is_near = |name: &str| {
        let distance = strsim::damerau_levenshtein(name, word);
        match rest {
            [] => distance <= 1 + usize::from(name.len() > LONG_NAME),
            _ => distance == 1 && name.len() >= LONG_NAME && takes(name, rest),
        }
    };
    let command = Cli::command();
    let mut names = command.get_subcommands().filter(|c| !c.is_hide_set()).map(Command::get_name);
    match names.find(|name| is_near(name)) {
        None => Ok(()),
        Some(name) => Err(CliError::usage(
            format!("{word:?} is no command; did you mean {name:?}?"),
            format!("festoon {name}; to say it to the agent, put more than one word in quotes, or use -p"),
        )),
    }
}

/// Whether a command can be given these arguments.
fn takes(name: &str, rest: &[String]) -> bool {
    let words = ["festoon", name].into_iter().chain(rest.iter().map(String::as_str));
    Cli::try_parse_from(words).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_command_behind_a_prompt_is_found_whatever_follows_it() {
        let found = |line: &str| {
            let args = std::iter::once("festoon".to_owned()).chain(words(line)).map(OsString::from);
            command_in_prompt(args)
        };
        for (line, name) in [
            ("-p please send anna hello", "send"),
            ("-p now ps", "ps"),
            ("-p fix up tests", "up"),
            ("-p fix up", "up"),
            ("-p please ps the files", "ps"),
            ("-p please help me", "help"),
            ("-p explain --model x top of the page", "top"),
            ("--print=make task list", "task"),
            ("--verbose -p use team now", "team"),
            ("please -p send up review", "up"),
            ("please --verbose send anna hello", "send"),
        ] {
            assert_eq!(found(line).as_deref(), Some(name), "{line}");
        }
        for line in [
            "-p ps",
            "-p send",
            "-p please look at this",
            "-p use the team now",
            "please send anna hello",
            "please help",
            "-p -- fix up tests",
            "up review -p",
            "up review -p --task do",
            "team resume review -p Go",
            "ps",
            "help ps",
            "--json ps",
            "send anna -p",
            "-p please --nonsense ps",
            "-p please --help",
        ] {
            assert_eq!(found(line), None, "{line}");
        }
    }

    #[test]
    fn only_a_lone_word_or_a_commands_whole_line_is_taken_for_a_command() {
        let suggested = |line: &str| {
            let refused = suggest(&words(line)).err()?;
            refused.report.message.rsplit('"').nth(1).map(str::to_owned)
        };
        for (line, name) in [
            ("pss", "ps"),
            ("teamm", "team"),
            ("inbxo", "inbox"),
            ("doktor", "doctor"),
            ("can", "man"),
            ("stop", "top"),
            ("end", "send"),
            ("main", "man"),
            ("sent", "send"),
            ("tap", "top"),
            ("inbxo list", "inbox"),
            ("atach anna", "attach"),
            ("agentss list", "agents"),
        ] {
            assert_eq!(suggested(line).as_deref(), Some(name), "{line}");
        }
        for line in [
            "can you look at this",
            "stop the server",
            "end this",
            "main is broken",
            "sent it",
            "tap it",
            "as a test",
            "agent limits are wrong",
            "path handling is broken",
            "completion is slow",
            "doktor please",
            "timelines of both teams",
        ] {
            assert_eq!(suggested(line), None, "{line}");
        }
        assert!(suggest(&["stop it".to_owned()]).is_ok());
    }
}
