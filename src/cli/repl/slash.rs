//! Slash commands: their names, what they do, and what was meant by a misspelt one.

/// A command with its line of help.
struct Entry {
    name: &'static str,
    help: &'static str,
}

/// What can be typed after a `/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slash {
    /// What can be typed.
    Help,
    /// Open asks.
    Asks,
    /// One line an agent.
    Team,
    /// What works in the background.
    Tasks,
    /// The model.
    Model,
    /// MCP servers.
    Mcp,
    /// The permission mode, of the leader or a teammate.
    Mode,
    /// The rules.
    Permissions,
    /// Tokens and money.
    Cost,
    /// Go on from a summary.
    Compact,
    /// Go back to before a turn.
    Rewind,
    /// Begin a new conversation.
    Clear,
    /// Go on with another session.
    Resume,
    /// Leave.
    Quit,
}

impl Slash {
    /// Whether it is for a time at which the main agent does not work.
    pub fn needs_rest(self) -> bool {
        match self {
            Self::Compact | Self::Rewind | Self::Clear | Self::Resume => true,
            Self::Help
            | Self::Asks
            | Self::Team
            | Self::Tasks
            | Self::Model
            | Self::Mcp
            | Self::Mode
            | Self::Permissions
            | Self::Cost
            | Self::Quit => false,
        }
    }
}

/// All names, for completion.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(_, entry)| entry.name)
}

const TABLE: &[(Slash, Entry)] = &[
    (Slash::Help, Entry { name: "/help", help: "this list" }),
    (Slash::Asks, Entry { name: "/asks", help: "what waits for your answer; the first one in full" }),
    (
        Slash::Team,
        Entry { name: "/team", help: "every agent; hide NAME and show NAME move a teammate's pane" },
    ),
    (Slash::Team, Entry { name: "/agents", help: "the same as /team" }),
    (
        Slash::Tasks,
        Entry { name: "/tasks", help: "background work; stop ID ends one, resume ID TEXT goes on" },
    ),
    (Slash::Model, Entry { name: "/model", help: "the model, and how to start with another one" }),
    (Slash::Mcp, Entry { name: "/mcp", help: "MCP servers: state, tools, what to do about errors" }),
    (
        Slash::Mode,
        Entry { name: "/mode", help: "the mode; MODE sets it (also Shift+Tab), MODE NAME a teammate's" },
    ),
    (
        Slash::Permissions,
        Entry { name: "/permissions", help: "the rules; allow RULE (or ask, or deny) adds one" },
    ),
    (Slash::Cost, Entry { name: "/cost", help: "tokens and money so far, by model" }),
    (
        Slash::Compact,
        Entry { name: "/compact", help: "goes on from a summary; what follows is kept above all" },
    ),
    (
        Slash::Rewind,
        Entry { name: "/rewind", help: "goes back to before a turn: its files, what was said, or both" },
    ),
    (Slash::Clear, Entry { name: "/clear", help: "a new conversation; team, mail and background work stay" }),
    (
        Slash::Resume,
        Entry { name: "/resume", help: "the sessions of this directory; /resume ID goes on with one" },
    ),
    (Slash::Quit, Entry { name: "/quit", help: "leave (also Ctrl-D)" }),
];

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A command, and what follows it.
    Command(Slash, String),
    /// Looks like one, is none; the nearest name, if one is near.
    Unknown(String, Option<&'static str>),
    /// Text for an agent.
    Text,
}

/// Looks at a line. A path such as `/etc/hosts` is text.
pub fn parse(line: &str) -> Parsed {
    let word = line.split_whitespace().next().unwrap_or_default();
    let is_name = word.strip_prefix('/').is_some_and(|w| w.chars().all(|c| c.is_alphanumeric() || c == '-'));
    if !is_name {
        return Parsed::Text;
    }
    if let Some((command, _)) = TABLE.iter().find(|(_, e)| e.name == word) {
        let rest = line.trim_start().strip_prefix(word).unwrap_or_default().trim().to_owned();
        return Parsed::Command(*command, rest);
    }
    let nearest = names().min_by_key(|name| strsim::damerau_levenshtein(name, word));
    let near = nearest.filter(|name| strsim::damerau_levenshtein(name, word) <= 2);
    Parsed::Unknown(word.to_owned(), near)
}

/// The help, a line for each thing that can be typed; what is too long is broken where it is shown.
pub fn help() -> Vec<String> {
    let line = |what: &str, does: &str| format!("  {what:<12}  {does}");
    let mut lines: Vec<String> = TABLE.iter().map(|(_, entry)| line(entry.name, entry.help)).collect();
    lines.extend([
        line("@name …", "mail to a teammate"),
        line(
            "y s p n",
            "answer the ask that is shown: yes once, for the session, for the project, no; what follows goes to the \
             agent as a note; a question takes a number, or your own words",
        ),
        line("…\\", "a backslash at the end: the text goes on in the next line"),
        line("Esc", "interrupts the agent; Ctrl-C too, and twice asks to leave"),
        "What you type while the agent works is delivered before its next step.".to_owned(),
    ]);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::text::width;
    use crate::cli::wrap::wrap;

    #[test]
    fn commands_paths_and_mistakes_are_told_apart() {
        assert_eq!(parse("/team "), Parsed::Command(Slash::Team, String::new()));
        assert_eq!(parse(" /mode  plan anna"), Parsed::Command(Slash::Mode, "plan anna".into()));
        assert_eq!(parse("/taem"), Parsed::Unknown("/taem".into(), Some("/team")));
        assert_eq!(parse(" /compact  the API "), Parsed::Command(Slash::Compact, "the API".into()));
        assert_eq!(parse("/wibble now"), Parsed::Unknown("/wibble".into(), None));
        assert_eq!(parse("/etc/hosts is wrong"), Parsed::Text);
        assert_eq!(parse("what about /team"), Parsed::Text);
        assert_eq!(parse("/"), Parsed::Unknown("/".into(), None));
    }

    #[test]
    fn every_command_is_helped_in_its_column_whatever_the_width() {
        for columns in [39, 79] {
            for line in help() {
                let rows = wrap(&line, columns);
                assert!(rows.iter().all(|row| width(row) <= columns), "{rows:#?}");
                let is_entry = line.starts_with("  ");
                let below = |row: &String| row.len() - row.trim_start().len() == 16;
                assert!(!is_entry || rows[1..].iter().all(below), "{rows:#?}");
            }
        }
        let columns =
            |(_, entry): &(Slash, Entry)| width(&format!("  {:<12}  {}", entry.name, entry.help)) < 80;
        assert!(TABLE.iter().all(columns), "a command takes one row where there are 80");
    }
}
