//! A definition as a Markdown file with front matter (`docs/formats/agent-definition.md`).
//!
//! Owns the YAML parser. Promises that a file it refuses is named with line and reason, that a byte
//! order mark and CRLF change nothing, and that a key nobody acts on is a warning, never silence.
//! Reads no files; the bytes are handed in.

#[cfg(test)]
mod tests;

use super::hooks;
use crate::model::registry::INHERIT;
use crate::policy::rule::split_list;
use crate::wire::definition::{AgentDefinition, Isolation, ToolChoice};
use crate::wire::hooks::HookSettings;
use crate::wire::ids::MAX_NAME_CHARS;
use crate::wire::mcp::McpChoice;
use crate::wire::permission::PermissionMode;
use crate::wire::settings::Effort;
use crate::wire::team::COLORS;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_saphyr::{Location, Options, Spanned};
use std::fmt;
use std::path::{Path, PathBuf};

/// The line that begins and ends the front matter.
const FENCE: &str = "---";
/// Why a file is no definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {why}", path.display())]
pub struct DefinitionError {
    /// The file.
    pub path: PathBuf,
    /// From 1.
    pub line: usize,
    /// What is wrong.
    pub why: String,
}

/// Something in a definition that its author should know; the definition can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// From 1.
    pub line: usize,
    /// What is to be known.
    pub what: String,
}

/// A definition that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionFile {
    /// The definition.
    pub definition: AgentDefinition,
    /// In the order of their lines.
    pub warnings: Vec<Warning>,
}

/// Reads the bytes of the file `path`.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<DefinitionFile, DefinitionError> {
    read(bytes).map_err(|Wrong { line, why }| DefinitionError { path: path.to_owned(), line, why })
}

struct Wrong {
    line: usize,
    why: String,
}

fn wrong<T>(line: usize, why: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { line, why: why.into() })
}

fn read(bytes: &[u8]) -> Result<DefinitionFile, Wrong> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n"),
        Err(error) => {
            let line = bytes[..error.valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
            return wrong(line, "this line is not UTF-8 text");
        }
    };
    let mut lines = text.split('\n');
    if lines.next().map(str::trim_end) != Some(FENCE) {
        return wrong(1, format!("a definition begins with a line `{FENCE}` and its front matter"));
    }
    let Some(length) = lines.position(|line| line.trim_end() == FENCE) else {
        return wrong(1, format!("the front matter has no end: a second line `{FENCE}`"));
    };
    let front: Vec<&str> = text.split('\n').skip(1).take(length).collect();
    let body = lines.collect::<Vec<_>>().join("\n").trim().to_owned();
    let fields = fields(&front.join("\n"))?;
    let mut file = Draft::default();
    for field in &fields {
        file.take(field)?;
    }
    let end = length + 2;
    if body.is_empty() {
        return wrong(end, "there is no system prompt below the front matter");
    }
    let missing = |key: &str| Wrong { line: end, why: format!("the front matter has no `{key}`") };
    let definition = AgentDefinition {
        name: file.name.ok_or_else(|| missing("name"))?,
        description: file.description.ok_or_else(|| missing("description"))?,
        tools: file.tools.unwrap_or_default(),
        disallowed_tools: file.disallowed_tools,
        mcp_servers: file.mcp_servers,
        model: file.model,
        permission_mode: file.permission_mode,
        max_turns: file.max_turns,
        background: file.background,
        isolation: file.isolation,
        color: file.color,
        effort: file.effort,
        one_shot: false,
        omit_instructions: file.omit_instructions,
        hooks: file.hooks,
        system_prompt: body,
    };
    Ok(DefinitionFile { definition, warnings: file.warnings })
}

/// A key with its value and the line it stands in.
struct Field {
    line: usize,
    key: String,
    value: Value,
}

struct Fields(Vec<Field>);

/// The line in the file; the front matter begins in its second.
fn line_of(location: Location) -> usize {
    usize::try_from(location.line()).unwrap_or_default().max(1) + 1
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Fields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("keys with values")
            }
            fn visit_unit<E>(self) -> Result<Fields, E> {
                Ok(Fields(Vec::new()))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut all = Vec::new();
                while let Some(key) = map.next_key::<Spanned<String>>()? {
                    let line = line_of(key.referenced);
                    all.push(Field { line, key: key.value, value: map.next_value()? });
                }
                Ok(Fields(all))
            }
        }
        deserializer.deserialize_any(Entries)
    }
}

fn fields(front: &str) -> Result<Vec<Field>, Wrong> {
    let parsed = serde_saphyr::from_str_with_options::<Fields>(front, Options::default());
    parsed.map(|fields| fields.0).map_err(|error| {
        let error = error.without_snippet();
        let line = error.location().map_or(2, line_of);
        // The position is told by us, in lines of the file.
        let text = error.to_string();
        let why = text.lines().next().unwrap_or_default();
        let why = why.rsplit_once(" at line ").map_or(why, |(what, _)| what);
        Wrong { line, why: format!("the front matter is no YAML that can be used: {why}") }
    })
}

/// What the front matter has said so far.
#[derive(Default)]
struct Draft {
    name: Option<String>,
    description: Option<String>,
    tools: Option<ToolChoice>,
    disallowed_tools: Vec<String>,
    mcp_servers: Option<Vec<McpChoice>>,
    model: Option<String>,
    permission_mode: Option<PermissionMode>,
    max_turns: Option<u32>,
    background: Option<bool>,
    isolation: Option<Isolation>,
    color: Option<String>,
    effort: Option<Effort>,
    omit_instructions: bool,
    hooks: HookSettings,
    warnings: Vec<Warning>,
}

impl Draft {
    fn take(&mut self, field: &Field) -> Result<(), Wrong> {
        let Field { line, key, value } = field;
        let line = *line;
        match key.as_str() {
            // An empty value is as good as none.
            _ if value.is_null() => {}
            "name" => self.name = Some(name(text(field)?).or_else(|why| wrong(line, why))?),
            "description" => self.description = Some(text(field)?.to_owned()),
            "tools" => self.tools = Some(choice(names(field)?)),
            "disallowedTools" => self.disallowed_tools = names(field)?,
            "mcpServers" => {
                self.mcp_servers = Some(mcp_servers(value).or_else(|why| wrong(line, why))?);
            }
            "model" => self.model = Some(text(field)?.to_owned()).filter(|model| model != INHERIT),
            "permissionMode" => self.permission_mode = Some(mode(field)?),
            "maxTurns" => {
                let turns = value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
                let expected = || Wrong { line, why: format!("`maxTurns` is a number from 1, not {value}") };
                self.max_turns = Some(turns.ok_or_else(expected)?);
            }
            "omitInstructions" | "omitClaudeMd" => self.omit_instructions = yes_or_no(field)?,
            "background" => self.background = Some(yes_or_no(field)?),
            "effort" => {
                let names: Vec<&str> = Effort::ALL.iter().map(|(name, _)| *name).collect();
                let expected =
                    || Wrong { line, why: format!("`effort` is one of {}, not {value}", names.join(", ")) };
                self.effort = Some(value.as_str().and_then(Effort::from_name).ok_or_else(expected)?);
            }
            "hooks" => {
                let (hooks, unknown) = own_hooks(field)?;
                self.hooks = hooks;
                let warn = |key| Warning { line, what: format!("unknown key `hooks.{key}`") };
                self.warnings.extend(unknown.into_iter().map(warn));
            }
            // Isolation is never ignored: an agent without it would write where others work.
            "isolation" => match value.as_str() {
                Some("worktree") => self.isolation = Some(Isolation::Worktree),
                _ => return wrong(line, format!("`isolation` is \"worktree\" or left out, not {value}")),
            },
            "color" => {
                let color = text(field)?;
                if !COLORS.contains(&color) {
                    return wrong(line, format!("`color` is one of {}, not {color:?}", COLORS.join(", ")));
                }
                self.color = Some(color.to_owned());
            }
            key => self.warnings.push(Warning { line, what: format!("unknown key `{key}`") }),
        }
        Ok(())
    }
}

fn yes_or_no(field: &Field) -> Result<bool, Wrong> {
    let Field { line, key, value } = field;
    let expected = || Wrong { line: *line, why: format!("`{key}` is true or false, not {value}") };
    value.as_bool().ok_or_else(expected)
}

fn text(field: &Field) -> Result<&str, Wrong> {
    let key = &field.key;
    match field.value.as_str().map(str::trim) {
        Some("") => wrong(field.line, format!("`{key}` is empty")),
        Some(text) => Ok(text),
        None => wrong(field.line, format!("`{key}` is a text, not {} (put it in quotes)", field.value)),
    }
}

fn name(text: &str) -> Result<String, String> {
    if text.chars().count() > MAX_NAME_CHARS {
        return Err(format!("`name` is longer than {MAX_NAME_CHARS} characters"));
    }
    match text.chars().find(|c| c.is_control() || matches!(c, '/' | '\\' | '@')) {
        Some(c) => Err(format!("`name` cannot hold {c:?}")),
        None => Ok(text.to_owned()),
    }
}

/// A list, or a text with commas outside parentheses between the names.
fn names(field: &Field) -> Result<Vec<String>, Wrong> {
    let key = &field.key;
    let list: Vec<String> = match &field.value {
        Value::String(text) => split_list(text),
        Value::Array(list) => list
            .iter()
            .map(|entry| match entry.as_str() {
                Some(name) => Ok(name.trim().to_owned()),
                None => wrong(field.line, format!("`{key}` holds names of tools, not {entry}")),
            })
            .collect::<Result<_, _>>()?,
        other => return wrong(field.line, format!("`{key}` is a list of names of tools, not {other}")),
    };
    if list.is_empty() || list.iter().any(String::is_empty) {
        return wrong(field.line, format!("`{key}` holds an empty name"));
    }
    Ok(list)
}

/// The hooks, and the keys in them that are none.
fn own_hooks(field: &Field) -> Result<(HookSettings, Vec<String>), Wrong> {
    let no_object = |key: &str| Wrong { line: field.line, why: format!("`{key}` must be a map of keys") };
    // serde would take a list for an object.
    let events = field.value.as_object().ok_or_else(|| no_object("hooks"))?;
    for (event, groups) in events {
        let groups = groups.as_array().into_iter().flatten();
        let inner = groups.clone().filter_map(|group| group.get("hooks")?.as_array()).flatten();
        if groups.chain(inner).any(|value| !value.is_object()) {
            return Err(no_object(&format!("hooks.{event}[]")));
        }
    }
    let mut unknown = Vec::new();
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&field.value, &mut track);
    let read = serde_ignored::deserialize(tracked, |path| unknown.push(path.to_string()));
    let hooks: HookSettings =
        read.map_err(|error| Wrong { line: field.line, why: format!("`hooks.{}`: {error}", track.path()) })?;
    hooks::check(&hooks).map_err(|why| Wrong { line: field.line, why: format!("`hooks`: {why}") })?;
    Ok((hooks, unknown))
}

/// The value of `mcpServers`: names of configured servers and servers that the definition brings, as a
/// list of names and of objects `{name: configuration}`, as one such object, or as a text with commas.
///
/// # Errors
/// A sentence.
pub(super) fn mcp_servers(value: &Value) -> Result<Vec<McpChoice>, String> {
    let brought = |servers: &serde_json::Map<String, Value>| {
        let bring = |(name, server): (&String, &Value)| match server {
            Value::Object(_) => Ok(McpChoice::Brought(name.clone(), server.clone())),
            other => Err(format!("`mcpServers`: {name} is the configuration of a server, not {other}")),
        };
        servers.iter().map(bring).collect::<Result<Vec<_>, _>>()
    };
    match value {
        Value::Object(servers) => brought(servers),
        Value::String(text) => {
            let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
            Ok(names.map(|name| McpChoice::Named(name.to_owned())).collect())
        }
        Value::Array(list) => {
            let mut choices = Vec::new();
            for entry in list {
                match entry {
                    Value::String(name) => choices.push(McpChoice::Named(name.trim().to_owned())),
                    Value::Object(servers) => choices.extend(brought(servers)?),
                    other => {
                        return Err(format!(
                            "`mcpServers` holds names and configurations of servers, not {other}"
                        ));
                    }
                }
            }
            Ok(choices)
        }
        other => Err(format!("`mcpServers` is a list of servers, not {other}")),
    }
}

fn choice(names: Vec<String>) -> ToolChoice {
    match names.as_slice() {
        [all] if all == "*" => ToolChoice::All,
        _ => ToolChoice::List(names),
    }
}

fn mode(field: &Field) -> Result<PermissionMode, Wrong> {
    let name = text(field)?;
    PermissionMode::from_name(name).map_or_else(
        || {
            let names: Vec<&str> = PermissionMode::NAMES.iter().map(|(name, _)| *name).collect();
            wrong(
                field.line,
                format!("there is no permission mode `{name}` (there are {})", names.join(", ")),
            )
        },
        Ok,
    )
}
