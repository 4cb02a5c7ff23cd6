//! Configuration of MCP servers in the form people know, read entry by entry.
//!
//! `{"name": {"command", "args", "env", "cwd"} | {"type": "http", "url", "headers"}}`, with `${VAR}` and
//! `${VAR:-default}` in every text of them. Promises that a bad entry is named by place and key and hides
//! no other. Reads no files and no environment of its own.

use crate::wire::mcp::{McpServer, McpTransport};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// The keys of an entry.
const KEYS: [&str; 9] = ["type", "command", "args", "env", "cwd", "url", "headers", "timeout", "disabled"];
/// Longest time limit of a call, in milliseconds: a day. Beyond it somebody means something else.
const LONGEST_TIMEOUT: u64 = 24 * 60 * 60 * 1000;

/// Where an entry stands, and what it is filled in with.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The file or flag.
    pub origin: &'a str,
    /// Where a server runs that does not say so.
    pub cwd: &'a Path,
    /// The values of `${VAR}`.
    pub variables: &'a BTreeMap<String, String>,
}

/// What entries came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// Those that can be used, by name.
    pub servers: Vec<McpServer>,
    /// Names of those that are turned off.
    pub disabled: Vec<String>,
    /// Entries that cannot be used, a sentence each.
    pub errors: Vec<String>,
    /// What else their author should know.
    pub warnings: Vec<String>,
}

/// Reads all entries of an object of servers.
pub fn read_all(servers: &Map<String, Value>, place: Place<'_>) -> Entries {
    let mut entries = Entries::default();
    for (name, value) in servers {
        match read(name, value, place, &mut entries.warnings) {
            Ok(Some(server)) => entries.servers.push(server),
            Ok(None) => entries.disabled.push(name.clone()),
            Err(why) => entries.errors.push(why),
        }
    }
    entries
}

/// Reads a whole document: an object whose member `mcpServers` holds the entries.
///
/// # Errors
/// When the text is no such object; single bad entries are in the result.
pub fn read_document(text: &str, place: Place<'_>) -> Result<Entries, String> {
    let wrong = |why: String| format!("{}: {why}", place.origin);
    let value: Value =
        serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|e| wrong(e.to_string()))?;
    let servers = value.get("mcpServers").and_then(Value::as_object);
    let servers = servers.ok_or_else(|| {
        wrong(
            "it is no object with a member `mcpServers`, as in {\"mcpServers\": {\"name\": {…}}}".to_owned(),
        )
    })?;
    Ok(read_all(servers, place))
}

/// Reads one entry; `None` when it is disabled.
///
/// # Errors
/// A sentence that names origin and key.
pub fn read(
    name: &str,
    value: &Value,
    place: Place<'_>,
    warnings: &mut Vec<String>,
) -> Result<Option<McpServer>, String> {
    let entry = Entry { name, place };
    let Some(fields) = value.as_object() else {
        return entry.wrong("", format!("it must be a JSON object, not {}", kind(value)));
    };
    if name.trim().is_empty() {
        return entry.wrong("", "a server needs a name");
    }
    for key in fields.keys().filter(|key| !KEYS.contains(&key.as_str())) {
        warnings.push(format!("{}: mcpServers.{name}.{key}: unknown key, ignored", place.origin));
    }
    match fields.get("disabled") {
        None | Some(Value::Bool(false)) => {}
        Some(Value::Bool(true)) => return Ok(None),
        Some(other) => return entry.wrong("disabled", format!("it is true or false, not {}", kind(other))),
    }
    let timeout_ms = match fields.get("timeout") {
        None => None,
        Some(value) => match value.as_u64().filter(|ms| (1..=LONGEST_TIMEOUT).contains(ms)) {
            Some(ms) => Some(ms),
            None => return entry.wrong("timeout", "it is a number of milliseconds, from 1 to a day"),
        },
    };
    let kind = match (entry.text(fields, "type")?, fields.contains_key("url")) {
        (Some(kind), _) => kind,
        (None, true) => "http".to_owned(),
        (None, false) => "stdio".to_owned(),
    };
    let transport = match kind.as_str() {
        "stdio" => entry.stdio(fields)?,
        "http" | "streamable-http" | "streamableHttp" => entry.http(fields)?,
        "sse" => {
            return entry.wrong(
                "type",
                "the old SSE transport is not supported; most servers also have streamable HTTP: \
                 \"type\": \"http\", often with a url that ends in /mcp",
            );
        }
        other => return entry.wrong("type", format!("there is no transport {other:?} (stdio, http)")),
    };
    let server = McpServer { name: name.to_owned(), origin: place.origin.to_owned(), transport, timeout_ms };
    Ok(Some(server))
}

/// One entry under reading.
#[derive(Clone, Copy)]
struct Entry<'a> {
    name: &'a str,
    place: Place<'a>,
}

impl Entry<'_> {
    fn wrong<T>(&self, key: &str, why: impl std::fmt::Display) -> Result<T, String> {
        let dot = if key.is_empty() { "" } else { "." };
        Err(format!("{}: mcpServers.{}{dot}{key}: {why}", self.place.origin, self.name))
    }

    fn stdio(&self, fields: &Map<String, Value>) -> Result<McpTransport, String> {
        let Some(command) = self.text(fields, "command")?.filter(|command| !command.trim().is_empty()) else {
            return self.wrong("command", "a server needs a command, or a url");
        };
        let mut args = Vec::new();
        match fields.get("args") {
            None => {}
            Some(Value::Array(list)) => {
                for (at, value) in list.iter().enumerate() {
                    let key = format!("args[{at}]");
                    let Some(text) = value.as_str() else {
                        return self.wrong(&key, format!("it must be a text, not {}", kind(value)));
                    };
                    args.push(self.filled(&key, text)?);
                }
            }
            Some(other) => return self.wrong("args", format!("it is a list of texts, not {}", kind(other))),
        }
        let cwd = self.text(fields, "cwd")?;
        let cwd = cwd.map_or_else(|| self.place.cwd.to_owned(), |cwd| self.place.cwd.join(cwd));
        Ok(McpTransport::Stdio { command, args, env: self.texts(fields, "env")?, cwd })
    }

    fn http(&self, fields: &Map<String, Value>) -> Result<McpTransport, String> {
        let Some(url) = self.text(fields, "url")? else {
            return self.wrong("url", "a server of this type needs a url");
        };
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            return self.wrong("url", "it must begin with http:// or https://");
        }
        Ok(McpTransport::Http { url, headers: self.texts(fields, "headers")? })
    }

    fn text(&self, fields: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
        match fields.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => self.filled(key, text).map(Some),
            Some(other) => self.wrong(key, format!("it must be a text, not {}", kind(other))),
        }
    }

    fn texts(&self, fields: &Map<String, Value>, key: &str) -> Result<BTreeMap<String, String>, String> {
        let members = match fields.get(key) {
            None => return Ok(BTreeMap::new()),
            Some(Value::Object(members)) => members,
            Some(other) => {
                return self.wrong(key, format!("it is an object of texts, not {}", kind(other)));
            }
        };
        let mut texts = BTreeMap::new();
        for (name, value) in members {
            let key = format!("{key}.{name}");
            let text = match value {
                Value::String(text) => self.filled(&key, text)?,
                // Common in `env`, and there is only one way to mean it.
                Value::Number(number) => number.to_string(),
                Value::Bool(flag) => flag.to_string(),
                other => return self.wrong(&key, format!("it must be a text, not {}", kind(other))),
            };
            texts.insert(name.clone(), text);
        }
        Ok(texts)
    }

    /// A text with its variables filled in.
    fn filled(&self, key: &str, text: &str) -> Result<String, String> {
        fill(text, self.place.variables).or_else(|why| self.wrong(key, why))
    }
}

/// Fills in `${VAR}` and `${VAR:-default}`; an empty variable counts as unset where there is a default.
/// Anything else with a `$` stays as it is.
fn fill(text: &str, variables: &BTreeMap<String, String>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        filled.push_str(&rest[..start]);
        let after = &rest[start + 2..];
        let Some(end) = after.find('}') else {
            return Err(format!("the variable in {text:?} has no end: a }}"));
        };
        let (name, default) = match after[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&after[..end], None),
        };
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let value = variables.get(name).map(String::as_str);
        match (value.filter(|value| default.is_none() || !value.is_empty()), default) {
            _ if !is_name => filled.push_str(&rest[start..start + 2 + end + 1]),
            (Some(value), _) => filled.push_str(value),
            (None, Some(default)) => filled.push_str(default),
            (None, None) => {
                return Err(format!(
                    "the variable {name} is not set here (give it a value, or write ${{{name}:-default}})"
                ));
            }
        }
        rest = &after[end + 1..];
    }
    filled.push_str(rest);
    Ok(filled)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn variables() -> BTreeMap<String, String> {
        [("TOKEN", "t0k"), ("EMPTY", ""), ("HOST", "db.example")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into()
    }

    fn entries(value: Value) -> Entries {
        let Value::Object(servers) = value else { panic!("an object") };
        let variables = variables();
        read_all(&servers, Place { origin: "f.json", cwd: Path::new("/p"), variables: &variables })
    }

    #[test]
    fn both_transports_are_read_with_their_variables() {
        let read = entries(json!({
            "db": {"command": "${BIN:-db-server}", "args": ["--host", "${HOST}", "$HOME", "${1 x}"],
                   "env": {"KEY": "Bearer ${TOKEN}", "PORT": 5432, "E": "${EMPTY:-none}", "F": "${EMPTY}"},
                   "cwd": "sub", "timeout": 1500},
            "web": {"type": "http", "url": "https://${HOST}/mcp", "headers": {"authorization": "Bearer ${TOKEN}"}},
            "plain": {"url": "http://127.0.0.1:1/mcp"},
            "off": {"command": "x", "disabled": true},
        }));
        let text = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<BTreeMap<_, _>>()
        };
        let server = |name: &str, transport, timeout_ms| McpServer {
            name: name.to_owned(),
            origin: "f.json".to_owned(),
            transport,
            timeout_ms,
        };
        let db = McpTransport::Stdio {
            command: "db-server".to_owned(),
            args: ["--host", "db.example", "$HOME", "${1 x}"].map(str::to_owned).to_vec(),
            env: text(&[("KEY", "Bearer t0k"), ("PORT", "5432"), ("E", "none"), ("F", "")]),
            cwd: "/p/sub".into(),
        };
        let http = |url: &str, headers| McpTransport::Http { url: url.to_owned(), headers };
        let plain = http("http://127.0.0.1:1/mcp", BTreeMap::new());
        let web = http("https://db.example/mcp", text(&[("authorization", "Bearer t0k")]));
        assert_eq!(
            read,
            Entries {
                servers: vec![
                    server("db", db, Some(1500)),
                    server("plain", plain, None),
                    server("web", web, None)
                ],
                disabled: vec!["off".to_owned()],
                ..Entries::default()
            }
        );
    }

    #[test]
    fn a_bad_entry_is_named_by_file_and_key_and_hides_no_other() {
        let bad = [
            (json!(7), ": it must be a JSON object, not a number"),
            (json!({}), ".command: a server needs a command, or a url"),
            (json!({"command": 7}), ".command: it must be a text, not a number"),
            (json!({"command": "x", "args": "y"}), ".args: it is a list of texts, not a text"),
            (json!({"command": "x", "args": ["y", 1]}), ".args[1]: it must be a text, not a number"),
            (json!({"command": "x", "env": {"A": []}}), ".env.A: it must be a text, not a list"),
            (
                json!({"command": "x", "timeout": 0}),
                ".timeout: it is a number of milliseconds, from 1 to a day",
            ),
            (json!({"type": "http"}), ".url: a server of this type needs a url"),
            (json!({"url": "ftp://x"}), ".url: it must begin with http:// or https://"),
            (json!({"type": "ws", "url": "ws://x"}), ".type: there is no transport \"ws\" (stdio, http)"),
            (
                json!({"command": "${NOPE}"}),
                ".command: the variable NOPE is not set here (give it a value, or write ${NOPE:-default})",
            ),
            (json!({"command": "${NOPE"}), ".command: the variable in \"${NOPE\" has no end: a }"),
        ];
        for (value, why) in bad {
            let read = entries(json!({"bad": value, "good": {"command": "x"}}));
            assert_eq!(read.errors, [format!("f.json: mcpServers.bad{why}")]);
            assert_eq!(read.servers.len(), 1, "{why}");
        }
        let sse = entries(json!({"old": {"type": "sse", "url": "https://x/sse"}})).errors;
        assert!(sse[0].starts_with("f.json: mcpServers.old.type: the old SSE transport"), "{sse:?}");
        let odd = entries(json!({"odd": {"command": "x", "colour": 1}}));
        assert_eq!(odd.warnings, ["f.json: mcpServers.odd.colour: unknown key, ignored"]);
    }

    #[test]
    fn a_document_has_a_member_for_the_servers() {
        let variables = variables();
        let place = Place { origin: ".mcp.json", cwd: Path::new("/p"), variables: &variables };
        let read = |text| read_document(text, place);
        assert_eq!(
            read("\u{feff}{\"mcpServers\":{\"a\":{\"command\":\"x\"}}}").expect("reads").servers.len(),
            1
        );
        for text in ["", "[]", "{}", r#"{"mcpServers":[]}"#] {
            assert!(read(text).expect_err(text).starts_with(".mcp.json: "));
        }
    }

    #[test]
    fn what_can_be_printed_holds_no_secret() {
        let read = entries(json!({"web": {"url": "https://x/mcp", "headers": {"a": "${TOKEN}"}}}));
        assert_eq!(format!("{:?}", read.servers), "[McpServer(web from f.json, http)]");
    }
}
