//! How much of what a project brings may run: the flag, what the person has said before, and what is
//! withheld without either.
//!
//! One mechanism for everything that runs code, sends keys elsewhere or lifts every question: keys of
//! settings files, `.mcp.json`, and definitions that bring hooks or servers. Reading and listing them
//! needs no trust.

use super::mcp;
use crate::agent::definition_sources::{Discovery, Found, Source};
use crate::model::registry::is_script;
use crate::store::paths::Paths;
use crate::store::trust;
use crate::wire::definition::AgentDefinition;
use crate::wire::hooks::{HookCommand, HookEvent};
use crate::wire::mcp::McpChoice;
use crate::wire::worker::WorkerSpec;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::path::Path;

/// Characters of a command or address that is shown.
const SHOWN_CHARS: usize = 120;

/// How much of a project's files counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// All of it.
    Full,
    /// What a stranger may set.
    None,
    /// What narrows: a person was asked and has said no.
    Refused,
}

/// Something that a project brings and that needs trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withheld {
    /// The file.
    pub place: String,
    /// What in it: a key, or the definition.
    pub what: String,
    /// What it would run, set or reach, a line each.
    pub shows: Vec<String>,
}

/// How much counts in `cwd`: all with the flag or where the person has said so. What is known cannot
/// always be read; then nothing is trusted, and the sentence says why.
pub fn of(paths: &Paths, cwd: &Path, flag: bool) -> (Trust, Option<String>) {
    if flag {
        return (Trust::Full, None);
    }
    match trust::is_trusted(paths, cwd) {
        Ok(true) => (Trust::Full, None),
        Ok(false) => (Trust::None, None),
        Err(error) => (Trust::None, Some(format!("no directory is trusted: {error}"))),
    }
}

/// The same for a worker: as its leader, unless it works in another place than the leader's project.
pub fn of_worker(paths: &Paths, spec: &WorkerSpec) -> Trust {
    match spec.trusted && trust::reaches(paths, &spec.project_root, &spec.cwd).unwrap_or(false) {
        true => Trust::Full,
        false => Trust::None,
    }
}

/// Takes out of what was found every definition of the project that brings what needs trust.
pub fn restrict(discovery: &mut Discovery, trust: Trust) -> Vec<Withheld> {
    if trust == Trust::Full {
        return Vec::new();
    }
    let (mut kept, mut withheld) = (Vec::new(), Vec::new());
    let mut named = HashSet::new();
    for found in std::mem::take(&mut discovery.found) {
        // Of equal names the first counts: what another one brings would never run.
        let is_first = named.insert(found.definition.name.clone());
        if found.source != Source::Project || brought(&found.definition).is_empty() {
            kept.push(found);
        } else if is_first {
            withheld.push(withheld_definition(&found));
        }
    }
    discovery.found = kept;
    withheld
}

/// What a definition brings that needs trust: the key, and what it would run.
fn brought(definition: &AgentDefinition) -> Vec<(&'static str, Vec<String>)> {
    let brought = |choice: &McpChoice| match choice {
        McpChoice::Brought(name, server) => Some((name.clone(), server.clone())),
        // What it names is configured elsewhere.
        McpChoice::Named(_) => None,
    };
    let servers: Map<String, Value> = definition.mcp_servers.iter().flatten().filter_map(brought).collect();
    let runs = |(event, hook): (HookEvent, &HookCommand)| {
        cut(&format!("at {} runs: {}", event.as_str(), hook.command))
    };
    let hooks: Vec<String> = definition.hooks.commands().map(runs).collect();
    // A model that is a file of the project makes the calls that somebody else has written there.
    let played = definition.model.iter().filter(|model| is_script(model));
    let brought = [
        ("hooks", hooks),
        ("mcpServers", shown_servers(&Value::Object(servers))),
        ("model", played.map(|model| cut(model)).collect()),
    ];
    brought.into_iter().filter(|(_, shows)| !shows.is_empty()).collect()
}

fn withheld_definition(found: &Found) -> Withheld {
    let brought = brought(&found.definition);
    let keys: Vec<&str> = brought.iter().map(|(key, _)| *key).collect();
    Withheld {
        place: found.path.as_deref().unwrap_or(Path::new("")).display().to_string(),
        what: format!("the definition `{}` with {}", found.definition.name, keys.join(" and ")),
        shows: brought.into_iter().flat_map(|(_, shows)| shows).collect(),
    }
}

/// What the project's own file of MCP servers would start; nothing when trusted, not there, or all turned off. A file that
/// cannot be read is not this module's to report.
pub fn servers(cwd: &Path, trust: Trust) -> Option<Withheld> {
    let path = mcp::file_of_project(cwd).filter(|_| trust != Trust::Full)?;
    let file: Value = serde_json::from_slice(&std::fs::read(&path).ok()?).unwrap_or_default();
    let shows = file.get("mcpServers").map(shown_servers)?;
    let place = path.display().to_string();
    (!shows.is_empty()).then(|| Withheld { place, what: "MCP servers".to_owned(), shows })
}

/// A key of a settings file as lines for the person who is asked; none when nothing in it would ever count.
pub fn shown(key: &str, value: &Value) -> Vec<String> {
    match (key, value) {
        ("hooks", Value::Object(events)) => {
            events.iter().flat_map(|(event, groups)| hooks(event, groups)).collect()
        }
        ("mcpServers", servers) => shown_servers(servers),
        (_, Value::Object(members)) => {
            members.iter().map(|(name, value)| cut(&format!("{name} = {}", plain(value)))).collect()
        }
        (_, Value::Array(items)) => items.iter().map(|item| cut(&plain(item))).collect(),
        (_, value) => vec![cut(&plain(value))],
    }
}

fn hooks(event: &str, groups: &Value) -> Vec<String> {
    // At an event that nobody knows nothing runs; the loader warns of it.
    if HookEvent::ALL.iter().all(|known| known.as_str() != event) {
        return Vec::new();
    }
    let groups = groups.as_array().into_iter().flatten();
    let commands =
        groups.flat_map(|group| group.get("hooks").and_then(Value::as_array).into_iter().flatten());
    let commands = commands.filter_map(|hook| hook.get("command").and_then(Value::as_str));
    commands.map(|command| cut(&format!("at {event} runs: {command}"))).collect()
}

fn shown_servers(servers: &Value) -> Vec<String> {
    let one = |(name, server): (&String, &Value)| {
        let words = server.get("args").and_then(Value::as_array).into_iter().flatten();
        let command = server.get("command").and_then(Value::as_str).map(str::to_owned);
        let line = command.map(|command| words.fold(command, |line, word| format!("{line} {}", plain(word))));
        let line = line.or_else(|| server.get("url").map(plain)).unwrap_or_else(|| plain(server));
        cut(&format!("{name}: {line}"))
    };
    let is_off = |server: &Value| server.get("disabled") == Some(&Value::Bool(true));
    servers.as_object().into_iter().flatten().filter(|(_, server)| !is_off(server)).map(one).collect()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn cut(text: &str) -> String {
    let mut cut: String = text.chars().take(SHOWN_CHARS).collect();
    if cut.len() < text.len() {
        cut.push_str(" …");
    }
    cut
}

/// The one sentence about all that was skipped.
pub fn warning(cwd: &Path, withheld: &[Withheld]) -> Option<String> {
    skipped(withheld).map(|skipped| {
        format!(
            "{} is not trusted, so this was skipped: {skipped}; --trust takes it for one run, `festoon` at a terminal \
             asks once",
            cwd.display()
        )
    })
}

/// The one sentence about all that counts although it widens what may be done.
pub fn widening(cwd: &Path, widens: &[Withheld]) -> Option<String> {
    let with_values = |held: &Withheld| Withheld {
        what: format!("{} ({})", held.what, held.shows.join(", ")),
        ..held.clone()
    };
    let widens: Vec<Withheld> = widens.iter().map(with_values).collect();
    skipped(&widens).map(|widens| {
        format!(
            "{} is not trusted, and its settings widen what may be done here: {widens}; say with --trust that you know \
             them, or once to `festoon` at a terminal",
            cwd.display()
        )
    })
}

/// Files with what was skipped in each; `None` when nothing was.
pub fn skipped(withheld: &[Withheld]) -> Option<String> {
    let mut places: Vec<(&str, Vec<&str>)> = Vec::new();
    for Withheld { place, what, .. } in withheld {
        match places.iter_mut().find(|(known, _)| known == place) {
            Some((_, all)) => all.push(what),
            None => places.push((place, vec![what])),
        }
    }
    let skipped: Vec<String> =
        places.iter().map(|(place, all)| format!("{place}: {}", all.join(", "))).collect();
    (!skipped.is_empty()).then(|| skipped.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_skipped_is_one_sentence() {
        let withheld =
            |place: &str, what: &str| Withheld { place: place.into(), what: what.into(), shows: vec![] };
        let all = [withheld("a", "env"), withheld("b", "MCP servers"), withheld("a", "hooks")];
        let wanted = "/p is not trusted, so this was skipped: a: env, hooks; b: MCP servers; --trust takes it for one \
                      run, `festoon` at a terminal asks once";
        assert_eq!(warning(Path::new("/p"), &all).as_deref(), Some(wanted));
        assert_eq!(warning(Path::new("/p"), &[]), None);
        let widens = |what: &str, shows: &[&str]| Withheld {
            place: "a".into(),
            what: what.into(),
            shows: shows.iter().map(|line| (*line).to_owned()).collect(),
        };
        let all = [widens("limits.maxDepth", &["9"]), widens("aliases", &["x = y", "u = v"])];
        let wanted = "/p is not trusted, and its settings widen what may be done here: a: limits.maxDepth (9), aliases \
                      (x = y, u = v); say with --trust that you know them, or once to `festoon` at a terminal";
        assert_eq!(widening(Path::new("/p"), &all).as_deref(), Some(wanted));
        assert_eq!(widening(Path::new("/p"), &[]), None);
    }

    #[test]
    fn a_person_sees_what_would_run() {
        let odd = json!([{"hooks": [{"type": "command", "command": "never"}]}]);
        let hooks =
            json!({"Stop": [{"hooks": [{"type": "command", "command": "x".repeat(200)}]}], "Odd": odd});
        assert_eq!(shown("hooks", &hooks), [format!("at Stop runs: {} …", "x".repeat(106))]);
        assert_eq!(shown("env", &json!({"A": "b", "C": 1})), ["A = b", "C = 1"]);
        let servers = json!({"files": {"command": "npx", "args": ["-y", "x"]}, "far": {"url": "http://x"}, "odd": [],
                   "off": {"command": "never", "disabled": true}});
        assert_eq!(shown("mcpServers", &servers), ["far: http://x", "files: npx -y x", "odd: []"]);
        assert_eq!(shown("permissions.defaultMode", &json!("bypassPermissions")), ["bypassPermissions"]);
    }
}
