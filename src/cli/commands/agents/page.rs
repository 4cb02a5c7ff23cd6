//! `festoon agents show NAME`: a definition as a page for people, every choice with what it comes to here.

use super::effective::{self, Tier};
use crate::agent::definition_sources::Found;
use crate::cli::error::CliError;
use crate::cli::out::Out;
use crate::cli::{table, view, words, wrap};
use crate::wire::definition::Isolation;
use crate::wire::hooks::HookEvent;
use crate::wire::mcp::McpChoice;
use crate::wire::settings::Effort;
use anstyle::{AnsiColor, Style};
use serde_json::{Map, Value};

/// Columns of the names on the left.
const LABEL: usize = 14;

/// Prints the page; `row` is what `--json` says.
pub fn show(out: &mut Out, found: &Found, row: &Map<String, Value>) -> Result<(), CliError> {
    let definition = &found.definition;
    let name = view::style_of(definition.color.as_deref());
    out.line(format!("{name}{}{name:#}", words::line(&definition.name)))?;
    for line in wrap::wrap(&words::line(&definition.description), table::columns()) {
        out.line(line)?;
    }
    out.line("")?;
    if let Some(why) = row.get("withheld").and_then(Value::as_str) {
        let warn = view::style_of_warning();
        field(out, "not trusted", &format!("{warn}{}{warn:#}", words::line(why)))?;
    }
    for (label, text) in fields(found, row) {
        field(out, label, &text)?;
    }
    let bold = Style::new().bold();
    out.line(format!("\n{bold}system prompt{bold:#}"))?;
    for line in definition.system_prompt.lines() {
        out.line(words::line(line))?;
    }
    Ok(())
}

fn field(out: &mut Out, label: &str, text: &str) -> Result<(), CliError> {
    let color = Style::new().fg_color(Some(AnsiColor::Cyan.into()));
    // Two spaces behind it, by which further rows find their column.
    for line in wrap::wrap(&format!("{color}{label:<LABEL$}{color:#}  {text}"), table::columns()) {
        out.line(line)?;
    }
    Ok(())
}

fn fields(found: &Found, row: &Map<String, Value>) -> Vec<(&'static str, String)> {
    let definition = &found.definition;
    let here = |key: &str| row.get(key).and_then(Value::as_str).map(words::line);
    let source = match &found.path {
        Some(path) => format!("{}: {}", found.source.as_str(), words::line(&path.display().to_string())),
        None => found.source.as_str().to_owned(),
    };
    let model = definition.model.as_deref().map_or("its parent's".to_owned(), words::line);
    let model = match here("modelHere") {
        Some(here) if here == model => here,
        Some(here) => format!("{model}, here {here}"),
        None => format!("{model}; none is set up here"),
    };
    let mode = definition.permission_mode.map_or("its parent's", |mode| mode.as_str());
    let mode = match here("permissionModeHere") {
        Some(here) if here == mode => here,
        Some(here) => format!("{mode}, here {here}"),
        None => mode.to_owned(),
    };
    let mut fields = vec![("source", source), ("model", model), ("mode", mode)];
    fields.extend(tools(found));
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let background = definition.background.map_or("when the call says so".to_owned(), yes);
    fields.push(("background", background));
    fields.push((
        "isolation",
        match definition.isolation {
            Some(Isolation::Worktree) => "a git worktree of its own".to_owned(),
            None => "none: it works where its parent does".to_owned(),
        },
    ));
    let effort = |effort: Effort| Effort::ALL.iter().find(|(_, e)| *e == effort).map(|(name, _)| *name);
    fields.push(("effort", definition.effort.and_then(effort).unwrap_or("the session's").to_owned()));
    let rounds = definition.max_turns.map_or("no limit of its own".to_owned(), |n| n.to_string());
    fields.push(("rounds", rounds));
    fields.push(("instructions", yes(!definition.omit_instructions)));
    fields.push(("MCP servers", servers(definition.mcp_servers.as_deref())));
    fields.push(("hooks", hooks(found)));
    let color = definition.color.as_deref().map_or("the next that is free".to_owned(), words::line);
    fields.push(("colour", color));
    fields
}

/// The tools of each tier, and those it has not got, with the reasons.
fn tools(found: &Found) -> Vec<(&'static str, String)> {
    let definition = &found.definition;
    let list = |tier| effective::tools(definition, tier).unwrap_or_default();
    let (own, background, mate) = (list(Tier::Subagent), list(Tier::Background), list(Tier::Teammate));
    let all = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let same = |names: &[String]| if *names == own { "the same".to_owned() } else { all(names) };
    let mut fields =
        vec![("tools", all(&own)), ("  background", same(&background)), ("  as a member", same(&mate))];
    let left = effective::left_out(definition);
    let told = left.iter().map(|(why, names)| format!("{why}: {}", names.join(", ")));
    for (n, text) in told.enumerate() {
        fields.push((if n == 0 { "left out" } else { "" }, words::line(&text)));
    }
    if let Err(nowhere) = effective::tools(definition, Tier::Subagent) {
        fields.push(("not known", words::line(&nowhere.join(", "))));
    }
    fields
}

fn servers(choice: Option<&[McpChoice]>) -> String {
    match choice {
        None => "all that are configured".to_owned(),
        Some([]) => "none".to_owned(),
        Some(all) => {
            let name = |choice: &McpChoice| match choice {
                McpChoice::Named(name) => words::line(name),
                McpChoice::Brought(name, _) => format!("{} (its own)", words::line(name)),
            };
            all.iter().map(name).collect::<Vec<_>>().join(", ")
        }
    }
}

fn hooks(found: &Found) -> String {
    let all = HookEvent::ALL.iter().filter_map(|event| {
        let groups = found.definition.hooks.at(*event);
        let commands: usize = groups.iter().map(|group| group.hooks.len()).sum();
        (commands > 0).then(|| format!("{} ({})", event.as_str(), words::number(commands, "command")))
    });
    let all: Vec<String> = all.collect();
    if all.is_empty() { "none of its own".to_owned() } else { all.join(", ") }
}
